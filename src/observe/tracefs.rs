//! The kernel's descriptions of its events, in tracefs.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::sys::root::Root;

/// Where tracefs is mounted, below /sys: on its own since Linux 4.1, before that within debugfs
/// (Documentation/trace/ftrace.rst).
const MOUNTS: [&str; 2] = ["kernel/tracing", "kernel/debug/tracing"];

/// Why a file of tracefs can't be read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// Tracefs is mounted nowhere.
    NotMounted,
    /// Tracefs is there, and has no such file.
    Absent,
    /// The file can't be opened or read.
    Failed(PathBuf, io::Error),
}

/// The text of a file, given its path within tracefs.
pub(super) fn read(root: &Root, path: &str) -> Result<String, Unreadable> {
    let mut why = Unreadable::NotMounted;
    for mount in MOUNTS {
        let mount = root.sys.join(mount);
        let path = mount.join(path);
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(text),
            // The mount point is there also while nothing is mounted on it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if mount.join("events").exists() {
                    why = Unreadable::Absent;
                }
            }
            // debugfs may be closed to us where tracefs is not mounted on its own: that is told,
            // unless tracefs itself was found.
            Err(error) if matches!(why, Unreadable::NotMounted) => {
                why = Unreadable::Failed(path, error);
            }
            Err(_) => {}
        }
    }
    Err(why)
}

/// The command that mounts it.
pub(super) fn mount_command(root: &Root) -> String {
    format!(
        "mount -t tracefs tracefs {}",
        root.sys.join(MOUNTS[0]).display()
    )
}
