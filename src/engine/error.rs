//! Why the engine could not run at all. A write that fails while it runs is not one of these: it
//! is an `IoFailure` in the sample.

use std::fs;
use std::io;

use nix::sys::resource::Resource;

use crate::model::units::show_amount;
use crate::sys::limits;
use crate::sys::root::Root;

/// Why the engine could not run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// This process may not use io_uring.
    #[error("io_uring_setup: {why}; {remedy}")]
    Blocked {
        /// What the kernel answered, and who made it answer so.
        why: String,
        /// What to do about it.
        remedy: String,
    },
    /// Something needed before the first write could not be had.
    #[error("{what}: {source}{}", limits::hint(source))]
    Setup {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The axes contradict each other, or this engine can't do them.
    #[error("{why}")]
    Unsupported {
        /// Which, and what to ask for instead.
        why: String,
    },
    /// The engine itself failed while it ran, so what it measured is void.
    #[error("{what}: {source}")]
    Broken {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Turns an error of io_uring_setup(2) into what the reader can act on.
pub(super) fn from_setup(error: io::Error, root: &Root) -> EngineError {
    match error.raw_os_error() {
        Some(errno @ (libc::EPERM | libc::EACCES | libc::ENOSYS)) => {
            let (why, remedy) = explain(errno, disabled(root), seccomp(root));
            EngineError::Blocked { why, remedy }
        }
        // Kernels before 5.12 charge the rings' memory to RLIMIT_MEMLOCK (io_uring_setup(2)), and so do
        // those from 6.14 on (io_create_region() in io_uring/memmap.c).
        Some(libc::ENOMEM) => EngineError::Setup {
            what: match limits::soft(Resource::RLIMIT_MEMLOCK) {
                Some(most) => format!(
                    "io_uring_setup (locked memory is limited to {}: raise that by ulimit -l, or use \
                     --engine sync)",
                    show_amount(most)
                ),
                None => "io_uring_setup (--engine sync does without)".to_owned(),
            },
            source: error,
        },
        Some(libc::EMFILE | libc::ENFILE) => EngineError::Setup {
            what: "io_uring_setup".into(),
            source: error,
        },
        _ => EngineError::Setup {
            what: "io_uring_setup (--engine sync does without)".into(),
            source: error,
        },
    }
}

/// Why io_uring_setup(2) failed with `errno`, and the remedy. `disabled` is the value of
/// `kernel.io_uring_disabled` (Documentation/admin-guide/sysctl/kernel.rst), `seccomp` the mode in
/// `/proc/self/status` (proc_pid_status(5): 0 none, 1 strict, 2 filter); none where unknown.
pub fn explain(errno: i32, disabled: Option<u32>, seccomp: Option<u32>) -> (String, String) {
    let said = io::Error::from_raw_os_error(errno);
    let filtered = matches!(seccomp, Some(mode) if mode != 0);
    let (why, remedy) = match (errno, disabled) {
        (libc::EPERM, Some(1)) => (
            "kernel.io_uring_disabled is 1, which leaves io_uring to privileged processes and the \
             group in kernel.io_uring_group",
            "run as root, or sysctl kernel.io_uring_disabled=0, or use --engine sync",
        ),
        (libc::EPERM, Some(2..)) => (
            "kernel.io_uring_disabled is 2, which forbids io_uring to everybody",
            "sysctl kernel.io_uring_disabled=0, or use --engine sync",
        ),
        (libc::EPERM | libc::EACCES | libc::ENOSYS, _) if filtered => (
            "this process runs under a seccomp filter, such as a container's, that blocks io_uring",
            "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp \
             profile, or use --engine sync",
        ),
        (libc::ENOSYS, _) => (
            "this kernel has no io_uring: older than 5.1, or built without CONFIG_IO_URING",
            "use --engine sync",
        ),
        _ => (
            "neither kernel.io_uring_disabled nor seccomp blocks it: a security module, such as \
             SELinux, may",
            "look for a denial in the kernel's log, or use --engine sync",
        ),
    };
    (format!("{said}: {why}"), remedy.to_owned())
}

/// `kernel.io_uring_disabled`; none on kernels before 6.6, which have no such switch.
fn disabled(root: &Root) -> Option<u32> {
    let text = fs::read_to_string(root.proc.join("sys/kernel/io_uring_disabled")).ok()?;
    text.trim().parse().ok()
}

fn seccomp(root: &Root) -> Option<u32> {
    let text = fs::read_to_string(root.proc.join("self/status")).ok()?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sysctl_is_named_when_it_forbids() {
        for value in [1, 2] {
            // Even under a filter: the sysctl alone would suffice to fail.
            let (why, remedy) = explain(libc::EPERM, Some(value), Some(2));
            assert!(
                why.contains(&format!("io_uring_disabled is {value}")),
                "{why}"
            );
            assert!(
                remedy.contains("sysctl kernel.io_uring_disabled=0"),
                "{remedy}"
            );
        }
    }

    #[test]
    fn a_filter_is_named_when_the_sysctl_allows() {
        for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
            for disabled in [None, Some(0)] {
                let (why, remedy) = explain(errno, disabled, Some(2));
                assert!(why.contains("seccomp filter"), "{why}");
                assert!(remedy.contains("seccomp profile"), "{remedy}");
            }
        }
    }

    #[test]
    fn an_absent_call_without_a_filter_is_an_old_kernel() {
        let (why, _) = explain(libc::ENOSYS, None, Some(0));
        assert!(why.contains("has no io_uring"), "{why}");
    }

    #[test]
    fn what_nothing_explains_is_not_blamed_on_the_sysctl_or_a_filter() {
        for seccomp in [None, Some(0)] {
            let (why, remedy) = explain(libc::EPERM, Some(0), seccomp);
            assert!(why.contains("security module"), "{why}");
            assert!(remedy.contains("--engine sync"), "{remedy}");
        }
    }

    #[test]
    fn the_causes_are_read_from_the_injected_tree() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root {
            proc: tree.path().into(),
            ..Root::host()
        };
        assert_eq!((disabled(&root), seccomp(&root)), (None, None));
        fs::create_dir_all(tree.path().join("sys/kernel")).unwrap();
        fs::create_dir_all(tree.path().join("self")).unwrap();
        fs::write(tree.path().join("sys/kernel/io_uring_disabled"), "2\n").unwrap();
        fs::write(
            tree.path().join("self/status"),
            "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n",
        )
        .unwrap();
        assert_eq!((disabled(&root), seccomp(&root)), (Some(2), Some(2)));
        let error = from_setup(io::Error::from_raw_os_error(libc::EPERM), &root);
        let text = error.to_string();
        assert!(
            text.starts_with("io_uring_setup: Operation not permitted"),
            "{text}"
        );
        assert!(text.contains("io_uring_disabled is 2"), "{text}");
        assert!(!text.contains('\n'));
    }
}
