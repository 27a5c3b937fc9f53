//! Pins the files of a grant while raw writes go to their blocks.

use std::fs::File;

use super::grant::WriteGrant;
use super::no_extents::NoExtents;
use super::proof::map;
use crate::sys::ioctl;

/// Files that nobody can open for writing, truncate, rename or remove while this lives, because they
/// carry the immutable flag; so their blocks stay theirs. Dropping it clears the flag, also when a
/// panic unwinds. Drain all raw writes before that: afterwards, the blocks may become another file's.
///
/// XFS still obeys descriptors that were open for writing before the flag was set, truncation
/// included: the scratch files must lie in a directory that nobody else can enter, and whoever holds
/// this must not use such descriptors.
#[derive(Debug)]
pub struct Held<'a> {
    pinned: Vec<&'a File>,
}

impl WriteGrant {
    /// Sets the immutable flag on all files of the grant, then checks that their blocks are still
    /// those that were granted. For a grant on a span, there is nothing to pin. Fails, and leaves no
    /// flag behind, if a flag can't be set or a file's blocks moved: the grant is void then.
    pub fn hold(&self) -> Result<Held<'_>, NoExtents> {
        let mut held = Held { pinned: Vec::new() };
        for pinned in self.files() {
            // Listed first: an error on the way clears what may be set.
            held.pinned.push(&pinned.file);
            set(&pinned.file, true)?;
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

impl Held<'_> {
    /// Clears the flags, and tells if that failed; all files are tried.
    pub fn release(mut self) -> Result<(), NoExtents> {
        self.clear()
    }

    fn clear(&mut self) -> Result<(), NoExtents> {
        let results: Vec<_> = self.pinned.drain(..).map(|file| set(file, false)).collect();
        results.into_iter().collect()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Nobody is left to tell: a flag that stays is found by `syncprof clean`.
        let _ = self.clear();
    }
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
                "run as root with CAP_LINUX_IMMUTABLE, or compare with a device of its own: --raw",
            )
        })
}
