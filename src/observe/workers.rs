//! Counts the requests that io_uring handed to its worker threads (`iou-wrk`), because such a
//! request costs microseconds that are not the device's.

use std::io;

use super::tracefs::{self, Unreadable};
use crate::sys::perf::Counter;
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
    /// Starts counting, for the calling thread and the threads that it starts from now on. Where
    /// that can't be, the error says why and what to do about it.
    pub fn open(root: &Root) -> Result<Workers, String> {
        let counter = tracepoint_id(root).and_then(count);
        counter.map(Workers).map_err(|why| {
            format!("requests handed to io_uring's worker threads are not counted: {why}")
        })
    }

    /// Requests handed over since [`Workers::open`]; none where the kernel doesn't say.
    pub fn read(&self) -> Option<u64> {
        self.0.read().ok()
    }
}

fn count(id: u64) -> Result<Counter, String> {
    Counter::open(id).map_err(|error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            format!("perf_event_open: {error}; run as root or with CAP_PERFMON")
        }
        Some(libc::ENOSYS) => format!("perf_event_open: {error}; the kernel or a filter lacks it"),
        _ => format!("perf_event_open: {error}"),
    })
}

fn tracepoint_id(root: &Root) -> Result<u64, String> {
    match tracefs::read(root, TRACEPOINT) {
        Ok(text) => text
            .trim()
            .parse()
            .map_err(|_| format!("{TRACEPOINT}: expected a number, found '{}'", text.trim())),
        Err(Unreadable::NotMounted) => Err(format!(
            "tracefs is not mounted; mount it: {}",
            tracefs::mount_command(root)
        )),
        Err(Unreadable::Absent) => Err(format!(
            "tracefs has no {TRACEPOINT}; this kernel lacks the tracepoint"
        )),
        Err(Unreadable::Failed(path, error)) => {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => "; run as root",
                _ => "",
            };
            Err(format!("{}: {error}{remedy}", path.display()))
        }
    }
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
        let why = Workers::open(&root).unwrap_err();
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
            assert_eq!(tracepoint_id(&root), Ok(1234));
            fs::write(&path, "what\n").unwrap();
            assert!(tracepoint_id(&root).unwrap_err().contains("found 'what'"));
        }
    }
}
