//! What the loop that measures needs of an engine.

use std::io;

use crate::model::sample::Call;

/// One finished operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// The slot that it was pushed to.
    pub(super) slot: u32,
    /// When, on the port's clock.
    pub(super) at_ns: u64,
    /// Bytes written, or a negative error number.
    pub(super) result: i32,
    /// What failed, if something did.
    pub(super) call: Call,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// At least one completion. Something is in flight.
    Completion,
    /// A completion, or this time on the port's clock.
    Until(u64),
}

/// Something that writes can be pushed to. None of these calls may allocate, lock or make a system
/// call beyond those that the write and the wait themselves are.
pub(super) trait Port {
    /// The port's clock.
    fn now_ns(&mut self) -> u64;

    /// Makes the bytes of the slot's next write ready; not timed.
    fn prepare(&mut self, slot: u32);

    /// Queues the slot's write to `offset_bytes`.
    fn push(&mut self, slot: u32, offset_bytes: u64) -> io::Result<()>;

    /// Submits what was pushed, waits, and appends what finished to `done`. Gives the time then. A
    /// signal may end the wait early. An error is the engine's own, not a write's.
    fn turn(&mut self, wait: Wait, done: &mut Vec<Done>) -> io::Result<u64>;

    /// How often an operation that the kernel had lost was brought back.
    fn rescued(&self) -> u32 {
        0
    }
}
