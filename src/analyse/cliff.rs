//! Cliffs: lasting drops of a drive's throughput, as when its cache is full or it gets too hot.

use serde::Serialize;

use crate::model::claims::{Point, Trial};
use crate::model::record::Cell;

/// Fewest stretches on each side of a cliff.
const LEAST_POINTS: usize = 3;
/// What remains after a cliff is at most this share of what was before.
const REMAINS: f64 = 0.75;
/// So many of the stretches of each side must be nearer to their own side's mean than to the other's.
const CLEAR_SHARE: f64 = 0.9;
/// This share of the drop happens right at the cliff; else it is a slope.
const SHARP_SHARE: f64 = 0.5;

/// A lasting drop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cliff {
    /// In which writes.
    pub during: During,
    /// Time that was written before it.
    pub at_ns: u64,
    /// Bytes that were written before it.
    pub at_bytes: u64,
    /// Mean throughput before it.
    pub before_bytes_per_s: f64,
    /// Mean throughput after it.
    pub after_bytes_per_s: f64,
    /// The drive's temperature right before it; none where the kernel offered none.
    pub before_c: Option<f64>,
    /// The highest temperature after it.
    pub after_c: Option<f64>,
}

/// In which of a trial's writes a cliff lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum During {
    /// The sequential writes of the preconditioning.
    Fill,
    /// The rounds until the steady state.
    Rounds,
    /// The measurement.
    Measurement,
}

/// The cliffs of a trial: at most one in each of its parts.
pub fn cliffs(trial: &Trial, cell: Option<&Cell>) -> Vec<Cliff> {
    let fill = trial
        .filled
        .as_ref()
        .map_or(&[][..], |series| &series.points);
    let rounds: Vec<Point> = trial
        .rounds
        .iter()
        .flat_map(|round| round.points.clone())
        .collect();
    let measured: Vec<Point> = cell.map_or_else(Vec::new, slices);
    [
        (During::Fill, fill),
        (During::Rounds, &rounds),
        (During::Measurement, &measured),
    ]
    .into_iter()
    .filter_map(|(during, points)| cliff(during, points))
    .collect()
}

fn slices(cell: &Cell) -> Vec<Point> {
    let mut slices: Vec<_> = cell.slices.iter().collect();
    slices.sort_by_key(|slice| slice.started_ns);
    slices
        .into_iter()
        .map(|slice| Point {
            ops: slice.ops,
            bytes: slice.bytes,
            elapsed_ns: slice.elapsed_ns,
            temperature_c: None,
        })
        .collect()
}

fn cliff(during: During, points: &[Point]) -> Option<Cliff> {
    let rates: Option<Vec<f64>> = points
        .iter()
        .map(|point| (point.elapsed_ns > 0).then(|| point.bytes as f64 / point.elapsed_ns as f64))
        .collect();
    let at = drop_at(&rates?)?;
    let (before, after) = points.split_at(at);
    let sum = |points: &[Point]| {
        points
            .iter()
            .copied()
            .reduce(Point::then)
            .unwrap_or_default()
    };
    let rate = |total: Point| total.bytes as f64 / total.elapsed_ns as f64 * 1e9;
    let until = sum(before);
    let warmest = after.iter().filter_map(|point| point.temperature_c);
    Some(Cliff {
        during,
        at_ns: until.elapsed_ns,
        at_bytes: until.bytes,
        before_bytes_per_s: rate(until),
        after_bytes_per_s: rate(sum(after)),
        before_c: until.temperature_c,
        after_c: warmest.reduce(f64::max),
    })
}

