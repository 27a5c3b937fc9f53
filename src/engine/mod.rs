//! Issues the writes of one run of one cell and measures each.

mod error;
mod latency;
mod spec;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::model::sample::Sample;
use crate::sys::root::Root;

pub use error::{EngineError, explain};
pub use latency::{Distribution, NullModel};
pub use spec::{Data, Lane, Limits, Spec, To};

/// Whether this process may make a ring at all, so that the program can fail early.
pub fn probe(_root: &Root) -> Result<(), EngineError> {
    Ok(())
}

/// Runs `lanes`, each in a thread of its own, until the limits of `spec` are reached or `stop` is
/// set, and gives what all of them measured together.
pub fn run(
    _lanes: Vec<Lane<'_>>,
    _spec: &Spec,
    _stop: &AtomicBool,
    _waiting: &mut dyn FnMut(Duration),
) -> Result<Sample, EngineError> {
    Err(EngineError::Unsupported {
        why: "being built".into(),
    })
}
