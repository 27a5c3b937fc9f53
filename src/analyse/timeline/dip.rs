//! How deep and for how long commits fall while a checkpoint runs.

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
    /// One for each checkpoint.
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
    let dips: Vec<Dip> = checkpoints
        .iter()
        .enumerate()
        .map(|(at, phase)| {
            let until_ns = checkpoints
                .get(at + 1)
                .map_or(u64::MAX, |next| next.start_ns);
            dip(&counts, bin_ns, usual_ops, phase, until_ns)
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
    let bin_ns = timeline.interval_ns * width as u64;
    let touches = |bin: u64| {
        let (from, to) = (bin * bin_ns, (bin + 1) * bin_ns);
        checkpoints(timeline).any(|phase| phase.start_ns < to && phase.end_ns >= from)
    };
    let counts = bins(timeline, width, |bin| bin.ops);
    let outside = counts
        .into_iter()
        .zip(0..)
        .filter(|&(_, bin)| !touches(bin));
    median(outside.map(|(ops, _)| ops as f64).collect())
}

/// `until_ns` is the next checkpoint's begin.
fn dip(counts: &[u64], bin_ns: u64, usual_ops: f64, phase: &Phase, until_ns: u64) -> Dip {
    let first = (phase.start_ns / bin_ns) as usize;
    let last = (phase.end_ns / bin_ns) as usize;
    let next = (until_ns / bin_ns) as usize;
    let (mut lowest, mut held_up) = (usual_ops, 0);
    for (at, &ops) in counts
        .iter()
        .enumerate()
        .take(next.max(last + 1))
        .skip(first)
    {
        let is_held_up = (ops as f64) < usual_ops * HELD_UP;
        if at > last && !is_held_up {
            break;
        }
        lowest = lowest.min(ops as f64);
        held_up += u64::from(is_held_up);
    }
    Dip {
        depth: 1.0 - lowest / usual_ops,
        length_ns: held_up * bin_ns,
    }
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
                length_ns: 0
            }]
        );
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
