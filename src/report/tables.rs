//! The tables of a section.

use crate::analyse::gap::Gap;
use crate::analyse::spread::cell_spread;
use crate::model::cell::Axes;
use crate::model::record::{Cell, Record, Target};
use crate::model::units::{digits3, show_amount, show_bytes, show_ns};

use super::describe;
use super::figures::{UNKNOWN, count, delta_us, mib_per_s, quantile_us, ratio, spread, things, us};
use super::traffic;
use super::view::{Column, Section, Study, Table, is_directory};

/// An axis that a table may have to show.
struct Axis {
    name: &'static str,
    value: fn(&Cell) -> String,
    /// As part of the sentence that names what all cells have in common.
    words: fn(&Cell) -> String,
}

/// All axes but the size, in the order of their columns.
const AXES: [Axis; 8] = [
    Axis {
        name: "state",
        value: state,
        words: state,
    },
    Axis {
        name: "method",
        value: |cell| cell.spec.axes.method.to_string(),
        words: |cell| cell.spec.axes.method.to_string(),
    },
    Axis {
        name: "direct",
        value: direct,
        words: direct,
    },
    Axis {
        name: "engine",
        value: |cell| engine(&cell.spec.axes),
        words: |cell| format!("engine {}", engine(&cell.spec.axes)),
    },
    Axis {
        name: "qd",
        value: |cell| cell.spec.axes.queue_depth.to_string(),
        words: |cell| format!("queue depth {}", cell.spec.axes.queue_depth),
    },
    Axis {
        name: "jobs",
        value: |cell| cell.spec.axes.jobs.to_string(),
        words: |cell| things(cell.spec.axes.jobs as usize, "job"),
    },
    Axis {
        name: "pattern",
        value: |cell| cell.spec.axes.pattern.to_string(),
        words: |cell| format!("pattern {}", cell.spec.axes.pattern),
    },
    Axis {
        name: "rate/s",
        value: rate,
        words: rate_words,
    },
];

fn state(cell: &Cell) -> String {
    cell.spec
        .file_state
        .map_or_else(|| "device".to_owned(), |state| state.to_string())
}

fn direct(cell: &Cell) -> String {
    if cell.spec.axes.direct {
        "direct"
    } else {
        "buffered"
    }
    .to_owned()
}

fn engine(axes: &Axes) -> String {
    let mut text = axes.engine.to_string();
    for (is_set, name) in [(axes.ring.sqpoll, "+sqpoll"), (axes.ring.iopoll, "+iopoll")] {
        if is_set {
            text += name;
        }
    }
    text
}

fn rate(cell: &Cell) -> String {
    cell.spec
        .axes
        .rate_per_s
        .map_or_else(|| "max".to_owned(), digits3)
}

fn rate_words(cell: &Cell) -> String {
    match cell.spec.axes.rate_per_s {
        Some(rate) => format!("open loop at {}/s", digits3(rate)),
        None => "closed loop".to_owned(),
    }
}