/// The first of a series' values after its lasting drop; none without one. The series is cut in two
/// where its values differ least from the means of their sides; that is a cliff if little remains
/// after it, if nearly all values are clear about their side, and if most of the drop is at the cut.
pub fn drop_at(values: &[f64]) -> Option<usize> {
    let cuts = LEAST_POINTS..(values.len() + 1).saturating_sub(LEAST_POINTS);
    let at = cuts.min_by(|&one, &other| residue(values, one).total_cmp(&residue(values, other)))?;
    let (left, right) = values.split_at(at);
    let (before, after) = (mean(left), mean(right));
    let middle = f64::midpoint(before, after);
    let clear = |side: &[f64], is_clear: &dyn Fn(f64) -> bool| {
        let count = side.iter().filter(|&&value| is_clear(value)).count();
        count as f64 >= CLEAR_SHARE * side.len() as f64
    };
    let step = mean(&left[at - LEAST_POINTS..]) - mean(&right[..LEAST_POINTS]);
    let is_cliff = before > 0.0
        && after <= REMAINS * before
        && clear(left, &|value| value > middle)
        && clear(right, &|value| value < middle)
        && step >= SHARP_SHARE * (before - after);
    is_cliff.then_some(at)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sum of the squares of what is left of each value without its side's mean.
fn residue(values: &[f64], at: usize) -> f64 {
    let (left, right) = values.split_at(at);
    let of = |side: &[f64]| {
        let mean = mean(side);
        side.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    of(left) + of(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::claims::Series;

    #[test]
    fn a_full_cache_is_found_where_it_was_full() {
        let mut values = vec![2000.0; 40];
        values.extend([500.0; 60]);
        assert_eq!(drop_at(&values), Some(40));
        assert_eq!(drop_at(&[9.0, 9.0, 9.0, 3.0, 3.0, 3.0]), Some(3));
    }

    #[test]
    fn noise_does_not_hide_a_cliff_and_is_none_itself() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut noisy = |mean: f64| mean * (0.8 + 0.4 * rng.f64());
        let values: Vec<f64> = (0..100)
            .map(|i| noisy(if i < 30 { 100.0 } else { 40.0 }))
            .collect();
        assert_eq!(drop_at(&values), Some(30));
        let flat: Vec<f64> = (0..100).map(|_| noisy(100.0)).collect();
        assert_eq!(drop_at(&flat), None);
    }

    #[test]
    fn a_dip_that_ends_is_no_cliff() {
        let mut values = vec![100.0; 30];
        values[10..14].fill(20.0);
        assert_eq!(drop_at(&values), None);
        values[12..14].fill(100.0);
        values[24..30].fill(20.0);
        assert_eq!(drop_at(&values), Some(24), "the dip before it is short");
    }

    #[test]
    fn a_rise_a_slope_and_a_small_step_are_no_cliffs() {
        let rise: Vec<f64> = [[40.0; 20], [100.0; 20]].concat();
        assert_eq!(drop_at(&rise), None);
        let slope: Vec<f64> = (0..50).map(|i| 100.0 - f64::from(i)).collect();
        assert_eq!(drop_at(&slope), None);
        let small: Vec<f64> = [[100.0; 20], [80.0; 20]].concat();
        assert_eq!(drop_at(&small), None);
    }

    #[test]
    fn a_few_values_have_no_cliff() {
        for count in 0..6 {
            let values: Vec<f64> = (0..count).map(|i| 100.0 / f64::from(1 + i)).collect();
            assert_eq!(drop_at(&values), None, "{count}");
        }
    }

    #[test]
    fn a_cliff_says_after_how_much_and_how_warm_it_was() {
        let point = |bytes, temperature| Point {
            ops: 1,
            bytes,
            elapsed_ns: 1_000_000_000,
            temperature_c: Some(temperature),
        };
        let mut points: Vec<Point> = (0..5).map(|i| point(1000, 40.0 + f64::from(i))).collect();
        points.extend([point(200, 50.0), point(200, 71.0), point(200, 70.0)]);
        let trial = Trial {
            filled: Some(Series {
                points,
                ..Series::default()
            }),
            ..Trial::default()
        };
        let found = cliffs(&trial, None);
        assert_eq!(
            found,
            [Cliff {
                during: During::Fill,
                at_ns: 5_000_000_000,
                at_bytes: 5000,
                before_bytes_per_s: 1000.0,
                after_bytes_per_s: 200.0,
                before_c: Some(44.0),
                after_c: Some(71.0),
            }]
        );
    }
}
