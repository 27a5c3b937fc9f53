//! What a report shows, as labelled text. Formats lay it out and compute nothing.

use crate::analyse::amplify::{Amplification, amplifications};
use crate::analyse::explain::{Explanation, explanations};
use crate::analyse::gap::{Gap, gaps};
use crate::analyse::stop::imprecise_cells;
use crate::analyse::trunc::{TruncPenalty, trunc_penalties};
use crate::model::record::{BaselineKind, Cell, Record, Target, TargetKind};

use super::anatomy;
use super::describe;
use super::notes;
use super::tables;
use super::traffic;

/// A whole report.
pub(super) struct View {
    /// One for each target that is looked at for its own sake.
    pub(super) sections: Vec<Section>,
    /// What holds for the run.
    pub(super) foot: Vec<Line>,
}

/// One target.
pub(super) struct Section {
    /// What it is.
    pub(super) title: String,
    /// Its facts, a line each.
    pub(super) facts: Vec<String>,
    /// The answer in a sentence.
    pub(super) headline: Option<String>,
    /// The figures.
    pub(super) tables: Vec<Table>,
    /// Why the figures are what they are, a paragraph each.
    pub(super) why: Vec<String>,
    /// What tracing told.
    pub(super) anatomies: Vec<Anatomy>,
    /// What to know about the figures.
    pub(super) notes: Vec<Line>,
}

/// Where the bytes and the time of a cell's writes went.
pub(super) struct Anatomy {
    /// Which cell.
    pub(super) title: String,
    /// Its bytes and requests by class, its time by phase.
    pub(super) tables: Vec<Table>,
    /// One write.
    pub(super) waterfall: Option<Waterfall>,
    /// Why one may doubt it.
    pub(super) notes: Vec<Line>,
}

/// One write's stretches, one after the other.
pub(super) struct Waterfall {
    /// Which write.
    pub(super) caption: String,
    /// Its stretches.
    pub(super) bars: Vec<Bar>,
}

/// A stretch of a write.
pub(super) struct Bar {
    /// What went on.
    pub(super) name: &'static str,
    /// When it began, as a share of the write's time.
    pub(super) start: f64,
    /// When it ended.
    pub(super) end: f64,
    /// How long it took.
    pub(super) time: String,
    /// What was written; empty for nothing.
    pub(super) bytes: String,
}

/// A table of texts.
pub(super) struct Table {
    /// What it shows, units included.
    pub(super) caption: String,
    /// Its columns.
    pub(super) columns: Vec<Column>,
    /// Its rows, as long as `columns`.
    pub(super) rows: Vec<Vec<String>>,
}

/// A column.
pub(super) struct Column {
    /// Name and unit.
    pub(super) name: String,
    /// Where there is too little room, the columns of the highest rank go first; those of 0 stay.
    pub(super) rank: u8,
    /// Numbers stand to the right.
    pub(super) is_number: bool,
}

/// A line of text.
pub(super) struct Line {
    /// What is said.
    pub(super) text: String,
    /// It is a reason to doubt a figure.
    pub(super) is_warning: bool,
}

impl Line {
    pub(super) fn remark(text: impl Into<String>) -> Line {
        Line {
            text: text.into(),
            is_warning: false,
        }
    }

    pub(super) fn warning(text: impl Into<String>) -> Line {
        Line {
            text: text.into(),
            is_warning: true,
        }
    }
}

/// A record with what follows from it, computed once.
pub(super) struct Study<'a> {
    pub(super) record: &'a Record,
    pub(super) gaps: Vec<Gap>,
    pub(super) penalties: Vec<TruncPenalty>,
    pub(super) amplifications: Vec<Amplification>,
    pub(super) explanations: Vec<Explanation>,
    /// Cells whose headline figure did not reach the precision.
    pub(super) imprecise: Vec<String>,
}

