//! From what was asked for to the cells to measure: profiles and defaults laid over each other, and
//! the matrix of axes multiplied out. Nothing here touches the system beyond reading a profile.

pub mod matrix;
pub mod profile;
pub mod settings;
mod value;

pub use matrix::{Counterparts, PlanError, Skipped, TargetPlan, cells, raw_counterparts, skipped};
pub use profile::{Profile, ProfileError, load};
pub use settings::{Matrix, Options, Settings, Sizes};