/// The axes that differ between the cells of a section, and so need columns.
pub(super) struct Varied(Vec<&'static Axis>);

impl Varied {
    pub(super) fn of(cells: &[&Cell]) -> Varied {
        let varies = |axis: &&Axis| {
            let mut values = cells.iter().map(|cell| (axis.value)(cell));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        Varied(AXES.iter().filter(varies).collect())
    }

    /// What all cells have in common, in a line.
    pub(super) fn common(&self, cells: &[&Cell]) -> Option<String> {
        let first = cells.first()?;
        let mut words: Vec<String> = AXES
            .iter()
            .filter(|axis| !self.0.iter().any(|varied| varied.name == axis.name))
            .map(|axis| (axis.words)(first))
            .collect();
        let span_bytes = first.spec.axes.span_bytes;
        if cells
            .iter()
            .all(|cell| cell.spec.axes.span_bytes == span_bytes)
        {
            words.push(format!("span {}", show_amount(span_bytes)));
        }
        Some(format!("Each write: {}", words.join(", ")))
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        let mut columns = vec![column("size", 0, true)];
        columns.extend(self.0.iter().map(|axis| column(axis.name, 0, false)));
        columns
    }

    pub(super) fn cells(&self, cell: &Cell) -> Vec<String> {
        let mut texts = vec![show_bytes(cell.spec.axes.size_bytes)];
        texts.extend(self.0.iter().map(|axis| (axis.value)(cell)));
        texts
    }
}

pub(super) fn column(name: &str, rank: u8, is_number: bool) -> Column {
    Column {
        name: name.to_owned(),
        rank,
        is_number,
    }
}

pub(super) fn throughput(cell: &Cell) -> String {
    cell.throughput_bytes_per_s
        .map_or_else(|| UNKNOWN.to_owned(), mib_per_s)
}

/// A mark for a figure that is not as precise as asked for; a note explains it.
fn mark(study: &Study<'_>, cell: &Cell) -> &'static str {
    if study.imprecise.contains(&cell.spec.id) {
        "*"
    } else {
        ""
    }
}

/// The answer: one row for each file cell that has a baseline.
pub(super) fn gap_table(study: &Study<'_>, cells: &[&Cell], varied: &Varied) -> Option<Table> {
    let rows: Vec<Vec<String>> = cells
        .iter()
        .filter_map(|file| {
            let gap = study.gap(file)?;
            let raw = study.cell(&gap.raw_cell)?;
            let mut row = varied.cells(file);
            row.extend([
                throughput(raw),
                throughput(file),
                ratio(gap.throughput_ratio) + mark(study, file),
                delta_us(gap.p50_delta_ns),
                delta_us(gap.p99_delta_ns),
                delta_us(gap.p99_9_delta_ns),
                gap.rounds.to_string(),
            ]);
            row.extend(traffic::figures(study, cells, file));
            Some(row)
        })
        .collect();
    let mut columns = varied.columns();
    columns.extend([
        column("raw MiB/s", 2, true),
        column("file MiB/s", 1, true),
        column("raw/file [95 %]", 0, true),
        column("Δp50 µs", 0, true),
        column("Δp99 µs", 1, true),
        column("Δp99.9 µs", 3, true),
        column("rounds", 4, true),
    ]);
    columns.extend(traffic::columns(study, cells));
    (!rows.is_empty()).then(|| Table {
        caption: "The gap: throughput raw/file, and latency file - raw, with 95 % confidence \
                  intervals from paired rounds"
            .to_owned(),
        columns,
        rows,
    })
}

/// Each side's own figures, raw above file.
pub(super) fn sides_table(study: &Study<'_>, cells: &[&Cell], varied: &Varied) -> Option<Table> {
    let has_gap = cells.iter().any(|cell| study.gap(cell).is_some());
    let mut columns = varied.columns();
    if has_gap {
        columns.push(column("side", 0, false));
    }
    columns.extend([
        column("MiB/s", 0, true),
        column("±", 1, true),
        column("IOPS", 3, true),
        column("p50 µs", 0, true),
        column("p99 µs", 0, true),
        column("p99.9 µs", 2, true),
        column("max µs", 4, true),
        column("writes", 3, true),
    ]);
    let sides = study.sides(cells);
    columns.extend(traffic::columns(study, &sides));
    let mut rows = Vec::new();
    let mut shown: Vec<&str> = Vec::new();
    for &cell in cells {
        let raw = study.gap(cell).and_then(|gap| study.cell(&gap.raw_cell));
        for side in raw.into_iter().chain([cell]) {
            // Several file states may share one raw cell.
            if shown.contains(&side.spec.id.as_str()) {
                continue;
            }
            shown.push(&side.spec.id);
            let mut row = varied.cells(side);
            if has_gap {
                row.push(side.spec.role.to_string());
            }
            let decides = study.gap(cell).is_none();
            row.extend(side_figures(
                side,
                if decides { mark(study, side) } else { "" },
            ));
            row.extend(traffic::figures(study, &sides, side));
            rows.push(row);
        }
    }
    (!rows.is_empty()).then(|| Table {
        caption: format!(
            "Throughput with its 95 % confidence interval over rounds; latency of all writes{}",
            traffic::legend(study, &sides)
        ),
        columns,
        rows,
    })
}

fn side_figures(cell: &Cell, mark: &str) -> [String; 8] {
    let latency = cell.latency_ns.as_ref();
    [
        throughput(cell),
        spread(cell_spread(cell)) + mark,
        cell.iops
            .map_or_else(|| UNKNOWN.to_owned(), |iops| count(iops.round() as u64)),
        quantile_us(latency, cell.ops, 2, |latency| latency.p50),
        quantile_us(latency, cell.ops, 100, |latency| latency.p99),
        quantile_us(latency, cell.ops, 1000, |latency| latency.p99_9),
        quantile_us(latency, cell.ops, 1, |latency| latency.max),
        count(cell.ops),
    ]
}

/// What O_TRUNC costs, beside the open that it happens in.
pub(super) fn trunc_table(study: &Study<'_>, target: &Target, varied: &Varied) -> Option<Table> {
    let rows: Vec<Vec<String>> = study
        .penalties
        .iter()
        .filter(|penalty| penalty.target == target.id)
        .filter_map(|penalty| {
            let mut row = varied.cells(study.cell(&penalty.trunc_cell)?);
            row.extend([
                ratio(penalty.throughput_ratio),
                delta_us(penalty.p50_delta_ns),
                delta_us(penalty.p99_delta_ns),
                penalty
                    .open_p50_ns
                    .map_or_else(|| UNKNOWN.to_owned(), |ns| us(ns as f64)),
                count(penalty.opens),
            ]);
            Some(row)
        })
        .collect();
    let mut columns = varied.columns();
    columns.extend([
        column("without/with [95 %]", 0, true),
        column("Δp50 µs", 0, true),
        column("Δp99 µs", 1, true),
        column("open p50 µs", 1, true),
        column("opens", 2, true),
    ]);
    (!rows.is_empty()).then(|| Table {
        caption: "The O_TRUNC penalty: throughput without/with, latency with - without; the \
                  truncating open is timed apart"
            .to_owned(),
        columns,
        rows,
    })
}

/// The answer in a sentence.
pub(super) fn sentence(
    gap: &Gap,
    raw: &Cell,
    file: &Cell,
    on: &str,
    through: &str,
) -> Option<String> {
    let interval = gap.throughput_ratio?;
    let median = |cell: &Cell| Some(show_ns(cell.latency_ns?.p50 as f64));
    let verdict = if interval.covers(1.0) {
        "no difference shown".to_owned()
    } else if interval.value > 1.0 {
        format!("raw is {} times as fast", digits3(interval.value))
    } else {
        format!(
            "the file is {} times as fast",
            digits3(1.0 / interval.value)
        )
    };
    Some(format!(
        "{} {} {}: median {} {on}, {} through {through}: {verdict} (raw/file {})",
        show_bytes(gap.size_bytes),
        gap.method,
        gap.file_state,
        median(raw)?,
        median(file)?,
        ratio(Some(interval)),
    ))
}

/// One table over all file targets that have gaps, where there are several.
pub(super) fn summary(study: &Study<'_>) -> Option<Section> {
    let record: &Record = study.record;
    let rows: Vec<Vec<String>> = record
        .targets
        .iter()
        .filter(|target| is_directory(target))
        .map(|target| summary_row(study, target))
        .collect();
    (rows.len() > 1).then(|| Section {
        title: "All targets".to_owned(),
        facts: Vec::new(),
        headline: None,
        tables: vec![Table {
            caption: "The gap at 4K, or else at the target's first size".to_owned(),
            columns: vec![
                column("target", 0, false),
                column("filesystem", 0, false),
                column("device", 2, false),
                column("size", 0, true),
                column("file MiB/s", 1, true),
                column("raw/file [95 %]", 0, true),
                column("Δp50 µs", 0, true),
                column("Δp99 µs", 1, true),
            ],
            rows,
        }],
        why: Vec::new(),
        anatomies: Vec::new(),
        notes: Vec::new(),
    })
}

fn summary_row(study: &Study<'_>, target: &Target) -> Vec<String> {
    let cells = study.cells_of(target);
    let cell = cells
        .iter()
        .find(|cell| cell.spec.axes.size_bytes == 4096)
        .or(cells.first());
    let gap = cell.and_then(|cell| study.gap(cell));
    vec![
        target.path.clone(),
        describe::filesystem(target),
        describe::device(target),
        cell.map_or_else(
            || UNKNOWN.to_owned(),
            |cell| show_bytes(cell.spec.axes.size_bytes),
        ),
        cell.map_or_else(|| UNKNOWN.to_owned(), |cell| throughput(cell)),
        ratio(gap.and_then(|gap| gap.throughput_ratio)),
        delta_us(gap.and_then(|gap| gap.p50_delta_ns)),
        delta_us(gap.and_then(|gap| gap.p99_delta_ns)),
    ]
}
