//! Brings a drive into its steady state, by the rules of SNIA's Solid State Storage Performance Test
//! Specification 2.0.2: twice its capacity in sequential writes, then the claim's own workload, round
//! by round, until it no longer changes.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::model::claims::{Point, Series, SteadyRound};

use super::rounds::{HARD_NS, Slicer};
use super::slice::{Outcome, SliceError, SliceParams};

/// The drive counts as not steady after so many rounds (PTS 2.0.2, 2.1.24).
pub const MAX_ROUNDS: usize = 25;
/// The drive is written so many times over.
const FILLS: u64 = 2;
/// A stretch of a series is this long, so that a signal is heard and progress is seen.
const POINT_NS: u64 = 1_000_000_000;
/// A series of more stretches has its neighbours put together.
const MAX_POINTS: usize = 1024;

/// What goes on.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// The drive is written in order: bytes done, of so many.
    Fill {
        /// Written so far.
        done_bytes: u64,
        /// To be written.
        total_bytes: u64,
        /// Since the first write.
        elapsed: Duration,
    },
    /// A round of the claim's own workload.
    Steady {
        /// Which round, from 0.
        round: usize,
        /// The length of one.
        round_ns: u64,
        /// How much of it is done.
        done_ns: u64,
    },
}

/// Whether to go on, asked after each stretch; false where a signal came.
pub(super) type More<'a> = &'a mut dyn FnMut(Stage) -> bool;

/// Why a drive could not be written.
pub(super) enum Failure {
    /// The claim can't be tried: why.
    Claim(String),
    /// The run can't go on.
    Fatal(anyhow::Error),
}

impl From<SliceError> for Failure {
    fn from(error: SliceError) -> Failure {
        match error {
            SliceError::Cell(why) => Failure::Claim(why),
            SliceError::Fatal(error) => Failure::Fatal(error),
        }
    }
}

/// Writes the span of the cell at `index` twice, in order. What was done before a signal is given.
pub(super) fn fill(
    slicer: &mut dyn Slicer,
    index: usize,
    (span_bytes, size_bytes): (u64, u64),
    more: More<'_>,
) -> Result<Series, Failure> {
    let total_bytes = FILLS * (span_bytes - span_bytes % size_bytes);
    let mut series = Series::default();
    let begun_ns = slicer.now_ns();
    loop {
        let stage = Stage::Fill {
            done_bytes: series.bytes,
            total_bytes,
            elapsed: Duration::from_nanos(slicer.now_ns() - begun_ns),
        };
        if !more(stage) || series.bytes >= total_bytes {
            return Ok(series);
        }
        let left = (total_bytes - series.bytes).div_ceil(size_bytes);
        let (point, _) = stretch(slicer, index, 0, POINT_NS, left)?;
        series.bytes += point.bytes;
        series.elapsed_ns += point.elapsed_ns;
        series.points.push(point);
        coarsen(&mut series.points);
    }
}

/// One round of the cell at `index`; none if a signal ended it.
pub(super) fn round(
    slicer: &mut dyn Slicer,
    index: usize,
    number: usize,
    round_ns: u64,
    rng: &mut fastrand::Rng,
    more: More<'_>,
) -> Result<Option<SteadyRound>, Failure> {
    let mut round = SteadyRound::default();
    let (mut done_ns, mut sum_ns, mut ops) = (0, 0.0, 0);
    while done_ns < round_ns {
        let stage = Stage::Steady {
            round: number,
            round_ns,
            done_ns,
        };
        if !more(stage) {
            return Ok(None);
        }
        let time_ns = POINT_NS.min(round_ns - done_ns);
        let (point, histogram) = stretch(slicer, index, rng.u64(..), time_ns, u64::MAX)?;
        done_ns += point.elapsed_ns.max(1);
        sum_ns += histogram.mean() * histogram.len() as f64;
        ops += histogram.len();
        round.points.push(point);
    }
    round.mean_ns = (ops > 0).then(|| sum_ns / ops as f64);
    Ok(Some(round))
}

/// Writes for `time_ns`, `max_ops` writes at most, from where the cell's last writes ended.
fn stretch(
    slicer: &mut dyn Slicer,
    index: usize,
    seed: u64,
    time_ns: u64,
    max_ops: u64,
) -> Result<(Point, Histogram<u64>), Failure> {
    let ask = SliceParams {
        seed,
        time_ns,
        min_ops: 1,
        hard_ns: HARD_NS,
        max_ops,
        count_handed: false,
        goes_on: true,
    };
    slicer.look(false).map_err(Failure::Fatal)?;
    let Outcome {
        slice,
        histogram,
        failed,
        ..
    } = slicer.slice(index, &ask)?;
    if let Some(why) = failed {
        return Err(Failure::Claim(why));
    }
    if slice.ops == 0 {
        return Err(Failure::Claim("no write completed".to_owned()));
    }
    let point = Point {
        ops: slice.ops,
        bytes: slice.bytes,
        elapsed_ns: slice.elapsed_ns,
        temperature_c: slicer.temperature_c(index),
    };
    Ok((point, histogram))
}

/// Puts neighbours together where there are too many: a drive of terabytes takes hours.
fn coarsen(points: &mut Vec<Point>) {
    if points.len() < MAX_POINTS {
        return;
    }
    *points = points
        .chunks(2)
        .map(|pair| pair.iter().copied().reduce(Point::then).unwrap_or_default())
        .collect();
}
