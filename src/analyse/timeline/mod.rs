//! What workloads over time mean: rates, steadiness, dips, and what was written for nothing.

pub mod checkpoint;
pub mod churn;
pub mod dip;
#[cfg(test)]
pub(crate) mod made;
pub mod rate;
pub mod standing;
pub mod steady;
pub mod wal;

use crate::analyse::ratio::Work;
use crate::model::record::Record;
use crate::model::timeline::Timeline;

/// Timelines of one target and side, in the order in which they ran.
pub fn of_target<'r>(record: &'r Record, target: &str) -> Vec<&'r Timeline> {
    let timelines = record.timelines.iter();
    timelines.filter(|line| line.target == target).collect()
}

/// All that a timeline did.
fn whole_work(timeline: &Timeline) -> Work {
    Work {
        amount: timeline.ops as f64,
        elapsed_ns: timeline.elapsed_ns as f64,
    }
}
