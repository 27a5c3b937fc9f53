//! One io_uring that writes from memory it guards.
//!
//! The kernel reads a write's bytes some time between submission and completion. So that safe
//! code cannot free or change those bytes meanwhile, a [`Ring`] keeps its memory, lends a slot's
//! bytes only while nothing is in flight from that slot, exists only inside of [`with_ring`]
//! (which rules out leaking it), and when dropped, also by a panic, waits until the kernel has
//! answered everything.

mod enter;
mod setup;

use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use io_uring::{IoUring, opcode, squeue, types};

pub use setup::{Config, Durability, Memory, SetupError, probe, with_ring};

use super::buffer::Aligned;
use enter::Waited;

/// After a wait so long, in which nothing completed, a no-op is sent to the kernel's workers. The wait that
/// submits doesn't say how it ended (io_uring_enter(2)), so it is the next one's that counts.
pub const QUIET_NS: u64 = 2_000_000_000;
/// What completes so soon after that no-op was brought back by it: it had been lost.
const RESCUE_NS: u64 = 250_000_000;
/// The no-op's user data, which no slot has.
const NO_OP: u64 = u32::MAX as u64;

/// Marks the completion of a write's sync, beside the slot's number in the user data.
const IS_SYNC: u64 = 1 << 32;

/// One finished operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The slot that it was pushed to.
    pub slot: u32,
    /// Bytes written, or a negative error number.
    pub result: i32,
    /// The error is that of the sync behind the write, which was whole.
    pub in_sync: bool,
}

/// What a slot is doing.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Completions that the kernel still owes, before the memory is the program's again.
    owed: u8,
    /// What the write alone returned, or should return where its completion is not told.
    written: i32,
    /// Bytes that it should write.
    len: i32,
    /// `written` is the sync's error.
    in_sync: bool,
}

/// An io_uring with its file and its memory. See the module's text for what it guarantees.
pub struct Ring<'a> {
    /// First, so that it is closed before the memory goes.
    ring: IoUring,
    /// The kernel's index of the ring's descriptor, where that is registered for this thread.
    enter_index: Option<u32>,
    /// The descriptor, or its index in the ring's table, as `file_flags` says.
    file: types::Fd,
    file_flags: squeue::Flags,
    memory: Guarded<'a>,
    /// Bytes of each registered piece of the memory; none: it isn't registered.
    piece_bytes: Option<usize>,
    rw_flags: i32,
    /// A sync that is linked behind each write.
    sync: Option<types::FsyncFlags>,
    /// The kernel tells of a linked write only if it fails.
    skips_success: bool,
    polled: bool,
    sqpoll: bool,
    timed_waits: bool,
    slots: Box<[Slot]>,
    in_flight: u32,
    /// A no-op was sent since something last completed.
    is_nudged: bool,
    rescued: u32,
    fallbacks: Vec<String>,
    /// The descriptor must outlive the ring. The raw pointer keeps the ring in its thread, because
    /// `enter_index` means something in that thread only.
    bound: PhantomData<(BorrowedFd<'a>, *mut ())>,
}

/// The memory that writes are issued from.
struct Guarded<'a> {
    start: *mut u8,
    len: usize,
    /// Bytes of each slot's own region; zero: all slots share the whole, which nothing changes.
    stride: usize,
    /// Keeps what `start` points to.
    _keep: Keep<'a>,
}

enum Keep<'a> {
    Owned(#[expect(dead_code, reason = "held for its Drop")] Aligned),
    Borrowed(PhantomData<&'a [u8]>),
}

impl Guarded<'_> {
    /// Where `slot` may write from: the position and the length within the whole.
    fn region(&self, slot: u32) -> (usize, usize) {
        if self.stride == 0 {
            (0, self.len)
        } else {
            (slot as usize * self.stride, self.stride)
        }
    }
}

