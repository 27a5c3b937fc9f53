//! Workloads over time: their answers, tables and charts.

mod churn;

use crate::analyse::timeline;
use crate::model::record::Target;
use crate::model::timeline::{Timeline, Workload};
use crate::model::units::{show_bytes, show_ns};

use super::figures::things;
use super::view::{Chart, Line, Study, Table};

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
        Workload::Checkpoint(_) | Workload::WalAppend(_) => OverTime::default(),
    };
    over_time.facts.push(options(first));
    over_time.notes.extend(failures(&timelines));
    over_time
}

/// What was asked for, in a line.
fn options(timeline: &Timeline) -> String {
    let ns = |ns: u64| show_ns(ns as f64);
    let how = match &timeline.workload {
        Workload::Checkpoint(_) | Workload::WalAppend(_) => String::new(),
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

/// Where only the first of several stretches is drawn, that is said.
fn of_several(timelines: &[&Timeline]) -> String {
    match timelines.len() {
        0 | 1 => String::new(),
        more => format!(
            ", the first of {}",
            things(more, "stretch").replace("stretchs", "stretches")
        ),
    }
}
