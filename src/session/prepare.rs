//! From a survey to targets that can be written: scratch files are laid out, grants are taken.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fs::{DirectWrites, Filesystem};
use crate::guard;
use crate::model::cell::{CellSpec, FileState};
use crate::model::facts::MountFacts;
use crate::model::record::{self, BaselineKind, Buffered, Record, Target};
use crate::observe::cached::inserts;
use crate::scratch::{Scratch, ScratchFile};
use crate::sys::ioctl;
use crate::sys::pulse;
use crate::sys::root::Root;

use super::baseline::{DEVICE, no_baseline};
use super::lanes::cell_files;
use super::patience::{ends_in_time, silent};
use super::request::SetupError;
use super::room::file_sets;
use super::survey::Survey;
use super::write_target::WriteTarget;

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
) -> Result<(Record, Vec<(String, WriteTarget)>), SetupError> {
    let mut places = Vec::new();
    if let Some(span_bytes) = device_span(&survey)
        && let Some(place) = take_device(&mut survey, span_bytes, confirmation, stop)?
    {
        places.push(place);
    }
    for (id, mount) in std::mem::take(&mut survey.mounts) {
        if survey.all && !answers(root, &survey.record, &id, state) {
            survey.warn(None, silent(&mount.mount_point));
            forget(&mut survey.record, &id);
            forget(&mut survey.record, &format!("{id}.raw"));
            continue;
        }
        let insists = survey.insists_on_direct;
        match prepare_directory(root, &mut survey.record, &id, &mount, insists, state, stop) {
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

/// Whether a folder can be made and synced in a directory in time. What fails otherwise, the preparation
/// tells.
fn answers(root: &Root, record: &Record, id: &str, state: Option<&Path>) -> bool {
    let target = record.targets.iter().find(|target| target.id == id);
    let Some(directory) = target.map(|target| PathBuf::from(&target.path)) else {
        return true;
    };
    pulse::does(&format!("making a folder in {}", directory.display()));
    let mount = target.and_then(|target| target.mount.as_ref());
    let (owned, state) = (root.clone(), state.map(Path::to_owned));
    let make = move || drop(Scratch::create(&owned, &directory, state.as_deref()));
    ends_in_time(root, mount.and_then(|mount| mount.block_device), make)
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
) -> Result<Option<(String, WriteTarget)>, SetupError> {
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
    pulse::does(&format!("reading {}", target.path));
    let span_bytes = span_bytes.next_multiple_of(block_bytes.unwrap_or(512).max(1));
    let grant = match (confirmation, &survey.purge) {
        (Some((typed, force)), Some(purge)) if survey.overwrite => {
            permit.purge(typed, force, purge)
        }
        (Some((typed, force)), None) if survey.overwrite => {
            permit.overwrite(span_bytes, typed, force)
        }
        _ => permit.preserve(span_bytes, &|| {
            pulse::beat();
            !stop.load(Ordering::Relaxed)
        }),
    };
    if stop.load(Ordering::Relaxed) {
        return Err(SetupError::Interrupted);
    }
    let grant = grant?;
    target.content = grant.content();
    Ok(Some((target.id.clone(), WriteTarget::Device(grant))))
}

fn prepare_directory(
    root: &Root,
    record: &mut Record,
    id: &str,
    mount: &MountFacts,
    insists_on_direct: bool,
    state: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Vec<(String, WriteTarget)>, SetupError> {
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
    pulse::does(&format!("laying out files in {directory}"));
    let mut scratch = Scratch::create(root, Path::new(&directory), state)?;
    let wants_extents = record.targets[index]
        .baseline
        .as_ref()
        .is_some_and(|baseline| baseline.kind == BaselineKind::Extents);
    for (file_state, bytes, files) in file_sets(&specs) {
        scratch.lay_out(file_state, files, bytes, record.run.seed, stop)?;
    }
    let first = scratch.all().first();
    let first = first.and_then(|file| file.open_as_is().ok());
    record.targets[index].nocow = first.and_then(|file| ioctl::is_nocow(&file).ok());
    try_direct(root, record, index, &scratch, insists_on_direct)?;
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
    places.push((id.to_owned(), WriteTarget::Scratch(scratch)));
    Ok(places)
}

/// Has each cell of a directory that asks for direct writes try one, and marks those that were none.
fn try_direct(
    root: &Root,
    record: &mut Record,
    index: usize,
    scratch: &Scratch,
    insists: bool,
) -> Result<(), SetupError> {
    let (target, kernel) = (&record.targets[index], &record.host.kernel);
    let is_ours = |cell: &&mut record::Cell| cell.spec.target == target.id && cell.spec.axes.direct;
    let mut known = HashMap::new();
    for cell in record.cells.iter_mut().filter(is_ours) {
        let spec = &cell.spec;
        let Some(file) = cell_files(scratch, spec).first().copied() else {
            continue;
        };
        let kind = (spec.file_state, spec.axes.size_bytes);
        let buffered = match known.entry(kind) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(direct_lost(root, target, kernel, file, kind.1)?),
        };
        match buffered {
            Some(buffered) if buffered.is_refused && insists => {
                cell.failed = Some(format!(
                    "{}, and --direct on was asked for; leave it out, or name a directory on another \
                     filesystem",
                    buffered.reason
                ));
            }
            other => cell.buffered = other.clone(),
        }
    }
    Ok(())
}

/// What becomes of O_DIRECT where writes of `size_bytes` to a file of a target go through the page cache.
pub(super) fn direct_lost(
    root: &Root,
    target: &Target,
    kernel: &str,
    file: &ScratchFile,
    size_bytes: u64,
) -> Result<Option<Buffered>, SetupError> {
    let by_rule = |reason: Option<String>| {
        let is_refused = false;
        reason.map(|reason| Buffered { reason, is_refused })
    };
    let fs_type = target.mount.as_ref().map_or("", |mount| &mount.fs_type);
    if let Some(reason) = never_direct(fs_type, file.state()) {
        return Ok(by_rule(Some(reason)));
    }
    let is_seen = Cell::new(false);
    let inserts = |inode| {
        let counter = inserts(root, inode);
        is_seen.set(counter.is_some());
        counter
    };
    let tried = file.try_direct(size_bytes, &inserts).map_err(|error| {
        SetupError::Cannot(format!(
            "cannot try O_DIRECT on {}: {error}",
            file.path().display()
        ))
    })?;
    match is_seen.get() {
        true => Ok(tried),
        false => Ok(tried.or_else(|| by_rule(unseen(target, kernel)))),
    }
}

/// Filesystems that write through the page cache whatever the flag, and empty it behind the write.
fn never_direct(fs_type: &str, state: FileState) -> Option<String> {
    let grows = !matches!(state, FileState::Overwrite | FileState::Unwritten);
    match Filesystem::of(fs_type).direct_writes {
        DirectWrites::Buffered => Some(format!("{fs_type} takes O_DIRECT for reads alone")),
        DirectWrites::Inside if grows => Some(format!(
            "{fs_type} writes directly within a file alone, not where it grows"
        )),
        _ => None,
    }
}

/// Buffered writes whose pages are dropped behind them, by the rule, for who may not count pages.
fn unseen(target: &Target, kernel: &str) -> Option<String> {
    let mount = target.mount.as_ref()?;
    let fs = Filesystem::of(&mount.fs_type);
    let DirectWrites::BufferedWithChecksums { since, without } = fs.direct_writes else {
        return None;
    };
    let has_checksums =
        target.nocow != Some(true) && !mount.options.iter().any(|o| without.contains(&o.as_str()));
    (has_checksums && version(kernel) >= Some(since)).then(|| {
        format!(
            "{} writes files with checksums through its cache since Linux {}.{}: a rule, since only root \
             can see it here",
            fs.name, since.0, since.1
        )
    })
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The grant on the blocks of the files that stay where they are, or why there is none.
fn grant_extents(
    root: &Root,
    scratch: &Scratch,
    mount: &MountFacts,
) -> Result<Result<WriteTarget, guard::NoExtents>, SetupError> {
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
    Ok(grant.map(WriteTarget::Extents))
}

pub(super) fn cannot_open(file: &ScratchFile, error: &std::io::Error) -> SetupError {
    SetupError::Cannot(format!("cannot open {}: {error}", file.path().display()))
}

/// Takes a target and its cells out of the record.
fn forget(record: &mut Record, id: &str) {
    record.targets.retain(|target| target.id != id);
    record.cells.retain(|cell| cell.spec.target != id);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    #[test]
    fn what_cannot_be_seen_of_btrfs_is_told_by_the_rule() {
        let record = fixture::Builder::new("file")
            .directory("d0", "/mnt", BaselineKind::None, None)
            .record;
        let with = |fs_type: &str, option: &str, nocow| {
            let mut target = record.targets[0].clone();
            let mut mount = fixture::mount("/mnt");
            mount.fs_type = fs_type.to_owned();
            mount.options = vec!["rw".to_owned(), option.to_owned()];
            (target.mount, target.nocow) = (Some(mount), nocow);
            target
        };
        let btrfs = with("btrfs", "ssd", Some(false));
        assert_eq!(
            unseen(&btrfs, "6.15.0-rc1").unwrap(),
            "btrfs writes files with checksums through its cache since Linux 6.15: a rule, since only \
             root can see it here"
        );
        assert!(unseen(&btrfs, "7.0").is_some());
        assert_eq!(unseen(&btrfs, "6.14.11-arch"), None);
        assert_eq!(unseen(&with("btrfs", "ssd", Some(true)), "6.18.1"), None);
        assert_eq!(
            unseen(&with("btrfs", "nodatasum", Some(false)), "6.18.1"),
            None
        );
        assert_eq!(unseen(&with("ext4", "ssd", Some(false)), "6.18.1"), None);
    }

    #[test]
    fn fat_is_direct_within_a_file_alone() {
        for (state, is_direct) in [
            (FileState::Overwrite, true),
            (FileState::Append, false),
            (FileState::TruncEach, false),
        ] {
            assert_eq!(never_direct("vfat", state).is_none(), is_direct);
            assert_eq!(never_direct("xfs", state), None);
            let nilfs2 = never_direct("nilfs2", state).unwrap();
            assert_eq!(nilfs2, "nilfs2 takes O_DIRECT for reads alone");
        }
    }
}
