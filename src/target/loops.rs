//! What a loop device reads and writes.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::graph::Node;
use super::stack::device_node;
use super::sysfs::{text, value};
use crate::model::facts::DevId;
use crate::sys::ioctl;
use crate::sys::root::Root;

/// One file of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Its `st_dev`.
    pub dev: DevId,
    /// Its inode number.
    pub inode: u64,
}

impl FileId {
    pub(super) fn of(found: &fs::Metadata) -> FileId {
        FileId {
            dev: DevId::from_dev(found.dev()),
            inode: found.ino(),
        }
    }
}

/// What a loop device is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Its path, as the kernel words it.
    pub path: String,
    /// The block device that it is; none for a regular file.
    pub block_device: Option<DevId>,
    /// The regular file that it is; none for a block device, and where it can't be known.
    pub file: Option<FileId>,
    /// Where in it the loop device starts.
    pub offset_bytes: u64,
}

impl Backing {
    /// What holds its bytes; none where that can't be known.
    pub(super) fn node(&self) -> Option<Node> {
        let device = self.block_device.map(Node::Device);
        device.or_else(|| self.file.map(Node::File))
    }
}

/// What a loop device is attached to; none if it isn't. The kernel is asked by ioctl, because the
/// path that sysfs gives may mean another file in this mount namespace, or none; without the right
/// to open the device, the path is what there is.
pub(super) fn backing(root: &Root, dev: DevId, dir: &Path) -> Option<Backing> {
    let path = text(dir.join("loop/backing_file"))?;
    let status = device_node(root, dev)
        .and_then(File::open)
        .and_then(ioctl::loop_status);
    if let Ok(status) = status {
        return Some(Backing {
            path,
            block_device: status.block_device,
            file: status.block_device.is_none().then_some(FileId {
                dev: status.file_dev,
                inode: status.inode,
            }),
            offset_bytes: status.offset_bytes,
        });
    }
    let found = fs::metadata(&path).ok();
    Some(Backing {
        block_device: found
            .as_ref()
            .filter(|found| found.file_type().is_block_device())
            .map(|found| DevId::from_dev(found.rdev())),
        file: found
            .filter(|found| found.file_type().is_file())
            .map(|found| FileId::of(&found)),
        offset_bytes: value(dir.join("loop/offset")).unwrap_or(0),
        path,
    })
}
