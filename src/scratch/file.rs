//! One scratch file: laid out, brought to a state before each pass, opened as a method asks.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, PosixFadviseAdvice, fallocate, posix_fadvise};

use super::dir_handle::DirHandle;
use crate::model::cell::{FileState, Method};
use crate::model::record::Buffered;
use crate::model::units::show_bytes;
use crate::sys::buffer::Aligned;
use crate::sys::clock::monotonic_ns;
use crate::sys::limits;
use crate::sys::perf::Counter;
use crate::sys::pulse;
use crate::sys::residency::cached_pages;

/// Bytes written at a time while a file is laid out.
const LAYOUT_CHUNK_BYTES: usize = 1 << 20;

/// A file in a scratch folder, as long as a job's share of the span.
#[derive(Debug)]
pub struct ScratchFile {
    folder: DirHandle,
    name: String,
    state: FileState,
    span_bytes: u64,
}

/// A file open for one pass.
#[derive(Debug)]
pub struct Opened {
    /// Open for writing with the method's flags.
    pub file: File,
    /// How long open(2) took, where it dropped the file's content.
    pub truncating_open_ns: Option<u64>,
}

/// The open(2) flags that make writes direct, and synchronous by `method`.
pub fn open_flags(method: Method, direct: bool) -> OFlag {
    let sync = match method {
        Method::ODsync => OFlag::O_DSYNC,
        Method::OSync => OFlag::O_SYNC,
        Method::RwfDsync
        | Method::Fdatasync
        | Method::Fsync
        | Method::None
        | Method::EmptyFlush => OFlag::empty(),
    };
    if direct { sync | OFlag::O_DIRECT } else { sync }
}

impl ScratchFile {
    /// Makes a new file in `folder` and fills it with `span_bytes` of incompressible bytes, so that
    /// every extent of it is written, and fsyncs it. `stop` ends that early, with
    /// [`io::ErrorKind::Interrupted`].
    ///
    /// `seed` doesn't decide the bytes alone: a run with the same seed left the same ones on blocks that
    /// are free by now, and bytes that are found in two places prove nothing about where a file lies.
    pub(super) fn lay_out(
        folder: &DirHandle,
        name: String,
        state: FileState,
        span_bytes: u64,
        seed: u64,
        stop: &AtomicBool,
    ) -> io::Result<ScratchFile> {
        limits::allow_file(span_bytes)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL;
        let file = folder.open_file(&name, flags)?;
        // Reserved in one piece, so that the extents are as few as the filesystem can make them.
        // Where it can't, writing alone does as well.
        let _ = fallocate(&file, FallocateFlags::empty(), 0, span_bytes as i64);
        let mut random = fastrand::Rng::with_seed(seed ^ fresh());
        let mut chunk = vec![0; LAYOUT_CHUNK_BYTES];
        let mut offset_bytes = 0;
        while offset_bytes < span_bytes {
            if stop.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let len = (span_bytes - offset_bytes).min(LAYOUT_CHUNK_BYTES as u64) as usize;
            random.fill(&mut chunk[..len]);
            file.write_all_at(&chunk[..len], offset_bytes)?;
            pulse::beat();
            offset_bytes += len as u64;
        }
        file.sync_all()?;
        Ok(ScratchFile {
            folder: folder.clone(),
            name,
            state,
            span_bytes,
        })
    }

