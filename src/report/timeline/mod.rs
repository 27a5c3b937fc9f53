//! Workloads over time: their answers, tables and charts.

mod checkpoint;
mod churn;
mod variants;
mod wal;

use crate::analyse::interval::Interval;
use crate::analyse::timeline;
use crate::analyse::timeline::steady::Steadiness;
use crate::model::record::Target;
use crate::model::timeline::{Checkpoint, Timeline, Workload};
use crate::model::units::{digits3, show_amount, show_bytes, show_ns};

pub(super) use variants::side_by_side;

use super::figures::{UNKNOWN, percent, spread, things};
use super::view::{Chart, Column, Line, Study, Table, Trace};

/// A chart's points: more would have one high interval among many make all others look low.
const POINTS: usize = 60;

/// What a target's workloads add to its section.
#[derive(Default)]
pub(super) struct OverTime {
    pub(super) facts: Vec<String>,
    pub(super) answers: Vec<String>,
    pub(super) tables: Vec<Table>,
    pub(super) charts: Vec<Chart>,
    pub(super) notes: Vec<Line>,
}

/// What ran at `target` over time; nothing where only cells were measured.
pub(super) fn over_time(study: &Study<'_>, target: &Target) -> OverTime {
    let timelines = timeline::of_target(study.record, &target.id);
    let Some(first) = timelines.first() else {
        return OverTime::default();
    };
    let mut over_time = match &first.workload {
        Workload::Churn(_) => churn::over_time(study.record, target, &timelines),
        Workload::Checkpoint(_) => checkpoint::over_time(study.record, target, &timelines),
        Workload::WalAppend(_) => wal::over_time(study.record, target, &timelines),
    };
    over_time.facts.push(options(first));
    over_time.notes.extend(failures(&timelines));
    over_time
}

/// What was asked for, in a line.
fn options(timeline: &Timeline) -> String {
    let ns = |ns: u64| show_ns(ns as f64);
    let how = match &timeline.workload {
        Workload::Checkpoint(checkpoint) => commits(checkpoint),
        Workload::WalAppend(wal) => format!(
            "{} O_DSYNC records to segments of {}, {} kept",
            show_bytes(wal.record_bytes),
            show_bytes(wal.segment_bytes),
            wal.kept_segments
        ),
        Workload::Churn(churn) => format!(
            "files of {} made with O_TRUNC, written by {} through the page cache, closed, removed; {} \
             pause",
            show_bytes(churn.file_bytes),
            show_bytes(churn.write_bytes.min(churn.file_bytes)),
            ns(churn.pause_ns)
        ),
    };
    format!(
        "Workload {}: {how}; {} at a time",
        timeline.workload.kind(),
        ns(timeline.duration_ns)
    )
}

fn failures(timelines: &[&Timeline]) -> Vec<Line> {
    let failed = timelines.iter().filter_map(|line| line.failed.as_ref());
    failed
        .map(|reason| format!("failed: {reason}"))
        .flat_map(|text| [Line::remark(text.clone()), Line::warning(text)])
        .collect()
}

/// Who commits to what, and what goes on beside it.
fn commits(checkpoint: &Checkpoint) -> String {
    let together = match checkpoint.group_commit {
        true => ", in groups,",
        false => "",
    };
    let spread = match checkpoint.spread_share {
        share if share > 0.0 => format!("spread over {} of that", percent(share)),
        _ => "at once".to_owned(),
    };
    format!(
        "{} {together}commit {} O_DSYNC records to a log of {}; of a data file of {}, {} pages of {} \
         are dirtied in a second, and written back every {} {spread}",
        things(checkpoint.clients as usize, "client"),
        show_bytes(checkpoint.record_bytes),
        show_bytes(checkpoint.log_bytes),
        show_amount(checkpoint.data_bytes),
        digits3(checkpoint.dirty_pages_per_s),
        show_bytes(checkpoint.page_bytes),
        show_ns(checkpoint.interval_ns as f64),
    )
}

/// Where only the first of several stretches is drawn, that is said.
fn of_several(timelines: &[&Timeline]) -> String {
    match timelines.len() {
        0 | 1 => String::new(),
        more => format!(", the first of {more} stretches"),
    }
}

fn or_unknown(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Operations in a second, and their spread.
fn rate_texts(rate: Option<Interval>) -> [String; 2] {
    [
        or_unknown(rate.map(|rate| digits3(rate.value))),
        spread(rate),
    ]
}

/// A trace of what adds up to `counts` in a timeline's intervals, as a rate that `show` shows.
fn trace(
    label: &str,
    timeline: &Timeline,
    counts: Vec<u64>,
    show: &dyn Fn(f64) -> String,
) -> Trace {
    let per_s = 1e9 / timeline.interval_ns.max(1) as f64;
    let rates: Vec<f64> = counts.iter().map(|&count| count as f64 * per_s).collect();
    let values = at_most(POINTS, &rates);
    let top = values.iter().copied().fold(0.0, f64::max);
    Trace {
        label: label.to_owned(),
        scale: format!("to {}", show(top)),
        top,
        values,
    }
}

/// Means of neighbours, as evenly shared out as can be, where there are more values than `points`.
fn at_most(points: usize, values: &[f64]) -> Vec<f64> {
    let points = points.min(values.len());
    let part = |at: usize| &values[at * values.len() / points..(at + 1) * values.len() / points];
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    (0..points).map(|at| mean(part(at))).collect()
}

/// A side's steadiness.
struct Row<'a> {
    name: String,
    steadiness: Option<&'a Steadiness>,
}

/// How steady each side is; none where no side ran for long enough.
fn steadiness_table(what: &str, rows: &[Row<'_>]) -> Option<Table> {
    let texts = rows.iter().filter_map(|row| {
        let steady = row.steadiness?;
        Some(vec![
            row.name.clone(),
            percent(steady.variation),
            format!("{} of {}", steady.below_half, steady.seconds),
            show_ns(steady.longest_ns as f64),
        ])
    });
    let rows: Vec<Vec<String>> = texts.collect();
    (!rows.is_empty()).then(|| Table {
        caption: format!(
            "Steadiness of {what}: the coefficient of variation of seconds, seconds with less than \
             half of the median, and the longest single one"
        ),
        columns: vec![
            Column::text("side", 0),
            Column::number("variation", 0),
            Column::number("seconds below half", 0),
            Column::number("longest", 0),
        ],
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_values_become_means_and_few_stay() {
        assert_eq!(at_most(2, &[1.0, 3.0, 5.0, 7.0, 9.0]), [2.0, 7.0]);
        assert_eq!(at_most(9, &[1.0, 3.0]), [1.0, 3.0]);
        assert_eq!(at_most(9, &[]), [0.0; 0]);
    }
}
