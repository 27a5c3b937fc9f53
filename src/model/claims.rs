//! What somebody claims of a drive, and what a run did to try it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::cell::{Method, Pattern, axis};

axis! {
    /// What was written to a drive before a measurement.
    DriveState, "state" {
        /// Nothing since it was purged.
        Fresh = "fresh",
        /// So much that its figures no longer change.
        Steady = "steady",
        /// Whatever it was: the claim holds in any state.
        Any = "any",
    }
}

axis! {
    /// Which side of a bound a figure must be on.
    Side, "bound" {
        /// On it or above.
        AtLeast = "at_least",
        /// On it or below.
        AtMost = "at_most",
    }
}

/// A claims file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// Its name, or the path that it was read from.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// Of which drives it speaks.
    pub device: ClaimedDevice,
    /// What it claims.
    pub claims: Vec<Claim>,
    /// What it leaves unsaid, a phrase each.
    pub unsaid: Vec<String>,
}

/// The drives that a claims file speaks of; what is empty doesn't matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimedDevice {
    /// Who made it.
    pub vendor: Option<String>,
    /// Patterns of the model that the drive gives, in which `*` is any text.
    pub models: Vec<String>,
    /// Its capacities.
    pub capacities_bytes: Vec<u64>,
    /// Revision of the drive or of its data sheet.
    pub revision: Option<String>,
    /// Where the claims were found.
    pub source: Option<String>,
    /// When they were made.
    pub date: Option<String>,
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// In a few words.
    pub name: String,
    /// Capacities that it is for; empty: all of the file's.
    pub capacities_bytes: Vec<u64>,
    /// Under which it holds.
    pub conditions: Conditions,
    /// What is claimed; none where only the conditions are known.
    pub bound: Option<Bound>,
}

/// The conditions of a claim. What is none was left unsaid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Order of offsets.
    pub pattern: Option<Pattern>,
    /// Bytes of a write.
    pub size_bytes: Option<u64>,
    /// Writes in flight for each job.
    pub queue_depth: Option<u32>,
    /// Jobs.
    pub jobs: Option<u32>,
    /// What makes a write synchronous.
    pub method: Option<Method>,
    /// With O_DIRECT.
    pub direct: Option<bool>,
    /// What was written before.
    pub state: Option<DriveState>,
    /// What the offsets range over.
    pub span: Option<Span>,
    /// The drive's volatile write cache is in use.
    pub write_cache: Option<bool>,
}

/// What the offsets of a claim range over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// The whole drive.
    Whole,
    /// So many bytes.
    Bytes(u64),
}

/// What is claimed of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Which figure.
    pub figure: Figure,
    /// On which side of `value` it is to be.
    pub side: Side,
    /// In the unit that the figure's name ends in.
    pub value: f64,
}

/// A figure that can be claimed; each is named with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Bytes written per second.
    ThroughputBytesPerS,
    /// Writes per second.
    Iops,
    /// Mean latency.
    MeanNs,
    /// The latency that this share of the writes did not exceed.
    QuantileNs(f64),
}

impl Figure {
    /// A latency, and not a rate.
    pub fn is_latency(self) -> bool {
        matches!(self, Figure::MeanNs | Figure::QuantileNs(_))
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::ThroughputBytesPerS => f.pad("throughput"),
            Figure::Iops => f.pad("IOPS"),
            Figure::MeanNs => f.pad("mean latency"),
            // Without the rounding that 0.999 * 100 brings.
            Figure::QuantileNs(share) => {
                let percent = format!("{:.6}", share * 100.0);
                let percent = percent.trim_end_matches('0').trim_end_matches('.');
                f.pad(&format!("p{percent} latency"))
            }
        }
    }
}

/// The trial of a claims file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// What was tried.
    pub claims: Claims,
    /// Differences between the claims' conditions and the run's were to be set aside.
    pub as_if: bool,
    /// All of the drive was discarded before the first claim.
    pub purged: bool,
    /// A trial for each claim, in their order.
    pub trials: Vec<Trial>,
}

/// What was done to try one claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The `id` of the cell that was measured; none if none was.
    pub cell: Option<String>,
    /// The `id` of the same with synchronous writes; none where the claim's own are.
    pub durable_cell: Option<String>,
    /// Why it was not run, if the reason is no property of claim and drive.
    pub not_run: Option<String>,
    /// The sequential writes before a claim on a steady drive.
    pub filled: Option<Series>,
    /// The rounds until the drive was steady.
    pub rounds: Vec<SteadyRound>,
}

/// Writes over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Bytes that were written.
    pub bytes: u64,
    /// Time that it took.
    pub elapsed_ns: u64,
    /// Stretches, one after the other.
    pub points: Vec<Point>,
}

/// A stretch of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Writes that completed.
    pub ops: u64,
    /// Bytes that they wrote.
    pub bytes: u64,
    /// Its length, pauses left out.
    pub elapsed_ns: u64,
    /// The drive's temperature at its end; none where the kernel offers none.
    pub temperature_c: Option<f64>,
}

impl Point {
    /// This stretch and the one after it as one.
    #[must_use]
    pub fn then(self, next: Point) -> Point {
        Point {
            ops: self.ops + next.ops,
            bytes: self.bytes + next.bytes,
            elapsed_ns: self.elapsed_ns + next.elapsed_ns,
            temperature_c: next.temperature_c.or(self.temperature_c),
        }
    }
}

/// A round on the way to the steady state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SteadyRound {
    /// Its stretches.
    pub points: Vec<Point>,
    /// Mean latency of its writes; none without a write.
    pub mean_ns: Option<f64>,
}

impl SteadyRound {
    /// All stretches together.
    pub fn total(&self) -> Point {
        let points = self.points.iter().copied();
        points.reduce(Point::then).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_read_as_people_write_them() {
        for (share, text) in [
            (0.5, "p50 latency"),
            (0.99, "p99 latency"),
            (0.999, "p99.9 latency"),
            (0.99999, "p99.999 latency"),
        ] {
            assert_eq!(Figure::QuantileNs(share).to_string(), text);
        }
    }

    #[test]
    fn a_round_is_the_sum_of_its_stretches() {
        let point = |ops, temperature_c| Point {
            ops,
            bytes: ops * 4096,
            elapsed_ns: 10,
            temperature_c,
        };
        let round = SteadyRound {
            points: vec![point(1, None), point(2, Some(40.0))],
            mean_ns: None,
        };
        assert_eq!(round.total().ops, 3);
        assert_eq!(round.total().elapsed_ns, 20);
        assert_eq!(round.total().temperature_c, Some(40.0));
    }
}
