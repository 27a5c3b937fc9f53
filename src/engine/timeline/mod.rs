//! Workloads that go on for a while, of several threads that do different things, and what each
//! counts in intervals.
//!
//! Every thread is an actor of its own with plain system calls. The thread that calls tells its
//! caller of each interval's end, so that counters can be read then.

mod churn;
mod conduct;
mod counted;
mod series;

pub use churn::{ChurnJob, churn};
pub use conduct::{Course, Tick};
pub use counted::Counted;
