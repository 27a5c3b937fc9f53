//! The further devices of a filesystem: its journal's or log's, realtime data's, and a btrfs's members.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use super::stack::stack;
use super::sysfs::{dev_of, names};
use crate::fs::Filesystem;
use crate::model::devid::DevId;
use crate::model::facts::{FsDevice, Holds, MountFacts};
use crate::sys::root::Root;

/// Every device of the filesystem but the one that it is mounted from, each with the devices below it.
pub fn beside(root: &Root, mount: &MountFacts) -> Vec<FsDevice> {
    let found = |holds, dev: Option<DevId>| FsDevice {
        holds,
        stack: dev
            .and_then(|dev| stack(root, dev).ok())
            .unwrap_or_default(),
    };
    let extras = &Filesystem::of(&mount.fs_type).extras;
    if extras.has_members && mount.block_device.is_none() {
        let members = btrfs_members(root, &mount.source);
        let members = members.into_iter().map(Some);
        let members: Vec<_> = members.map(|dev| found(Holds::Anything, dev)).collect();
        // A member at least that nobody knows.
        return match members.is_empty() {
            true => vec![found(Holds::Anything, None)],
            false => members,
        };
    }
    let mut more = Vec::new();
    let journal = mount.journal.as_ref();
    if let Some(journal) = journal.filter(|journal| journal.external == Some(true)) {
        more.push(found(Holds::Journal, journal.device));
    }
    if let Some(device) = named(root, mount, "rtdev=").filter(|_| extras.has_realtime) {
        more.push(found(Holds::Realtime, device));
    }
    more
}

/// The device that an option of the mount names, as xfs(5) has them; a None within where that is no
/// device here.
pub(super) fn named(root: &Root, mount: &MountFacts, option: &str) -> Option<Option<DevId>> {
    let mut options = mount.options.iter();
    let path = options.find_map(|known| known.strip_prefix(option))?;
    let node = path.strip_prefix("/dev/");
    let node = node.and_then(|name| fs::metadata(root.dev.join(name)).ok());
    let node = node.filter(|node| node.file_type().is_block_device());
    Some(node.map(|node| DevId::from_dev(node.rdev())))
}

/// The devices of a mounted btrfs, by one of them as a mount names it.
pub(super) fn btrfs_members(root: &Root, source: &str) -> Vec<DevId> {
    let node = source
        .strip_prefix("/dev/")
        .and_then(|name| root.dev.join(name).canonicalize().ok());
    let name = node
        .as_ref()
        .and_then(|node| node.file_name())
        .and_then(|name| name.to_str());
    let Some(name) = name else {
        return Vec::new();
    };
    let btrfs = root.sys.join("fs/btrfs");
    let folders = names(&btrfs);
    let mut folders = folders.iter().map(|uuid| btrfs.join(uuid).join("devices"));
    let own = folders.find(|devices: &PathBuf| devices.join(name).exists());
    let members = |devices: PathBuf| {
        let all = names(&devices).into_iter();
        all.filter_map(|member| dev_of(devices.join(member)))
            .collect()
    };
    own.map_or_else(Vec::new, members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_found_is_one_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root {
            sys: dir.path().join("sys"),
            proc: dir.path().join("proc"),
            dev: dir.path().join("dev"),
        };
        let mut mount = crate::model::fixture::Builder::new("file")
            .directory(
                "t0",
                "/data",
                crate::model::record::BaselineKind::None,
                None,
            )
            .record
            .targets
            .remove(0)
            .mount
            .unwrap();
        assert_eq!(beside(&root, &mount), []);
        mount.fs_type = "xfs".to_owned();
        mount.options = vec!["rtdev=/dev/sdz".to_owned()];
        let told = beside(&root, &mount);
        assert_eq!((told[0].holds, told[0].stack.len()), (Holds::Realtime, 0));
        (mount.fs_type, mount.block_device) = ("btrfs".to_owned(), None);
        assert_eq!(beside(&root, &mount)[0].holds, Holds::Anything);
    }
}
