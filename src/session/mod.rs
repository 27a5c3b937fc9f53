//! Rounds and slices: every cell runs for a short time in each round, in a seeded random order, so
//! that what drifts hits all of them alike.
//!
//! This is the one place where driving and observing meet: see ARCHITECTURE.md.

mod baseline;
mod bench;
mod counters;
mod lab;
mod lanes;
mod passes;
mod place;
mod prepare;
mod room;
mod rounds;
mod save;
mod survey;
mod tally;
mod traced;

pub use bench::Bench;
pub use lab::{add_failed, ended, lab_record, with_variant};
pub use place::Place;
pub use prepare::prepare;
pub use rounds::{Ask, Hooks, Outcome, Pace, Progress, SliceError, Slicer, run};
pub use save::{Saver, half_saved};
pub use survey::{SetupError, Survey, Wish, survey};
pub use traced::{TracedSlice, Tracing};
