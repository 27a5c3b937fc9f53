//! What might wait in the kernel for good, and what is said of it.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::model::devid::DevId;
use crate::sys::root::Root;
use crate::target;

/// Where every filesystem is measured, each gets so long to show that it can be, and as much again while its
/// device completes writes.
const ANSWER: Duration = Duration::from_secs(4);

pub(super) fn silent(mount_point: &str) -> String {
    format!(
        "{mount_point} is left out: it did not answer in {} s, so its device hangs or is far too busy; see \
         the kernel's log, or name it alone, which waits for it",
        ANSWER.as_secs()
    )
}

/// Whether `work` comes to an end in time. Tried in a thread that nobody waits for: on a device that hangs, it
/// sleeps in the kernel for good, and the other filesystems are to be measured all the same.
pub(super) fn ends_in_time(
    root: &Root,
    dev: Option<DevId>,
    work: impl FnOnce() + Send + 'static,
) -> bool {
    let mut progress = target::Progress::of(root, dev);
    let (answer, answered) = mpsc::channel();
    let tried = thread::Builder::new().spawn(move || {
        work();
        let _ = answer.send(());
    });
    if tried.is_err() {
        return true;
    }
    while answered.recv_timeout(ANSWER) == Err(RecvTimeoutError::Timeout) {
        if !progress.is_made() {
            return false;
        }
    }
    true
}
