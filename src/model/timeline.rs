//! A workload over time: what it is asked to do, and what was counted while it ran.

use serde::{Deserialize, Serialize};

use super::cell::{Role, WorkloadKind};
use super::histogram::LatencyNs;
use super::traffic::DeviceTraffic;

/// A workload and all that decides it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Clients commit to a log while pages of a data file are dirtied, and written back at times.
    Checkpoint(Checkpoint),
    /// A file is made, written through the page cache, closed and removed, again and again.
    Churn(Churn),
    /// A log of segments that are made anew, or recycled.
    WalAppend(WalAppend),
}

impl Workload {
    /// What it is.
    pub fn kind(&self) -> WorkloadKind {
        match self {
            Workload::Checkpoint(_) => WorkloadKind::Checkpoint,
            Workload::Churn(_) => WorkloadKind::Churn,
            Workload::WalAppend(_) => WorkloadKind::WalAppend,
        }
    }
}

/// What a checkpointing database does to its disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Clients that commit, each as soon as its last commit is on disk.
    pub clients: u32,
    /// Records that wait together are written by one of their clients in one write.
    pub group_commit: bool,
    /// Bytes of a record: one commit.
    pub record_bytes: u64,
    /// Bytes of the log, which is written from its start again at its end.
    pub log_bytes: u64,
    /// Bytes of the data file.
    pub data_bytes: u64,
    /// Bytes of a page of it.
    pub page_bytes: u64,
    /// Random pages that are written to the page cache in a second.
    pub dirty_pages_per_s: f64,
    /// From one checkpoint's begin to the next one's.
    pub interval_ns: u64,
    /// The share of the interval that a checkpoint spreads its writes over; 0: all at once.
    pub spread_share: f64,
}

/// Files that don't live long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Churn {
    /// Bytes of a file.
    pub file_bytes: u64,
    /// Bytes of a write(2).
    pub write_bytes: u64,
    /// From a file's end to the next one's begin.
    pub pause_ns: u64,
}

/// A write-ahead log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalAppend {
    /// Bytes of a record: one O_DSYNC write.
    pub record_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Whole segments that are kept.
    pub kept_segments: u32,
}

/// Where the segments of a log come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Segments {
    /// Each is a new file, appended to.
    Created,
    /// Each is an old one under a new name, overwritten.
    Recycled,
}

/// A workload that ran once at a target, without a break.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The `id` of the target.
    pub target: String,
    /// A file's side, or the device's.
    pub role: Role,
    /// Where a log's segments came from; none of other workloads, and on the device.
    pub segments: Option<Segments>,
    /// Which repetition, from 0. Timelines of one repetition are compared.
    pub repetition: u32,
    /// What ran.
    pub workload: Workload,
    /// How long it was to run.
    pub duration_ns: u64,
    /// When it began, since the run's begin.
    pub started_ns: u64,
    /// From its begin to its end.
    pub elapsed_ns: u64,
    /// Operations completed: commits, records, or files.
    pub ops: u64,
    /// Bytes that they wrote.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// The first failure. Nothing was measured after it.
    pub failed: Option<String>,
    /// Width of an interval.
    pub interval_ns: u64,
    /// What was counted in each, one after the other.
    pub intervals: Vec<Interval>,
    /// Checkpoints and the times between them, one after the other; empty without checkpoints.
    pub phases: Vec<Phase>,
    /// Changes from one segment of a log to the next.
    pub switches: Vec<Switch>,
    /// Pages of the data file that were written to the page cache.
    pub dirtied_pages: u64,
    /// Latencies of operations that no checkpoint overlapped.
    pub outside: Latencies,
    /// Latencies of those that one overlapped; none without checkpoints.
    pub inside: Option<Latencies>,
    /// What each device of the stack counted while it ran.
    pub devices: Vec<DeviceTraffic>,
    /// What each counted after that, until all that the filesystem held back was on disk.
    pub settling: Vec<DeviceTraffic>,
}

/// What was counted in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Operations that ended in it.
    pub ops: u64,
    /// Bytes that they wrote.
    pub bytes: u64,
    /// The longest operation that ended in it.
    pub longest_ns: u64,
    /// What the device below the filesystem did; none where there is none, or it counts nothing.
    pub device: Option<DeviceShare>,
    /// What the processors did; none where the kernel doesn't tell.
    pub cpu: Option<CpuShare>,
}

/// A device's writes in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceShare {
    /// Bytes written.
    pub write_bytes: u64,
    /// Write requests completed.
    pub writes: u64,
    /// Flush requests completed. Zero on partitions.
    pub flushes: u64,
}

/// What all processors did in one interval, added up. The kernel counts in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuShare {
    /// In programs.
    pub user_ns: u64,
    /// In the kernel, interrupts among it.
    pub system_ns: u64,
    /// Nothing, or waiting for a disk.
    pub idle_ns: u64,
    /// Taken away by the hypervisor.
    pub stolen_ns: u64,
}

/// A checkpoint, or the time between two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// When it began, since the timeline's begin.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Operations that ended in it.
    pub ops: u64,
    /// What the checkpoint did; none between two.
    pub checkpoint: Option<Writeback>,
}

/// What a checkpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writeback {
    /// Pages that were dirty when it began.
    pub pages: u64,
    /// How long its fsync took.
    pub fsync_ns: u64,
}

/// A change from one segment to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// When it was done, since the timeline's begin.
    pub at_ns: u64,
    /// How long it took: fsync, rename, open.
    pub took_ns: u64,
}

/// Latencies of many operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Their quantiles; none without an operation.
    pub latency_ns: Option<LatencyNs>,
    /// HdrHistogram V2 with DEFLATE, base64, nanoseconds.
    pub histogram_v2: String,
    /// Latencies that fell outside the histogram and are clamped in it.
    pub out_of_range: u64,
}
