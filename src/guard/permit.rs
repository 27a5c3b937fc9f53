//! A claimed device, and how the claim becomes a grant.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};

use super::content;
use super::grant::{Preserved, WriteGrant};
use super::judge::judge_uses;
use super::node::Node;
use super::refusal::{Refusal, SPAN};
use super::signature::{self, Signature, Unreadable};
use crate::model::facts::DeviceFacts;
use crate::model::units::show_bytes;
use crate::sys::buffer::Aligned;
use crate::sys::root::Root;
use crate::target::{self, Need, Takes};

/// The most that a preserving grant keeps in memory.
pub const MAX_PRESERVED_BYTES: u64 = 1 << 30;
/// The span is read in pieces of this size, so that a slow device can be left in between.
const PIECE_BYTES: usize = 4 << 20;

/// A device that nobody uses, claimed for as long as this lives: the kernel lets nobody mount it,
/// swap on it or build on it meanwhile.
#[derive(Debug)]
pub struct Permit {
    pub(super) root: Root,
    pub(super) node: Node,
    facts: Vec<DeviceFacts>,
    signature: Option<Signature>,
    size_bytes: u64,
    logical_block_bytes: u64,
}

/// What confirms that a device may be overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmations {
    /// Its kernel name.
    pub name: String,
    /// Its serial number, if it is a whole drive.
    pub serial: Option<String>,
}

impl Confirmations {
    fn accept(&self, typed: &str) -> bool {
        typed == self.name || self.serial.as_deref() == Some(typed)
    }
}

