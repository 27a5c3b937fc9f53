//! Figures with their 95 % confidence intervals.

use serde::{Deserialize, Serialize};

/// Rounds below which no interval is given: with two, Student's t is 12.7, and no figure beats one
/// that says nothing.
pub const MIN_ROUNDS: usize = 3;

/// A figure and its 95 % confidence interval. All three are finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// An interval, unless one of its figures is not finite.
    pub fn new(value: f64, low: f64, high: f64) -> Option<Interval> {
        [value, low, high]
            .iter()
            .all(|figure| figure.is_finite())
            .then_some(Interval { value, low, high })
    }

    /// Half its width over its value: the ± that a reader sees. None for a value of zero.
    pub fn relative_half_width(&self) -> Option<f64> {
        let share = (self.high - self.low) / (2.0 * self.value.abs());
        share.is_finite().then_some(share)
    }

    /// The same with each side so many times as long, on logarithms where all of it is positive: a rate
    /// or a latency that is known badly is still none below zero.
    #[must_use]
    pub fn widened(&self, factor: f64) -> Interval {
        let Interval { value, low, high } = *self;
        let (low, high) = match low > 0.0 {
            true => (
                value * (low / value).powf(factor),
                value * (high / value).powf(factor),
            ),
            false => (
                value - factor * (value - low),
                value + factor * (high - value),
            ),
        };
        Interval { value, low, high }
    }

    /// `figure` lies within.
    pub fn covers(&self, figure: f64) -> bool {
        (self.low..=self.high).contains(&figure)
    }
}

/// The 97.5 % quantile of Student's t with `freedom` degrees of freedom, which must be at least 1:
/// what a two-sided 95 % interval is made of.
fn student_t(freedom: usize) -> f64 {
    // Bisection: P(|T| <= t) rises with t, and 12.7062 is the quantile of one degree of freedom.
    let (mut low, mut high) = (1.9, 12.8);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if student_within(middle, freedom) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// How much wider than Student's t the intervals are made: latencies are skewed, and a run that stops
/// when it is precise stops a little early, which together cost about one percent of coverage.
/// `super::tests` measure what results.
const CAUTION: f64 = 1.04;

/// Half the width of a 95 % confidence interval from so many rounds, at least 2, for a figure with
/// this standard error.
pub fn reach(rounds: usize, error: f64) -> f64 {
    CAUTION * student_t(rounds - 1) * error
}

/// P(|T| <= t), by the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
fn student_within(t: f64, freedom: usize) -> f64 {
    let theta = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    // The terms are cos^k times a product of fractions: odd over even for an even number of degrees
    // of freedom, even over odd for an odd one.
    let odd = freedom % 2;
    let mut term = if odd == 1 { cos } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut power = 2 + odd;
    while power + 2 <= freedom {
        term *= cos * cos * (power - 1) as f64 / power as f64;
        sum += term;
        power += 2;
    }
    if odd == 1 {
        std::f64::consts::FRAC_2_PI * (theta + sin * sum)
    } else {
        sin * sum
    }
}

/// Mean and standard error of `values` over their number: the ingredients of a t interval. None for
/// fewer than [`MIN_ROUNDS`].
pub fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < MIN_ROUNDS {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0) / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2, column 0.975.
    const TABLE: [(usize, f64); 13] = [
        (1, 12.706),
        (2, 4.303),
        (3, 3.182),
        (4, 2.776),
        (5, 2.571),
        (6, 2.447),
        (7, 2.365),
        (8, 2.306),
        (9, 2.262),
        (10, 2.228),
        (30, 2.042),
        (39, 2.023),
        (100, 1.984),
    ];

    #[test]
    fn t_quantiles_are_those_of_the_published_table() {
        for (freedom, expected) in TABLE {
            let t = student_t(freedom);
            assert!(
                (t - expected).abs() < 0.0005,
                "{freedom}: {t} is not {expected}"
            );
        }
    }

    #[test]
    fn mean_and_error_of_known_values() {
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((mean - 2.5).abs() < 1e-12);
        assert!((error - (5.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!(mean_and_error(&[1.0, 2.0]), None);
    }

    #[test]
    fn a_widened_interval_stays_positive_if_it_was() {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        let wide = Interval::new(8.0, 2.0, 32.0).unwrap().widened(2.0);
        assert!(near(wide.low, 0.5) && near(wide.high, 128.0), "{wide:?}");
        let wide = Interval::new(1.0, -1.0, 2.0).unwrap().widened(2.0);
        assert!(near(wide.low, -3.0) && near(wide.high, 3.0), "{wide:?}");
        let same = Interval::new(8.0, 2.0, 32.0).unwrap().widened(1.0);
        assert!(near(same.low, 2.0) && near(same.high, 32.0), "{same:?}");
    }

    #[test]
    fn what_is_not_finite_is_no_interval() {
        assert_eq!(Interval::new(f64::NAN, 0.0, 1.0), None);
        assert_eq!(Interval::new(1.0, 0.0, f64::INFINITY), None);
        let interval = Interval::new(0.0, -1.0, 1.0).unwrap();
        assert_eq!(interval.relative_half_width(), None);
        assert!(interval.covers(0.5) && !interval.covers(1.5));
    }
}
