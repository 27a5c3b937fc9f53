//! Scratch space in a file that has no name.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statvfs::statvfs;

use crate::model::units::show_amount;
use crate::scratch;
use crate::sys::loopdev::LoopDevice;
use crate::sys::root::Root;

/// What is written at once.
const CHUNK_BYTES: usize = 1 << 20;

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
    #[error("cannot {what} in {}: {source}", folder.display())]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// Where.
        folder: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A signal came while it was written.
    #[error("interrupted while the image was written")]
    Interrupted,
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
    /// Writes `size_bytes` of zeros in `folder`, if there is room.
    pub fn make(folder: &Path, size_bytes: u64, stop: &AtomicBool) -> Result<Image, ImageError> {
        let failed = |what, source| ImageError::Kernel {
            what,
            folder: folder.to_owned(),
            source,
        };
        let room = statvfs(folder).map_err(|errno| failed("see what is free", errno.into()))?;
        let unit = room.fragment_size();
        let (all, free) = (room.blocks() * unit, room.blocks_available() * unit);
        if size_bytes > scratch::allowed_bytes(all, free) {
            return Err(ImageError::NoRoom {
                folder: folder.to_owned(),
                size_bytes,
                rule: scratch::free_rule(all, free),
            });
        }
        let mut file = nameless(folder).map_err(|error| failed("make an image", error))?;
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

    /// A loop device over a part of it.
    pub fn attach(&self, root: &Root, region: Region) -> Result<LoopDevice, ImageError> {
        let fd = self.file.as_fd();
        LoopDevice::attach(root, fd, region.offset_bytes, region.size_bytes).map_err(|source| {
            ImageError::Kernel {
                what: "attach a loop device to the image",
                folder: self.folder.clone(),
                source,
            }
        })
    }
}

/// A file that is gone with its last descriptor: one that never had a name (O_TMPFILE, open(2)), or,
/// on filesystems that have no such, one whose name is removed at once.
fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
            let name = format!(
                ".syncprof-image-{}-{:08x}",
                std::process::id(),
                fastrand::u32(..)
            );
            let path = folder.join(name);
            let file = options.create_new(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn an_image_is_written_and_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let image = Image::make(folder.path(), 3 << 20, &AtomicBool::new(false)).unwrap();
        let meta = image.file.metadata().unwrap();
        assert_eq!((meta.len(), meta.nlink()), (3 << 20, 0));
        assert!(meta.blocks() * 512 >= 3 << 20);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_does_not_fit_or_is_interrupted_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let make = |bytes, stop| Image::make(folder.path(), bytes, &AtomicBool::new(stop));
        let error = make(1 << 60, false).unwrap_err().to_string();
        assert!(
            error.contains("--image") && error.contains("free"),
            "{error}"
        );
        assert!(matches!(make(1 << 20, true), Err(ImageError::Interrupted)));
    }
}
