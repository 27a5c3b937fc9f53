//! Pins the files of a grant while raw writes go to their blocks.

use std::fs::File;
use std::io;
use std::thread;
use std::time::Duration;

use super::grant::WriteGrant;
use super::no_extents::{NoExtents, OTHER_BASELINE};
use super::proof::map;
use crate::sys::{ioctl, lease};

/// How often a file is looked at that is open for writing. io_uring gives up its hold on files of
/// ours a moment after its ring is closed (io_ring_exit_work() in io_uring/io_uring.c).
const LOOKS: u32 = 100;
/// And after so long each time.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Files that nobody can open for writing, truncate, rename or remove while this lives, because they
/// carry the immutable flag; so their blocks stay theirs. Dropping it clears the flag, also when a
/// panic unwinds. Drain all raw writes before that: afterwards, the blocks may become another file's.
///
/// Descriptors that were open for writing before the flag was set would still have the blocks moved or
/// freed: by EXT4_IOC_MOVE_EXT on ext4, by truncation and more on XFS. So there must be none, this
/// process's own included.
#[derive(Debug)]
pub struct FrozenFiles<'a> {
    pinned: Vec<&'a File>,
}

impl WriteGrant {
    /// Sets the immutable flag on all files of the grant, then checks that nobody has one open for
    /// writing and that their blocks are still those that were granted. For a grant on a span, there is
    /// nothing to pin. Fails, and leaves no flag behind, if a flag can't be set, somebody could have a
    /// file's blocks moved, or they moved.
    pub fn hold(&self) -> Result<FrozenFiles<'_>, NoExtents> {
        let mut held = FrozenFiles { pinned: Vec::new() };
        for pinned in self.files() {
            // Listed first: an error on the way clears what may be set.
            held.pinned.push(&pinned.file);
            set(&pinned.file, true)?;
        }
        // After the flag, which keeps new ones away, and before the blocks are looked at. An open that
        // was under way when the flag was set is over: setting it waited for the disk.
        for pinned in self.files() {
            refuse_writers(&pinned.file)?;
        }
        for pinned in self.files() {
            let runs = map(&pinned.file, pinned.size_bytes, &self.node().file)?;
            if runs != pinned.runs {
                return Err(NoExtents::new(
                    "the scratch file's blocks moved since they were checked",
                    "stop whatever moves files (defragmentation, snapshots) and start again",
                ));
            }
        }
        Ok(held)
    }
}

impl FrozenFiles<'_> {
    /// Clears the flags, and tells if that failed; all files are tried.
    pub fn release(mut self) -> Result<(), NoExtents> {
        self.clear()
    }

    fn clear(&mut self) -> Result<(), NoExtents> {
        let results: Vec<_> = self.pinned.drain(..).map(|file| set(file, false)).collect();
        results.into_iter().collect()
    }
}

impl Drop for FrozenFiles<'_> {
    fn drop(&mut self) {
        // Nobody is left to tell: a flag that stays is found by `syncprof clean`.
        let _ = self.clear();
    }
}

/// Fails if anybody has the file open for writing.
fn refuse_writers(file: &File) -> Result<(), NoExtents> {
    for _ in 0..LOOKS {
        match lease::is_open_for_writing(file) {
            Ok(false) => return Ok(()),
            Ok(true) => thread::sleep(BETWEEN_LOOKS),
            Err(error) => {
                let remedy = match error.raw_os_error() {
                    // generic_add_lease() in fs/locks.c
                    Some(libc::EINVAL) => "allow leases (sysctl fs.leases-enable=1)",
                    _ => OTHER_BASELINE,
                };
                return Err(NoExtents::new(
                    format!("cannot see who has the scratch file open for writing: {error}"),
                    remedy,
                ));
            }
        }
    }
    Err(NoExtents::new(
        "somebody has the scratch file open for writing, and could have its blocks moved under the \
         device's writes",
        "stop them (fuser -v tells who; a defragmentation, a backup) and start again",
    ))
}

/// Sets or clears the flag and writes it out: left in memory, it would go out with somebody's
/// timed write.
fn set(file: &File, immutable: bool) -> Result<(), NoExtents> {
    let verb = if immutable { "set" } else { "clear" };
    ioctl::set_immutable(file, immutable)
        .and_then(|()| file.sync_all())
        .map_err(|error| {
            NoExtents::new(
                format!("cannot {verb} the scratch file's immutable flag: {error}"),
                flag_remedy(&error),
            )
        })
}

fn flag_remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "run as root with CAP_LINUX_IMMUTABLE, or compare with a device of its own: --raw"
        }
        // Linux says ENOTTY of an ioctl(2) that is unknown, EOPNOTSUPP of a flag.
        Some(libc::ENOTTY | libc::EOPNOTSUPP) => OTHER_BASELINE,
        Some(libc::EROFS) => {
            "the filesystem went read-only: the kernel's log (dmesg) says why; then run `syncprof clean`"
        }
        _ => {
            "the filesystem was shut down, or its device failed: the kernel's log (dmesg) says which; then \
             run `syncprof clean`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_missing_only_where_the_kernel_says_so() {
        let remedy = |errno| flag_remedy(&io::Error::from_raw_os_error(errno));
        assert!(remedy(libc::EPERM).contains("CAP_LINUX_IMMUTABLE"));
        for errno in [
            libc::EIO,
            libc::EROFS,
            libc::ENOTTY,
            libc::ENODEV,
            libc::ENOSPC,
        ] {
            assert!(!remedy(errno).contains("CAP_"), "{errno}");
        }
        assert!(remedy(libc::EIO).contains("dmesg"));
    }
}
