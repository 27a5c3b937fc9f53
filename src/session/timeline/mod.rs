//! Workloads over time: prepared like cells, then each side runs for a long stretch, in alternation
//! where sides are compared.

mod dirs;
mod drive;
mod run;
mod samples;
mod sides;
mod stretch;
mod survey;

pub use dirs::{WorkloadDirs, prepare_workloads};
pub use run::{Progress, Watch, run_workloads};
