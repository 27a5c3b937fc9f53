//! Workloads over time: prepared like cells, then each side runs for a long stretch, in alternation
//! where sides are compared.

mod drive;
mod ground;
mod run;
mod samples;
mod sides;
mod stretch;
mod survey;

pub use ground::{Grounds, prepare_workloads};
pub use run::{Progress, Watch, run_workloads};
