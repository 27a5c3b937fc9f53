//! Claims that share cells, fail or are cut short, on a virtual clock.

use super::*;
use crate::model::claims::{Claim, ClaimedDevice, Claims, Conditions, Validation};
use crate::model::fixture::Builder;
use crate::session::fixture::{Device, MS, device};

const PACE: Pace = Pace {
    budget_ns: 2_000 * MS,
    min_rounds: 8,
    rounds: None,
};
const ROUND_NS: u64 = 100 * MS;

/// The drive is steady after so many rounds; a signal comes before this slice or stretch.
struct Watching {
    steady_after: usize,
    signal: u64,
    saved: u32,
}

impl Watch for Watching {
    fn stage(&mut self, _: &[usize], _: &Stage) {
        self.signal = self.signal.saturating_sub(1);
    }

    fn before_slice(&mut self, _: &[usize], _: &Progress, _: &Record) {
        self.signal = self.signal.saturating_sub(1);
    }

    fn save(&mut self, _: &Record) -> anyhow::Result<()> {
        self.saved += 1;
        Ok(())
    }

    fn precise(&self, _: &[usize], _: &Record) -> bool {
        false
    }

    fn steady(&self, _: &[usize], _: &Record, rounds: &[SteadyRound]) -> bool {
        rounds.len() >= self.steady_after
    }

    fn interrupted(&self) -> bool {
        self.signal == 0
    }
}

/// Four claims: on a steady drive, two by the same cells, and one that is not tried.
fn claimed() -> Record {
    let mut builder = Builder::new("validate").device("raw");
    for index in 0..4 {
        builder = builder.cell("raw", None, 512 + index, 1.0, 1);
    }
    let mut record = builder.record;
    record.run.rounds = 0;
    for cell in &mut record.cells {
        *cell = Cell::new(cell.spec.clone());
    }
    for cell in &mut record.cells[..2] {
        cell.spec.id += "/steady";
    }
    let id = |cell: usize| Some(record.cells[cell].spec.id.clone());
    let trial = |cell, durable_cell| Trial {
        cell,
        durable_cell,
        ..Trial::default()
    };
    let trials = vec![
        trial(id(0), id(1)),
        trial(id(2), id(3)),
        trial(id(2), id(3)),
        trial(None, None),
    ];
    let claim = |number: usize| Claim {
        name: format!("claim {number}"),
        capacities_bytes: Vec::new(),
        conditions: Conditions::default(),
        bound: None,
    };
    record.validation = Some(Validation {
        claims: Claims {
            name: "claims".to_owned(),
            about: "claims".to_owned(),
            device: ClaimedDevice::default(),
            claims: (0..4).map(claim).collect(),
            unsaid: Vec::new(),
        },
        as_if: false,
        purged: false,
        trials,
    });
    record
}

fn ran(device: &mut Device, steady_after: usize, signal: u64, fill: bool) -> (Record, u32) {
    let mut record = claimed();
    let course = TrialPlan {
        pace: PACE,
        fill: fill.then_some((4, 1 << 20, 4096)),
        round_ns: ROUND_NS,
    };
    let mut watching = Watching {
        steady_after,
        signal,
        saved: 0,
    };
    validate(&mut record, device, &course, &mut watching).unwrap();
    (record, watching.saved)
}

fn trials(record: &Record) -> &[Trial] {
    &record.validation.as_ref().unwrap().trials
}

#[test]
fn claims_on_the_drive_as_it_is_come_first_and_one_time_for_all_that_share_cells() {
    let (record, saved) = ran(&mut device(10 * MS, MS), 5, u64::MAX, true);
    assert_eq!(record.run.ended, Some(Ended::Budget));
    let slices = |cell: usize| record.cells[cell].slices.len();
    assert_eq!([0, 1, 2, 3].map(slices), [8; 4]);
    assert_eq!(record.run.rounds, 16);
    let starts = |cell: usize| -> Vec<u64> {
        let all = record.cells[cell].slices.iter();
        all.map(|slice| slice.started_ns).collect()
    };
    let last_of_first = starts(2).into_iter().chain(starts(3)).max().unwrap();
    let first_of_last = starts(0).into_iter().chain(starts(1)).min().unwrap();
    let trials = trials(&record);
    assert_eq!(trials[0].rounds.len(), 5);
    let filled = trials[0].filled.as_ref().unwrap();
    assert_eq!(filled.bytes, 2 << 20);
    assert!(trials[1..].iter().all(|trial| trial.filled.is_none()));
    // Times are the run's, not the claim's.
    let steady_ns = 5 * ROUND_NS + filled.elapsed_ns;
    assert!(first_of_last > last_of_first + steady_ns, "{first_of_last}");
    assert!(record.run.elapsed_ns > first_of_last);
    // After each round, each round until steady, the filling, the end of either group, and the end.
    assert_eq!(saved, 16 + 5 + 1 + 2 + 1);
}

#[test]
fn a_drive_that_cannot_be_written_in_order_fails_its_claims_alone() {
    let mut device = device(10 * MS, MS);
    // Two warm-up slices, eight rounds of two cells, and the first stretch of the filling.
    device.fails = Some(18);
    let (record, _) = ran(&mut device, 5, u64::MAX, true);
    assert_eq!(record.run.ended, Some(Ended::Failed));
    let failed = |cell: usize| record.cells[cell].failed.as_deref();
    let broke = Some("it broke");
    assert_eq!([0, 1, 2, 3].map(failed), [broke, broke, None, None]);
    assert_eq!(record.run.rounds, 8);
}

#[test]
fn a_signal_while_the_drive_becomes_steady_ends_the_run_without_a_failure() {
    // In the third round until steady: two warm-up slices, sixteen others and four traced ones come first.
    let (record, _) = ran(&mut device(10 * MS, MS), 5, 25, false);
    assert_eq!(record.run.ended, Some(Ended::Interrupted));
    assert!(record.cells.iter().all(|cell| cell.failed.is_none()));
    assert_eq!(trials(&record)[0].rounds.len(), 2);
    assert!(record.cells[0].slices.is_empty());
}

#[test]
fn a_setting_that_changes_ends_all_claims() {
    let mut device = device(10 * MS, MS);
    device.changes = Some(3);
    let (record, _) = ran(&mut device, 5, u64::MAX, false);
    assert_eq!(record.run.ended, Some(Ended::Changed));
    assert_eq!(record.run.rounds, 2);
    assert_eq!(record.cells[2].slices.len(), 2);
    assert!(trials(&record)[0].rounds.is_empty());
    assert_eq!(record.notes.len(), 1);
}