impl fmt::Display for Confirmations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.serial {
            Some(serial) => write!(f, "{} or {serial}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl Permit {
    pub(super) fn new(
        root: &Root,
        node: Node,
        facts: Vec<DeviceFacts>,
        size_bytes: u64,
        logical_block_bytes: u64,
    ) -> Result<Permit, Refusal> {
        Ok(Permit {
            root: root.clone(),
            facts,
            signature: signature_of(&node, 0, size_bytes)?,
            size_bytes,
            logical_block_bytes,
            node,
        })
    }

    /// The device, then all below it.
    pub fn facts(&self) -> &[DeviceFacts] {
        &self.facts
    }

    /// What the judgement can't rule out, for the user to weigh. `preserves`: what the device holds is
    /// written back.
    pub fn doubts(&self, preserves: bool) -> Vec<String> {
        let mut doubts = Vec::new();
        if !target::sees_all_processes(&self.root) {
            doubts.push(
                "this process lives in a PID namespace of its own, as in a container, so programs outside \
                 of it that write the device can't be seen; make sure that there are none, or run outside"
                    .to_owned(),
            );
        }
        if !target::sees_open_files(&self.root) {
            doubts.push(
                "this user may not look into other users' processes, so programs of theirs that write the device \
                 can't be seen; make sure that there are none, or run as root (CAP_SYS_PTRACE and \
                 CAP_DAC_READ_SEARCH)"
                    .to_owned(),
            );
        }
        if preserves {
            let needs = target::takes_space(&self.root, self.node.dev, u64::MAX);
            doubts.extend(needs.iter().map(space_doubt));
        }
        doubts
    }

    /// What confirms that it may be overwritten.
    pub fn confirmations(&self) -> Confirmations {
        // The serial number of the drive below a partition or a stack confirms nothing: it is the
        // same for every partition of it, and for every device on it.
        let own = self.facts.first();
        Confirmations {
            name: self.node.name.clone(),
            serial: own
                .and_then(|device| device.serial.clone())
                .filter(|serial| target::is_only_serial(&self.root, serial)),
        }
    }

    /// A grant to write back the bytes that the first `span_bytes` hold now; all of a device that
    /// is shorter. They are read here, and no other write than of these bytes to their own place is
    /// meant by the grant. Refuses a span that is not whole logical blocks or is more than 1 GiB,
    /// which stays in memory, and a device that other hosts may be writing, whose bytes would go back
    /// over theirs. `more` is asked now and then whether to go on reading.
    pub fn preserve(self, span_bytes: u64, more: &dyn Fn() -> bool) -> Result<WriteGrant, Refusal> {
        let span_bytes = self.span(span_bytes)?;
        if span_bytes > MAX_PRESERVED_BYTES {
            let why = format!(
                "it is kept in memory, so it may be {} at most; give a smaller --span",
                show_bytes(MAX_PRESERVED_BYTES)
            );
            return Err(self.bad_span(span_bytes, why));
        }
        self.refuse_shared()?;
        self.refuse_filling(span_bytes)?;
        let device = self.node.reopen(
            &self.root,
            "open it for reading",
            OFlag::O_RDONLY | OFlag::O_DIRECT,
        )?;
        let room = usize::try_from(span_bytes)
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))
            .and_then(Aligned::new);
        let mut bytes = room.map_err(|source| Refusal::NoMemory {
            device: self.node.name.clone(),
            span_bytes,
            source,
        })?;
        let block_bytes = self.logical_block_bytes.max(512) as usize;
        read_span(&device, &mut bytes, block_bytes, more)
            .map_err(|bad| self.node.unreadable(SPAN, bad))?;
        // What was read is only worth keeping if it came from the device that was checked.
        self.node.verify(&device)?;
        let content = content::classify(&bytes);
        Ok(WriteGrant::on_span(
            self.root,
            self.node,
            span_bytes,
            Some(Preserved { bytes, content }),
        ))
    }

    /// A grant to write anything to the first `span_bytes`; all of a device that is shorter.
    /// Refuses a device with something on it unless `force`, and a confirmation that is neither
    /// the device's kernel name nor its serial number. It is judged again, because a prompt may have
    /// waited for long.
    pub fn overwrite(
        self,
        span_bytes: u64,
        confirmation: &str,
        force: bool,
    ) -> Result<WriteGrant, Refusal> {
        let span_bytes = self.span(span_bytes)?;
        self.confirm_overwriting(confirmation, force)?;
        Ok(WriteGrant::on_span(self.root, self.node, span_bytes, None))
    }

    /// The claimed device.
    pub(super) fn file(&self) -> &File {
        &self.node.file
    }

    pub(super) fn confirm_overwriting(
        &self,
        confirmation: &str,
        force: bool,
    ) -> Result<(), Refusal> {
        self.confirm("overwriting", confirmation)?;
        self.node.verify(&self.node.file)?;
        judge_uses(&self.root, self.node.dev, &self.node.name)?;
        self.refuse_signature(force)
    }

    /// As [`Permit::overwrite`] of the whole device, whose content may be discarded besides, which
    /// `purge` confirms.
    pub fn purge(
        self,
        confirmation: &str,
        force: bool,
        purge: &str,
    ) -> Result<WriteGrant, Refusal> {
        self.confirm("purging", purge)?;
        let block = self.logical_block_bytes.max(1);
        let span_bytes = self.size_bytes / block * block;
        let grant = self.overwrite(span_bytes, confirmation, force)?;
        Ok(grant.purging())
    }

    /// Refuses what lies on the device now. `force` is meant for what lay there when it was claimed.
    fn refuse_signature(&self, force: bool) -> Result<(), Refusal> {
        let device = self.node.name.clone();
        let found = signature_of(&self.node, 0, self.size_bytes)?;
        match found {
            Some(found) if !force => Err(Refusal::SignaturePresent {
                device,
                signature: found.what,
            }),
            _ if found != self.signature => Err(Refusal::DeviceChanged {
                device,
                detail: match found {
                    Some(found) => format!("it holds {} now", found.what),
                    None => "what it held is gone".to_owned(),
                },
            }),
            _ => Ok(()),
        }
    }

    /// Refuses what other hosts may be using, on the device or on a partition of it.
    fn refuse_shared(&self) -> Result<(), Refusal> {
        let mut places = vec![(0, self.size_bytes)];
        places.extend(target::partition_places(&self.root, self.node.dev));
        for (start_bytes, length_bytes) in places {
            let size_bytes = length_bytes.min(self.size_bytes.saturating_sub(start_bytes));
            let found = signature_of(&self.node, start_bytes, size_bytes)?;
            if let Some(found) = found.filter(Signature::is_shared) {
                return Err(Refusal::Shared {
                    device: self.node.name.clone(),
                    signature: found.what,
                });
            }
        }
        Ok(())
    }

    /// Refuses to fill what the device takes its space from by writing back what was never written.
    fn refuse_filling(&self, span_bytes: u64) -> Result<(), Refusal> {
        for need in target::takes_space(&self.root, self.node.dev, span_bytes) {
            let Some((size_bytes, free_bytes)) = need.room_bytes else {
                continue;
            };
            if need.needed_bytes > target::allowed_bytes(size_bytes, free_bytes) {
                return Err(Refusal::NoRoom {
                    device: self.node.name.clone(),
                    from: match need.takes {
                        Takes::Pool => format!("the pool {}", need.device),
                        Takes::Snapshot => format!("the snapshot {}", need.device),
                        Takes::Image { path } => format!("the filesystem of {path}"),
                    },
                    needed_bytes: need.needed_bytes,
                    rule: target::free_rule(size_bytes, free_bytes),
                });
            }
        }
        Ok(())
    }

    fn confirm(&self, what: &'static str, given: &str) -> Result<(), Refusal> {
        let accepted = self.confirmations();
        match accepted.accept(given) {
            true => Ok(()),
            false => Err(Refusal::WrongConfirmation {
                what,
                given: given.to_owned(),
                accepted: accepted.to_string(),
                device: self.node.name.clone(),
            }),
        }
    }

    /// The span that a wish comes to on this device.
    fn span(&self, wish_bytes: u64) -> Result<u64, Refusal> {
        let block = self.logical_block_bytes.max(1);
        if wish_bytes == 0 || !wish_bytes.is_multiple_of(block) {
            let why = format!("it must be a multiple of the device's block of {block} bytes");
            return Err(self.bad_span(wish_bytes, why));
        }
        Ok(wish_bytes.min(self.size_bytes / block * block))
    }

    fn bad_span(&self, span_bytes: u64, why: String) -> Refusal {
        Refusal::BadSpan {
            device: self.node.name.clone(),
            span_bytes,
            why,
        }
    }
}

