//! What the kernel counted at a block device while a slice ran.

use serde::{Deserialize, Serialize};

use super::devid::DevId;

/// The fields of `/sys/dev/block/MAJOR:MINOR/stat`, in the kernel's order
/// (Documentation/block/stat.rst), as they stand in one reading or as the difference of two. Field
/// names carry the kernel's units: sectors are 512 bytes whatever the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockStat {
    /// Read requests completed.
    pub reads: u64,
    /// Read bios merged into a queued request.
    pub reads_merged: u64,
    /// Sectors read.
    pub read_sectors: u64,
    /// Time in reads, summed over requests.
    pub read_ms: u64,
    /// Write requests completed. A filesystem's empty flush bio counts here too.
    pub writes: u64,
    /// Write bios merged into a queued request.
    pub writes_merged: u64,
    /// Sectors written.
    pub write_sectors: u64,
    /// Time in writes, summed over requests.
    pub write_ms: u64,
    /// Requests in flight: a level, not a count.
    pub in_flight: u64,
    /// Time with any request in flight.
    pub busy_ms: u64,
    /// Time in requests of any kind, summed.
    pub queue_ms: u64,
    /// Discard requests completed.
    pub discards: u64,
    /// Discard bios merged.
    pub discards_merged: u64,
    /// Sectors discarded.
    pub discard_sectors: u64,
    /// Time in discards.
    pub discard_ms: u64,
    /// Flush requests completed. Zero on partitions.
    pub flushes: u64,
    /// Time in flushes.
    pub flush_ms: u64,
}

impl BlockStat {
    /// The sum of two differences; the level `in_flight` is that of the later, `other`.
    #[must_use]
    pub fn plus(&self, other: &BlockStat) -> BlockStat {
        BlockStat {
            in_flight: other.in_flight,
            reads: self.reads + other.reads,
            reads_merged: self.reads_merged + other.reads_merged,
            read_sectors: self.read_sectors + other.read_sectors,
            read_ms: self.read_ms + other.read_ms,
            writes: self.writes + other.writes,
            writes_merged: self.writes_merged + other.writes_merged,
            write_sectors: self.write_sectors + other.write_sectors,
            write_ms: self.write_ms + other.write_ms,
            busy_ms: self.busy_ms + other.busy_ms,
            queue_ms: self.queue_ms + other.queue_ms,
            discards: self.discards + other.discards,
            discards_merged: self.discards_merged + other.discards_merged,
            discard_sectors: self.discard_sectors + other.discard_sectors,
            discard_ms: self.discard_ms + other.discard_ms,
            flushes: self.flushes + other.flushes,
            flush_ms: self.flush_ms + other.flush_ms,
        }
    }
}

/// One device's counters over one slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceTraffic {
    /// Which device.
    pub dev: DevId,
    /// The difference of the counters after and before.
    pub counted: BlockStat,
}

/// What a target's devices counted in moments in which the run did nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Idle {
    /// How many there were.
    pub moments: u32,
    /// Those in which anything was written.
    pub busy_moments: u32,
    /// Their time.
    pub elapsed_ns: u64,
    /// Sums over them, of the devices that are written to directly.
    pub devices: Vec<DeviceTraffic>,
}

impl Idle {
    /// Adds a moment.
    pub fn add(&mut self, elapsed_ns: u64, counted: &[DeviceTraffic]) {
        self.moments += 1;
        self.elapsed_ns += elapsed_ns;
        self.busy_moments += u32::from(counted.iter().any(|one| one.counted.write_sectors > 0));
        for more in counted {
            match self.devices.iter_mut().find(|known| known.dev == more.dev) {
                Some(known) => known.counted = known.counted.plus(&more.counted),
                None => self.devices.push(more.clone()),
            }
        }
    }
}

/// What another partition of a target's disk counted over one slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NeighbourTraffic {
    /// The kernel's name of the partition.
    pub name: String,
    /// Which it is.
    pub dev: DevId,
    /// The difference of the counters after and before.
    pub counted: BlockStat,
}

/// What this process took of the machine over one slice (getrusage(2)), io_uring's worker threads
/// included. The kernel divides the processor time between user and system by what its clock ticks
/// found, so the sum is exact and each part is an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessCount {
    /// Processor time of the program's own instructions.
    pub user_ns: u64,
    /// Processor time of the kernel on its behalf.
    pub system_ns: u64,
    /// Times that a thread gave its processor away, to wait.
    pub voluntary_switches: u64,
    /// Times that a thread's processor was taken away.
    pub involuntary_switches: u64,
}

impl ProcessCount {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, before: &ProcessCount) -> ProcessCount {
        ProcessCount {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
        }
    }

    /// The sum of two differences.
    #[must_use]
    pub fn plus(&self, other: &ProcessCount) -> ProcessCount {
        ProcessCount {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

/// What a filesystem counted of its own work over one slice, each where it counts that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsCount {
    /// ext3 and ext4: their journal (`/proc/fs/jbd2/*/info`).
    pub jbd2: Option<Jbd2Count>,
    /// ext4: written to its device (`session_write_kbytes` in `/sys/fs/ext4/*`), in whole KiB. The
    /// kernel takes it from the block device's own counter (session_write_kbytes_show() in
    /// fs/ext4/sysfs.c), so that it tells nothing beyond that.
    pub ext4_written_bytes: Option<u64>,
    /// XFS (`/sys/fs/xfs/*/stats/stats`).
    pub xfs: Option<XfsCount>,
}

impl FsCount {
    /// The sum of two differences, the level of the later, `other`; none of what one of them
    /// doesn't have.
    #[must_use]
    pub fn plus(&self, other: &FsCount) -> FsCount {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        let jbd2 = self.jbd2.zip(other.jbd2);
        let xfs = self.xfs.zip(other.xfs);
        FsCount {
            jbd2: jbd2.map(|(one, other)| Jbd2Count {
                transactions: one.transactions + other.transactions,
                requested: sum(one.requested, other.requested),
                commit_ns: other.commit_ns.or(one.commit_ns),
            }),
            ext4_written_bytes: sum(self.ext4_written_bytes, other.ext4_written_bytes),
            xfs: xfs.map(|(one, other)| XfsCount {
                log_writes: one.log_writes + other.log_writes,
                log_bytes: one.log_bytes + other.log_bytes,
                log_forces: one.log_forces + other.log_forces,
                written_bytes: sum(one.written_bytes, other.written_bytes),
            }),
        }
    }
}

/// What jbd2 counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jbd2Count {
    /// Transactions that were committed.
    pub transactions: u64,
    /// Those of them that somebody asked for, as a synchronous write does.
    pub requested: Option<u64>,
    /// A level: how long a commit took, in a moving average to which each adds a quarter. None where
    /// nothing was committed.
    pub commit_ns: Option<u64>,
}

/// What XFS counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfsCount {
    /// Log buffers written.
    pub log_writes: u64,
    /// Bytes of them.
    pub log_bytes: u64,
    /// Times that somebody wanted the log on disk.
    pub log_forces: u64,
    /// Bytes that programs wrote to the filesystem's files.
    pub written_bytes: Option<u64>,
}
