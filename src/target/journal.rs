//! A filesystem's journal: ext3 and ext4 tell in their superblock and in procfs, XFS by an ioctl.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::beside::named;
use super::stack::device_node;
use super::sysfs::{dev_of, device_dir, name_of, names};
use crate::fs::{Filesystem, Journal};
use crate::model::devid::DevId;
use crate::model::facts::{JournalFacts, MountFacts};
use crate::sys::ioctl;
use crate::sys::root::Root;

/// The journal of the filesystem mounted at a directory; none for filesystems without one by
/// design, and where nothing is known.
pub(super) fn journal(root: &Root, mount: &MountFacts, dir: &Path) -> Option<JournalFacts> {
    match Filesystem::of(&mount.fs_type).journal {
        Journal::Ext => ext_journal(root, mount),
        Journal::Xfs => File::open(dir)
            .and_then(ioctl::xfs_log)
            .ok()
            .map(|log| JournalFacts {
                mode: None,
                size_bytes: Some(log.size_bytes),
                external: Some(log.external),
                device: named(root, mount, "logdev=")
                    .flatten()
                    .filter(|_| log.external),
            }),
        Journal::None => None,
    }
}

fn ext_journal(root: &Root, mount: &MountFacts) -> Option<JournalFacts> {
    let device = mount.block_device?;
    let on_disk = device_node(root, device)
        .and_then(File::open)
        .ok()
        .and_then(|node| ext_superblock(&superblock(&node)?));
    // Lists every option, defaults too, so `data=` is in it unless there is no journal
    // (_ext4_show_options in fs/ext4/super.c); mountinfo shows only what differs from the default.
    let options = device_dir(root, device).ok().and_then(|dir| {
        let list = root
            .proc
            .join("fs/ext4")
            .join(name_of(&dir))
            .join("options");
        fs::read_to_string(list).ok()
    });
    let mode = options
        .iter()
        .flat_map(|list| list.lines())
        .chain(mount.options.iter().map(String::as_str))
        .find_map(|option| option.strip_prefix("data="));
    match (on_disk, mode) {
        (Some(ExtJournal::Absent), _) => Some(absent()),
        (None, None) => options.map(|_| absent()),
        (on_disk, mode) => Some(JournalFacts {
            mode: mode.map(str::to_owned),
            size_bytes: match on_disk {
                Some(ExtJournal::Internal { size_bytes }) => size_bytes,
                _ => None,
            },
            external: on_disk
                .map(|journal| journal == ExtJournal::External)
                .or_else(|| Some(!has_internal(root, device)?)),
            device: match on_disk {
                Some(ExtJournal::External) => external_journal(root, mount),
                _ => None,
            },
        }),
    }
}

/// The journal of a filesystem that is mounted lies in it: procfs then names it by the device and its
/// inode (jbd2_journal_init_inode() in fs/jbd2/journal.c). None where procfs names none at all.
fn has_internal(root: &Root, device: DevId) -> Option<bool> {
    let journals = names(root.proc.join("fs/jbd2"));
    let prefix = format!("{}-", name_of(&device_dir(root, device).ok()?));
    let is_own = |name: &String| {
        let inode = name.strip_prefix(&prefix);
        inode.is_some_and(|inode| inode.parse::<u64>().is_ok())
    };
    (!journals.is_empty()).then(|| journals.iter().any(is_own))
}

/// The device that an ext filesystem has its journal on, if that is another one and both can be read.
///
/// It is found as the kernel makes sure of it (ext4_get_journal_blkdev() in fs/ext4/super.c): the
/// filesystem names the journal's UUID, and the journal's own superblock bears it. Numbers of devices
/// in the filesystem's superblock may be old ones. Journals in use are named by their devices in
/// procfs (fs/jbd2/journal.c).
pub fn external_journal(root: &Root, mount: &MountFacts) -> Option<DevId> {
    /// `s_uuid` and `s_journal_uuid`.
    const UUID: Range<usize> = 0x68..0x78;
    const JOURNAL_UUID: Range<usize> = 0xD0..0xE0;
    let read = |dev: DevId| {
        let node = device_node(root, dev).and_then(File::open).ok()?;
        superblock(&node)
    };
    let own = read(mount.block_device?)?;
    let named = |name: &String| dev_of(root.sys.join("class/block").join(name));
    let in_use = names(root.proc.join("fs/jbd2"));
    let mut devices = in_use.iter().filter_map(named);
    devices.find(|&dev| read(dev).is_some_and(|journal| journal[UUID] == own[JOURNAL_UUID]))
}

