//! Claims a device and judges it; then turns the claim into a grant.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::{AccessFlags, access};

use super::content;
use super::grant::{Preserved, WriteGrant};
use super::judge::judge;
use super::node::{Node, reopen};
use super::refusal::{Member, Refusal};
use super::signature::{self, Signature};
use crate::model::facts::{DevId, DeviceFacts, DeviceKind};
use crate::model::units::show_bytes;
use crate::sys::buffer::Aligned;
use crate::sys::ioctl;
use crate::sys::root::Root;
use crate::target;

/// The most that a preserving grant keeps in memory.
pub const MAX_PRESERVED_BYTES: u64 = 1 << 30;
/// The span is read in pieces of this size, so that a slow device can be left in between.
const PIECE_BYTES: usize = 4 << 20;

/// A device that nobody uses, claimed for as long as this lives: the kernel lets nobody mount it,
/// swap on it or build on it meanwhile.
#[derive(Debug)]
pub struct Permit {
    root: Root,
    node: Node,
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
    /// The serial number of its drive.
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

/// Claims the block device that a path names, and judges it. Nothing is created and nothing is
/// written; what isn't a block device is not even opened.
pub fn check(root: &Root, path: &Path) -> Result<Permit, Refusal> {
    let node = claim(root, path, OFlag::O_RDWR)?;
    // Claimed first and looked at then: who comes later fails on the claim.
    judge_uses(root, node.dev, &node.name)?;
    refuse_read_only(&node)?;
    let size_bytes =
        ioctl::size_bytes(&node.file).map_err(|e| node.failure("ask for its size", e))?;
    let logical_block_bytes = ioctl::logical_block_bytes(&node.file)
        .map_err(|e| node.failure("ask for its block size", e))?;
    if size_bytes < logical_block_bytes.max(1) {
        return Err(Refusal::TooSmall {
            device: node.name,
            size_bytes,
        });
    }
    let facts = target::stack(root, node.dev).map_err(|e| node.failure("find it in sysfs", e))?;
    refuse_zoned(&facts)?;
    let signature = signature::find(&node.file, size_bytes)
        .map_err(|e| node.failure("read its signature", e))?;
    Ok(Permit {
        root: root.clone(),
        node,
        facts,
        signature,
        size_bytes,
        logical_block_bytes,
    })
}

/// Whether [`check`] would let a device be written, for a list: the claim is given up at once.
/// Without the right to write it, [`Refusal::NoPermission`], unless its uses alone speak against
/// it. The device is opened for reading only, because udev looks anew at every device that was open
/// for writing.
pub fn writable(root: &Root, device: &DeviceFacts) -> Result<(), Refusal> {
    let path = target::device_node(root, device.dev).map_err(|source| Refusal::Io {
        device: device.name.clone(),
        doing: "find its node under /dev",
        source,
    });
    let path = match path {
        Ok(path) => path,
        Err(lost) => {
            judge_uses(root, device.dev, &device.name)?;
            return Err(lost);
        }
    };
    // Judged before and not under the claim: a mount that starts meanwhile shouldn't fail on a list.
    judge_uses(root, device.dev, &device.name)?;
    refuse_read_only(&claim(root, &path, OFlag::O_RDONLY)?)?;
    refuse_zoned(std::slice::from_ref(device))?;
    access(&path, AccessFlags::W_OK).map_err(|errno| Refusal::NoPermission {
        path: path.display().to_string(),
        source: errno.into(),
    })
}

/// Claims the device that a path names, or finds out why the kernel refuses that.
fn claim(root: &Root, path: &Path, access: OFlag) -> Result<Node, Refusal> {
    let (place, dev) = find(path)?;
    let name = target::stack(root, dev)
        .ok()
        .and_then(|stack| stack.first().map(|device| device.name.clone()))
        .unwrap_or_else(|| path.display().to_string());
    // O_EXCL without O_CREAT claims a block device: it fails if a filesystem, swap, md, dm or
    // another claim has it, whole or by a partition (open(2), block/bdev.c).
    let claimed = reopen(root, &place, access | OFlag::O_EXCL)
        .map_err(|error| explain(root, path, &place, dev, &name, error))?;
    Node::new(claimed, name, dev)
}

/// A device that is set read-only may open for writing and fail later.
fn refuse_read_only(node: &Node) -> Result<(), Refusal> {
    match ioctl::is_read_only(&node.file) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Refusal::ReadOnly {
            device: node.name.clone(),
        }),
        Err(error) => Err(node.failure("ask whether it is read-only", error)),
    }
}

