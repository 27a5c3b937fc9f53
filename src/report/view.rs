//! What a report shows, as labelled text. Formats lay it out and compute nothing.

use crate::analyse::amplify::{Amplification, amplifications};
use crate::analyse::explain::{Explanation, explanations};
use crate::analyse::gap::{Gap, gaps};
use crate::analyse::overhead::{WriteOverhead, efforts};
use crate::analyse::stop::imprecise_cells;
use crate::analyse::trunc::{TruncPenalty, trunc_penalties};
use crate::analyse::verdict::{self, Verdict};
use crate::model::record::{Cell, Record, Target, TargetKind};

use super::figures::UNKNOWN;
use super::{
    anatomy, answer, describe, durability, effort, lab, notes, tables, timeline, traffic, verdicts,
};

/// A whole report.
pub(super) struct View {
    /// One for each target that is looked at for its own sake.
    pub(super) sections: Vec<Section>,
    /// What holds for the run.
    pub(super) foot: Vec<Line>,
}

/// One target.
#[derive(Default)]
pub(super) struct Section {
    /// The path that was named.
    pub(super) path: String,
    /// What it is.
    pub(super) title: String,
    /// Its facts, a line each.
    pub(super) facts: Vec<String>,
    /// The answer, a sentence for each question.
    pub(super) answers: Vec<String>,
    /// The figures.
    pub(super) tables: Vec<Table>,
    /// What happened over time.
    pub(super) charts: Vec<Chart>,
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

/// Series over time, one below the other.
pub(super) struct Chart {
    /// What it shows, and over how long.
    pub(super) caption: String,
    /// The series.
    pub(super) traces: Vec<Trace>,
    /// What went on at times, and when: from and to, as shares of the whole.
    pub(super) marks: Option<(String, Vec<(f64, f64)>)>,
}

/// A series over time.
pub(super) struct Trace {
    /// What it is.
    pub(super) label: String,
    /// Its values, at even distances.
    pub(super) values: Vec<f64>,
    /// The value that is drawn as high as can be.
    pub(super) top: f64,
    /// What that value is.
    pub(super) scale: String,
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
    /// Numbers stand to the right, texts to the left.
    pub(super) is_number: bool,
    /// Its texts are broken into lines where there is too little room.
    pub(super) wraps: bool,
}

impl Column {
    pub(super) fn number(name: &str, rank: u8) -> Column {
        Column {
            name: name.to_owned(),
            rank,
            is_number: true,
            wraps: false,
        }
    }

    pub(super) fn text(name: &str, rank: u8) -> Column {
        Column {
            is_number: false,
            ..Column::number(name, rank)
        }
    }

    pub(super) fn wrapping(name: &str) -> Column {
        Column {
            wraps: true,
            ..Column::text(name, 0)
        }
    }
}

impl Table {
    /// Takes out the columns that may go and hold nothing but `blank`, and gives their names.
    pub(super) fn drop_blank(&mut self, blank: &str) -> Vec<String> {
        let mut dropped = Vec::new();
        for at in (0..self.columns.len()).rev() {
            if self.columns[at].rank > 0 && self.rows.iter().all(|row| row[at] == blank) {
                dropped.insert(0, self.columns.remove(at).name);
                for row in &mut self.rows {
                    row.remove(at);
                }
            }
        }
        dropped
    }
}

/// A line of text.
#[derive(PartialEq)]
pub(super) struct Line {
    /// What is said.
    pub(super) text: String,
    /// It is a reason to doubt a figure: not part of the report, but said beside it.
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
    pub(super) efforts: Vec<WriteOverhead>,
    pub(super) explanations: Vec<Explanation>,
    /// On the claims that were tried.
    pub(super) verdicts: Vec<Verdict>,
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

