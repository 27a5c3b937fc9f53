//! The io_uring port.

use std::io;

use super::port::{Done, Port, Wait};
use crate::model::sample::Call;
use crate::sys::clock::monotonic_ns;
use crate::sys::ring::Ring;
use crate::workload::payload::Filler;

/// Before an arrival, this long is spun. The ring's timed wait has no timer slack, but waking the
/// thread takes its time.
const SPIN_NS: u64 = 50_000;

/// Where the bytes of a ring's writes come from.
pub(super) enum Source {
    /// Each slot's own memory, changed before each write.
    Slots(Filler),
    /// One span of memory that starts at this offset.
    Span {
        /// Offset of its first byte.
        base_bytes: u64,
    },
}

/// Writes by io_uring.
pub(super) struct Uring<'r, 'm> {
    ring: &'r mut Ring<'m>,
    source: Source,
    size_bytes: u32,
}

impl<'r, 'm> Uring<'r, 'm> {
    /// A port that writes `size_bytes` each time, and has filled the memory of all `slots`.
    pub(super) fn new(
        ring: &'r mut Ring<'m>,
        mut source: Source,
        size_bytes: u32,
        slots: u32,
    ) -> Uring<'r, 'm> {
        if let Source::Slots(filler) = &mut source {
            for slot in 0..slots {
                if let Some(bytes) = ring.slot_mut(slot) {
                    filler.fill(bytes);
                }
            }
        }
        Uring {
            ring,
            source,
            size_bytes,
        }
    }

    fn reap(&mut self, at_ns: u64, done: &mut Vec<Done>) {
        self.ring.reap(|finished| {
            done.push(Done {
                slot: finished.slot,
                at_ns,
                result: finished.result,
                call: match finished.in_sync {
                    true => Call::Sync,
                    false => Call::Write,
                },
            });
        });
    }

    fn turn_until(&mut self, until_ns: u64, done: &mut Vec<Done>) -> io::Result<u64> {
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        if left_ns > SPIN_NS && self.ring.has_timed_waits() {
            self.ring.enter(1, Some(left_ns - SPIN_NS))?;
        } else {
            self.ring.enter(0, None)?;
        }
        loop {
            let now_ns = monotonic_ns();
            self.reap(now_ns, done);
            if !done.is_empty() || now_ns >= until_ns {
                return Ok(now_ns);
            }
            if self.ring.in_flight() > 0 {
                self.ring.enter(0, None)?;
            } else if until_ns - now_ns > SPIN_NS {
                // Woken early, by a signal perhaps: let the caller see why.
                return Ok(now_ns);
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl Port for Uring<'_, '_> {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        monotonic_ns()
    }

    #[inline]
    fn prepare(&mut self, slot: u32) {
        if let Source::Slots(filler) = &mut self.source
            && let Some(bytes) = self.ring.slot_mut(slot)
        {
            filler.stamp(&mut bytes[..self.size_bytes as usize]);
        }
    }

    #[inline]
    fn push(&mut self, slot: u32, offset_bytes: u64) -> io::Result<()> {
        let from = match self.source {
            Source::Slots(_) => 0,
            Source::Span { base_bytes } => (offset_bytes - base_bytes) as usize,
        };
        self.ring.push(slot, from, self.size_bytes, offset_bytes)
    }

    fn rescued(&self) -> u32 {
        self.ring.rescued()
    }

    #[inline]
    fn turn(&mut self, wait: Wait, done: &mut Vec<Done>) -> io::Result<u64> {
        match wait {
            Wait::Completion => {
                self.ring.enter(1, None)?;
                let now_ns = monotonic_ns();
                self.reap(now_ns, done);
                Ok(now_ns)
            }
            Wait::Until(until_ns) => self.turn_until(until_ns, done),
        }
    }
}
