//! How deep and for how long commits fall while a checkpoint runs.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::model::timeline::{Phase, Timeline};

use super::rate::{bins, median};

/// Fewer operations than this in a bin fluctuate by chance alone.
const ENOUGH_OPS: f64 = 50.0;
/// Widths of a bin that are tried, in intervals: up to a second.
const WIDTHS: [usize; 4] = [1, 2, 5, 10];
/// Below this share of the usual rate, commits are held up.
const HELD_UP: f64 = 0.8;

/// The dips of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dips {
    /// Width of the bins that were looked at.
    pub bin_ns: u64,
    /// The median rate of bins that no checkpoint touches.
    pub usual_per_s: f64,
    /// One for each checkpoint that has a whole bin.
    pub dips: Vec<Dip>,
}

/// One checkpoint's dip.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dip {
    /// How far the lowest bin is below the usual rate, as a share of it; 0: not at all.
    pub depth: f64,
    /// For how long, from the checkpoint's begin until the rate is back, it was below 80 % of the
    /// usual one.
    pub length_ns: u64,
    /// How deep the lowest of as many bins lies where there is no dip, by the median of all runs of so many:
    /// the lowest of several is low by chance alone. None of too few.
    pub chance_depth: Option<f64>,
}

/// The dips of a timeline; none without checkpoints, or without a bin that none touches.
pub fn dips(timeline: &Timeline) -> Option<Dips> {
    let width = WIDTHS
        .into_iter()
        .find(|&width| usual(timeline, width).is_some_and(|ops| ops >= ENOUGH_OPS));
    let width = width.unwrap_or(WIDTHS[WIDTHS.len() - 1]);
    let usual_ops = usual(timeline, width).filter(|&ops| ops > 0.0)?;
    let bin_ns = timeline.interval_ns * width as u64;
    let counts = bins(timeline, width, |bin| bin.ops);
    let checkpoints: Vec<&Phase> = checkpoints(timeline).collect();
    let parts: Vec<Range<usize>> = checkpoints
        .iter()
        .enumerate()
        .filter_map(|(at, phase)| {
            let next = checkpoints.get(at + 1);
            let until_ns = next.map_or(u64::MAX, |next| next.start_ns);
            part(&counts, bin_ns, usual_ops, phase, until_ns)
        })
        .collect();
    let others: Vec<u64> = untouched(timeline, width, &counts)
        .filter(|(bin, _)| !parts.iter().any(|part| part.contains(bin)))
        .map(|(_, ops)| ops)
        .collect();
    let dips: Vec<Dip> = parts
        .iter()
        .map(|part| Dip {
            depth: depth(&counts[part.clone()], usual_ops),
            length_ns: held_up(&counts[part.clone()], usual_ops) * bin_ns,
            chance_depth: chance_depth(&others, part.len(), usual_ops),
        })
        .collect();
    (!dips.is_empty()).then(|| Dips {
        bin_ns,
        usual_per_s: usual_ops * 1e9 / bin_ns as f64,
        dips,
    })
}

fn checkpoints(timeline: &Timeline) -> impl Iterator<Item = &Phase> {
    timeline
        .phases
        .iter()
        .filter(|phase| phase.checkpoint.is_some())
}

/// The median of the operations in a bin that no checkpoint touches.
fn usual(timeline: &Timeline, width: usize) -> Option<f64> {
    let counts = bins(timeline, width, |bin| bin.ops);
    let outside = untouched(timeline, width, &counts);
    median(outside.map(|(_, ops)| ops as f64).collect())
}

/// The bins that no checkpoint touches, by their places.
fn untouched(
    timeline: &Timeline,
    width: usize,
    counts: &[u64],
) -> impl Iterator<Item = (usize, u64)> {
    let bin_ns = timeline.interval_ns * width as u64;
    let touches = move |bin: u64| {
        let (from, to) = (bin * bin_ns, (bin + 1) * bin_ns);
        checkpoints(timeline).any(|phase| phase.start_ns < to && phase.end_ns >= from)
    };
    let all = counts.iter().copied().enumerate();
    all.filter(move |&(bin, _)| !touches(bin as u64))
}

fn is_held_up(ops: u64, usual_ops: f64) -> bool {
    (ops as f64) < usual_ops * HELD_UP
}

/// The bins of a checkpoint, and those after it in which commits are still held up: none of one that begins
/// where there is no whole bin left. `until_ns` is the next checkpoint's begin.
fn part(
    counts: &[u64],
    bin_ns: u64,
    usual_ops: f64,
    phase: &Phase,
    until_ns: u64,
) -> Option<Range<usize>> {
    let bin = |ns: u64| usize::try_from(ns / bin_ns).unwrap_or(usize::MAX);
    let first = bin(phase.start_ns);
    let after = bin(phase.end_ns).saturating_add(1).min(counts.len());
    let next = bin(until_ns).clamp(after, counts.len());
    let rest = counts.get(after..next)?.iter();
    let late = rest.take_while(|&&ops| is_held_up(ops, usual_ops)).count();
    (first < after).then(|| first..after + late)
}

