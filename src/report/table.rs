//! The view as text for a terminal, fitted to its width.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement};

use super::Style;
use super::view::{Line, Table, View};
use super::{chart, waterfall};
use crate::model::text::plain;

/// Narrower than this, nothing can be laid out sensibly.
const MIN_WIDTH: usize = 40;
/// Columns between two columns of a table.
const GUTTER: usize = 2;
/// A column that wraps is not made narrower than this for the sake of others.
const MIN_WRAPPED: usize = 24;

pub(super) fn render(view: &View, style: &Style) -> String {
    let width = style.width.map(|width| width.max(MIN_WIDTH));
    let strong = |text: &str| {
        wrap(text, width, "")
            .into_iter()
            .map(|line| bold(&line, style))
    };
    let mut out = Vec::new();
    for section in &view.sections {
        out.extend(strong(&section.title));
        for fact in &section.facts {
            out.extend(wrap(fact, width, "  "));
        }
        if !section.answers.is_empty() {
            out.push(String::new());
        }
        for answer in &section.answers {
            out.extend(strong(answer));
        }
        for table in &section.tables {
            out.push(String::new());
            out.extend(lay_out(table, width));
        }
        for chart in &section.charts {
            out.push(String::new());
            out.extend(wrap(&chart.caption, width, ""));
            out.extend(chart::lay_out(chart, width));
        }
        out.extend(paragraphs(&section.why, width));
        for anatomy in &section.anatomies {
            out.push(String::new());
            out.extend(strong(&anatomy.title));
            for table in &anatomy.tables {
                out.extend(lay_out(table, width));
                out.push(String::new());
            }
            if let Some(waterfall) = &anatomy.waterfall {
                out.extend(wrap(&waterfall.caption, width, ""));
                out.extend(waterfall::lay_out(waterfall, width));
            }
            out.extend(remarks(&anatomy.notes, width));
        }
        out.push(String::new());
        let notes = remarks(&section.notes, width);
        if !notes.is_empty() {
            out.extend(notes);
            out.push(String::new());
        }
    }
    out.extend(remarks(&view.foot, width));
    out.join("\n") + "\n"
}

/// An empty line and the texts, each with all lines but its first indented.
fn paragraphs(texts: &[String], width: Option<usize>) -> Vec<String> {
    let mut out = Vec::new();
    if !texts.is_empty() {
        out.push(String::new());
    }
    for text in texts {
        let mut lines = wrap(text, width, "  ");
        if let Some(first) = lines.first_mut() {
            *first = first.trim_start().to_owned();
        }
        out.extend(lines);
    }
    out
}

/// A table and its caption, without the columns for which there is no room.
pub(super) fn lay_out(table: &Table, width: Option<usize>) -> Vec<String> {
    let (kept, dropped) = fit(table, width);
    let mut laid = comfy_table::Table::new();
    laid.load_style(comfy_table::presets::NOTHING);
    laid.set_content_arrangement(ContentArrangement::Disabled);
    laid.set_header(kept.iter().map(|&at| table.columns[at].name.as_str()));
    for row in &table.rows {
        laid.add_row(kept.iter().map(|&at| plain(&row[at])));
    }
    let natural: usize = kept.iter().map(|&at| widest(table, at) + GUTTER).sum();
    let too_wide = width.filter(|&width| natural > width + GUTTER);
    let has_wrapping = kept.iter().any(|&at| table.columns[at].wraps);
    for (index, laid_column) in laid.column_iter_mut().enumerate() {
        let column = &table.columns[kept[index]];
        laid_column.set_cell_alignment(match column.is_number {
            true => CellAlignment::Right,
            false => CellAlignment::Left,
        });
        let gutter = if index == 0 { 0 } else { GUTTER as u16 };
        laid_column.set_padding((gutter, 0));
        if has_wrapping && !column.wraps {
            laid_column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    if let Some(width) = too_wide {
        laid.set_content_arrangement(ContentArrangement::Dynamic);
        laid.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    let mut out = wrap(&table.caption, width, "");
    out.extend(laid.lines().map(|line| line.trim_end().to_owned()));
    if !dropped.is_empty() {
        let text = format!(
            "(no room for: {}; use a wider terminal, or JSON)",
            dropped.join(", ")
        );
        out.extend(wrap(&text, width, ""));
    }
    out
}

/// Which columns fit, and the names of the others.
fn fit(table: &Table, width: Option<usize>) -> (Vec<usize>, Vec<String>) {
    let mut kept: Vec<usize> = (0..table.columns.len()).collect();
    let mut dropped = Vec::new();
    let Some(width) = width else {
        return (kept, dropped);
    };
    let least = |at: usize| match table.columns[at].wraps {
        true => widest(table, at).min(MIN_WRAPPED),
        false => widest(table, at),
    };
    while kept.iter().map(|&at| least(at) + GUTTER).sum::<usize>() > width + GUTTER {
        // Of columns of one rank, the last goes first.
        let victim = kept
            .iter()
            .copied()
            .filter(|&at| table.columns[at].rank > 0)
            .max_by_key(|&at| (table.columns[at].rank, at));
        let Some(victim) = victim else { break };
        kept.retain(|&at| at != victim);
        dropped.push(table.columns[victim].name.clone());
    }
    (kept, dropped)
}

fn widest(table: &Table, at: usize) -> usize {
    let texts = table.rows.iter().map(|row| row[at].as_str());
    texts
        .chain([table.columns[at].name.as_str()])
        .map(|text| text.chars().count())
        .max()
        .unwrap_or(0)
}

fn remarks(lines: &[Line], width: Option<usize>) -> Vec<String> {
    let remarks = lines.iter().filter(|line| !line.is_warning);
    remarks
        .flat_map(|line| wrap(&line.text, width, ""))
        .collect()
}

/// Breaks text into lines of at most `width`, each indented; a word that is longer stays whole.
fn wrap(text: &str, width: Option<usize>, indent: &str) -> Vec<String> {
    let text = plain(text);
    let Some(width) = width else {
        return vec![format!("{indent}{text}")];
    };
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let length = indent.chars().count() + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && length > width {
            lines.push(format!("{indent}{line}"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(format!("{indent}{line}"));
    lines
}

/// Select Graphic Rendition (ECMA-48, 8.3.117).
pub(super) fn bold(text: &str, style: &Style) -> String {
    match style.color {
        true => format!("\x1b[1m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}
