//! The guard: decides whether a device may be written, and is the only maker of [`WriteGrant`].

pub mod refusal;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::fcntl::OFlag;

use crate::model::facts::{DevId, DeviceFacts, MountFacts};
use crate::model::record::Content;
use crate::sys::buffer::Aligned;
use crate::sys::root::Root;
pub use refusal::Refusal;

/// What lies on a device, by its magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it is, in words: "an ext4 filesystem".
    pub what: &'static str,
}
/// A device that is claimed and free.
#[derive(Debug)]
pub struct Permit;
/// The right to write.
#[derive(Debug)]
pub struct WriteGrant;
/// An open device.
#[derive(Debug)]
pub struct GrantedFd(OwnedFd);
/// Files that are immutable while this lives.
#[derive(Debug)]
pub struct Held<'a>(&'a WriteGrant);
/// Why a file's blocks can't be written through its device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {remedy}")]
pub struct NoExtents {
    reason: String,
    remedy: String,
}

/// Claims a device.
pub fn check(_root: &Root, path: &Path) -> Result<Permit, Refusal> {
    Err(Refusal::NotFound {
        path: path.display().to_string(),
    })
}
/// Judges a device for a list, and releases it.
pub fn writable(_root: &Root, device: &DeviceFacts) -> Result<(), Refusal> {
    Err(Refusal::Busy {
        device: device.name.clone(),
    })
}
/// Grants writes to the files' own blocks.
pub fn extents(
    _root: &Root,
    _mount: &MountFacts,
    _files: &[&File],
) -> Result<WriteGrant, NoExtents> {
    Err(NoExtents {
        reason: String::new(),
        remedy: String::new(),
    })
}
impl NoExtents {
    /// Why, in one line.
    pub fn reason(&self) -> &str {
        &self.reason
    }
    /// What to do about it, in one line.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}
impl Permit {
    /// The device, then all below it.
    pub fn facts(&self) -> &[DeviceFacts] {
        &[]
    }
    /// What lies on it.
    pub fn signature(&self) -> Option<Signature> {
        None
    }
    /// Its kernel name.
    pub fn name(&self) -> &str {
        ""
    }
    /// A grant to write back what is there.
    pub fn preserve(self, _span_bytes: u64) -> Result<WriteGrant, Refusal> {
        Ok(WriteGrant)
    }
    /// A grant to write anything.
    pub fn overwrite(
        self,
        _span_bytes: u64,
        _confirmation: &str,
        _force: bool,
    ) -> Result<WriteGrant, Refusal> {
        Ok(WriteGrant)
    }
}
impl WriteGrant {
    /// The device.
    pub fn dev(&self) -> DevId {
        DevId { major: 0, minor: 0 }
    }
    /// The device, then all below it.
    pub fn facts(&self) -> &[DeviceFacts] {
        &[]
    }
    /// The bytes that offsets range over.
    pub fn span_bytes(&self) -> u64 {
        0
    }
    /// What the span held; of a preserving grant only.
    pub fn content(&self) -> Option<Content> {
        None
    }
    /// The span's own bytes; of a preserving grant only.
    pub fn preserved(&self) -> Option<&Aligned> {
        None
    }
    /// Opens the device for writing.
    pub fn open(&self, _flags: OFlag) -> Result<GrantedFd, Refusal> {
        Err(Refusal::Busy {
            device: String::new(),
        })
    }
    /// Device offsets of a lane's blocks.
    pub fn offsets(&self, _lane: usize, _lanes: usize, _size_bytes: u64) -> Vec<u64> {
        Vec::new()
    }
    /// File offsets of the same blocks, of a grant on extents; else none.
    pub fn file_offsets(&self, _lane: usize, _size_bytes: u64) -> Vec<u64> {
        Vec::new()
    }
    /// Pins the files.
    pub fn hold(&self) -> Result<Held<'_>, NoExtents> {
        Ok(Held(self))
    }
}
impl Held<'_> {
    /// Unpins the files.
    pub fn release(self) -> Result<(), NoExtents> {
        Ok(())
    }
}
impl AsFd for GrantedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
