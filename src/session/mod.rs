//! Rounds and slices: every cell runs for a short time in each round, in a seeded random order, so
//! that what drifts hits all of them alike.
//!
//! This is the one place where driving and observing meet: see ARCHITECTURE.md.

mod baseline;
mod bench;
mod claims;
mod counters;
mod drives;
#[cfg(test)]
mod fixture;
mod idle;
mod lab;
mod lanes;
mod limits;
mod passes;
mod patience;
mod power_cut;
mod precondition;
mod prepare;
mod remedy;
mod request;
mod room;
mod rounds;
mod save;
mod settings;
mod slice;
mod survey;
mod tally;
mod targets;
mod timeline;
mod traced;
mod validate;
mod verify;
mod write_target;

pub use bench::Bench;
pub use claims::{Trials, survey_claims};
pub use lab::{add_failed, ended, lab_record, with_variant};
pub use power_cut::{PowerCutConfig, PowerCutWriter, promiser};
pub use precondition::{MAX_ROUNDS, Stage};
pub use prepare::prepare;
pub use request::{RunRequest, SetupError};
pub use rounds::{Hooks, Pace, Progress, Slicer, run};
pub use save::{RecordPath, Saver, half_saved};
pub use slice::{Outcome, SliceError, SliceParams};
pub use survey::Survey;
pub use targets::survey;
pub use timeline::{
    Progress as TimelineProgress, Watch as TimelineWatch, WorkloadDirs, prepare_workloads,
    run_workloads,
};
pub use traced::{TracedSlice, Tracing};
pub use validate::{TrialPlan, Watch, validate};
pub use verify::verify;
pub use write_target::{WriteTarget, purge};
