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

use super::dir_handle::{DirHandle, Lock, try_lock};
use super::folder::remedy;
use super::owner::{OWNER_FILE, Owner, PREFIX};
use crate::model::text::shell;
use crate::sys::root::Root;

/// An owner file is shorter than this.
const MOST_OWNER_BYTES: u64 = 64 << 10;

/// A scratch folder whose process is gone. It stays locked while this lives, so that nobody else
/// removes it at the same time.
#[derive(Debug)]
pub struct Leftover {
    folder: DirHandle,
    claim: Claim,
    /// The state folder's entry for it, if that is how it was found.
    entry: Option<PathBuf>,
}

/// What the owner file of a folder says.
#[derive(Debug)]
enum Claim {
    /// The folder is a scratch folder.
    Ours,
    /// There is none or an empty one, as a kill leaves it that comes before it is written.
    Missing,
    /// It is about another folder, or is no owner file.
    Other,
    /// It could not be read.
    Unread(io::Error),
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
            Found::Nothing | Found::Other | Found::Unread(_) => lock == Lock::Others,
        };
        if in_use {
            return None;
        }
        let claim = match found {
            Found::Nothing => Claim::Missing,
            Found::Unread(error) => Claim::Unread(error),
            Found::Owner(owner)
                if owner.owns(folder.path())
                    && entry
                        .as_ref()
                        .is_none_or(|(_, expected)| **expected == owner) =>
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

/// Scratch folders that [`find`] left out, and directories that it could not look into, each with the
/// reason; `found` is what it found.
pub fn left_alone(
    root: &Root,
    state: Option<&Path>,
    directories: &[PathBuf],
    found: &[Leftover],
) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    for entry in entries(state) {
        let why = match entry.owner.user(root, try_lock(&entry.file)) {
            Some(user) => user,
            None => match DirHandle::open(entry.owner.folder.clone()) {
                Ok(_) => "is in use by a run that goes on".to_owned(),
                Err(error) => format!(
                    "{}; once its filesystem is mounted there again, run `syncprof clean`, or remove {}",
                    unopened(&error),
                    shell(&entry.path.display().to_string())
                ),
            },
        };
        all.push((entry.owner.folder, why));
    }
    for directory in directories {
        if let Err(error) = fs::read_dir(directory) {
            all.push((directory.clone(), format!("cannot be looked into: {error}")));
        }
        let named = list(directory).into_iter().filter(|path| is_named(path));
        all.extend(named.filter_map(|path| {
            let why = match DirHandle::open(path.clone()) {
                Ok(folder) => match read_owner(&folder) {
                    Found::Owner(owner) => owner.user(root, folder.try_lock())?,
                    _ => "a run that still goes on has it locked".to_owned(),
                },
                Err(error) => unopened(&error),
            };
            Some((path, why))
        }));
    }
    all.retain(|(path, _)| !found.iter().any(|leftover| leftover.folder() == path));
    all.sort();
    all.dedup_by(|one, other| one.0 == other.0);
    all
}

fn unopened(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "is another user's, or open to others".to_owned(),
        _ => format!("cannot be opened: {error}"),
    }
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
        if !is_named(&path) {
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
        let owner = parse_owner(&file).ok()??;
        Some(StateEntry { path, file, owner })
    })
}

/// Removes a leftover and its entry. Only plain files directly in the folder are removed, and only
/// if its owner file says that it is a scratch folder. So another folder of that name, or one that
/// somebody put other things into, stays, with an error.
pub fn remove(leftover: &Leftover) -> io::Result<()> {
    let folder = &leftover.folder;
    let with_remedy = |what: String, error: &io::Error| {
        let remedy = match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "; run `syncprof clean` as root (CAP_LINUX_IMMUTABLE clears what a kill left immutable)".to_owned()
            }
            _ => remedy(error),
        };
        io::Error::new(error.kind(), format!("{what}{error}{remedy}"))
    };
    match &leftover.claim {
        Claim::Ours => folder.remove(OWNER_FILE),
        Claim::Missing => remove_unclaimed(folder),
        Claim::Other => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "its {OWNER_FILE} does not say that it is syncprof's folder of this name; look at what is \
                 in it"
            ),
        )),
        Claim::Unread(error) => {
            return Err(with_remedy(format!("cannot read its {OWNER_FILE}: "), error));
        }
    }
    .map_err(|error| with_remedy(String::new(), &error))?;
    let Some(entry) = &leftover.entry else {
        return Ok(());
    };
    let entry_stays =
        |error| with_remedy(format!("it is gone, but not {}: ", entry.display()), &error);
    fs::remove_file(entry).map_err(entry_stays)
}

/// Removes a folder that no owner file speaks of: an empty one, and one with nothing but an owner file
/// that is empty, as a kill between its making and its writing leaves it.
fn remove_unclaimed(folder: &DirHandle) -> io::Result<()> {
    let names = folder.names()?;
    if let [only] = names.as_slice()
        && only.to_bytes() == OWNER_FILE.as_bytes()
    {
        return folder.remove(OWNER_FILE);
    }
    folder.remove_empty().map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => io::Error::new(
            error.kind(),
            format!(
                "it is not empty, and no {OWNER_FILE} in it says that it is syncprof's; look at what is in it"
            ),
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
    /// It could not be read.
    Unread(io::Error),
}

/// The owner file of a folder: a plain file of this user's, which no link leads to.
fn read_owner(folder: &DirHandle) -> Found {
    let file = match folder.open_file(OWNER_FILE, OFlag::O_RDONLY | OFlag::O_NONBLOCK) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
        // A link, or a socket, is none.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO)) => {
            return Found::Other;
        }
        Err(error) => return Found::Unread(error),
    };
    let (found, owner) = match file
        .metadata()
        .and_then(|meta| Ok((meta, parse_owner(&file)?)))
    {
        Ok(read) => read,
        Err(error) => return Found::Unread(error),
    };
    let is_own = found.is_file() && found.uid() == nix::unistd::geteuid().as_raw();
    match owner.filter(|_| is_own) {
        Some(owner) => Found::Owner(owner),
        None if is_own && found.len() == 0 => Found::Nothing,
        None => Found::Other,
    }
}

/// What a file says, if it is an owner file.
fn parse_owner(file: &File) -> io::Result<Option<Owner>> {
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.take(MOST_OWNER_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

fn is_named(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(PREFIX)
}

/// A folder of a scratch folder's name, if it is a real one of this user's alone.
fn open_scratch(folder: &Path) -> Option<DirHandle> {
    let is_named = is_named(folder);
    let folder = DirHandle::open(folder.to_owned());
    folder.ok().filter(|_| is_named)
}

#[cfg(test)]
mod tests;
