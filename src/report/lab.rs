//! The report of a lab: its variants, ranked.

use std::fmt::Write as _;

use crate::analyse::explain::Kind;
use crate::analyse::lab::{Figure, Gain, Question, Ranking, Row, gains, rankings};
use crate::model::record::{Level, Note, Record, Target};
use crate::model::units::{digits3, show_bytes};
use crate::model::variant::{Lab, Variant};

use super::figures::{UNKNOWN, mib_per_s, ratio, things};
use super::notes;
use super::tables;
use super::timeline;
use super::view::{Column, Section, Study, Table};

/// From a cell that costs nothing to the one that costs most.
const SHADES: [&str; 5] = ["  ", "░░", "▒▒", "▓▓", "██"];
/// What stands where nothing was measured.
const NOTHING: &str = "-";
/// The place of a variant whose writes were not made durable.
const UNDURABLE: &str = "!";

/// The one section of a lab's report.
pub(super) fn section(study: &Study<'_>, lab: &Lab) -> Section {
    let record = study.record;
    let rankings = rankings(record);
    let mut facts = vec![format!("Each on {}", lab.scratch)];
    if lab.is_image {
        facts.push(
            "Absolute figures are the image's, on its own filesystem; raw/file compares with another \
             part of the same image"
                .to_owned(),
        );
    }
    facts.extend(otherwise(record));
    let mut tables: Vec<Table> = rankings
        .iter()
        .map(|ranking| ranking_table(ranking, &rankings))
        .collect();
    tables.extend(gains_table(&gains(record), &rankings));
    let over_time = timeline::side_by_side(study);
    facts.extend(over_time.facts);
    tables.extend(over_time.tables);
    tables.extend(failures_table(record));
    tables.extend(one_sided_table(record));
    tables.extend(commands_table(record));
    Section {
        path: String::new(),
        title: format!("{} ({})", lab.question, lab.profile),
        facts,
        answers: rankings
            .iter()
            .filter_map(|ranking| answer(ranking, &rankings))
            .chain(over_time.answers)
            .collect(),
        tables,
        charts: over_time.charts,
        notes: over_time.notes,
        why: dangers(study),
        ..Section::default()
    }
}

/// What no gain is worth, for each variant that has it.
fn dangers(study: &Study<'_>) -> Vec<String> {
    let found = study.explanations.iter().filter_map(|explanation| {
        let variant = study.target(&explanation.target)?.variant.as_ref()?;
        let is_danger = explanation.kind == Kind::Danger;
        is_danger.then(|| format!("Danger: {}: {}", variant.name, explanation.text))
    });
    found.collect()
}

/// Those of a question's conditions that aren't the same in all: `queue depth 32, 4 jobs`.
fn conditions(question: &Question, all: &[Ranking]) -> Vec<String> {
    let texts: [fn(&Question) -> String; 6] = [
        |of| if of.direct { "direct" } else { "buffered" }.to_owned(),
        |of| format!("engine {}", tables::engine(of.engine, of.ring)),
        |of| format!("queue depth {}", of.queue_depth),
        |of| things(of.jobs as usize, "job"),
        |of| format!("pattern {}", of.pattern),
        |of| {
            let rate = of.rate_per_s;
            rate.map_or("closed loop".to_owned(), |rate| {
                format!("{}/s", digits3(rate))
            })
        },
    ];
    let own = texts.iter().map(|text| (text(question), text));
    own.filter(|(own, text)| all.iter().any(|one| text(&one.question) != *own))
        .map(|(own, _)| own)
        .collect()
}

/// `o_dsync append`, and what else tells it from the others.
fn title(question: &Question, all: &[Ranking]) -> String {
    let first = format!("{} {}", question.method, question.file_state);
    let words = [first].into_iter().chain(conditions(question, all));
    words.collect::<Vec<String>>().join(", ")
}

