//! How the loop takes what a port may answer.

use std::io;
use std::sync::atomic::AtomicBool;

use crate::engine::issue_loop::{Ending, LaneWork, drive};
use crate::engine::meter::{Measured, Meter, merge};
use crate::engine::port::{Done, Port, Wait};
use crate::engine::tests::{OFFSETS, ops};
use crate::model::cell::Pattern;
use crate::model::sample::{Call, IoFailure, Sample};
use crate::workload::pattern::Cursor;

/// Answers one push after the other, 1 µs each, the `failing` one (from 0) with `result`.
struct Scripted {
    failing: usize,
    result: i32,
    now_ns: u64,
    pushes: usize,
    queue: Vec<(u32, i32)>,
    /// A turn fails once this many pushes were made.
    breaks_after: usize,
}

impl Port for Scripted {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn prepare(&mut self, _slot: u32) {}

    fn push(&mut self, slot: u32, _offset_bytes: u64) -> io::Result<()> {
        let result = if self.pushes == self.failing {
            self.result
        } else {
            4096
        };
        self.queue.push((slot, result));
        self.pushes += 1;
        Ok(())
    }

    fn turn(&mut self, wait: Wait, done: &mut Vec<Done>) -> io::Result<u64> {
        assert_eq!(wait, Wait::Completion);
        assert!(!self.queue.is_empty(), "waited with nothing in flight");
        if self.pushes >= self.breaks_after {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        self.now_ns += 1000;
        let (slot, result) = self.queue.remove(0);
        done.push(Done {
            slot,
            at_ns: self.now_ns,
            result,
            call: Call::Write,
        });
        Ok(self.now_ns)
    }
}

fn scripted(failing: usize, result: i32) -> Scripted {
    Scripted {
        failing,
        result,
        now_ns: 0,
        pushes: 0,
        queue: Vec::new(),
        breaks_after: usize::MAX,
    }
}

fn driven(port: &mut Scripted, queue_depth: u32) -> (io::Result<Ending>, Sample) {
    let mut meter = Meter::new(1000, 1_000_000, 0);
    let course = LaneWork {
        offsets: &OFFSETS,
        cursor: Cursor::new(Pattern::Seq, OFFSETS.len(), 0, 0, false),
        size_bytes: 4096,
        queue_depth,
        limits: ops(100),
        arrivals: None,
        is_over: &AtomicBool::new(false),
        origin_ns: 0,
    };
    let ending = drive(port, course, &AtomicBool::new(false), &mut meter);
    let measured = Measured {
        meter,
        used: Default::default(),
        fallbacks: Vec::new(),
        longest_wait_ns: 0,
        rescued: 0,
    };
    (ending, merge(vec![measured], 1000))
}

#[test]
fn an_error_ends_the_issuing_and_what_is_in_flight_is_drained() {
    let mut port = scripted(10, -libc::EIO);
    let (ending, sample) = driven(&mut port, 4);
    assert!(ending.is_ok());
    // Three more were in flight when the failure was seen; nothing was issued after.
    assert_eq!((port.pushes, sample.ops, sample.errors), (14, 13, 1));
    assert!(port.queue.is_empty());
    let failure = IoFailure {
        call: Call::Write,
        offset_bytes: OFFSETS[2],
        size_bytes: 4096,
        errno: Some(libc::EIO),
        written_bytes: 0,
    };
    assert_eq!(sample.first_error, Some(failure));
    // The failed operation is in no figure.
    assert_eq!((sample.histogram.len(), sample.bytes), (13, 13 * 4096));
}

#[test]
fn a_short_write_is_a_failure_without_a_number() {
    for written in [0, 512, 4095] {
        let (_, sample) = driven(&mut scripted(0, written), 1);
        assert_eq!((sample.ops, sample.errors), (0, 1));
        let failure = sample.first_error.unwrap();
        assert_eq!(
            (failure.errno, failure.written_bytes),
            (None, written as u64)
        );
    }
}

#[test]
fn a_broken_port_voids_the_run() {
    let mut port = Scripted {
        breaks_after: 5,
        ..scripted(usize::MAX, 0)
    };
    let (ending, _) = driven(&mut port, 1);
    assert_eq!(ending.unwrap_err().raw_os_error(), Some(libc::EFAULT));
}

#[test]
fn a_run_without_failures_is_clean() {
    let (_, sample) = driven(&mut scripted(usize::MAX, 0), 4);
    assert_eq!(
        (sample.ops, sample.errors, sample.first_error),
        (100, 0, None)
    );
}
