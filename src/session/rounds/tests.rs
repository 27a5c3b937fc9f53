//! Rounds over a device that is slow, fails or is interrupted, on a virtual clock.

use super::*;
use crate::model::fixture::Builder;
use crate::model::record::Cell;
use crate::session::fixture::{Device, MS, device};

const BUDGET_NS: u64 = 60_000 * MS;

#[test]
fn a_setting_that_changes_ends_the_run_without_the_round_that_is_under_both() {
    let mut device = device(10 * MS, MS);
    device.changes = Some(3);
    let record = ran(2, &mut device, u64::MAX);
    assert_eq!(record.run.ended, Some(Ended::Changed));
    assert_eq!(record.run.rounds, 2);
    assert_eq!(record.notes.len(), 1);
    for cell in &record.cells {
        assert_eq!((cell.slices.len(), cell.ops), (2, 2 * SLICE_OPS));
    }
}

/// A signal comes before this slice.
struct Signal(u64);

impl Hooks for Signal {
    fn before_slice(&mut self, _: &Progress, _: &Record) {
        self.0 = self.0.saturating_sub(1);
    }

    fn after_round(&mut self, _: &Record) -> anyhow::Result<()> {
        Ok(())
    }

    fn precise(&self, _: &Record) -> bool {
        false
    }

    fn interrupted(&self) -> bool {
        self.0 == 0
    }
}

fn ran(cells: u64, device: &mut Device, signal: u64) -> Record {
    ran_as(cells, device, signal, &|_| {})
}

/// The same, with axes that are not the fixture's.
fn ran_as(cells: u64, device: &mut Device, signal: u64, change: &dyn Fn(&mut Axes)) -> Record {
    let mut builder = Builder::new("raw").device("raw");
    for index in 0..cells {
        builder = builder.cell("raw", None, 512 + index, 1.0, 1);
    }
    let mut record = builder.record;
    record.run.rounds = 0;
    for cell in &mut record.cells {
        *cell = Cell::new(cell.spec.clone());
        change(&mut cell.spec.axes);
    }
    let pace = Pace {
        budget_ns: BUDGET_NS,
        min_rounds: 8,
        rounds: None,
    };
    run(&mut record, device, &pace, &mut Signal(signal)).unwrap();
    record
}

/// Operations of each slice of each cell, the rounds that were complete, and why it ended.
fn ops(record: &Record) -> (Vec<Vec<u64>>, u32, Ended) {
    let cells = record.cells.iter();
    let ops = cells.map(|cell| cell.slices.iter().map(|slice| slice.ops).collect());
    (ops.collect(), record.run.rounds, record.run.ended.unwrap())
}

#[test]
fn a_fast_device_gets_short_slices_for_all_of_the_budget() {
    let (ops, rounds, ended) = ops(&ran(4, &mut device(30_000, MS), u64::MAX));
    assert!(ops.iter().flatten().all(|&ops| ops == SLICE_NS / 30_000));
    // Each slice takes 61 ms, each round four of them.
    assert_eq!((rounds, ended), (60_000 / (4 * 61), Ended::Budget));
}

#[test]
fn a_disk_of_120_turns_a_second_gets_slices_of_16_writes() {
    let (ops, rounds, _) = ops(&ran(4, &mut device(8_300_000, MS), u64::MAX));
    assert!(ops.iter().flatten().all(|&ops| ops == SLICE_OPS));
    assert!(rounds >= 100, "{rounds}");
}

#[test]
fn a_deep_queue_is_filled_and_drained_within_its_slice() {
    let asked = |change: &dyn Fn(&mut Axes)| {
        // 200 writes a second, however many are in flight.
        let record = ran_as(1, &mut device(5 * MS, MS), u64::MAX, change);
        let (ops, ..) = ops(&record);
        assert!(ops[0].iter().all(|&of| of == ops[0][0]), "{ops:?}");
        ops[0][0]
    };
    assert_eq!(asked(&|axes| axes.queue_depth = 32), 32 * SLICE_OPS);
    let both = |axes: &mut Axes| (axes.queue_depth, axes.jobs) = (4, 3);
    assert_eq!(asked(&both), 12 * SLICE_OPS);
    // No more than fits eight rounds into the budget.
    let share = slice_ns(
        Known {
            typical_ns: None,
            op_ns: 5 * MS,
            overhead_ns: MS,
        },
        4096,
        BUDGET_NS / 8,
    );
    assert_eq!(share, BUDGET_NS / 8 - MS);
    // What arrives at a rate waits for no place.
    let open = |axes: &mut Axes| (axes.queue_depth, axes.rate_per_s) = (32, Some(100.0));
    assert_eq!(asked(&open), SLICE_OPS);
}