/// Who is best, who may be as good, and who is out of the running.
fn answer(ranking: &Ranking, all: &[Ranking]) -> Option<String> {
    let names = |is_one: &dyn Fn(&&Row) -> bool| {
        let rows = ranking.rows.iter().filter(is_one);
        let names: Vec<&str> = rows.map(|row| row.variant.as_str()).collect();
        names.join(", ")
    };
    let best = ranking.rows.iter().find(|row| row.is_best)?;
    let mut text = format!(
        "{}: {} comes closest to the device, raw/file {}",
        title(&ranking.question, all),
        best.variant,
        ratio(best.ratio),
    );
    let others = names(&|row| row.is_best && row.variant != best.variant);
    let undurable = names(&|row| row.is_undurable);
    // Writing to a String cannot fail.
    if !others.is_empty() {
        let _ = write!(text, "; no difference that this run could see to {others}");
    }
    if !undurable.is_empty() {
        let _ = write!(
            text,
            "; left out, since their writes were not made durable: {undurable}"
        );
    }
    Some(text)
}

fn ranking_table(ranking: &Ranking, all: &[Ranking]) -> Table {
    let worst = ranking
        .rows
        .iter()
        .flat_map(|row| &row.figures)
        .filter_map(log_ratio);
    let worst = worst.fold(0.0, f64::max);
    let mut columns = vec![Column::number("rank", 1), Column::text("variant", 0)];
    for size in &ranking.sizes_bytes {
        let size = show_bytes(*size);
        columns.push(Column::number(&format!("{size} MiB/s"), 0));
        columns.push(Column::number("raw/file [95 %]", 0));
        columns.push(Column::text("heat", 2));
    }
    let mut rank = 0;
    let mut before = 0;
    let rows = ranking
        .rows
        .iter()
        .map(|row| {
            // Those that can't be told from the best share its place.
            if !row.is_best {
                rank = before;
            }
            before += usize::from(!row.is_undurable);
            let mut texts = vec![place(row, rank), row.variant.clone()];
            for figure in &row.figures {
                texts.extend(figures(figure, worst));
            }
            texts
        })
        .collect();
    let question = match all.len() {
        1 => String::new(),
        _ => format!("{}: ", title(&ranking.question, all)),
    };
    let undurable = match ranking.rows.iter().any(|row| row.is_undurable) {
        true => "; !: not made durable, see the dangers below",
        false => "",
    };
    Table {
        caption: format!(
            "{question}throughput, and how many times the raw device's, taken in the same rounds; \
             ranked by it over all sizes; the darker, the more it costs{undurable}"
        ),
        columns,
        rows,
    }
}

fn place(row: &Row, rank: usize) -> String {
    match row.ratio {
        _ if row.is_undurable => UNDURABLE.to_owned(),
        Some(_) => (rank + 1).to_string(),
        None => NOTHING.to_owned(),
    }
}

fn figures(figure: &Figure, worst: f64) -> [String; 3] {
    let unknown = match figure.throughput_bytes_per_s {
        Some(_) => UNKNOWN,
        None => NOTHING,
    };
    [
        figure
            .throughput_bytes_per_s
            .map_or_else(|| NOTHING.to_owned(), mib_per_s),
        figure
            .throughput_ratio
            .map_or_else(|| unknown.to_owned(), |interval| ratio(Some(interval))),
        log_ratio(figure).map_or_else(String::new, |log| shade(log, worst).to_owned()),
    ]
}

fn log_ratio(figure: &Figure) -> Option<f64> {
    figure
        .throughput_ratio
        .map(|ratio| ratio.value.ln().max(0.0))
}

/// The shade of a cost among those up to the worst.
fn shade(log: f64, worst: f64) -> &'static str {
    let steps = (SHADES.len() - 1) as f64;
    let step = if worst > 0.0 {
        (log / worst * steps).round()
    } else {
        0.0
    };
    SHADES[(step as usize).min(SHADES.len() - 1)]
}

