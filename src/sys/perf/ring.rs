//! The memory that the kernel writes an event's records into.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Offsets in the first page, `struct perf_event_mmap_page` (include/uapi/linux/perf_event.h): its
/// control data begins at 1 KiB on every machine.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// A mapped ring: one page of control data, then a power of two of pages for records.
#[derive(Debug)]
pub(super) struct Ring {
    base: NonNull<u8>,
    page_len: usize,
    data_len: usize,
}

impl Ring {
    /// Maps a ring of at least `len` bytes, rounded up to a power of two and to a page, for the
    /// event. EPERM where the memory exceeds `kernel.perf_event_mlock_kb` and RLIMIT_MEMLOCK, for
    /// those without CAP_IPC_LOCK; ENOMEM.
    pub(super) fn map(event: &File, len: usize) -> io::Result<Ring> {
        // SAFETY: sysconf(3) takes a number and touches no memory of ours.
        let page_len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page_len = usize::try_from(page_len).map_err(|_| io::Error::last_os_error())?;
        let data_len = len.max(page_len).next_power_of_two();
        // SAFETY: a new mapping at an address of the kernel's choice; nothing of ours is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page_len + data_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring {
            base: NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?,
            page_len,
            data_len,
        })
    }

    /// Moves all records that are whole to the end of `to`, and frees their room in the ring.
    pub(super) fn take(&mut self, to: &mut Vec<u8>) -> io::Result<()> {
        // The kernel writes a record, then the head. Acquire keeps our reads of the record behind
        // our read of the head (`perf_output_put_handle` in kernel/events/ring_buffer.c).
        let head = self.control(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.control(DATA_TAIL).load(Ordering::Relaxed);
        let len = head.wrapping_sub(tail);
        if len > self.data_len as u64 {
            return Err(io::Error::other(format!(
                "a ring of {} bytes claims to hold {len}",
                self.data_len
            )));
        }
        let len = len as usize;
        // The length is a power of two, so a head that wraps past 2^64 keeps its place.
        let start = (tail % self.data_len as u64) as usize;
        let first = len.min(self.data_len - start);
        self.copy(start, first, to);
        self.copy(0, len - first, to);
        // Release keeps our reads before the store by which the kernel learns that it may write
        // there again.
        self.control(DATA_TAIL).store(head, Ordering::Release);
        Ok(())
    }

    fn control(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are multiples of 8 within the first page, which stays mapped,
        // readable and writable while `self` lives. The kernel writes the head and reads the tail
        // by whole 64-bit accesses, as these atomics do.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    fn copy(&self, start: usize, len: usize, to: &mut Vec<u8>) {
        assert!(start + len <= self.data_len);
        // SAFETY: the range is within the mapped data, by the line above. It lies between tail and
        // head, where the kernel does not write until the tail moves: the ring is mapped writable
        // and is not overwriting (perf_event_open(2), "data_tail"). The slice ends with this call,
        // before the tail moves.
        to.extend_from_slice(unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(self.page_len + start), len)
        });
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's own, made with this length, and no reference into it
        // outlives a method's call. munmap can fail only for a bad range.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page_len + self.data_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring over a plain file: the reader's side is the same, and the test plays the kernel.
    fn ring() -> Ring {
        let file = tempfile::tempfile().unwrap();
        let page = 65_536;
        file.set_len(2 * page).unwrap();
        Ring::map(&file, 4096).unwrap()
    }

    fn write(ring: &Ring, bytes: &[u8]) {
        let head = ring.control(DATA_HEAD).load(Ordering::Relaxed);
        for (at, byte) in bytes.iter().enumerate() {
            let place = head.wrapping_add(at as u64) % ring.data_len as u64;
            // SAFETY: within the mapped data, which nothing else refers to now.
            unsafe {
                ring.base
                    .as_ptr()
                    .add(ring.page_len + place as usize)
                    .write(*byte);
            }
        }
        ring.control(DATA_HEAD)
            .store(head.wrapping_add(bytes.len() as u64), Ordering::Release);
    }

    #[test]
    fn records_come_out_in_order_also_across_the_end() {
        let mut ring = ring();
        let part: Vec<u8> = (0..=250).collect();
        for _ in 0..100 {
            write(&ring, &part);
            let mut taken = Vec::new();
            ring.take(&mut taken).unwrap();
            assert_eq!(taken, part);
        }
        let mut taken = Vec::new();
        ring.take(&mut taken).unwrap();
        assert!(taken.is_empty());
    }

    #[test]
    fn a_full_ring_is_taken_whole() {
        let mut ring = ring();
        write(&ring, &[1; 100]);
        ring.take(&mut Vec::new()).unwrap();
        let full = vec![7; ring.data_len];
        write(&ring, &full);
        let mut taken = Vec::new();
        ring.take(&mut taken).unwrap();
        assert_eq!(taken, full);
    }

    #[test]
    fn a_head_that_cannot_be_is_an_error() {
        let mut ring = ring();
        let head = ring.data_len as u64 + 1;
        ring.control(DATA_HEAD).store(head, Ordering::Release);
        let error = ring.take(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("claims to hold"), "{error}");
    }
}
