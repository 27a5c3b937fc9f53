//! What O_TRUNC costs.

use serde::{Deserialize, Serialize};

use crate::model::cell::Method;
use crate::model::record::Record;

use super::interval::Interval;

/// A `trunc` cell against the `overwrite` cell of the same target and axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TruncPenalty {
    /// The `id` of the target.
    pub target: String,
    /// Bytes of one write.
    pub size_bytes: u64,
    /// What makes a write synchronous.
    pub method: Method,
    /// The `id` of the cell without O_TRUNC.
    pub overwrite_cell: String,
    /// The `id` of the cell with it.
    pub trunc_cell: String,
    /// Throughput without over throughput with O_TRUNC.
    pub throughput_ratio: Option<Interval>,
    /// With minus without, of the median latency.
    pub p50_delta_ns: Option<Interval>,
    /// With minus without, of the 99th percentile.
    pub p99_delta_ns: Option<Interval>,
    /// The truncating open itself: median over passes.
    pub open_p50_ns: Option<u64>,
    /// Passes, each with one truncating open.
    pub opens: u64,
}

/// All penalties of a record.
pub fn trunc_penalties(_record: &Record) -> Vec<TruncPenalty> {
    Vec::new()
}
