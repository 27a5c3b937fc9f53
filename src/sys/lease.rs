//! Leases on files (fcntl(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// include/uapi/asm-generic/fcntl.h
const F_SETSIG: libc::c_int = 10;

/// Whether anybody has a regular file open for writing, or mapped so that they may write it. `file` must
/// be open for reading alone, and belong to this user or this process have CAP_LEASE.
///
/// It is asked by taking a read lease, which fails with EAGAIN if so (check_conflicting_open() in
/// fs/locks.c), and giving it back at once. Who opens the file for writing in between waits for that.
pub fn is_open_for_writing(file: impl AsFd) -> io::Result<bool> {
    // Of such an open a signal tells, SIGIO unless another is asked for, which would end this process.
    // SIGURG is ignored unless a program wants it (signal(7)).
    call(&file, F_SETSIG, libc::SIGURG)?;
    match call(&file, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => call(&file, libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        Err(error) => Err(error),
    }
}

/// One of fcntl(2)'s commands that take a number.
fn call(file: &impl AsFd, command: libc::c_int, number: libc::c_int) -> io::Result<()> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: F_SETSIG and F_SETLEASE take an int and no pointer; the descriptor is open while `file`
    // is borrowed.
    let result = unsafe { libc::fcntl(fd, command, number) };
    Ok(Errno::result(result).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn who_has_it_open_for_writing_is_seen() {
        let writer = tempfile::NamedTempFile::new().unwrap();
        let reader = File::open(writer.path()).unwrap();
        assert!(is_open_for_writing(&reader).unwrap());
        let _path = writer.into_temp_path();
        assert!(!is_open_for_writing(&reader).unwrap());
        // Nothing is left of the question.
        assert!(!is_open_for_writing(&reader).unwrap());
        File::options().write(true).open(&_path).unwrap();
    }

    #[test]
    fn a_pipe_has_no_lease() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(is_open_for_writing(&reader).is_err());
    }
}
