//! Counts the hits of a kernel tracepoint in this process: perf_event_open(2).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// `struct perf_event_attr` as far as its first version goes (PERF_ATTR_SIZE_VER0), which every
/// kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: u64 = 1 << 3;
/// The second bit of `flags`: children count too, once and after they ended.
const INHERIT: u64 = 1 << 1;

/// A running count of a tracepoint.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Starts to count the tracepoint `id` (from its `id` file in tracefs) in the calling thread,
    /// and in the threads and processes that it starts from now on. EACCES or EPERM without
    /// CAP_PERFMON where `kernel.perf_event_paranoid` is above 1.
    pub fn open(id: u64) -> io::Result<Counter> {
        let attributes = Attributes {
            kind: PERF_TYPE_TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: id,
            flags: INHERIT,
            ..Attributes::default()
        };
        const THIS_THREAD: i32 = 0;
        const ANY_CPU: i32 = -1;
        const NO_GROUP: i32 = -1;
        // SAFETY: the attributes live until the call returns, and their size is told in them.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                THIS_THREAD,
                ANY_CPU,
                NO_GROUP,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor, which nothing else owns.
        Ok(Counter(unsafe { File::from_raw_fd(fd as i32) }))
    }

    /// Hits so far.
    pub fn read(&self) -> io::Result<u64> {
        let mut value = [0; 8];
        (&self.0).read_exact(&mut value)?;
        Ok(u64::from_ne_bytes(value))
    }
}
