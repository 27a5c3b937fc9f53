//! A record as people and programs read it.

mod describe;
mod figures;
pub mod inventory;
mod json;
mod notes;
mod table;
mod tables;
mod view;

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

#[cfg(test)]
mod tests;
