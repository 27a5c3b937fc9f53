//! Tries claims one after the other: brings the drive into the claim's state, then measures the
//! claim's cell and its synchronous counterpart in alternating slices.

use crate::model::claims::{SteadyRound, Trial};
use crate::model::record::{Cell, Ended, Note, Record};

use super::claims::is_steady;
use super::precondition::{self, Failure, MAX_ROUNDS, Stage};
use super::request::or_in_use;
use super::rounds::{self, Hooks, Pace, Progress, Slicer};
use super::slice::{Outcome, SliceError, SliceParams};
use super::traced::TracedSlice;

/// How to try claims.
#[derive(Clone, Copy, Debug)]
pub struct TrialPlan {
    /// How long each is measured.
    pub pace: Pace,
    /// Which cell of the slicer writes the drive twice over before a claim on its steady state, its
    /// span and the size of its writes; none: the drive is taken as written.
    pub fill: Option<(usize, u64, u64)>,
    /// The length of a round on the way to the steady state.
    pub round_ns: u64,
}

/// What is told while claims are tried, and asked.
pub trait Watch {
    /// Goes on for the claims at these places of the claims file.
    fn stage(&mut self, claims: &[usize], stage: &Stage);

    /// A slice is about to run; `part` is the record of the cells that are measured now.
    fn before_slice(&mut self, claims: &[usize], progress: &Progress, part: &Record);

    /// There is more in the record.
    fn save(&mut self, record: &Record) -> anyhow::Result<()>;

    /// Is every figure of these claims precise enough, by the rounds of `part`?
    fn precise(&self, claims: &[usize], part: &Record) -> bool;

    /// Do these rounds show a steady state, for each of these claims?
    fn steady(&self, claims: &[usize], record: &Record, rounds: &[SteadyRound]) -> bool;

    /// Has a signal come?
    fn interrupted(&self) -> bool;
}

/// Claims that are tried by the same cells.
struct Group {
    claims: Vec<usize>,
    /// Places in the record of the claim's cell and, if there is one, of its counterpart.
    cells: Vec<usize>,
    steady: bool,
}

/// Tries all claims of `record` that have cells. The record is complete after each round.
pub fn validate(
    record: &mut Record,
    slicer: &mut dyn Slicer,
    course: &TrialPlan,
    watch: &mut dyn Watch,
) -> anyhow::Result<()> {
    let groups = groups(record);
    let mut run = Run {
        begun_ns: slicer.now_ns(),
        rng: fastrand::Rng::with_seed(record.run.seed),
        record,
        slicer,
        course,
        watch,
    };
    let all = run.all(&groups);
    let (ended, refused) = or_in_use(all)?;
    run.record.run.ended = Some(ended);
    run.slicer.end(run.record);
    run.publish()?;
    refused.map_or(Ok(()), Err)
}

/// What ended the whole of a run of which parts ended so.
fn worse(one: Ended, other: Ended) -> Ended {
    let rank = |ended: Ended| match ended {
        Ended::Precise => 0,
        Ended::Rounds => 1,
        Ended::Budget => 2,
        Ended::Failed => 3,
        Ended::Changed => 4,
        Ended::Interrupted => 5,
        Ended::InUse => 6,
        Ended::Stalled => 7,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// Those on a drive as it is come first, since what makes it steady can't be undone.
fn groups(record: &Record) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let place = |id: &String| record.cells.iter().position(|cell| cell.spec.id == *id);
    let trials = record.validation.iter().flat_map(|v| &v.trials);
    for (claim, trial) in trials.enumerate() {
        let ids = trial.cell.iter().chain(&trial.durable_cell);
        let cells: Vec<usize> = ids.filter_map(place).collect();
        let Some(&first) = cells.first() else {
            continue;
        };
        match groups.iter_mut().find(|group| group.cells == cells) {
            Some(group) => group.claims.push(claim),
            None => groups.push(Group {
                claims: vec![claim],
                steady: is_steady(&record.cells[first].spec),
                cells,
            }),
        }
    }
    groups.sort_by_key(|group| group.steady);
    groups
}

struct Run<'a> {
    begun_ns: u64,
    rng: fastrand::Rng,
    record: &'a mut Record,
    slicer: &'a mut dyn Slicer,
    course: &'a TrialPlan,
    watch: &'a mut dyn Watch,
}

