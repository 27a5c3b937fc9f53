//! Whether a file's bytes sit in the page cache: what tells an honoured O_DIRECT from an ignored one.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

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
    fn a_pipe_has_no_pages() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(cached_pages(&reader, 4096).is_err());
    }
}
