//! The size of a terminal.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

nix::ioctl_read_bad!(
    /// Fills in a terminal's size (ioctl_tty(2)).
    tiocgwinsz,
    libc::TIOCGWINSZ,
    libc::winsize
);

/// Rows and columns of the terminal that `fd` is (ioctl_tty(2)).
pub fn size(fd: impl AsFd) -> io::Result<(usize, usize)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is open for as long as `fd` is borrowed, and the kernel fills in one
    // live `winsize`, or fails where `fd` is no terminal.
    unsafe { tiocgwinsz(fd.as_fd().as_raw_fd(), &raw mut size)? };
    Ok((usize::from(size.ws_row), usize::from(size.ws_col)))
}
