//! From what was asked for to the cells to measure: profiles and defaults laid over each other, and
//! the matrix of axes multiplied out. Nothing here touches the system beyond reading a profile
//! or a claims file.

mod ablation;
mod check;
pub mod claims;
pub mod comparable;
mod contradiction;
pub mod lab;
mod load;
pub mod matrix;
mod product;
pub mod profile;
pub mod settings;
mod value;
mod workload;

pub use ablation::ablation;
pub use check::{MAX_JOBS, MAX_QUEUE_DEPTH, PlanError};
pub use load::LoadError;
pub use matrix::{Counterparts, DEFAULT_SPAN_BYTES, Skipped, cells, raw_counterparts, skipped};
pub use product::TargetPlan;
pub use profile::{Profile, load};
pub use settings::{Matrix, Options, Settings, Sizes};
pub use workload::{WorkloadOptions, WorkloadPlan, workload};
