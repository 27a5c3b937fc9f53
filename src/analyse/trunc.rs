//! What O_TRUNC costs.

use serde::{Deserialize, Serialize};

use crate::model::cell::{FileState, Method};
use crate::model::record::{Cell, Record};

use super::compare::compare;
use super::interval::Interval;
use super::quantile::is_known;

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
    /// The truncating open itself: median over passes; none of too few.
    pub open_p50_ns: Option<u64>,
    /// Passes, each with one truncating open.
    pub opens: u64,
}

/// All penalties of a record, in the order of its `trunc` cells.
pub fn trunc_penalties(record: &Record) -> Vec<TruncPenalty> {
    let without = |trunc: &Cell| {
        record.cells.iter().find(|cell| {
            cell.spec.target == trunc.spec.target
                && cell.spec.file_state == Some(FileState::Overwrite)
                && cell.spec.axes == trunc.spec.axes
        })
    };
    record
        .cells
        .iter()
        .filter(|cell| cell.spec.file_state == Some(FileState::Trunc))
        .filter_map(|trunc| Some(penalty(without(trunc)?, trunc)))
        .collect()
}

fn penalty(overwrite: &Cell, trunc: &Cell) -> TruncPenalty {
    let compared = compare(overwrite, trunc);
    let mut opens_ns: Vec<u64> = trunc
        .slices
        .iter()
        .flat_map(|slice| slice.truncating_opens_ns.iter().copied())
        .collect();
    opens_ns.sort_unstable();
    let opens = opens_ns.len() as u64;
    TruncPenalty {
        target: trunc.spec.target.clone(),
        size_bytes: trunc.spec.axes.size_bytes,
        method: trunc.spec.axes.method,
        overwrite_cell: overwrite.spec.id.clone(),
        trunc_cell: trunc.spec.id.clone(),
        throughput_ratio: compared.throughput_ratio,
        p50_delta_ns: compared.p50_delta_ns,
        p99_delta_ns: compared.p99_delta_ns,
        open_p50_ns: opens_ns
            .get(opens_ns.len() / 2)
            .filter(|_| is_known(opens, 0.5))
            .copied(),
        opens,
    }
}