/// A write to a sequential zone moves its write pointer, so not even the bytes that are there can be
/// written back without a change that its user would stumble on.
fn refuse_zoned(stack: &[DeviceFacts]) -> Result<(), Refusal> {
    match stack.first() {
        Some(device) if device.zoned.as_deref() == Some("host-managed") => Err(Refusal::Zoned {
            device: device.name.clone(),
        }),
        _ => Ok(()),
    }
}

/// What a path names, if that is a block device. O_PATH opens nothing: it has no effect on what the
/// path names, whatever that is (open(2)).
fn find(path: &Path) -> Result<(File, DevId), Refusal> {
    let shown = path.display().to_string();
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path);
    let found = place.and_then(|place| place.metadata().map(|found| (place, found)));
    let (place, found) = found.map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => Refusal::NotFound {
            path: shown.clone(),
        },
        Some(libc::EACCES | libc::EPERM) => Refusal::NoPermission {
            path: shown.clone(),
            source,
        },
        _ => Refusal::Io {
            device: shown.clone(),
            doing: "look at it",
            source,
        },
    })?;
    if !found.file_type().is_block_device() {
        return Err(Refusal::NotBlockDevice {
            path: shown,
            what: sort_of(&found),
        });
    }
    Ok((place, DevId::from_dev(found.rdev())))
}

fn sort_of(found: &Metadata) -> &'static str {
    let sort = found.file_type();
    if sort.is_dir() {
        "a directory"
    } else if sort.is_file() {
        "a regular file"
    } else if sort.is_char_device() {
        "a character device"
    } else {
        "a pipe or socket"
    }
}

/// Refuses if a use of the device is known.
fn judge_uses(root: &Root, dev: DevId, name: &str) -> Result<(), Refusal> {
    let usage = target::usage::usage(root, dev).map_err(|source| Refusal::Io {
        device: name.to_owned(),
        doing: "find it in sysfs",
        source,
    })?;
    judge(&usage).map_or(Ok(()), Err)
}

/// Why the kernel refused the claim.
fn explain(
    root: &Root,
    path: &Path,
    place: &File,
    dev: DevId,
    name: &str,
    source: io::Error,
) -> Refusal {
    let device = name.to_owned();
    let shown = path.display().to_string();
    // Without a driver or a medium behind the node, there is nothing to judge.
    if let Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) = source.raw_os_error() {
        return Refusal::NotFound { path: shown };
    }
    if let Err(refusal) = judge_uses(root, dev, name) {
        return refusal;
    }
    match source.raw_os_error() {
        Some(libc::EBUSY) => match member_by_signature(root, place) {
            Some(member) => Refusal::MemberInUse { device, member },
            None => Refusal::Busy { device },
        },
        // Kernels differ in which of these a read-only device gives.
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            let read_only = target::stack(root, dev)
                .ok()
                .and_then(|stack| stack.first()?.read_only);
            match read_only {
                Some(true) => Refusal::ReadOnly { device },
                _ => Refusal::NoPermission {
                    path: shown,
                    source,
                },
            }
        }
        _ => Refusal::Io {
            device,
            doing: "open it for writing",
            source,
        },
    }
}

/// What a claimed device is a member of, by its signature; none if that tells nothing.
fn member_by_signature(root: &Root, place: &File) -> Option<Member> {
    let device = reopen(root, place, OFlag::O_RDONLY).ok()?;
    let size_bytes = ioctl::size_bytes(&device).ok()?;
    signature::find(&device, size_bytes).ok()??.member
}

impl Permit {
    /// The device, then all below it.
    pub fn facts(&self) -> &[DeviceFacts] {
        &self.facts
    }