    /// Why a cell's writes went through the page cache although O_DIRECT was asked for, if they did.
    pub(super) fn direct_lost(&self, cell: &'a Cell) -> Option<&'a str> {
        let own = cell.buffered.as_ref().map(|buffered| &buffered.reason);
        let older = || self.target(&cell.spec.target)?.buffered.as_ref();
        let lost = own.or_else(older).map(String::as_str);
        lost.filter(|_| cell.spec.axes.direct)
    }

    pub(super) fn is_buffered(&self, cell: &'a Cell) -> bool {
        !cell.spec.axes.direct || self.direct_lost(cell).is_some()
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

    /// What a cell's writes took of the processor and the journal.
    pub(super) fn effort(&self, cell: &Cell) -> Option<&WriteOverhead> {
        self.efforts
            .iter()
            .find(|effort| effort.cell == cell.spec.id)
    }

    /// The gap that a file cell is one side of.
    pub(super) fn gap(&self, file: &Cell) -> Option<&Gap> {
        self.gaps.iter().find(|gap| gap.file_cell == file.spec.id)
    }
}

/// Everything that a report of `record` shows.
pub(super) fn view(record: &Record) -> View {
    let study = study(record);
    if let Some(asked) = &record.lab {
        return View {
            sections: vec![lab::section(&study, asked)],
            foot: notes::foot(&study),
        };
    }
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
        efforts: efforts(record),
        explanations: explanations(record),
        verdicts: verdict::verdicts(record),
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
    let varied = tables::Varied::of(study, &cells);
    let mut facts = describe::facts(target);
    facts.extend(varied.common(study, &cells));
    Section {
        path: target.path.clone(),
        title: describe::title(target),
        facts,
        answers: answer::answers(study, target, &cells),
        tables: traffic::counters_table(study, &sides, &varied)
            .into_iter()
            .chain(traffic::parts_table(study, &cells, &varied))
            .chain(effort::table(study, &sides, &varied))
            .chain(traffic::share_table(study, &cells))
            .collect(),
        why: anatomy::why(study, target),
        anatomies: anatomy::all(&sides),
        ..Section::default()
    }
}

impl View {
    /// What is to be said beside the report, each with the path that it is about.
    pub(super) fn warnings(&self) -> Vec<String> {
        let sections = self.sections.iter();
        sections
            .map(|section| (&section.notes, section.path.as_str()))
            .chain([(&self.foot, "")])
            .flat_map(|(lines, path)| lines.iter().map(move |line| (line, path)))
            .filter(|(line, _)| line.is_warning)
            .map(|(line, path)| about(path, &line.text))
            .collect()
    }
}

fn section<'a>(study: &Study<'a>, target: &'a Target) -> Section {
    let cells = study.cells_of(target);
    let varied = tables::Varied::of(study, &cells);
    let mut tables = durability::tables(study);
    tables.extend(tables::gap_table(study, &cells, &varied));
    tables.extend(tables::sides_table(study, &cells, &varied));
    tables.extend(tables::trunc_table(study, target, &varied));
    tables.extend(traffic::parts_table(study, &cells, &varied));
    tables.extend(traffic::share_table(study, &cells));
    let sides = study.sides(&cells);
    tables.extend(effort::typical(study, &sides, &varied));
    let (anatomies, more) = anatomy::some(&sides);
    let mut dropped: Vec<String> = Vec::new();
    for name in tables
        .iter_mut()
        .flat_map(|table| table.drop_blank(UNKNOWN))
    {
        if !dropped.contains(&name) {
            dropped.push(name);
        }
    }
    let mut notes = notes::of_target(study, target, &cells);
    notes.extend(notes::unknown(study, &cells, &tables, &dropped));
    notes.extend(more.map(Line::remark));
    let mut facts = describe::facts(target);
    facts.extend(varied.common(study, &cells));
    let over_time = timeline::over_time(study, target);
    facts.extend(over_time.facts);
    let mut answers = answer::answers(study, target, &cells);
    answers.extend(over_time.answers);
    tables.extend(over_time.tables);
    notes.extend(over_time.notes);
    let mut section = Section {
        path: target.path.clone(),
        title: describe::title(target),
        facts,
        answers: match durability::answer(study) {
            Some(answer) => vec![answer],
            None => answers,
        },
        tables,
        charts: over_time.charts,
        why: anatomy::why(study, target),
        anatomies,
        notes,
    };
    if let Some(validation) = &study.record.validation {
        verdicts::add(study, validation, &mut section);
    }
    section
}

/// A text with the path that it is about, unless it says so itself or is about none.
pub(super) fn about(path: &str, text: &str) -> String {
    match text.contains(path) {
        true => text.to_owned(),
        false => format!("{path}: {text}"),
    }
}

/// A target is a directory.
pub(super) fn is_directory(target: &Target) -> bool {
    target.kind == TargetKind::Directory
}
