//! A device's promises, before a witness: records are written and reported, and after the power was
//! cut, what the device holds is compared with them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine;
use crate::guard::{self, Confirmations, Lookout, Permit};
use crate::model::cell::{EngineKind, Method};
use crate::model::durability::{Checked, DeviceKey, Pledge};
use crate::model::facts::{DevId, DeviceFacts, DeviceKind};
use crate::model::record::{Level, Note, Record};
use crate::scratch::open_flags;
use crate::sys::buffer::Aligned;
use crate::sys::root::Root;
use crate::target;
use crate::witness::{Comparer, Found, Peer, PeerError, Reports};
use crate::workload::stamp::{self, Stamp};

use super::baseline::{DEVICE, device_target};
use super::survey::{SetupError, Wish, empty_record};

/// The most reports that may be unanswered: what a cut leaves unpromised.
const WINDOW: u64 = 64;
/// A device is read in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// How records are written.
#[derive(Clone, Copy, Debug)]
pub struct Vow {
    /// What is written of the device, from its start: at most.
    pub span_bytes: u64,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// What makes a write durable.
    pub method: Method,
    /// What issues the writes.
    pub engine: EngineKind,
    /// Writing ends after this; none is until a signal, or the power's end.
    pub duration: Option<Duration>,
    /// Or after so many records.
    pub records: Option<u64>,
}

/// A claimed device whose promises are to be witnessed.
#[derive(Debug)]
pub struct Promiser {
    permit: Permit,
    vow: Vow,
    /// What the witness is told.
    pub pledge: Pledge,
}

impl From<PeerError> for SetupError {
    fn from(error: PeerError) -> SetupError {
        match error {
            PeerError::Interrupted => SetupError::Interrupted,
            other => SetupError::Cannot(other.to_string()),
        }
    }
}

/// Claims a device and judges it; nothing is written.
pub fn promiser(root: &Root, path: &Path, vow: Vow) -> Result<Promiser, SetupError> {
    if !matches!(
        vow.method,
        Method::ODsync | Method::OSync | Method::RwfDsync | Method::Fdatasync | Method::Fsync
    ) {
        let text = format!(
            "with method {}, nothing is promised that a witness could hold a device \
                            to; use o_dsync, o_sync, rwf_dsync, fdatasync or fsync",
            vow.method
        );
        return Err(SetupError::Usage(text));
    }
    if vow.engine == EngineKind::Null {
        let text = "the null engine writes nothing that a device could keep";
        return Err(SetupError::Usage(text.to_owned()));
    }
    let permit = guard::check(root, path)?;
    let device = key(root, permit.facts());
    let block_bytes = permit.facts().first().and_then(|d| d.logical_block_bytes);
    let block_bytes = block_bytes.unwrap_or(512).max(1);
    if !vow.record_bytes.is_multiple_of(block_bytes) {
        let text = format!(
            "--record-size {}: the device writes whole blocks of {block_bytes} bytes",
            vow.record_bytes
        );
        return Err(SetupError::Usage(text));
    }
    let span_bytes = vow.span_bytes.min(device.size_bytes);
    let places = span_bytes / vow.record_bytes.max(1);
    let pledge = Pledge {
        id: format!("{:032x}", fastrand::u128(..)),
        span_bytes: span_bytes - span_bytes % vow.record_bytes.max(1),
        record_bytes: vow.record_bytes,
        method: vow.method,
        engine: vow.engine,
        window: WINDOW.min(places.saturating_sub(1) / 2),
        boot_id: boot_id(root)?,
        started: jiff::Timestamp::now().to_string(),
        device,
    };
    if let Some(fault) = pledge.fault() {
        return Err(SetupError::Usage(fault));
    }
    Ok(Promiser {
        permit,
        vow,
        pledge,
    })
}

impl Promiser {
    /// What the guard can't rule out.
    pub fn doubts(&self) -> Vec<String> {
        self.permit.doubts(false)
    }

    /// What overwriting the device must be confirmed with.
    pub fn confirmations(&self) -> Confirmations {
        self.permit.confirmations()
    }

    /// Writes records and reports each to the witness at `address`, until the time is over or `stop` is
    /// set, and says goodbye. `promised` is called once the first one is promised. Gives how many were
    /// acknowledged.
    pub fn promise(
        self,
        address: &str,
        confirmation: (&str, bool),
        stop: &AtomicBool,
        promised: &mut dyn FnMut(&Pledge) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let Promiser {
            permit,
            vow,
            pledge,
        } = self;
        let (typed, force) = confirmation;
        let grant = permit.overwrite(pledge.span_bytes, typed, force);
        let grant = grant.map_err(SetupError::from)?;
        let fd = grant.open(open_flags(pledge.method, true));
        let fd = fd.map_err(SetupError::from)?;
        let mut reports = Reports::begin(address, &pledge, stop).map_err(SetupError::from)?;
        let begun = Instant::now();
        let mut lookout = Lookout::default();
        let mut more = |written: u64| {
            lookout.look([&grant]).map_err(SetupError::from)?;
            Ok(!stop.load(Ordering::Relaxed)
                && vow.duration.is_none_or(|time| begun.elapsed() < time)
                && vow.records.is_none_or(|records| written < records))
        };
        let acknowledged = write(fd.as_fd(), &pledge, &mut reports, &mut more, promised)?;
        reports.end().map_err(SetupError::from)?;
        Ok(acknowledged)
    }
}

