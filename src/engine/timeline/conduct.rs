//! Starts the actors together, tells of each interval's end, and waits for all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::engine::EngineError;
use crate::engine::pace::sleep_until;
use crate::sys::clock::monotonic_ns;

/// Actors begin this long after they are made, so that all are waiting by then.
const LEAD_NS: u64 = 5_000_000;
/// No pause is longer than this, so that a stop is seen.
const NAP: Duration = Duration::from_millis(20);

/// For how long a workload runs, and in which intervals it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Nothing is begun after this time.
    pub duration_ns: u64,
    /// Width of an interval. Must not be zero.
    pub interval_ns: u64,
}

/// An interval's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Time since the workload began. A little more than whole intervals.
    pub elapsed_ns: u64,
}

/// What all actors know of their run.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    /// When they begin.
    pub(super) origin_ns: u64,
    /// When they end.
    pub(super) end_ns: u64,
    stop: &'a AtomicBool,
    /// An actor failed: what the others would go on to count is not the workload.
    quit: AtomicBool,
}

impl<'a> Stage<'a> {
    pub(super) fn new(course: &Schedule, stop: &'a AtomicBool) -> Stage<'a> {
        let origin_ns = monotonic_ns() + LEAD_NS;
        Stage {
            origin_ns,
            end_ns: origin_ns.saturating_add(course.duration_ns),
            stop,
            quit: AtomicBool::new(false),
        }
    }

    /// Something new may be begun at `now_ns`.
    #[inline]
    pub(super) fn goes_on(&self, now_ns: u64) -> bool {
        now_ns < self.end_ns && !self.is_stopped()
    }

    /// What goes on is to be broken off.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.quit.load(Ordering::Relaxed)
    }

    /// Ends the run for all.
    pub(super) fn quit(&self) {
        self.quit.store(true, Ordering::Relaxed);
    }

    /// Waits for the common begin.
    pub(super) fn begin(&self) -> u64 {
        sleep_until(self.origin_ns)
    }

    /// Waits until `until_ns`, or until the run ends, and gives the time.
    pub(super) fn rest(&self, until_ns: u64) -> u64 {
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= until_ns || !self.goes_on(now_ns) {
                return now_ns;
            }
            thread::sleep(Duration::from_nanos(until_ns - now_ns).min(NAP));
        }
    }
}

/// Something that one thread does. It makes itself ready, then waits for the stage's begin.
pub(super) type Actor<'a, T> = Box<dyn FnOnce() -> T + Send + 'a>;

/// Runs each actor in a thread of its own, and gives what they made in their order. Calls `tick` at
/// the end of each interval, and on until the last actor has ended; once it says no, nothing more is begun.
pub(super) fn conduct<T: Send>(
    stage: &Stage<'_>,
    interval_ns: u64,
    actors: Vec<Actor<'_, T>>,
    tick: &mut dyn FnMut(Tick) -> bool,
) -> Result<Vec<T>, EngineError> {
    let (alive, all_gone) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for actor in actors {
            let alive = alive.clone();
            let act = move || {
                // Dropped when the actor ends, also by a panic.
                let _alive = alive;
                actor()
            };
            match thread::Builder::new().spawn_scoped(scope, act) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    stage.quit();
                    let what = "a thread for each part of the workload".to_owned();
                    return Err(EngineError::Setup { what, source });
                }
            }
        }
        drop(alive);
        tick_on(stage.origin_ns, interval_ns, &all_gone, &mut |elapsed| {
            if !tick(elapsed) {
                stage.quit();
            }
        });
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok(joined.collect())
    })
}

fn tick_on(origin_ns: u64, interval_ns: u64, all_gone: &Receiver<()>, tick: &mut dyn FnMut(Tick)) {
    for interval in 1.. {
        let due_ns = origin_ns.saturating_add(interval_ns.saturating_mul(interval));
        let left_ns = due_ns.saturating_sub(monotonic_ns());
        match all_gone.recv_timeout(Duration::from_nanos(left_ns)) {
            // An interval that was over before the last actor was ends too: the actor's last
            // operation may be in the next.
            Ok(()) | Err(RecvTimeoutError::Disconnected) if monotonic_ns() < due_ns => return,
            _ => tick(Tick {
                elapsed_ns: monotonic_ns().saturating_sub(origin_ns),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COURSE: Schedule = Schedule {
        duration_ns: 60_000_000,
        interval_ns: 10_000_000,
    };

    #[test]
    fn intervals_that_were_over_when_the_last_actor_ended_have_ticks() {
        let (alive, all_gone) = mpsc::channel::<()>();
        drop(alive);
        // Three and a half intervals since the origin, however long ago that is.
        let interval_ns = monotonic_ns() / 7 * 2;
        let mut ticks = 0;
        tick_on(0, interval_ns, &all_gone, &mut |_| ticks += 1);
        assert_eq!(ticks, 3);
    }

    #[test]
    fn results_come_in_the_actors_order_and_ticks_until_the_last_has_ended() {
        let stop = AtomicBool::new(false);
        let stage = Stage::new(&COURSE, &stop);
        let wait = |until_ns: u64| stage.rest(stage.origin_ns + until_ns);
        let actors: Vec<Actor<'_, u32>> = vec![
            Box::new(|| {
                wait(50_000_000);
                1
            }),
            Box::new(|| 2),
        ];
        let mut ticks = Vec::new();
        let made = conduct(&stage, COURSE.interval_ns, actors, &mut |tick| {
            ticks.push(tick.elapsed_ns);
            true
        });
        assert_eq!(made.unwrap(), [1, 2]);
        // However busy the machine: a tick is never early, and never before the one before it.
        assert!(!ticks.is_empty());
        for (ticks_before, elapsed_ns) in ticks.iter().enumerate() {
            assert!(*elapsed_ns >= COURSE.interval_ns * (ticks_before as u64 + 1));
        }
    }

    #[test]
    fn a_stop_ends_a_rest() {
        let stop = AtomicBool::new(true);
        let stage = Stage::new(&COURSE, &stop);
        let far_ns = stage.origin_ns + 3_600_000_000_000;
        assert!(stage.rest(far_ns) < far_ns);
        let stop = AtomicBool::new(false);
        let stage = Stage::new(&COURSE, &stop);
        assert!(stage.goes_on(stage.origin_ns));
        assert!(!stage.goes_on(stage.end_ns));
        stage.quit();
        assert!(!stage.goes_on(stage.origin_ns));
    }
}
