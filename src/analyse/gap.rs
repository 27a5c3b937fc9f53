//! File cells against their raw cells.

use serde::{Deserialize, Serialize};

use crate::model::cell::{EngineKind, FileState, Method, Pattern};
use crate::model::record::{Cell, Record};

use super::compare::{compare, raw_cell_of};
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

/// All gaps of a record, in the order of its file cells. A file cell whose target has no baseline, or
/// whose axes the baseline lacks, has no gap.
pub fn gaps(record: &Record) -> Vec<Gap> {
    record
        .cells
        .iter()
        .filter_map(|file| Some((file, file.spec.file_state?, raw_cell_of(record, file)?)))
        .map(|(file, file_state, raw)| gap(file, file_state, raw))
        .collect()
}

fn gap(file: &Cell, file_state: FileState, raw: &Cell) -> Gap {
    let axes = &file.spec.axes;
    let compared = compare(raw, file);
    Gap {
        size_bytes: axes.size_bytes,
        file_state,
        method: axes.method,
        raw_cell: raw.spec.id.clone(),
        file_cell: file.spec.id.clone(),
        throughput_ratio: compared.throughput_ratio,
        p50_delta_ns: compared.p50_delta_ns,
        p99_delta_ns: compared.p99_delta_ns,
        p99_9_delta_ns: compared.p99_9_delta_ns,
        queue_depth: axes.queue_depth,
        jobs: axes.jobs,
        pattern: axes.pattern,
        engine: axes.engine,
        direct: axes.direct,
        rounds: compared.rounds,
    }
}
