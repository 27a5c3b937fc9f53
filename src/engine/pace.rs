//! When operations are to start in an open loop, and how to wait for that.

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use crate::sys::clock::monotonic_ns;

/// Before a time that is waited for, this long is spun, because a sleep ends late: by the timer
/// slack (50 µs by default, prctl(2) PR_SET_TIMERSLACK) and by what waking a thread takes.
const SLEEP_SPIN_NS: u64 = 100_000;

/// Arrivals at a fixed spacing, those of all lanes evenly interleaved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    phase_ns: f64,
    spacing_ns: f64,
}

impl Arrivals {
    /// Those of lane `index` of `lanes`, which together have `rate_per_s`.
    pub(super) fn new(rate_per_s: f64, lanes: u64, index: u64) -> Arrivals {
        let all_ns = 1e9 / rate_per_s;
        Arrivals {
            phase_ns: all_ns * index as f64,
            spacing_ns: all_ns * lanes as f64,
        }
    }

    /// When the lane's arrival number `k` (from 0) is due, after the start. Computed afresh for
    /// each, so that no rounding adds up.
    #[inline]
    pub(super) fn due_ns(self, k: u64) -> u64 {
        (self.phase_ns + self.spacing_ns * k as f64) as u64
    }
}

/// Waits until `until_ns` on the monotonic clock, or until a signal comes, and gives the time.
pub(super) fn sleep_until(until_ns: u64) -> u64 {
    let wake_ns = until_ns.saturating_sub(SLEEP_SPIN_NS);
    if monotonic_ns() < wake_ns {
        let time = TimeSpec::new(
            (wake_ns / 1_000_000_000) as i64,
            (wake_ns % 1_000_000_000) as i64,
        );
        let clock = ClockId::CLOCK_MONOTONIC;
        let flags = ClockNanosleepFlags::TIMER_ABSTIME;
        if clock_nanosleep(clock, flags, &time) == Err(Errno::EINTR) {
            return monotonic_ns();
        }
    }
    loop {
        let now_ns = monotonic_ns();
        if now_ns >= until_ns {
            return now_ns;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_take_turns() {
        let due: Vec<u64> = (0..2)
            .flat_map(|k| (0..3).map(move |lane| Arrivals::new(3000.0, 3, lane).due_ns(k)))
            .collect();
        assert_eq!(due, [0, 333_333, 666_666, 1_000_000, 1_333_333, 1_666_666]);
    }

    #[test]
    fn waiting_is_never_cut_short() {
        let until_ns = monotonic_ns() + 300_000;
        assert!(sleep_until(until_ns) >= until_ns);
    }
}
