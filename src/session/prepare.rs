//! From a survey to targets that can be written: scratch files are laid out, grants are taken.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::guard;
use crate::model::cell::{CellSpec, FileState};
use crate::model::facts::MountFacts;
use crate::model::record::{BaselineKind, Level, Note, Record};
use crate::scratch::{Scratch, ScratchError, ScratchFile};
use crate::sys::ioctl;
use crate::sys::root::Root;

use super::baseline::{DEVICE, no_baseline};
use super::place::Place;
use super::room::file_sets;
use super::survey::{SetupError, Survey};

impl From<ScratchError> for SetupError {
    fn from(error: ScratchError) -> SetupError {
        match error {
            ScratchError::Interrupted => SetupError::Interrupted,
            other => SetupError::Cannot(other.to_string()),
        }
    }
}

/// Takes the grants and lays out the scratch files of a survey: the record, with what can't be
/// measured taken out and told, and a place for each target that has cells. `confirmation` is what
/// was typed to allow overwriting a device; `state` is the folder for entries by which scratch
/// folders are found again.
pub fn prepare(
    root: &Root,
    mut survey: Survey,
    confirmation: Option<(&str, bool)>,
    state: Option<&Path>,
    stop: &AtomicBool,
) -> Result<(Record, Vec<(String, Place)>), SetupError> {
    let mut places = Vec::new();
    if let Some(span_bytes) = device_span(&survey)
        && let Some(place) = take_device(&mut survey, span_bytes, confirmation, stop)?
    {
        places.push(place);
    }
    for (id, mount) in std::mem::take(&mut survey.mounts) {
        match prepare_directory(root, &mut survey.record, &id, &mount, state, stop) {
            Ok(mut made) => places.append(&mut made),
            Err(SetupError::Interrupted) => return Err(SetupError::Interrupted),
            Err(error) if survey.all => {
                survey.warn(None, format!("{} is left out: {error}", mount.mount_point));
                forget(&mut survey.record, &id);
                forget(&mut survey.record, &format!("{id}.raw"));
            }
            Err(error) => return Err(error),
        }
    }
    if survey.record.cells.is_empty() {
        return Err(SetupError::Cannot(
            "no filesystem is left that can be measured".to_owned(),
        ));
    }
    Ok((survey.record, places))
}

/// What the cells and the preconditioning of the device that was named need; none without a cell.
fn device_span(survey: &Survey) -> Option<u64> {
    let specs = survey.record.cells.iter().map(|cell| &cell.spec);
    let own = specs
        .chain(&survey.fill)
        .filter(|spec| spec.target == DEVICE);
    own.map(|spec| spec.axes.span_bytes).max()
}

/// Takes the grant on the device that was named, if one was, over `span_bytes`.
pub(super) fn take_device(
    survey: &mut Survey,
    span_bytes: u64,
    confirmation: Option<(&str, bool)>,
    stop: &AtomicBool,
) -> Result<Option<(String, Place)>, SetupError> {
    let Some(permit) = survey.permit.take() else {
        return Ok(None);
    };
    let targets = &mut survey.record.targets;
    let Some(target) = targets.iter_mut().find(|target| target.id == DEVICE) else {
        return Ok(None);
    };
    // Buffered writes may have any size, and a grant is whole blocks.
    let device = target.stack.first();
    let block_bytes = device.and_then(|device| device.logical_block_bytes);
    let span_bytes = span_bytes.next_multiple_of(block_bytes.unwrap_or(512).max(1));
    let grant = match (confirmation, &survey.purge) {
        (Some((typed, force)), Some(purge)) if survey.overwrite => {
            permit.purge(typed, force, purge)
        }
        (Some((typed, force)), None) if survey.overwrite => {
            permit.overwrite(span_bytes, typed, force)
        }
        _ => permit.preserve(span_bytes, &|| !stop.load(Ordering::Relaxed)),
    };
    if stop.load(Ordering::Relaxed) {
        return Err(SetupError::Interrupted);
    }
    let grant = grant?;
    target.content = grant.content();
    Ok(Some((target.id.clone(), Place::Device(grant))))
}

