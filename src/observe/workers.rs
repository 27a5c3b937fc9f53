//! Counts the requests that io_uring handed to its worker threads (`iou-wrk`), because such a
//! request costs microseconds that are not the device's.

use super::refused::{self, NoTrace};
use super::tracefs;
use crate::sys::perf::{Counter, Tracepoint};
use crate::sys::root::Root;

/// Hit whenever io_uring queues a request for a worker (`io_queue_iowq` in io_uring/io_uring.c).
const TRACEPOINT: &str = "events/io_uring/io_uring_queue_async_work/id";

/// A count of this process's requests that io_uring handed to worker threads.
///
/// While it is open, the kernel brings the event up to date whenever one of the threads is switched
/// (perf_event_task_sched_in() in kernel/events/core.c), which adds microseconds to each write that
/// sleeps: so it is open in slices whose times don't count.
#[derive(Debug)]
pub struct Workers(Counter);

impl Workers {
    /// Starts counting, for the calling thread and the threads that it starts from now on.
    pub fn open(root: &Root) -> Result<Workers, NoTrace> {
        let id = tracepoint_id(root, TRACEPOINT, "CONFIG_IO_URING")?;
        let counter = Counter::open(Tracepoint { id, filter: None });
        counter
            .map(Workers)
            .map_err(|error| refused::uncounted(root, &error))
    }

    /// Requests handed over since [`Workers::open`]; none where the kernel doesn't say.
    pub fn read(&self) -> Option<u64> {
        self.0.read().ok()
    }
}

/// The number of a tracepoint that a kernel with `option` has.
pub(super) fn tracepoint_id(root: &Root, tracepoint: &str, option: &str) -> Result<u64, NoTrace> {
    let text = tracefs::read(root, tracepoint)
        .map_err(|why| refused::unreadable(root, tracepoint, option, why))?;
    text.trim().parse().map_err(|_| {
        NoTrace::new(
            format!(
                "tracefs: {tracepoint}: expected a number, found '{}'",
                text.trim()
            ),
            "report this kernel's version",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree() -> (tempfile::TempDir, Root) {
        let tree = tempfile::tempdir().unwrap();
        let root = Root {
            sys: tree.path().into(),
            ..Root::host()
        };
        (tree, root)
    }

    #[test]
    fn without_tracefs_nothing_is_counted_and_the_mount_is_named() {
        let (_tree, root) = tree();
        let why = Workers::open(&root).unwrap_err().to_string();
        assert!(
            why.contains("mount -t tracefs") && !why.contains('\n'),
            "{why}"
        );
    }

    #[test]
    fn the_tracepoint_is_found_at_either_mount() {
        for tracefs in ["kernel/tracing", "kernel/debug/tracing"] {
            let (tree, root) = tree();
            let path = tree.path().join(tracefs).join(TRACEPOINT);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "1234\n").unwrap();
            let id = || tracepoint_id(&root, TRACEPOINT, "CONFIG_IO_URING");
            assert_eq!(id(), Ok(1234));
            fs::write(&path, "what\n").unwrap();
            let why = id().unwrap_err();
            assert!(why.reason.contains("found 'what'"), "{why}");
        }
    }
}