impl Ring<'_> {
    /// What the kernel would not do, and what is done instead: a sentence each.
    pub fn fallbacks(&self) -> &[String] {
        &self.fallbacks
    }

    /// Whether [`Ring::enter`] heeds a time-out. Rings that poll their device do not, nor do
    /// kernels before 5.11.
    pub fn has_timed_waits(&self) -> bool {
        self.timed_waits && !self.polled
    }

    /// How often an operation that the kernel had lost completed once a no-op was sent after it.
    pub fn rescued(&self) -> u32 {
        self.rescued
    }

    /// Operations pushed and not yet reaped.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The bytes that the next write from `slot` carries. None while a write is in flight from
    /// them, and for memory that was borrowed.
    pub fn slot_mut(&mut self, slot: u32) -> Option<&mut [u8]> {
        if self.memory.stride == 0 || self.slots.get(slot as usize)?.owed > 0 {
            return None;
        }
        let (at, len) = self.memory.region(slot);
        // SAFETY: the memory is owned by this ring and `at + len` lies within it, because it was
        // made of one stride for each slot and `slot` is one of those. The kernel reads none of
        // this region: its slot owes no completion. The borrow of `self` keeps a second reference
        // and a push from this region away while the slice lives.
        Some(unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(at), len) })
    }

    /// Queues a write of `len` bytes, `from` bytes into the slot's memory (or into the borrowed
    /// memory), to `offset_bytes` of the file, and its sync if one was configured. The next
    /// [`Ring::enter`] submits it. EBUSY if a write is in flight from the slot already, EFAULT if
    /// the bytes are not within the memory.
    #[inline]
    pub fn push(&mut self, slot: u32, from: usize, len: u32, offset_bytes: u64) -> io::Result<()> {
        let fault = || io::Error::from_raw_os_error(libc::EFAULT);
        let state = *self.slots.get(slot as usize).ok_or_else(fault)?;
        if state.owed > 0 {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let (region_at, region_len) = self.memory.region(slot);
        let len_bytes = len as usize;
        let signed_len = i32::try_from(len).map_err(|_| fault())?;
        if from
            .checked_add(len_bytes)
            .is_none_or(|end| end > region_len)
        {
            return Err(fault());
        }
        let at = region_at + from;
        let write = self
            .write_entry(at, len, offset_bytes)
            .user_data(u64::from(slot));
        let (entries, count) = match self.sync {
            None => ([write.clone(), write], 1),
            Some(flags) => {
                let mut link = squeue::Flags::IO_LINK;
                if self.skips_success {
                    link |= squeue::Flags::SKIP_SUCCESS;
                }
                let sync = opcode::Fsync::new(self.file)
                    .flags(flags)
                    .build()
                    .flags(self.file_flags)
                    .user_data(u64::from(slot) | IS_SYNC);
                ([write.flags(link), sync], 2)
            }
        };
        // SAFETY: the file stays open and the memory mapped for as long as the ring lives, the
        // bytes are within the memory (checked above), and no safe code can change them while the
        // slot owes a completion, which it does from here on.
        let pushed = unsafe { self.ring.submission().push_multiple(&entries[..count]) };
        // Cannot happen: the queue has room for every slot.
        pushed.map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))?;
        self.slots[slot as usize] = Slot {
            owed: if count == 2 && !self.skips_success {
                2
            } else {
                1
            },
            written: signed_len,
            len: signed_len,
            in_sync: false,
        };
        self.in_flight += 1;
        Ok(())
    }

    fn write_entry(&self, at: usize, len: u32, offset_bytes: u64) -> squeue::Entry {
        let bytes = self.memory.start.wrapping_add(at).cast_const();
        let registered = self.piece_bytes.and_then(|piece| {
            // A write that straddles two registered pieces can name neither.
            let index = at / piece;
            let last = (at + len as usize).saturating_sub(1) / piece;
            (index == last).then(|| u16::try_from(index).ok()).flatten()
        });
        let entry = match registered {
            Some(index) => opcode::WriteFixed::new(self.file, bytes, len, index)
                .offset(offset_bytes)
                .rw_flags(self.rw_flags)
                .build(),
            None => opcode::Write::new(self.file, bytes, len)
                .offset(offset_bytes)
                .rw_flags(self.rw_flags)
                .build(),
        };
        entry.flags(self.file_flags)
    }

    /// Submits what was pushed and waits for `min_complete` completions, no longer than
    /// `timeout_ns`. Returns early, without an error, when a signal arrives or the kernel is short
    /// of memory for the moment (EAGAIN): call it again. So it does after [`QUIET_NS`] without a
    /// completion, where no time-out is given.
    #[inline]
    pub fn enter(&mut self, min_complete: u32, timeout_ns: Option<u64>) -> io::Result<()> {
        let (to_submit, wake) = {
            let queue = self.ring.submission();
            (queue.len() as u32, self.sqpoll && queue.need_wakeup())
        };
        if self.sqpoll && min_complete == 0 && !wake {
            return Ok(());
        }
        if timeout_ns.is_some() || min_complete == 0 || !self.has_timed_waits() {
            return self
                .call(to_submit, wake, min_complete, timeout_ns)
                .map(drop);
        }
        if self.call(to_submit, wake, min_complete, Some(QUIET_NS))? == Waited::InVain {
            self.nudge()?;
        }
        Ok(())
    }

    /// Nothing completed for long: has a worker of the kernel take a no-op, once, and with it what lies
    /// in the thread's queue and was taken by none (Linux 6.18.11; entering again, or a signal, doesn't).
    #[cold]
    fn nudge(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_nudged, true) {
            return Ok(());
        }
        let no_op = opcode::Nop::new().build();
        let no_op = no_op.flags(squeue::Flags::ASYNC).user_data(NO_OP);
        // SAFETY: a no-op refers to no memory and no file.
        if unsafe { self.ring.submission().push(&no_op) }.is_err() {
            return Ok(());
        }
        let (to_submit, wake) = {
            let queue = self.ring.submission();
            (queue.len() as u32, self.sqpoll && queue.need_wakeup())
        };
        self.call(to_submit, wake, 2, Some(RESCUE_NS))?;
        if self.ring.completion().len() > 1 {
            self.rescued += 1;
        }
        Ok(())
    }

    /// Writes like [`Ring::push`], and waits for it. Nothing else may be in flight. Gives the bytes that
    /// were written.
    pub fn write_one(
        &mut self,
        slot: u32,
        from: usize,
        len: u32,
        offset_bytes: u64,
    ) -> io::Result<u32> {
        self.push(slot, from, len, offset_bytes)?;
        let mut result = None;
        // A signal may end a wait early.
        let result = loop {
            self.enter(1, None)?;
            self.reap(|finished| result = Some(finished.result));
            if let Some(result) = result {
                break result;
            }
        };
        u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
    }

    /// Takes the completions that are there and tells of every operation that they finish.
    #[inline]
    pub fn reap(&mut self, mut finished: impl FnMut(Finished)) {
        for entry in self.ring.completion() {
            let data = entry.user_data();
            let slot = (data & (IS_SYNC - 1)) as u32;
            let Some(state) = self.slots.get_mut(slot as usize) else {
                continue;
            };
            if state.owed == 0 {
                // A sync that the kernel cancelled after it told of its write's failure.
                continue;
            }
            self.is_nudged = false;
            let result = entry.result();
            let is_sync = data & IS_SYNC != 0;
            if !is_sync {
                state.written = result;
            }
            // Where successes are skipped, whichever completion comes is the only one.
            state.owed -= 1;
            let in_sync = is_sync && result < 0 && state.written == state.len;
            if in_sync {
                state.written = result;
                state.in_sync = true;
            }
            if state.owed == 0 {
                self.in_flight -= 1;
                finished(Finished {
                    slot,
                    result: state.written,
                    in_sync: state.in_sync,
                });
            }
        }
    }
}

