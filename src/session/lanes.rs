//! Where the lanes of a cell write: the offsets of each job's blocks.

use crate::engine::{Data, Lane, To};
use crate::guard::WriteGrant;
use crate::model::cell::{CellSpec, FileState, Pattern};
use crate::model::record::{BaselineKind, Record};
use crate::scratch::{Scratch, ScratchFile};

use super::write_target::{Target, WriteTarget};

/// A cell, laid out.
pub(super) struct Plan {
    pub(super) spec: CellSpec,
    /// Index of its target in the bench.
    pub(super) target: usize,
    /// Each lane's offsets, in bytes.
    pub(super) offsets: Vec<Vec<u64>>,
    /// Of a cell with more blocks than are listed.
    far: Option<Far>,
    /// The block, of each lane, after the last that was written in order.
    next: u64,
}

/// More blocks than this of one lane are not listed: a drive of terabytes has hundreds of millions.
const MAX_OFFSETS: u64 = 1 << 20;

/// A device's span with so many blocks that each slice writes some of them.
struct Far {
    /// Blocks of each lane that the cell's span has.
    blocks: u64,
    /// Blocks from the begin of one lane to that of the next.
    stride: u64,
}

impl Plan {
    /// Makes ready for a slice, and gives the index of its first block: decided by `seed`, or with
    /// `goes_on` the one after the last slice's last.
    pub(super) fn start(&mut self, seed: u64, goes_on: bool) -> u64 {
        let first = if goes_on { self.next } else { seed };
        let Some(far) = &self.far else {
            return first;
        };
        let size_bytes = self.spec.axes.size_bytes;
        let mut rng = fastrand::Rng::with_seed(seed);
        for (lane, offsets) in self.offsets.iter_mut().enumerate() {
            let begin = lane as u64 * far.stride;
            offsets.clear();
            offsets.extend((0..MAX_OFFSETS).map(|index| {
                let block = match self.spec.axes.pattern {
                    Pattern::Rand => rng.u64(..far.blocks),
                    Pattern::Seq | Pattern::Same => first.wrapping_add(index) % far.blocks,
                };
                (begin + block) * size_bytes
            }));
        }
        0
    }

    /// The slice completed so many operations, of all lanes.
    pub(super) fn advance(&mut self, ops: u64) {
        self.next += ops / (self.offsets.len() as u64).max(1);
    }
}

/// Lays out what a cell writes where.
pub(super) fn plan(record: &Record, targets: &[Target], spec: &CellSpec) -> anyhow::Result<Plan> {
    let find = |id: &str| targets.iter().position(|target| target.id == id);
    let Some(target) = find(&spec.target) else {
        anyhow::bail!("cell {} has no target {}", spec.id, spec.target);
    };
    let size_bytes = spec.axes.size_bytes;
    let jobs = spec.axes.jobs as usize;
    let mut far = None;
    let offsets: Vec<Vec<u64>> = match &targets[target].place {
        WriteTarget::Device(grant) if blocks_in_span(spec) > MAX_OFFSETS => {
            let stride = grant.blocks_each(jobs, size_bytes);
            let blocks = stride.min(blocks_in_span(spec));
            far = Some(Far { blocks, stride });
            // Renewed for each slice.
            let first =
                |lane: usize| vec![lane as u64 * stride * size_bytes; blocks.min(1) as usize];
            (0..jobs).map(first).collect()
        }
        WriteTarget::Device(grant) => {
            let lane = |job| grant.offsets(job, jobs, size_bytes);
            (0..jobs)
                .map(lane)
                .map(|lane| first_bytes(lane, spec))
                .collect()
        }
        WriteTarget::Extents(grant) => {
            let files = granted_files(grant, spec);
            files
                .map(|file| grant.offsets(file, jobs, size_bytes))
                .collect()
        }
        WriteTarget::Scratch(scratch) => match extents_of(record, targets, spec) {
            Some(grant) => {
                let files = granted_files(grant, spec);
                files
                    .map(|file| grant.file_offsets(file, size_bytes))
                    .collect()
            }
            None => {
                let files = cell_files(scratch, spec);
                files
                    .iter()
                    .map(|file| all_offsets(file, size_bytes))
                    .collect()
            }
        },
    };
    anyhow::ensure!(
        offsets.len() == jobs,
        "cell {} lacks a file for each job",
        spec.id
    );
    anyhow::ensure!(
        offsets.iter().all(|lane| !lane.is_empty()),
        "cell {} has no block to write: all extents are shorter than {size_bytes} bytes",
        spec.id
    );
    Ok(Plan {
        spec: spec.clone(),
        target,
        offsets,
        far,
        next: 0,
    })
}

/// The files of a grant that a cell's lanes write: as many of the cell's length as it has jobs.
fn granted_files(grant: &WriteGrant, spec: &CellSpec) -> impl Iterator<Item = usize> {
    let wanted_bytes = file_bytes(spec);
    let files = grant
        .file_bytes()
        .enumerate()
        .filter(move |(_, bytes)| *bytes == wanted_bytes);
    files.take(spec.axes.jobs as usize).map(|(file, _)| file)
}

