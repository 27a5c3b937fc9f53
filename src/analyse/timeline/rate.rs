//! Rates over time, with their intervals.

use crate::analyse::interval::{Interval, MIN_ROUNDS};
use crate::analyse::ratio::{Work, rate_per_s};
use crate::model::timeline::{Interval as Bin, Timeline};

/// Neighbouring intervals of one timeline resemble each other, so it is cut into no more parts than
/// this (batch means: A. Law and W. Kelton, Simulation Modeling and Analysis, chapter 9).
const PARTS: usize = 10;

/// How many whole intervals a timeline has.
pub fn whole_intervals(timeline: &Timeline) -> usize {
    let length_ns = timeline.elapsed_ns.min(timeline.duration_ns);
    let whole = length_ns.checked_div(timeline.interval_ns).unwrap_or(0);
    timeline.intervals.len().min(whole as usize)
}

/// What `amount` adds up to in each bin of `width` whole intervals.
pub fn bins(timeline: &Timeline, width: usize, amount: impl Fn(&Bin) -> u64) -> Vec<u64> {
    let whole = &timeline.intervals[..whole_intervals(timeline)];
    let chunks = whole.chunks_exact(width.max(1));
    chunks.map(|bin| bin.iter().map(&amount).sum()).collect()
}

/// `amount` in a second, over all timelines: of as many repetitions as an interval needs, or else of
/// parts of each.
pub fn rate(timelines: &[&Timeline], amount: impl Fn(&Bin) -> u64) -> Option<Interval> {
    let parts = match timelines.len() {
        0..MIN_ROUNDS => PARTS,
        _ => 1,
    };
    let mut works = Vec::new();
    for timeline in timelines {
        let width = (whole_intervals(timeline) / parts).max(1);
        let elapsed_ns = width as f64 * timeline.interval_ns as f64;
        let works_of = bins(timeline, width, &amount);
        works.extend(works_of.into_iter().map(|amount| Work {
            amount: amount as f64,
            elapsed_ns,
        }));
    }
    rate_per_s(&works)
}

/// The median; none of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::timeline::made::{churn, timeline};

    #[test]
    fn a_part_of_an_interval_at_the_end_is_left_out() {
        let mut timeline = timeline(churn(), &[3, 3, 3, 1]);
        timeline.elapsed_ns = 350_000_000;
        assert_eq!(whole_intervals(&timeline), 3);
        assert_eq!(bins(&timeline, 1, |bin| bin.ops), [3, 3, 3]);
        assert_eq!(bins(&timeline, 2, |bin| bin.ops), [6]);
    }

    #[test]
    fn a_median_lies_between_the_middle_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_steady_rate_has_a_narrow_interval_and_a_bursty_one_a_wide() {
        let steady = timeline(churn(), &[5; 100]);
        let rate_of = |timeline| rate(&[timeline], |bin| bin.ops).unwrap();
        assert!((rate_of(&steady).value - 50.0).abs() < 1e-9);
        assert!(rate_of(&steady).relative_half_width().unwrap() < 1e-9);
        let bursts: Vec<u64> = (0..100).map(|at| if at < 30 { 1 } else { 7 }).collect();
        let bursty = timeline(churn(), &bursts);
        assert!(rate_of(&bursty).relative_half_width().unwrap() > 0.1);
    }

    #[test]
    fn repetitions_are_the_rounds_where_there_are_enough() {
        let lines: Vec<Timeline> = [40, 50, 60]
            .iter()
            .map(|&ops| timeline(churn(), &[ops; 10]))
            .collect();
        let rate = rate(&lines.iter().collect::<Vec<_>>(), |bin| bin.ops).unwrap();
        assert!((rate.value - 500.0).abs() < 5.0, "{rate:?}");
        assert!(rate.covers(420.0) && rate.covers(580.0), "{rate:?}");
    }
}
