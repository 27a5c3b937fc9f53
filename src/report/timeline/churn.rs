//! What churn shows.

use crate::analyse::timeline::churn::{ChurnFigures, churn_figures, device_bytes};
use crate::analyse::timeline::rate::{bins, whole_intervals};
use crate::model::record::{Record, Target};
use crate::model::timeline::Timeline;
use crate::model::units::{digits3, show_amount, show_ns};
use crate::report::figures::{count, mib_per_s, percent, spread};
use crate::report::view::{Chart, Column, Line, Table};

use super::{OverTime, of_several, or_unknown, trace};

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
            small_percent(device.redundant_share)
        ),
    })
}

fn table(figures: &ChurnFigures) -> Table {
    let device = figures.device.as_ref();
    let user = figures.user_bytes_per_s;
    let row = vec![
        count(figures.files),
        show_amount(figures.user_bytes),
        or_unknown(user.map(|rate| mib_per_s(rate.value))),
        spread(user),
        or_unknown(device.map(|d| mib_per_s(d.mean_bytes_per_s))),
        or_unknown(device.map(|d| spread(d.bytes_per_s))),
        or_unknown(device.and_then(|d| Some(mib_per_s(d.peak_bytes_per_s?)))),
        or_unknown(device.map(|d| show_amount(d.redundant_bytes))),
        or_unknown(device.map(|d| small_percent(d.redundant_share))),
        spread(device.and_then(|d| d.redundant_to_written)),
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
            Column::number("±", 1),
        ],
        rows: vec![row],
    }
}

fn chart(first: &Timeline, all: &[&Timeline]) -> Chart {
    let length_ns = whole_intervals(first) as f64 * first.interval_ns as f64;
    let mib = |bytes: f64| format!("{} MiB/s", mib_per_s(bytes));
    Chart {
        caption: format!("Over {}{}", show_ns(length_ns), of_several(all)),
        traces: vec![
            trace("program", first, bins(first, 1, |bin| bin.bytes), &mib),
            trace("device", first, bins(first, 1, device_bytes), &mib),
        ],
        marks: None,
    }
}

/// A share of what was written, which may be a very small one.
fn small_percent(share: f64) -> String {
    match share * 100.0 {
        small if small > 0.0 && small < 0.1 => format!("{} %", digits3(small)),
        _ => percent(share),
    }
}
