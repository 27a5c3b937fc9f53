//! Whose a scratch folder is, and whether they still run.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::dir_handle::Lock;
use crate::sys::root::Root;

/// Tells machines apart (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// What every scratch folder's name begins with.
pub(super) const PREFIX: &str = ".syncprof-scratch-";
/// The file in a scratch folder that says whose it is.
pub(super) const OWNER_FILE: &str = "owner.json";

/// The process that a scratch folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    /// Its number.
    pub(super) pid: u32,
    /// When it began, in clock ticks since boot (proc_pid_stat(5), field 22): with the boot's id,
    /// this tells it from another process of the same number.
    pub(super) start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub(super) boot_id: String,
    /// The machine that it runs on, as others that share a filesystem with it know it. None in what
    /// an earlier version left, which took no locks either.
    #[serde(default)]
    pub(super) machine: Option<String>,
    /// The scratch folder.
    pub(super) folder: PathBuf,
    /// The inode number of the directory that it was made in: what has the same path after an unmount is
    /// another one. None in what an earlier version left.
    #[serde(default)]
    pub(super) parent_ino: Option<u64>,
}

impl Owner {
    /// This process, as the owner of `folder`.
    pub(super) fn this_process(root: &Root, folder: &Path) -> io::Result<Owner> {
        let pid = std::process::id();
        Ok(Owner {
            pid,
            start_ticks: start_ticks(root, pid)?,
            boot_id: boot_id(root)?,
            machine: Some(machine(root)?),
            folder: folder.to_owned(),
            parent_ino: ino_of_parent(folder),
        })
    }

    /// Its folder is gone for good, and not just unmounted.
    pub(super) fn is_gone(&self) -> bool {
        let found = fs::symlink_metadata(&self.folder);
        let is_missing = found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        let parent = ino_of_parent(&self.folder);
        is_missing && parent.is_some() && (self.parent_ino.is_none() || self.parent_ino == parent)
    }

    /// It still runs, as far as this process's view of processes goes: those of another PID namespace
    /// are not in it (pid_namespaces(7)), so a lock says more.
    pub(super) fn is_alive(&self, root: &Root) -> bool {
        boot_id(root).is_ok_and(|id| id == self.boot_id)
            && start_ticks(root, self.pid).is_ok_and(|ticks| ticks == self.start_ticks)
    }

    /// It is in use, or may be: by `lock`, which was asked for.
    pub(super) fn is_in_use(&self, root: &Root, lock: Lock) -> bool {
        let is_elsewhere = |id: &String| machine(root).is_ok_and(|here| here != *id);
        match lock {
            Lock::Others => true,
            _ if self.machine.as_ref().is_some_and(is_elsewhere) => true,
            Lock::Taken if self.machine.is_some() => false,
            Lock::Taken | Lock::Impossible => self.is_alive(root),
        }
    }

    /// Who uses it or may, as in "is ...", by `lock`, which was asked for; none if nobody does.
    pub(super) fn user(&self, root: &Root, lock: Lock) -> Option<String> {
        let elsewhere = |id: &&String| machine(root).is_ok_and(|here| here != **id);
        match self.machine.as_ref().filter(elsewhere) {
            Some(id) => Some(format!(
                "is of a run on another machine ({id}); run `syncprof clean` there"
            )),
            None => self
                .is_in_use(root, lock)
                .then(|| format!("is in use by a run that goes on (process {})", self.pid)),
        }
    }

    /// It says that `folder` is a scratch folder. By the name alone, since the filesystem may be
    /// mounted elsewhere by now.
    pub(super) fn owns(&self, folder: &Path) -> bool {
        self.folder.file_name().is_some() && self.folder.file_name() == folder.file_name()
    }
}

fn ino_of_parent(folder: &Path) -> Option<u64> {
    let parent = fs::metadata(folder.parent()?).ok()?;
    parent.is_dir().then(|| parent.ino())
}

/// What this machine is called by others: its id, or its name where it has none.
fn machine(root: &Root) -> io::Result<String> {
    let id = fs::read_to_string(MACHINE_ID).unwrap_or_default();
    match id.trim() {
        "" => Ok(fs::read_to_string(root.proc.join("sys/kernel/hostname"))?
            .trim()
            .to_owned()),
        id => Ok(id.to_owned()),
    }
}

fn boot_id(root: &Root) -> io::Result<String> {
    Ok(
        fs::read_to_string(root.proc.join("sys/kernel/random/boot_id"))?
            .trim()
            .to_owned(),
    )
}

fn start_ticks(root: &Root, pid: u32) -> io::Result<u64> {
    parse_start_ticks(&fs::read_to_string(root.proc.join(format!("{pid}/stat")))?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat"))
}

/// Field 22 of proc_pid_stat(5). The second field, the name, may itself hold blanks and
/// parentheses, so counting begins behind the last one.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_read_behind_a_name_with_parentheses() {
        let stat = "42 (a) b ) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        assert_eq!(parse_start_ticks(stat), Some(987_654));
        assert_eq!(parse_start_ticks("42 (x"), None);
    }

    #[test]
    fn a_folder_below_another_directory_of_the_same_path_is_not_gone() {
        let above = tempfile::tempdir().unwrap();
        let directory = above.path().join("data");
        let folder = directory.join("scratch");
        fs::create_dir_all(&folder).unwrap();
        let owner = Owner::this_process(&Root::host(), &folder).unwrap();
        assert!(!owner.is_gone());
        // As after an unmount: the mount point is there, and is another directory.
        let elsewhere = above.path().join("unmounted");
        fs::rename(&directory, &elsewhere).unwrap();
        assert!(!owner.is_gone());
        fs::create_dir(&directory).unwrap();
        assert!(!owner.is_gone());
        fs::remove_dir(&directory).unwrap();
        fs::rename(&elsewhere, &directory).unwrap();
        fs::remove_dir(&folder).unwrap();
        assert!(owner.is_gone());
    }
}
