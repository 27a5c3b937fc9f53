//! Claims and what became of them.

use crate::analyse::interval::Interval;
use crate::analyse::verdict::{Outcome, Verdict};
use crate::model::cell::{Axes, Method};
use crate::model::claims::{Bound, Claim, Claims, Figure, Side, Trial, Validation};
use crate::model::units::{decimals, show_amount, show_bytes};

use super::figures::{UNKNOWN, count, things};
use super::steady::{cliffs, steady_states};
use super::view::{Column, Line, Section, Study, Table};

/// Puts the verdicts before what else a section shows.
pub(super) fn add(study: &Study<'_>, validation: &Validation, section: &mut Section) {
    let verdicts = &study.verdicts;
    section.answers = vec![answer(validation, verdicts)];
    section.facts.push(source(&validation.claims));
    let tables = [claims_table(study, validation), verdict_table(verdicts)];
    section.tables.splice(0..0, tables);
    section.why = unsaid(validation);
    section
        .anatomies
        .extend(steady_states(validation, verdicts));
    let mut notes = reasons(verdicts);
    notes.extend(cliffs(verdicts));
    notes.append(&mut section.notes);
    section.notes = notes;
}

fn answer(validation: &Validation, verdicts: &[Verdict]) -> String {
    let of = |outcome: Outcome| verdicts.iter().filter(|v| v.outcome == outcome).count();
    let parts: Vec<String> = [
        (Outcome::Holds, "hold"),
        (Outcome::Fails, "fail"),
        (Outcome::Undecided, "undecided"),
        (Outcome::NotComparable, "not comparable"),
        (Outcome::NotRun, "not run"),
    ]
    .into_iter()
    .filter_map(|(outcome, many)| match of(outcome) {
        0 => None,
        1 => Some(format!("1 {}", outcome.words())),
        count => Some(format!("{count} {many}")),
    })
    .collect();
    let as_if = match verdicts.iter().any(|verdict| !verdict.as_if.is_empty()) {
        true => ", as if what differs didn't matter",
        false => "",
    };
    format!(
        "Of {} of {}: {}{as_if}",
        things(verdicts.len(), "claim"),
        validation.claims.name,
        parts.join(", ")
    )
}

fn source(claims: &Claims) -> String {
    let device = &claims.device;
    let words: Vec<&str> = [
        &device.vendor,
        &device.revision,
        &device.source,
        &device.date,
    ]
    .into_iter()
    .flatten()
    .map(String::as_str)
    .collect();
    match words.is_empty() {
        true => format!("Claims: {}", claims.about),
        false => format!("Claims: {} ({})", claims.about, words.join(", ")),
    }
}

/// A claim's name, with the capacities that it is for.
pub(super) fn name(claim: &Claim) -> String {
    let capacities: Vec<String> = claim
        .capacities_bytes
        .iter()
        .map(|&bytes| count(bytes / 1_000_000_000))
        .collect();
    match capacities.is_empty() {
        true => claim.name.clone(),
        false => format!("{} ({} GB)", claim.name, capacities.join(", ")),
    }
}

pub(super) fn claim_of<'a>(
    validation: &'a Validation,
    verdict: &Verdict,
) -> Option<(&'a Claim, &'a Trial)> {
    let claims = &validation.claims.claims;
    claims
        .get(verdict.claim)
        .zip(validation.trials.get(verdict.claim))
}

/// What each number stands for, and how it was tried.
fn claims_table(study: &Study<'_>, validation: &Validation) -> Table {
    let rows = study
        .verdicts
        .iter()
        .filter_map(|verdict| {
            let (claim, trial) = claim_of(validation, verdict)?;
            let cell = trial.cell.as_ref().and_then(|id| study.cell(id));
            let tried = cell.map_or_else(|| UNKNOWN.to_owned(), |cell| axes_words(&cell.spec.axes));
            let unsaid = verdict.unsaid.join(", ");
            Some(vec![number_of(verdict), name(claim), unsaid, tried])
        })
        .collect();
    let mut table = Table {
        caption: "The claims, which conditions they leave unsaid, and how they were tried"
            .to_owned(),
        columns: vec![
            Column::number("#", 0),
            Column::wrapping("claim"),
            Column {
                rank: 1,
                ..Column::wrapping("unsaid")
            },
            Column {
                rank: 2,
                ..Column::wrapping("tried with")
            },
        ],
        rows,
    };
    table.drop_blank(UNKNOWN);
    table
}

/// As reports number claims, from 1.
pub(super) fn number_of(verdict: &Verdict) -> String {
    (verdict.claim + 1).to_string()
}

fn axes_words(axes: &Axes) -> String {
    format!(
        "{} {} {}, queue depth {}, {}, {}, span {}",
        show_bytes(axes.size_bytes),
        axes.pattern,
        match axes.method {
            Method::None => "not synchronous".to_owned(),
            method => method.to_string(),
        },
        axes.queue_depth,
        things(axes.jobs as usize, "job"),
        if axes.direct { "direct" } else { "buffered" },
        show_amount(axes.span_bytes),
    )
}

