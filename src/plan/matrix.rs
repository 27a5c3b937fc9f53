//! Multiplies the axes out to cells, and refuses what cannot be measured.

use crate::model::cell::{Axes, CellSpec, EngineKind, FileState, Role};
use crate::model::units::{show_amount, show_bytes};

use super::check::{PlanError, check, fail, unfit};
use super::product::{Combination, TargetPlan, combinations};
use super::settings::{Matrix, Sizes};

/// The sizes that are measured where none are given.
const DEFAULT_SIZES: [u64; 12] = [
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
];
/// The span where none is given: far more than one erase block or one journal's worth of metadata,
/// and small enough to lay out in a moment.
pub const DEFAULT_SPAN_BYTES: u64 = 64 << 20;
/// The default span holds at least so many blocks of the largest size for each job.
const MIN_SPAN_BLOCKS: u64 = 16;
/// A default size that a target cannot take, or a cell without a counterpart: goes into the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The size.
    pub size_bytes: u64,
    /// Why, in one line.
    pub reason: String,
}

/// The raw side of a comparison.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counterparts {
    /// One raw cell for each set of axes that a file cell has.
    pub cells: Vec<CellSpec>,
    /// File cells' sizes that the raw target cannot take.
    pub skipped: Vec<Skipped>,
}

/// The cells of one target, in the order: methods and the other axes outermost, then sizes, then
/// file states, so that what is compared stands together. Default sizes that the target cannot
/// take are left out, see [`skipped`]; anything else that cannot be measured is an error.
///
/// Cells of [`FileState::TruncEach`] have the engine `sync` whatever was asked for, because
/// io_uring hands every open with O_TRUNC to a worker thread (io_openat_force_async in
/// io_uring/openclose.c), which would be measured instead.
pub fn cells(matrix: &Matrix, target: &TargetPlan) -> Result<Vec<CellSpec>, PlanError> {
    check(matrix, target.role)?;
    let mut cells: Vec<CellSpec> = Vec::new();
    for combination in combinations(matrix) {
        let (sizes, _) = sizes(matrix, target, &combination)?;
        let largest_bytes = sizes.iter().copied().max().unwrap_or(1);
        for &size_bytes in &sizes {
            for state in states(matrix, target.role) {
                let axes = axes(
                    matrix,
                    target,
                    &combination,
                    size_bytes,
                    largest_bytes,
                    state,
                )?;
                let spec = spec(target, state, axes);
                if !cells.iter().any(|cell| cell.id == spec.id) {
                    cells.push(spec);
                }
            }
        }
    }
    Ok(cells)
}

/// The default sizes that [`cells`] leaves out at this target, each once.
pub fn skipped(matrix: &Matrix, target: &TargetPlan) -> Vec<Skipped> {
    let mut all: Vec<Skipped> = Vec::new();
    for combination in combinations(matrix) {
        if let Ok((_, skipped)) = sizes(matrix, target, &combination) {
            for skip in skipped {
                if !all.contains(&skip) {
                    all.push(skip);
                }
            }
        }
    }
    all
}

/// The raw cells that `file_cells` are to be compared with, at `raw`: one for each set of axes.
/// What the raw target cannot take is left out and told.
pub fn raw_counterparts(file_cells: &[CellSpec], raw: &TargetPlan) -> Counterparts {
    let mut found = Counterparts::default();
    for cell in file_cells {
        let size_bytes = cell.axes.size_bytes;
        let reason = if cell.axes.direct && !size_bytes.is_multiple_of(raw.logical_block_bytes) {
            format!(
                "{} is not a multiple of the raw target's logical block of {} bytes: no baseline",
                show_bytes(size_bytes),
                raw.logical_block_bytes
            )
        } else if cell.axes.span_bytes > raw.span_limit_bytes {
            format!(
                "the file's span of {} is larger than the {} of the raw target: no baseline; use a \
                 smaller --span",
                show_amount(cell.axes.span_bytes),
                show_amount(raw.span_limit_bytes)
            )
        } else {
            let spec = spec(raw, None, cell.axes.clone());
            if !found.cells.iter().any(|cell| cell.id == spec.id) {
                found.cells.push(spec);
            }
            continue;
        };
        let skip = Skipped { size_bytes, reason };
        if !found.skipped.contains(&skip) {
            found.skipped.push(skip);
        }
    }
    found
}

fn states(matrix: &Matrix, role: Role) -> Vec<Option<FileState>> {
    match role {
        Role::Raw => vec![None],
        Role::File => matrix.file_states.iter().copied().map(Some).collect(),
    }
}