/// As much of a lane as the cell's span gives a job: the grant covers the largest span of all cells.
fn first_bytes(mut lane: Vec<u64>, spec: &CellSpec) -> Vec<u64> {
    lane.truncate(blocks_in_span(spec) as usize);
    lane
}

/// Blocks that the cell's span has for each job.
fn blocks_in_span(spec: &CellSpec) -> u64 {
    file_bytes(spec) / spec.axes.size_bytes
}

/// The grant over the very blocks that an overwriting file cell writes, if its baseline is that:
/// both sides then write the same blocks in the same order.
fn extents_of<'t>(
    record: &Record,
    targets: &'t [Target],
    spec: &CellSpec,
) -> Option<&'t WriteGrant> {
    if spec.file_state != Some(FileState::Overwrite) {
        return None;
    }
    let target = record
        .targets
        .iter()
        .find(|target| target.id == spec.target)?;
    let baseline = target
        .baseline
        .as_ref()
        .filter(|b| b.kind == BaselineKind::Extents)?;
    let raw = baseline.target.as_ref()?;
    match &targets.iter().find(|target| target.id == *raw)?.place {
        WriteTarget::Extents(grant) => Some(grant),
        WriteTarget::Device(_) | WriteTarget::Scratch(_) => None,
    }
}

/// Bytes of each file of a cell: a job's share of the span; only one write where each write
/// truncates the file.
pub(super) fn file_bytes(spec: &CellSpec) -> u64 {
    match spec.file_state {
        Some(FileState::TruncEach) => spec.axes.size_bytes,
        _ => spec.axes.span_bytes / u64::from(spec.axes.jobs),
    }
}

pub(super) fn cell_files<'s>(scratch: &'s Scratch, spec: &CellSpec) -> Vec<&'s ScratchFile> {
    let state = spec.file_state.unwrap_or(FileState::Overwrite);
    scratch.files(state, file_bytes(spec), spec.axes.jobs)
}

fn all_offsets(file: &ScratchFile, size_bytes: u64) -> Vec<u64> {
    (0..file.span_bytes() / size_bytes)
        .map(|block| block * size_bytes)
        .collect()
}

/// States in which the order of blocks is given and their end is the file's end.
pub(super) fn is_one_pass(spec: &CellSpec) -> bool {
    matches!(
        spec.file_state,
        Some(FileState::Unwritten | FileState::Append | FileState::Trunc)
    )
}

/// The lanes of a cell for one pass, which start at the block that `first` decides: the same for all
/// cells with as many blocks.
pub(super) fn lanes<'l>(
    offsets: &'l [Vec<u64>],
    first: u64,
    to: &dyn Fn(usize) -> To<'l>,
    data: &dyn Fn() -> Data<'l>,
) -> Vec<Lane<'l>> {
    let lane = |(lane, offsets): (usize, &'l Vec<u64>)| Lane {
        to: to(lane),
        offsets,
        start: (first % offsets.len() as u64) as usize,
        data: data(),
    };
    offsets.iter().enumerate().map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::Builder;

    /// A cell of so many blocks of 4 KiB for each of two jobs, which begin 100 blocks further on.
    fn far(pattern: Pattern, blocks: u64) -> Plan {
        let record = Builder::new("raw").cell("raw", None, 4096, 1e3, 1).record;
        let mut spec = record.cells[0].spec.clone();
        spec.axes.pattern = pattern;
        Plan {
            spec,
            target: 0,
            offsets: vec![Vec::new(); 2],
            far: Some(Far {
                blocks,
                stride: blocks + 100,
            }),
            next: 0,
        }
    }

    #[test]
    fn a_far_sequence_goes_on_where_it_ended_and_wraps_within_its_lane() {
        let blocks = 3 * MAX_OFFSETS;
        let mut plan = far(Pattern::Seq, blocks);
        assert_eq!(plan.start(7, true), 0);
        assert_eq!(plan.offsets[0][..2], [0, 4096]);
        assert_eq!(plan.offsets[1][0], (blocks + 100) * 4096);
        plan.advance(2 * (blocks - 1));
        plan.start(7, true);
        assert_eq!(plan.offsets[0][..2], [(blocks - 1) * 4096, 0]);
        assert_eq!(plan.offsets[1][1], (blocks + 100) * 4096);
        plan.start(7, false);
        assert_eq!(plan.offsets[0][0], 7 * 4096, "the seed decides");
    }

    #[test]
    fn far_random_blocks_reach_all_of_the_lane_and_differ_between_slices() {
        let blocks = 8 * MAX_OFFSETS;
        let mut plan = far(Pattern::Rand, blocks);
        plan.start(1, false);
        let first = plan.offsets[0].clone();
        let all = |lane: &[u64]| lane.iter().all(|offset| offset / 4096 < blocks);
        assert!(all(&first));
        assert!(first.iter().any(|offset| offset / 4096 > blocks / 8 * 7));
        let second_lane = &plan.offsets[1];
        assert!(
            second_lane
                .iter()
                .all(|offset| offset / 4096 >= blocks + 100)
        );
        plan.start(2, false);
        assert_ne!(plan.offsets[0], first);
    }
}
