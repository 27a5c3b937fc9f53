//! Why the kernel's events are closed to this process, and what opens them.

use std::fs;
use std::io;

use thiserror::Error;

use super::tracefs::{self, Unreadable};
use crate::sys::perf::GroupError;
use crate::sys::root::Root;

/// Why nothing can be traced, in words for one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}; {remedy}")]
pub struct NoTrace {
    /// What was tried and what the kernel said.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}

impl NoTrace {
    pub(super) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> NoTrace {
        NoTrace {
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }
}

/// Why the file of tracefs, given its path there, can't be read. `config` is the kernel option that
/// brings it.
pub(super) fn unreadable(root: &Root, path: &str, config: &str, why: Unreadable) -> NoTrace {
    match why {
        // filesystems(5)
        Unreadable::NotMounted if lacks_tracefs(root) => NoTrace::new(
            "this kernel has no tracefs",
            "use one that is built with CONFIG_TRACING",
        ),
        Unreadable::NotMounted => NoTrace::new(
            "tracefs is not mounted",
            format!("mount it: {}", tracefs::mount_command(root)),
        ),
        Unreadable::Absent => NoTrace::new(
            format!("tracefs has no {path}"),
            format!("use a kernel that is built with {config}"),
        ),
        Unreadable::Failed(path, error) => {
            let reason = format!("{}: {error}", path.display());
            match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => told(&reason, tracefs_denial(root)),
                _ => NoTrace::new(
                    reason,
                    format!("mount tracefs: {}", tracefs::mount_command(root)),
                ),
            }
        }
    }
}

/// Why the tracepoints can't be recorded.
pub(super) fn unrecorded(root: &Root, error: &GroupError, all_rings_bytes: usize) -> NoTrace {
    match error {
        GroupError::Event(source) => uncounted(root, source),
        GroupError::Ring(source) => NoTrace::new(
            format!("{error}: {source}"),
            match source.raw_os_error() {
                // perf_mmap() in kernel/events/core.c
                Some(libc::EPERM) => format!(
                    "run as root, or allow more locked memory: ulimit -l {}",
                    all_rings_bytes.div_ceil(1024)
                ),
                _ => "free some memory: the rings are kept in it".to_owned(),
            },
        ),
        GroupError::Filter(source) => NoTrace::new(
            format!("{error}: {source}"),
            "this kernel's events cannot be filtered; report its version",
        ),
    }
}

/// Why perf_event_open(2) failed for a tracepoint.
pub(super) fn uncounted(root: &Root, error: &io::Error) -> NoTrace {
    let reason = format!("perf_event_open: {error}");
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => told(&reason, perf_denial(root)),
        Some(libc::ENOSYS) => told(&reason, perf_absence(root)),
        Some(libc::EMFILE) => NoTrace::new(reason, "allow more open files: ulimit -n 65536"),
        Some(libc::ENOMEM) => NoTrace::new(reason, "free some memory"),
        _ => NoTrace::new(reason, "see perf_event_open(2)"),
    }
}