impl<'a> Study<'a> {
    pub(super) fn cell(&self, id: &str) -> Option<&'a Cell> {
        self.record.cells.iter().find(|cell| cell.spec.id == id)
    }

    pub(super) fn target(&self, id: &str) -> Option<&'a Target> {
        self.record.targets.iter().find(|target| target.id == id)
    }

    pub(super) fn cells_of(&self, target: &'a Target) -> Vec<&'a Cell> {
        let own = |cell: &&Cell| cell.spec.target == target.id;
        self.record.cells.iter().filter(own).collect()
    }

    /// The cells with the raw cells that they are compared with, each once, raw before file.
    pub(super) fn sides(&self, cells: &[&'a Cell]) -> Vec<&'a Cell> {
        let mut sides: Vec<&Cell> = Vec::new();
        for &cell in cells {
            let raw = self.gap(cell).and_then(|gap| self.cell(&gap.raw_cell));
            for side in raw.into_iter().chain([cell]) {
                // Several file states may share one raw cell.
                if !sides.iter().any(|known| known.spec.id == side.spec.id) {
                    sides.push(side);
                }
            }
        }
        sides
    }

    /// What a cell's writes became at the device.
    pub(super) fn amplification(&self, cell: &Cell) -> Option<&Amplification> {
        self.amplifications
            .iter()
            .find(|counted| counted.cell == cell.spec.id)
    }

    /// The gap that a file cell is one side of.
    pub(super) fn gap(&self, file: &Cell) -> Option<&Gap> {
        self.gaps.iter().find(|gap| gap.file_cell == file.spec.id)
    }
}

/// Everything that a report of `record` shows.
pub(super) fn view(record: &Record) -> View {
    let study = study(record);
    let mut sections = sections(&study, section);
    sections.extend(tables::summary(&study));
    View {
        sections,
        foot: notes::foot(&study),
    }
}

/// Why the figures of `record` are what they are, and the anatomy of all its traced cells.
pub(super) fn explanation(record: &Record) -> View {
    let study = study(record);
    View {
        sections: sections(&study, explained),
        foot: notes::foot(&study),
    }
}

fn study(record: &Record) -> Study<'_> {
    Study {
        record,
        gaps: gaps(record),
        penalties: trunc_penalties(record),
        amplifications: amplifications(record),
        explanations: explanations(record),
        imprecise: imprecise_cells(record, record.run.precision),
    }
}

/// A section for each target that is looked at for its own sake, and not as a baseline.
fn sections<'a>(study: &Study<'a>, section: fn(&Study<'a>, &'a Target) -> Section) -> Vec<Section> {
    let record = study.record;
    let is_baseline = |target: &Target| {
        record.targets.iter().any(|other| {
            let baseline = other.baseline.as_ref();
            baseline.and_then(|baseline| baseline.target.as_ref()) == Some(&target.id)
        })
    };
    record
        .targets
        .iter()
        .filter(|target| !is_baseline(target))
        .map(|target| section(study, target))
        .collect()
}

fn explained<'a>(study: &Study<'a>, target: &'a Target) -> Section {
    let cells = study.cells_of(target);
    let sides = study.sides(&cells);
    let varied = tables::Varied::of(&cells);
    let mut facts = describe::facts(target);
    facts.extend(varied.common(&cells));
    Section {
        title: describe::title(target),
        facts,
        headline: headline(study, target, &cells),
        tables: traffic::counters_table(study, &sides, &varied)
            .into_iter()
            .chain(traffic::share_table(study, &cells))
            .collect(),
        why: anatomy::why(study, target),
        anatomies: anatomy::all(&sides),
        notes: Vec::new(),
    }
}

fn section<'a>(study: &Study<'a>, target: &'a Target) -> Section {
    let cells = study.cells_of(target);
    let varied = tables::Varied::of(&cells);
    let mut tables = Vec::new();
    tables.extend(tables::gap_table(study, &cells, &varied));
    tables.extend(tables::sides_table(study, &cells, &varied));
    tables.extend(tables::trunc_table(study, target, &varied));
    tables.extend(traffic::share_table(study, &cells));
    let (anatomies, more) = anatomy::some(&study.sides(&cells));
    let mut notes = notes::of_target(study, target, &cells);
    notes.extend(more.map(Line::remark));
    let mut facts = describe::facts(target);
    facts.extend(varied.common(&cells));
    Section {
        title: describe::title(target),
        facts,
        headline: headline(study, target, &cells),
        tables,
        why: anatomy::why(study, target),
        anatomies,
        notes,
    }
}

/// The first gap at 4 KiB, which is what databases and journals write, or else the first.
fn headline(study: &Study<'_>, target: &Target, cells: &[&Cell]) -> Option<String> {
    let gaps: Vec<&Gap> = cells.iter().filter_map(|cell| study.gap(cell)).collect();
    let known = |gap: &&&Gap| gap.throughput_ratio.is_some();
    let gap = gaps
        .iter()
        .filter(known)
        .find(|gap| gap.size_bytes == 4096)
        .or_else(|| gaps.iter().find(known))?;
    let (raw, file) = (study.cell(&gap.raw_cell)?, study.cell(&gap.file_cell)?);
    let through = match &target.mount {
        Some(mount) => mount.fs_type.clone(),
        None => "the filesystem".to_owned(),
    };
    let on = match target.baseline.as_ref().map(|baseline| baseline.kind) {
        Some(BaselineKind::Extents) => "on the same blocks of the device",
        _ => "on the raw device",
    };
    tables::sentence(gap, raw, file, on, &through)
}

/// A target is a directory.
pub(super) fn is_directory(target: &Target) -> bool {
    target.kind == TargetKind::Directory
}
