//! Workloads at a lab's variants, side by side.

use std::fmt::Write as _;

use crate::analyse::timeline::standing::{By, Standing, standings};
use crate::report::figures::{UNKNOWN, percent};
use crate::report::view::{Column, Study, Table};

use super::{OverTime, digits3, over_time};

/// The tables of all variants as one each, with the variants in the order of their rank; and each
/// one's chart.
pub(in crate::report) fn side_by_side(study: &Study<'_>) -> OverTime {
    let mut all = OverTime::default();
    let standings = standings(study.record);
    for (at, standing) in standings.iter().enumerate() {
        let Some(target) = study.target(&standing.target) else {
            continue;
        };
        let one = over_time(study, target);
        let name = match standing.is_undurable {
            true => format!("{} (not flushed)", standing.variant),
            false => standing.variant.clone(),
        };
        for table in one.tables {
            add(&mut all.tables, &name, table);
        }
        for mut chart in one.charts {
            chart.caption = format!("{name}: {}", chart.caption);
            all.charts.push(chart);
        }
        if at == 0 {
            all.facts = one.facts;
        }
        for note in one.notes {
            if !all.notes.contains(&note) {
                all.notes.push(note);
            }
        }
    }
    all.answers = answer(&standings).into_iter().collect();
    all
}

/// Adds a variant's table to the one that shows the same of the others.
fn add(tables: &mut Vec<Table>, variant: &str, one: Table) {
    let names = |table: &Table| -> Vec<String> {
        table
            .columns
            .iter()
            .map(|column| column.name.clone())
            .collect()
    };
    let own = names(&one);
    let same = tables
        .iter_mut()
        .find(|table| table.caption == one.caption && names(table)[1..] == own);
    let rows = one.rows.into_iter().enumerate().map(|(at, row)| {
        let name = if at == 0 { variant } else { "" };
        [vec![name.to_owned()], row].concat()
    });
    match same {
        Some(table) => table.rows.extend(rows),
        None => tables.push(Table {
            rows: rows.collect(),
            columns: [Column::text("variant", 0)]
                .into_iter()
                .chain(one.columns)
                .collect(),
            caption: one.caption,
        }),
    }
}

/// Who is best, and who may be as good.
fn answer(standings: &[Standing]) -> Option<String> {
    let (best, others) = standings.split_first()?;
    let undurable: Vec<&str> = standings
        .iter()
        .filter(|one| one.is_undurable)
        .map(|one| one.variant.as_str())
        .collect();
    let left_out = format!(
        "what is written is not flushed from a cache that must be: {}",
        undurable.join(", ")
    );
    if best.is_undurable {
        return Some(format!("None is ranked: {left_out}"));
    }
    let figure = best.figure?;
    let what = match best.by {
        By::CommitsPerS => format!(
            "{} commits most, {}/s with its checkpoints",
            best.variant,
            digits3(figure.value)
        ),
        By::RecordsPerS => format!(
            "{} appends most, {} records/s to recycled segments",
            best.variant,
            digits3(figure.value)
        ),
        By::RedundantToWritten => format!(
            "{} has the device write least for files that are gone, {} of what was written to them",
            best.variant,
            percent(figure.value)
        ),
    };
    let equal: Vec<&str> = others
        .iter()
        .filter(|other| other.is_best)
        .map(|other| other.variant.as_str())
        .collect();
    let mut text = what;
    if !equal.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "; no difference that this run could see to {}",
            equal.join(", ")
        );
    }
    let durable = others.iter().filter(|other| !other.is_undurable);
    let unknown = durable.filter(|other| other.figure.is_none()).count();
    if unknown > 0 {
        let _ = write!(text, "; of {unknown} others it is {UNKNOWN}");
    }
    if !undurable.is_empty() {
        let _ = write!(text, "; left out: {left_out}");
    }
    Some(text)
}
