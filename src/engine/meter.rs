//! What one lane measures: latencies, operations over time, failures.

use hdrhistogram::Histogram;

use crate::model::sample::{IoFailure, JobUse, MAX_NS, MIN_NS, OpTime, Sample, latency_histogram};
use crate::sys::pulse;

/// The most intervals that are logged: at 100 ms, nearly two hours.
const MAX_INTERVALS: u64 = 1 << 16;

/// Collects a lane's completions. All its memory is there from the start.
#[derive(Debug)]
pub(super) struct Meter {
    ops: u64,
    bytes: u64,
    histogram: Histogram<u64>,
    out_of_range: u64,
    origin_ns: u64,
    interval_ns: u64,
    interval_ops: Vec<u64>,
    interval_overflow: u64,
    op_times: Vec<OpTime>,
    first_ns: u64,
    last_ns: u64,
    errors: u64,
    first_error: Option<IoFailure>,
}

impl Meter {
    /// There is room for the intervals of `hard_ns` and one second for what is then still in
    /// flight, and for the times of `op_times` operations.
    pub(super) fn new(interval_ns: u64, hard_ns: u64, op_times: usize) -> Meter {
        let intervals = hard_ns.saturating_add(1_000_000_000).div_ceil(interval_ns);
        Meter {
            ops: 0,
            bytes: 0,
            histogram: latency_histogram(),
            out_of_range: 0,
            origin_ns: 0,
            interval_ns,
            interval_ops: vec![0; intervals.min(MAX_INTERVALS) as usize],
            interval_overflow: 0,
            op_times: Vec::with_capacity(op_times),
            first_ns: u64::MAX,
            last_ns: 0,
            errors: 0,
            first_error: None,
        }
    }

    /// Intervals count from `origin_ns` on.
    pub(super) fn start(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
    }

    /// An operation begins.
    #[inline]
    pub(super) fn begin(&mut self, at_ns: u64) {
        self.first_ns = self.first_ns.min(at_ns);
    }

    /// An operation wrote all its bytes.
    #[inline]
    pub(super) fn complete(&mut self, op: OpTime) {
        let OpTime {
            start_ns,
            end_ns: at_ns,
            bytes,
            ..
        } = op;
        // Never past the room that there was from the start.
        if self.op_times.len() < self.op_times.capacity() {
            self.op_times.push(op);
        }
        self.ops += 1;
        self.bytes += bytes;
        self.last_ns = self.last_ns.max(at_ns);
        let latency_ns = at_ns.saturating_sub(start_ns);
        if !(MIN_NS..=MAX_NS).contains(&latency_ns) {
            self.out_of_range += 1;
        }
        self.histogram
            .saturating_record(latency_ns.clamp(MIN_NS, MAX_NS));
        let interval = at_ns.saturating_sub(self.origin_ns) / self.interval_ns;
        match self.interval_ops.get_mut(interval as usize) {
            Some(ops) => *ops += 1,
            None => self.interval_overflow += 1,
        }
    }

    /// An operation failed or was cut short.
    pub(super) fn fail(&mut self, at_ns: u64, failure: IoFailure) {
        self.errors += 1;
        self.last_ns = self.last_ns.max(at_ns);
        self.first_error.get_or_insert(failure);
    }
}

/// What a lane brings back.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) meter: Meter,
    pub(super) used: JobUse,
    pub(super) fallbacks: Vec<String>,
    pub(super) longest_wait_ns: u64,
    pub(super) rescued: u32,
}