/// A cause that is known, and its remedy.
type Cause = (String, &'static str);

fn told(reason: &str, (cause, remedy): Cause) -> NoTrace {
    NoTrace::new(format!("{reason}: {cause}"), remedy)
}

/// What forbids it, most general first.
fn tracefs_denial(root: &Root) -> Cause {
    general_denial(root).unwrap_or_else(|| {
        if nix::unistd::geteuid().is_root() {
            by_a_module()
        } else {
            ("tracefs is root's".into(), "run as root")
        }
    })
}

fn perf_denial(root: &Root) -> Cause {
    if let Some(cause) = general_denial(root) {
        return cause;
    }
    let standing = Standing::of(root);
    let paranoid = paranoid(root);
    // Documentation/admin-guide/perf-security.rst: with the capability, the level says nothing.
    if !standing.is_capable && paranoid.is_none_or(|level| level > -1) {
        let level = paranoid.map_or_else(
            || "CAP_PERFMON is missing".to_owned(),
            |level| format!("kernel.perf_event_paranoid is {level}, and CAP_PERFMON is missing"),
        );
        let remedy = "run as root, or with CAP_PERFMON";
        return (level, remedy);
    }
    if standing.is_filtered {
        return by_a_filter();
    }
    by_a_module()
}

fn perf_absence(root: &Root) -> Cause {
    if Standing::of(root).is_filtered {
        return by_a_filter();
    }
    (
        "this kernel has no perf events".into(),
        "use one that is built with CONFIG_PERF_EVENTS",
    )
}

/// What forbids tracefs and perf alike.
fn general_denial(root: &Root) -> Option<Cause> {
    // kernel_lockdown(7): at this level both are closed, to root too.
    let lockdown = fs::read_to_string(root.sys.join("kernel/security/lockdown"));
    if lockdown.is_ok_and(|text| text.contains("[confidentiality]")) {
        return Some((
            "the kernel is locked down".into(),
            "boot it without lockdown=confidentiality",
        ));
    }
    // user_namespaces(7): capabilities count within the namespace only.
    Standing::of(root).is_in_a_namespace.then(|| {
        (
            "this process is in a user namespace, as in a rootless container".into(),
            "run as root outside of it",
        )
    })
}

fn by_a_filter() -> Cause {
    (
        "this process runs under a seccomp filter, such as a container's, that blocks it".into(),
        "allow perf_event_open in the container's seccomp profile",
    )
}

fn by_a_module() -> Cause {
    (
        "a security module, such as SELinux, may forbid it".into(),
        "look for a denial in the kernel's log",
    )
}

/// What this process is to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    /// It has CAP_PERFMON, or CAP_SYS_ADMIN, which includes it.
    is_capable: bool,
    /// It runs under a filter of system calls.
    is_filtered: bool,
    /// It is in another user namespace than the machine's first.
    is_in_a_namespace: bool,
}

impl Standing {
    /// From proc_pid_status(5) and user_namespaces(7), "uid_map".
    fn of(root: &Root) -> Standing {
        let status = fs::read_to_string(root.proc.join("self/status")).unwrap_or_default();
        let value = |key: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(key));
            value.map(str::trim)
        };
        let effective = value("CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let map = fs::read_to_string(root.proc.join("self/uid_map")).unwrap_or_default();
        let map: Vec<&str> = map.split_ascii_whitespace().collect();
        Standing {
            is_capable: effective.is_some_and(|set| set & (CAP_PERFMON | CAP_SYS_ADMIN) != 0),
            is_filtered: value("Seccomp:").is_some_and(|mode| mode != "0"),
            is_in_a_namespace: !map.is_empty() && map != ["0", "0", "4294967295"],
        }
    }
}

// include/uapi/linux/capability.h
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;

/// `kernel.perf_event_paranoid` (Documentation/admin-guide/sysctl/kernel.rst).
fn paranoid(root: &Root) -> Option<i32> {
    let text = fs::read_to_string(root.proc.join("sys/kernel/perf_event_paranoid")).ok()?;
    text.trim().parse().ok()
}

