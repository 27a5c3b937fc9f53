//! What this process, or one thread of it, has taken of the machine so far.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::model::traffic::ProcessCount;

/// All threads, ended ones and io_uring's workers included (getrusage(2)); none if the kernel doesn't
/// say.
pub fn of_process() -> Option<ProcessCount> {
    of(UsageWho::RUSAGE_SELF)
}

/// The calling thread.
pub fn of_thread() -> Option<ProcessCount> {
    of(UsageWho::RUSAGE_THREAD)
}

fn of(who: UsageWho) -> Option<ProcessCount> {
    let usage = getrusage(who).ok()?;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    let ns = |time: TimeVal| count(time.num_nanoseconds());
    Some(ProcessCount {
        user_ns: ns(usage.user_time()),
        system_ns: ns(usage.system_time()),
        voluntary_switches: count(usage.voluntary_context_switches()),
        involuntary_switches: count(usage.involuntary_context_switches()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn the_sleeps_of_threads_that_ended_are_counted() {
        let before = of_process().unwrap();
        let sleeper = || (0..20).for_each(|_| thread::sleep(Duration::from_micros(50)));
        thread::spawn(sleeper).join().unwrap();
        let counted = of_process().unwrap().since(&before);
        assert!(counted.voluntary_switches >= 20, "{counted:?}");
    }
}
