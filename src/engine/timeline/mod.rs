//! Workloads that go on for a while, of several threads that do different things, and what each
//! counts in intervals.
//!
//! Every thread is an actor of its own with plain system calls; only a device's log is written by
//! io_uring. The thread that calls tells its caller of each interval's end, so that counters can be
//! read then.

mod background;
mod churn;
mod commits;
mod conduct;
mod counted;
mod failure;
mod group;
mod segments;
mod series;
#[cfg(test)]
mod tests;
mod writer;

pub use background::{Background, Pace};
pub use churn::{ChurnJob, churn};
pub use commits::{Log, commits};
pub use conduct::{Schedule, Tick};
pub use counted::Counted;
pub use segments::{SegmentsJob, segments};
