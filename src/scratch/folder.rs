//! The folder that a run keeps its files in.

use std::fs;
use std::io;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nix::fcntl::OFlag;
use nix::unistd::fsync;

use crate::model::cell::FileState;
use crate::sys::root::Root;

use super::file::ScratchFile;
use super::held::HeldFolder;
use super::leftover::{OWNER_FILE, Owner, PREFIX};

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
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EROFS) => "; mount it writable, or name a directory that is",
        Some(libc::EACCES | libc::EPERM) => {
            "; run as a user who may write there, or name another directory"
        }
        Some(libc::ENOSPC | libc::EDQUOT) => "; free some space, or ask for smaller files",
        _ => "",
    }
}

/// A scratch folder and the files in it. Dropping it removes them all; a file that something else
/// put there makes it stay, which is told on the next `syncprof clean`.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    folder: HeldFolder,
    entry: Entry,
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
        let name = format!("{PREFIX}{}-{:08x}", std::process::id(), fastrand::u32(..));
        let failed = |source| ScratchError::Folder {
            path: directory.to_owned(),
            source,
        };
        let folder = directory.join(&name);
        let owner = Owner::this_process(root, &folder).map_err(failed)?;
        let owner = serde_json::to_string(&owner)
            .map_err(io::Error::from)
            .map_err(failed)?;
        // The entry comes first: a kill between the two leaves an entry for nothing, not a folder
        // that nothing knows of.
        let entry = Entry(state.map(|state| state.join(format!("{name}.json"))));
        if let Some(path) = &entry.0 {
            fs::write(path, &owner).map_err(failed)?;
        }
        let scratch = Scratch {
            directory: directory.to_owned(),
            folder: HeldFolder::make(folder).map_err(failed)?,
            entry,
            files: Vec::new(),
        };
        scratch
            .folder
            .open_file(OWNER_FILE, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)
            .and_then(|mut file| file.write_all(owner.as_bytes()))
            .map_err(failed)?;
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
        fsync(self.folder.as_fd()).map_err(|errno| self.laying_out(errno.into()))
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

/// The state folder's entry for a scratch folder; none where there is no state folder. Dropping it
/// removes it.
#[derive(Debug)]
struct Entry(Option<PathBuf>);

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that can't be removed keeps its entry, so that `syncprof clean` tells of it.
        if let Err(error) = self.folder.remove()
            && error.kind() != io::ErrorKind::NotFound
        {
            self.entry.0 = None;
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