/// Writes records one after the other and reports each, while `more` says so. Gives how many were
/// acknowledged.
fn write(
    fd: BorrowedFd<'_>,
    pledge: &Pledge,
    reports: &mut Reports<'_>,
    more: &mut dyn FnMut(u64) -> Result<bool, SetupError>,
    promised: &mut dyn FnMut(&Pledge) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let run = pledge.run().unwrap_or_default();
    let mut sequence = 0;
    let mut failed = None;
    let mut next = |bytes: &mut [u8]| -> anyhow::Result<Option<u64>> {
        if sequence > 0 {
            reports.wrote(sequence).map_err(SetupError::from)?;
        }
        if sequence == 1 {
            reports.settle().map_err(SetupError::from)?;
            promised(pledge)?;
        }
        if !more(sequence)? {
            return Ok(None);
        }
        reports.room_for(sequence + 1).map_err(SetupError::from)?;
        sequence += 1;
        let stamp = Stamp {
            run,
            sequence,
            offset_bytes: pledge.offset_bytes(sequence),
            length_bytes: pledge.record_bytes as u32,
        };
        stamp::write(&stamp, bytes);
        Ok(Some(stamp.offset_bytes))
    };
    engine::one_by_one(
        fd,
        pledge.engine,
        pledge.method,
        pledge.record_bytes as usize,
        &mut |bytes| {
            next(bytes).unwrap_or_else(|error| {
                failed = Some(error);
                None
            })
        },
    )
    .map_err(SetupError::from)?;
    match failed {
        // A signal while the witness was waited for ends a run as one between two records does.
        Some(error) if !is_interruption(&error) => Err(error),
        _ => Ok(sequence),
    }
}

fn is_interruption(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(SetupError::Interrupted))
}

/// Reads a device, which is not written, and compares it with what the witness at `address` was
/// promised: by the run `id`, or by the newest run that wrote to the device. The witness is told what came
/// of it.
pub fn verify(
    root: &Root,
    wish: Wish,
    path: &Path,
    address: &str,
    id: Option<String>,
) -> Result<Record, SetupError> {
    let device = open_device(path)?;
    let dev = device.metadata().map(|found| DevId::from_dev(found.rdev()));
    let stack = dev.and_then(|dev| target::stack(root, dev));
    let stack = stack.map_err(|error| cannot(path, "find it in sysfs", &error))?;
    let key = key(root, &stack);
    let found = Peer::connect(address)?.find(id.clone(), key.clone())?;
    let found = found.ok_or_else(|| unknown(path, address, id.as_deref()))?;
    if id.is_some() && !found.pledge.device.is_same(&key) {
        let text = format!(
            "{}: the run was of {} on {}, which is not this device",
            path.display(),
            found.pledge.device.name,
            found.pledge.device.hostname
        );
        return Err(SetupError::Usage(text));
    }
    if let Some(later) = &found.later {
        let text = format!(
            "{}: run {later} began after run {}, and wrote where it had: what is missing now tells nothing",
            path.display(),
            found.pledge.id
        );
        return Err(SetupError::Usage(text));
    }
    let mut notes = Vec::new();
    let mut checked = compare(&device, path, root, &found, &mut notes)?;
    let id = checked.pledge.id.clone();
    // Anew: reading may have taken longer than a witness waits for anybody.
    let told = Peer::connect(address)
        .and_then(|mut peer| peer.checked(id, checked.boot_id.clone(), checked.counts));
    match told {
        Ok(tally) => checked.tally = tally,
        Err(error) => notes.push(Note {
            level: Level::Warning,
            target: None,
            text: format!("{error}; it does not count this comparison"),
        }),
    }
    let mut record = empty_record(root, &wish, notes);
    record.durability.get_or_insert_default().checked = Some(checked);
    let mut target = device_target(DEVICE, path.display().to_string(), stack);
    target::ask_drives(root, &mut target.stack);
    record.targets.push(target);
    Ok(record)
}

