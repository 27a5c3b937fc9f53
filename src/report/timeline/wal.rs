//! What a log of segments shows.

use crate::analyse::timeline::rate::{bins, whole_intervals};
use crate::analyse::timeline::wal::{SideFigures, WalFigures, wal_figures};
use crate::model::record::{Record, Target};
use crate::model::timeline::{Segments, Timeline};
use crate::model::units::{digits3, show_ns};
use crate::report::figures::{count, ratio};
use crate::report::view::{Chart, Column, Line, Table};

use super::{OverTime, Row, of_several, or_unknown, rate_texts, steadiness_table, trace};

pub(super) fn over_time(record: &Record, target: &Target, timelines: &[&Timeline]) -> OverTime {
    let all = wal_figures(record);
    let Some(figures) = all.iter().find(|figures| figures.target == target.id) else {
        return OverTime::default();
    };
    let sides = sides(figures);
    let steady: Vec<Row<'_>> = sides
        .iter()
        .map(|(name, side)| Row {
            name: (*name).to_owned(),
            steadiness: side.steadiness.as_ref(),
        })
        .collect();
    OverTime {
        answers: vec![answer(figures)],
        tables: [table(figures, &sides)]
            .into_iter()
            .chain(steadiness_table("records", &steady))
            .collect(),
        charts: chart(timelines).into_iter().collect(),
        notes: notes(figures),
        ..OverTime::default()
    }
}

fn sides(figures: &WalFigures) -> Vec<(&'static str, &SideFigures)> {
    let mut sides = vec![
        ("created", &figures.created),
        ("recycled", &figures.recycled),
    ];
    sides.extend(figures.raw.as_ref().map(|raw| ("raw", raw)));
    sides
}

fn answer(figures: &WalFigures) -> String {
    let rate = |side: &SideFigures| rate_texts(side.per_s).join(" ");
    format!(
        "{} records/s to segments made anew, {} to recycled ones: recycled/created {}",
        rate(&figures.created),
        rate(&figures.recycled),
        ratio(figures.recycled_to_created)
    )
}

fn table(figures: &WalFigures, sides: &[(&'static str, &SideFigures)]) -> Table {
    let rows = sides
        .iter()
        .map(|(name, side)| {
            let [value, spread] = rate_texts(side.per_s);
            let to_raw = match *name {
                "created" => figures.raw_to_created,
                "recycled" => figures.raw_to_recycled,
                _ => None,
            };
            vec![
                (*name).to_owned(),
                value,
                spread,
                ratio(to_raw),
                count(side.records),
                side.switches.to_string(),
                or_unknown(side.switch_ns.map(show_ns)),
            ]
        })
        .collect();
    let mut columns = vec![
        Column::text("segments", 0),
        Column::number("records/s", 0),
        Column::number("±", 0),
        Column::number("raw/file [95 %]", 0),
        Column::number("records", 2),
        Column::number("switches", 2),
        Column::number("a switch takes", 1),
    ];
    let mut rows: Vec<Vec<String>> = rows;
    if figures.raw.is_none() {
        columns.remove(3);
        rows.iter_mut().for_each(|row| drop(row.remove(3)));
    }
    Table {
        caption:
            "Records in a second, changes of segments among them, with 95 % confidence intervals \
                  over stretches"
                .to_owned(),
        columns,
        rows,
    }
}

fn chart(timelines: &[&Timeline]) -> Option<Chart> {
    let of = |segments| -> Vec<&Timeline> {
        let ours = timelines
            .iter()
            .filter(|line| line.segments == Some(segments));
        ours.copied().collect()
    };
    let (created, recycled) = (of(Segments::Created), of(Segments::Recycled));
    let first = created.first().or(recycled.first())?;
    let length_ns = whole_intervals(first) as f64 * first.interval_ns as f64;
    let drawn = [("created", created.first()), ("recycled", recycled.first())];
    let traces = drawn.into_iter().filter_map(|(name, line)| {
        let line = line?;
        let records = bins(line, 1, |bin| bin.ops);
        Some(trace(name, line, records, &|rate| {
            format!("{}/s", digits3(rate))
        }))
    });
    Some(Chart {
        caption: format!("Over {}{}", show_ns(length_ns), of_several(&created)),
        traces: traces.collect(),
        marks: None,
    })
}

fn notes(figures: &WalFigures) -> Vec<Line> {
    let mut notes = Vec::new();
    if figures.created.switches == 0 || figures.recycled.switches == 0 {
        let text = "no segment came to its end, so no change of segments was measured: give a \
                    smaller --segment-size, or a longer --duration";
        notes.push(Line::warning(text));
    }
    if figures.recycled_to_created.is_none() {
        let text = "recycled/created needs 3 repetitions; give --repeat 3 or more";
        notes.push(Line::warning(text));
    }
    notes
}
