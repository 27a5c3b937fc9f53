//! Ports that issue nothing: one measures the harness itself, the other plays a device whose
//! latencies are known, on a virtual clock.

use std::io;

use super::latency::NullModel;
use super::pace::sleep_until;
use super::port::{Done, Port, Wait};
use crate::model::sample::Call;
use crate::sys::buffer::Aligned;
use crate::sys::clock::monotonic_ns;
use crate::workload::payload::Filler;

/// Completes at once what is pushed, after all the work that a real write costs the program.
pub(super) struct Instant {
    /// A region of `size_bytes` for each slot, and what changes it; none for preserved bytes,
    /// which nothing changes.
    pub(super) payload: Option<(Aligned, Filler)>,
    pub(super) size_bytes: usize,
    /// Slots that were pushed to, with room for all of them.
    pub(super) pushed: Vec<u32>,
}

impl Port for Instant {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        monotonic_ns()
    }

    #[inline]
    fn prepare(&mut self, slot: u32) {
        if let Some((buffer, filler)) = &mut self.payload {
            filler.stamp(&mut buffer[slot as usize * self.size_bytes..][..self.size_bytes]);
        }
    }

    #[inline]
    fn push(&mut self, slot: u32, _offset_bytes: u64) -> io::Result<()> {
        self.pushed.push(slot);
        Ok(())
    }

    #[inline]
    fn turn(&mut self, wait: Wait, done: &mut Vec<Done>) -> io::Result<u64> {
        if self.pushed.is_empty()
            && let Wait::Until(until_ns) = wait
        {
            return Ok(sleep_until(until_ns));
        }
        let at_ns = monotonic_ns();
        let result = self.size_bytes as i32;
        done.extend(self.pushed.drain(..).map(|slot| Done {
            slot,
            at_ns,
            result,
            call: Call::Write,
        }));
        Ok(at_ns)
    }
}

/// A device of known latencies. Its clock starts at 0 and moves only from event to event, so a run
/// of any length costs no time.
pub(super) struct Virtual {
    model: NullModel,
    rng: fastrand::Rng,
    size_bytes: u32,
    now_ns: u64,
    /// When each server is free again.
    servers: Vec<u64>,
    /// Slots in service or waiting for it, with the time when they finish.
    flights: Vec<(u64, u32)>,
}

impl Virtual {
    pub(super) fn new(model: NullModel, seed: u64, size_bytes: u32, queue_depth: u32) -> Virtual {
        Virtual {
            model,
            rng: fastrand::Rng::with_seed(seed),
            size_bytes,
            now_ns: 0,
            servers: vec![0; model.servers as usize],
            flights: Vec::with_capacity(queue_depth as usize),
        }
    }
}

impl Port for Virtual {
    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn prepare(&mut self, _slot: u32) {}

    fn push(&mut self, slot: u32, _offset_bytes: u64) -> io::Result<()> {
        let service_ns = self.model.latency.draw_ns(&mut self.rng);
        let now_ns = self.now_ns;
        let end_ns = match self.servers.iter_mut().min() {
            Some(free_at_ns) => {
                *free_at_ns = now_ns.max(*free_at_ns) + service_ns;
                *free_at_ns
            }
            // Refused before any run starts.
            None => now_ns + service_ns,
        };
        self.flights.push((end_ns, slot));
        Ok(())
    }

    fn turn(&mut self, wait: Wait, done: &mut Vec<Done>) -> io::Result<u64> {
        let first_ns = self.flights.iter().map(|&(end_ns, _)| end_ns).min();
        self.now_ns = match (first_ns, wait) {
            (Some(end_ns), Wait::Until(until_ns)) => end_ns.min(until_ns),
            (Some(end_ns), Wait::Completion) => end_ns,
            (None, Wait::Until(until_ns)) => until_ns,
            (None, Wait::Completion) => self.now_ns,
        };
        let (now_ns, result) = (self.now_ns, self.size_bytes as i32);
        self.flights.retain(|&(end_ns, slot)| {
            let ended = end_ns <= now_ns;
            if ended {
                done.push(Done {
                    slot,
                    at_ns: end_ns,
                    result,
                    call: Call::Write,
                });
            }
            !ended
        });
        Ok(now_ns)
    }
}
