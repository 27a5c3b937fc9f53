//! A call of a workload's actor that failed.

use std::fmt;
use std::io;

/// A call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was tried.
    pub what: &'static str,
    /// The error number; none if a write was short.
    pub errno: Option<i32>,
}

impl Failure {
    /// Of an error of a system call. One without a number is told as EIO.
    pub(super) fn of(what: &'static str, error: &io::Error) -> Failure {
        Failure {
            what,
            errno: Some(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    /// Of a write that wrote less than it should.
    pub(super) fn short(what: &'static str) -> Failure {
        Failure { what, errno: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            Some(errno) => {
                let error = io::Error::from_raw_os_error(errno);
                write!(f, "cannot {}: {error}", self.what)?;
                match errno {
                    libc::ENOSPC | libc::EDQUOT => {
                        f.write_str("; free some space, or ask for smaller files")
                    }
                    _ => Ok(()),
                }
            }
            None => write!(f, "cannot {}: short write", self.what),
        }
    }
}
