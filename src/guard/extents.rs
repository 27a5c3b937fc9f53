//! Grants writes to a file's own blocks through the device that its filesystem is mounted on.
//!
//! That is safe only while the blocks are the file's alone and stay so. Where they are, FIEMAP
//! says; that it says the truth, the content proves: the file holds random bytes, and every one of
//! them must be found on the device at its mapped place. That they stay, `super::hold::FrozenFiles` sees to.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use nix::fcntl::OFlag;

use super::grant::{PinnedFile, WriteGrant};
use super::no_extents::{NoExtents, OTHER_BASELINE};
use super::node::{Node, reopen};
use super::proof::{map, prove};
use super::refusal::access_remedy;
use crate::fs::{Addresses, Filesystem};
use crate::model::devid::DevId;
use crate::model::facts::MountFacts;
use crate::sys::ioctl;
use crate::sys::root::Root;
use crate::target;

/// Grants writes to the blocks of scratch files on a mounted filesystem: ext2, ext3, ext4 or XFS on
/// one block device. Each file becomes a lane of the grant. The files must be written over their
/// whole length with random bytes, fsynced, and have one name; they are compared in full with the
/// device here. Needs root, and a kernel that lets a mounted device be written.
pub fn extents(root: &Root, mount: &MountFacts, files: &[&File]) -> Result<WriteGrant, NoExtents> {
    let device = judge_mount(mount)?;
    let node = open_device(root, mount, device)?;
    if journals_data(mount) {
        checkpoint(files)?;
    }
    let mut pinned = Vec::with_capacity(files.len());
    for file in files {
        pinned.push(judge_file(root, mount, &node, file)?);
    }
    let grant = WriteGrant::on_files(root.clone(), node, pinned);
    // Tried now, so that a missing right is told before anything is measured.
    grant.hold()?.release()?;
    Ok(grant)
}

/// The block device of a filesystem that keeps its files' bytes in place on it.
fn judge_mount(mount: &MountFacts) -> Result<DevId, NoExtents> {
    if Filesystem::of(&mount.fs_type).addresses != Addresses::Fixed {
        return Err(NoExtents::new(
            format!(
                "{} is none of the filesystems whose files have fixed blocks on one device (ext2, \
                 ext3, ext4, XFS)",
                mount.fs_type
            ),
            OTHER_BASELINE,
        ));
    }
    if mount.is_read_only() {
        return Err(NoExtents::new(
            format!("{} is mounted read-only", mount.mount_point),
            format!(
                "mount it writable (mount -o remount,rw {})",
                mount.mount_point
            ),
        ));
    }
    match mount.block_device {
        Some(device) if device == mount.dev => Ok(device),
        _ => Err(NoExtents::new(
            format!("{} does not lie on one block device", mount.mount_point),
            OTHER_BASELINE,
        )),
    }
}

/// Opens the device below a mount for direct writes. Without O_EXCL, which the mount holds.
fn open_device(root: &Root, mount: &MountFacts, device: DevId) -> Result<Node, NoExtents> {
    let lost = |error: &dyn std::fmt::Display| {
        NoExtents::new(
            format!(
                "cannot find the device below {}: {error}",
                mount.mount_point
            ),
            OTHER_BASELINE,
        )
    };
    let facts = target::stack(root, device).map_err(|error| lost(&error))?;
    let name = facts
        .first()
        .map(|facts| facts.name.clone())
        .unwrap_or_default();
    let path = target::device_node(root, device).map_err(|error| lost(&error))?;
    let place = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path)
        .map_err(|error| cannot_open(&name, &error))?;
    let node = Node::new(place, name, device).map_err(|refusal| lost(&refusal))?;
    if ioctl::is_read_only(&node.file).unwrap_or(true) {
        return Err(NoExtents::new(
            format!("{} is read-only", node.name),
            OTHER_BASELINE,
        ));
    }
    Ok(node)
}

fn cannot_open(name: &str, error: &io::Error) -> NoExtents {
    let remedy = match error.raw_os_error() {
        // A kernel built without CONFIG_BLK_DEV_WRITE_MOUNTED, or booted with
        // bdev_allow_write_mounted=0, says EBUSY (block/bdev.c).
        Some(libc::EBUSY) => {
            "this kernel lets nobody write a mounted device: boot it with \
             bdev_allow_write_mounted=1, or compare with a spare device: --raw DEVICE"
        }
        Some(libc::EACCES | libc::EPERM) => access_remedy(error),
        _ => OTHER_BASELINE,
    };
    NoExtents::new(format!("cannot open {name} for writing: {error}"), remedy)
}

/// Data goes to the journal first, and later to its place.
fn journals_data(mount: &MountFacts) -> bool {
    let mode = mount
        .journal
        .as_ref()
        .and_then(|journal| journal.mode.as_deref());
    mode == Some("journal") || mount.options.iter().any(|option| option == "data=journal")
}

