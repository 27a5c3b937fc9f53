//! What cannot be measured, and why: each refusal is one line that names the way out.

use thiserror::Error;

use crate::model::cell::{EngineKind, FileState, Method, Pattern, Role};
use crate::model::units::show_amount;

use super::product::{Combination, TargetPlan, combinations};
use super::settings::Matrix;

/// A ring has at most 32768 entries (IORING_MAX_ENTRIES in io_uring/io_uring.c), and a write with
/// its linked fsync takes two.
pub const MAX_QUEUE_DEPTH: u32 = 16384;
/// More threads than this measure the scheduler.
pub const MAX_JOBS: u32 = 1024;
/// Buffers of all writes in flight, of one cell.
const MAX_BUFFER_BYTES: u64 = 1 << 30;

/// Axes that cannot be measured. Each is a usage error, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct PlanError(String);

/// Refuses values and pairs of values that no size can save.
pub(super) fn check(matrix: &Matrix, role: Role) -> Result<(), PlanError> {
    for combination in combinations(matrix) {
        check_numbers(&combination)?;
        check_engine(matrix, &combination)?;
        if role == Role::File {
            for &state in &matrix.file_states {
                check_state(matrix, state, &combination)?;
            }
        }
    }
    Ok(())
}

pub(super) fn fail<T>(text: String) -> Result<T, PlanError> {
    Err(PlanError(text))
}

fn check_numbers(combination: &Combination) -> Result<(), PlanError> {
    let Combination {
        queue_depth, jobs, ..
    } = *combination;
    if !(1..=MAX_QUEUE_DEPTH).contains(&queue_depth) {
        return fail(format!(
            "queue depth {queue_depth}: must be from 1 to {MAX_QUEUE_DEPTH}"
        ));
    }
    if !(1..=MAX_JOBS).contains(&jobs) {
        return fail(format!("{jobs} jobs: must be from 1 to {MAX_JOBS}"));
    }
    match combination.rate_per_s {
        Some(rate) if !(rate.is_finite() && rate > 0.0) => fail(format!(
            "rate {rate}: must be a positive number of operations per second"
        )),
        _ => Ok(()),
    }
}

fn check_engine(matrix: &Matrix, combination: &Combination) -> Result<(), PlanError> {
    let Combination {
        engine,
        queue_depth,
        method,
        direct,
        ..
    } = *combination;
    if engine == EngineKind::Sync && queue_depth > 1 {
        return fail(format!(
            "engine sync cannot keep queue depth {queue_depth}: it waits for each write; use \
             --jobs {queue_depth} or --engine uring"
        ));
    }
    if engine == EngineKind::Uring && method == Method::EmptyFlush {
        return fail(
            "method empty_flush needs --engine sync: io_uring hands a lone fsync to a worker thread"
                .to_owned(),
        );
    }
    let ring = matrix.ring;
    if engine == EngineKind::Sync && (ring.sqpoll || ring.iopoll) {
        return fail("engine sync has no ring to poll: use --engine uring".to_owned());
    }
    if ring.iopoll && !direct {
        return fail("iopoll needs direct I/O: the page cache cannot be polled".to_owned());
    }
    if ring.iopoll && matches!(method, Method::Fdatasync | Method::Fsync) {
        // IORING_OP_FSYNC returns EINVAL on a polled ring (io_fsync_prep in io_uring/sync.c).
        return fail(format!(
            "iopoll cannot do method {method}: a polled ring takes no fsync; use o_dsync"
        ));
    }
    Ok(())
}

fn check_state(
    matrix: &Matrix,
    state: FileState,
    combination: &Combination,
) -> Result<(), PlanError> {
    let Combination {
        pattern,
        queue_depth,
        ..
    } = *combination;
    if combination.method == Method::EmptyFlush {
        return fail(
            "method empty_flush is for devices: whether a filesystem flushes for a file that has \
             nothing to write is up to it"
                .to_owned(),
        );
    }
    match state {
        FileState::Overwrite => Ok(()),
        FileState::Unwritten | FileState::Append | FileState::Trunc => {
            if pattern == Pattern::Seq {
                return Ok(());
            }
            fail(format!(
                "file state {state} needs pattern seq: with {pattern} a write would reach blocks \
                 that are written already"
            ))
        }
        FileState::TruncEach if pattern == Pattern::Rand => fail(
            "file state trunc-each needs pattern seq or same: each write starts an empty file"
                .to_owned(),
        ),
        FileState::TruncEach if queue_depth > 1 => fail(format!(
            "file state trunc-each cannot keep queue depth {queue_depth}: open, write and close \
             follow one another; use --jobs"
        )),
        FileState::TruncEach if matrix.ring.sqpoll || matrix.ring.iopoll => fail(
            "file state trunc-each is issued by engine sync, which has no ring to poll".to_owned(),
        ),
        FileState::TruncEach => Ok(()),
    }
}

/// Why a size cannot be measured, if it cannot.
pub(super) fn unfit(
    matrix: &Matrix,
    target: &TargetPlan,
    combination: &Combination,
    size_bytes: u64,
) -> Option<String> {
    let Combination {
        direct,
        jobs,
        queue_depth,
        ..
    } = *combination;
    let block_bytes = target.logical_block_bytes.max(1);
    if size_bytes == 0 {
        return Some("must be at least one byte".to_owned());
    }
    if direct && !size_bytes.is_multiple_of(block_bytes) {
        return Some(format!(
            "not a multiple of the logical block of {block_bytes} bytes, which direct I/O needs"
        ));
    }
    let need_bytes = size_bytes.saturating_mul(u64::from(jobs));
    if need_bytes > target.span_limit_bytes {
        return Some(format!(
            "larger than the {} that the target has for each of {jobs} jobs",
            show_amount(target.span_limit_bytes / u64::from(jobs))
        ));
    }
    if let Some(span_bytes) = matrix.span_bytes.filter(|&span| need_bytes > span) {
        return Some(format!(
            "larger than the {} that the span has for each of {jobs} jobs",
            show_amount(span_bytes / u64::from(jobs))
        ));
    }
    let buffer_bytes = need_bytes.saturating_mul(u64::from(queue_depth));
    if buffer_bytes > MAX_BUFFER_BYTES {
        return Some(format!(
            "{jobs} jobs at queue depth {queue_depth} would need {} of buffers, more than {}",
            show_amount(buffer_bytes),
            show_amount(MAX_BUFFER_BYTES)
        ));
    }
    None
}
