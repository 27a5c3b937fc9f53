//! The counters that a filesystem keeps of its own work.

use std::fs;
use std::path::{Path, PathBuf};

use crate::model::facts::{DevId, MountFacts};
use crate::model::traffic::{FsCount, XfsLogCount};
use crate::sys::root::Root;

/// Where a mounted filesystem's counters stand. What it doesn't have is left out.
#[derive(Clone, Debug, Default)]
pub struct FsStat {
    jbd2: Option<PathBuf>,
    ext4: Option<PathBuf>,
    xfs: Option<PathBuf>,
}

impl FsStat {
    /// Those of the filesystem of `mount`.
    pub fn of(root: &Root, mount: &MountFacts) -> FsStat {
        let name = mount.block_device.and_then(|dev| kernel_name(root, dev));
        let Some(name) = name else {
            return FsStat::default();
        };
        // ext2 and ext3 are mounted by the ext4 driver too, which names its folders by the device.
        let ext4 = root.sys.join("fs/ext4").join(&name);
        FsStat {
            jbd2: journal(&root.proc.join("fs/jbd2"), &name),
            ext4: existing(ext4.join("session_write_kbytes")),
            xfs: existing(root.sys.join("fs/xfs").join(&name).join("stats/stats")),
        }
    }

    /// The counters, as they stand now.
    pub fn read(&self) -> FsCount {
        let text = |path: &Option<PathBuf>| fs::read_to_string(path.as_ref()?).ok();
        FsCount {
            jbd2_transactions: text(&self.jbd2).and_then(|text| transactions(&text)),
            ext4_written_kib: text(&self.ext4).and_then(|text| text.trim().parse().ok()),
            xfs_log: text(&self.xfs).and_then(|text| xfs_log(&text)),
        }
    }
}

/// The device's name below /sys/block, where a `/` in it is a `!`.
fn kernel_name(root: &Root, dev: DevId) -> Option<String> {
    let link = fs::canonicalize(root.sys.join(format!("dev/block/{dev}"))).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.exists().then_some(path)
}

/// The journal inside a filesystem is named by its device and its inode
/// (jbd2_journal_init_inode() in fs/jbd2/journal.c). One on another device is named by that, which
/// says nothing of the filesystem: it is left out.
fn journal(folder: &Path, device: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let is_own = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let inode = name.to_str().and_then(|name| {
            let rest = name.strip_prefix(device)?;
            rest.strip_prefix('-')
        });
        inode.is_some_and(|inode| inode.parse::<u64>().is_ok())
    };
    let mut own = entries.filter(is_own);
    own.next().map(|entry| entry.path().join("info"))
}

/// The first number of `info`: transactions since the mount (jbd2_seq_info_show() in
/// fs/jbd2/journal.c). The averages that follow are whole numbers over all of them, from which no
/// slice's share can be told.
fn transactions(info: &str) -> Option<u64> {
    info.split_ascii_whitespace().next()?.parse().ok()
}

/// The line `log`: writes, blocks of 512 bytes, writes that waited for a buffer, forces, and forces
/// that slept (struct __xfsstats in fs/xfs/xfs_stats.h).
fn xfs_log(stats: &str) -> Option<XfsLogCount> {
    let line = stats.lines().find_map(|line| line.strip_prefix("log "))?;
    let mut fields = line.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    let (writes, blocks, _, forces) = (next()?, next()?, next()?, next()?);
    Some(XfsLogCount {
        writes,
        bytes: blocks * 512,
        forces,
    })
}

/// What was counted between two readings; none of a counter that went back, as one does when the
/// filesystem is mounted anew.
pub fn since(after: &FsCount, before: &FsCount) -> FsCount {
    let advance = |after: Option<u64>, before: Option<u64>| after?.checked_sub(before?);
    let log = |of: fn(&XfsLogCount) -> u64| {
        advance(
            after.xfs_log.as_ref().map(of),
            before.xfs_log.as_ref().map(of),
        )
    };
    let xfs_log = || {
        Some(XfsLogCount {
            writes: log(|log| log.writes)?,
            bytes: log(|log| log.bytes)?,
            forces: log(|log| log.forces)?,
        })
    };
    FsCount {
        jbd2_transactions: advance(after.jbd2_transactions, before.jbd2_transactions),
        ext4_written_kib: advance(after.ext4_written_kib, before.ext4_written_kib),
        xfs_log: xfs_log(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = include_str!("../../tests/fixtures/counters/jbd2-info-6.18");
    const XFS: &str = include_str!("../../tests/fixtures/counters/xfs-stats-6.18");

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(transactions(INFO), Some(173));
        let log = xfs_log(XFS).unwrap();
        assert_eq!((log.writes, log.bytes, log.forces), (6, 25 * 512, 6));
        for text in ["", "no transactions", "log 1 2", "log 1 2 3 x"] {
            assert_eq!(transactions(text), None, "{text}");
            assert_eq!(xfs_log(text), None, "{text}");
        }
    }

    #[test]
    fn a_journal_is_its_own_devices() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["sda1-8", "sda11-8", "sda", "sda-x"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let found = |device| journal(folder.path(), device);
        assert_eq!(found("sda1"), Some(folder.path().join("sda1-8/info")));
        assert_eq!(found("sda"), None);
        assert_eq!(journal(&folder.path().join("absent"), "sda1"), None);
    }

    #[test]
    fn what_went_back_or_is_absent_tells_nothing() {
        let at = |transactions, writes| FsCount {
            jbd2_transactions: transactions,
            ext4_written_kib: None,
            xfs_log: Some(XfsLogCount {
                writes,
                bytes: writes * 1024,
                forces: 0,
            }),
        };
        let counted = since(&at(Some(9), 7), &at(Some(5), 4));
        assert_eq!(counted, at(Some(4), 3));
        assert_eq!(since(&at(Some(1), 1), &at(Some(5), 4)), FsCount::default());
        assert_eq!(since(&at(Some(1), 4), &at(None, 4)).jbd2_transactions, None);
    }
}
