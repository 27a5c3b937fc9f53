//! A record as people and programs read it.

mod anatomy;
mod answer;
mod chart;
mod describe;
mod drives;
mod durability;
mod effort;
mod figures;
pub mod inventory;
mod json;
mod lab;
mod notes;
mod steady;
mod table;
mod tables;
mod timeline;
mod traffic;
mod verdicts;
mod view;
mod waterfall;

use crate::model::record::{Note, Record};

pub use json::json;

/// How a table looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; none: as wide as the content.
    pub width: Option<usize>,
    /// Escape sequences for bold and colour.
    pub color: bool,
}

/// The record as text with tables, as the run and `syncprof report` print it.
pub fn render(record: &Record, style: &Style) -> String {
    table::render(&view::view(record), style)
}

/// Why the record's figures are what they are, and the anatomy of its traced cells, as
/// `syncprof explain` prints them.
pub fn explain(record: &Record, style: &Style) -> String {
    table::render(&view::explanation(record), style)
}

/// Why one may doubt the record's figures, and which flag to try next, a line each: for standard
/// error. What the run noted itself is not among them.
pub fn warnings(record: &Record) -> Vec<String> {
    view::view(record).warnings()
}

/// A note of the record's, with the path that it is about where there are several.
pub fn note_text(record: &Record, note: &Note) -> String {
    let about = record
        .targets
        .iter()
        .find(|target| record.targets.len() > 1 && note.target.as_ref() == Some(&target.id));
    about.map_or_else(
        || note.text.clone(),
        |target| view::about(&target.path, &note.text),
    )
}

#[cfg(test)]
mod tests;