impl Ring<'_> {
    /// Waits for a completion, without giving the kernel anything new but a no-op.
    fn drain(&mut self) -> io::Result<()> {
        let timeout_ns = self.has_timed_waits().then_some(QUIET_NS);
        let waited = self.call(0, false, 1, timeout_ns)?;
        if waited == Waited::InVain && self.ring.submission().is_empty() {
            self.nudge()?;
        }
        Ok(())
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        // What the kernel has not taken, it never will: writes that an error or a panic left queued
        // are not made. Its polling thread takes them at any time.
        let untaken = if self.sqpoll {
            0
        } else {
            let entries = if self.sync.is_some() { 2 } else { 1 };
            (self.ring.submission().len() / entries) as u32
        };
        // Until the kernel has answered for the others, it may read the memory. There is nothing
        // else to do than to wait, however long that takes.
        while self.in_flight > untaken {
            let waited = if self.sqpoll {
                self.enter(1, None)
            } else {
                self.drain()
            };
            if waited.is_err() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            self.reap(|_| {});
        }
        // Closing gives these back too, but later: until then, the file's filesystem is busy and a
        // ring made next may lack locked memory. A failure leaves it to the close.
        if self.in_flight == 0 {
            if self.piece_bytes.is_some() {
                let _ = self.ring.submitter().unregister_buffers();
            }
            if self.file_flags.contains(squeue::Flags::FIXED_FILE) {
                let _ = self.ring.submitter().unregister_files();
            }
        }
        if let Some(index) = self.enter_index.take() {
            setup::unregister_descriptor(&self.ring, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_file_is_closed_when_the_ring_is_gone() {
        // A pipe's reader sees the end once nobody has the writing end open.
        for _ in 0..20 {
            let (reader, writer) = std::io::pipe().unwrap();
            let config = Config {
                fd: writer.as_fd(),
                memory: Memory::Slots(512),
                slots: 1,
                durability: Durability::Descriptor,
                sqpoll: false,
                iopoll: false,
            };
            with_ring(&config, |_| ()).unwrap();
            nix::fcntl::fcntl(
                &reader,
                nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
            )
            .unwrap();
            drop(writer);
            let end = std::io::Read::read(&mut &reader, &mut [0; 1]);
            assert_eq!(end.unwrap(), 0);
        }
    }

    /// The io-wq workers of the calling thread that live.
    fn workers() -> usize {
        let name = format!("iou-wrk-{}", nix::unistd::gettid());
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let names = threads.map(|thread| {
            let comm = thread.unwrap().path().join("comm");
            std::fs::read_to_string(comm).unwrap_or_default()
        });
        names.filter(|comm| comm.trim() == name).count()
    }

    #[test]
    fn a_threads_workers_outlive_its_rings() {
        // Writes to tmpfs are handed to a worker: it has no FMODE_NOWAIT.
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let config = Config {
            fd: file.as_fd(),
            memory: Memory::Slots(512),
            slots: 1,
            durability: Durability::Descriptor,
            sqpoll: false,
            iopoll: false,
        };
        let left = std::thread::scope(|scope| {
            let write = || {
                with_ring(&config, |ring| ring.write_one(0, 0, 512, 0).unwrap()).unwrap();
                // An RCU grace period after the ring's end, those that may end have ended.
                std::thread::sleep(std::time::Duration::from_millis(500));
                workers()
            };
            scope.spawn(write).join().unwrap()
        });
        assert!(left > 0);
    }

    #[test]
    fn a_write_that_was_never_submitted_is_not_made() {
        for durability in [Durability::Descriptor, Durability::Fdatasync] {
            let file = tempfile::tempfile().unwrap();
            let config = Config {
                fd: file.as_fd(),
                memory: Memory::Slots(4096),
                slots: 2,
                durability,
                sqpoll: false,
                iopoll: false,
            };
            with_ring(&config, |ring| {
                ring.push(0, 0, 4096, 0).unwrap();
                ring.enter(1, None).unwrap();
                ring.push(1, 0, 4096, 4096).unwrap();
            })
            .unwrap();
            assert_eq!(file.metadata().unwrap().len(), 4096, "{durability:?}");
        }
    }
}
