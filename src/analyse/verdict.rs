//! Whether a drive keeps what is claimed of it.

use serde::Serialize;

use super::limits::binding_limits;
use crate::model::claims::{Bound, Claim, DriveState, Side, Trial, Validation};
use crate::model::record::{Cell, Record, Target};
use crate::plan::comparable::{cell_differs, drive_differs, open_conditions, unsaid};

use super::cliff::{Cliff, cliffs};
use super::figure::figure;
use super::interval::Interval;
use super::steady::{Window, last_window, tracked};

/// A verdict must be right in 99 of 100 runs, not in 95: intervals are widened by so much before they
/// are held against the bound. It is the ratio of the 99 % and 95 % quantiles of Student's t for the
/// fewest rounds that a run makes, 3.499 / 2.365; with more rounds, it is a little too careful.
const SURE: f64 = 1.48;
/// A run ends before its figure is precise if this many times the interval is on one side. Much more
/// than for the verdict, since each look at which it may end is another chance to be wrong.
const CLEAR: f64 = 3.0;

/// What is judged of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All of the confidence interval is within the bound.
    Holds,
    /// All of it is outside.
    Fails,
    /// It can't be told.
    Undecided,
    /// The claim is about something else.
    NotComparable,
    /// Nothing was measured.
    NotRun,
}

impl Outcome {
    /// As people write it.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Fails => "fails",
            Outcome::Undecided => "undecided",
            Outcome::NotComparable => "not comparable",
            Outcome::NotRun => "not run",
        }
    }
}

/// A claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim's place in its file, from 0.
    pub claim: usize,
    /// Its name.
    pub name: String,
    /// What is claimed; none where only conditions are given.
    pub bound: Option<Bound>,
    /// The judgement.
    pub outcome: Outcome,
    /// True if it holds, false if it fails, none otherwise.
    pub passed: Option<bool>,
    /// Why, unless the figures say it.
    pub reason: Option<String>,
    /// Differences that were set aside, a phrase each.
    pub as_if: Vec<String>,
    /// The claimed figure as it was measured, in the unit of the bound's figure.
    pub measured: Option<Interval>,
    /// The same where each write had to be durable.
    pub durable: Option<Interval>,
    /// What the claim leaves unsaid of its conditions.
    pub unsaid: Vec<&'static str>,
    /// The last measurement window of the rounds until the steady state.
    pub window: Option<Window>,
    /// Lasting drops of the throughput.
    pub cliffs: Vec<Cliff>,
}

/// The verdict on each claim of a record, in the order of its file; empty without claims.
pub fn verdicts(record: &Record) -> Vec<Verdict> {
    let Some(validation) = &record.validation else {
        return Vec::new();
    };
    let claims = validation.claims.claims.iter().zip(&validation.trials);
    claims
        .enumerate()
        .map(|(index, (claim, trial))| verdict(record, validation, index, claim, trial))
        .collect()
}

/// Each of these claims has its figure within ± `precision`, or clearly holds or fails.
pub fn are_known(record: &Record, claims: &[usize], precision: f64) -> bool {
    let is_known = |verdict: &Verdict| match (verdict.bound, verdict.measured) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(bound), Some(measured)) => {
            let share = measured.relative_half_width();
            within(&bound, measured.widened(CLEAR)).is_some()
                || share.is_some_and(|share| share <= precision)
        }
    };
    verdicts(record)
        .iter()
        .filter(|verdict| claims.contains(&verdict.claim))
        .all(is_known)
}

fn verdict(
    record: &Record,
    validation: &Validation,
    index: usize,
    claim: &Claim,
    trial: &Trial,
) -> Verdict {
    let find = |id: &Option<String>| {
        let id = id.as_ref()?;
        record.cells.iter().find(|cell| cell.spec.id == *id)
    };
    let cell = find(&trial.cell);
    let of = |cell: Option<&Cell>| figure(cell?, claim.bound?.figure);
    let measured = of(cell);
    let case = Case {
        limits: binding_limits(record),
        validation,
        claim,
        trial,
        target: record.targets.first(),
        cell,
        measured,
    };
    let (outcome, reason, as_if) = case.judge();
    Verdict {
        claim: index,
        name: claim.name.clone(),
        bound: claim.bound,
        outcome,
        passed: match outcome {
            Outcome::Holds => Some(true),
            Outcome::Fails => Some(false),
            _ => None,
        },
        reason,
        as_if,
        measured,
        durable: match &trial.durable_cell {
            Some(_) => of(find(&trial.durable_cell)),
            None => measured,
        },
        unsaid: unsaid(&claim.conditions),
        window: case.window(),
        cliffs: cliffs(trial, cell),
    }
}

/// All that a claim is judged by.
struct Case<'a> {
    limits: Vec<String>,
    validation: &'a Validation,
    claim: &'a Claim,
    trial: &'a Trial,
    target: Option<&'a Target>,
    cell: Option<&'a Cell>,
    measured: Option<Interval>,
}

