//! When a run knows enough.

use crate::model::record::{Cell, Record};

use super::compare::{raw_cell_of, throughput_ratio};
use super::interval::Interval;
use super::spread::cell_spread;

/// Every headline figure of the record is known to ± `precision`, after at least `min_rounds`.
///
/// Ask after each round: it answers no without looking, unless the number of rounds is one of
/// [`is_looked_at`]. Looks cost coverage, because each is a chance to stop at an interval that is
/// narrow by luck; `super::tests` measure what is left.
pub fn precise_enough(record: &Record, precision: f64, min_rounds: u32) -> bool {
    is_looked_at(record.run.rounds, min_rounds) && {
        let headlines = headlines(record);
        !headlines.is_empty() && imprecise(&headlines, precision).next().is_none()
    }
}

/// The `id`s of cells whose headline figure is not known to ± `precision`: for a file cell with a
/// baseline the ratio, for other cells the throughput.
pub fn imprecise_cells(record: &Record, precision: f64) -> Vec<String> {
    let headlines = headlines(record);
    imprecise(&headlines, precision)
        .map(|cell| cell.spec.id.clone())
        .collect()
}

/// Rounds are looked at when they are `min_rounds`, then each time that they grew by a half.
pub fn is_looked_at(rounds: u32, min_rounds: u32) -> bool {
    let mut look = min_rounds.max(1);
    while look < rounds {
        look = look.saturating_add(look.div_ceil(2));
    }
    look == rounds
}

/// The figure of each cell that decides: a raw cell that a file cell is compared with has none of
/// its own, and a cell that failed has none any more.
fn headlines(record: &Record) -> Vec<(&Cell, Option<Interval>)> {
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
        .map(|&(file, raw)| (file, throughput_ratio(raw, file)))
        .collect();
    all.extend(alone.map(|cell| (cell, cell_spread(cell))));
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
