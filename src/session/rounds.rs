//! The rounds: which cell runs when, for how long, and when to stop.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::model::cell::Axes;
use crate::model::histogram::LatencyNs;
use crate::model::histogram::encode;
use crate::model::record::{Ended, Level, Note, Record, Slice};
use crate::model::sample::latency_histogram;
use crate::model::units::show_ns;

use super::request::or_in_use;
use super::slice::{Outcome, SliceError, SliceParams};
use super::traced::{self, TracedSlice, TracedSlices};

/// Runs slices of cells. The real one is [`super::Bench`]; tests have one whose truth is known.
pub trait Slicer {
    /// The time, in nanoseconds, on the clock that slices last on.
    fn now_ns(&self) -> u64;

    /// Runs the cell at `index` of the record once.
    fn slice(&mut self, index: usize, ask: &SliceParams) -> Result<Outcome, SliceError>;

    /// The temperature of the drive that the cell at `index` writes; none where none is told.
    fn temperature_c(&self, _index: usize) -> Option<f64> {
        None
    }

    /// Runs the cell at `index` once with the kernel's events recorded; none where they aren't.
    fn traced(
        &mut self,
        _index: usize,
        _ask: &SliceParams,
    ) -> Result<Option<TracedSlice>, SliceError> {
        Ok(None)
    }

    /// Sees whether a device that is written came into use, which ends the run. Asked before each
    /// slice, when it looks if it is time, and once the last one `is_over`.
    fn look(&mut self, _is_over: bool) -> anyhow::Result<()> {
        Ok(())
    }

    /// What changed of the settings of what is measured, `elapsed_ns` into the run. Asked after each round.
    fn changed(&mut self, _record: &Record, _elapsed_ns: u64) -> Vec<Note> {
        Vec::new()
    }

    /// Does nothing for a moment, and adds to the record what others did meanwhile. The last round took
    /// `round_ns`.
    fn idle(&mut self, _record: &mut Record, _round_ns: u64) {}

    /// The last slice is done: completes what the record has of the whole run.
    fn end(&mut self, _record: &mut Record) {}
}

/// What the rounds tell while they go on, and ask.
pub trait Hooks {
    /// A slice is about to run.
    fn before_slice(&mut self, progress: &Progress, record: &Record);

    /// A round is complete, or the run ended; the record is as it would be reported.
    fn after_round(&mut self, record: &Record) -> anyhow::Result<()>;

    /// Is every figure precise enough?
    fn precise(&self, record: &Record) -> bool;

    /// Has a signal come?
    fn interrupted(&self) -> bool;
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Which round, from 0; none in the warm-up.
    pub round: Option<u32>,
    /// Which cell of the record.
    pub cell: usize,
    /// Time since the run began.
    pub elapsed: Duration,
}

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time for the run.
    pub budget_ns: u64,
    /// Fewest rounds, whatever the budget.
    pub min_rounds: u32,
    /// Just so many rounds, whatever the precision and the budget.
    pub rounds: Option<u32>,
}

/// A slice is this long where the device is fast: thousands of writes for the quantiles of one
/// slice, and dozens of rounds in a minute for the interval.
const SLICE_NS: u64 = 60_000_000;
/// A slice has this many operations for each place in the queue where the device is slow. Those that fill
/// the queue, and those that drain it, find it shorter than it is asked to be: of a slice that is no
/// longer than that, the latencies are those of a shallower queue.
const SLICE_OPS: u64 = 16;
/// The warm-up of each cell ends after this time, and a slice is no shorter even where the budget is
/// used up: by then, what comes before and after it takes longer.
const LEAST_NS: u64 = 10_000_000;
/// Every so many rounds have a traced slice of each cell beside the measured one.
const TRACE_EVERY: u32 = 4;
/// A cell has so many traced slices at most.
const TRACED_SLICES: u32 = 8;
/// A traced slice ends after this time and [`SLICE_OPS`] operations, or [`traced::MAX_OPS`].
const TRACED_NS: u64 = 20_000_000;
/// No slice goes on for longer, however slow the device.
pub(super) const HARD_NS: u64 = 5_000_000_000;
/// In a slice that stood still, nothing completed for at least this long,
const STALL_NS: u64 = 2_000_000_000;
/// and for at least so many times as long as the cell's writes usually take. It is told and kept apart:
/// the figures are those of a device that answers.
const STALL_TIMES: u64 = 10;

/// What is known of a cell from the slices so far, the warm-up's included.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Time for each operation that was completed: with several in flight, less than one takes.
    op_ns: u64,
    /// Time of the last slice that was not measured: opening, preparing, counters.
    overhead_ns: u64,
    /// The shortest median latency of its slices.
    typical_ns: Option<u64>,
}