/// The sizes of a combination at a target, and the default ones left out.
fn sizes(
    matrix: &Matrix,
    target: &TargetPlan,
    combination: &Combination,
) -> Result<(Vec<u64>, Vec<Skipped>), PlanError> {
    match &matrix.sizes {
        Sizes::Given(sizes) => {
            for &size_bytes in sizes {
                if let Some(reason) = unfit(matrix, target, combination, size_bytes) {
                    return fail(format!("size {}: {reason}", show_bytes(size_bytes)));
                }
            }
            Ok((sizes.clone(), Vec::new()))
        }
        Sizes::WholeBlocks(sizes) => {
            let block_bytes = target.logical_block_bytes.max(1);
            let mut whole: Vec<u64> = sizes
                .iter()
                .map(|size| size.next_multiple_of(block_bytes))
                .collect();
            whole.dedup();
            fitting(matrix, target, combination, &whole)
        }
        Sizes::Default => fitting(matrix, target, combination, &DEFAULT_SIZES),
    }
}

/// Those of `sizes` that fit, of which there must be one.
fn fitting(
    matrix: &Matrix,
    target: &TargetPlan,
    combination: &Combination,
    sizes: &[u64],
) -> Result<(Vec<u64>, Vec<Skipped>), PlanError> {
    let mut fit = Vec::new();
    let mut skipped = Vec::new();
    for &size_bytes in sizes {
        match unfit(matrix, target, combination, size_bytes) {
            None => fit.push(size_bytes),
            Some(reason) => skipped.push(Skipped { size_bytes, reason }),
        }
    }
    match (fit.is_empty(), skipped.first()) {
        (true, Some(skip)) => fail(format!(
            "none of the sizes fits: {}: {}",
            show_bytes(skip.size_bytes),
            skip.reason
        )),
        _ => Ok((fit, skipped)),
    }
}

fn axes(
    matrix: &Matrix,
    target: &TargetPlan,
    combination: &Combination,
    size_bytes: u64,
    largest_bytes: u64,
    state: Option<FileState>,
) -> Result<Axes, PlanError> {
    let engine = match state {
        Some(FileState::TruncEach) if combination.engine == EngineKind::Uring => EngineKind::Sync,
        _ => combination.engine,
    };
    Ok(Axes {
        size_bytes,
        method: combination.method,
        direct: combination.direct,
        queue_depth: combination.queue_depth,
        jobs: combination.jobs,
        pattern: combination.pattern,
        engine,
        ring: matrix.ring,
        span_bytes: span_bytes(matrix, target, combination.jobs, size_bytes, largest_bytes)?,
        rate_per_s: combination.rate_per_s,
    })
}

/// The span of all jobs: one for all sizes, so that sizes are compared on the same blocks, and a
/// whole number of the largest blocks for each job, so that each job's region is aligned. Where
/// that leaves nothing, a whole number of this size's blocks.
fn span_bytes(
    matrix: &Matrix,
    target: &TargetPlan,
    jobs: u32,
    size_bytes: u64,
    largest_bytes: u64,
) -> Result<u64, PlanError> {
    if let Some(span_bytes) = matrix.span_bytes.filter(|&s| s > target.span_limit_bytes) {
        return fail(format!(
            "span {}: larger than the {} that the target has for it",
            show_bytes(span_bytes),
            show_amount(target.span_limit_bytes)
        ));
    }
    let stripe_bytes = largest_bytes.saturating_mul(u64::from(jobs));
    let wanted_bytes = matrix
        .span_bytes
        .unwrap_or_else(|| DEFAULT_SPAN_BYTES.max(stripe_bytes.saturating_mul(MIN_SPAN_BLOCKS)))
        .min(target.span_limit_bytes);
    let own_bytes = size_bytes * u64::from(jobs);
    let whole = |unit: u64| wanted_bytes - wanted_bytes % unit;
    Ok(match whole(stripe_bytes) {
        0 => whole(own_bytes),
        span if span.is_multiple_of(own_bytes) => span,
        // Sizes that do not divide the largest: the job's region need not be whole blocks of it.
        _ => whole(own_bytes),
    })
}

fn spec(target: &TargetPlan, file_state: Option<FileState>, axes: Axes) -> CellSpec {
    CellSpec {
        id: cell_id(&target.id, target.role, file_state, &axes),
        target: target.id.clone(),
        role: target.role,
        file_state,
        axes,
    }
}

/// Readable, and unique among the cells of one matrix: the axes that people vary, then those that
/// differ from their default.
fn cell_id(target: &str, role: Role, file_state: Option<FileState>, axes: &Axes) -> String {
    let mut id = format!("{target}/{role}");
    if let Some(state) = file_state {
        id += &format!("/{state}");
    }
    id += &format!(
        "/{}/{}/qd{}/j{}/{}",
        axes.method,
        show_bytes(axes.size_bytes),
        axes.queue_depth,
        axes.jobs,
        axes.pattern
    );
    if axes.engine != EngineKind::Uring {
        id += &format!("/{}", axes.engine);
    }
    if !axes.direct {
        id += "/buffered";
    }
    if axes.ring.sqpoll {
        id += "/sqpoll";
    }
    if axes.ring.iopoll {
        id += "/iopoll";
    }
    if let Some(rate) = axes.rate_per_s {
        id += &format!("/rate{rate}");
    }
    id
}

#[cfg(test)]
mod tests;
