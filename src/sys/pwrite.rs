//! pwritev2(2), which the nix crate does not wrap.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Writes `bytes` at `offset_bytes` by one pwritev2(2) with `flags`, such as RWF_DSYNC, and gives
/// how many were written. A call that a signal ended before it wrote anything is made again.
#[inline]
pub fn pwritev2(
    fd: BorrowedFd<'_>,
    bytes: &[u8],
    offset_bytes: u64,
    flags: i32,
) -> io::Result<usize> {
    let offset =
        i64::try_from(offset_bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    loop {
        // SAFETY: the descriptor is open for as long as `fd` is borrowed; the one vector and the
        // bytes that it names live until the call returns, and a write only reads them.
        let written =
            unsafe { libc::pwritev2(fd.as_raw_fd(), &raw const vector, 1, offset, flags) };
        if written >= 0 {
            return Ok(written as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn bytes_land_at_their_offset() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(
            pwritev2(file.as_fd(), b"abc", 5, libc::RWF_DSYNC).unwrap(),
            3
        );
        let mut read = [9; 8];
        assert_eq!(file.read_at(&mut read, 0).unwrap(), 8);
        assert_eq!(&read, b"\0\0\0\0\0abc");
    }

    #[test]
    fn errors_come_through() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = pwritev2(file.as_fd(), b"x", 0, 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let error = pwritev2(file.as_fd(), b"x", u64::MAX, 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFBIG));
    }
}
