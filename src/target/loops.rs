//! What a loop device reads and writes.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::graph::Node;
use super::images::Images;
use super::stack::device_node;
use super::sysfs::{text, value};
use crate::model::devid::DevId;
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
    /// The regular file that it really is; none for a block device, and where it can't be known.
    pub file: Option<FileId>,
    /// That file's filesystem may show it from another one, and doesn't tell which it is there.
    pub is_unresolved: bool,
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
pub(super) fn backing(images: &Images, root: &Root, dev: DevId, dir: &Path) -> Option<Backing> {
    let path = text(dir.join("loop/backing_file"))?;
    let status = device_node(root, dev)
        .and_then(File::open)
        .and_then(ioctl::loop_status);
    let (block_device, shown, offset_bytes) = match status {
        Ok(status) => {
            let file = FileId {
                dev: status.file_dev,
                inode: status.inode,
            };
            (status.block_device, Some(file), status.offset_bytes)
        }
        Err(_) => {
            let found = fs::metadata(&path).ok();
            let device = found
                .as_ref()
                .filter(|found| found.file_type().is_block_device());
            let file = found.as_ref().filter(|found| found.is_file());
            (
                device.map(|found| DevId::from_dev(found.rdev())),
                file.map(FileId::of),
                value(dir.join("loop/offset")).unwrap_or(0),
            )
        }
    };
    let shown = shown.filter(|_| block_device.is_none());
    let image = shown.map(|shown| images.resolve(&path, shown));
    Some(Backing {
        path,
        block_device,
        file: image.map(|image| image.id),
        is_unresolved: image.is_some_and(|image| image.is_unresolved),
        offset_bytes,
    })
}
