//! How much of a filesystem the scratch files of a run take, and what its direct writes must be
//! multiples of.

use std::path::{Path, PathBuf};

use crate::fs::{DirectUnit, Filesystem};
use crate::model::cell::{CellSpec, FileState, Role};
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, MountFacts};
use crate::model::units::show_amount;
use crate::plan::{Sizes, TargetPlan};
use crate::sys::root::Root;
use crate::target;

use super::lanes::file_bytes;
use super::request::{RunRequest, SetupError};

/// A span smaller than this is not worth measuring.
const LEAST_SPAN_BYTES: u64 = 64 << 10;

/// What the directories of a run may take of their filesystems, so that those on one filesystem take no
/// more together than one alone may.
#[derive(Debug, Default)]
pub(super) struct Shares {
    filesystems: Vec<Shared>,
}

/// A filesystem that directories are on.
#[derive(Debug)]
struct Shared {
    dev: DevId,
    /// Directories that nothing is promised to yet.
    waiting: u64,
    promised_bytes: u64,
}

/// What one directory may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    size_bytes: u64,
    free_bytes: u64,
    pub(super) allowed_bytes: u64,
    /// The directory has its filesystem for itself.
    is_alone: bool,
}

impl Shares {
    /// For these directories, all of which are still to be promised something. What can't be looked at
    /// gets nothing, and is told of where it is planned.
    pub(super) fn of(root: &Root, directories: &[PathBuf]) -> Shares {
        let mut shares = Shares::default();
        let mounts = directories
            .iter()
            .filter_map(|directory| target::mount_of(root, directory).ok());
        mounts.for_each(|mount| shares.at(&mount).waiting += 1);
        shares
    }

    /// By the number that all mounts of a filesystem have in common (proc_pid_mountinfo(5)).
    fn at(&mut self, mount: &MountFacts) -> &mut Shared {
        let known = self.filesystems.iter().position(|fs| fs.dev == mount.dev);
        let at = known.unwrap_or(self.filesystems.len());
        if known.is_none() {
            self.filesystems.push(Shared {
                dev: mount.dev,
                waiting: 0,
                promised_bytes: 0,
            });
        }
        &mut self.filesystems[at]
    }

    /// What a directory on `mount` may take: an even part of what nobody was promised. A filesystem that
    /// doesn't tell its size has room.
    pub(super) fn share(&mut self, mount: &MountFacts) -> Share {
        let (size, free) = (mount.size_bytes, mount.free_bytes);
        let shared = self.at(mount);
        let left = |all: u64| all.saturating_sub(shared.promised_bytes) / shared.waiting.max(1);
        Share {
            size_bytes: size.unwrap_or(0),
            free_bytes: free.unwrap_or(0),
            allowed_bytes: match size.zip(free) {
                Some((size, free)) => left(target::allowed_bytes(size, free)),
                None => u64::MAX,
            },
            is_alone: shared.waiting < 2 && shared.promised_bytes == 0,
        }
    }

    /// Promises `bytes` to a directory on `mount`.
    pub(super) fn promise(&mut self, mount: &MountFacts, bytes: u64) {
        let shared = self.at(mount);
        shared.waiting = shared.waiting.saturating_sub(1);
        shared.promised_bytes = shared.promised_bytes.saturating_add(bytes);
    }
}

impl Share {
    /// The rule that bounds it, for a message that refuses.
    pub(super) fn rule(&self) -> String {
        let rule = target::free_rule(self.size_bytes, self.free_bytes);
        match self.is_alone {
            true => rule,
            false => format!(
                "{rule}, and {} of that for this directory, since others that were named lie there too",
                show_amount(self.allowed_bytes)
            ),
        }
    }
}

/// The room for a directory's files.
pub(super) struct Room {
    share: Share,
    /// Sets of files that share it.
    sets: u64,
}

impl Room {
    /// The room for what is wished for.
    pub(super) fn of(share: Share, request: &RunRequest) -> Room {
        let matrix = &request.settings.matrix;
        // One set for each state and number of jobs; a baseline writes files that stay.
        let states = matrix.file_states.len();
        let for_baseline = request.compare && !matrix.file_states.contains(&FileState::Overwrite);
        let sets = ((states + usize::from(for_baseline)) * matrix.jobs.len()).max(1) as u64;
        Room { share, sets }
    }

