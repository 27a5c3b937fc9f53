//! The kernel's tracepoints, counted or recorded: perf_event_open(2).

mod group;
mod record;
mod ring;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, RawFd};

pub use group::{Group, GroupError, Tracepoint};
pub use record::{Records, Sample};

/// `struct perf_event_attr` up to its fifth version (PERF_ATTR_SIZE_VER5, Linux 4.1), the first
/// that names a clock. Of fields that stand for several, the name is the one used here.
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
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: u64 = 1 << 3;
// Bits of `flags`, in the order of the header's bit fields.
/// Off until it is enabled.
const DISABLED: u64 = 1;
/// Children count too, once and after they ended.
const INHERIT: u64 = 1 << 1;
/// Times are read from `clockid`.
const USE_CLOCKID: u64 = 1 << 25;

const ANY_CPU: i32 = -1;
const NO_GROUP: RawFd = -1;
/// The calling thread, as a process number.
const THIS_THREAD: i32 = 0;
/// All of them.
const ANY_PROCESS: i32 = -1;

fn open(attributes: Attributes, pid: i32, cpu: i32, group: RawFd) -> io::Result<File> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        ..attributes
    };
    // SAFETY: the attributes live until the call returns, and their size is told in them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            pid,
            cpu,
            group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which nothing else owns.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

/// A running count of a tracepoint.
#[derive(Debug)]
pub struct Counter(File);

impl Counter {
    /// Starts to count the hits of a tracepoint in the calling thread, and in the threads and processes
    /// that it starts from now on. EACCES or EPERM without CAP_PERFMON where
    /// `kernel.perf_event_paranoid` is above 1.
    pub fn open(tracepoint: Tracepoint) -> io::Result<Counter> {
        let attributes = Attributes {
            kind: PERF_TYPE_TRACEPOINT,
            config: tracepoint.id,
            flags: INHERIT,
            ..Attributes::default()
        };
        let event = open(attributes, THIS_THREAD, ANY_CPU, NO_GROUP)?;
        if let Some(filter) = tracepoint.filter {
            group::set_filter(&event, filter)?;
        }
        Ok(Counter(event))
    }

    /// Hits so far.
    pub fn read(&self) -> io::Result<u64> {
        let mut value = [0; 8];
        (&self.0).read_exact(&mut value)?;
        Ok(u64::from_ne_bytes(value))
    }
}
