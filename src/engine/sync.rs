//! Ports of plain system calls, one operation at a time.
//!
//! On a block device without FUA, these flush twice for each O_DIRECT write with O_DSYNC, O_SYNC or
//! RWF_DSYNC, where io_uring flushes once: the kernel marks the write itself FUA
//! (`dio_bio_write_op`) and, when a call waited for it, syncs once more behind it
//! (`generic_write_sync` in `blkdev_write_iter`, block/fops.c).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{close, fdatasync, fsync};

use super::pace::sleep_until;
use super::port::{Done, Port, Wait};
use crate::model::cell::Method;
use crate::model::sample::Call;
use crate::sys::buffer::Aligned;
use crate::sys::clock::monotonic_ns;
use crate::sys::pwrite::pwritev2;
use crate::workload::payload::Filler;

/// Where the bytes of the writes come from.
pub(super) enum Source<'a> {
    /// One buffer, changed before each write.
    Buffer(Aligned, Filler),
    /// The bytes that were there.
    Span {
        /// All of them.
        bytes: &'a [u8],
        /// Offset of the first.
        base_bytes: u64,
    },
}

impl Source<'_> {
    /// The bytes of a write to `offset_bytes`.
    fn of(&self, offset_bytes: u64, size_bytes: usize) -> &[u8] {
        match self {
            Source::Buffer(buffer, _) => &buffer[..size_bytes],
            Source::Span { bytes, base_bytes } => {
                &bytes[(offset_bytes - base_bytes) as usize..][..size_bytes]
            }
        }
    }

    fn prepare(&mut self, size_bytes: usize) {
        if let Source::Buffer(buffer, filler) = self {
            filler.stamp(&mut buffer[..size_bytes]);
        }
    }
}

/// What the operations go to.
pub(super) enum Sink<'a> {
    /// An open file: pwritev2, and the sync that the method asks for.
    Fd(BorrowedFd<'a>),
    /// A file in a folder that is opened, written from its start and closed again.
    Reopen(BorrowedFd<'a>, CString, OFlag),
}

/// One operation at a time, by plain system calls.
pub(super) struct Calls<'a> {
    pub(super) sink: Sink<'a>,
    pub(super) source: Source<'a>,
    pub(super) method: Method,
    pub(super) size_bytes: usize,
    /// The offset of the operation that was pushed.
    pub(super) pushed: Option<u64>,
}

/// An error of this call.
fn by(call: Call) -> impl Fn(Errno) -> (Call, io::Error) {
    move |errno| (call, errno.into())
}

impl Calls<'_> {
    /// Does one operation: bytes written, or the call that failed with its error.
    fn operate(&self, offset_bytes: u64) -> Result<usize, (Call, io::Error)> {
        let bytes = self.source.of(offset_bytes, self.size_bytes);
        match &self.sink {
            Sink::Fd(fd) => self.write(*fd, bytes, offset_bytes),
            Sink::Reopen(folder, name, flags) => {
                let mode = Mode::S_IRUSR | Mode::S_IWUSR;
                let fd = openat(folder, name.as_c_str(), *flags | OFlag::O_CLOEXEC, mode)
                    .map_err(by(Call::Open))?;
                let written = self.write(fd.as_fd(), bytes, 0);
                // Its error counts: close(2) is where some filesystems tell of a failed write.
                let closed = close(fd);
                let written = written?;
                closed.map_err(by(Call::Close))?;
                Ok(written)
            }
        }
    }

    fn write(
        &self,
        fd: BorrowedFd<'_>,
        bytes: &[u8],
        offset_bytes: u64,
    ) -> Result<usize, (Call, io::Error)> {
        if self.method == Method::EmptyFlush {
            fdatasync(fd).map_err(by(Call::Flush))?;
            // All that was asked for; `super::run` counts no bytes of it.
            return Ok(bytes.len());
        }
        let flags = match self.method {
            Method::RwfDsync => libc::RWF_DSYNC,
            _ => 0,
        };
        let written = pwritev2(fd, bytes, offset_bytes, flags);
        let written = written.map_err(|error| (Call::Write, error))?;
        if written == bytes.len() {
            let synced = match self.method {
                Method::Fdatasync => fdatasync(fd),
                Method::Fsync => fsync(fd),
                _ => Ok(()),
            };
            synced.map_err(by(Call::Sync))?;
        }
        Ok(written)
    }
}

impl Port for Calls<'_> {
    #[inline]
    fn now_ns(&mut self) -> u64 {
        monotonic_ns()
    }

    #[inline]
    fn prepare(&mut self, _slot: u32) {
        self.source.prepare(self.size_bytes);
    }

    #[inline]
    fn push(&mut self, _slot: u32, offset_bytes: u64) -> io::Result<()> {
        self.pushed = Some(offset_bytes);
        Ok(())
    }

    #[inline]
    fn turn(&mut self, wait: Wait, done: &mut Vec<Done>) -> io::Result<u64> {
        let Some(offset_bytes) = self.pushed.take() else {
            return Ok(match wait {
                Wait::Until(until_ns) => sleep_until(until_ns),
                Wait::Completion => monotonic_ns(),
            });
        };
        let (call, result) = match self.operate(offset_bytes) {
            Ok(written) => (Call::Write, written as i32),
            // An error of these calls always has a number; EIO stands in for one that has not.
            Err((call, error)) => (call, -error.raw_os_error().unwrap_or(libc::EIO)),
        };
        let at_ns = monotonic_ns();
        done.push(Done {
            slot: 0,
            at_ns,
            result,
            call,
        });
        Ok(at_ns)
    }
}