fn prepare_directory(
    root: &Root,
    record: &mut Record,
    id: &str,
    mount: &MountFacts,
    state: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Vec<(String, Place)>, SetupError> {
    let Some(index) = record.targets.iter().position(|target| target.id == id) else {
        return Ok(Vec::new());
    };
    let raw = format!("{id}.raw");
    let is_ours = |spec: &&CellSpec| spec.target == id || spec.target == raw;
    let specs: Vec<CellSpec> = record
        .cells
        .iter()
        .map(|cell| &cell.spec)
        .filter(is_ours)
        .cloned()
        .collect();
    let directory = record.targets[index].path.clone();
    let mut scratch = Scratch::create(root, Path::new(&directory), state)?;
    let wants_extents = record.targets[index]
        .baseline
        .as_ref()
        .is_some_and(|baseline| baseline.kind == BaselineKind::Extents);
    for (file_state, bytes, files) in file_sets(&specs) {
        scratch.lay_out(file_state, files, bytes, record.run.seed, stop)?;
    }
    record.targets[index].buffered = ignores_direct(&scratch, &specs, mount)?;
    let first = scratch.all().first();
    let first = first.and_then(|file| file.open_as_is().ok());
    record.targets[index].nocow = first.and_then(|file| ioctl::is_nocow(&file).ok());
    record.notes.extend(grows_buffered(id, &specs, mount));
    let mut places = Vec::new();
    if wants_extents {
        match grant_extents(root, &scratch, mount)? {
            Ok(place) => places.push((raw, place)),
            Err(error) => {
                let baseline = no_baseline(error.reason().to_owned(), error.remedy().to_owned());
                record.targets[index].baseline = Some(baseline);
                forget(record, &raw);
            }
        }
    }
    places.push((id.to_owned(), Place::Scratch(scratch)));
    Ok(places)
}

/// Filesystems that write through the page cache whatever the flag, and empty it behind the write, so
/// that nobody can see it there (nilfs_direct_IO() in fs/nilfs2/inode.c).
const READS_DIRECT: [&str; 1] = ["nilfs2"];

/// Why direct writes to the scratch files are none, if cells ask for them and they aren't.
fn ignores_direct(
    scratch: &Scratch,
    specs: &[CellSpec],
    mount: &MountFacts,
) -> Result<Option<String>, SetupError> {
    let Some(spec) = specs
        .iter()
        .filter(|spec| spec.axes.direct)
        .min_by_key(|s| s.axes.size_bytes)
    else {
        return Ok(None);
    };
    let Some(file) = scratch.all().first() else {
        return Ok(None);
    };
    let unit_bytes = spec.axes.size_bytes.max(4096).min(file.span_bytes());
    direct_ignored(file, mount, unit_bytes)
}

/// FAT and exFAT write directly within a file, and through the page cache where it grows
/// (fat_direct_IO() in fs/fat/inode.c, exfat_direct_IO() in fs/exfat/inode.c).
fn grows_buffered(id: &str, specs: &[CellSpec], mount: &MountFacts) -> Option<Note> {
    let is_fat = matches!(mount.fs_type.as_str(), "exfat" | "vfat" | "msdos");
    let grows = |spec: &CellSpec| {
        let state = spec.file_state.unwrap_or(FileState::Overwrite);
        spec.axes.direct && !matches!(state, FileState::Overwrite | FileState::Unwritten)
    };
    (is_fat && specs.iter().any(grows)).then(|| Note {
        level: Level::Fallback,
        target: Some(id.to_owned()),
        text: "writes went through the page cache where a file grew (append, trunc, trunc-each), although \
               direct I/O was asked for: the filesystem writes directly within a file alone"
            .to_owned(),
    })
}

/// Why direct writes of `unit_bytes` to a file go through the page cache, if they do.
pub(super) fn direct_ignored(
    file: &ScratchFile,
    mount: &MountFacts,
    unit_bytes: u64,
) -> Result<Option<String>, SetupError> {
    let fs_type = mount.fs_type.as_str();
    if READS_DIRECT.contains(&fs_type) {
        return Ok(Some(format!("{fs_type} takes O_DIRECT for reads alone")));
    }
    file.direct_ignored(unit_bytes).map_err(|error| {
        SetupError::Cannot(format!(
            "cannot try O_DIRECT on {}: {error}",
            file.path().display()
        ))
    })
}

/// The grant on the blocks of the files that stay where they are, or why there is none.
fn grant_extents(
    root: &Root,
    scratch: &Scratch,
    mount: &MountFacts,
) -> Result<Result<Place, guard::NoExtents>, SetupError> {
    let overwritten = scratch
        .all()
        .iter()
        .filter(|file| file.state() == FileState::Overwrite);
    let mut files = Vec::new();
    for file in overwritten {
        files.push(
            file.open_as_is()
                .map_err(|error| cannot_open(file, &error))?,
        );
    }
    let grant = guard::extents(root, mount, &files.iter().collect::<Vec<_>>());
    Ok(grant.map(Place::Extents))
}

pub(super) fn cannot_open(file: &ScratchFile, error: &std::io::Error) -> SetupError {
    SetupError::Cannot(format!("cannot open {}: {error}", file.path().display()))
}

/// Takes a target and its cells out of the record.
fn forget(record: &mut Record, id: &str) {
    record.targets.retain(|target| target.id != id);
    record.cells.retain(|cell| cell.spec.target != id);
}
