//! The one system call of a ring at work: io_uring_enter(2).

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use io_uring::EnterFlags;

use super::Ring;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// By its completions, a signal, or because nothing was to be waited for.
    Enough,
    /// By its time-out.
    InVain,
}

impl Ring<'_> {
    /// Submits `to_submit` of the queued entries, wakes the kernel's polling thread if told to, and
    /// waits as [`Ring::enter`] says.
    #[inline]
    pub(super) fn call(
        &self,
        to_submit: u32,
        wake: bool,
        min_complete: u32,
        timeout_ns: Option<u64>,
    ) -> io::Result<Waited> {
        // GETEVENTS also without a minimum: deferred task work and polling happen only then.
        let mut flags = EnterFlags::GETEVENTS;
        if wake {
            flags |= EnterFlags::SQ_WAKEUP;
        }
        let fd = match self.enter_index {
            Some(index) => {
                flags |= EnterFlags::REGISTERED_RING;
                i64::from(index)
            }
            None => i64::from(self.ring.as_raw_fd()),
        };
        let time = Timespec::from_ns(timeout_ns.unwrap_or(0));
        let argument = EventsArgument {
            sigmask: 0,
            sigmask_bytes: 0,
            min_wait_us: 0,
            // Exposed, because the kernel reads through the number.
            timespec: ptr::from_ref(&time).expose_provenance() as u64,
        };
        let (pointer, pointer_bytes) = if timeout_ns.is_some() && self.timed_waits {
            flags |= EnterFlags::EXT_ARG;
            (ptr::from_ref(&argument), size_of::<EventsArgument>())
        } else {
            (ptr::null(), 0)
        };
        // SAFETY: io_uring_enter(2) on this ring: `fd` is its open descriptor, or its index among
        // those that this thread registered (the ring cannot leave the thread). The argument and
        // the time that it points to live until the call returns, and its size is given. What the
        // queued entries refer to was vouched for when they were pushed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                fd,
                to_submit,
                min_complete,
                flags.bits(),
                pointer,
                pointer_bytes,
            )
        };
        if result >= 0 {
            return Ok(Waited::Enough);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ETIME) => Ok(Waited::InVain),
            Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(Waited::Enough),
            _ => Err(error),
        }
    }
}

/// `struct io_uring_getevents_arg` (io_uring_enter(2)).
#[repr(C)]
struct EventsArgument {
    sigmask: u64,
    sigmask_bytes: u32,
    min_wait_us: u32,
    timespec: u64,
}

/// `struct __kernel_timespec`, the same on 32-bit machines.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

impl Timespec {
    fn from_ns(ns: u64) -> Timespec {
        Timespec {
            seconds: (ns / 1_000_000_000) as i64,
            nanoseconds: (ns % 1_000_000_000) as i64,
        }
    }
}
