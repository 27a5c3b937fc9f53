//! Where a target's writes go, and what is kept open for them.

use nix::fcntl::OFlag;

use crate::guard::{GrantedFd, Refusal, WriteGrant};
use crate::model::devid::DevId;
use crate::observe::attribute::Scope;
use crate::scratch::Scratch;

use super::counters::Counters;

/// Where a target's writes go.
#[derive(Debug)]
pub enum WriteTarget {
    /// To a device's span.
    Device(WriteGrant),
    /// To the blocks of scratch files.
    Extents(WriteGrant),
    /// To files in a scratch folder.
    Scratch(Scratch),
}

/// A target of a bench.
pub(super) struct Target {
    pub(super) id: String,
    pub(super) place: WriteTarget,
    /// The block device that it is or lies on.
    pub(super) device: Option<DevId>,
    /// What is read before and after each pass.
    pub(super) counters: Counters,
    /// What tracing must know of it; none where it lies on no block device.
    pub(super) scope: Option<Scope>,
    /// Open for the whole run: closing a device that was open for writing makes udev probe it
    /// (systemd/udev: 60-block.rules, OPTIONS+="watch"), in the middle of somebody's slice.
    pub(super) fds: Vec<(OFlag, GrantedFd)>,
}

impl WriteTarget {
    /// The right to write a device; none for files.
    pub(super) fn grant(&self) -> Option<&WriteGrant> {
        match self {
            WriteTarget::Device(grant) | WriteTarget::Extents(grant) => Some(grant),
            WriteTarget::Scratch(_) => None,
        }
    }
}

/// Discards the whole of a device whose grant allows that, and only then gives true. `more` is asked
/// now and then, with the bytes that are done, whether to go on.
pub fn purge(place: &WriteTarget, more: &dyn Fn(u64) -> bool) -> Result<bool, Refusal> {
    place.grant().map_or(Ok(false), |grant| grant.discard(more))
}

impl Target {
    /// Opens the device with `flags`, if it isn't yet.
    pub(super) fn open(&mut self, flags: OFlag) -> Result<(), Refusal> {
        if let Some(grant) = self.place.grant()
            && !self.fds.iter().any(|(known, _)| *known == flags)
        {
            self.fds.push((flags, grant.open(flags)?));
        }
        Ok(())
    }
}
