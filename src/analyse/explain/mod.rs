//! Why a run's figures are what they are: plain sentences, each of which quotes a figure of this very
//! run. A rule without a figure is silent.

mod device;
mod filesystem;
mod others;

use serde::{Deserialize, Serialize};

use crate::model::cell::FileState;
use crate::model::record::{Cell, Record, Target};
use crate::model::units::{digits3, show_bytes, show_ns};

pub(super) use device::unflushed;

use super::amplify::{Amplification, amplifications};
use super::overhead::{WriteOverhead, efforts};
use super::trunc::{TruncPenalty, trunc_penalties};

/// One explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// What sort of thing is said.
    pub kind: Kind,
    /// The `id` of the target that it is about.
    pub target: String,
    /// One or a few sentences, with the figures that they stand on.
    pub text: String,
    /// The `id`s of the cells that show it; the text quotes one of them.
    pub cells: Vec<String>,
}

/// What sort of thing an explanation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Data can be lost.
    Danger,
    /// Something can be done about it.
    Tip,
    /// So it is.
    Fact,
}

/// Everything that the record's figures explain, dangers first, in the order of its targets.
pub fn explanations(record: &Record) -> Vec<Explanation> {
    let all = amplifications(record);
    let efforts = efforts(record);
    let penalties = trunc_penalties(record);
    let mut found: Vec<Explanation> = record
        .targets
        .iter()
        .flat_map(|target| {
            let case = Case {
                target,
                cells: record
                    .cells
                    .iter()
                    .filter(|cell| cell.spec.target == target.id && cell.ops > 0)
                    .collect(),
                amplifications: &all,
                efforts: &efforts,
                penalties: &penalties,
            };
            RULES
                .iter()
                .filter_map(|rule| rule(&case))
                .collect::<Vec<Explanation>>()
        })
        .collect();
    found.sort_by_key(|explanation| explanation.kind != Kind::Danger);
    found
}

/// All rules, in the order in which a reader wants to hear of them.
const RULES: [fn(&Case<'_>) -> Option<Explanation>; 14] = [
    device::no_barrier,
    device::data_alone,
    filesystem::truncation,
    filesystem::unwritten,
    filesystem::data_journal,
    filesystem::copy_on_write,
    filesystem::small_journal,
    filesystem::own_transaction,
    device::no_fua,
    device::worker_threads,
    device::misaligned,
    others::foreign_io,
    others::same_filesystem,
    others::reads,
];

/// Others' share of the traffic, and worker threads' share of the writes, beyond which they matter.
const MATTERS: f64 = 0.01;

/// What a rule judges: one target and the cells of it that did something.
struct Case<'a> {
    target: &'a Target,
    cells: Vec<&'a Cell>,
    amplifications: &'a [Amplification],
    efforts: &'a [WriteOverhead],
    penalties: &'a [TruncPenalty],
}

impl<'a> Case<'a> {
    fn amplification(&self, cell: &Cell) -> Option<&'a Amplification> {
        self.amplifications
            .iter()
            .find(|amplification| amplification.cell == cell.spec.id)
    }

    fn effort(&self, cell: &Cell) -> Option<&'a WriteOverhead> {
        self.efforts
            .iter()
            .find(|effort| effort.cell == cell.spec.id)
    }

    /// The cells that counters were read for and that `fits`, with what was counted.
    fn counted(
        &self,
        fits: impl Fn(&Cell, &Amplification) -> bool,
    ) -> Vec<(&'a Cell, &'a Amplification)> {
        self.cells
            .iter()
            .filter_map(|&cell| Some((cell, self.amplification(cell)?)))
            .filter(|&(cell, counted)| fits(cell, counted))
            .collect()
    }

    /// The `overwrite` cell with the axes of another.
    fn overwrite_of(&self, other: &Cell) -> Option<&'a Cell> {
        self.cells.iter().copied().find(|cell| {
            cell.spec.file_state == Some(FileState::Overwrite) && cell.spec.axes == other.spec.axes
        })
    }

    fn filesystem(&self) -> &'a str {
        self.target
            .mount
            .as_ref()
            .map_or("the filesystem", |mount| mount.fs_type.as_str())
    }

    fn has_option(&self, names: &[&str]) -> Option<&'a str> {
        self.target
            .mount
            .iter()
            .flat_map(|mount| mount.options.iter().map(String::as_str))
            .find(|option| names.contains(option))
    }

    fn explain<'c>(
        &self,
        kind: Kind,
        cells: impl IntoIterator<Item = &'c Cell>,
        text: String,
    ) -> Explanation {
        Explanation {
            kind,
            target: self.target.id.clone(),
            text,
            cells: cells.into_iter().map(|cell| cell.spec.id.clone()).collect(),
        }
    }
}

/// The one to quote: the first at 4 KiB, which is what databases and journals write, or else the
/// first.
fn typical<T>(all: &[T], size_bytes: impl Fn(&T) -> u64) -> Option<&T> {
    all.iter()
        .find(|one| size_bytes(one) == 4096)
        .or(all.first())
}

/// The same of cells with what was counted.
fn quoted<'a>(found: &[(&'a Cell, &'a Amplification)]) -> Option<(&'a Cell, &'a Amplification)> {
    typical(found, |(cell, _)| cell.spec.axes.size_bytes).copied()
}

fn cells_of<'a>(found: &[(&'a Cell, &'a Amplification)]) -> Vec<&'a Cell> {
    found.iter().map(|&(cell, _)| cell).collect()
}

/// A cell in short: `4K overwrite`, `4K raw`.
fn name(cell: &Cell) -> String {
    let size = show_bytes(cell.spec.axes.size_bytes);
    match cell.spec.file_state {
        Some(state) => format!("{size} {state}"),
        None => format!("{size} {}", cell.spec.role),
    }
}

/// `7.01 bytes at the device per byte and 2.00 flushes per write`.
fn cost(counted: &Amplification) -> String {
    let bytes = format!(
        "{} bytes at the device per byte",
        digits3(counted.amplification)
    );
    match counted.flushes_per_write {
        Some(flushes) => format!("{bytes} and {} flushes per write", digits3(flushes)),
        None => bytes,
    }
}

/// What [`cost`] says, without its words: `1.00 and 1.00`.
fn short_cost(counted: &Amplification) -> String {
    let bytes = digits3(counted.amplification);
    match counted.flushes_per_write {
        Some(flushes) => format!("{bytes} and {}", digits3(flushes)),
        None => bytes,
    }
}

/// `, median 481 µs against 127 µs`.
fn medians(cell: &Cell, other: &Cell) -> String {
    match (cell.latency_ns, other.latency_ns) {
        (Some(one), Some(other)) => format!(
            ", median {} against {}",
            show_ns(one.p50 as f64),
            show_ns(other.p50 as f64)
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
