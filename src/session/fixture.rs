//! A device that is slow, stands still, fails or changes, on a virtual clock: for tests.

use crate::model::fixture::slice;
use crate::model::record::{Level, Note, Record, Slice};
use crate::model::sample::latency_histogram;

use super::rounds::Slicer;
use super::slice::{Outcome, SliceError, SliceParams};

pub(super) const MS: u64 = 1_000_000;

/// What a slice and each of its operations take.
pub(super) struct Device {
    pub(super) now_ns: u64,
    pub(super) op_ns: u64,
    pub(super) overhead_ns: u64,
    /// Slices so far.
    pub(super) slices: u64,
    /// This slice, from 0, takes that much longer before its first operation.
    pub(super) stall: (u64, u64),
    pub(super) rescued: u32,
    /// This slice fails.
    pub(super) fails: Option<u64>,
    /// Rounds so far.
    pub(super) rounds: u32,
    /// In this one, from 1, a setting changes.
    pub(super) changes: Option<u32>,
}

pub(super) fn device(op_ns: u64, overhead_ns: u64) -> Device {
    Device {
        now_ns: 0,
        op_ns,
        overhead_ns,
        slices: 0,
        stall: (u64::MAX, 0),
        rescued: 0,
        fails: None,
        rounds: 0,
        changes: None,
    }
}

impl Slicer for Device {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn changed(&mut self, _: &Record, _: u64) -> Vec<Note> {
        self.rounds += 1;
        let note = Note {
            level: Level::Warning,
            target: None,
            text: "it changed".to_owned(),
        };
        (self.changes == Some(self.rounds))
            .then_some(note)
            .into_iter()
            .collect()
    }

    fn slice(&mut self, _: usize, ask: &SliceParams) -> Result<Outcome, SliceError> {
        let number = self.slices;
        self.slices += 1;
        if self.fails == Some(number) {
            return Err(SliceError::Cell("it broke".to_owned()));
        }
        let stall_ns = if self.stall.0 == number {
            self.stall.1
        } else {
            0
        };
        let ops = ask.time_ns.div_ceil(self.op_ns).max(ask.min_ops);
        let ops = ops.min(ask.max_ops);
        let elapsed_ns = stall_ns + ops * self.op_ns;
        let slice = Slice {
            longest_wait_ns: Some(stall_ns + self.op_ns),
            rescued: self.rescued,
            ..slice(0, ops, 4096, elapsed_ns, String::new(), None)
        };
        self.now_ns += self.overhead_ns + slice.elapsed_ns;
        let mut histogram = latency_histogram();
        histogram.saturating_record_n(self.op_ns, ops);
        Ok(Outcome {
            slice,
            histogram,
            handed: None,
            failed: None,
            notes: Vec::new(),
        })
    }
}