#[test]
fn eight_rounds_of_a_slow_device_fit_the_budget() {
    // 24 cells; 10 ms a write; pinning the blocks of a scratch file costs journal commits.
    for overhead_ns in [0, 50 * MS, 150 * MS, 250 * MS] {
        let record = ran(24, &mut device(10 * MS, overhead_ns), u64::MAX);
        assert!(record.run.rounds >= 8);
        let over_ns = record.run.elapsed_ns.saturating_sub(BUDGET_NS);
        // The last write of each slice of a round may begin just before its end.
        assert!(over_ns <= 24 * 10 * MS, "{overhead_ns}: {over_ns}");
        assert!(record.run.elapsed_ns > BUDGET_NS * 9 / 10);
    }
}

#[test]
fn slices_are_worth_their_while_even_past_the_budget() {
    // Twice the budget goes into what is around the slices.
    let record = ran(4, &mut device(MS, 4_000 * MS), u64::MAX);
    let (ops, rounds, ended) = ops(&record);
    assert_eq!((rounds, ended), (8, Ended::Budget));
    assert!(ops.iter().flatten().all(|&ops| ops == 10), "{ops:?}");
}

#[test]
fn a_disk_that_had_to_spin_up_is_known_better_after_a_round() {
    let mut disk = device(10 * MS, MS);
    disk.stall = (0, 8_000 * MS);
    let (ops, _, _) = ops(&ran(2, &mut disk, u64::MAX));
    assert!(
        ops.iter()
            .all(|cell| cell[1..].iter().all(|&ops| ops == SLICE_OPS)),
        "{ops:?}"
    );
}

#[test]
fn a_cell_that_fails_midway_keeps_what_it_measured_and_the_other_goes_on() {
    let mut device = device(10 * MS, MS);
    // Two warm-up slices, two whole rounds, then the first of the third.
    device.fails = Some(6);
    let record = ran(2, &mut device, u64::MAX);
    let mut cells: Vec<_> = record.cells.iter().collect();
    cells.sort_by_key(|cell| cell.slices.len());
    assert_eq!(cells[0].failed.as_deref(), Some("it broke"));
    assert_eq!((cells[0].slices.len(), cells[0].ops), (2, 2 * SLICE_OPS));
    assert_eq!(cells[1].failed, None);
    assert_eq!(cells[1].slices.len(), record.run.rounds as usize);
}

#[test]
fn no_working_cell_ends_the_run() {
    let mut device = device(10 * MS, MS);
    device.fails = Some(0);
    let record = ran(1, &mut device, u64::MAX);
    assert_eq!(ops(&record), (vec![vec![]], 0, Ended::Failed));
    assert!(record.cells[0].failed.is_some());
}

#[test]
fn a_signal_keeps_the_slices_of_the_round_that_it_cuts_short() {
    // Two warm-up slices, one round, and one slice of the next.
    let record = ran(2, &mut device(10 * MS, MS), 5);
    let (ops, rounds, ended) = ops(&record);
    assert_eq!((rounds, ended), (1, Ended::Interrupted));
    assert_eq!(ops.iter().map(Vec::len).sum::<usize>(), 3);
    for cell in &record.cells {
        let decoded = crate::model::histogram::decode(&cell.histogram_v2).unwrap();
        assert_eq!(decoded.len(), cell.ops);
    }
    // In the warm-up already: nothing is measured.
    let record = ran(2, &mut device(10 * MS, MS), 1);
    assert_eq!(record.run.ended, Some(Ended::Interrupted));
    assert!(record.cells.iter().all(|cell| cell.slices.is_empty()));
}

#[test]
fn a_slice_that_stood_still_is_told_and_kept_apart() {
    let mut device = device(MS, 0);
    // After the warm-up and a round.
    device.stall = (2, 2_500 * MS);
    let record = ran(1, &mut device, u64::MAX);
    let cell = &record.cells[0];
    assert_eq!(cell.stalled.len(), 1);
    assert_eq!(cell.stalled[0].longest_wait_ns, Some(2_501 * MS));
    assert!(
        cell.slices
            .iter()
            .all(|slice| slice.round != cell.stalled[0].round)
    );
    assert_eq!(cell.iops, Some(1000.0), "of the others");
    assert_eq!(record.notes.len(), 1);
    let text = &record.notes[0].text;
    assert!(
        text.contains("for 2.50 s") && text.contains("the device"),
        "{text}"
    );
    let after = cell.slices.iter().find(|slice| slice.round == 2).unwrap();
    assert_eq!(after.ops, 60, "it says nothing of how long slices must be");
}

#[test]
fn a_device_that_is_always_slow_does_not_stand_still() {
    let mut device = device(2_500 * MS, 0);
    // Four operations more, but less than ten.
    device.stall = (2, 10_000 * MS);
    let record = ran(1, &mut device, u64::MAX);
    assert!(record.cells[0].stalled.is_empty());
    assert!(record.notes.is_empty());
}

#[test]
fn a_lost_request_is_not_the_devices_fault() {
    let mut device = device(2_500 * MS, 0);
    device.rescued = 1;
    let record = ran(1, &mut device, u64::MAX);
    assert!(record.cells[0].slices.is_empty());
    let text = &record.notes[0].text;
    assert!(text.contains("not the device's doing"), "{text}");
}
