//! Is a workload steady, or does it fluctuate?

use serde::{Deserialize, Serialize};

use crate::model::timeline::Timeline;

use super::rate::{bins, median};

/// Fewer whole seconds than this say nothing of steadiness.
const LEAST_SECONDS: usize = 3;

/// How steady operations are, by whole seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Whole seconds that were looked at.
    pub seconds: usize,
    /// Standard deviation of the operations in a second, over their mean: 0 for the steadiest.
    pub variation: f64,
    /// The median of the operations in a second.
    pub median_per_s: f64,
    /// Seconds with less than half of that median.
    pub below_half: usize,
    /// The longest time that one operation took.
    pub longest_ns: u64,
}

/// The steadiness of all `timelines` together; none of fewer than three seconds, or without an
/// operation.
pub fn steadiness(timelines: &[&Timeline]) -> Option<Steadiness> {
    let seconds: Vec<u64> = timelines
        .iter()
        .flat_map(|line| {
            let width = 1_000_000_000_u64.checked_div(line.interval_ns).unwrap_or(1);
            bins(line, width as usize, |bin| bin.ops)
        })
        .collect();
    if seconds.len() < LEAST_SECONDS {
        return None;
    }
    let count = seconds.len() as f64;
    let mean = seconds.iter().sum::<u64>() as f64 / count;
    let squares: f64 = seconds.iter().map(|&ops| (ops as f64 - mean).powi(2)).sum();
    let variation = (squares / (count - 1.0)).sqrt() / mean;
    let median = median(seconds.iter().map(|&ops| ops as f64).collect())?;
    let intervals = timelines.iter().flat_map(|line| &line.intervals);
    variation.is_finite().then(|| Steadiness {
        seconds: seconds.len(),
        variation,
        median_per_s: median,
        below_half: seconds
            .iter()
            .filter(|&&ops| (ops as f64) < median / 2.0)
            .count(),
        longest_ns: intervals.map(|bin| bin.longest_ns).max().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::timeline::made::{churn, timeline};

    /// So many operations in each second.
    fn seconds(ops: &[u64]) -> Timeline {
        let tenths: Vec<u64> = ops.iter().flat_map(|&ops| [ops / 10; 10]).collect();
        timeline(churn(), &tenths)
    }

    #[test]
    fn a_steady_workload_does_not_vary() {
        let line = seconds(&[100; 10]);
        let steady = steadiness(&[&line]).unwrap();
        assert_eq!((steady.seconds, steady.below_half), (10, 0));
        assert!(steady.variation.abs() < 1e-12);
    }

    #[test]
    fn known_seconds_have_their_known_variation_and_count() {
        // Mean 80, squares 20*20*4 + 80*80: standard deviation 44.7.
        let mut line = seconds(&[100, 100, 0, 100, 100]);
        line.intervals[7].longest_ns = 1_100_000_000;
        let steady = steadiness(&[&line]).unwrap();
        let expected = (8000.0_f64 / 4.0).sqrt() / 80.0;
        assert!((steady.variation - expected).abs() < 1e-12);
        assert_eq!((steady.below_half, steady.median_per_s), (1, 100.0));
        assert_eq!(steady.longest_ns, 1_100_000_000);
        // Just half the median is not below it.
        assert_eq!(
            steadiness(&[&seconds(&[100, 50, 100])]).unwrap().below_half,
            0
        );
    }

    #[test]
    fn too_short_or_idle_is_none() {
        assert_eq!(steadiness(&[&seconds(&[100, 100])]), None);
        assert_eq!(steadiness(&[&seconds(&[0; 5])]), None);
    }
}