impl Run<'_> {
    fn all(&mut self, groups: &[Group]) -> anyhow::Result<Ended> {
        let mut ended = Ended::Precise;
        for group in groups {
            if self.watch.interrupted() {
                return Ok(Ended::Interrupted);
            }
            ended = worse(ended, self.group(group)?);
            if ended == Ended::Changed {
                break;
            }
        }
        Ok(ended)
    }

    fn group(&mut self, group: &Group) -> anyhow::Result<Ended> {
        if group.steady {
            match self.precondition(group) {
                Ok(()) => {}
                Err(Failure::Fatal(error)) => return Err(error),
                Err(Failure::Claim(_)) if self.watch.interrupted() => {}
                Err(Failure::Claim(why)) => {
                    for &cell in &group.cells {
                        self.record.cells[cell].failed = Some(why.clone());
                    }
                    return Ok(Ended::Failed);
                }
            }
            if self.watch.interrupted() {
                return Ok(Ended::Interrupted);
            }
        }
        self.measure(group)
    }

    fn precondition(&mut self, group: &Group) -> Result<(), Failure> {
        let Run { slicer, watch, .. } = self;
        if let Some((cell, span_bytes, size_bytes)) = self.course.fill {
            let mut more = |stage: Stage| {
                watch.stage(&group.claims, &stage);
                !watch.interrupted()
            };
            let filled =
                precondition::fill(&mut **slicer, cell, (span_bytes, size_bytes), &mut more)?;
            self.each_trial(group, |trial| trial.filled = Some(filled.clone()));
            self.publish().map_err(Failure::Fatal)?;
        }
        let mut rounds: Vec<SteadyRound> = Vec::new();
        while rounds.len() < MAX_ROUNDS && !self.watch.interrupted() {
            let Run { slicer, watch, .. } = self;
            let mut more = |stage: Stage| {
                watch.stage(&group.claims, &stage);
                !watch.interrupted()
            };
            let Some(round) = precondition::round(
                &mut **slicer,
                group.cells[0],
                rounds.len(),
                self.course.round_ns,
                &mut self.rng,
                &mut more,
            )?
            else {
                break;
            };
            rounds.push(round);
            self.each_trial(group, |trial| trial.rounds.clone_from(&rounds));
            self.publish().map_err(Failure::Fatal)?;
            if self.watch.steady(&group.claims, self.record, &rounds) {
                break;
            }
        }
        Ok(())
    }

    fn each_trial(&mut self, group: &Group, change: impl Fn(&mut Trial)) {
        let validation = self.record.validation.iter_mut();
        let trials = validation.flat_map(|validation| &mut validation.trials);
        for (index, trial) in trials.enumerate() {
            if group.claims.contains(&index) {
                change(trial);
            }
        }
    }

    /// Alternating slices of the group's cells.
    fn measure(&mut self, group: &Group) -> anyhow::Result<Ended> {
        let mut part = self.record.clone();
        part.cells = group
            .cells
            .iter()
            .map(|&at| self.record.cells[at].clone())
            .collect();
        part.notes = Vec::new();
        part.run.rounds = 0;
        part.run.seed = self.rng.u64(..);
        let offset_ns = self.slicer.now_ns() - self.begun_ns;
        let mut slicer = Part {
            slicer: &mut *self.slicer,
            cells: &group.cells,
            goes_on: group.steady,
        };
        let mut hooks = PartHooks {
            before: (self.record.run.rounds, offset_ns),
            notes: self.record.notes.len(),
            record: &mut *self.record,
            watch: &mut *self.watch,
            group,
        };
        rounds::run(&mut part, &mut slicer, &self.course.pace, &mut hooks)?;
        Ok(part.run.ended.unwrap_or(Ended::Failed))
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        self.record.run.elapsed_ns = self.slicer.now_ns() - self.begun_ns;
        self.watch.save(self.record)
    }
}

/// Some cells of a slicer.
struct Part<'a> {
    slicer: &'a mut dyn Slicer,
    cells: &'a [usize],
    /// Sequential cells go on where they ended: begun anew in every slice, they would be less
    /// sequential than the workload that made the drive steady.
    goes_on: bool,
}

impl Slicer for Part<'_> {
    fn now_ns(&self) -> u64 {
        self.slicer.now_ns()
    }

    fn slice(&mut self, index: usize, ask: &SliceParams) -> Result<Outcome, SliceError> {
        let ask = SliceParams {
            goes_on: self.goes_on,
            ..*ask
        };
        self.slicer.slice(self.cells[index], &ask)
    }

    fn temperature_c(&self, index: usize) -> Option<f64> {
        self.slicer.temperature_c(self.cells[index])
    }

    fn traced(
        &mut self,
        index: usize,
        ask: &SliceParams,
    ) -> Result<Option<TracedSlice>, SliceError> {
        self.slicer.traced(self.cells[index], ask)
    }

    fn look(&mut self, is_over: bool) -> anyhow::Result<()> {
        self.slicer.look(is_over)
    }

    fn changed(&mut self, record: &Record, elapsed_ns: u64) -> Vec<Note> {
        self.slicer.changed(record, elapsed_ns)
    }
}

/// Brings what a part measured into the record.
struct PartHooks<'a> {
    /// Rounds and time before this part.
    before: (u32, u64),
    /// Notes before this part.
    notes: usize,
    record: &'a mut Record,
    watch: &'a mut dyn Watch,
    group: &'a Group,
}

impl Hooks for PartHooks<'_> {
    fn before_slice(&mut self, progress: &Progress, part: &Record) {
        self.watch.before_slice(&self.group.claims, progress, part);
    }

    fn after_round(&mut self, part: &Record) -> anyhow::Result<()> {
        let (rounds, offset_ns) = self.before;
        for (&place, cell) in self.group.cells.iter().zip(&part.cells) {
            self.record.cells[place] = later(cell, offset_ns);
        }
        self.record.notes.truncate(self.notes);
        for note in &part.notes {
            if !self.record.notes.contains(note) {
                self.record.notes.push(note.clone());
            }
        }
        self.record.run.rounds = rounds + part.run.rounds;
        self.record.run.elapsed_ns = offset_ns + part.run.elapsed_ns;
        self.watch.save(self.record)
    }

    fn precise(&self, part: &Record) -> bool {
        self.watch.precise(&self.group.claims, part)
    }

    fn interrupted(&self) -> bool {
        self.watch.interrupted()
    }
}

/// A cell of a part that began after so long.
fn later(cell: &Cell, offset_ns: u64) -> Cell {
    let mut cell = cell.clone();
    for slice in cell.slices.iter_mut().chain(&mut cell.stalled) {
        slice.started_ns += offset_ns;
    }
    cell
}

#[cfg(test)]
mod tests;
