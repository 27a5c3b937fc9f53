//! What commits beside checkpoints show.

use crate::analyse::timeline::checkpoint::{CheckpointFigures, checkpoint_figures};
use crate::analyse::timeline::churn::device_bytes;
use crate::analyse::timeline::rate::{bins, whole_intervals};
use crate::model::record::{Record, Target};
use crate::model::timeline::Timeline;
use crate::model::units::{digits3, show_ns};
use crate::report::figures::{UNKNOWN, count, percent, ratio};
use crate::report::view::{Chart, Column, Line, Table};

use super::{OverTime, Row, of_several, or_unknown, rate_texts, steadiness_table, trace};

pub(super) fn over_time(record: &Record, target: &Target, timelines: &[&Timeline]) -> OverTime {
    let all = checkpoint_figures(record);
    let Some(figures) = all.iter().find(|figures| figures.target == target.id) else {
        return OverTime::default();
    };
    let steady = [Row {
        name: "file".to_owned(),
        steadiness: figures.steadiness.as_ref(),
    }];
    OverTime {
        answers: answers(figures),
        tables: [rates(figures), dips(figures)]
            .into_iter()
            .chain(steadiness_table("commits", &steady))
            .collect(),
        charts: timelines
            .first()
            .map(|first| chart(first, timelines))
            .into_iter()
            .collect(),
        notes: notes(figures),
        ..OverTime::default()
    }
}

fn answers(figures: &CheckpointFigures) -> Vec<String> {
    let rate = |of: Option<crate::analyse::interval::Interval>| {
        let [value, spread] = rate_texts(of);
        format!("{value} commits/s {spread}")
    };
    let falls = format!(
        "{} between checkpoints, {} while one runs{}",
        rate(figures.outside_per_s),
        rate(figures.inside_per_s),
        match figures.inside_to_outside {
            Some(_) => format!(" (inside/outside {})", ratio(figures.inside_to_outside)),
            None => String::new(),
        }
    );
    let raw = figures.raw.as_ref().map(|raw| {
        format!(
            "{} on the device alone: raw/file outside checkpoints {}",
            rate(raw.per_s),
            ratio(raw.raw_to_file)
        )
    });
    [falls].into_iter().chain(raw).collect()
}

fn rates(figures: &CheckpointFigures) -> Table {
    let mut rows = Vec::new();
    let mut row = |name: &str, of| {
        let [value, spread] = rate_texts(of);
        rows.push(vec![name.to_owned(), value, spread]);
    };
    row("all the time", figures.per_s);
    row("between checkpoints", figures.outside_per_s);
    row("while one runs", figures.inside_per_s);
    if let Some(raw) = &figures.raw {
        row("raw", raw.per_s);
    }
    Table {
        caption:
            "Commits in a second, with 95 % confidence intervals over checkpoints, over stretches, \
                  or over parts of one"
                .to_owned(),
        columns: vec![
            Column::text("when", 0),
            Column::number("commits/s", 0),
            Column::number("±", 0),
        ],
        rows,
    }
}

fn dips(figures: &CheckpointFigures) -> Table {
    let ns = |ns: Option<f64>| or_unknown(ns.map(show_ns));
    let dips = figures.dips.as_ref();
    let row = vec![
        figures.checkpoints.to_string(),
        or_unknown(figures.pages.map(|pages| count(pages.round() as u64))),
        ns(figures.checkpoint_ns),
        ns(figures.fsync_ns),
        or_unknown(dips.map(|dips| percent(dips.depth))),
        or_unknown(dips.and_then(|dips| dips.chance_depth.map(percent))),
        or_unknown(dips.map(|dips| percent(dips.deepest))),
        ns(dips.map(|dips| dips.length_ns)),
        ns(dips.map(|dips| dips.longest_ns as f64)),
        or_unknown(figures.cpu_busy.map(percent)),
    ];
    Table {
        caption:
            "Checkpoints, by the median: what each wrote and took, how deep commits fell and for \
                  how long"
                .to_owned(),
        columns: vec![
            Column::number("checkpoints", 1),
            Column::number("pages", 2),
            Column::number("took", 0),
            Column::number("its fsync", 2),
            Column::number("dip", 0),
            Column::number("by chance", 1),
            Column::number("deepest", 1),
            Column::number("for", 0),
            Column::number("longest", 1),
            Column::number("CPU busy", 0),
        ],
        rows: vec![row],
    }
}

fn chart(first: &Timeline, all: &[&Timeline]) -> Chart {
    let length_ns = whole_intervals(first) as f64 * first.interval_ns as f64;
    let spans = first
        .phases
        .iter()
        .filter(|phase| phase.checkpoint.is_some());
    let share = |ns: u64| ns as f64 / length_ns.max(1.0);
    let spans = spans.map(|phase| (share(phase.start_ns), share(phase.end_ns)));
    let mib = |bytes: f64| format!("{} MiB/s", digits3(bytes / f64::from(1 << 20)));
    Chart {
        caption: format!("Over {}{}", show_ns(length_ns), of_several(all)),
        traces: vec![
            trace("commits", first, bins(first, 1, |bin| bin.ops), &|rate| {
                format!("{}/s", digits3(rate))
            }),
            trace("device", first, bins(first, 1, device_bytes), &mib),
        ],
        marks: Some(("checkpoints".to_owned(), spans.collect())),
    }
}

fn notes(figures: &CheckpointFigures) -> Vec<Line> {
    let mut notes = Vec::new();
    if let Some(dips) = &figures.dips {
        notes.push(Line::remark(format!(
            "A dip is how far the lowest {} of a checkpoint's lie below the median of those that no \
             checkpoint touches; it lasts while they are below 80 % of that. By chance: the same of as \
             many between checkpoints, since the lowest of several is always low",
            show_ns(dips.bin_ns as f64)
        )));
    }
    if figures.checkpoints < 3 {
        let text = format!(
            "{} checkpoint{} in all: too few for an interval; give a longer --duration, or a \
             shorter --checkpoint-interval",
            figures.checkpoints,
            if figures.checkpoints == 1 { "" } else { "s" }
        );
        notes.push(Line::warning(text));
    } else if figures.outside_per_s.is_none() || figures.inside_per_s.is_none() {
        let text = format!(
            "what is {UNKNOWN} has fewer than 3 stretches that are long enough to count commits in: give \
             a longer --duration, or a longer --checkpoint-interval if one is due before the last has ended"
        );
        notes.push(Line::warning(text));
    }
    let raw = figures.raw.as_ref();
    if raw.is_some_and(|raw| raw.raw_to_file.is_none()) {
        let text =
            format!("raw/file is {UNKNOWN}: it needs 3 repetitions; give --repeat 3 or more");
        notes.push(Line::warning(text));
    }
    notes
}