/// The superblock of an ext filesystem on a device, if it can be read.
pub(super) fn superblock(device: &File) -> Option<[u8; 1024]> {
    // The superblock starts at byte 1024, whatever the block size
    // (Documentation/filesystems/ext4/super.rst).
    let mut superblock = [0; 1024];
    device.read_exact_at(&mut superblock, 1024).ok()?;
    Some(superblock)
}

/// The size of a journal that lies in its filesystem, by an ext superblock that holds its map.
pub(super) fn internal_size(superblock: &[u8; 1024]) -> Option<u64> {
    match ext_superblock(superblock)? {
        ExtJournal::Internal { size_bytes } => size_bytes,
        ExtJournal::Absent | ExtJournal::External => None,
    }
}

/// A filesystem that could have a journal and has none.
fn absent() -> JournalFacts {
    JournalFacts {
        mode: Some("none".into()),
        size_bytes: None,
        external: None,
        device: None,
    }
}

/// What an ext superblock says of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExtJournal {
    Absent,
    External,
    Internal { size_bytes: Option<u64> },
}

/// Reads an ext2/3/4 superblock; none if it isn't one. Offsets are those of
/// Documentation/filesystems/ext4/super.rst.
fn ext_superblock(bytes: &[u8; 1024]) -> Option<ExtJournal> {
    const MAGIC: u16 = 0xEF53;
    const COMPAT_HAS_JOURNAL: u32 = 0x4;
    /// `s_jnl_blocks` holds a copy of the journal inode's block map and size.
    const BACKUP_BLOCKS: u8 = 1;
    let le32 = |at: usize| {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        u32::from_le_bytes(word)
    };
    if u16::from_le_bytes([bytes[0x38], bytes[0x39]]) != MAGIC {
        return None;
    }
    if le32(0x5C) & COMPAT_HAS_JOURNAL == 0 {
        return Some(ExtJournal::Absent);
    }
    let inode_number = le32(0xE0);
    if inode_number == 0 {
        return Some(ExtJournal::External);
    }
    // The last two of its 17 words are the upper and the lower half of the journal's size.
    let size_bytes = u64::from(le32(0x10C + 15 * 4)) << 32 | u64::from(le32(0x10C + 16 * 4));
    Some(ExtJournal::Internal {
        size_bytes: (bytes[0xFD] == BACKUP_BLOCKS && size_bytes > 0).then_some(size_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock(features: u32, inode: u32, size_bytes: u32) -> [u8; 1024] {
        let mut bytes = [0; 1024];
        bytes[0x38..0x3A].copy_from_slice(&[0x53, 0xEF]);
        bytes[0x5C..0x60].copy_from_slice(&features.to_le_bytes());
        bytes[0xE0..0xE4].copy_from_slice(&inode.to_le_bytes());
        bytes[0xFD] = 1;
        bytes[0x14C..0x150].copy_from_slice(&size_bytes.to_le_bytes());
        bytes
    }

    #[test]
    fn the_superblock_tells_the_journal_s_size() {
        assert_eq!(
            ext_superblock(&superblock(0x3C, 8, 64 << 20)),
            Some(ExtJournal::Internal {
                size_bytes: Some(64 << 20)
            })
        );
    }

    #[test]
    fn a_journal_may_be_absent_or_elsewhere() {
        assert_eq!(
            ext_superblock(&superblock(0x38, 8, 0)),
            Some(ExtJournal::Absent)
        );
        assert_eq!(
            ext_superblock(&superblock(0x3C, 0, 0)),
            Some(ExtJournal::External)
        );
        assert_eq!(ext_superblock(&[0; 1024]), None);
    }
}