impl Case<'_> {
    /// The outcome, why, and which differences were set aside.
    fn judge(&self) -> (Outcome, Option<String>, Vec<String>) {
        let differs = self.differences();
        if !differs.is_empty() && !self.validation.as_if {
            let reason = format!("{}; --as-if judges all the same", differs.join("; "));
            return (Outcome::NotComparable, Some(reason), Vec::new());
        }
        let (outcome, reason) = match self.not_run() {
            Some(why) => (Outcome::NotRun, Some(why)),
            None => self.weigh(),
        };
        let as_if = match outcome {
            Outcome::NotRun => Vec::new(),
            _ => differs,
        };
        (outcome, reason, as_if)
    }

    fn differences(&self) -> Vec<String> {
        let stack = self.target.map_or(&[][..], |target| &target.stack);
        let mut differs = drive_differs(&self.validation.claims, self.claim, stack);
        let device_bytes = stack.first().map_or(0, |device| device.size_bytes);
        let conditions = &self.claim.conditions;
        if let Some(cell) = self.cell {
            differs.extend(cell_differs(conditions, &cell.spec.axes, device_bytes));
        }
        differs.extend(self.limits.iter().cloned());
        let state = conditions.state;
        if state == Some(DriveState::Fresh)
            && !self.validation.purged
            && self.trial.not_run.is_none()
        {
            differs.push("the drive was not purged, the claim is about a fresh one".to_owned());
        }
        // Measured all the same, on a drive that nothing made steady.
        let was_measured = self.cell.is_some_and(|cell| cell.ops > 0);
        if state == Some(DriveState::Steady) && was_measured && self.trial.rounds.is_empty() {
            differs
                .push("the drive was not made steady, the claim is about a steady one".to_owned());
        }
        differs
    }

    fn not_run(&self) -> Option<String> {
        if let Some(why) = &self.trial.not_run {
            return Some(why.clone());
        }
        match self.cell {
            None => Some("it was not planned".to_owned()),
            Some(cell) if cell.ops == 0 => Some(match &cell.failed {
                Some(why) => why.clone(),
                None => "the run ended before it".to_owned(),
            }),
            Some(_) => None,
        }
    }

    fn weigh(&self) -> (Outcome, Option<String>) {
        let undecided = |why: String| (Outcome::Undecided, Some(why));
        let Some(bound) = self.claim.bound else {
            let why = "the claim names no figure".to_owned();
            return (Outcome::NotComparable, Some(why));
        };
        if let Some(why) = self.cell.and_then(|cell| cell.failed.as_ref()) {
            return undecided(format!("it failed on the way: {why}"));
        }
        if !self.trial.rounds.is_empty() && !self.window().is_some_and(|window| window.is_steady) {
            return undecided(format!(
                "the drive did not become steady in {} rounds",
                self.trial.rounds.len()
            ));
        }
        let Some(measured) = self.measured else {
            return undecided(
                "too few rounds, or too few writes beyond that percentile; a larger --budget gives \
                 more"
                    .to_owned(),
            );
        };
        match within(&bound, measured.widened(SURE)) {
            Some(true) if self.stood_still() > 0 => undecided(format!(
                "it holds but for {} slices in which the device stood still, which are in no figure",
                self.stood_still()
            )),
            Some(true) => (Outcome::Holds, None),
            Some(false) => self.misses(&bound),
            None => undecided(
                "the claimed figure is too near to be sure (99 %) of either; a larger --budget may tell"
                    .to_owned(),
            ),
        }
    }

    /// Slices that were left out because of the device.
    fn stood_still(&self) -> usize {
        let stalled = self.cell.into_iter().flat_map(|cell| &cell.stalled);
        stalled.filter(|slice| slice.rescued == 0).count()
    }

    /// The bound is not met: that fails the claim, unless it leaves open under which conditions.
    fn misses(&self, bound: &Bound) -> (Outcome, Option<String>) {
        let fresh = self.validation.purged;
        let axes = self.cell.map(|cell| &cell.spec.axes);
        let open = axes.map_or_else(Vec::new, |axes| {
            open_conditions(&self.claim.conditions, axes, bound.figure, fresh)
        });
        if open.is_empty() || self.validation.as_if {
            return (Outcome::Fails, None);
        }
        let how = match open.as_slice() {
            ["state"] => "; --purge measures the drive at its best",
            list if list.contains(&"queue depth") => "; try others with --queue-depth",
            ["jobs"] => "; try others with a claims file that says how many",
            _ => "",
        };
        let reason = format!(
            "not reached as measured, and the claim leaves open: {}{how}; --as-if judges all the same",
            open.join(", "),
        );
        (Outcome::NotComparable, Some(reason))
    }

    fn window(&self) -> Option<Window> {
        let figure = self.claim.bound.map(|bound| bound.figure);
        last_window(&tracked(&self.trial.rounds, figure))
    }
}

/// Whether all of the interval is on the bound's side; none where it straddles the bound.
fn within(bound: &Bound, measured: Interval) -> Option<bool> {
    let (holds, fails) = match bound.side {
        Side::AtLeast => (measured.low >= bound.value, measured.high < bound.value),
        Side::AtMost => (measured.high <= bound.value, measured.low > bound.value),
    };
    match (holds, fails) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
