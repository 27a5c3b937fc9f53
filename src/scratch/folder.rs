//! The folder that a run keeps its files in.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::model::cell::FileState;
use crate::sys::root::Root;

use super::file::ScratchFile;
use super::leftover::{OWNER_FILE, Owner, PREFIX, empty_and_remove};

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
        Some(libc::ENOSPC | libc::EDQUOT) => "; free some space, or ask for less with --span",
        _ => "",
    }
}

/// A scratch folder and the files in it. Dropping it removes them all; a file that something else
/// put there makes it stay, which is told on the next `syncprof clean`.
#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    folder: PathBuf,
    /// The state folder's entry for it; none where there is no state folder.
    entry: Option<PathBuf>,
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
        let mut scratch = Scratch {
            directory: directory.to_owned(),
            folder: directory.join(&name),
            entry: None,
            files: Vec::new(),
        };
        // The entry comes first: a kill between the two leaves an entry for nothing, not a folder
        // that nothing knows of.
        let owner = Owner::this_process(root, &scratch.folder).map_err(failed)?;
        let owner = serde_json::to_string(&owner)
            .map_err(io::Error::from)
            .map_err(failed)?;
        if let Some(state) = state {
            let entry = state.join(format!("{name}.json"));
            fs::write(&entry, &owner).map_err(failed)?;
            scratch.entry = Some(entry);
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&scratch.folder)
            .map_err(failed)?;
        fs::write(scratch.folder.join(OWNER_FILE), &owner).map_err(failed)?;
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
            let path = self.folder.join(format!("{state}-{span_bytes}-{job}"));
            let seed = seed.wrapping_add(u64::from(job));
            let file = ScratchFile::lay_out(path, state, span_bytes, seed, stop);
            self.files.push(file.map_err(|source| match source.kind() {
                io::ErrorKind::Interrupted => ScratchError::Interrupted,
                _ => ScratchError::LayOut {
                    path: self.directory.clone(),
                    source,
                },
            })?);
        }
        // The names are on disk too, so that no journal commit for them falls into a slice.
        fs::File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| ScratchError::LayOut {
                path: self.directory.clone(),
                source,
            })
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

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that can't be removed keeps its entry, so that `syncprof clean` tells of it.
        let gone = match empty_and_remove(&self.folder) {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if gone && let Some(entry) = &self.entry {
            let _ = fs::remove_file(entry);
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