fn verdict_table(verdicts: &[Verdict]) -> Table {
    let row = |verdict: &Verdict| {
        let shown = |interval: Option<Interval>| {
            let both = interval.zip(verdict.bound);
            both.map_or_else(
                || UNKNOWN.to_owned(),
                |(interval, bound)| interval_text(bound.figure, interval),
            )
        };
        let as_if = if verdict.as_if.is_empty() {
            ""
        } else {
            ", as if"
        };
        let bound = verdict.bound.as_ref();
        vec![
            number_of(verdict),
            bound.map_or_else(|| "-".to_owned(), bound_text),
            shown(verdict.measured),
            shown(verdict.durable),
            format!("{}{as_if}", verdict.outcome.words()),
        ]
    };
    Table {
        caption:
            "What is claimed, what was measured, and what is left of it when each write must be \
                  durable, with 95 % confidence intervals over rounds; verdicts are 99 % sure"
                .to_owned(),
        columns: vec![
            Column::number("#", 0),
            Column::number("claimed", 0),
            Column::number("measured [95 %]", 0),
            Column::number("durable [95 %]", 0),
            Column::text("verdict", 0),
        ],
        rows: verdicts.iter().map(row).collect(),
    }
}

/// What a figure's own unit is divided by to be shown, and what then stands behind the number. As
/// vendors write them: decimal megabytes, thousands of IOPS.
fn scale(figure: Figure, largest: f64) -> (f64, &'static str) {
    match figure {
        Figure::ThroughputBytesPerS => (1e6, ""),
        Figure::Iops if largest >= 1e4 => (1e3, "K"),
        Figure::Iops => (1.0, ""),
        Figure::MeanNs | Figure::QuantileNs(_) => (1e3, ""),
    }
}

/// Numbers of which the largest has three digits that count.
fn numbers<const N: usize>(figure: Figure, values: [f64; N]) -> [String; N] {
    let largest = values.iter().copied().fold(0.0, f64::max);
    let (unit, suffix) = scale(figure, largest);
    let places = decimals(largest / unit, 3);
    values.map(|value| match places {
        0 if value >= 0.0 => format!("{}{suffix}", count((value / unit).round() as u64)),
        _ => format!("{:.places$}{suffix}", value / unit),
    })
}

fn bound_text(bound: &Bound) -> String {
    let [value] = numbers(bound.figure, [bound.value]);
    let sign = match bound.side {
        Side::AtLeast => "≥",
        Side::AtMost => "≤",
    };
    match bound.figure {
        Figure::ThroughputBytesPerS => format!("{sign} {value} MB/s"),
        Figure::Iops => format!("{sign} {value} IOPS"),
        figure @ (Figure::MeanNs | Figure::QuantileNs(_)) => {
            let figure = figure.to_string();
            format!("{} {sign} {value} µs", figure.trim_end_matches(" latency"))
        }
    }
}

fn interval_text(figure: Figure, interval: Interval) -> String {
    let [value, low, high] = numbers(figure, [interval.value, interval.low, interval.high]);
    format!("{value} [{low}, {high}]")
}

/// Why verdicts are no plain ones, and what was set aside; once for claims of which the same is said.
fn reasons(verdicts: &[Verdict]) -> Vec<Line> {
    let told = |verdict: &Verdict| {
        let as_if = format!("as if: {}", verdict.as_if.join("; "));
        let told = match (&verdict.reason, verdict.as_if.is_empty()) {
            (Some(reason), true) => reason.clone(),
            (Some(reason), false) => format!("{reason}; {as_if}"),
            (None, false) => as_if,
            (None, true) => return None,
        };
        Some(format!("{}: {told}", verdict.outcome.words()))
    };
    grouped(
        verdicts
            .iter()
            .filter_map(|verdict| Some((verdict, told(verdict)?))),
    )
}

/// A line for each text, with the numbers of its claims before it.
pub(super) fn grouped<'a>(texts: impl Iterator<Item = (&'a Verdict, String)>) -> Vec<Line> {
    let mut groups: Vec<(Vec<String>, String)> = Vec::new();
    for (verdict, text) in texts {
        let number = number_of(verdict);
        match groups.iter_mut().find(|(_, known)| *known == text) {
            Some((numbers, _)) => numbers.push(number),
            None => groups.push((vec![number], text)),
        }
    }
    groups
        .into_iter()
        .map(|(numbers, text)| Line::remark(format!("{}: {text}", numbers.join(", "))))
        .collect()
}

fn unsaid(validation: &Validation) -> Vec<String> {
    let mut paragraphs = Vec::new();
    if !validation.claims.unsaid.is_empty() {
        let unsaid = validation.claims.unsaid.join("; ");
        paragraphs.push(format!("Unsaid besides: {unsaid}."));
    }
    let has_durable = |trial: &Trial| trial.durable_cell.is_some();
    if validation.trials.iter().any(has_durable) {
        paragraphs.push(
            "Unless its method says so, a claim is not about synchronous writes: 'durable' is the \
             same workload with O_DSYNC."
                .to_owned(),
        );
    }
    paragraphs
}

#[cfg(test)]
mod tests;
