//! The loop that measures: one plain function over any port.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::meter::Meter;
use super::pace::Arrivals;
use super::port::{Done, Port, Wait};
use super::spec::Limits;
use crate::model::sample::{Call, IoFailure, OpTime};
use crate::sys::pulse;
use crate::workload::pattern::Cursor;

/// The longest wait for an arrival, so that a signal to stop is heeded soon.
const MAX_WAIT_NS: u64 = 100_000_000;

/// What one lane is to do.
pub(super) struct LaneWork<'a> {
    /// Where its blocks lie. Every index that `cursor` gives is one of these.
    pub(super) offsets: &'a [u64],
    pub(super) cursor: Cursor,
    pub(super) size_bytes: u32,
    pub(super) queue_depth: u32,
    /// This lane's share.
    pub(super) limits: Limits,
    /// None: closed loop.
    pub(super) arrivals: Option<Arrivals>,
    /// Nothing is issued any more once this is set, as with `stop`.
    pub(super) is_over: &'a AtomicBool,
    /// When it starts, on the port's clock.
    pub(super) origin_ns: u64,
}

/// How a lane ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ending {
    /// Arrivals that were due before time ran out were never issued.
    pub(super) left_arrivals: bool,
    /// The longest time in which something was in flight and nothing completed.
    pub(super) longest_wait_ns: u64,
}

/// What is in flight from a slot.
#[derive(Clone, Copy, Default)]
struct Flight {
    start_ns: u64,
    offset_bytes: u64,
}

/// What a lane with a free slot does next.
enum Step {
    /// It issues an operation that is due since then.
    Issue { due_ns: u64 },
    /// It waits for the next arrival.
    Wait { until_ns: u64 },
    /// It issues no more.
    End(Ending),
}

impl LaneWork<'_> {
    #[inline]
    fn step(&self, now_ns: u64, issued: u64, stop: &AtomicBool) -> Step {
        let due_ns = match self.arrivals {
            None => now_ns,
            Some(arrivals) => self.origin_ns + arrivals.due_ns(issued),
        };
        let is_over = stop.load(Ordering::Relaxed) || self.is_over.load(Ordering::Relaxed);
        if is_over || issued >= self.limits.max_ops {
            return Step::End(Ending::default());
        }
        // An arrival past the end is not waited for. One before it is issued, however late it then
        // is: leaving out just those that waited would flatter the latencies.
        let since = |at_ns: u64| at_ns.saturating_sub(self.origin_ns);
        if self.limits.are_over(since(due_ns), since(now_ns), issued) {
            let left_arrivals = self.arrivals.is_some() && since(due_ns) < self.limits.time_ns;
            return Step::End(Ending {
                left_arrivals,
                ..Ending::default()
            });
        }
        if due_ns > now_ns {
            let until_ns = due_ns.min(now_ns + MAX_WAIT_NS);
            return Step::Wait { until_ns };
        }
        Step::Issue { due_ns }
    }
}

/// Issues writes until the limits or `stop`, waits for those in flight, and meters each. In a
/// closed loop a latency counts from just before the write is pushed, in an open loop from when it
/// was to start, however late it then did. The first failure ends the issuing.
pub(super) fn drive<P: Port>(
    port: &mut P,
    mut course: LaneWork<'_>,
    stop: &AtomicBool,
    meter: &mut Meter,
) -> io::Result<Ending> {
    let size_bytes = course.size_bytes;
    let mut free: Vec<u32> = (0..course.queue_depth).rev().collect();
    let mut flights = vec![Flight::default(); free.len()];
    let mut done: Vec<Done> = Vec::with_capacity(free.len());
    let mut ended = None;
    let mut issued = 0;
    let mut now_ns = port.now_ns();
    let (mut quiet_since_ns, mut longest_wait_ns) = (now_ns, 0);
    loop {
        let mut wait = Wait::Completion;
        while ended.is_none()
            && let Some(&slot) = free.last()
        {
            let due_ns = match course.step(now_ns, issued, stop) {
                Step::Issue { due_ns } => due_ns,
                Step::Wait { until_ns } => {
                    wait = Wait::Until(until_ns);
                    break;
                }
                Step::End(ending) => {
                    ended = Some(ending);
                    break;
                }
            };
            let Some(block) = course.cursor.next() else {
                ended = Some(Ending::default());
                break;
            };
            let offset_bytes = course.offsets[block];
            port.prepare(slot);
            now_ns = port.now_ns();
            let start_ns = if course.arrivals.is_some() {
                due_ns
            } else {
                now_ns
            };
            port.push(slot, offset_bytes)?;
            meter.begin(start_ns);
            if free.len() == flights.len() {
                quiet_since_ns = now_ns;
            }
            free.pop();
            flights[slot as usize] = Flight {
                start_ns,
                offset_bytes,
            };
            issued += 1;
        }
        if let Some(ending) = ended
            && free.len() == flights.len()
        {
            return Ok(Ending {
                longest_wait_ns,
                ..ending
            });
        }
        now_ns = port.turn(wait, &mut done)?;
        if !done.is_empty() {
            longest_wait_ns = longest_wait_ns.max(now_ns.saturating_sub(quiet_since_ns));
            quiet_since_ns = now_ns;
            pulse::progress(now_ns);
        }
        for Done {
            slot,
            at_ns,
            result,
            call,
        } in done.drain(..)
        {
            let Flight {
                start_ns,
                offset_bytes,
            } = flights[slot as usize];
            free.push(slot);
            if i64::from(result) == i64::from(size_bytes) {
                meter.complete(OpTime {
                    start_ns,
                    end_ns: at_ns,
                    offset_bytes,
                    bytes: u64::from(size_bytes),
                });
            } else {
                ended.get_or_insert_default();
                meter.fail(at_ns, failure(call, offset_bytes, size_bytes, result));
            }
        }
    }
}

impl Limits {
    /// Time has run out for an operation that was due at `due_ns`, now that it is `now_ns`, both
    /// since the start. The number of operations is judged apart.
    #[inline]
    fn are_over(&self, due_ns: u64, now_ns: u64, issued: u64) -> bool {
        let is_late = due_ns >= self.time_ns || now_ns >= self.time_ns.saturating_mul(2);
        (is_late && issued >= self.min_ops) || now_ns.max(due_ns) >= self.hard_ns
    }

    /// The share of lane `index` of `lanes`: the same times, and operations split evenly.
    pub(super) fn share(&self, lanes: u64, index: u64) -> Limits {
        let part = |ops: u64| ops / lanes + u64::from(index < ops % lanes);
        Limits {
            min_ops: part(self.min_ops),
            max_ops: part(self.max_ops),
            ..*self
        }
    }
}

#[cold]
fn failure(call: Call, offset_bytes: u64, size_bytes: u32, result: i32) -> IoFailure {
    IoFailure {
        call,
        offset_bytes,
        size_bytes: u64::from(size_bytes),
        errno: (result < 0).then_some(-result),
        written_bytes: result.max(0) as u64,
    }
}
