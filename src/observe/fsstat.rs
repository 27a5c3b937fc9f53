//! The counters that a filesystem keeps of its own work.

use std::fs;
use std::path::{Path, PathBuf};

use super::counter::advance;
use crate::model::devid::DevId;
use crate::model::facts::MountFacts;
use crate::model::traffic::{FsCount, Jbd2Count, XfsCount};
use crate::sys::root::Root;
use crate::target;

/// XFS counts what it writes to its log in basic blocks (BTOBB() in fs/xfs/libxfs/xfs_fs.h).
const BASIC_BLOCK_BYTES: u64 = 512;

/// Where a mounted filesystem's counters stand. What it doesn't have is left out.
#[derive(Clone, Debug, Default)]
pub struct FsStat {
    jbd2: Option<PathBuf>,
    ext4: Option<PathBuf>,
    xfs: Option<PathBuf>,
}

/// The counters in one reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsReading {
    jbd2: Option<Jbd2>,
    ext4_written_kib: Option<u64>,
    xfs: Option<Xfs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Jbd2 {
    transactions: u64,
    requested: Option<u64>,
    commit_us: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Xfs {
    log_writes: u64,
    log_blocks: u64,
    log_forces: u64,
    written_bytes: Option<u64>,
}

impl FsStat {
    /// Those of the filesystem of `mount`.
    pub fn of(root: &Root, mount: &MountFacts) -> FsStat {
        let name = mount.block_device.and_then(|dev| kernel_name(root, dev));
        let Some(name) = name else {
            return FsStat::default();
        };
        let existing = |path: PathBuf| path.exists().then_some(path);
        let journals = root.proc.join("fs/jbd2");
        let journal = match mount.journal.as_ref().and_then(|journal| journal.external) {
            // One on a device of its own is named by that (jbd2_journal_init_dev() in
            // fs/jbd2/journal.c).
            Some(true) => target::external_journal(root, mount)
                .and_then(|device| kernel_name(root, device))
                .map(|device| journals.join(device)),
            _ => internal_journal(&journals, &name),
        };
        // ext2 and ext3 are mounted by the ext4 driver too, which names its folders by the device.
        let ext4 = root.sys.join("fs/ext4").join(&name);
        FsStat {
            jbd2: journal.and_then(|folder| existing(folder.join("info"))),
            ext4: existing(ext4.join("session_write_kbytes")),
            xfs: existing(root.sys.join("fs/xfs").join(&name).join("stats/stats")),
        }
    }

    /// The counters, as they stand now.
    pub fn read(&self) -> FsReading {
        let text = |path: &Option<PathBuf>| fs::read_to_string(path.as_ref()?).ok();
        FsReading {
            jbd2: text(&self.jbd2).and_then(|text| jbd2(&text)),
            ext4_written_kib: text(&self.ext4).and_then(|text| text.trim().parse().ok()),
            xfs: text(&self.xfs).and_then(|text| xfs(&text)),
        }
    }
}

/// The device's name below /sys/block, where a `/` in it is a `!`.
fn kernel_name(root: &Root, dev: DevId) -> Option<String> {
    let link = fs::canonicalize(root.sys.join(format!("dev/block/{dev}"))).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

/// A journal inside its filesystem is named by the device and the journal's inode
/// (jbd2_journal_init_inode() in fs/jbd2/journal.c).
fn internal_journal(folder: &Path, device: &str) -> Option<PathBuf> {
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
    own.next().map(|entry| entry.path())
}

/// What jbd2_seq_info_show() in fs/jbd2/journal.c prints: transactions since the mount, those that
/// were requested (not in the oldest kernels), and averages.
///
/// Of the averages, that of the commit time moves with each commit
/// (jbd2_journal_commit_transaction() in fs/jbd2/commit.c). All others, as the blocks logged for a
/// transaction, are sums since the mount divided by the transactions, cut to whole numbers. Times
/// the transactions, each gives its sum but for as many as there were transactions, and what a slice
/// added is uncertain by twice that: after 100,000 transactions, 6 logged blocks per transaction
/// tell of a slice's 200 transactions that they logged 1,200 blocks, give or take 200,000. They are
/// left out.
fn jbd2(info: &str) -> Option<Jbd2> {
    let mut words = info.split_ascii_whitespace();
    let transactions = words.next()?.parse().ok()?;
    if !words.next()?.starts_with("transaction") {
        return None;
    }
    let requested = words.next().and_then(|word| word.strip_prefix('('));
    let commit_us = info.lines().find_map(|line| {
        let line = line.trim();
        line.strip_suffix("us average transaction commit time")
    });
    Some(Jbd2 {
        transactions,
        requested: requested.and_then(|word| word.parse().ok()),
        commit_us: commit_us.and_then(|number| number.parse().ok()),
    })
}

/// Two of the lines that xfs_stats_format() in fs/xfs/xfs_stats.c prints of struct __xfsstats in
/// fs/xfs/xfs_stats.h. `log`: writes, basic blocks of them, waits for a buffer, forces, and forces
/// that slept. `xpc`: bytes of delayed allocations that got their blocks, bytes that programs wrote,
/// bytes that they read.
fn xfs(stats: &str) -> Option<Xfs> {
    let line = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name))?;
        let fields = line.split_ascii_whitespace().map(str::parse::<u64>);
        fields.collect::<Result<Vec<u64>, _>>().ok()
    };
    let &[log_writes, log_blocks, _, log_forces, ..] = line("log ")?.as_slice() else {
        return None;
    };
    Some(Xfs {
        log_writes,
        log_blocks,
        log_forces,
        written_bytes: line("xpc ").and_then(|fields| fields.get(1).copied()),
    })
}

