//! Scratch space in a file that has no name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statvfs::statvfs;

use super::command;
use crate::model::units::show_amount;
use crate::sys::limits;
use crate::sys::loopdev::LoopDevice;
use crate::sys::root::Root;
use crate::target;

/// What is written at once.
const CHUNK_BYTES: usize = 1 << 20;
/// What an image's name begins with, where it must have one for a moment.
const PREFIX: &str = ".syncprof-image-";

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// It would take too much of its filesystem.
    #[error(
        "an image of {} does not fit in {}: {rule}; ask for less with --image, or name another \
         directory with --in", show_amount(*size_bytes), folder.display()
    )]
    NoRoom {
        /// Where it was to be.
        folder: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// What the filesystem allows.
        rule: String,
    },
    /// The kernel refused something.
    #[error("cannot {what} in {}: {source}{}", folder.display(), remedy(source))]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// Where.
        folder: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// There are no loop devices to be had.
    #[error(
        "this kernel has no loop devices: there is no loop-control in /dev, also after `modprobe \
         loop`; use --device"
    )]
    NoLoop,
    /// A signal came while it was written.
    #[error("interrupted while the image was written")]
    Interrupted,
}

fn remedy(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "; run as root, or with CAP_SYS_ADMIN and CAP_DAC_OVERRIDE".to_owned()
        }
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "; free some space, or name another directory with --in".to_owned()
        }
        _ => limits::hint(error),
    }
}

/// A part of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub size_bytes: u64,
}

/// A file without a name, written from end to end: the first write to a block of a sparse or a
/// preallocated one would be charged to the filesystem inside.
#[derive(Debug)]
pub struct Image {
    folder: PathBuf,
    file: File,
}

impl Image {
    /// Writes `size_bytes` of zeros in `folder`, if there is room. `state` keeps an entry of it where
    /// it must have a name for a moment.
    pub fn make(
        folder: &Path,
        state: &Path,
        size_bytes: u64,
        stop: &AtomicBool,
    ) -> Result<Image, ImageError> {
        let failed = |what, source| ImageError::Kernel {
            what,
            folder: folder.to_owned(),
            source,
        };
        let (all, free) = room(folder).map_err(|error| failed("see what is free", error))?;
        if size_bytes > target::allowed_bytes(all, free) {
            return Err(ImageError::NoRoom {
                folder: folder.to_owned(),
                size_bytes,
                rule: target::free_rule(all, free),
            });
        }
        limits::allow_file(size_bytes).map_err(|error| failed("write an image", error))?;
        let mut file = nameless(folder, state).map_err(|error| failed("make an image", error))?;
        let zeros = vec![0; CHUNK_BYTES];
        for _ in 0..size_bytes.div_ceil(CHUNK_BYTES as u64) {
            if stop.load(Ordering::Relaxed) {
                return Err(ImageError::Interrupted);
            }
            file.write_all(&zeros)
                .map_err(|error| failed("write an image", error))?;
        }
        file.sync_all()
            .map_err(|error| failed("write an image to disk", error))?;
        // The loop device goes past the page cache, and would have to throw these pages out write by
        // write. It is advice: nothing depends on it.
        let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        Ok(Image {
            folder: folder.to_owned(),
            file,
        })
    }

    /// A loop device over a part of it. Where the driver is a module that nobody loaded yet, it is.
    pub fn attach(
        &self,
        root: &Root,
        region: Region,
        stop: &AtomicBool,
    ) -> Result<LoopDevice, ImageError> {
        let fd = self.file.as_fd();
        let attach = || LoopDevice::attach(root, fd, region.offset_bytes, region.size_bytes);
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let mut attached = attach();
        if attached.as_ref().is_err_and(is_missing) {
            let words = ["modprobe", "-q", "loop"].map(str::to_owned);
            // What came of it, the next try tells.
            let _ = command::run(&words, stop);
            attached = attach();
        }
        attached.map_err(|source| match is_missing(&source) {
            true => ImageError::NoLoop,
            false => ImageError::Kernel {
                what: "attach a loop device to the image",
                folder: self.folder.clone(),
                source,
            },
        })
    }
}

/// The size of the filesystem that a folder is on, and what of it is free.
fn room(folder: &Path) -> io::Result<(u64, u64)> {
    let room = statvfs(folder)?;
    let unit = room.fragment_size();
    Ok((room.blocks() * unit, room.blocks_available() * unit))
}

