//! A cell's totals: the sums over its slices.

use hdrhistogram::Histogram;

use crate::model::cell::CellSpec;
use crate::model::histogram::encode;
use crate::model::record::{Cell, LatencyNs, Slice};
use crate::model::sample::latency_histogram;

/// The quantiles of a histogram of nanoseconds; none of an empty one.
fn quantiles(histogram: &Histogram<u64>) -> Option<LatencyNs> {
    (!histogram.is_empty()).then(|| LatencyNs {
        min: histogram.min(),
        mean: histogram.mean(),
        p50: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        p99_9: histogram.value_at_quantile(0.999),
        p99_99: histogram.value_at_quantile(0.9999),
        max: histogram.max(),
    })
}

/// A cell that nothing was measured of yet.
pub(super) fn empty_cell(spec: CellSpec) -> Cell {
    Cell {
        spec,
        ops: 0,
        bytes: 0,
        elapsed_ns: 0,
        throughput_bytes_per_s: None,
        iops: None,
        latency_ns: None,
        histogram_v2: encode(&latency_histogram()),
        out_of_range: 0,
        failed: None,
        slices: Vec::new(),
        traced: None,
    }
}

/// Adds a slice to its cell. `all` is the sum of the latencies of the cell's slices, this one's
/// included.
pub(super) fn add(cell: &mut Cell, slice: Slice, all: &Histogram<u64>) {
    cell.ops += slice.ops;
    cell.bytes += slice.bytes;
    cell.elapsed_ns += slice.elapsed_ns;
    cell.out_of_range += slice.out_of_range;
    if cell.elapsed_ns > 0 && cell.ops > 0 {
        let seconds = cell.elapsed_ns as f64 / 1e9;
        cell.throughput_bytes_per_s = Some(cell.bytes as f64 / seconds);
        cell.iops = Some(cell.ops as f64 / seconds);
    }
    cell.latency_ns = quantiles(all);
    cell.slices.push(slice);
}