/// What was counted between two readings; none of what began anew in between.
pub fn since(after: &FsReading, before: &FsReading) -> FsCount {
    let between = |after: Option<u64>, before: Option<u64>| advance(after?, before?);
    let jbd2 = |(after, before): (Jbd2, Jbd2)| {
        let transactions = advance(after.transactions, before.transactions)?;
        let commit_us = after.commit_us.filter(|_| transactions > 0);
        Some(Jbd2Count {
            transactions,
            requested: between(after.requested, before.requested),
            commit_ns: commit_us.map(|us| us.saturating_mul(1000)),
        })
    };
    let xfs = |(after, before): (Xfs, Xfs)| {
        let blocks = advance(after.log_blocks, before.log_blocks)?;
        Some(XfsCount {
            log_writes: advance(after.log_writes, before.log_writes)?,
            log_bytes: blocks.saturating_mul(BASIC_BLOCK_BYTES),
            log_forces: advance(after.log_forces, before.log_forces)?,
            written_bytes: between(after.written_bytes, before.written_bytes),
        })
    };
    FsCount {
        jbd2: after.jbd2.zip(before.jbd2).and_then(jbd2),
        ext4_written_bytes: between(after.ext4_written_kib, before.ext4_written_kib)
            .map(|kib| kib.saturating_mul(1024)),
        xfs: after.xfs.zip(before.xfs).and_then(xfs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INFO: &str = include_str!("../../tests/fixtures/counters/jbd2-info-6.18");
    const UNUSED: &str = "0 transactions (0 requested), each up to 5461 blocks\n";
    const XFS: &str = include_str!("../../tests/fixtures/counters/xfs-stats-6.18");

    fn journal(transactions: u64, requested: Option<u64>, commit_us: Option<u64>) -> Jbd2 {
        Jbd2 {
            transactions,
            requested,
            commit_us,
        }
    }

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(jbd2(INFO), Some(journal(173, Some(173), Some(3911))));
        assert_eq!(jbd2(UNUSED), Some(journal(0, Some(0), None)));
        let old = "12 transaction, each up to 8192 blocks\naverage: \n  7us average transaction commit time\n";
        assert_eq!(jbd2(old), Some(journal(12, None, Some(7))));
        let counted = xfs(XFS).unwrap();
        assert_eq!(
            (counted.log_writes, counted.log_blocks, counted.log_forces),
            (6, 25, 6)
        );
        assert_eq!(counted.written_bytes, Some(24_576));
        for text in ["", "no transactions", "12 others", "log 1 2", "log 1 2 3 x"] {
            assert_eq!(jbd2(text), None, "{text}");
            assert_eq!(xfs(text), None, "{text}");
        }
    }

    #[test]
    fn a_journal_is_its_own_devices() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["sda1-8", "sda11-8", "sda", "sda-x", "dm-0-8"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let found = |device| internal_journal(folder.path(), device);
        assert_eq!(found("sda1"), Some(folder.path().join("sda1-8")));
        assert_eq!(found("dm-0"), Some(folder.path().join("dm-0-8")));
        assert_eq!(found("sda"), None);
        assert_eq!(
            internal_journal(&folder.path().join("absent"), "sda1"),
            None
        );
    }

    fn reading(transactions: u64, log_writes: u64) -> FsReading {
        FsReading {
            jbd2: Some(journal(transactions, Some(transactions), Some(50))),
            ext4_written_kib: None,
            xfs: Some(Xfs {
                log_writes,
                log_blocks: 3 * log_writes,
                log_forces: 0,
                written_bytes: None,
            }),
        }
    }

    #[test]
    fn differences_are_in_bytes_and_nanoseconds() {
        let counted = since(&reading(9, 7), &reading(5, 4));
        let journal = counted.jbd2.unwrap();
        assert_eq!((journal.transactions, journal.requested), (4, Some(4)));
        assert_eq!(journal.commit_ns, Some(50_000));
        let log = counted.xfs.unwrap();
        assert_eq!((log.log_writes, log.log_bytes), (3, 9 * 512));
        let idle = since(&reading(9, 7), &reading(9, 7));
        assert_eq!(idle.jbd2.unwrap().commit_ns, None);
    }

    #[test]
    fn what_began_anew_or_is_absent_tells_nothing() {
        assert_eq!(since(&reading(1, 1), &reading(5, 4)), FsCount::default());
        let absent = FsReading::default();
        assert_eq!(since(&reading(1, 1), &absent), FsCount::default());
    }

    #[test]
    fn counters_of_32_bits_may_wrap() {
        let mut before = reading(2, u64::from(u32::MAX) - 1);
        before.xfs.as_mut().unwrap().log_blocks = u64::from(u32::MAX);
        let log = since(&reading(2, 4), &before).xfs.unwrap();
        assert_eq!((log.log_writes, log.log_bytes), (6, 13 * 512));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(log |xpc )?[0-9 ()a-z\n]*") {
            let _ = (jbd2(&text), xfs(&text));
        }
    }
}
