//! What killed runs left: scratch folders, found again by the entries that each run keeps in the
//! state folder, and by their name below directories that are asked for.
//!
//! A name proves nothing: whoever may write in a directory can give any folder there the name of a
//! scratch folder, also one that is root's. So files are removed only where an owner file in the folder,
//! which nobody else can have laid there, says that it is one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::held::{HeldFolder, Lock, try_lock};
use super::owner::Owner;
use crate::sys::root::Root;

/// What every scratch folder's name begins with.
pub(super) const PREFIX: &str = ".syncprof-scratch-";
/// The file in a scratch folder that says whose it is.
pub(super) const OWNER_FILE: &str = "owner.json";
/// An owner file is shorter than this.
const MOST_OWNER_BYTES: u64 = 64 << 10;

/// A scratch folder whose process is gone. It stays locked while this lives, so that nobody else
/// removes it at the same time.
#[derive(Debug)]
pub struct Leftover {
    folder: HeldFolder,
    claim: Claim,
    /// The state folder's entry for it, if that is how it was found.
    entry: Option<PathBuf>,
}

/// What the owner file of a folder says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// The folder is a scratch folder.
    Ours,
    /// There is none or an empty one, as a kill leaves it that comes before it is written.
    Missing,
    /// It is about another folder, or is no owner file.
    Other,
}

impl Leftover {
    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder, if nobody uses it. `expected` is what the state folder's entry says of it.
    fn of(root: &Root, folder: &Path, entry: Option<(PathBuf, &Owner)>) -> Option<Leftover> {
        let folder = open_scratch(folder)?;
        // Locked first: whoever makes it writes the owner file under the lock.
        let lock = folder.try_lock();
        let found = read_owner(&folder);
        let in_use = match &found {
            Found::Owner(owner) => owner.is_in_use(root, lock),
            Found::Nothing | Found::Other => lock == Lock::Others,
        };
        if in_use {
            return None;
        }
        let claim = match &found {
            Found::Nothing => Claim::Missing,
            Found::Owner(owner)
                if owner.owns(folder.path())
                    && entry
                        .as_ref()
                        .is_none_or(|(_, expected)| *expected == owner) =>
            {
                Claim::Ours
            }
            Found::Owner(_) | Found::Other => Claim::Other,
        };
        Some(Leftover {
            folder,
            claim,
            entry: entry.map(|(path, _)| path),
        })
    }
}

/// Finds what killed runs left: by the entries in `state`, and in each of `directories`. Folders of
/// runs that still go on, or of another machine's, are left out. An entry whose folder is gone is
/// removed on the way.
pub fn find(root: &Root, state: Option<&Path>, directories: &[PathBuf]) -> Vec<Leftover> {
    let mut found: Vec<Leftover> = Vec::new();
    for entry in entries(state) {
        let owner = &entry.owner;
        if owner.is_in_use(root, try_lock(&entry.file)) {
            continue;
        }
        let at = Some((entry.path.clone(), owner));
        if let Some(leftover) = Leftover::of(root, &owner.folder, at) {
            found.push(leftover);
        } else if owner.is_gone() {
            // Nothing to remember.
            let _ = fs::remove_file(&entry.path);
        }
    }
    for folder in directories.iter().flat_map(|directory| list(directory)) {
        // One that was found by its entry is locked by now.
        found.extend(Leftover::of(root, &folder, None));
    }
    found
}

/// The scratch folders of this process that are still there: once their values are dropped, those
/// that could not be removed.
pub fn own(root: &Root, state: Option<&Path>) -> Vec<PathBuf> {
    entries(state)
        .map(|entry| entry.owner)
        .filter(|owner| owner.pid == std::process::id() && owner.is_alive(root))
        .map(|owner| owner.folder)
        .collect()
}

/// An entry in the state folder.
struct StateEntry {
    path: PathBuf,
    /// Locked while its run goes on.
    file: File,
    owner: Owner,
}

/// The entries in the state folder.
fn entries(state: Option<&Path>) -> impl Iterator<Item = StateEntry> {
    state.into_iter().flat_map(list).filter_map(|path| {
        let name = path.file_name()?.to_string_lossy();
        if !name.starts_with(PREFIX) {
            return None;
        }
        // For writing, without which NFS has no lock on it; where nothing can be written, without.
        let open = |write| {
            let mut options = File::options();
            // A pipe would be waited for.
            options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
            options.read(true).write(write).open(&path)
        };
        let file = open(true).or_else(|_| open(false)).ok()?;
        let owner = parse_owner(&file)?;
        Some(StateEntry { path, file, owner })
    })
}

/// Removes a leftover and its entry. Only plain files directly in the folder are removed, and only
/// if its owner file says that it is a scratch folder. So another folder of that name, or one that
/// somebody put other things into, stays, with an error.
pub fn remove(leftover: &Leftover) -> io::Result<()> {
    let folder = &leftover.folder;
    match leftover.claim {
        Claim::Ours => folder.remove(OWNER_FILE)?,
        Claim::Missing => remove_unclaimed(folder)?,
        Claim::Other => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("its {OWNER_FILE} does not say that it is syncprof's folder of this name"),
            ));
        }
    }
    if let Some(entry) = &leftover.entry {
        fs::remove_file(entry)?;
    }
    Ok(())
}

/// Removes a folder that no owner file speaks of: an empty one, and one with nothing but an owner file
/// that is empty, as a kill between its making and its writing leaves it.
fn remove_unclaimed(folder: &HeldFolder) -> io::Result<()> {
    let names = folder.names()?;
    if let [only] = names.as_slice()
        && only.to_bytes() == OWNER_FILE.as_bytes()
    {
        return folder.remove(OWNER_FILE);
    }
    folder.remove_empty().map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => io::Error::new(
            error.kind(),
            format!("it is not empty, and no {OWNER_FILE} in it says that it is syncprof's"),
        ),
        _ => error,
    })
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

/// What there is of an owner file.
enum Found {
    Owner(Owner),
    /// None, or an empty one.
    Nothing,
    /// Something else.
    Other,
}

/// The owner file of a folder: a plain file of this user's, which no link leads to.
fn read_owner(folder: &HeldFolder) -> Found {
    let file = match folder.open_file(OWNER_FILE, OFlag::O_RDONLY | OFlag::O_NONBLOCK) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
        Err(_) => return Found::Other,
    };
    let Ok(found) = file.metadata() else {
        return Found::Other;
    };
    let is_own = found.is_file() && found.uid() == nix::unistd::geteuid().as_raw();
    match parse_owner(&file).filter(|_| is_own) {
        Some(owner) => Found::Owner(owner),
        None if is_own && found.len() == 0 => Found::Nothing,
        None => Found::Other,
    }
}

fn parse_owner(file: &File) -> Option<Owner> {
    let mut text = String::new();
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    let mut start = file.take(MOST_OWNER_BYTES);
    is_file.then(|| start.read_to_string(&mut text).ok())??;
    serde_json::from_str(&text).ok()
}

/// A folder of a scratch folder's name, if it is a real one of this user's alone.
fn open_scratch(folder: &Path) -> Option<HeldFolder> {
    let name = folder.file_name()?.to_string_lossy();
    let folder = HeldFolder::open(folder.to_owned());
    folder.ok().filter(|_| name.starts_with(PREFIX))
}

#[cfg(test)]
mod tests;
