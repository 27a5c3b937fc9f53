//! How a drive became steady, and its cliffs.

use crate::analyse::cliff::{Cliff, During};
use crate::analyse::steady::{WINDOW, tracked};
use crate::analyse::verdict::Verdict;
use crate::model::claims::{Claim, Figure, Trial, Validation};
use crate::model::units::{digits3, show_amount, show_ns};

use super::figures::{UNKNOWN, count, percent};
use super::verdicts::{claim_of, grouped, name, number_of};
use super::view::{Anatomy, Column, Line, Table};
use super::waterfall::bar;

/// Columns of a plot.
const PLOT_WIDTH: usize = 30;

/// The rounds until the steady state of each trial that had any, once for trials that shared them.
pub(super) fn steady_states(validation: &Validation, verdicts: &[Verdict]) -> Vec<Anatomy> {
    let mut all: Vec<Anatomy> = Vec::new();
    for verdict in verdicts {
        let found = claim_of(validation, verdict);
        if let Some((claim, trial)) = found.filter(|(_, trial)| !trial.rounds.is_empty()) {
            all.push(steady_state(claim, trial, verdict));
        }
    }
    all
}

fn steady_state(claim: &Claim, trial: &Trial, verdict: &Verdict) -> Anatomy {
    let figure = claim.bound.map(|bound| bound.figure);
    let values = tracked(&trial.rounds, figure);
    let is_latency = figure.is_some_and(Figure::is_latency);
    let largest = values.iter().copied().fold(0.0, f64::max);
    let first = verdict
        .window
        .map_or(usize::MAX, |window| window.first_round);
    let rows = values
        .iter()
        .enumerate()
        .map(|(round, &value)| {
            let total = trial.rounds[round].total();
            vec![
                (round + 1).to_string(),
                match is_latency {
                    true => digits3(value / 1e3),
                    false => count(value.round() as u64),
                },
                if round >= first { "*" } else { "" }.to_owned(),
                bar(0.0, value / largest, PLOT_WIDTH),
                total
                    .temperature_c
                    .map_or_else(|| UNKNOWN.to_owned(), |warm| format!("{warm:.0}")),
            ]
        })
        .collect();
    let mut table = Table {
        caption: "Rounds of the claim's own workload; * the measurement window".to_owned(),
        columns: vec![
            Column::number("round", 0),
            Column::number(if is_latency { "mean µs" } else { "IOPS" }, 0),
            Column::text("", 0),
            Column::text("from 0", 1),
            Column::number("°C", 1),
        ],
        rows,
    };
    table.drop_blank(UNKNOWN);
    Anatomy {
        title: format!(
            "Steady state for {} ({}): {}",
            number_of(verdict),
            name(claim),
            window_words(verdict)
        ),
        tables: vec![table],
        waterfall: None,
        notes: filled(trial).into_iter().collect(),
    }
}

fn window_words(verdict: &Verdict) -> String {
    let Some(window) = verdict.window else {
        return format!("fewer than {WINDOW} rounds");
    };
    format!(
        "{} in rounds {} to {}, range {} of the average (at most 20 %), slope {:+.1} % (at most 10 %)",
        if window.is_steady {
            "reached"
        } else {
            "not reached"
        },
        window.first_round + 1,
        window.first_round + WINDOW,
        percent(window.range_share),
        window.slope_share * 100.0,
    )
}

fn filled(trial: &Trial) -> Option<Line> {
    let filled = trial.filled.as_ref()?;
    Some(Line::remark(format!(
        "Before it, {} were written in order in {}",
        show_amount(filled.bytes),
        show_ns(filled.elapsed_ns as f64),
    )))
}

pub(super) fn cliffs(verdicts: &[Verdict]) -> Vec<Line> {
    grouped(verdicts.iter().flat_map(|verdict| {
        let cliffs = verdict.cliffs.iter();
        cliffs.map(move |cliff| (verdict, cliff_words(cliff)))
    }))
}

fn cliff_words(cliff: &Cliff) -> String {
    let during = match cliff.during {
        During::Fill => "sequential preconditioning",
        During::Rounds => "rounds until the steady state",
        During::Measurement => "measurement",
    };
    let warm = match (cliff.before_c, cliff.after_c) {
        (Some(before), Some(after)) => {
            format!("; {before:.0} °C before, up to {after:.0} °C after")
        }
        _ => "; the kernel tells no temperature".to_owned(),
    };
    format!(
        "a lasting drop in the {during}, from {} to {} MB/s after {} in {}: a full cache, or \
         heat{warm}",
        digits3(cliff.before_bytes_per_s / 1e6),
        digits3(cliff.after_bytes_per_s / 1e6),
        show_amount(cliff.at_bytes),
        show_ns(cliff.at_ns as f64),
    )
}
