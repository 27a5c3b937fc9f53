//! What killed runs left: scratch folders, found again by the entries that each run keeps in the
//! state folder, and by their name below directories that are asked for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use super::held::HeldFolder;
use crate::sys::root::Root;
use crate::target::boot_id;

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
    /// The scratch folder.
    pub(super) folder: PathBuf,
}

impl Owner {
    /// This process, as the owner of `folder`.
    pub(super) fn this_process(root: &Root, folder: &Path) -> io::Result<Owner> {
        let pid = std::process::id();
        Ok(Owner {
            pid,
            start_ticks: start_ticks(root, pid)?,
            boot_id: boot_id(root)?,
            folder: folder.to_owned(),
        })
    }

    /// It still runs.
    fn is_alive(&self, root: &Root) -> bool {
        boot_id(root).is_ok_and(|id| id == self.boot_id)
            && start_ticks(root, self.pid).is_ok_and(|ticks| ticks == self.start_ticks)
    }
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

/// A scratch folder whose process is gone.
#[derive(Debug)]
pub struct Leftover {
    folder: HeldFolder,
    /// The state folder's entry for it, if that is how it was found.
    entry: Option<PathBuf>,
}

impl Leftover {
    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Finds what killed runs left: by the entries in `state`, and in each of `directories`. Folders of
/// runs that still go on are left out. An entry whose folder is gone is removed on the way.
pub fn find(root: &Root, state: Option<&Path>, directories: &[PathBuf]) -> Vec<Leftover> {
    let mut found: Vec<Leftover> = Vec::new();
    for (entry, owner) in entries(state) {
        if owner.is_alive(root) {
            continue;
        }
        if let Some(folder) = open_scratch(&owner.folder) {
            found.push(Leftover {
                folder,
                entry: Some(entry),
            });
        } else if !owner.folder.exists() && owner.folder.parent().is_some_and(Path::is_dir) {
            // Gone for good, not just unmounted: nothing to remember.
            let _ = fs::remove_file(&entry);
        }
    }
    for folder in directories.iter().flat_map(|directory| list(directory)) {
        if found.iter().any(|leftover| leftover.folder() == folder) {
            continue;
        }
        let Some(folder) = open_scratch(&folder) else {
            continue;
        };
        if !read_owner(&folder).is_some_and(|owner| owner.is_alive(root)) {
            found.push(Leftover {
                folder,
                entry: None,
            });
        }
    }
    found
}

/// The scratch folders of this process that are still there: once their values are dropped, those
/// that could not be removed.
pub fn own(root: &Root, state: Option<&Path>) -> Vec<PathBuf> {
    entries(state)
        .filter(|(_, owner)| owner.pid == std::process::id() && owner.is_alive(root))
        .map(|(_, owner)| owner.folder)
        .collect()
}

/// The entries in the state folder, and whom they name.
fn entries(state: Option<&Path>) -> impl Iterator<Item = (PathBuf, Owner)> {
    state.into_iter().flat_map(list).filter_map(|entry| {
        // A pipe would be waited for.
        let is_file = fs::symlink_metadata(&entry).is_ok_and(|meta| meta.is_file());
        let text = is_file.then(|| fs::read_to_string(&entry).ok())??;
        let owner = parse_owner(&text)?;
        Some((entry, owner))
    })
}

/// Removes a leftover and its entry. Only plain files directly in the folder are removed, so a
/// folder that somebody put other things into stays, with an error.
pub fn remove(leftover: &Leftover) -> io::Result<()> {
    leftover.folder.remove()?;
    if let Some(entry) = &leftover.entry {
        fs::remove_file(entry)?;
    }
    Ok(())
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .map(|entries| {
            entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .collect()
        })
        .unwrap_or_default()
}

fn read_owner(folder: &HeldFolder) -> Option<Owner> {
    let file = folder.open_file(OWNER_FILE, OFlag::O_RDONLY).ok()?;
    parse_owner(&io::read_to_string(file).ok()?)
}

fn parse_owner(text: &str) -> Option<Owner> {
    serde_json::from_str(text).ok()
}

/// A folder of a scratch folder's name, if it is a real one of this user.
fn open_scratch(folder: &Path) -> Option<HeldFolder> {
    let name = folder.file_name()?.to_string_lossy();
    let folder = HeldFolder::open(folder.to_owned());
    folder.ok().filter(|_| name.starts_with(PREFIX))
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

    fn lay(directory: &Path, owner: &Owner) {
        fs::create_dir(&owner.folder).unwrap();
        fs::write(owner.folder.join("file"), "x").unwrap();
        let text = serde_json::to_string(owner).unwrap();
        fs::write(owner.folder.join(OWNER_FILE), &text).unwrap();
        fs::write(directory.join("entry.json"), &text).unwrap();
    }

    #[test]
    fn what_is_no_file_in_the_state_folder_is_not_read() {
        let state = tempfile::tempdir().unwrap();
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&state.path().join("pipe"), mode).unwrap();
        assert!(find(&Root::host(), Some(state.path()), &[]).is_empty());
    }

    #[test]
    fn what_this_process_could_not_remove_is_its_own() {
        let root = Root::host();
        let (state, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = data.path().join(format!("{PREFIX}1"));
        lay(state.path(), &Owner::this_process(&root, &folder).unwrap());
        assert_eq!(own(&root, Some(state.path())), [folder]);
    }

    #[test]
    fn only_the_dead_are_found_and_removed() {
        let root = Root::host();
        let (state, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folder = data.path().join(format!("{PREFIX}1"));
        let mut owner = Owner::this_process(&root, &folder).unwrap();
        lay(state.path(), &owner);
        let directories = [data.path().to_owned()];
        assert!(find(&root, Some(state.path()), &directories).is_empty());

        owner.start_ticks += 1;
        fs::remove_dir_all(&folder).unwrap();
        lay(state.path(), &owner);
        let found = find(&root, Some(state.path()), &directories);
        assert_eq!(found.len(), 1);
        assert_eq!(find(&root, None, &directories).len(), 1);
        remove(&found[0]).unwrap();
        assert!(!folder.exists());
        assert!(find(&root, Some(state.path()), &directories).is_empty());
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_is_not_followed() {
        let data = tempfile::tempdir().unwrap();
        let precious = data.path().join("precious");
        fs::create_dir(&precious).unwrap();
        std::os::unix::fs::symlink(&precious, data.path().join(format!("{PREFIX}3"))).unwrap();
        assert!(find(&Root::host(), None, &[data.path().to_owned()]).is_empty());
    }
}