/// Measures all cells of `record` in rounds until precise, or the pace says so, or a signal comes.
/// The record is complete after each round; `record.run.ended` says why it ended.
pub fn run(
    record: &mut Record,
    slicer: &mut dyn Slicer,
    pace: &Pace,
    hooks: &mut dyn Hooks,
) -> anyhow::Result<()> {
    let mut rounds = Rounds {
        begun_ns: slicer.now_ns(),
        sums: vec![latency_histogram(); record.cells.len()],
        known: vec![Known::default(); record.cells.len()],
        traced: record
            .cells
            .iter()
            .map(|_| TracedSlices::default())
            .collect(),
        fresh: Vec::new(),
        fresh_traced: Vec::new(),
        random: fastrand::Rng::with_seed(record.run.seed),
        record,
        slicer,
        pace,
        hooks,
    };
    let all = rounds.all();
    let all = all.and_then(|ended| rounds.slicer.look(true).map(|()| ended));
    let (ended, refused) = or_in_use(all)?;
    rounds.record.run.ended = Some(ended);
    rounds.slicer.end(rounds.record);
    rounds.publish()?;
    refused.map_or(Ok(()), Err)
}

struct Rounds<'a> {
    begun_ns: u64,
    sums: Vec<Histogram<u64>>,
    known: Vec<Known>,
    traced: Vec<TracedSlices>,
    /// The slices of the round that goes on, by cell.
    fresh: Vec<(usize, Slice, Histogram<u64>)>,
    fresh_traced: Vec<(usize, TracedSlice)>,
    random: fastrand::Rng,
    record: &'a mut Record,
    slicer: &'a mut dyn Slicer,
    pace: &'a Pace,
    hooks: &'a mut dyn Hooks,
}