/// To write back what is there changes no byte, and yet may fill what the device lies on.
fn space_doubt(need: &Need) -> String {
    let device = &need.device;
    match &need.takes {
        Takes::Pool => format!(
            "{device} is the pool that it lies on: writing back what is there may take space from that, for \
             blocks that were never written or that snapshots share; see that the pool has room"
        ),
        Takes::Snapshot => format!(
            "the snapshot {device} gets a copy of what is written: writing back what is there takes its \
             space and is slower; see that it has room, or measure without it"
        ),
        Takes::Image { path } => format!(
            "{device} lies on {path}, which has holes: writing back what is there fills them, and takes as \
             much of that filesystem's space as --span has"
        ),
    }
}

/// What lies on a part of a device, as the device has it: what the page cache still holds from another
/// look may be older than what was written past it, as by another path to the drive.
fn signature_of(
    node: &Node,
    start_bytes: u64,
    size_bytes: u64,
) -> Result<Option<Signature>, Refusal> {
    posix_fadvise(&node.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
        .map_err(|errno| node.failure("read its signature", errno.into()))?;
    signature::find(&node.file, start_bytes, size_bytes)
        .map_err(|bad| node.unreadable("its signature", bad))
}

fn read_span(
    device: &File,
    span: &mut [u8],
    block_bytes: usize,
    more: &dyn Fn() -> bool,
) -> Result<(), Unreadable> {
    let at = |offset_bytes| {
        move |source| Unreadable {
            offset_bytes,
            source,
        }
    };
    for (piece, start) in span.chunks_mut(PIECE_BYTES).zip((0..).step_by(PIECE_BYTES)) {
        if !more() {
            return Err(at(start)(io::ErrorKind::Interrupted.into()));
        }
        if device.read_exact_at(piece, start).is_ok() {
            continue;
        }
        // Which block it is that can't be read.
        for (block, start) in piece
            .chunks_mut(block_bytes)
            .zip((start..).step_by(block_bytes))
        {
            device.read_exact_at(block, start).map_err(at(start))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::DeviceKind;
    use crate::model::fixture::stack;

    fn confirmations(facts: Vec<DeviceFacts>) -> Confirmations {
        let permit = Permit {
            root: Root::host(),
            node: Node {
                file: tempfile::tempfile().unwrap(),
                name: "sda1".into(),
                dev: "8:1".parse().unwrap(),
                diskseq: None,
            },
            facts,
            signature: None,
            size_bytes: 4096,
            logical_block_bytes: 512,
        };
        permit.confirmations()
    }

    #[test]
    fn a_serial_number_confirms_a_whole_drive_and_no_partition_of_it() {
        let mut disk = stack().remove(0);
        disk.serial = Some("S123".into());
        let whole = confirmations(vec![disk.clone()]);
        assert!(whole.accept("S123") && whole.accept("sda1"));
        let mut partition = disk.clone();
        partition.kind = DeviceKind::Partition;
        partition.serial = None;
        let one_of_many = confirmations(vec![partition, disk]);
        assert!(!one_of_many.accept("S123"));
        assert!(one_of_many.accept("sda1"));
        assert_eq!(one_of_many.to_string(), "sda1");
    }

    #[test]
    fn reading_a_span_ends_when_told() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PIECE_BYTES as u64 + 512).unwrap();
        file.write_all_at(b"end", 2 * PIECE_BYTES as u64).unwrap();
        let mut bytes = vec![0; 2 * PIECE_BYTES + 512];
        read_span(&file, &mut bytes, 512, &|| true).unwrap();
        assert_eq!(&bytes[2 * PIECE_BYTES..][..3], b"end");
        file.set_len(PIECE_BYTES as u64 + 3 * 512 + 1).unwrap();
        let bad = read_span(&file, &mut bytes, 512, &|| true).unwrap_err();
        assert_eq!(bad.offset_bytes, PIECE_BYTES as u64 + 3 * 512);
        let asked = std::cell::Cell::new(0);
        let more = || {
            asked.set(asked.get() + 1);
            asked.get() < 2
        };
        let error = read_span(&file, &mut bytes, 512, &more).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::Interrupted);
    }
}
