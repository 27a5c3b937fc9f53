//! sync_file_range(2), which the nix crate does not wrap.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;

/// Has the kernel begin to write the dirty pages of these bytes of a file, and doesn't wait for them.
/// That is no promise: an fsync is still needed (sync_file_range(2), SYNC_FILE_RANGE_WRITE).
pub fn begin(fd: BorrowedFd<'_>, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
    let number =
        |bytes: u64| i64::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG));
    let (offset, len) = (number(offset_bytes)?, number(len_bytes)?);
    // SAFETY: the descriptor is open for as long as `fd` is borrowed, and the call takes no pointer.
    let result =
        unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    Ok(Errno::result(result).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_takes_it_and_a_pipe_does_not() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 8192], 0).unwrap();
        begin(file.as_fd(), 4096, 4096).unwrap();
        let (_, writer) = io::pipe().unwrap();
        let error = begin(writer.as_fd(), 0, 1).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESPIPE));
        assert!(begin(file.as_fd(), u64::MAX, 1).is_err());
    }
}
