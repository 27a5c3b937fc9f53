//! The tables of a section.

use crate::analyse::spread::cell_spread;
use crate::model::cell::{EngineKind, RingOptions};
use crate::model::record::{Cell, Record, Target};
use crate::model::units::{digits3, show_amount, show_bytes};

use super::describe;
use super::figures::{UNKNOWN, count, delta_us, mib_per_s, p50_us, quantile_us, ratio, spread, us};
use super::traffic;
use super::view::{Column, Section, Study, Table, is_directory};

/// An axis that a table may have to show.
struct Axis {
    name: &'static str,
    value: fn(&Study<'_>, &Cell) -> String,
    /// The value as part of the sentence that names what all cells have in common.
    words: fn(&str) -> String,
}

/// All axes but the size, in the order of their columns.
const AXES: [Axis; 8] = [
    Axis {
        name: STATE,
        value: |_, cell| {
            let state = cell.spec.file_state;
            state.map_or_else(|| "device".to_owned(), |state| state.to_string())
        },
        words: str::to_owned,
    },
    Axis {
        name: "method",
        value: |_, cell| cell.spec.axes.method.to_string(),
        words: str::to_owned,
    },
    Axis {
        name: DIRECT,
        value: direct,
        words: str::to_owned,
    },
    Axis {
        name: "engine",
        value: |_, cell| engine(cell.spec.axes.engine, cell.spec.axes.ring),
        words: |engine| format!("engine {engine}"),
    },
    Axis {
        name: "qd",
        value: |_, cell| cell.spec.axes.queue_depth.to_string(),
        words: |depth| format!("queue depth {depth}"),
    },
    Axis {
        name: "jobs",
        value: |_, cell| cell.spec.axes.jobs.to_string(),
        words: |jobs| format!("{jobs} job{}", if jobs == "1" { "" } else { "s" }),
    },
    Axis {
        name: "pattern",
        value: |_, cell| cell.spec.axes.pattern.to_string(),
        words: |pattern| format!("pattern {pattern}"),
    },
    Axis {
        name: "rate/s",
        value: |_, cell| {
            let rate = cell.spec.axes.rate_per_s;
            rate.map_or_else(|| CLOSED.to_owned(), digits3)
        },
        words: |rate| match rate {
            CLOSED => "closed loop".to_owned(),
            rate => format!("open loop at {rate}/s"),
        },
    },
];

const STATE: &str = "state";
const DIRECT: &str = "direct";
/// The rate of a closed loop.
const CLOSED: &str = "max";

/// What the writes were, and not what was asked for.
fn direct(study: &Study<'_>, cell: &Cell) -> String {
    match study.is_buffered(cell) {
        false => "direct",
        true => "buffered",
    }
    .to_owned()
}

/// An engine with its options: `uring+sqpoll`.
pub(super) fn engine(kind: EngineKind, ring: RingOptions) -> String {
    let mut text = kind.to_string();
    for (is_set, name) in [(ring.sqpoll, "+sqpoll"), (ring.iopoll, "+iopoll")] {
        if is_set {
            text += name;
        }
    }
    text
}

/// The axes that need columns.
pub(super) struct Varied(Vec<&'static Axis>);

impl Varied {
    /// Those that differ between the cells of a target, and whether writes were direct, if they
    /// were not although it was asked for.
    pub(super) fn of(study: &Study<'_>, cells: &[&Cell]) -> Varied {
        let varies = |axis: &&Axis| {
            let mut values = cells.iter().map(|cell| (axis.value)(study, cell));
            let first = values.next();
            let lost = || cells.iter().any(|cell| study.direct_lost(cell).is_some());
            (axis.name == DIRECT && lost()) || values.any(|value| Some(value) != first)
        };
        Varied(AXES.iter().filter(varies).collect())
    }

    /// The same without the states of files.
    fn stateless(&self) -> Varied {
        let others = self.0.iter().filter(|axis| axis.name != STATE);
        Varied(others.copied().collect())
    }

    /// What all cells have in common, in a line.
    pub(super) fn common(&self, study: &Study<'_>, cells: &[&Cell]) -> Option<String> {
        let first = cells.first()?;
        let mut words: Vec<String> = AXES
            .iter()
            .filter(|axis| !self.0.iter().any(|varied| varied.name == axis.name))
            .map(|axis| (axis.words)(&(axis.value)(study, first)))
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
        let mut columns = vec![Column::number("size", 0)];
        columns.extend(self.0.iter().map(|axis| Column::text(axis.name, 0)));
        columns
    }

    pub(super) fn cells(&self, study: &Study<'_>, cell: &Cell) -> Vec<String> {
        let mut texts = vec![show_bytes(cell.spec.axes.size_bytes)];
        texts.extend(self.0.iter().map(|axis| (axis.value)(study, cell)));
        texts
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
            let mut row = varied.cells(study, file);
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
        Column::number("raw MiB/s", 2),
        Column::number("file MiB/s", 1),
        Column::number("raw/file [95 %]", 0),
        Column::number("Δp50 µs", 0),
        Column::number("Δp99 µs", 1),
        Column::number("Δp99.9 µs", 3),
        Column::number("rounds", 4),
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
        columns.push(Column::text("side", 0));
    }
    columns.extend([
        Column::number("MiB/s", 0),
        Column::number("±", 1),
        Column::number("IOPS", 3),
        Column::number("p50 µs", 0),
        Column::number("p99 µs", 0),
        Column::number("p99.9 µs", 2),
        Column::number("max µs", 4),
        Column::number("writes", 3),
    ]);
    let sides = study.sides(cells);
    columns.extend(traffic::columns(study, &sides));
    let rows: Vec<Vec<String>> = sides
        .iter()
        .map(|side| {
            let mut row = varied.cells(study, side);
            if has_gap {
                row.push(side.spec.role.to_string());
            }
            let has_own = cells.iter().any(|cell| cell.spec.id == side.spec.id);
            let decides = has_own && study.gap(side).is_none();
            row.extend(side_figures(
                side,
                if decides { mark(study, side) } else { "" },
            ));
            row.extend(traffic::figures(study, &sides, side));
            row
        })
        .collect();
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
        p50_us(cell),
        quantile_us(latency, cell.ops, 0.99, |latency| latency.p99),
        quantile_us(latency, cell.ops, 0.999, |latency| latency.p99_9),
        latency.map_or_else(|| UNKNOWN.to_owned(), |latency| us(latency.max as f64)),
        count(cell.ops),
    ]
}

/// What O_TRUNC costs, beside the open that it happens in.
pub(super) fn trunc_table(study: &Study<'_>, target: &Target, varied: &Varied) -> Option<Table> {
    let varied = varied.stateless();
    let rows: Vec<Vec<String>> = study
        .penalties
        .iter()
        .filter(|penalty| penalty.target == target.id)
        .filter_map(|penalty| {
            let mut row = varied.cells(study, study.cell(&penalty.trunc_cell)?);
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
        Column::number("without/with [95 %]", 0),
        Column::number("Δp50 µs", 0),
        Column::number("Δp99 µs", 1),
        Column::number("open p50 µs", 1),
        Column::number("opens", 2),
    ]);
    (!rows.is_empty()).then(|| Table {
        caption: "The O_TRUNC penalty: throughput without/with, latency with - without; the \
                  truncating open is timed apart"
            .to_owned(),
        columns,
        rows,
    })
}

/// One table over the cells of all directories, where there are several.
pub(super) fn summary(study: &Study<'_>) -> Option<Section> {
    let record: &Record = study.record;
    if record.cells.is_empty() {
        return None;
    }
    let mut directories = record
        .targets
        .iter()
        .filter(|target| is_directory(target))
        .map(|target| (target, typical(study.cells_of(target))));
    let rows: Vec<Vec<String>> = directories
        .clone()
        .map(|(target, cell)| summary_row(study, target, cell))
        .collect();
    let has_gap = directories.any(|(_, cell)| cell.is_some_and(|cell| study.gap(cell).is_some()));
    let mut table = Table {
        caption: format!(
            "{} at 4K, or else at the target's first size",
            if has_gap { "The gap" } else { "Writes" }
        ),
        columns: vec![
            Column::text("target", 0),
            Column::text("filesystem", 0),
            Column::text("device", 2),
            Column::number("size", 0),
            Column::text(STATE, 3),
            Column::number("file MiB/s", 1),
            Column::number("file p50 µs", 1),
            Column::number("raw/file [95 %]", 1),
            Column::number("Δp50 µs", 1),
            Column::number("Δp99 µs", 2),
        ],
        rows,
    };
    if !has_gap {
        table.drop_blank(UNKNOWN);
    }
    (table.rows.len() > 1).then(|| Section {
        path: String::new(),
        title: "All targets".to_owned(),
        tables: vec![table],
        ..Section::default()
    })
}

fn summary_row(study: &Study<'_>, target: &Target, cell: Option<&Cell>) -> Vec<String> {
    let gap = cell.and_then(|cell| study.gap(cell));
    let of_cell = |text: fn(&Cell) -> String| cell.map_or_else(|| UNKNOWN.to_owned(), text);
    vec![
        target.path.clone(),
        describe::filesystem(target),
        describe::device(target),
        of_cell(|cell| show_bytes(cell.spec.axes.size_bytes)),
        of_cell(|cell| {
            cell.spec
                .file_state
                .map_or(UNKNOWN.to_owned(), |s| s.to_string())
        }),
        of_cell(throughput),
        of_cell(p50_us),
        ratio(gap.and_then(|gap| gap.throughput_ratio)),
        delta_us(gap.and_then(|gap| gap.p50_delta_ns)),
        delta_us(gap.and_then(|gap| gap.p99_delta_ns)),
    ]
}

/// The cell that stands for a target: the first at 4 KiB, which is what databases and journals
/// write, or else the first.
fn typical(cells: Vec<&Cell>) -> Option<&Cell> {
    let at_4k = cells.iter().find(|cell| cell.spec.axes.size_bytes == 4096);
    at_4k.or(cells.first()).copied()
}
