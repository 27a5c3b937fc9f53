//! Rounds and slices: every cell runs for a short time in each round, in a seeded random order, so
//! that what drifts hits all of them alike.
//!
//! This is the one place where driving and observing meet: see ARCHITECTURE.md.

mod bench;
mod passes;
mod rounds;
mod save;
mod setup;
mod totals;

pub use bench::Bench;
pub use rounds::{Ask, Hooks, Outcome, Pace, Slicer, SliceError, run};
pub use save::Saver;
pub use setup::{Prepared, SetupError};
