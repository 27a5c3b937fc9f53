//! The figures of one cell that somebody may claim, with their 95 % confidence intervals.

use crate::model::claims::Figure;
use crate::model::histogram::decode;
use crate::model::record::{Cell, Slice};

use super::compare::{by_round, latencies};
use super::interval::Interval;
use super::quantile::{self, Latencies};
use super::ratio::{Work, rate_per_s};
use super::spread::cell_spread;

/// The figure, in the unit that its name ends in; none with fewer than three rounds, or too few
/// writes for a percentile. The interval covers the machine's drift during the run.
pub(super) fn figure(cell: &Cell, figure: Figure) -> Option<Interval> {
    match figure {
        Figure::ThroughputBytesPerS => cell_spread(cell),
        Figure::Iops => {
            let size_bytes = cell.spec.axes.size_bytes as f64;
            let Interval { value, low, high } = cell_spread(cell)?;
            Interval::new(value / size_bytes, low / size_bytes, high / size_bytes)
        }
        Figure::MeanNs => mean_ns(cell),
        Figure::QuantileNs(share) => {
            let rounds: Option<Vec<Latencies>> = by_round(cell, u32::MAX)
                .values()
                .map(|slices| latencies(slices))
                .collect();
            quantile::quantile(&rounds?, share)
        }
    }
}

/// All latencies over all writes, so that each write counts alike.
fn mean_ns(cell: &Cell) -> Option<Interval> {
    let rounds: Option<Vec<Work>> = by_round(cell, u32::MAX)
        .values()
        .map(|slices| {
            let each: Option<Vec<Work>> = slices.iter().map(|slice| latency_work(slice)).collect();
            let sum = |pick: fn(&Work) -> f64, each: &[Work]| each.iter().map(pick).sum();
            each.map(|each| Work {
                amount: sum(|work| work.amount, &each),
                elapsed_ns: sum(|work| work.elapsed_ns, &each),
            })
        })
        .collect();
    rate_per_s(&rounds?)
}

/// A slice's latencies as an amount, and a second for each of its writes: the rate is then the mean.
fn latency_work(slice: &Slice) -> Option<Work> {
    let histogram = decode(&slice.histogram_v2).ok()?;
    let count = histogram.len() as f64;
    Some(Work {
        amount: histogram.mean() * count,
        elapsed_ns: count * 1e9,
    })
}