    /// Refuses what can't fit, before cells are planned.
    pub(super) fn check_wish(
        &self,
        directory: &Path,
        request: &RunRequest,
    ) -> Result<(), SetupError> {
        let matrix = &request.settings.matrix;
        let jobs = u64::from(matrix.jobs.iter().copied().max().unwrap_or(1));
        let largest_bytes = match &matrix.sizes {
            Sizes::Given(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Sizes::Default | Sizes::WholeBlocks(_) => 0,
        };
        let least_bytes = LEAST_SPAN_BYTES.max(largest_bytes.saturating_mul(jobs));
        let span_bytes = matrix.span_bytes.unwrap_or(least_bytes);
        self.check(directory, span_bytes.saturating_mul(self.sets))
    }

    /// Refuses sets of files that don't fit, and gives what they take.
    pub(super) fn check_sets(
        &self,
        directory: &Path,
        sets: &[(FileState, u64, u32)],
    ) -> Result<u64, SetupError> {
        let each = sets.iter();
        let needed_bytes = each
            .map(|(_, bytes, files)| bytes * u64::from(*files))
            .sum();
        self.check(directory, needed_bytes)?;
        Ok(needed_bytes)
    }

    fn check(&self, directory: &Path, needed_bytes: u64) -> Result<(), SetupError> {
        if needed_bytes <= self.share.allowed_bytes {
            return Ok(());
        }
        Err(SetupError::Cannot(format!(
            "{}: scratch files need {}, but {}; ask for less with --span or --sizes, or free some \
             space",
            directory.display(),
            show_amount(needed_bytes),
            self.share.rule(),
        )))
    }

    /// What the plan must know of a directory.
    pub(super) fn plan(&self, id: &str, stack: &[DeviceFacts], mount: &MountFacts) -> TargetPlan {
        TargetPlan {
            id: id.to_owned(),
            role: Role::File,
            logical_block_bytes: direct_unit_bytes(stack, mount),
            span_limit_bytes: self.share.allowed_bytes / self.sets,
        }
    }
}

/// What direct writes to the filesystem must be multiples of.
fn direct_unit_bytes(stack: &[DeviceFacts], mount: &MountFacts) -> u64 {
    let logical = stack.first().and_then(|device| device.logical_block_bytes);
    match Filesystem::of(&mount.fs_type).direct_unit {
        DirectUnit::DeviceBlock => logical.unwrap_or(512),
        DirectUnit::Block => mount.block_bytes.or(logical).unwrap_or(4096),
    }
}

/// Each set of files that the cells need: state, bytes of each file, number of files. Raw cells
/// write the blocks of files that stay where they are.
pub(super) fn file_sets<'s>(
    specs: impl IntoIterator<Item = &'s CellSpec>,
) -> Vec<(FileState, u64, u32)> {
    let mut sets: Vec<(FileState, u64, u32)> = Vec::new();
    for spec in specs {
        let state = spec.file_state.unwrap_or(FileState::Overwrite);
        let bytes = file_bytes(spec);
        match sets.iter_mut().find(|set| set.0 == state && set.1 == bytes) {
            Some(set) => set.2 = set.2.max(spec.axes.jobs),
            None => sets.push((state, bytes, spec.axes.jobs)),
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    fn mount(dev: &str, free_bytes: u64) -> MountFacts {
        MountFacts {
            dev: dev.parse().unwrap(),
            size_bytes: Some(10_000),
            free_bytes: Some(free_bytes),
            ..fixture::mount("/data")
        }
    }

    #[test]
    fn directories_on_one_filesystem_take_no_more_than_one_may() {
        let (one, other) = (mount("8:1", 3000), mount("8:2", 3000));
        let mut shares = Shares::default();
        shares.at(&one).waiting = 3;
        shares.at(&other).waiting = 1;
        assert_eq!(shares.share(&other).allowed_bytes, 1500);
        assert!(!shares.share(&other).rule().contains("others"));
        assert_eq!(shares.share(&one).allowed_bytes, 500);
        shares.promise(&one, 100);
        assert_eq!(shares.share(&one).allowed_bytes, 700);
        shares.promise(&one, 700);
        assert_eq!(shares.share(&one).allowed_bytes, 700);
        shares.promise(&one, 700);
        // More than were counted, as when one of them was not there yet.
        assert_eq!(shares.share(&one).allowed_bytes, 0);
        assert!(shares.share(&one).rule().contains("others"));
        assert_eq!(shares.share(&other).allowed_bytes, 1500);
    }

    #[test]
    fn direct_writes_are_as_small_as_the_filesystem_takes_them() {
        let mut stack = fixture::stack();
        stack[0].logical_block_bytes = Some(512);
        for (fs_type, unit_bytes) in [
            ("ext2", 512),
            ("xfs", 512),
            ("vfat", 512),
            ("exfat", 512),
            ("msdos", 4096),
            ("btrfs", 4096),
            ("fuse.sshfs", 4096),
        ] {
            let mut mount = mount("8:1", 0);
            mount.fs_type = fs_type.to_owned();
            mount.block_bytes = Some(4096);
            assert_eq!(direct_unit_bytes(&stack, &mount), unit_bytes, "{fs_type}");
            mount.block_bytes = None;
            assert_eq!(direct_unit_bytes(&stack, &mount), 512, "{fs_type}");
        }
    }

    #[test]
    fn a_filesystem_that_does_not_tell_its_size_has_room() {
        let mut untold = mount("8:1", 0);
        untold.size_bytes = None;
        let mut shares = Shares::default();
        shares.promise(&untold, 1 << 40);
        assert_eq!(shares.share(&untold).allowed_bytes, u64::MAX);
    }
}