/// How far the lowest bin is below the usual rate, as a share of it.
fn depth(counts: &[u64], usual_ops: f64) -> f64 {
    let lowest = counts.iter().map(|&ops| ops as f64);
    1.0 - lowest.fold(usual_ops, f64::min) / usual_ops
}

/// How many bins are below 80 % of the usual rate.
fn held_up(counts: &[u64], usual_ops: f64) -> u64 {
    let below = counts.iter().filter(|&&ops| is_held_up(ops, usual_ops));
    below.count() as u64
}

/// The depth of a dip of `count` bins where there is none.
fn chance_depth(others: &[u64], count: usize, usual_ops: f64) -> Option<f64> {
    let runs = others.chunks_exact(count.max(1));
    median(runs.map(|run| depth(run, usual_ops)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::timeline::made::{checkpoint, timeline, with_checkpoints};

    fn line(ops: &[u64], checkpoints: &[(u64, u64)]) -> Timeline {
        with_checkpoints(timeline(checkpoint(), ops), checkpoints)
    }

    #[test]
    fn a_known_dip_has_its_depth_and_its_length() {
        // 100 commits in each tenth of a second; a checkpoint from 1.0 to 1.3 s leaves 25, and it
        // takes two tenths more until they are back.
        let mut ops = [100; 30];
        ops[10..13].fill(25);
        ops[13] = 60;
        ops[14] = 70;
        let found = dips(&line(&ops, &[(1000, 1300)])).unwrap();
        assert_eq!((found.bin_ns, found.usual_per_s), (100_000_000, 1000.0));
        assert_eq!(found.dips.len(), 1);
        assert!((found.dips[0].depth - 0.75).abs() < 1e-12);
        assert_eq!(found.dips[0].length_ns, 500_000_000);
    }

    #[test]
    fn no_dip_is_of_depth_and_length_zero() {
        let found = dips(&line(&[100; 30], &[(1000, 1300)])).unwrap();
        assert_eq!(
            found.dips,
            [Dip {
                depth: 0.0,
                length_ns: 0,
                chance_depth: Some(0.0)
            }]
        );
    }

    #[test]
    fn a_checkpoint_without_a_whole_bin_has_no_dip() {
        let mut ops = [100; 30];
        ops[10..13].fill(25);
        let mut line = line(&ops, &[(1000, 1300), (2950, 3000)]);
        line.elapsed_ns = 2_960_000_000;
        let found = dips(&line).unwrap();
        assert_eq!(found.dips.len(), 1);
        assert!((found.dips[0].depth - 0.75).abs() < 1e-12);
        // What it has of whole bins is looked at, though it goes on.
        line.phases[3].start_ns = 2_850_000_000;
        line.phases[3].end_ns = 9_000_000_000;
        let found = dips(&line).unwrap();
        assert_eq!((found.dips.len(), found.dips[1].depth), (2, 0.0));
    }

    #[test]
    fn the_lowest_of_as_many_bins_without_a_checkpoint_is_told_beside_a_dip() {
        // Every fourth tenth is at 90 %, a checkpoint or not, and its two bins after that are a dip.
        let mut ops: Vec<u64> = (0..40)
            .map(|at| if at % 4 == 3 { 90 } else { 100 })
            .collect();
        ops[14] = 10;
        ops[15] = 10;
        let found = dips(&line(&ops, &[(1000, 1390)])).unwrap();
        let dip = found.dips[0];
        assert!((dip.depth - 0.9).abs() < 1e-12, "{dip:?}");
        assert_eq!(dip.length_ns, 200_000_000);
        // Six bins have one of them at least.
        assert!((dip.chance_depth.unwrap() - 0.1).abs() < 1e-12, "{dip:?}");
        // None is as long as a checkpoint that takes most of the time.
        let found = dips(&line(&ops, &[(1000, 3390)])).unwrap();
        assert_eq!(found.dips[0].chance_depth, None);
    }

    #[test]
    fn a_fall_between_two_checkpoints_is_neithers() {
        let mut ops = [100; 60];
        ops[10] = 10;
        ops[20] = 0;
        ops[41] = 40;
        let found = dips(&line(&ops, &[(1000, 1090), (4100, 4190)])).unwrap();
        let lengths: Vec<u64> = found
            .dips
            .iter()
            .map(|dip| dip.length_ns / 1_000_000)
            .collect();
        assert_eq!(lengths, [100, 100]);
        assert!((found.dips[0].depth - 0.9).abs() < 1e-12);
        assert!((found.dips[1].depth - 0.6).abs() < 1e-12);
    }

    #[test]
    fn few_commits_are_looked_at_by_the_second() {
        // 10 in a tenth: a second has 100.
        let mut ops = [10; 100];
        ops[50..60].fill(2);
        let found = dips(&line(&ops, &[(5000, 5950)])).unwrap();
        assert_eq!(found.bin_ns, 500_000_000);
        assert!((found.dips[0].depth - 0.8).abs() < 1e-12);
        assert_eq!(found.dips[0].length_ns, 1_000_000_000);
    }

    #[test]
    fn without_checkpoints_or_a_time_between_them_there_is_none() {
        assert_eq!(dips(&line(&[100; 30], &[])), None);
        assert_eq!(dips(&line(&[100; 30], &[(0, 3000)])), None);
    }
}
