//! Small readers of one-value files, as sysfs and procfs have them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::model::devid::DevId;
use crate::sys::root::Root;

/// The text of a file without the blanks around it; none if it is absent, unreadable or blank.
pub(super) fn text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// The value of a file that holds just one; none as for [`text`], or if it doesn't parse.
pub(super) fn value<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

/// A file that holds 0 or 1.
pub(super) fn flag(path: impl AsRef<Path>) -> Option<bool> {
    match text(path)?.as_str() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The names in a directory, sorted; none at all if it is absent or unreadable.
pub(super) fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The device was taken out, or is there without a length, as after a removal that is under way: a disk that
/// is dead has a capacity of 0 (blk_mark_disk_dead() in block/genhd.c).
pub fn is_gone(root: &Root, dev: DevId) -> bool {
    match device_dir(root, dev) {
        Ok(dir) => value::<u64>(dir.join("size")) == Some(0),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The directory of a block device, with its links resolved, so that the parent of a partition's
/// is its disk's. Fails with NotFound if there is no such device.
pub(super) fn device_dir(root: &Root, dev: DevId) -> io::Result<PathBuf> {
    let link = root.sys.join("dev/block").join(dev.to_string());
    link.canonicalize().map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("block device {dev} is not in {}: {error}", link.display()),
        )
    })
}

/// The number of a device, from its directory.
pub(super) fn dev_of(dir: impl AsRef<Path>) -> Option<DevId> {
    value(dir.as_ref().join("dev"))
}

/// The kernel's name of a device, from its directory.
pub(super) fn name_of(dir: &Path) -> String {
    dir.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Whether a device's directory is that of a partition.
pub(super) fn is_partition(dir: &Path) -> bool {
    dir.join("partition").exists()
}

/// The directory of the disk that a device's directory belongs to: its parent for a partition, else
/// itself.
pub(super) fn disk_dir(dir: &Path) -> &Path {
    match dir.parent() {
        Some(parent) if is_partition(dir) => parent,
        _ => dir,
    }
}

/// The numbers of a disk's partitions.
pub(super) fn partitions(dir: &Path) -> Vec<DevId> {
    names(dir)
        .iter()
        .map(|name| dir.join(name))
        .filter(|child| is_partition(child))
        .filter_map(dev_of)
        .collect()
}