/// Whether an image of so many bytes may be made in the folder.
pub fn has_room(folder: &Path, size_bytes: u64) -> bool {
    room(folder).is_ok_and(|(all, free)| size_bytes <= target::allowed_bytes(all, free))
}

/// A file that is gone with its last descriptor: one that never had a name (O_TMPFILE, open(2)), or,
/// on filesystems that have no such, one whose name is removed at once.
fn nameless(folder: &Path, state: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            named_once(&mut options, folder, state)
        }
        other => other,
    }
}

/// A file that had a name: a link in the state folder tells it to `syncprof clean`, from before it is
/// made until after it is gone.
fn named_once(options: &mut OpenOptions, folder: &Path, state: &Path) -> io::Result<File> {
    let id = format!("{}-{:08x}", std::process::id(), fastrand::u32(..));
    let path = std::path::absolute(folder)?.join(format!("{PREFIX}{id}"));
    let entry = state.join(format!("image-{id}"));
    symlink(&path, &entry)?;
    let made = options.create_new(true).open(&path);
    if made.is_ok() {
        gone_already(fs::remove_file(&path))?;
    }
    gone_already(fs::remove_file(&entry))?;
    made
}

/// `syncprof clean` may have come first.
fn gone_already(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// An image that a killed run left with its name, or the entry of one alone.
#[derive(Debug)]
pub struct OldImage {
    path: PathBuf,
    entry: PathBuf,
}

impl OldImage {
    /// The image.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it and its entry. A run that is just making it loses nothing: it wants no name.
    pub fn remove(self) -> io::Result<()> {
        gone_already(fs::remove_file(&self.path))?;
        gone_already(fs::remove_file(&self.entry))
    }
}

/// Images that killed runs left, by their entries in the state folder.
pub fn old_images(state: &Path) -> Vec<OldImage> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let old = |entry: PathBuf| {
        let id = entry
            .file_name()?
            .to_str()?
            .strip_prefix("image-")?
            .to_owned();
        let path = fs::read_link(&entry).ok()?;
        // Nothing but an image is removed, whatever the link says.
        let is_image = path.file_name()?.to_str()? == format!("{PREFIX}{id}");
        is_image.then_some(OldImage { path, entry })
    };
    entries.filter_map(|entry| old(entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn make(folder: &Path, bytes: u64, stop: bool) -> Result<Image, ImageError> {
        Image::make(folder, folder, bytes, &AtomicBool::new(stop))
    }

    #[test]
    fn an_image_is_written_and_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let image = make(folder.path(), 3 << 20, false).unwrap();
        let meta = image.file.metadata().unwrap();
        assert_eq!((meta.len(), meta.nlink()), (3 << 20, 0));
        assert!(meta.blocks() * 512 >= 3 << 20);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_does_not_fit_or_is_interrupted_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = make(folder.path(), 1 << 60, false).unwrap_err().to_string();
        assert!(
            error.contains("--image") && error.contains("free"),
            "{error}"
        );
        assert!(!has_room(folder.path(), 1 << 60) && has_room(folder.path(), 1 << 10));
        assert!(matches!(
            make(folder.path(), 1 << 20, true),
            Err(ImageError::Interrupted)
        ));
    }

    #[test]
    fn an_image_that_had_a_name_is_found_by_its_entry() {
        let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut options = OpenOptions::new();
        let file = named_once(options.read(true).write(true), folder.path(), state.path());
        assert_eq!(file.unwrap().metadata().unwrap().nlink(), 0);
        assert!(old_images(state.path()).is_empty());

        let path = folder.path().join(".syncprof-image-7-abc");
        let other = folder.path().join("other");
        fs::write(&path, "left").unwrap();
        fs::write(&other, "not ours").unwrap();
        symlink(&path, state.path().join("image-7-abc")).unwrap();
        symlink(&other, state.path().join("image-8-abc")).unwrap();
        let old = old_images(state.path());
        assert_eq!(old.len(), 1);
        for image in old {
            assert_eq!(image.path(), path);
            image.remove().unwrap();
        }
        assert!(!path.exists() && other.exists());
        assert!(old_images(state.path()).is_empty());
    }
}
