//! Every unsafe line of the program, behind safe functions: the kernel's calls that no well-kept
//! crate wraps safely.
#![allow(unsafe_code)]

pub mod buffer;
pub mod clock;
pub mod devmapper;
pub mod fiemap;
pub mod ioctl;
pub mod lease;
pub mod limits;
pub mod loopdev;
pub mod mount;
pub mod nvme;
pub mod perf;
pub mod process;
pub mod pulse;
pub mod pwrite;
pub mod residency;
pub mod ring;
pub mod root;
pub mod sg;
pub mod text;
pub mod tty;
pub mod usage;
pub mod writeback;

/// For tests that only root can run: whether they can. In CI, none may be skipped.
#[cfg(test)]
pub(crate) fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    let in_ci = std::env::var_os("CI").is_some();
    assert!(is_root || !in_ci, "CI must run the tests as root");
    is_root
}
