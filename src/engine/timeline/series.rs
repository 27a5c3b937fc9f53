//! What one actor counts: operations in intervals and phases, latencies, its failure.

use hdrhistogram::Histogram;

use crate::model::sample::{MAX_NS, MIN_NS, latency_histogram};
use crate::sys::pulse;

use super::conduct::Schedule;
use super::failure::Failure;

/// There is room for operations that end this long after the run's end; later ones count in the
/// last interval.
const ROOM_NS: u64 = 10_000_000_000;
/// The most intervals that there is room for: at 100 ms, more than a day.
const MAX_INTERVALS: u64 = 1 << 20;

/// One interval of one actor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) ops: u64,
    pub(super) bytes: u64,
    pub(super) longest_ns: u64,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) begun_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) bytes: u64,
    /// The phases in which it began and ended: odd ones are checkpoints.
    pub(super) phases: (usize, usize),
}

/// Collects an actor's operations. All its memory is there from the start.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) origin_ns: u64,
    pub(super) interval_ns: u64,
    pub(super) bins: Vec<Bin>,
    /// Operations that ended in each phase.
    pub(super) phase_ops: Vec<u64>,
    pub(super) outside: Latency,
    pub(super) inside: Latency,
    pub(super) ended_ns: u64,
    pub(super) errors: u64,
    pub(super) failure: Option<Failure>,
}

/// Latencies.
#[derive(Debug)]
pub(super) struct Latency {
    pub(super) histogram: Histogram<u64>,
    pub(super) out_of_range: u64,
}

impl Latency {
    pub(super) fn new() -> Latency {
        Latency {
            histogram: latency_histogram(),
            out_of_range: 0,
        }
    }

    #[inline]
    fn add(&mut self, latency_ns: u64) {
        if !(MIN_NS..=MAX_NS).contains(&latency_ns) {
            self.out_of_range += 1;
        }
        self.histogram
            .saturating_record(latency_ns.clamp(MIN_NS, MAX_NS));
    }
}

impl Series {
    /// For a run that begins at `origin_ns` and has at most `phases` phases, at least one.
    pub(super) fn new(course: &Schedule, origin_ns: u64, phases: usize) -> Series {
        let room_ns = course.duration_ns.saturating_add(ROOM_NS);
        let intervals = room_ns.div_ceil(course.interval_ns).min(MAX_INTERVALS);
        Series {
            origin_ns,
            interval_ns: course.interval_ns,
            bins: vec![Bin::default(); intervals as usize],
            phase_ops: vec![0; phases],
            outside: Latency::new(),
            inside: Latency::new(),
            ended_ns: origin_ns,
            errors: 0,
            failure: None,
        }
    }

    /// An operation is complete.
    #[inline]
    pub(super) fn complete(&mut self, op: Op) {
        let latency_ns = op.ended_ns.saturating_sub(op.begun_ns);
        let interval = op.ended_ns.saturating_sub(self.origin_ns) / self.interval_ns;
        let last = self.bins.len() - 1;
        let bin = &mut self.bins[(interval as usize).min(last)];
        bin.ops += 1;
        bin.bytes += op.bytes;
        bin.longest_ns = bin.longest_ns.max(latency_ns);
        pulse::progress(op.ended_ns);
        if let Some(ops) = self.phase_ops.get_mut(op.phases.1) {
            *ops += 1;
        }
        let is_inside = op.phases.0 != op.phases.1 || op.phases.1 % 2 == 1;
        match is_inside {
            true => self.inside.add(latency_ns),
            false => self.outside.add(latency_ns),
        }
    }

    /// The actor did all that it had to.
    pub(super) fn end(&mut self, now_ns: u64) {
        self.ended_ns = self.ended_ns.max(now_ns);
    }

    /// The actor can't go on.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.errors += 1;
        self.failure.get_or_insert(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COURSE: Schedule = Schedule {
        duration_ns: 1_000,
        interval_ns: 100,
    };

    fn op(begun_ns: u64, ended_ns: u64, phases: (usize, usize)) -> Op {
        Op {
            begun_ns,
            ended_ns,
            bytes: 8,
            phases,
        }
    }

    #[test]
    fn an_operation_counts_in_the_interval_and_the_phase_of_its_end() {
        let mut series = Series::new(&COURSE, 5_000, 3);
        series.complete(op(5_000, 5_099, (0, 0)));
        series.complete(op(5_050, 5_250, (0, 1)));
        series.complete(op(5_250, 5_260, (2, 2)));
        let ops: Vec<u64> = series.bins[..3].iter().map(|bin| bin.ops).collect();
        assert_eq!(ops, [1, 0, 2]);
        assert_eq!(series.bins[2].longest_ns, 200);
        assert_eq!(series.bins[2].bytes, 16);
        assert_eq!(series.phase_ops, [1, 1, 1]);
    }

    #[test]
    fn what_a_checkpoint_overlaps_is_inside() {
        let mut series = Series::new(&COURSE, 0, 4);
        for phases in [(0, 1), (1, 1), (1, 2)] {
            series.complete(op(0, 10, phases));
        }
        series.complete(op(0, 10, (2, 2)));
        assert_eq!(series.inside.histogram.len(), 3);
        assert_eq!(series.outside.histogram.len(), 1);
    }

    #[test]
    fn a_very_late_end_counts_in_the_last_interval() {
        let mut series = Series::new(&COURSE, 0, 1);
        series.complete(op(0, u64::MAX, (0, 0)));
        assert_eq!(series.bins.last().unwrap().ops, 1);
        assert_eq!(series.outside.out_of_range, 1);
    }
}
