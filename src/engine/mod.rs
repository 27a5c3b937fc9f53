//! Issues the writes of one run of one cell and measures each.
//!
//! A run has one thread for each lane (job), and each thread one port: io_uring, plain system
//! calls, or nothing. `drive` is the one loop that measures, whatever the port.

mod check;
mod crew;
mod error;
mod gate;
mod issue_loop;
mod lane;
mod latency;
mod meter;
mod null;
mod ordered;
mod pace;
mod port;
mod spec;
mod sync;
pub mod timeline;
mod uring;

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;

use gate::Gate;
use lane::Job;

use crate::model::cell::Method;
use crate::model::sample::Sample;
use crate::sys::pulse;
use crate::sys::ring;
use crate::sys::root::Root;

pub use crew::Crew;
pub use error::{EngineError, explain};
pub use latency::{Distribution, NullModel};
pub use ordered::{Next, one_by_one};
pub use spec::{Data, Lane, Limits, Spec, To};

/// In an open loop, the time from when all lanes are ready to the first arrival: waking the
/// threads takes some of it, which would else count as latency.
const LEAD_NS: u64 = 1_000_000;

/// Whether this process may make an io_uring at all, so that the program can fail early.
pub fn probe(root: &Root) -> Result<(), EngineError> {
    ring::probe().map_err(|error| error::from_setup(error, root))
}

/// Runs `lanes`, each in a thread of `crew`, until the limits of `spec` are reached, a lane's
/// pass ends or `stop` is set; what is in flight is then waited for, however long that takes. Gives
/// what all lanes measured together. A write that fails or is cut short ends its own lane and is
/// told in the sample.
///
/// Calls `look` about every second; once it says no, nothing more is issued.
pub fn run(
    crew: &mut Crew,
    lanes: Vec<Lane<'_>>,
    spec: &Spec,
    stop: &AtomicBool,
    look: &mut dyn FnMut() -> bool,
) -> Result<Sample, EngineError> {
    check::check(&lanes, spec)?;
    let jobs = lanes.len();
    let lead_ns = if spec.rate_per_s.is_some() {
        LEAD_NS
    } else {
        0
    };
    let gate = Gate::default();
    let work = lanes.into_iter().zip(0..).map(|(lane, index)| Job {
        lane,
        spec,
        index,
        jobs: jobs as u64,
        seat: gate.seat(),
        stop,
    });
    let conduct = || gate.conduct(jobs, lead_ns, look);
    let results = crew.work(work.collect(), Job::work, conduct)?;
    pulse::beat();
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut sample = meter::merge(results.into_iter().flatten().collect(), spec.interval_ns);
    if spec.method == Method::EmptyFlush {
        sample.bytes = 0;
    }
    Ok(sample)
}
