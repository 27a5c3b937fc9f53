//! The repetitions: in each, every side at every directory runs once, in a random order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::guard::Lookout;
use crate::model::record::{Ended, Record};
use crate::plan::WorkloadPlan;
use crate::session::request::{SetupError, or_in_use};
use crate::session::{counters, drives, settings};
use crate::sys::clock::monotonic_ns;
use crate::sys::pulse;
use crate::sys::root::Root;

use super::dirs::{WorkloadDir, WorkloadDirs};
use super::drive::Context;
use super::sides::{Side, name};
use super::stretch::stretch;

/// What workloads tell while they run.
pub trait Watch {
    /// An interval is over.
    fn tick(&mut self, progress: &Progress<'_>);

    /// A stretch is over; the record is as it would be reported.
    fn after_stretch(&mut self, record: &Record) -> anyhow::Result<()>;
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What runs.
    pub what: &'a str,
    /// The share of all stretches' time that is over.
    pub share: f64,
    /// The time that is left, without what lies between stretches.
    pub left: Duration,
}

/// Runs the workloads of `grounds` as often as `plan` says, and appends a timeline for each stretch
/// to the record, which says why it ended. A stretch that fails ends its directory's part.
pub fn run_workloads(
    root: &Root,
    record: &mut Record,
    grounds: &mut WorkloadDirs,
    plan: &WorkloadPlan,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> anyhow::Result<()> {
    let mut run = Run {
        root,
        begun_ns: monotonic_ns(),
        random: fastrand::Rng::with_seed(record.run.seed),
        done: Duration::ZERO,
        lookout: Lookout::default(),
        record,
        grounds,
        plan,
        stop,
        watch,
    };
    run.record
        .notes
        .extend(counters::uncounted(root, run.record));
    drives::begin(root, run.record);
    let all = run.all();
    let all = all.and_then(|ended| run.look().map(|()| ended));
    let (ended, refused) = or_in_use(all)?;
    drives::end(root, run.record);
    run.record.run.ended = Some(ended);
    run.publish()?;
    refused.map_or(Ok(()), Err)
}

struct Run<'a> {
    root: &'a Root,
    begun_ns: u64,
    random: fastrand::Rng,
    /// The length of all stretches so far.
    done: Duration,
    lookout: Lookout,
    record: &'a mut Record,
    grounds: &'a mut WorkloadDirs,
    plan: &'a WorkloadPlan,
    stop: &'a AtomicBool,
    watch: &'a mut dyn Watch,
}

impl Run<'_> {
    fn all(&mut self) -> anyhow::Result<Ended> {
        for repetition in 0..self.plan.repeat {
            for (at, side) in self.order() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(Ended::Interrupted);
                }
                if !self.grounds.grounds[at].has_failed {
                    let before = self.record.timelines.len();
                    self.one(repetition, at, side)?;
                    let elapsed_ns = monotonic_ns() - self.begun_ns;
                    let changes = settings::changed(self.root, self.record, elapsed_ns);
                    if !changes.is_empty() {
                        self.record.timelines.truncate(before);
                        self.record.notes.extend(changes);
                        return Ok(Ended::Changed);
                    }
                }
            }
            if self.grounds.grounds.iter().all(|ground| ground.has_failed) {
                return Ok(Ended::Failed);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(Ended::Interrupted);
            }
            self.record.run.rounds = repetition + 1;
        }
        Ok(Ended::Rounds)
    }

    fn order(&mut self) -> Vec<(usize, Side)> {
        let grounds = self.grounds.grounds.iter().enumerate();
        let mut order: Vec<(usize, Side)> = grounds
            .flat_map(|(at, ground)| ground.sides().into_iter().map(move |side| (at, side)))
            .collect();
        self.random.shuffle(&mut order);
        order
    }

    fn one(&mut self, repetition: u32, at: usize, side: Side) -> anyhow::Result<()> {
        self.look()?;
        let duration = side.duration(self.plan);
        let context = Context {
            root: self.root,
            begun_ns: self.begun_ns,
            repetition,
            seed: self.random.u64(..),
            payload: self.record.run.payload,
            stop: self.stop,
        };
        let total = self.total();
        let ground = &self.grounds.grounds[at];
        let what = name(&ground.target, &ground.workload, side);
        let (done, watch) = (self.done, &mut *self.watch);
        let (lookout, device) = (&mut self.lookout, &self.grounds.device);
        let mut refused = None;
        let mut told = |into: Duration| {
            let over = done + into.min(duration);
            watch.tick(&Progress {
                what: &what,
                share: over.as_secs_f64() / total.as_secs_f64(),
                left: total.saturating_sub(over),
            });
            if refused.is_none() {
                refused = lookout.look(device).err();
            }
            refused.is_none()
        };
        pulse::does(&what);
        let timeline = stretch(self.grounds, at, side, duration, &context, &mut told)?;
        if let Some(refusal) = refused {
            return Err(SetupError::from(refusal).into());
        }
        self.done += duration;
        self.grounds.grounds[at].has_failed |= timeline.failed.is_some();
        if timeline.ops > 0 || timeline.failed.is_some() {
            self.record.timelines.push(timeline);
        }
        self.publish()
    }

    /// Sees whether the device that was named came into use.
    fn look(&mut self) -> anyhow::Result<()> {
        let looked = self.lookout.look_now(&self.grounds.device);
        Ok(looked.map_err(SetupError::from)?)
    }

    /// The length of all stretches, all repetitions together.
    fn total(&self) -> Duration {
        let all = self.grounds.grounds.iter().flat_map(WorkloadDir::sides);
        let once: Duration = all.map(|side| side.duration(self.plan)).sum();
        once * self.plan.repeat
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        self.record.run.elapsed_ns = monotonic_ns() - self.begun_ns;
        self.watch.after_stretch(self.record)
    }
}
