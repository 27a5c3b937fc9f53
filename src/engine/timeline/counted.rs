//! What a workload's actors counted together.

use hdrhistogram::Histogram;

use crate::model::timeline::{Interval, Phase, Switch};

use super::failure::Failure;
use super::series::{Latency, Series};

/// What a run of a workload gave.
#[derive(Debug)]
pub struct Counted {
    /// From its begin to the end of its last actor.
    pub elapsed_ns: u64,
    /// What was counted in each interval up to the last with an operation. The device's and the
    /// processors' shares are for others to fill in.
    pub intervals: Vec<Interval>,
    /// Checkpoints and the times between them; empty without checkpoints.
    pub phases: Vec<Phase>,
    /// Changes of segments.
    pub switches: Vec<Switch>,
    /// Pages of the data file that were written to the page cache.
    pub dirtied_pages: u64,
    /// Latencies of operations that no checkpoint overlapped.
    pub outside: Histogram<u64>,
    /// Those of them that fell outside the histogram and are clamped in it.
    pub outside_out_of_range: u64,
    /// Latencies of operations that one overlapped.
    pub inside: Histogram<u64>,
    /// Those of them that fell outside the histogram and are clamped in it.
    pub inside_out_of_range: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The first failure.
    pub failure: Option<Failure>,
}

impl Counted {
    /// Adds the actors up.
    pub(super) fn of(actors: &[&Series]) -> Counted {
        let (mut outside, mut inside) = (Latency::new(), Latency::new());
        let mut elapsed_ns = 0;
        for series in actors {
            elapsed_ns = elapsed_ns.max(series.ended_ns - series.origin_ns);
            for (sum, one) in [
                (&mut outside, &series.outside),
                (&mut inside, &series.inside),
            ] {
                sum.histogram += &one.histogram;
                sum.out_of_range += one.out_of_range;
            }
        }
        Counted {
            elapsed_ns,
            intervals: intervals(actors),
            phases: Vec::new(),
            switches: Vec::new(),
            dirtied_pages: 0,
            outside: outside.histogram,
            outside_out_of_range: outside.out_of_range,
            inside: inside.histogram,
            inside_out_of_range: inside.out_of_range,
            errors: actors.iter().map(|series| series.errors).sum(),
            failure: actors.iter().find_map(|series| series.failure),
        }
    }
}

fn intervals(actors: &[&Series]) -> Vec<Interval> {
    let used = |series: &&Series| series.bins.iter().rposition(|bin| bin.ops > 0);
    let length = actors.iter().filter_map(used).max().map_or(0, |at| at + 1);
    let mut sums = vec![Interval::default(); length];
    for series in actors {
        for (sum, bin) in sums.iter_mut().zip(&series.bins) {
            sum.ops += bin.ops;
            sum.bytes += bin.bytes;
            sum.longest_ns = sum.longest_ns.max(bin.longest_ns);
        }
    }
    sums
}
