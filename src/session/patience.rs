//! What might wait in the kernel for good, and what is said of it.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Where every filesystem is measured, each gets so long to show that it can be.
const ANSWER: Duration = Duration::from_secs(4);

pub(super) fn silent(mount_point: &str) -> String {
    format!(
        "{mount_point} is left out: it did not answer in {} s, so its device may hang; see \
         the kernel's log",
        ANSWER.as_secs()
    )
}

/// Whether `work` comes to an end in time. Tried in a thread that nobody waits for: on a device that hangs, it
/// sleeps in the kernel for good, and the other filesystems are to be measured all the same.
pub(super) fn ends_in_time(work: impl FnOnce() + Send + 'static) -> bool {
    let (answer, answered) = mpsc::channel();
    let tried = thread::Builder::new().spawn(move || {
        work();
        let _ = answer.send(());
    });
    tried.is_err() || answered.recv_timeout(ANSWER) != Err(RecvTimeoutError::Timeout)
}
