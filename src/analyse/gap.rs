//! File cells against their raw cells.

use serde::{Deserialize, Serialize};

use crate::model::cell::{EngineKind, FileState, Method, Pattern};
use crate::model::record::Record;

use super::interval::Interval;

/// One file cell against the raw cell of equal axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// Bytes of one write.
    pub size_bytes: u64,
    /// The state of the file's blocks.
    pub file_state: FileState,
    /// What makes a write synchronous.
    pub method: Method,
    /// The `id` of the raw cell.
    pub raw_cell: String,
    /// The `id` of the file cell.
    pub file_cell: String,
    /// Raw throughput over file throughput.
    pub throughput_ratio: Option<Interval>,
    /// File minus raw, of the median latency.
    pub p50_delta_ns: Option<Interval>,
    /// File minus raw, of the 99th percentile.
    pub p99_delta_ns: Option<Interval>,
    /// File minus raw, of the 99.9th percentile.
    pub p99_9_delta_ns: Option<Interval>,
    /// Writes in flight for each job.
    pub queue_depth: u32,
    /// Threads.
    pub jobs: u32,
    /// Order of offsets.
    pub pattern: Pattern,
    /// What issued the writes.
    pub engine: EngineKind,
    /// O_DIRECT was asked for.
    pub direct: bool,
    /// Rounds in which both cells have a slice.
    pub rounds: u32,
}

/// All gaps of a record, in the order of its file cells.
pub fn gaps(_record: &Record) -> Vec<Gap> {
    Vec::new()
}
