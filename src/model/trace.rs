//! What tracing tells of a cell: where the bytes and the time of its writes went. It comes from
//! slices of its own, which feed no other figure.

use serde::{Deserialize, Serialize};

use super::devid::DevId;
use super::traffic::BlockStat;

/// What a request to the device was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The measured bytes: the scratch file's extents, or the span of the raw device.
    Data,
    /// The filesystem's journal or log.
    Journal,
    /// Metadata outside the journal.
    Metadata,
    /// A flush of the drive's cache.
    Flush,
    /// Another process's I/O on the disk.
    Other,
    /// What can't be told. Never guessed.
    Unknown,
}

impl Class {
    /// Every class, in the order in which reports show them.
    pub const ALL: [Class; 6] = [
        Class::Data,
        Class::Journal,
        Class::Metadata,
        Class::Flush,
        Class::Other,
        Class::Unknown,
    ];
}

/// Write and flush requests of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassTraffic {
    /// Which.
    pub class: Class,
    /// Requests that the device completed.
    pub requests: u64,
    /// How many of them were FUA writes.
    pub fua_requests: u64,
    /// Bytes that they wrote.
    pub bytes: u64,
}

/// A stretch of a write's time, from its submission to its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// From the submission to the first request that reaches the device for this write; all of it
    /// if none does.
    Submit,
    /// The device reads what the write needs: the rest of a block, or metadata.
    Read,
    /// The device writes data.
    DataWrite,
    /// Nothing is at the device, between two requests.
    Waiting,
    /// The device writes journal blocks other than the commit block.
    JournalWrite,
    /// A flush before the commit block.
    PreFlush,
    /// The device writes the journal's commit block, or btrfs's superblock.
    CommitBlock,
    /// A flush after the commit block, or after the data where there is none.
    PostFlush,
    /// The device writes metadata outside the journal.
    MetadataWrite,
    /// The device is busy for somebody else only, or for what can't be told.
    OtherWrite,
    /// From the last completion at the device to the write's own.
    Return,
}

impl Phase {
    /// Every phase, in the order in which reports show them.
    pub const ALL: [Phase; 11] = [
        Phase::Submit,
        Phase::Read,
        Phase::DataWrite,
        Phase::Waiting,
        Phase::JournalWrite,
        Phase::PreFlush,
        Phase::CommitBlock,
        Phase::PostFlush,
        Phase::MetadataWrite,
        Phase::OtherWrite,
        Phase::Return,
    ];
}

/// One phase over all writes whose phases are known: its time in a write, summed over its stretches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// Which.
    pub phase: Phase,
    /// Mean over the writes.
    pub mean_ns: f64,
    /// 99 % of the writes spent at most this in it.
    pub p99_ns: u64,
}

/// A stretch of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// What went on.
    pub phase: Phase,
    /// Since the write's submission.
    pub start_ns: u64,
    /// Since the write's submission.
    pub end_ns: u64,
    /// Bytes of the requests that ended with it.
    pub bytes: u64,
}

/// What the traced slices of a cell told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traced {
    /// The device whose requests were traced.
    pub dev: DevId,
    /// Traced slices.
    pub slices: u32,
    /// Writes completed in them.
    pub ops: u64,
    /// Bytes written in them.
    pub bytes: u64,
    /// Time in them.
    pub elapsed_ns: u64,
    /// Events read.
    pub events: u64,
    /// Events that the kernel dropped for want of room.
    pub lost_events: u64,
    /// Write and flush requests by class, each class once.
    pub classes: Vec<ClassTraffic>,
    /// What the device itself counted in these slices: the classes should add up to it.
    pub counted: BlockStat,
    /// Writes whose phases are known; none at another queue depth than 1.
    pub phase_ops: u64,
    /// Time by phase. The means add up to `phase_latency_ns`.
    pub phases: Vec<PhaseTime>,
    /// Mean latency of the writes whose phases are known.
    pub phase_latency_ns: f64,
    /// The write of median latency, stretch by stretch, without a gap.
    pub typical: Vec<Stretch>,
}
