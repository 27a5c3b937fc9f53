//! Where the lanes of a cell write: the offsets of each job's blocks.

use crate::engine::{Data, Lane, To};
use crate::guard::WriteGrant;
use crate::model::cell::{CellSpec, FileState};
use crate::model::record::{BaselineKind, Record};
use crate::scratch::{Scratch, ScratchFile};

use super::place::{Place, Target};

/// A cell, laid out.
pub(super) struct Plan {
    pub(super) spec: CellSpec,
    /// Index of its target in the bench.
    pub(super) target: usize,
    /// Each lane's offsets, in bytes.
    pub(super) offsets: Vec<Vec<u64>>,
}

/// Lays out what a cell writes where.
pub(super) fn plan(record: &Record, targets: &[Target], spec: &CellSpec) -> anyhow::Result<Plan> {
    let find = |id: &str| targets.iter().position(|target| target.id == id);
    let Some(target) = find(&spec.target) else {
        anyhow::bail!("cell {} has no target {}", spec.id, spec.target);
    };
    let size_bytes = spec.axes.size_bytes;
    let jobs = spec.axes.jobs as usize;
    let offsets: Vec<Vec<u64>> = match &targets[target].place {
        Place::Device(grant) => {
            let lane = |job| grant.offsets(job, jobs, size_bytes);
            (0..jobs)
                .map(lane)
                .map(|lane| first_bytes(lane, spec))
                .collect()
        }
        Place::Extents(grant) => {
            let files = granted_files(grant, spec);
            files
                .map(|file| grant.offsets(file, jobs, size_bytes))
                .collect()
        }
        Place::Scratch(scratch) => match extents_of(record, targets, spec) {
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
    lane.truncate((file_bytes(spec) / spec.axes.size_bytes) as usize);
    lane
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
        Place::Extents(grant) => Some(grant),
        Place::Device(_) | Place::Scratch(_) => None,
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

/// The lanes of a cell for one pass, which start at a block that `seed` decides: the same for all
/// cells with as many blocks.
pub(super) fn lanes<'l>(
    offsets: &'l [Vec<u64>],
    seed: u64,
    to: &dyn Fn(usize) -> To<'l>,
    data: &dyn Fn() -> Data<'l>,
) -> Vec<Lane<'l>> {
    let lane = |(lane, offsets): (usize, &'l Vec<u64>)| Lane {
        to: to(lane),
        offsets,
        start: (seed % offsets.len() as u64) as usize,
        data: data(),
    };
    offsets.iter().enumerate().map(lane).collect()
}
