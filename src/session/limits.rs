//! Limits on this process that a run would meet on its way, told before anything is made.

use std::time::Duration;

use nix::sys::resource::Resource;

use crate::model::units::{show_amount, show_ns};
use crate::plan::{Matrix, Settings, Sizes};
use crate::sys::limits;

use super::request::SetupError;

/// Descriptors that a run has open beside those of its jobs.
const OPEN_FILES: u64 = 48;
/// A file and two rings, and one to spare.
const OPEN_FILES_EACH: u64 = 4;
/// What the program takes beside its jobs. Less ended in aborts, which leave scratch files behind.
const MEMORY_BYTES: u64 = 64 << 20;
/// A thread's stack, its ring and its histogram.
const MEMORY_EACH_BYTES: u64 = 4 << 20;
/// What each job takes in each slice before its first write and after its last: a ring and a histogram.
const SET_UP_EACH: Duration = Duration::from_millis(1);
/// Where the sizes are the program's choice, none is larger.
const LARGEST_BYTES: u64 = 1 << 20;

/// Refuses cells that need more than this process may have.
pub(super) fn check<'m>(matrices: impl Iterator<Item = &'m Matrix>) -> Result<(), SetupError> {
    let (open_files, memory_bytes) = (
        limits::soft(Resource::RLIMIT_NOFILE),
        limits::soft(Resource::RLIMIT_AS),
    );
    for matrix in matrices {
        let (files, bytes) = needs(matrix);
        if let Some(most) = open_files.filter(|&most| most < files) {
            return Err(SetupError::Cannot(format!(
                "this run needs up to {files} open files, and {most} are allowed: raise the limit (ulimit \
                 -n {files}), or ask for fewer --jobs"
            )));
        }
        if let Some(most) = memory_bytes.filter(|&most| most < bytes) {
            return Err(SetupError::Cannot(format!(
                "this run needs up to {} of address space, and {} is allowed: raise the limit (ulimit -v \
                 {}), or ask for fewer --jobs, a smaller --queue-depth or smaller --sizes",
                show_amount(bytes),
                show_amount(most),
                bytes >> 10,
            )));
        }
    }
    Ok(())
}

/// Refuses more jobs than the fewest rounds of them, and the warm-up, can be set up in the budget.
pub(super) fn check_time(settings: &Settings) -> Result<(), SetupError> {
    let jobs = settings.matrix.jobs.iter().copied().max().unwrap_or(1);
    let least = SET_UP_EACH * jobs * (settings.min_rounds + 1);
    if settings.rounds.is_some() || settings.workload.is_some() || settings.budget >= least {
        return Ok(());
    }
    Err(SetupError::Usage(format!(
        "{jobs} jobs take at least {} to set up, for a warm-up and {} rounds, and the budget is {}: ask for \
         fewer --jobs, or a larger --budget",
        show_ns(least.as_nanos() as f64),
        settings.min_rounds,
        show_ns(settings.budget.as_nanos() as f64),
    )))
}

/// The open files and the bytes of memory that a matrix's largest cell takes.
fn needs(matrix: &Matrix) -> (u64, u64) {
    let most = |values: &[u32]| values.iter().copied().max().map_or(1, u64::from);
    let jobs = most(&matrix.jobs);
    let size_bytes = match &matrix.sizes {
        Sizes::Given(sizes) => sizes.iter().copied().max().unwrap_or(0),
        Sizes::Default | Sizes::WholeBlocks(_) => LARGEST_BYTES,
    };
    let in_flight_bytes = most(&matrix.queue_depths).saturating_mul(size_bytes);
    let each_bytes = MEMORY_EACH_BYTES.saturating_add(in_flight_bytes);
    (
        OPEN_FILES + OPEN_FILES_EACH * jobs,
        MEMORY_BYTES.saturating_add(jobs.saturating_mul(each_bytes)),
    )
}