impl Rounds<'_> {
    fn all(&mut self) -> anyhow::Result<Ended> {
        self.warm_up()?;
        let mut round_ns = 0;
        for round in 0.. {
            if self.working().is_empty() {
                return Ok(Ended::Failed);
            }
            let begun_ns = self.slicer.now_ns();
            self.slicer.idle(self.record, round_ns);
            let whole = self.round(round);
            if self.has_changed() {
                return whole.map(|_| Ended::Changed);
            }
            self.keep_round()?;
            if !whole? {
                return Ok(Ended::Interrupted);
            }
            self.record.run.rounds = round + 1;
            self.publish()?;
            round_ns = self.slicer.now_ns() - begun_ns;
            if let Some(ended) = self.ended(round + 1, round_ns) {
                return Ok(ended);
            }
        }
        Ok(Ended::Rounds)
    }

    /// Why the run ends after `rounds` rounds, the last of which took `round_ns`; none if it goes
    /// on.
    fn ended(&self, rounds: u32, round_ns: u64) -> Option<Ended> {
        if let Some(wanted) = self.pace.rounds {
            return (rounds >= wanted).then_some(Ended::Rounds);
        }
        if rounds < self.pace.min_rounds {
            return None;
        }
        if self.hooks.precise(self.record) {
            return Some(Ended::Precise);
        }
        let after_next_ns = self.slicer.now_ns() - self.begun_ns + round_ns;
        (after_next_ns > self.pace.budget_ns).then_some(Ended::Budget)
    }

    /// Runs each cell once without keeping what it measures: the first writes of a file or device
    /// pay for what later ones find done, and how long an operation takes decides how long slices
    /// are. What io_uring hands to worker threads is counted here, where its cost does no harm.
    fn warm_up(&mut self) -> anyhow::Result<()> {
        let ask = SliceParams {
            seed: self.random.u64(..),
            time_ns: LEAST_NS,
            min_ops: 1,
            hard_ns: HARD_NS,
            max_ops: u64::MAX,
            count_handed: true,
            goes_on: false,
        };
        for index in self.working() {
            if self.hooks.interrupted() {
                break;
            }
            if let Some((_, outcome)) = self.slice(None, index, &ask)? {
                self.record.cells[index].handed = outcome.handed;
            }
        }
        Ok(())
    }

    /// One slice of each working cell. False if a signal ended it early.
    fn round(&mut self, round: u32) -> anyhow::Result<bool> {
        let mut order = self.working();
        self.random.shuffle(&mut order);
        let seed = self.random.u64(..);
        let share_ns = self.share_ns(round, order.len());
        for (position, index) in order.into_iter().enumerate() {
            if self.hooks.interrupted() {
                return Ok(false);
            }
            let places = places(&self.record.cells[index].spec.axes);
            let time_ns = slice_ns(self.known[index], places, share_ns);
            let ask = SliceParams {
                seed,
                time_ns,
                min_ops: 1,
                hard_ns: time_ns.max(HARD_NS),
                max_ops: u64::MAX,
                count_handed: false,
                goes_on: false,
            };
            if let Some((started_ns, outcome)) = self.slice(Some(round), index, &ask)? {
                let mut slice = outcome.slice;
                slice.round = round;
                slice.position = position as u32;
                slice.started_ns = started_ns;
                slice.histogram_v2 = encode(&outcome.histogram);
                match self.stall(index, &slice) {
                    Some(note) => {
                        self.record.notes.push(note);
                        self.record.cells[index].stalled.push(slice);
                    }
                    None => self.fresh.push((index, slice, outcome.histogram)),
                }
            }
        }
        if round % TRACE_EVERY == 1 && round / TRACE_EVERY < TRACED_SLICES {
            self.trace(round, seed)?;
        }
        Ok(!self.hooks.interrupted())
    }

    /// One traced slice of each working cell, in an order of its own.
    fn trace(&mut self, round: u32, seed: u64) -> anyhow::Result<()> {
        let mut order = self.working();
        self.random.shuffle(&mut order);
        for index in order {
            if self.hooks.interrupted() {
                break;
            }
            let ask = SliceParams {
                seed,
                time_ns: TRACED_NS,
                min_ops: SLICE_OPS,
                hard_ns: HARD_NS,
                max_ops: traced::MAX_OPS as u64,
                count_handed: false,
                goes_on: false,
            };
            self.slicer.look(false)?;
            self.tell(Some(round), index);
            match self.slicer.traced(index, &ask) {
                Ok(Some(slice)) => {
                    // Only where the warm-up could count them has the kernel events of them.
                    let handed = &mut self.record.cells[index].handed;
                    if let (Some(sum), Some(more)) = (handed, slice.handed()) {
                        *sum = sum.plus(&more);
                    }
                    self.fresh_traced.push((index, slice));
                }
                Ok(None) => {}
                Err(SliceError::Cell(why)) => self.record.cells[index].failed = Some(why),
                Err(SliceError::Fatal(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells that a slice is about to run, and gives the time since the run began.
    fn tell(&mut self, round: Option<u32>, cell: usize) -> u64 {
        let started_ns = self.slicer.now_ns() - self.begun_ns;
        let progress = Progress {
            round,
            cell,
            elapsed: Duration::from_nanos(started_ns),
        };
        self.hooks.before_slice(&progress, self.record);
        started_ns
    }

    /// What is left of the budget for each slice of `cells` cells from `round` on, if there are just
    /// the fewest rounds, or as many as were asked for.
    fn share_ns(&self, round: u32, cells: usize) -> u64 {
        let used_ns = self.slicer.now_ns() - self.begun_ns;
        let rounds = self.pace.rounds.unwrap_or(self.pace.min_rounds);
        let slices = u64::from(rounds.saturating_sub(round).max(1)) * cells as u64;
        self.pace.budget_ns.saturating_sub(used_ns) / slices.max(1)
    }

    /// Runs one slice: when it began, since the run's begin, and what it gave. A failed cell is
    /// marked in the record; what it measured before it failed is kept.
    fn slice(
        &mut self,
        round: Option<u32>,
        cell: usize,
        ask: &SliceParams,
    ) -> anyhow::Result<Option<(u64, Outcome)>> {
        self.slicer.look(false)?;
        let started_ns = self.tell(round, cell);
        match self.slicer.slice(cell, ask) {
            Ok(outcome) => {
                let all_ns = self.slicer.now_ns() - self.begun_ns - started_ns;
                self.learn(cell, &outcome, all_ns);
                self.record.cells[cell].failed.clone_from(&outcome.failed);
                for note in &outcome.notes {
                    if !self.record.notes.contains(note) {
                        self.record.notes.push(note.clone());
                    }
                }
                Ok((outcome.slice.ops > 0).then_some((started_ns, outcome)))
            }
            Err(SliceError::Cell(why)) => {
                self.record.cells[cell].failed = Some(why);
                Ok(None)
            }
            Err(SliceError::Fatal(error)) => Err(error),
        }
    }

    /// The slice took `all_ns`.
    fn learn(&mut self, index: usize, outcome: &Outcome, all_ns: u64) {
        let (cell, slice) = (&self.record.cells[index], &outcome.slice);
        // A stall says nothing of how long the next slice must be.
        let wait_ns = slice.longest_wait_ns.filter(|&wait| wait >= STALL_NS);
        let busy_ns = slice.elapsed_ns.saturating_sub(wait_ns.unwrap_or(0));
        let median_ns = (slice.ops > 0).then(|| outcome.histogram.value_at_quantile(0.5));
        let before_ns = self.known[index].typical_ns;
        self.known[index] = Known {
            op_ns: (cell.elapsed_ns + busy_ns) / (cell.ops + slice.ops).max(1),
            overhead_ns: all_ns.saturating_sub(slice.elapsed_ns),
            typical_ns: before_ns.into_iter().chain(median_ns).min(),
        };
    }

    /// What is to be told of a slice in which the device or the kernel stood still; none of others.
    fn stall(&self, index: usize, slice: &Slice) -> Option<Note> {
        let wait_ns = slice.longest_wait_ns?;
        let typical_ns = self.known[index].typical_ns?;
        let is_long = wait_ns >= STALL_NS.max(typical_ns.saturating_mul(STALL_TIMES));
        let spec = &self.record.cells[index].spec;
        let who = match slice.rescued {
            0 if is_long => {
                "the device, or what is above it, stood still: see the kernel's log of that time"
            }
            0 => return None,
            _ => {
                "the kernel's io_uring workers had lost a request, as Linux 6.18.11 and later may, and \
                 completed it once they were woken: this is not the device's doing"
            }
        };
        Some(Note {
            level: Level::Warning,
            target: Some(spec.target.clone()),
            text: format!(
                "{}: nothing completed for {}, in a slice that began {} into the run and is left out of \
                 the figures; {who}",
                spec.id,
                show_ns(wait_ns as f64),
                show_ns(slice.started_ns as f64),
            ),
        })
    }

    /// A setting is not what it was: that is noted, and the round that was measured under both is dropped.
    fn has_changed(&mut self) -> bool {
        let elapsed_ns = self.slicer.now_ns() - self.begun_ns;
        let notes = self.slicer.changed(self.record, elapsed_ns);
        let has_changed = !notes.is_empty();
        if has_changed {
            self.fresh.clear();
            self.fresh_traced.clear();
        }
        self.record.notes.extend(notes);
        has_changed
    }

    fn keep_round(&mut self) -> anyhow::Result<()> {
        for (index, slice) in std::mem::take(&mut self.fresh_traced) {
            self.traced[index].add(slice);
        }
        for (index, slice, histogram) in std::mem::take(&mut self.fresh) {
            self.keep(index, slice, &histogram)?;
        }
        Ok(())
    }

    /// Adds a slice to its cell and to the cell's totals.
    fn keep(
        &mut self,
        index: usize,
        slice: Slice,
        histogram: &Histogram<u64>,
    ) -> anyhow::Result<()> {
        self.sums[index].add(histogram)?;
        let cell = &mut self.record.cells[index];
        cell.ops += slice.ops;
        cell.bytes += slice.bytes;
        cell.elapsed_ns += slice.elapsed_ns;
        cell.out_of_range += slice.out_of_range;
        if cell.elapsed_ns > 0 && cell.ops > 0 {
            let seconds = cell.elapsed_ns as f64 / 1e9;
            // Empty flushes write nothing.
            cell.throughput_bytes_per_s = (cell.bytes > 0).then(|| cell.bytes as f64 / seconds);
            cell.iops = Some(cell.ops as f64 / seconds);
        }
        cell.latency_ns = LatencyNs::of(&self.sums[index]);
        cell.slices.push(slice);
        Ok(())
    }

    /// Brings the record's totals up to date and hands it out.
    fn publish(&mut self) -> anyhow::Result<()> {
        self.record.run.elapsed_ns = self.slicer.now_ns() - self.begun_ns;
        for (cell, sum) in self.record.cells.iter_mut().zip(&self.sums) {
            cell.histogram_v2 = encode(sum);
        }
        for (cell, kept) in self.record.cells.iter_mut().zip(&self.traced) {
            cell.traced = kept.traced(&cell.spec);
        }
        self.hooks.after_round(self.record)
    }

    /// The cells that did not fail.
    fn working(&self) -> Vec<usize> {
        let cells = self.record.cells.iter().enumerate();
        cells
            .filter(|(_, cell)| cell.failed.is_none())
            .map(|(index, _)| index)
            .collect()
    }
}

/// Operations that a closed loop keeps in flight; an open loop's arrivals come one by one.
fn places(axes: &Axes) -> u64 {
    match axes.rate_per_s {
        None => u64::from(axes.queue_depth) * u64::from(axes.jobs),
        Some(_) => 1,
    }
}

/// How long a slice is: long enough for [`SLICE_OPS`] operations in each of `places`, and no longer than
/// fits its share of the budget, if that is worth its while.
fn slice_ns(known: Known, places: u64, share_ns: u64) -> u64 {
    let ops = SLICE_OPS.saturating_mul(places);
    let wanted_ns = SLICE_NS.max(known.op_ns.saturating_mul(ops));
    let fitting_ns = share_ns.saturating_sub(known.overhead_ns);
    wanted_ns.min(fitting_ns.max(LEAST_NS))
}

#[cfg(test)]
mod tests;
