//! Page-aligned memory, as O_DIRECT needs it.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A block of zeroed memory that starts at a page boundary and does not move.
#[derive(Debug)]
pub struct Aligned {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an `Aligned` owns its mapping alone, as a `Box<[u8]>` owns its heap block; nothing in it
// is tied to the thread that made it.
unsafe impl Send for Aligned {}
// SAFETY: shared references give out shared slices only.
unsafe impl Sync for Aligned {}

impl Aligned {
    /// Maps `len` bytes, which must be more than none. Fails as mmap(2) does, with ENOMEM.
    pub fn new(len: usize) -> io::Result<Aligned> {
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice touches no
        // memory that anything else uses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Aligned { start, len }),
            None => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
        }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: `start` and `len` are those of a mapping that this value alone owns, and no
        // reference into it outlives the value. The ring and its requests in flight, which hold
        // raw pointers, are drained before their buffers are dropped: see `ring`. A failure would
        // leak the mapping, which is harmless.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` readable, initialised (zero-filled) bytes for as long as
        // `self` lives, and `&self` keeps others from writing through it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_zeroed_and_writable() {
        let mut memory = Aligned::new(10_000).unwrap();
        assert_eq!(memory.as_ptr() as usize % 4096, 0);
        assert!(memory.iter().all(|&byte| byte == 0));
        memory[9_999] = 7;
        assert_eq!(memory[9_999], 7);
    }

    #[test]
    fn no_memory_is_an_error() {
        assert!(Aligned::new(0).is_err());
        assert!(Aligned::new(usize::MAX / 2).is_err());
    }
}
