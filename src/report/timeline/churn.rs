//! What churn shows.

use crate::analyse::timeline::churn::{ChurnFigures, churn_figures, device_bytes};
use crate::analyse::timeline::rate::{bins, whole_intervals};
use crate::model::record::{Record, Target};
use crate::model::timeline::Timeline;
use crate::model::units::{show_amount, show_ns};
use crate::report::figures::{UNKNOWN, count, mib_per_s, percent, spread};
use crate::report::view::{Chart, Column, Line, Table, Trace};

use super::{OverTime, of_several};

pub(super) fn over_time(record: &Record, target: &Target, timelines: &[&Timeline]) -> OverTime {
    let all = churn_figures(record);
    let Some(figures) = all.iter().find(|figures| figures.target == target.id) else {
        return OverTime::default();
    };
    let redundant = "Redundant: all bytes that the device wrote from the first file's begin until, all \
                     files gone, the filesystem held nothing back. File data, and the filesystem's \
                     metadata and journal with it: the device's counters don't tell them apart.";
    OverTime {
        answers: answer(figures).into_iter().collect(),
        tables: vec![table(figures)],
        charts: timelines
            .first()
            .map(|first| chart(first, timelines))
            .into_iter()
            .collect(),
        notes: vec![Line::remark(redundant)],
        ..OverTime::default()
    }
}

fn answer(figures: &ChurnFigures) -> Option<String> {
    let user = figures.user_bytes_per_s?;
    let start = format!(
        "{} MiB/s {} written to files that were then removed",
        mib_per_s(user.value),
        spread(Some(user))
    );
    Some(match &figures.device {
        None => start,
        Some(device) => format!(
            "{start}: the device wrote {} for them, {} of what the program wrote, all of it redundant",
            show_amount(device.redundant_bytes),
            percent(device.redundant_share)
        ),
    })
}

fn table(figures: &ChurnFigures) -> Table {
    let device = figures.device.as_ref();
    let user = figures.user_bytes_per_s;
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let row = vec![
        count(figures.files),
        show_amount(figures.user_bytes),
        or_unknown(user.map(|rate| mib_per_s(rate.value))),
        spread(user),
        or_unknown(device.map(|d| mib_per_s(d.mean_bytes_per_s))),
        or_unknown(device.map(|d| spread(d.bytes_per_s))),
        or_unknown(device.and_then(|d| Some(mib_per_s(d.peak_bytes_per_s?)))),
        or_unknown(device.map(|d| show_amount(d.redundant_bytes))),
        or_unknown(device.map(|d| percent(d.redundant_share))),
    ];
    Table {
        caption:
            "What the program wrote, and what the device wrote of it; 95 % confidence intervals \
                  over stretches, or parts of one"
                .to_owned(),
        columns: vec![
            Column::number("files", 2),
            Column::number("written", 0),
            Column::number("MiB/s", 0),
            Column::number("±", 1),
            Column::number("device MiB/s", 0),
            Column::number("±", 1),
            Column::number("peak MiB/s", 2),
            Column::number("redundant", 0),
            Column::number("of written", 0),
        ],
        rows: vec![row],
    }
}

fn chart(first: &Timeline, all: &[&Timeline]) -> Chart {
    let per_s = 1e9 / first.interval_ns as f64;
    let trace = |label: &str, values: Vec<u64>| {
        let values: Vec<f64> = values.iter().map(|&bytes| bytes as f64 * per_s).collect();
        let top = values.iter().copied().fold(0.0, f64::max);
        Trace {
            label: label.to_owned(),
            scale: format!("to {} MiB/s", mib_per_s(top)),
            top,
            values,
        }
    };
    let length_ns = whole_intervals(first) as f64 * first.interval_ns as f64;
    Chart {
        caption: format!("Over {}{}", show_ns(length_ns), of_several(all)),
        traces: vec![
            trace("program", bins(first, 1, |bin| bin.bytes)),
            trace("device", bins(first, 1, device_bytes)),
        ],
        marks: None,
    }
}
