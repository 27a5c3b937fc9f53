//! When a run knows enough.

use crate::model::record::{Cell, Record};

use super::compare::{raw_cell_of, throughput_ratio};
use super::interval::Interval;
use super::spread::cell_spread_of;

/// Every headline figure of the record is known to ± `precision`, after at least `min_rounds`.
///
/// Ask after each round: it answers no without computing anything, unless the number of rounds is
/// one at which it looks: `min_rounds`, and each time that they grew by a half. Each look is a
/// chance to stop at an interval that is narrow by luck, and where the slow operations are few, an
/// interval is narrow just when they were missed. So there are few looks, and two in a row must
/// find the precision, on new rounds. `super::tests` measure the coverage that is left.
pub fn precise_enough(record: &Record, precision: f64, min_rounds: u32) -> bool {
    let rounds = record.run.rounds;
    let Some(earlier) = earlier_look(rounds, min_rounds) else {
        return false;
    };
    [rounds, earlier].into_iter().all(|rounds| {
        let headlines = headlines(record, rounds);
        !headlines.is_empty() && imprecise(&headlines, precision).next().is_none()
    })
}

/// The look before the one at `rounds`; none if there is none, or `rounds` is not a look.
fn earlier_look(rounds: u32, min_rounds: u32) -> Option<u32> {
    let mut earlier = None;
    let mut look = min_rounds.max(1);
    while look < rounds {
        earlier = Some(look);
        look = look.saturating_add(look.div_ceil(2));
    }
    earlier.filter(|_| look == rounds)
}

/// The `id`s of cells whose headline figure is not known to ± `precision`: for a file cell with a
/// baseline the ratio, for other cells the throughput.
pub fn imprecise_cells(record: &Record, precision: f64) -> Vec<String> {
    let headlines = headlines(record, u32::MAX);
    imprecise(&headlines, precision)
        .map(|cell| cell.spec.id.clone())
        .collect()
}

/// The figure of each cell that decides: a raw cell that a file cell is compared with has none of
/// its own, and a cell that failed has none any more. Of the first `rounds` rounds.
fn headlines(record: &Record, rounds: u32) -> Vec<(&Cell, Option<Interval>)> {
    let works = |cell: &&Cell| cell.failed.is_none();
    let compared: Vec<(&Cell, &Cell)> = record
        .cells
        .iter()
        .filter(works)
        .filter(|cell| cell.spec.file_state.is_some())
        .filter_map(|file| Some((file, raw_cell_of(record, file).filter(works)?)))
        .collect();
    let alone = record.cells.iter().filter(works).filter(|cell| {
        !compared
            .iter()
            .any(|(file, raw)| cell.spec.id == file.spec.id || cell.spec.id == raw.spec.id)
    });
    let mut all: Vec<(&Cell, Option<Interval>)> = compared
        .iter()
        .map(|&(file, raw)| (file, throughput_ratio(raw, file, rounds)))
        .collect();
    all.extend(alone.map(|cell| (cell, cell_spread_of(cell, rounds))));
    all
}

fn imprecise<'a>(
    headlines: &'a [(&'a Cell, Option<Interval>)],
    precision: f64,
) -> impl Iterator<Item = &'a Cell> {
    headlines.iter().filter_map(move |(cell, interval)| {
        let share = interval.and_then(|interval| interval.relative_half_width());
        (!share.is_some_and(|share| share <= precision)).then_some(*cell)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cell::FileState;
    use crate::model::fixture::Builder;
    use crate::model::record::BaselineKind;

    fn gap() -> Record {
        let mut record = Builder::new("gap")
            .device("t0")
            .directory("t1", "/data", BaselineKind::Extents, Some("t0"))
            .cell("t0", None, 4096, 20e3, 100)
            .cell("t1", Some(FileState::Overwrite), 4096, 50e3, 100)
            .record;
        record.run.rounds = 12;
        record
    }

    #[test]
    fn looks_are_few_and_each_has_the_one_before() {
        let looks: Vec<u32> = (0..=32)
            .filter(|&rounds| earlier_look(rounds, 8).is_some())
            .collect();
        assert_eq!(looks, [12, 18, 27]);
        assert_eq!(earlier_look(18, 8), Some(12));
        assert_eq!(earlier_look(2, 1), Some(1));
    }

    #[test]
    fn it_stops_at_a_look_that_is_precise_and_not_between_looks() {
        let mut record = gap();
        assert!(precise_enough(&record, 0.2, 8));
        assert!(!precise_enough(&record, 0.001, 8));
        record.run.rounds = 13;
        assert!(!precise_enough(&record, 0.2, 8));
    }

    #[test]
    fn the_ratio_decides_and_not_the_drift_of_both_sides() {
        let mut record = gap();
        for cell in &mut record.cells {
            for slice in &mut cell.slices {
                slice.elapsed_ns *= u64::from(1 + slice.round % 4);
            }
        }
        assert!(precise_enough(&record, 0.2, 8));
        assert!(imprecise_cells(&record, 0.001).contains(&record.cells[1].spec.id));
        record.targets[1].baseline = None;
        assert!(!precise_enough(&record, 0.2, 8), "alone, each side drifts");
    }

    #[test]
    fn a_failed_cell_is_not_waited_for_and_nothing_left_is_never_precise() {
        let mut record = gap();
        record.cells[1].slices.clear();
        assert!(!precise_enough(&record, 0.2, 8));
        record.cells[1].failed = Some("gone".to_owned());
        assert!(precise_enough(&record, 0.2, 8), "the raw side stands alone");
        record.cells[0].failed = Some("gone".to_owned());
        assert!(!precise_enough(&record, 0.2, 8));
    }
}
