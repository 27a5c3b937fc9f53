//! A folder that is held by its descriptor, so that whoever may rename it, because they may write in
//! the directory above, cannot have files opened or removed elsewhere by laying a link in its place.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::sys::ioctl;

/// An open folder that belongs to this user.
#[derive(Clone, Debug)]
pub(super) struct HeldFolder {
    path: PathBuf,
    file: Arc<File>,
}

impl AsFd for HeldFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl HeldFolder {
    /// Makes a folder that only this user may enter.
    pub(super) fn make(path: PathBuf) -> io::Result<HeldFolder> {
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        HeldFolder::open(path.clone()).inspect_err(|_| {
            let _ = fs::remove_dir(&path);
        })
    }

    /// Opens a folder. Fails for a link, and for what belongs to another user: nobody else can have
    /// us write or remove files by laying a folder of the right name.
    pub(super) fn open(path: PathBuf) -> io::Result<HeldFolder> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(&path)?;
        if file.metadata()?.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let file = Arc::new(file);
        Ok(HeldFolder { path, file })
    }

    /// Where it was when it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in it, or makes one that only this user may open. A link is not followed.
    pub(super) fn open_file(&self, name: &str, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        Ok(openat(self, name, flags, mode)?.into())
    }

    /// Removes the plain files in it, also those with the immutable flag that a kill may have left,
    /// then the folder. It stays, with an error, if there is anything else in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut listing = Dir::openat(self, ".", flags, Mode::empty())?;
        for entry in listing.iter() {
            let entry = entry?;
            let name = entry.file_name();
            let found = fstatat(self, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
            if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
                continue;
            }
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            if let Ok(file) = openat(self, name, flags, Mode::empty())
                && ioctl::is_immutable(&file).unwrap_or(false)
            {
                ioctl::set_immutable(&file, false)?;
            }
            unlinkat(self, name, UnlinkatFlags::NoRemoveDir)?;
        }
        fs::remove_dir(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A folder that was renamed, and a link in its stead to another with a file `a`.
    fn swapped(directory: &Path) -> (HeldFolder, PathBuf) {
        let folder = HeldFolder::make(directory.join("folder")).unwrap();
        let other = directory.join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("a"), "precious").unwrap();
        fs::rename(folder.path(), directory.join("moved")).unwrap();
        symlink(&other, folder.path()).unwrap();
        (folder, other.join("a"))
    }

    #[test]
    fn a_link_in_the_stead_of_a_folder_leads_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let (folder, precious) = swapped(directory.path());
        assert!(folder.open_file("a", OFlag::O_WRONLY).is_err());
        folder
            .open_file("own", OFlag::O_WRONLY | OFlag::O_CREAT)
            .unwrap();
        assert!(directory.path().join("moved/own").exists());
        assert!(folder.remove().is_err());
        assert_eq!(fs::read(precious).unwrap(), b"precious");
        assert!(!directory.path().join("moved/own").exists());
    }

    #[test]
    fn a_link_is_no_place_and_a_link_in_it_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let (folder, precious) = swapped(directory.path());
        assert!(HeldFolder::open(folder.path().to_owned()).is_err());
        symlink(precious, directory.path().join("moved/a")).unwrap();
        assert!(folder.open_file("a", OFlag::O_WRONLY).is_err());
    }

    #[test]
    fn a_folder_with_foreign_things_in_it_stays() {
        let directory = tempfile::tempdir().unwrap();
        let folder = HeldFolder::make(directory.path().join("folder")).unwrap();
        fs::create_dir(folder.path().join("precious")).unwrap();
        assert!(folder.remove().is_err());
        assert!(folder.path().join("precious").is_dir());
    }
}