fn open_device(path: &Path) -> Result<File, SetupError> {
    // O_PATH opens nothing: what is no block device may mind (open(2)).
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path);
    let place = place.map_err(|error| cannot(path, "look at it", &error))?;
    let is_device = place
        .metadata()
        .map(|found| found.file_type().is_block_device());
    if !is_device.map_err(|error| cannot(path, "look at it", &error))? {
        let text = format!(
            "{}: is not a block device; name the one that was written",
            path.display()
        );
        return Err(SetupError::Usage(text));
    }
    // What the page cache holds is not what the device does. And a run that still writes holds the device
    // with O_EXCL: what is read while it goes on would look out of order.
    let device = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT | libc::O_EXCL)
        .open(path);
    device.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => SetupError::Cannot(format!(
            "{}: is in use; if a run still writes records, end it or cut the power first",
            path.display()
        )),
        _ => cannot(path, "open it for reading", &error),
    })
}

fn compare(
    device: &File,
    path: &Path,
    root: &Root,
    found: &Found,
    notes: &mut Vec<Note>,
) -> Result<Checked, SetupError> {
    let pledge = &found.pledge;
    let comparer = Comparer::new(pledge, found.promised, found.ended);
    let mut comparer = comparer.ok_or_else(|| {
        SetupError::Cannot("what the witness knows of the run makes no sense".to_owned())
    })?;
    let record_bytes = pledge.record_bytes as usize;
    let each = (PIECE_BYTES / record_bytes).max(1);
    let buffer = Aligned::new(each * record_bytes);
    let mut buffer = buffer.map_err(|error| cannot(path, "get memory to read it", &error))?;
    let (places, mut place, mut unreadable) = (comparer.places(), 0, Vec::new());
    while place < places {
        let count = (each as u64).min(places - place) as usize;
        let start_bytes = place * pledge.record_bytes;
        let piece = &mut buffer[..count * record_bytes];
        let is_read = device.read_exact_at(piece, start_bytes).is_ok();
        for (record, offset_bytes) in piece
            .chunks_exact_mut(record_bytes)
            .zip((start_bytes..).step_by(record_bytes))
        {
            let read = match is_read {
                true => Ok(()),
                false => device.read_exact_at(record, offset_bytes),
            };
            match &read {
                Err(error) if !is_the_mediums(error) => return Err(cannot(path, "read it", error)),
                _ => comparer.place(read.is_ok().then_some(&*record)),
            }
            unreadable.extend(read.err().map(|error| (offset_bytes, error)));
        }
        place += count as u64;
    }
    notes.extend(unreadable_note(&unreadable));
    let comparison = comparer.compare();
    Ok(Checked {
        pledge: pledge.clone(),
        promised: found.promised,
        ended: found.ended,
        boot_id: boot_id(root)?,
        newest: comparison.newest,
        counts: comparison.counts,
        missing: comparison.missing,
        tally: Default::default(),
    })
}

/// The device was asked, and could not give what it holds (blk_errors in block/blk-core.c), rather than
/// asked wrongly, or gone.
fn is_the_mediums(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO)
    )
}

fn unreadable_note(unreadable: &[(u64, io::Error)]) -> Option<Note> {
    let (offset_bytes, error) = unreadable.first()?;
    Some(Note {
        level: Level::Warning,
        target: Some(DEVICE.to_owned()),
        text: format!(
            "{} records can't be read, the first at {offset_bytes}: {error}; they count as lost",
            unreadable.len()
        ),
    })
}

fn unknown(path: &Path, address: &str, id: Option<&str>) -> SetupError {
    SetupError::Cannot(match id {
        Some(id) => format!("the witness at {address} knows no run {id}"),
        None => format!(
            "the witness at {address} knows no run that wrote to {}; name the device that was written, or a \
             run with --run",
            path.display()
        ),
    })
}

/// What tells a device from others: a serial number is its own drive's.
fn key(root: &Root, stack: &[DeviceFacts]) -> DeviceKey {
    let drive = match stack {
        [partition, disk, ..] if partition.kind == DeviceKind::Partition => Some(disk),
        stack => stack.first(),
    };
    let first = stack.first();
    DeviceKey {
        hostname: target::host(root).hostname,
        name: first.map(|device| device.name.clone()).unwrap_or_default(),
        serial: drive.and_then(|drive| drive.serial.clone()),
        model: drive.and_then(|drive| drive.model.clone()),
        start_bytes: first.and_then(|d| d.partition_start_bytes).unwrap_or(0),
        size_bytes: first.map_or(0, |device| device.size_bytes),
    }
}

fn boot_id(root: &Root) -> Result<String, SetupError> {
    target::boot_id(root)
        .map_err(|error| SetupError::Cannot(format!("cannot read this boot's id: {error}")))
}

fn cannot(path: &Path, doing: &str, error: &io::Error) -> SetupError {
    SetupError::Cannot(format!("{}: cannot {doing}: {error}", path.display()))
}
