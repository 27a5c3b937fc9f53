//! A record as people and programs read it.

mod anatomy;
mod describe;
mod figures;
pub mod inventory;
mod json;
mod notes;
mod table;
mod tables;
mod traffic;
mod view;
mod waterfall;

use crate::model::record::Record;

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

#[cfg(test)]
mod tests;
