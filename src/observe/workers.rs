//! Counts the requests that io_uring handed to its worker threads (`iou-wrk`), because such a
//! request costs microseconds that are not the device's.

use std::fs;
use std::io;

use crate::sys::perf::Counter;
use crate::sys::root::Root;

/// Where tracefs is mounted: on its own since Linux 4.1, before that within debugfs
/// (Documentation/trace/ftrace.rst).
const TRACEFS: [&str; 2] = ["kernel/tracing", "kernel/debug/tracing"];
/// Hit whenever io_uring queues a request for a worker (`io_queue_iowq` in io_uring/io_uring.c).
const TRACEPOINT: &str = "events/io_uring/io_uring_queue_async_work/id";

/// A count of this process's requests that io_uring handed to worker threads.
#[derive(Debug)]
pub struct Workers {
    counter: Option<Counter>,
}

impl Workers {
    /// Starts counting, for the calling thread and the threads that it starts from now on. Where
    /// that can't be, the second value says why and what to do about it.
    pub fn open(root: &Root) -> (Workers, Option<String>) {
        match tracepoint_id(root).and_then(count) {
            Ok(counter) => (
                Workers {
                    counter: Some(counter),
                },
                None,
            ),
            Err(why) => (
                Workers { counter: None },
                Some(format!(
                    "requests handed to io_uring's worker threads are not counted: {why}"
                )),
            ),
        }
    }

    /// Requests handed over since [`Workers::open`]; none where they can't be counted.
    pub fn read(&self) -> Option<u64> {
        self.counter.as_ref()?.read().ok()
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
    let mut denied = None;
    for tracefs in TRACEFS {
        let path = root.sys.join(tracefs).join(TRACEPOINT);
        match fs::read_to_string(&path) {
            Ok(text) => {
                return text.trim().parse().map_err(|_| {
                    format!(
                        "{}: expected a number, found '{}'",
                        path.display(),
                        text.trim()
                    )
                });
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                denied = Some(format!("{}: {error}; run as root", path.display()));
            }
            Err(_) => {}
        }
    }
    Err(denied.unwrap_or_else(|| {
        format!(
            "no {TRACEPOINT} in tracefs; mount it by mount -t tracefs tracefs {}, or the kernel \
             lacks the tracepoint",
            root.sys.join(TRACEFS[0]).display()
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (workers, why) = Workers::open(&root);
        assert_eq!(workers.read(), None);
        let why = why.unwrap();
        assert!(
            why.contains("mount -t tracefs") && !why.contains('\n'),
            "{why}"
        );
    }

    #[test]
    fn the_tracepoint_is_found_at_either_mount() {
        for tracefs in TRACEFS {
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
