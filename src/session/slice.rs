//! What a slice is asked to do, and what it gives.

use hdrhistogram::Histogram;

use crate::model::record::{Handed, Note, Slice};

/// What a slice is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct SliceParams {
    /// Decides the slice's first block, its random offsets and its payload. Cells that are compared
    /// get the same in the same round, so they write the same blocks.
    pub seed: u64,
    /// Issue no more after this time, if `min_ops` are done.
    pub time_ns: u64,
    /// Go on past `time_ns` until this many are done.
    pub min_ops: u64,
    /// Issue no more after this time in any case.
    pub hard_ns: u64,
    /// Issue no more than this many, in each pass.
    pub max_ops: u64,
    /// Count the requests that io_uring hands to worker threads, which slows the writes.
    pub count_handed: bool,
    /// At a device, begin where the cell's last slice ended, and not where `seed` says.
    pub goes_on: bool,
}

/// What a slice gave: the record's slice but for its place in the run, and its latencies.
#[derive(Debug)]
pub struct Outcome {
    /// `round`, `position`, `started_ns` and `histogram_v2` are filled in here.
    pub slice: Slice,
    /// The latencies.
    pub histogram: Histogram<u64>,
    /// What io_uring handed to worker threads, if that was counted.
    pub handed: Option<Handed>,
    /// The first error of its operations. The cell is not measured again.
    pub failed: Option<String>,
    /// What the reader should know of it.
    pub notes: Vec<Note>,
}

/// Why a slice gave nothing.
#[derive(Debug)]
pub enum SliceError {
    /// The cell can't be measured: why. The others go on.
    Cell(String),
    /// The run can't go on.
    Fatal(anyhow::Error),
}
