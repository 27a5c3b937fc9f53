//! How sure one cell's own throughput is.

use crate::model::record::Cell;

use super::interval::Interval;

/// Throughput in bytes per second, with its interval over slices; none with fewer than three.
pub fn cell_spread(_cell: &Cell) -> Option<Interval> {
    None
}
