//! Lets all lanes start together once each is ready, and none if one could not be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::sys::clock::monotonic_ns;

/// How often the conductor looks.
const TICK: Duration = Duration::from_secs(1);

/// Where lanes wait for each other, and the conductor for them.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    /// No lane is to issue any more.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    ready: usize,
    gone: usize,
    verdict: Option<Verdict>,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    /// Go, counting from this time on the monotonic clock.
    Go(u64),
    /// A lane could not be made ready.
    Leave,
}

/// One lane's place at the gate. Dropping it, by whatever way out, tells that the lane has gone.
#[derive(Debug)]
pub(super) struct Seat<'a>(&'a Gate);

impl Gate {
    /// A place for a lane.
    pub(super) fn seat(&self) -> Seat<'_> {
        Seat(self)
    }

    /// Waits until all `lanes` are ready, lets them go (none if one has gone before), then waits
    /// until all have gone. Lanes count from `lead_ns` after the moment when the last is ready.
    /// Calls `look` about every second, and tells the lanes to end once it says no.
    pub(super) fn conduct(&self, lanes: usize, lead_ns: u64, look: &mut dyn FnMut() -> bool) {
        let since = Instant::now();
        let mut state = self.lock();
        let mut told = Duration::ZERO;
        loop {
            if state.verdict.is_none() && state.ready + state.gone >= lanes {
                state.verdict = Some(match state.gone {
                    0 => Verdict::Go(monotonic_ns() + lead_ns),
                    _ => Verdict::Leave,
                });
                self.changed.notify_all();
            }
            if state.gone >= lanes {
                return;
            }
            let left = (told + TICK).saturating_sub(since.elapsed());
            if left.is_zero() {
                // Not under the lock: what is called may take its time.
                drop(state);
                told = since.elapsed();
                if !look() {
                    self.is_over.store(true, Ordering::Relaxed);
                }
                state = self.lock();
                continue;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// A lane that panics does so outside of the lock, so what it guards is always whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Seat<'a> {
    /// Whether no lane is to issue any more.
    pub(super) fn is_over(&self) -> &'a AtomicBool {
        &self.0.is_over
    }

    /// Tells that this lane is ready and waits for the others. Gives the time from which all
    /// count; none if they are not to start.
    pub(super) fn ready(&self) -> Option<u64> {
        let mut state = self.0.lock();
        state.ready += 1;
        self.0.changed.notify_all();
        loop {
            match state.verdict {
                Some(Verdict::Go(origin_ns)) => return Some(origin_ns),
                Some(Verdict::Leave) => return None,
                None => {}
            }
            state = self
                .0
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.lock().gone += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn ready_lanes_share_one_origin() {
        let gate = Gate::default();
        let origins: Vec<Option<u64>> = thread::scope(|scope| {
            let lanes: Vec<_> = (0..3)
                .map(|_| {
                    let seat = gate.seat();
                    scope.spawn(move || seat.ready())
                })
                .collect();
            gate.conduct(3, 0, &mut || true);
            lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
        });
        assert!(origins[0].is_some());
        assert!(origins.iter().all(|origin| *origin == origins[0]));
    }

    #[test]
    fn one_lane_that_cannot_start_keeps_no_other_waiting() {
        let gate = Gate::default();
        let origin = thread::scope(|scope| {
            let seat = gate.seat();
            let lane = scope.spawn(move || seat.ready());
            drop(gate.seat());
            gate.conduct(2, 0, &mut || true);
            lane.join().unwrap()
        });
        assert_eq!(origin, None);
    }

    #[test]
    fn what_is_seen_meanwhile_ends_the_lanes() {
        let gate = Gate::default();
        let mut looks = 0;
        thread::scope(|scope| {
            let seat = gate.seat();
            scope.spawn(move || {
                seat.ready();
                while !seat.is_over().load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
            gate.conduct(1, 0, &mut || {
                looks += 1;
                looks < 2
            });
        });
        assert_eq!(looks, 2);
    }
}