    /// What the judgement can't rule out, for the user to weigh.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if !target::sees_all_processes(&self.root) {
            doubts.push(
                "this process lives in a PID namespace of its own, as in a container, so programs outside \
                 of it that write the device can't be seen; make sure that there are none, or run outside"
                    .to_owned(),
            );
        }
        doubts
    }

    /// What confirms that it may be overwritten.
    pub fn confirmations(&self) -> Confirmations {
        // The serial of a drive below a stack confirms nothing: it would be the same for every
        // device on it.
        let drive = match self.facts.as_slice() {
            [partition, disk, ..] if partition.kind == DeviceKind::Partition => Some(disk),
            facts => facts.first(),
        };
        Confirmations {
            name: self.node.name.clone(),
            serial: drive.and_then(|drive| drive.serial.clone()),
        }
    }

    /// A grant to write back the bytes that the first `span_bytes` hold now; all of a device that
    /// is shorter. They are read here, and no other write than of these bytes to their own place is
    /// meant by the grant. Refuses a span that is not whole logical blocks or is more than 1 GiB,
    /// which stays in memory. `more` is asked now and then whether to go on reading.
    pub fn preserve(self, span_bytes: u64, more: &dyn Fn() -> bool) -> Result<WriteGrant, Refusal> {
        let span_bytes = self.span(span_bytes)?;
        if span_bytes > MAX_PRESERVED_BYTES {
            let why = format!(
                "it is kept in memory, so it may be {} at most; give a smaller --span",
                show_bytes(MAX_PRESERVED_BYTES)
            );
            return Err(self.bad_span(span_bytes, why));
        }
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
        read_span(&device, &mut bytes, more)
            .map_err(|source| self.node.failure("read the span", source))?;
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
    /// the device's kernel name nor the serial number of its drive.
    pub fn overwrite(
        self,
        span_bytes: u64,
        confirmation: &str,
        force: bool,
    ) -> Result<WriteGrant, Refusal> {
        if let (Some(signature), false) = (self.signature, force) {
            return Err(Refusal::SignaturePresent {
                device: self.node.name,
                signature: signature.what,
            });
        }
        self.confirm("overwriting", confirmation)?;
        let span_bytes = self.span(span_bytes)?;
        self.node.verify(&self.node.file)?;
        Ok(WriteGrant::on_span(self.root, self.node, span_bytes, None))
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

fn read_span(device: &File, span: &mut [u8], more: &dyn Fn() -> bool) -> io::Result<()> {
    for (piece, at) in span.chunks_mut(PIECE_BYTES).zip((0..).step_by(PIECE_BYTES)) {
        if !more() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        device.read_exact_at(piece, at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::stack;
    use std::os::unix::fs::symlink;

    #[test]
    fn zones_that_are_written_in_order_are_not_written() {
        let mut stack = stack();
        assert!(refuse_zoned(&stack).is_ok());
        stack[0].zoned = Some("host-managed".into());
        let refusal = refuse_zoned(&stack).unwrap_err();
        assert!(matches!(refusal, Refusal::Zoned { .. }), "{refusal}");
    }

    #[test]
    fn reading_a_span_ends_when_told() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * PIECE_BYTES as u64 + 512).unwrap();
        file.write_all_at(b"end", 2 * PIECE_BYTES as u64).unwrap();
        let mut bytes = vec![0; 2 * PIECE_BYTES + 512];
        read_span(&file, &mut bytes, &|| true).unwrap();
        assert_eq!(&bytes[2 * PIECE_BYTES..][..3], b"end");
        let asked = std::cell::Cell::new(0);
        let more = || {
            asked.set(asked.get() + 1);
            asked.get() < 2
        };
        let error = read_span(&file, &mut bytes, &more).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_missing_device_is_refused_and_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sdz");
        let refusal = check(&Root::host(), &path).unwrap_err();
        assert!(matches!(refusal, Refusal::NotFound { .. }), "{refusal}");
        assert!(!path.exists());
        let below_a_file = dir.path().join("file/sdz");
        std::fs::write(dir.path().join("file"), "").unwrap();
        let refusal = check(&Root::host(), &below_a_file).unwrap_err();
        assert!(matches!(refusal, Refusal::NotFound { .. }), "{refusal}");
    }

    #[test]
    fn what_is_no_block_device_is_refused_by_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "keep").unwrap();
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        for (path, what) in [
            (dir.path(), "a directory"),
            (&file, "a regular file"),
            (&link, "a regular file"),
            (Path::new("/dev/null"), "a character device"),
        ] {
            let refusal = check(&Root::host(), path).unwrap_err();
            assert!(
                matches!(refusal, Refusal::NotBlockDevice { .. }),
                "{refusal}"
            );
            assert!(refusal.to_string().contains(what), "{refusal}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"keep");
    }
}
