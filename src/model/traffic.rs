//! What the kernel counted at a block device while a slice ran.

use serde::{Deserialize, Serialize};

use super::facts::DevId;

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
