//! One side running once, with what the kernel counted meanwhile.

use std::time::Duration;

use hdrhistogram::Histogram;
use nix::unistd::syncfs;

use crate::engine::timeline::{Counted, Schedule, Tick};
use crate::model::histogram::LatencyNs;
use crate::model::histogram::encode;
use crate::model::sample::JobUse;
use crate::model::timeline::{Latencies, Timeline};
use crate::model::traffic::DeviceTraffic;
use crate::session::counters::Counters;
use crate::session::tally::{Observed, Reading, Tally};
use crate::sys::clock::monotonic_ns;

use super::dirs::{WorkloadDir, WorkloadDirs};
use super::drive::{Context, Drive, drive};
use super::samples::Samples;
use super::sides::Side;

/// Width of the intervals.
const INTERVAL_NS: u64 = 100_000_000;

/// Runs `side` of the workload of the directory at `at` once. Calls `told` at each interval's end
/// with the time since the stretch's begin; the stretch ends once it says no.
pub(super) fn stretch(
    grounds: &WorkloadDirs,
    at: usize,
    side: Side,
    duration: Duration,
    context: &Context<'_>,
    told: &mut dyn FnMut(Duration) -> bool,
) -> anyhow::Result<Timeline> {
    let ground = &grounds.grounds[at];
    let (target, counters) = match (side, &ground.raw) {
        (Side::Raw, Some(raw)) => (&raw.target, &raw.counters),
        _ => (&ground.target, &ground.counters),
    };
    let observed = Observed {
        root: context.root,
        counters,
    };
    let course = Schedule {
        duration_ns: u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
        interval_ns: INTERVAL_NS,
    };
    // What was written before is not this stretch's.
    settle(ground)?;
    let started_ns = monotonic_ns() - context.begun_ns;
    let mut samples = Samples::begin(context.root, &counters.tops);
    let before = observed.before(None);
    let run = Drive {
        ground,
        course: &course,
        context,
        tick: &mut |tick: Tick| {
            samples.take();
            told(Duration::from_nanos(tick.elapsed_ns))
        },
    };
    let counted = drive(grounds, side, run)?;
    let after = observed.after(None);
    samples.take();
    settle(ground)?;
    let settled = observed.after(None);
    let made = Timeline {
        target: target.clone(),
        role: side.role(),
        segments: side.segments(),
        repetition: context.repetition,
        duration_ns: course.duration_ns,
        started_ns,
        devices: traffic(counters, &before, &after),
        settling: traffic(counters, &after, &settled),
        ..of_counted(ground, counted, &samples)
    };
    Ok(made)
}

/// Has the filesystem write all that it holds back, its journal too.
fn settle(ground: &WorkloadDir) -> anyhow::Result<()> {
    syncfs(ground.scratch.folder()).map_err(|errno| {
        anyhow::anyhow!("cannot sync the filesystem of the scratch folder: {errno}")
    })
}

fn traffic(counters: &Counters, before: &Reading, after: &Reading) -> Vec<DeviceTraffic> {
    let mut tally = Tally::default();
    tally.add(before, after, &JobUse::default());
    tally.devices(counters)
}

/// A timeline with what was counted; what a stretch is is for the caller to fill in.
fn of_counted(ground: &WorkloadDir, counted: Counted, samples: &Samples<'_>) -> Timeline {
    let mut intervals = counted.intervals;
    let ops = intervals.iter().map(|interval| interval.ops).sum();
    let bytes = intervals.iter().map(|interval| interval.bytes).sum();
    samples.fill(&mut intervals);
    let inside = latencies(&counted.inside, counted.inside_out_of_range);
    Timeline {
        target: String::new(),
        role: Side::File.role(),
        segments: None,
        repetition: 0,
        workload: ground.workload.clone(),
        duration_ns: 0,
        started_ns: 0,
        elapsed_ns: counted.elapsed_ns,
        ops,
        bytes,
        errors: counted.errors,
        failed: counted.failure.map(|failure| failure.to_string()),
        interval_ns: INTERVAL_NS,
        intervals,
        inside: (!counted.phases.is_empty()).then_some(inside),
        phases: counted.phases,
        switches: counted.switches,
        dirtied_pages: counted.dirtied_pages,
        outside: latencies(&counted.outside, counted.outside_out_of_range),
        devices: Vec::new(),
        settling: Vec::new(),
    }
}

fn latencies(histogram: &Histogram<u64>, out_of_range: u64) -> Latencies {
    Latencies {
        latency_ns: LatencyNs::of(histogram),
        histogram_v2: encode(histogram),
        out_of_range,
    }
}
