//! Whether a file's bytes sit in the page cache, and whether its filesystem does direct I/O: what
//! tells an honoured O_DIRECT from an ignored one.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// What statx(2) says about direct I/O on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectAlign {
    /// Alignment that memory needs.
    pub memory_bytes: u32,
    /// Alignment that offsets and lengths need; 0: no direct I/O on this file.
    pub offset_bytes: u32,
}

/// Bytes of the file's first `len` that are in the page cache: whole pages, so the answer may
/// exceed `len` by part of a page. Fails as mmap(2) and mincore(2) do; mincore answers "all
/// resident" to those who may not write the file.
pub fn cached_pages(fd: impl AsFd, len: u64) -> io::Result<u64> {
    let len = usize::try_from(len).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    if len == 0 {
        return Ok(0);
    }
    let page_bytes = page_bytes();
    let mut resident = vec![0_u8; len.div_ceil(page_bytes)];
    // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
    // PROT_NONE keeps everyone from reading through it, so a file that shrinks meanwhile can't
    // raise SIGBUS.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_NONE,
            libc::MAP_SHARED,
            fd.as_fd().as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `start` and `len` are those of the mapping just made, and `resident` has a byte for
    // each of its pages, as mincore(2) asks.
    let result = unsafe { libc::mincore(start, len, resident.as_mut_ptr()) };
    let failure = (result != 0).then(io::Error::last_os_error);
    // SAFETY: the mapping is this function's own, and nothing refers to it.
    unsafe { libc::munmap(start, len) };
    match failure {
        Some(error) => Err(error),
        // The lowest bit tells; the others are reserved (mincore(2)).
        None => {
            Ok(resident.iter().filter(|&&page| page & 1 == 1).count() as u64 * page_bytes as u64)
        }
    }
}

/// What direct I/O on a file needs; none where the kernel (before 6.1) or the filesystem doesn't
/// tell.
pub fn direct_alignment(fd: impl AsFd) -> Option<DirectAlign> {
    let mut answer = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is a NUL-terminated string that outlives the call, `answer` is a live,
    // writable `struct statx`, and the kernel keeps neither pointer.
    let result = unsafe {
        libc::statx(
            fd.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            answer.as_mut_ptr(),
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: all of it was zeroed before the call, and every bit pattern is a valid `statx`.
    let answer = unsafe { answer.assume_init() };
    (answer.stx_mask & libc::STATX_DIOALIGN != 0).then_some(DirectAlign {
        memory_bytes: answer.stx_dio_mem_align,
        offset_bytes: answer.stx_dio_offset_align,
    })
}

fn page_bytes() -> usize {
    // SAFETY: sysconf(3) takes a number and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // The page size is always known: 4096 stands in for a libc that doesn't know it.
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_just_written_through_the_cache_is_in_it() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 40_960]).unwrap();
        assert_eq!(cached_pages(&file, 40_960).unwrap(), 40_960);
        assert_eq!(cached_pages(&file, 0).unwrap(), 0);
    }

    #[test]
    fn a_pipe_has_neither_pages_nor_direct_io() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(cached_pages(&reader, 4096).is_err());
        assert_eq!(direct_alignment(&reader), None);
    }
}