/// Adds the lanes up. The first error is that of the first lane that has one.
pub(super) fn merge(lanes: Vec<Measured>, interval_ns: u64) -> Sample {
    let mut sample = Sample {
        ops: 0,
        bytes: 0,
        elapsed_ns: 0,
        jobs: JobUse::default(),
        histogram: latency_histogram(),
        out_of_range: 0,
        interval_ns,
        interval_ops: Vec::new(),
        interval_overflow: 0,
        op_times: Vec::new(),
        errors: 0,
        first_error: None,
        fallbacks: Vec::new(),
        longest_wait_ns: 0,
        rescued: 0,
    };
    let (mut first_ns, mut last_ns) = (u64::MAX, 0);
    for Measured {
        meter,
        used,
        fallbacks,
        longest_wait_ns,
        rescued,
    } in lanes
    {
        sample.longest_wait_ns = sample.longest_wait_ns.max(longest_wait_ns);
        sample.rescued += rescued;
        // Of a thousand jobs, this takes its time.
        pulse::beat();
        sample.ops += meter.ops;
        sample.bytes += meter.bytes;
        sample.jobs = sample.jobs.plus(&used);
        sample.histogram += meter.histogram;
        sample.out_of_range += meter.out_of_range;
        sample.interval_overflow += meter.interval_overflow;
        sample.op_times.extend(meter.op_times);
        sample.errors += meter.errors;
        sample.first_error = sample.first_error.or(meter.first_error);
        first_ns = first_ns.min(meter.first_ns);
        last_ns = last_ns.max(meter.last_ns);
        let used = meter
            .interval_ops
            .iter()
            .rposition(|&ops| ops > 0)
            .map_or(0, |last| last + 1);
        if sample.interval_ops.len() < used {
            sample.interval_ops.resize(used, 0);
        }
        for (sum, ops) in sample.interval_ops.iter_mut().zip(&meter.interval_ops) {
            *sum += ops;
        }
        for fallback in fallbacks {
            if !sample.fallbacks.contains(&fallback) {
                sample.fallbacks.push(fallback);
            }
        }
    }
    sample.elapsed_ns = last_ns.saturating_sub(first_ns);
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample::Call;

    fn measured(meter: Meter, fallback: &str) -> Measured {
        Measured {
            meter,
            used: JobUse {
                cpu_ns: 5,
                ..JobUse::default()
            },
            fallbacks: vec![fallback.into()],
            longest_wait_ns: 0,
            rescued: 0,
        }
    }

    fn started(origin_ns: u64) -> Meter {
        let mut meter = Meter::new(100, 10_000, 0);
        meter.start(origin_ns);
        meter
    }

    fn op(start_ns: u64, end_ns: u64, bytes: u64) -> OpTime {
        OpTime {
            start_ns,
            end_ns,
            offset_bytes: 0,
            bytes,
        }
    }

    #[test]
    fn operations_are_listed_as_far_as_there_is_room() {
        let mut meter = Meter::new(100, 10_000, 2);
        let room = meter.op_times.capacity() as u64;
        for start_ns in 0..room + 3 {
            meter.complete(op(start_ns, start_ns + 5, 512));
        }
        assert_eq!(meter.op_times.len() as u64, room);
        assert_eq!(meter.op_times[1], op(1, 6, 512));
        assert_eq!(meter.ops, room + 3);
    }

    #[test]
    fn lanes_add_up() {
        let mut one = started(1000);
        one.begin(1010);
        one.complete(op(1010, 1050, 4096));
        let mut two = started(1000);
        two.begin(1020);
        two.complete(op(1020, 1250, 4096));
        let failure = IoFailure {
            call: Call::Write,
            offset_bytes: 8,
            size_bytes: 4096,
            errno: Some(5),
            written_bytes: 0,
        };
        two.fail(1300, failure.clone());
        let sample = merge(vec![measured(one, "a"), measured(two, "a")], 100);
        assert_eq!(
            (sample.ops, sample.bytes, sample.jobs.cpu_ns),
            (2, 8192, 10)
        );
        assert_eq!(sample.elapsed_ns, 290);
        assert_eq!(sample.interval_ops, [1, 0, 1]);
        assert_eq!((sample.errors, sample.first_error), (1, Some(failure)));
        assert_eq!(sample.fallbacks, ["a"]);
        assert_eq!((sample.histogram.min(), sample.histogram.max()), (40, 230));
    }

    #[test]
    fn latencies_out_of_range_are_clamped_and_counted() {
        let mut meter = started(0);
        meter.complete(op(0, 2 * MAX_NS, 1));
        meter.complete(op(7, 7, 1));
        meter.complete(op(0, 50, 1));
        let sample = merge(vec![measured(meter, "a")], 100);
        assert_eq!((sample.out_of_range, sample.histogram.len()), (2, 3));
        // Two minutes at 100 ns are past the log's end.
        assert_eq!(sample.interval_overflow, 1);
        assert_eq!(sample.interval_ops, [2]);
    }

    #[test]
    fn nothing_measured_is_an_empty_sample() {
        let sample = merge(vec![measured(started(0), "a")], 100);
        assert_eq!((sample.ops, sample.elapsed_ns), (0, 0));
        assert!(sample.interval_ops.is_empty());
    }
}
