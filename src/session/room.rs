//! How much of a filesystem the scratch files of a run take, and what its direct writes must be
//! multiples of.

use std::path::Path;

use crate::model::cell::{CellSpec, FileState, Role};
use crate::model::facts::{DeviceFacts, MountFacts};
use crate::model::units::show_amount;
use crate::plan::{Sizes, TargetPlan};
use crate::scratch;

use super::lanes::file_bytes;
use super::survey::{SetupError, Wish};

/// A span smaller than this is not worth measuring.
const LEAST_SPAN_BYTES: u64 = 64 << 10;

/// The room on one filesystem.
pub(super) struct Room {
    size_bytes: u64,
    free_bytes: u64,
    allowed_bytes: u64,
    /// Sets of files that share it.
    sets: u64,
}

impl Room {
    /// The room on `mount` for what is wished for. A filesystem that doesn't tell its size has room.
    pub(super) fn on(mount: &MountFacts, wish: &Wish) -> Room {
        let matrix = &wish.settings.matrix;
        // One set for each state and number of jobs; a baseline writes files that stay.
        let states = matrix.file_states.len();
        let for_baseline = wish.compare && !matrix.file_states.contains(&FileState::Overwrite);
        let sets = ((states + usize::from(for_baseline)) * matrix.jobs.len()).max(1) as u64;
        let (size, free) = (mount.size_bytes, mount.free_bytes);
        Room {
            size_bytes: size.unwrap_or(0),
            free_bytes: free.unwrap_or(0),
            allowed_bytes: match size.zip(free) {
                Some((size, free)) => scratch::allowed_bytes(size, free),
                None => u64::MAX,
            },
            sets,
        }
    }

    /// Refuses what can't fit, before cells are planned.
    pub(super) fn check_wish(&self, directory: &Path, wish: &Wish) -> Result<(), SetupError> {
        let matrix = &wish.settings.matrix;
        let jobs = u64::from(matrix.jobs.iter().copied().max().unwrap_or(1));
        let largest_bytes = match &matrix.sizes {
            Sizes::Given(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Sizes::Default | Sizes::Fitting(_) => 0,
        };
        let least_bytes = LEAST_SPAN_BYTES.max(largest_bytes.saturating_mul(jobs));
        let span_bytes = matrix.span_bytes.unwrap_or(least_bytes);
        self.check(directory, span_bytes.saturating_mul(self.sets))
    }

    /// Refuses sets of files that don't fit.
    pub(super) fn check_sets(
        &self,
        directory: &Path,
        sets: &[(FileState, u64, u32)],
    ) -> Result<(), SetupError> {
        self.check(
            directory,
            sets.iter()
                .map(|(_, bytes, files)| bytes * u64::from(*files))
                .sum(),
        )
    }

    fn check(&self, directory: &Path, needed_bytes: u64) -> Result<(), SetupError> {
        if needed_bytes <= self.allowed_bytes {
            return Ok(());
        }
        Err(SetupError::Cannot(format!(
            "{}: scratch files need {}, but {}; ask for less with --span or --sizes, or free some \
             space",
            directory.display(),
            show_amount(needed_bytes),
            scratch::free_rule(self.size_bytes, self.free_bytes),
        )))
    }

    /// What the plan must know of a directory.
    pub(super) fn plan(&self, id: &str, stack: &[DeviceFacts], mount: &MountFacts) -> TargetPlan {
        TargetPlan {
            id: id.to_owned(),
            role: Role::File,
            logical_block_bytes: direct_unit_bytes(stack, mount),
            span_limit_bytes: self.allowed_bytes / self.sets,
        }
    }
}

/// What direct writes to the filesystem must be multiples of. ext2/3/4 and XFS take the device's logical
/// block, and so do FAT and exFAT, which tell their clusters as blocks, of 32 KiB and more; filesystems
/// that checksum or copy whole blocks take none smaller.
fn direct_unit_bytes(stack: &[DeviceFacts], mount: &MountFacts) -> u64 {
    let logical = stack.first().and_then(|device| device.logical_block_bytes);
    match mount.fs_type.as_str() {
        "ext2" | "ext3" | "ext4" | "xfs" | "exfat" | "vfat" => logical.unwrap_or(512),
        _ => mount.block_bytes.or(logical).unwrap_or(4096),
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
