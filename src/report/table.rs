//! The view as text for a terminal, fitted to its width.

use comfy_table::{CellAlignment, ContentArrangement};

use super::Style;
use super::view::{Line, Table, View};
use crate::model::text::plain;

/// Narrower than this, nothing can be laid out sensibly.
const MIN_WIDTH: usize = 40;
/// Columns between two columns of a table.
const GUTTER: usize = 2;

pub(super) fn render(view: &View, style: &Style) -> String {
    let width = style.width.map(|width| width.max(MIN_WIDTH));
    let mut out = Vec::new();
    for section in &view.sections {
        out.extend(
            wrap(&section.title, width, "")
                .into_iter()
                .map(|line| bold(&line, style)),
        );
        for fact in &section.facts {
            out.extend(wrap(fact, width, "  "));
        }
        if let Some(headline) = &section.headline {
            out.push(String::new());
            out.extend(
                wrap(headline, width, "")
                    .into_iter()
                    .map(|line| bold(&line, style)),
            );
        }
        for table in &section.tables {
            out.push(String::new());
            out.extend(lay_out(table, width));
        }
        out.push(String::new());
        out.extend(lines(&section.notes, width, style));
        if !section.notes.is_empty() {
            out.push(String::new());
        }
    }
    out.extend(lines(&view.foot, width, style));
    let mut text = out.join("\n");
    text.push('\n');
    text
}

/// A table and its caption, without the columns for which there is no room.
fn lay_out(table: &Table, width: Option<usize>) -> Vec<String> {
    let (kept, dropped) = fit(table, width);
    let mut laid = comfy_table::Table::new();
    laid.load_style(comfy_table::presets::NOTHING);
    laid.set_content_arrangement(ContentArrangement::Disabled);
    laid.set_header(kept.iter().map(|&at| table.columns[at].name.as_str()));
    for row in &table.rows {
        laid.add_row(kept.iter().map(|&at| plain(&row[at])));
    }
    for (index, column) in laid.column_iter_mut().enumerate() {
        let is_number = table.columns[kept[index]].is_number;
        column.set_cell_alignment(if is_number {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        });
        column.set_padding(if index == 0 {
            (0, 0)
        } else {
            (GUTTER as u16, 0)
        });
    }
    if let Some(width) = width.filter(|&width| natural_width(table, &kept) > width) {
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
    while natural_width(table, &kept) > width {
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

fn natural_width(table: &Table, kept: &[usize]) -> usize {
    let widest = |at: usize| {
        let rows = table.rows.iter().map(|row| row[at].chars().count());
        rows.max()
            .unwrap_or(0)
            .max(table.columns[at].name.chars().count())
    };
    let content: usize = kept.iter().map(|&at| widest(at)).sum();
    content + GUTTER * kept.len().saturating_sub(1)
}

fn lines(lines: &[Line], width: Option<usize>, style: &Style) -> Vec<String> {
    let mut out = Vec::new();
    for line in lines {
        // A row's mark is explained by a line that begins with it.
        let text = match line.is_warning && !line.text.starts_with('*') {
            true => format!("! {}", line.text),
            false => line.text.clone(),
        };
        let hang = if line.is_warning { "  " } else { "" };
        for (index, part) in wrap(&text, width, hang).into_iter().enumerate() {
            let part = if index == 0 {
                part.trim_start().to_owned()
            } else {
                part
            };
            out.push(if line.is_warning {
                paint("33", &part, style)
            } else {
                part
            });
        }
    }
    out
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

fn bold(text: &str, style: &Style) -> String {
    paint("1", text, style)
}

/// Select Graphic Rendition (ECMA-48, 8.3.117).
fn paint(code: &str, text: &str, style: &Style) -> String {
    if style.color {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}
