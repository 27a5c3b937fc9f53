//! The folder that a run keeps its files in.

use std::fs::{self, File};
use std::io;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nix::fcntl::OFlag;

use crate::model::cell::FileState;
use crate::sys::limits;
use crate::sys::pulse;
use crate::sys::root::Root;

use super::dir_handle::{DirHandle, try_lock};
use super::file::ScratchFile;
use super::owner::{OWNER_FILE, Owner, PREFIX};

/// Why there is no scratch file.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// The folder could not be made.
    #[error("cannot make a scratch folder in {}: {source}{}", path.display(), remedy(source))]
    Folder {
        /// The directory that was named.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file could not be laid out.
    #[error("cannot lay out a scratch file in {}: {source}{}", path.display(), remedy(source))]
    LayOut {
        /// The directory that was named.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A signal came while a file was laid out.
    #[error("interrupted while a scratch file was laid out")]
    Interrupted,
}

/// What to do about an error, as the end of its message.
pub(super) fn remedy(error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::EROFS) => "; mount it writable, or name a directory that is",
        Some(libc::EACCES | libc::EPERM) => {
            "; run as a user who may write there, or name another directory"
        }
        Some(libc::ENOSPC) => "; free some space, or ask for smaller files",
        Some(libc::EDQUOT) => "; ask for smaller files, or have the quota raised",
        // What ext4, XFS and btrfs say once they were shut down, and any filesystem whose device is gone.
        Some(libc::EIO | libc::ENODEV | libc::ENXIO) => {
            "; its filesystem was shut down, or its device failed: the kernel's log (dmesg) says which"
        }
        _ => return limits::hint(error),
    };
    remedy.to_owned()
}

/// A scratch folder and the files in it. Dropping it removes them all; a file that something else
/// put there makes it stay, which is told on the next `syncprof clean`.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    folder: DirHandle,
    entry: Option<Entry>,
    files: Vec<ScratchFile>,
}

impl Scratch {
    /// Makes a folder below `directory` that only this user may enter, and an entry for it in the
    /// folder `state`, by which `syncprof clean` finds it if this process is killed.
    pub fn create(
        root: &Root,
        directory: &Path,
        state: Option<&Path>,
    ) -> Result<Scratch, ScratchError> {
        Scratch::make(root, directory, state).map_err(|source| ScratchError::Folder {
            path: directory.to_owned(),
            source,
        })
    }

    fn make(root: &Root, directory: &Path, state: Option<&Path>) -> io::Result<Scratch> {
        let name = format!("{PREFIX}{}-{:08x}", std::process::id(), fastrand::u32(..));
        let folder = directory.join(&name);
        let owner = serde_json::to_string(&Owner::this_process(root, &folder)?)?;
        // The entry comes first: a kill between the two leaves an entry for nothing, not a folder
        // that nothing knows of.
        let entry = state.map(|state| Entry::make(state, &name, &owner));
        let scratch = Scratch {
            directory: directory.to_owned(),
            entry: entry.transpose()?,
            folder: DirHandle::make(folder)?,
            files: Vec::new(),
        };
        // On disk before there are files that only what it says lets `syncprof clean` remove.
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let mut file = scratch.folder.open_file(OWNER_FILE, flags)?;
        file.write_all(owner.as_bytes())?;
        file.sync_all()?;
        scratch.folder.sync()?;
        Ok(scratch)
    }