/// Has the journal write to the files' blocks all that it holds for them.
fn checkpoint(files: &[&File]) -> Result<(), NoExtents> {
    let Some(file) = files.first() else {
        return Ok(());
    };
    ioctl::ext4_checkpoint(file).map_err(|error| {
        NoExtents::new(
            format!("the filesystem journals data, and cannot checkpoint its journal: {error}"),
            "mount it with data=ordered, or run as root on Linux 5.14 or later",
        )
    })
}

/// Checks one file: what it is, where its bytes are, and that they are there.
fn judge_file(
    root: &Root,
    mount: &MountFacts,
    node: &Node,
    file: &File,
) -> Result<PinnedFile, NoExtents> {
    let failed = |doing: &str, error: io::Error| {
        NoExtents::new(
            format!(
                "cannot {doing} the scratch file at {}: {error}",
                mount.mount_point
            ),
            OTHER_BASELINE,
        )
    };
    file.sync_all().map_err(|error| failed("sync", error))?;
    // A descriptor of the guard's own: what others do with theirs doesn't matter, and reads go past
    // the page cache.
    let own = reopen(root, file, OFlag::O_RDONLY | OFlag::O_DIRECT)
        .map_err(|error| failed("reopen", error))?;
    let found = own.metadata().map_err(|error| failed("look at", error))?;
    let objection = if !found.is_file() {
        Some("it is no regular file")
    } else if DevId::from_dev(found.dev()) != node.dev {
        Some("it does not lie on the device that the filesystem is mounted on")
    } else if found.nlink() != 1 {
        Some("it does not have exactly one name")
    } else if found.size() == 0 || !found.size().is_multiple_of(found.blksize().max(1)) {
        Some("its size is not a number of whole blocks")
    } else if ioctl::is_encrypted(&own).map_err(|error| failed("read the flags of", error))? {
        Some("it is encrypted by its filesystem")
    } else if Filesystem::of(&mount.fs_type).extras.has_realtime
        && ioctl::is_realtime(&own).map_err(|error| failed("read the flags of", error))?
    {
        Some("it lies on the XFS realtime device")
    } else {
        None
    };
    if let Some(objection) = objection {
        return Err(NoExtents::new(
            format!(
                "the scratch file at {} can't be used: {objection}",
                mount.mount_point
            ),
            OTHER_BASELINE,
        ));
    }
    let runs = map(&own, found.size(), &node.file)?;
    prove(&own, &node.file, &runs)?;
    Ok(PinnedFile {
        file: own,
        size_bytes: found.size(),
        runs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::ALL;
    use crate::model::facts::JournalFacts;

    fn mount(fs_type: &str) -> MountFacts {
        let dev: DevId = "8:1".parse().unwrap();
        MountFacts {
            mount_point: "/data".into(),
            source: "/dev/sda1".into(),
            fs_type: fs_type.into(),
            dev,
            block_device: Some(dev),
            options: vec!["rw".into()],
            block_bytes: None,
            size_bytes: None,
            free_bytes: None,
            journal: None,
        }
    }

    #[test]
    fn only_filesystems_with_fixed_blocks_on_one_device_are_taken() {
        for fs_type in ["ext2", "ext3", "ext4", "xfs"] {
            assert!(judge_mount(&mount(fs_type)).is_ok());
        }
        for fs_type in ["btrfs", "zfs", "overlay", "tmpfs", "nfs4", "f2fs", "ext5"] {
            let no = judge_mount(&mount(fs_type)).unwrap_err();
            assert!(no.reason().contains(fs_type), "{no}");
            assert!(no.remedy().contains("--raw"), "{no}");
            let reason = no.reason().to_lowercase();
            for fs in ALL.iter().filter(|fs| fs.addresses == Addresses::Fixed) {
                assert!(reason.contains(fs.name), "{no}");
            }
        }
        let mut elsewhere = mount("ext4");
        elsewhere.block_device = Some("8:2".parse().unwrap());
        assert!(judge_mount(&elsewhere).is_err());
        elsewhere.block_device = None;
        assert!(judge_mount(&elsewhere).is_err());
    }

    #[test]
    fn a_read_only_mount_is_not_taken() {
        let mut read_only = mount("ext4");
        read_only.options.push("ro".into());
        let no = judge_mount(&read_only).unwrap_err();
        assert!(no.remedy().contains("remount,rw"), "{no}");
    }

    #[test]
    fn a_kernel_that_keeps_mounted_devices_from_writers_is_named() {
        let no = cannot_open("sda1", &io::Error::from_raw_os_error(libc::EBUSY));
        assert!(no.remedy().contains("bdev_allow_write_mounted"), "{no}");
        let no = cannot_open("sda1", &io::Error::from_raw_os_error(libc::EACCES));
        assert!(no.remedy().contains("root"), "{no}");
    }

    #[test]
    fn data_journalling_is_seen_in_either_place() {
        let mut mount = mount("ext4");
        assert!(!journals_data(&mount));
        mount.options.push("data=journal".into());
        assert!(journals_data(&mount));
        mount.options.pop();
        mount.journal = Some(JournalFacts {
            mode: Some("journal".into()),
            size_bytes: None,
            external: None,
            device: None,
        });
        assert!(journals_data(&mount));
    }
}
