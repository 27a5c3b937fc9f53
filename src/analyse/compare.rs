//! Two cells of one record against each other, round by round.

use std::collections::BTreeMap;

use crate::model::histogram::decode;
use crate::model::record::{Cell, Record, Slice};

use super::interval::Interval;
use super::quantile::{Latencies, quantile_delta};
use super::ratio::{Work, ratio};

/// How two cells differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    /// Throughput of the first over that of the second.
    pub(super) throughput_ratio: Option<Interval>,
    /// Median latency of the second minus that of the first.
    pub(super) p50_delta_ns: Option<Interval>,
    /// The same of the 99th percentile.
    pub(super) p99_delta_ns: Option<Interval>,
    /// The same of the 99.9th percentile.
    pub(super) p99_9_delta_ns: Option<Interval>,
    /// Rounds in which both did something.
    pub(super) rounds: u32,
}

/// Compares all that [`Comparison`] holds. Decodes every histogram: for reports, not for the loop
/// that measures.
pub(super) fn compare(one: &Cell, other: &Cell) -> Comparison {
    let pairs = paired(one, other, u32::MAX);
    // A histogram that cannot be decoded leaves the latencies unknown, and the throughput known.
    let latencies: Option<(Vec<Latencies>, Vec<Latencies>)> = pairs
        .iter()
        .map(|(one, other)| Some((latencies(one)?, latencies(other)?)))
        .collect();
    let delta = |share: f64| {
        let (one, other) = latencies.as_ref()?;
        quantile_delta(one, other, share)
    };
    Comparison {
        throughput_ratio: ratio(&works(&pairs)),
        p50_delta_ns: delta(0.5),
        p99_delta_ns: delta(0.99),
        p99_9_delta_ns: delta(0.999),
        rounds: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
    }
}

/// The throughput ratio of the first `rounds` rounds alone, from the slices' counts: cheap enough to ask after each round.
pub(super) fn throughput_ratio(one: &Cell, other: &Cell, rounds: u32) -> Option<Interval> {
    ratio(&works(&paired(one, other, rounds)))
}

/// What a cell did in each of its first `rounds` rounds.
pub(super) fn works_alone(cell: &Cell, rounds: u32) -> Vec<Work> {
    by_round(cell, rounds)
        .values()
        .map(|slices| work(slices))
        .collect()
}

/// The raw cell that a file cell is compared with: of its target's baseline, with equal axes.
pub(super) fn raw_cell_of<'a>(record: &'a Record, file: &Cell) -> Option<&'a Cell> {
    let target = record
        .targets
        .iter()
        .find(|target| target.id == file.spec.target)?;
    let raw_target = target.baseline.as_ref()?.target.as_ref()?;
    record.cells.iter().find(|cell| {
        cell.spec.target == *raw_target
            && cell.spec.file_state.is_none()
            && cell.spec.axes == file.spec.axes
    })
}

fn paired<'a>(
    one: &'a Cell,
    other: &'a Cell,
    rounds: u32,
) -> Vec<(Vec<&'a Slice>, Vec<&'a Slice>)> {
    let mut others = by_round(other, rounds);
    by_round(one, rounds)
        .into_iter()
        .filter_map(|(round, slices)| Some((slices, others.remove(&round)?)))
        .collect()
}

fn works(pairs: &[(Vec<&Slice>, Vec<&Slice>)]) -> Vec<(Work, Work)> {
    pairs
        .iter()
        .map(|(one, other)| (work(one), work(other)))
        .collect()
}

pub(super) fn by_round(cell: &Cell, limit: u32) -> BTreeMap<u32, Vec<&Slice>> {
    let mut rounds: BTreeMap<u32, Vec<&Slice>> = BTreeMap::new();
    for slice in &cell.slices {
        if slice.round < limit && slice.ops > 0 && slice.elapsed_ns > 0 {
            rounds.entry(slice.round).or_default().push(slice);
        }
    }
    rounds
}

fn work(slices: &[&Slice]) -> Work {
    Work {
        amount: match slices.iter().map(|slice| slice.bytes).sum::<u64>() {
            // Empty flushes write nothing: how sure they are is a matter of their number.
            0 => slices.iter().map(|slice| slice.ops as f64).sum(),
            bytes => bytes as f64,
        },
        elapsed_ns: slices.iter().map(|slice| slice.elapsed_ns as f64).sum(),
    }
}

pub(super) fn latencies(slices: &[&Slice]) -> Option<Latencies> {
    let parts: Option<Vec<Latencies>> = slices
        .iter()
        .map(|slice| Some(Latencies::of(&decode(&slice.histogram_v2).ok()?)))
        .collect();
    Some(Latencies::merge(&parts?))
}