fn lacks_tracefs(root: &Root) -> bool {
    let text = fs::read_to_string(root.proc.join("filesystems"));
    text.is_ok_and(|text| !text.split_ascii_whitespace().any(|name| name == "tracefs"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A made-up kernel's view of this process.
    struct Made {
        folder: tempfile::TempDir,
        root: Root,
    }

    const ROOT: &str = "000001ffffffffff";
    const NOBODY: &str = "0000000000000000";

    impl Made {
        fn new(capabilities: &str, seccomp: u32) -> Made {
            let folder = tempfile::tempdir().unwrap();
            let root = Root {
                sys: folder.path().join("sys"),
                proc: folder.path().join("proc"),
                ..Root::host()
            };
            let made = Made { folder, root };
            made.write(
                "proc/self/status",
                &format!("Name:\tx\nCapEff:\t{capabilities}\nSeccomp:\t{seccomp}\n"),
            )
            .write("proc/self/uid_map", "         0          0 4294967295\n")
            .write("proc/sys/kernel/perf_event_paranoid", "2\n")
            .write("proc/filesystems", "nodev\tsysfs\nnodev\ttracefs\n\text4\n")
        }

        fn write(self, path: &str, text: &str) -> Made {
            let path = self.folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn perf(&self, errno: i32) -> String {
            one_line(&uncounted(&self.root, &io::Error::from_raw_os_error(errno)))
        }

        fn tracefs(&self, why: Unreadable) -> String {
            one_line(&unreadable(&self.root, "events/x/format", "CONFIG_X", why))
        }
    }

    fn one_line(why: &NoTrace) -> String {
        let line = why.to_string();
        assert!(!line.contains('\n'), "{line}");
        line
    }

    #[track_caller]
    fn says(line: &str, parts: &[&str]) {
        for part in parts {
            assert!(line.contains(part), "no {part:?} in {line}");
        }
    }

    #[test]
    fn who_lacks_the_capability_is_told_the_level_and_the_way_out() {
        for errno in [libc::EACCES, libc::EPERM] {
            for seccomp in [0, 2] {
                let line = Made::new(NOBODY, seccomp).perf(errno);
                says(
                    &line,
                    &["perf_event_paranoid is 2", "run as root", "CAP_PERFMON"],
                );
            }
        }
    }

    #[test]
    fn a_filter_is_blamed_where_the_level_does_not_forbid() {
        let allowed = Made::new(NOBODY, 2).write("proc/sys/kernel/perf_event_paranoid", "-1\n");
        for (made, errno) in [
            (&allowed, libc::EPERM),
            (&Made::new(ROOT, 2), libc::EPERM),
            (&Made::new(ROOT, 2), libc::EACCES),
            (&Made::new(NOBODY, 2), libc::ENOSYS),
        ] {
            says(&made.perf(errno), &["seccomp filter", "seccomp profile"]);
        }
        let alone = Made::new("0000004000000000", 2);
        says(&alone.perf(libc::EPERM), &["seccomp filter"]);
    }

    #[test]
    fn what_nothing_explains_is_a_modules_doing_or_a_kernels_lack() {
        let made = Made::new(ROOT, 0);
        says(
            &made.perf(libc::EACCES),
            &["security module", "kernel's log"],
        );
        says(&made.perf(libc::ENOSYS), &["CONFIG_PERF_EVENTS"]);
    }

    #[test]
    fn a_locked_down_kernel_is_told_before_all_else() {
        let lockdown = "sys/kernel/security/lockdown";
        let denied = || Unreadable::Failed("x".into(), io::Error::from_raw_os_error(libc::EPERM));
        for capabilities in [ROOT, NOBODY] {
            let made = Made::new(capabilities, 2);
            let made = made.write(lockdown, "none integrity [confidentiality]\n");
            says(
                &made.perf(libc::EPERM),
                &["locked down", "without lockdown"],
            );
            says(&made.tracefs(denied()), &["locked down"]);
            let made = made.write(lockdown, "none [integrity] confidentiality\n");
            assert!(!made.perf(libc::EPERM).contains("locked down"));
        }
    }

    #[test]
    fn a_user_namespaces_root_is_told_that_it_is_none_outside() {
        let made = Made::new(ROOT, 2).write("proc/self/uid_map", "0 1000 1\n1 100000 65536\n");
        says(&made.perf(libc::EACCES), &["user namespace", "outside"]);
    }

    #[test]
    fn memory_and_descriptors_that_run_out_are_told() {
        let made = Made::new(ROOT, 0);
        says(&made.perf(libc::EMFILE), &["ulimit -n"]);
        let ring = |errno| GroupError::Ring(io::Error::from_raw_os_error(errno));
        let line = |errno| one_line(&unrecorded(&made.root, &ring(errno), 16 << 20));
        says(&line(libc::EPERM), &["ulimit -l 16384"]);
        says(&line(libc::ENOMEM), &["free some memory"]);
    }

    #[test]
    fn tracefs_that_is_not_there_is_mounted_if_the_kernel_has_it() {
        let made = Made::new(ROOT, 0);
        let mount = format!(
            "mount -t tracefs tracefs {}",
            Path::new(&made.root.sys).join("kernel/tracing").display()
        );
        says(&made.tracefs(Unreadable::NotMounted), &[&mount]);
        let made = made.write("proc/filesystems", "nodev\tsysfs\n");
        says(
            &made.tracefs(Unreadable::NotMounted),
            &["no tracefs", "CONFIG_TRACING"],
        );
        says(&made.tracefs(Unreadable::Absent), &["CONFIG_X"]);
    }
}
