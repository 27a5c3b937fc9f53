//! What a device holds of its promises, once its power was cut.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::model::devid::DevId;
use crate::model::durability::Checked;
use crate::model::record::{Level, Note, Record};
use crate::sys::buffer::Aligned;
use crate::sys::root::Root;
use crate::target;
use crate::witness::{Comparer, Found, Peer};

use super::baseline::{DEVICE, device_target};
use super::power_cut::{boot_id, key};
use super::request::{RunRequest, SetupError};
use super::targets::empty_record;

/// A device is read in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// Reads a device, which is not written, and compares it with what the witness at `address` was
/// promised: by the run `id`, or by the newest run that wrote to the device. The witness is told what came
/// of it.
pub fn verify(
    root: &Root,
    request: RunRequest,
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
            "{}: run {later} began after run {}, and wrote where it had: what is missing now tells nothing; \
             compare that one, and the next before it is overwritten",
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
            text: format!("{error}; it does not count this comparison: make it again once the witness is there"),
        }),
    }
    let mut record = empty_record(root, &request, notes);
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

fn cannot(path: &Path, doing: &str, error: &io::Error) -> SetupError {
    SetupError::Cannot(format!("{}: cannot {doing}: {error}", path.display()))
}
