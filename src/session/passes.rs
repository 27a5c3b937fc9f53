//! A slice made of passes: runs of the engine with a fresh file state before each, until the
//! slice's limits are reached.

use crate::model::sample::Sample;

use super::slice::SliceParams;

/// What a slice may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Time to go on for.
    pub(super) time_ns: u64,
    /// Operations to do even past that.
    pub(super) min_ops: u64,
    /// Time after which nothing is issued.
    pub(super) hard_ns: u64,
}

impl Left {
    /// All that a slice is asked for.
    pub(super) fn of(ask: &SliceParams) -> Left {
        Left {
            time_ns: ask.time_ns,
            min_ops: ask.min_ops,
            hard_ns: ask.hard_ns,
        }
    }

    /// What is left after `done`; none if that was all.
    fn after(self, done: &Sample) -> Option<Left> {
        let left = Left {
            time_ns: self.time_ns.saturating_sub(done.elapsed_ns),
            min_ops: self.min_ops.saturating_sub(done.ops),
            hard_ns: self.hard_ns.saturating_sub(done.elapsed_ns),
        };
        let goes_on = left.hard_ns > 0 && (left.time_ns > 0 || left.min_ops > 0);
        // A pass that did nothing, or failed, would do so again.
        (goes_on && done.ops > 0 && done.errors == 0).then_some(left)
    }
}

/// Runs `pass` again and again with what is left, and adds up what the passes measured. `more` says
/// whether a pass may follow at all.
pub(super) fn run<E>(
    mut left: Left,
    more: &dyn Fn() -> bool,
    pass: &mut dyn FnMut(Left) -> Result<Sample, E>,
) -> Result<Sample, E> {
    let mut sum = pass(left)?;
    let mut last_left = left.after(&sum);
    while let Some(next) = last_left
        && more()
    {
        left = next;
        let sample = pass(left)?;
        last_left = left.after(&sample);
        add(&mut sum, sample);
    }
    Ok(sum)
}

fn add(sum: &mut Sample, sample: Sample) {
    sum.ops += sample.ops;
    sum.bytes += sample.bytes;
    sum.elapsed_ns += sample.elapsed_ns;
    sum.jobs = sum.jobs.plus(&sample.jobs);
    // All histograms have one shape: `model::sample::latency_histogram`.
    sum.histogram += &sample.histogram;
    sum.out_of_range += sample.out_of_range;
    // Intervals of several passes, with pauses between, don't make one series.
    sum.interval_ops.clear();
    sum.interval_overflow = 0;
    sum.op_times.extend(sample.op_times);
    sum.longest_wait_ns = sum.longest_wait_ns.max(sample.longest_wait_ns);
    sum.rescued += sample.rescued;
    sum.errors += sample.errors;
    sum.first_error = sum.first_error.take().or(sample.first_error);
    for fallback in sample.fallbacks {
        if !sum.fallbacks.contains(&fallback) {
            sum.fallbacks.push(fallback);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample::latency_histogram;

    const LEFT: Left = Left {
        time_ns: 1000,
        min_ops: 1,
        hard_ns: 5000,
    };

    fn sample(ops: u64, elapsed_ns: u64) -> Sample {
        let mut histogram = latency_histogram();
        histogram.record_n(10, ops).unwrap();
        Sample {
            ops,
            bytes: ops * 512,
            elapsed_ns,
            jobs: Default::default(),
            histogram,
            out_of_range: 0,
            interval_ns: 100,
            interval_ops: vec![ops],
            interval_overflow: 0,
            op_times: Vec::new(),
            errors: 0,
            first_error: None,
            fallbacks: vec!["without".to_owned()],
            longest_wait_ns: 0,
            rescued: 0,
        }
    }

    fn passes(each: Sample) -> (Sample, Vec<Left>) {
        let mut asked = Vec::new();
        let sum = run(LEFT, &|| true, &mut |left| {
            asked.push(left);
            Ok::<_, ()>(each.clone())
        });
        (sum.unwrap(), asked)
    }

    #[test]
    fn passes_go_on_until_the_time_is_used_up() {
        let (sum, asked) = passes(sample(5, 400));
        assert_eq!(
            asked.iter().map(|left| left.time_ns).collect::<Vec<_>>(),
            [1000, 600, 200]
        );
        assert_eq!((sum.ops, sum.bytes, sum.elapsed_ns), (15, 7680, 1200));
        assert_eq!(sum.histogram.len(), 15);
        assert!(sum.interval_ops.is_empty());
        assert_eq!(sum.fallbacks, ["without"]);
    }

    #[test]
    fn a_single_pass_keeps_its_intervals() {
        let (sum, asked) = passes(sample(5, 1000));
        assert_eq!(asked.len(), 1);
        assert_eq!(sum.interval_ops, [5]);
    }

    #[test]
    fn a_pass_that_did_nothing_or_failed_is_the_last() {
        assert_eq!(passes(sample(0, 1)).1.len(), 1);
        let failed = Sample {
            errors: 1,
            ..sample(5, 10)
        };
        assert_eq!(passes(failed).1.len(), 1);
    }

    #[test]
    fn nothing_follows_a_stop() {
        let mut count = 0;
        let _ = run(LEFT, &|| false, &mut |_| {
            count += 1;
            Ok::<_, ()>(sample(1, 1))
        });
        assert_eq!(count, 1);
    }
}