    /// Adds a file of `span_bytes` for each of `jobs` jobs, kept for `state`, laid out and on disk.
    /// Files of one state and length are made once, for the cells with the most jobs.
    pub fn lay_out(
        &mut self,
        state: FileState,
        jobs: u32,
        span_bytes: u64,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<(), ScratchError> {
        for job in 0..jobs {
            let name = format!("{state}-{span_bytes}-{job}");
            let seed = seed.wrapping_add(u64::from(job));
            self.add(name, state, span_bytes, seed, stop)?;
        }
        self.sync_names()
    }

    /// Adds a file of `span_bytes` under a name of the caller's choice, written and on disk, and
    /// gives its place among [`Scratch::all`].
    pub fn lay_out_named(
        &mut self,
        name: &str,
        span_bytes: u64,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<usize, ScratchError> {
        self.add(
            name.to_owned(),
            FileState::Overwrite,
            span_bytes,
            seed,
            stop,
        )?;
        self.sync_names()?;
        Ok(self.files.len() - 1)
    }

    fn add(
        &mut self,
        name: String,
        state: FileState,
        span_bytes: u64,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<(), ScratchError> {
        let file = ScratchFile::lay_out(&self.folder, name, state, span_bytes, seed, stop);
        self.files.push(file.map_err(|source| match source.kind() {
            io::ErrorKind::Interrupted => ScratchError::Interrupted,
            _ => self.laying_out(source),
        })?);
        Ok(())
    }

    /// Brings the names to disk, so that no journal commit for them falls into a slice.
    fn sync_names(&self) -> Result<(), ScratchError> {
        self.folder.sync().map_err(|error| self.laying_out(error))
    }

    fn laying_out(&self, source: io::Error) -> ScratchError {
        ScratchError::LayOut {
            path: self.directory.clone(),
            source,
        }
    }

    /// The folder, for files that come and go while a workload runs. What is left in it goes away
    /// with it.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// All files, in the order in which they were laid out.
    pub fn all(&self) -> &[ScratchFile] {
        &self.files
    }

    /// The files of `span_bytes` kept for `state`: one for each job, the first `jobs` of them.
    pub fn files(&self, state: FileState, span_bytes: u64, jobs: u32) -> Vec<&ScratchFile> {
        self.files
            .iter()
            .filter(|file| file.state() == state && file.span_bytes() == span_bytes)
            .take(jobs as usize)
            .collect()
    }
}

/// The state folder's entry for a scratch folder, locked while this lives: that is how others know
/// that it is in use. Dropping it removes it.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    _lock: File,
    /// The folder could not be removed.
    stays: bool,
}

impl Entry {
    /// Writes one in the folder `state`, on disk: after a power cut, an immutable file may be left,
    /// which nothing else tells of.
    fn make(state: &Path, name: &str, owner: &str) -> io::Result<Entry> {
        let path = state.join(format!("{name}.json"));
        // New, so that no link that somebody laid there is followed.
        let mut options = File::options();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let mut file = options.open(&path)?;
        // A filesystem without locks has none to give, and the process is asked for instead.
        let _ = try_lock(&file);
        let written = file
            .write_all(owner.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| File::open(state)?.sync_all());
        let entry = Entry {
            path,
            _lock: file,
            stays: false,
        };
        written.map(|()| entry)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.stays {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        pulse::undoes(&format!("removing {}", self.folder.path().display()));
        // The owner file last: whatever ends this midway, `syncprof clean` may remove the rest. A
        // folder that can't be removed keeps its entry, so that it tells of it.
        if self.folder.remove(OWNER_FILE).is_err()
            && self.folder.is_there()
            && let Some(entry) = &mut self.entry
        {
            entry.stays = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_folder_goes_with_its_value() {
        let (state, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let stop = AtomicBool::new(false);
        let mut scratch = Scratch::create(&Root::host(), data.path(), Some(state.path())).unwrap();
        scratch
            .lay_out(FileState::Overwrite, 2, 8192, 1, &stop)
            .unwrap();
        scratch
            .lay_out(FileState::Trunc, 1, 4096, 1, &stop)
            .unwrap();
        assert_eq!(scratch.files(FileState::Overwrite, 8192, 2).len(), 2);
        assert_eq!(scratch.files(FileState::Trunc, 4096, 1).len(), 1);
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
        drop(scratch);
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_was_renamed_keeps_its_entry() {
        let (state, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let scratch = Scratch::create(&Root::host(), data.path(), Some(state.path())).unwrap();
        let made = fs::read_dir(data.path()).unwrap().next().unwrap().unwrap();
        fs::rename(made.path(), data.path().join("moved")).unwrap();
        drop(scratch);
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
    }

    /// The name of an entry is random, but whoever may write there could lay links by all names.
    #[test]
    fn an_entry_is_new_and_follows_no_link() {
        let state = tempfile::tempdir().unwrap();
        let precious = state.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let link = state.path().join("name.json");
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        let error = Entry::make(state.path(), "name", "owner").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_missing_directory_is_one_line_and_leaves_no_entry() {
        let state = tempfile::tempdir().unwrap();
        let error = Scratch::create(
            &Root::host(),
            Path::new("/nowhere/at/all"),
            Some(state.path()),
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot make a scratch folder in /nowhere/at/all")
        );
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }
}
