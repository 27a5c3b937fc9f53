//! What the engine is asked to do.

use std::os::fd::BorrowedFd;

use nix::fcntl::OFlag;

use super::latency::NullModel;
use crate::model::cell::{EngineKind, Method, Pattern, Payload, RingOptions};

/// Where the writes of one job go, and what they carry.
#[derive(Debug)]
pub struct Lane<'a> {
    /// What is written to.
    pub to: To<'a>,
    /// Offset of each block, in bytes. The pattern chooses among them. Must not be empty.
    pub offsets: &'a [u64],
    /// Index into `offsets` of the first block. Ignored by the random pattern.
    pub start: usize,
    /// What is written.
    pub data: Data<'a>,
}

/// What a lane writes to.
#[derive(Clone, Copy, Debug)]
pub enum To<'a> {
    /// An open file or device. Flags such as O_DIRECT and O_DSYNC are its own.
    Fd(BorrowedFd<'a>),
    /// A file that each operation opens with `flags`, writes from offset 0 and closes, timed as a
    /// whole.
    Reopen {
        /// The folder that it is in.
        folder: BorrowedFd<'a>,
        /// Its name there.
        name: &'a str,
        /// Flags of each open(2), such as O_WRONLY | O_TRUNC.
        flags: OFlag,
    },
    /// Nothing: only for the null engine.
    Nothing,
}

/// What a lane's writes carry.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Content made here. [`Payload::Preserve`] is not one of these.
    Fresh(Payload),
    /// What is there already: a write at offset `o` carries `bytes[o - base_bytes..]`, from this
    /// very memory.
    Preserved {
        /// The content, in memory aligned as O_DIRECT needs it.
        bytes: &'a [u8],
        /// The offset at which it starts.
        base_bytes: u64,
    },
}

/// How the writes are issued, and until when.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Bytes of each write.
    pub size_bytes: u64,
    /// What makes each write synchronous. For `o_dsync` and `o_sync` the descriptor's own flags
    /// do; the engine adds nothing.
    pub method: Method,
    /// Writes in flight in each lane.
    pub queue_depth: u32,
    /// Order of a lane's offsets.
    pub pattern: Pattern,
    /// What issues the writes.
    pub kind: EngineKind,
    /// Options of the io_uring engine.
    pub ring: RingOptions,
    /// Open-loop arrivals of all lanes together; none: closed loop.
    pub rate_per_s: Option<f64>,
    /// The sequential pattern ends after its last block instead of starting over.
    pub one_pass: bool,
    /// Of random offsets and the null engine's latencies.
    pub seed: u64,
    /// Of the payload: runs of different seeds write different bytes to the same blocks.
    pub payload_seed: u64,
    /// When to stop.
    pub limits: Limits,
    /// Width of an interval of the log of operations over time. Must not be zero.
    pub interval_ns: u64,
    /// Room for the times of so many operations in each lane; 0 where nobody asks for them.
    pub op_times: usize,
    /// Latencies of the null engine, on a virtual clock. None: it completes at once, on the real
    /// clock, so that what it measures is the harness's own cost.
    pub null: Option<NullModel>,
}

/// When to stop issuing: once `time_ns` have passed and `min_ops` operations were issued, or
/// `hard_ns` have passed, or `max_ops` were issued. What is in flight is then waited for.
/// In an open loop, what was due before `time_ns` is still issued late, for as long again.
/// Operations are those of all lanes together, split evenly over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The wanted length.
    pub time_ns: u64,
    /// Never fewer operations than this, unless `hard_ns` passes.
    pub min_ops: u64,
    /// Never more operations than this.
    pub max_ops: u64,
    /// Never issue after this.
    pub hard_ns: u64,
}
