//! How sure one cell's own throughput is.

use crate::model::record::Cell;

use super::compare::works_alone;
use super::interval::Interval;
use super::ratio::rate_per_s;

/// A cell's throughput in bytes per second, with its 95 % confidence interval over rounds; none with
/// fewer than three rounds. The interval covers the machine's drift during the run, not what
/// another day would give.
pub fn cell_spread(cell: &Cell) -> Option<Interval> {
    cell_spread_of(cell, u32::MAX)
}

/// The same of the first `rounds` rounds.
pub(super) fn cell_spread_of(cell: &Cell, rounds: u32) -> Option<Interval> {
    rate_per_s(&works_alone(cell, rounds))
}
