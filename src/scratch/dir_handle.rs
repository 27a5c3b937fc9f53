//! A folder that is held by its descriptor, so that whoever may rename it, because they may write in
//! the directory above, cannot have files opened or removed elsewhere by laying a link in its place.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};
use nix::sys::statfs::fstatfs;
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use crate::sys::ioctl;

/// `syncprof clean` may take a folder away before it is locked; so often is it made again.
const TRIES: u32 = 16;

/// Filesystems without permissions, or whose mount options decide what they look like: FAT, exFAT,
/// NTFS, CIFS, SMB and FUSE, by their f_type (statfs(2)).
const WITHOUT_MODES: [u64; 6] = [
    0x4D44,
    0x2011_BAB0,
    0x7366_746E,
    0xFF53_4D42,
    0xFE53_4D42,
    0x6573_5546,
];

/// What came of asking for a lock (flock(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// Nobody else has it: this process has, until the last descriptor is closed.
    Taken,
    /// Another open descriptor has it.
    Others,
    /// The filesystem has no such locks. NFS has none on folders, since it wants a descriptor that is
    /// open for writing.
    Impossible,
}

/// Asks for the lock on a file or a folder, and doesn't wait.
pub(super) fn try_lock(file: &File) -> Lock {
    match file.try_lock() {
        Ok(()) => Lock::Taken,
        Err(TryLockError::WouldBlock) => Lock::Others,
        Err(TryLockError::Error(_)) => Lock::Impossible,
    }
}

/// An open folder that belongs to this user.
#[derive(Clone, Debug)]
pub(super) struct DirHandle {
    path: PathBuf,
    file: Arc<File>,
}

impl AsFd for DirHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl DirHandle {
    /// Makes a folder that only this user may enter, and locks it for as long as it is held, where
    /// its filesystem has locks: that is how others know that it is in use.
    pub(super) fn make(path: PathBuf) -> io::Result<DirHandle> {
        for _ in 0..TRIES {
            fs::DirBuilder::new().mode(0o700).create(&path)?;
            let made = DirHandle::open(path.clone()).and_then(DirHandle::locked);
            match made {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => {
                    return other.inspect_err(|_| {
                        let _ = fs::remove_dir(&path);
                    });
                }
            }
        }
        Err(io::Error::other("it is taken away each time it is made"))
    }

    /// Locks a folder that was just made, and sees that it is that one: whoever may write in the
    /// directory above may have moved another of ours there since. Not found if it is gone.
    fn locked(self) -> io::Result<DirHandle> {
        loop {
            match self.file.lock() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What a filesystem without locks says is no fault of the folder.
                _ => break,
            }
        }
        let there = fs::symlink_metadata(&self.path)?;
        let held = self.file.metadata()?;
        if (there.dev(), there.ino()) != (held.dev(), held.ino()) {
            return Err(io::ErrorKind::NotFound.into());
        }
        match self.names()?.is_empty() {
            true => Ok(self),
            false => Err(io::Error::other(format!(
                "another folder was laid at {} while it was made",
                self.path.display()
            ))),
        }
    }

    /// Opens a folder. Fails for a link, and for what belongs to another user or may be entered by
    /// one: nobody else can have us write or remove files by laying a folder of the right name.
    pub(super) fn open(path: PathBuf) -> io::Result<DirHandle> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(&path)?;
        let found = file.metadata()?;
        if found.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Not just the mode that it was made with: a directory may hand a set-group-ID bit down.
        if found.mode() & 0o077 != 0 {
            let fs_type = fstatfs(&file)?.filesystem_type().0 as u64;
            if !WITHOUT_MODES.contains(&(fs_type & 0xFFFF_FFFF)) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        let file = Arc::new(file);
        Ok(DirHandle { path, file })
    }

    /// Asks for its lock, for as long as it is held.
    pub(super) fn try_lock(&self) -> Lock {
        try_lock(&self.file)
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
    /// the one called `last` after all others, then the folder. It stays, with an error, if there is
    /// anything else in it.
    pub(super) fn remove(&self, last: &str) -> io::Result<()> {
        let mut names = self.names()?;
        names.sort_by_key(|name| name.to_bytes() == last.as_bytes());
        for name in &names {
            let name = name.as_c_str();
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
        self.remove_empty()
    }

    /// Removes the folder if there is nothing in it.
    pub(super) fn remove_empty(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }

    /// It is still there, by whatever name: it may have been renamed, or unmounted.
    pub(super) fn is_there(&self) -> bool {
        fstat(self).is_ok_and(|found| found.st_nlink > 0)
    }

    /// What is in it.
    pub(super) fn names(&self) -> io::Result<Vec<CString>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut listing = Dir::openat(self, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in listing.iter() {
            let name = entry?.file_name().to_owned();
            if name.as_c_str() != c"." && name.as_c_str() != c".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Brings what is in it, and their names, to disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(fsync(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A folder that was renamed, and a link in its stead to another with a file `a`.
    fn swapped(directory: &Path) -> (DirHandle, PathBuf) {
        let folder = DirHandle::make(directory.join("folder")).unwrap();
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
        assert!(folder.remove("").is_err());
        assert_eq!(fs::read(precious).unwrap(), b"precious");
        assert!(!directory.path().join("moved/own").exists());
    }

    #[test]
    fn a_link_is_no_place_and_a_link_in_it_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let (folder, precious) = swapped(directory.path());
        assert!(DirHandle::open(folder.path().to_owned()).is_err());
        symlink(precious, directory.path().join("moved/a")).unwrap();
        assert!(folder.open_file("a", OFlag::O_WRONLY).is_err());
    }

    /// What was laid at the path of a folder that is being made is not taken for it.
    #[test]
    fn only_an_empty_folder_that_nobody_else_may_enter_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("folder");
        fs::create_dir(&path).unwrap();
        let open = || DirHandle::open(path.clone());
        assert_eq!(open().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        open().unwrap().locked().unwrap();
        fs::write(path.join("precious"), "").unwrap();
        let error = open().unwrap().locked().unwrap_err();
        assert!(error.to_string().contains("another folder"), "{error}");
        let held = open().unwrap();
        fs::rename(&path, directory.path().join("moved")).unwrap();
        assert_eq!(held.locked().unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_is_locked_while_it_is_held() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("folder");
        let held = DirHandle::make(path.clone()).unwrap();
        let other = DirHandle::open(path).unwrap();
        assert_eq!(other.try_lock(), Lock::Others);
        drop(held);
        assert_eq!(other.try_lock(), Lock::Taken);
    }

    #[test]
    fn a_folder_with_foreign_things_in_it_stays() {
        let directory = tempfile::tempdir().unwrap();
        let folder = DirHandle::make(directory.path().join("folder")).unwrap();
        fs::create_dir(folder.path().join("precious")).unwrap();
        assert!(folder.remove("").is_err());
        assert!(folder.path().join("precious").is_dir());
    }
}
