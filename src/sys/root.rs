//! Where the kernel's file trees lie, so that tests can put made-up ones in their place. No other
//! code names `/sys`, `/proc` or `/dev`.

use std::path::PathBuf;

/// The roots of the kernel's file trees.
#[derive(Clone, Debug)]
pub struct Root {
    /// `/sys`
    pub sys: PathBuf,
    /// `/proc`
    pub proc: PathBuf,
    /// `/dev`
    pub dev: PathBuf,
}

impl Root {
    /// This machine's own.
    pub fn host() -> Root {
        Root {
            sys: "/sys".into(),
            proc: "/proc".into(),
            dev: "/dev".into(),
        }
    }
}