fn gains_table(gains: &[Gain], all: &[Ranking]) -> Option<Table> {
    let percent = |gain: &Gain| {
        gain.measured_percent.map_or_else(
            || UNKNOWN.to_owned(),
            |gain| format!("{:+.0} % [{:+.0}, {:+.0}]", gain.value, gain.low, gain.high),
        )
    };
    let methods_vary = gains
        .iter()
        .any(|gain| gain.question.method != gains[0].question.method);
    // The state of the files is part of the change.
    let under = |gain: &Gain| {
        let method = methods_vary.then(|| gain.question.method.to_string());
        let words = method.into_iter().chain(conditions(&gain.question, all));
        words.collect::<Vec<String>>().join(", ")
    };
    let mut columns = vec![Column::text("change", 0)];
    let has_under = gains.iter().any(|gain| !under(gain).is_empty());
    if has_under {
        columns.push(Column::text("under", 0));
    }
    columns.extend([
        Column::number("size", 0),
        Column::number("measured [95 %]", 0),
        Column::number("claimed", 0),
    ]);
    let rows: Vec<Vec<String>> = gains
        .iter()
        .map(|gain| {
            let mut row = vec![gain.name.clone()];
            row.extend(has_under.then(|| under(gain)));
            row.extend([
                show_bytes(gain.size_bytes),
                percent(gain),
                format!("{:+} %", gain.claimed_percent),
            ]);
            row
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption:
            "What each change gains in throughput, measured relative to the raw device, beside \
                  what is claimed for it"
                .to_owned(),
        columns,
        rows,
    })
}

fn variants(record: &Record) -> impl Iterator<Item = &Variant> {
    record
        .targets
        .iter()
        .filter_map(|target| target.variant.as_ref())
}

fn failures_table(record: &Record) -> Option<Table> {
    let rows: Vec<Vec<String>> = variants(record)
        .filter_map(|variant| Some(vec![variant.name.clone(), variant.failed.clone()?]))
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: "Not measured".to_owned(),
        columns: vec![Column::text("variant", 0), Column::wrapping("why")],
        rows,
    })
}

/// What was not measured as it was asked for, a line each: writes that were cached, above all.
fn otherwise(record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    for target in &record.targets {
        let Some(variant) = &target.variant else {
            continue;
        };
        let own = record
            .cells
            .iter()
            .filter(|cell| cell.spec.target == target.id);
        let buffered = notes::buffered(target, &own.collect::<Vec<_>>()).into_iter();
        let is_own = |note: &&Note| note.target.as_ref() == Some(&target.id);
        let notes = record.notes.iter().filter(is_own);
        let fallbacks = notes
            .filter(|note| note.level == Level::Fallback)
            .map(|note| note.text.clone());
        let texts = buffered.chain(fallbacks);
        lines.extend(texts.map(|text| format!("{}: {text}", variant.name)));
    }
    lines
}

/// Those that could be compared with nothing.
fn one_sided_table(record: &Record) -> Option<Table> {
    let row = |target: &Target| {
        let variant = target.variant.as_ref()?;
        let why = target.baseline.as_ref()?.reason.clone()?;
        Some(vec![variant.name.clone(), why])
    };
    let rows: Vec<Vec<String>> = record.targets.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| Table {
        caption: match record.lab.as_ref().is_some_and(|lab| lab.is_image) {
            true => "Measured without a raw side".to_owned(),
            false => "Measured without a raw side; on an image (--image), each has one".to_owned(),
        },
        columns: vec![Column::text("variant", 0), Column::wrapping("why")],
        rows,
    })
}

fn commands_table(record: &Record) -> Option<Table> {
    let rows: Vec<Vec<String>> = variants(record)
        .filter(|variant| !variant.commands.is_empty())
        .map(|variant| vec![variant.name.clone(), variant.commands.join("; ")])
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: "How each was made".to_owned(),
        columns: vec![Column::text("variant", 0), Column::wrapping("commands")],
        rows,
    })
}

#[cfg(test)]
mod tests;
