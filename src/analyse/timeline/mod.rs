//! What workloads over time mean: rates, steadiness, dips, and what was written for nothing.

pub mod churn;
#[cfg(test)]
pub(crate) mod made;
pub mod rate;

use crate::model::record::Record;
use crate::model::timeline::Timeline;

/// Timelines of one target and side, in the order in which they ran.
pub fn of_target<'r>(record: &'r Record, target: &str) -> Vec<&'r Timeline> {
    let timelines = record.timelines.iter();
    timelines.filter(|line| line.target == target).collect()
}