    /// Where it was laid out, for messages: see [`ScratchFile::folder`].
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// The folder to open it in, by its name. Its path may lead elsewhere by now.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Its name in its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, flags: OFlag) -> io::Result<File> {
        self.folder.open_file(&self.name, flags)
    }

    /// Its length when it is laid out.
    pub fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    /// The state that it is kept for.
    pub fn state(&self) -> FileState {
        self.state
    }

    /// Brings the file to its state, on disk, and opens it for a pass with `flags`, as
    /// [`open_flags`] gives them. What costs the measured program nothing is done here, before the
    /// clock runs; the truncating open of [`FileState::Trunc`] is timed on its own.
    pub fn open_pass(&self, flags: OFlag) -> io::Result<Opened> {
        match self.state {
            FileState::Overwrite | FileState::Trunc | FileState::TruncEach => {}
            FileState::Append => self.empty()?.sync_all()?,
            FileState::Unwritten => {
                let file = self.empty()?;
                fallocate(&file, FallocateFlags::empty(), 0, self.span_bytes as i64)?;
                file.sync_all()?;
            }
        }
        let mut flags = flags | OFlag::O_WRONLY;
        let truncate = self.state == FileState::Trunc;
        flags.set(OFlag::O_TRUNC, truncate);
        let begun_ns = monotonic_ns();
        let file = self.open(flags)?;
        let opened_ns = monotonic_ns();
        Ok(Opened {
            file,
            truncating_open_ns: truncate.then(|| opened_ns - begun_ns),
        })
    }

    /// Opens the file for reading, as it is.
    pub fn open_as_is(&self) -> io::Result<File> {
        self.open(OFlag::O_RDONLY)
    }

    /// Cuts the file to nothing.
    fn empty(&self) -> io::Result<File> {
        let file = self.open(OFlag::O_WRONLY)?;
        file.set_len(0)?;
        Ok(file)
    }

    /// What becomes of O_DIRECT where a write of `size_bytes` goes through the page cache: the filesystem
    /// refuses the flag, or such a write, or takes both and caches the bytes all the same. Found by making
    /// the first write of a pass, since a filesystem that ignores the flag doesn't say so. Pages that stay
    /// are seen by mincore(2) (ext4 with data=journal). Those that are dropped behind the write (btrfs, for
    /// files with checksums, since Linux 6.15) only `inserts` sees, which counts the pages of an inode
    /// that this thread adds to the cache. None too if that write fails whatever the flag: why, is then
    /// for the measurement to tell.
    pub fn try_direct(
        &self,
        size_bytes: u64,
        inserts: &dyn Fn(u64) -> Option<Counter>,
    ) -> io::Result<Option<Buffered>> {
        let mut block = Aligned::new(size_bytes as usize)?;
        fastrand::fill(&mut block);
        let file = self.open_as_is()?;
        // What the layout left in the cache would be mistaken for what this write leaves.
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        let counter = inserts(file.metadata()?.ino());
        match self.try_write(OFlag::O_DIRECT, &block) {
            Ok(()) => {}
            Err(error) => {
                let errno = error.raw_os_error().map(Errno::from_raw);
                let is_refused = matches!(errno, Some(Errno::EINVAL | Errno::EOPNOTSUPP))
                    && self.try_write(OFlag::empty(), &block).is_ok();
                return Ok(errno.filter(|_| is_refused).map(|errno| Buffered {
                    reason: format!(
                        "the filesystem refuses direct writes of {} ({errno})",
                        show_bytes(size_bytes)
                    ),
                    is_refused,
                }));
            }
        }
        let inserted = counter.and_then(|counter| counter.read().ok());
        // A whole page, since smaller writes leave no less.
        let is_cached =
            inserted.is_some_and(|pages| pages > 0) || cached_pages(&file, size_bytes)? > 0;
        Ok(is_cached.then(|| Buffered {
            reason: "the filesystem takes O_DIRECT but writes through its cache".to_owned(),
            is_refused: false,
        }))
    }

    /// The first write of a pass with O_DSYNC and `flags`.
    fn try_write(&self, flags: OFlag, block: &[u8]) -> io::Result<()> {
        if self.state == FileState::TruncEach {
            self.empty()?;
        }
        let pass = self.open_pass(flags | OFlag::O_DSYNC)?;
        pass.file.write_all_at(block, 0)
    }
}

/// A number that no other run has: the standard library takes it from the kernel's randomness
/// (getrandom(2)), while a new generator of fastrand's takes its seed from the clock.
fn fresh() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_open_flag() {
        assert_eq!(
            open_flags(Method::ODsync, true),
            OFlag::O_DSYNC | OFlag::O_DIRECT
        );
        assert_eq!(open_flags(Method::OSync, false), OFlag::O_SYNC);
        for method in [
            Method::RwfDsync,
            Method::Fdatasync,
            Method::Fsync,
            Method::None,
        ] {
            assert_eq!(open_flags(method, true), OFlag::O_DIRECT);
        }
    }

    fn laid_out(folder: &tempfile::TempDir, state: FileState) -> ScratchFile {
        let stop = AtomicBool::new(false);
        let folder = DirHandle::make(folder.path().join(state.to_string())).unwrap();
        ScratchFile::lay_out(&folder, state.to_string(), state, 65_536, 7, &stop).unwrap()
    }

    #[test]
    fn a_pass_begins_in_its_state() {
        let folder = tempfile::tempdir().unwrap();
        for (state, len) in [
            (FileState::Overwrite, 65_536),
            (FileState::Unwritten, 65_536),
            (FileState::Append, 0),
            (FileState::Trunc, 0),
        ] {
            let file = laid_out(&folder, state);
            let opened = file.open_pass(OFlag::empty()).unwrap();
            assert_eq!(opened.file.metadata().unwrap().len(), len, "{state}");
            assert_eq!(
                opened.truncating_open_ns.is_some(),
                state == FileState::Trunc
            );
        }
    }

    #[test]
    fn a_laid_out_file_is_incompressible() {
        let folder = tempfile::tempdir().unwrap();
        let file = laid_out(&folder, FileState::Overwrite);
        let bytes = std::fs::read(file.path()).unwrap();
        let mut seen = [0u32; 256];
        bytes.iter().for_each(|&byte| seen[usize::from(byte)] += 1);
        assert!(seen.iter().all(|&count| (128..=400).contains(&count)));
    }

    #[test]
    fn the_same_seed_lays_out_other_bytes() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let bytes = |folder| std::fs::read(laid_out(folder, FileState::Overwrite).path()).unwrap();
        let (one, two) = (bytes(&one), bytes(&two));
        let same = |(a, b): (&[u8], &[u8])| a == b;
        assert!(!one.chunks(512).zip(two.chunks(512)).any(same));
    }

    #[test]
    fn a_stop_ends_the_layout() {
        let folder = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(true);
        let folder = DirHandle::make(folder.path().join("folder")).unwrap();
        let state = FileState::Overwrite;
        let error =
            ScratchFile::lay_out(&folder, "file".to_owned(), state, 65_536, 7, &stop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
}
