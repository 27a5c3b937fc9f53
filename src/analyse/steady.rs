//! The steady state, by SNIA's Solid State Storage Performance Test Specification 2.0.2, 2.1.24.

use serde::Serialize;

use crate::model::claims::{Figure, SteadyRound};

/// Rounds that are looked at: the measurement window.
pub const WINDOW: usize = 5;

/// What a measurement window shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// Its first round, from 0.
    pub first_round: usize,
    /// Mean of the tracked figure over its rounds.
    pub average: f64,
    /// Largest less smallest, over the average; steady is at most 0.2.
    pub range_share: f64,
    /// The rise of the best straight line from the first to the last round, over the average; steady
    /// is at most 0.1, up or down.
    pub slope_share: f64,
    /// Both are within their limits.
    pub is_steady: bool,
}

/// What the last window of a figure's values, one a round, shows; none of fewer than [`WINDOW`].
pub fn last_window(values: &[f64]) -> Option<Window> {
    let first_round = values.len().checked_sub(WINDOW)?;
    let &[a, b, c, d, e] = &values[first_round..] else {
        return None;
    };
    let window = [a, b, c, d, e];
    let sum: f64 = window.iter().sum();
    if !sum.is_finite() || sum <= 0.0 {
        return None;
    }
    let range = window.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        - window.iter().copied().fold(f64::INFINITY, f64::min);
    // Least squares over the rounds -2 to 2: the slope is this over 10, and the window four wide.
    let moment = 2.0 * (e - a) + (d - b);
    Some(Window {
        first_round,
        average: sum / 5.0,
        range_share: range * 5.0 / sum,
        slope_share: 2.0 * moment / sum,
        // Written without a division, so that what is at a limit is within it: the range within
        // 20 % of sum / 5, the rise of 4/10 of the moment within 10 % of it.
        is_steady: 25.0 * range <= sum && 20.0 * moment.abs() <= sum,
    })
}

/// The tracked figure of each round: the mean latency where that or a percentile is claimed, else the
/// writes per second. A round without a write has none, and ends the list.
pub fn tracked(rounds: &[SteadyRound], figure: Option<Figure>) -> Vec<f64> {
    let is_latency = figure.is_some_and(Figure::is_latency);
    rounds
        .iter()
        .map_while(|round| {
            let total = round.total();
            match is_latency {
                true => round.mean_ns,
                false => (total.ops > 0 && total.elapsed_ns > 0)
                    .then(|| total.ops as f64 / total.elapsed_ns as f64 * 1e9),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::claims::Point;

    fn of(values: &[f64]) -> Window {
        last_window(values).unwrap()
    }

    #[test]
    fn a_flat_series_is_steady_after_five_rounds_and_not_before() {
        assert_eq!(last_window(&[100.0; 4]), None);
        let window = of(&[100.0; 5]);
        assert!(window.is_steady);
        assert_eq!((window.first_round, window.average), (0, 100.0));
        assert_eq!((window.range_share, window.slope_share), (0.0, 0.0));
    }

    #[test]
    fn a_range_of_exactly_20_percent_is_steady_and_more_is_not() {
        // Symmetric around the middle: no slope.
        let window = of(&[90.0, 110.0, 100.0, 110.0, 90.0]);
        assert_eq!((window.range_share, window.slope_share), (0.2, 0.0));
        assert!(window.is_steady);
        let window = of(&[90.0, 110.5, 99.0, 110.5, 90.0]);
        assert_eq!(window.average, 100.0);
        assert!(window.range_share > 0.2 && !window.is_steady);
    }

    #[test]
    fn a_slope_of_exactly_10_percent_is_steady_up_and_down_and_more_is_not() {
        let line = |step: f64| [-2.0, -1.0, 0.0, 1.0, 2.0].map(|x| 100.0 + step * x);
        for (step, share, is_steady) in [
            (2.5, 0.1, true),
            (-2.5, -0.1, true),
            (2.75, 0.11, false),
            (-2.75, -0.11, false),
        ] {
            let window = of(&line(step));
            assert!((window.slope_share - share).abs() < 1e-12, "{window:?}");
            assert_eq!(window.is_steady, is_steady, "{step}");
            assert!(window.range_share <= 0.2, "the slope alone decides");
        }
    }

    #[test]
    fn both_limits_count() {
        // No slope, but a range of 40 %.
        assert!(!of(&[100.0, 80.0, 120.0, 80.0, 120.0 - 20.0]).is_steady);
        let window = of(&[120.0, 80.0, 100.0, 80.0, 120.0]);
        assert_eq!(window.slope_share, 0.0);
        assert!(!window.is_steady);
    }

    #[test]
    fn the_window_moves_with_the_rounds_and_forgets_what_left_it() {
        let mut values = vec![400.0, 200.0, 100.0, 100.0, 100.0, 100.0];
        assert!(!of(&values).is_steady, "200 is still in the window");
        values.push(100.0);
        let window = of(&values);
        assert!(window.is_steady);
        assert_eq!(window.first_round, 2);
        values.push(200.0);
        assert!(!of(&values).is_steady);
    }

    #[test]
    fn the_best_line_is_not_the_line_between_the_ends() {
        // The ends are equal; least squares gives (2 * 0 + (90 - 110)) / 10 * 4 over 100.
        let window = of(&[100.0, 110.0, 100.0, 90.0, 100.0]);
        assert!((window.slope_share + 0.08).abs() < 1e-12, "{window:?}");
    }

    #[test]
    fn nothing_is_never_steady() {
        assert_eq!(last_window(&[0.0; 5]), None);
        assert_eq!(last_window(&[f64::NAN; 5]), None);
        assert_eq!(last_window(&[]), None);
    }

    #[test]
    fn rates_are_tracked_as_writes_per_second_and_latencies_as_their_mean() {
        let round = |ops, mean_ns| SteadyRound {
            points: vec![Point {
                ops,
                bytes: ops * 4096,
                elapsed_ns: 500_000_000,
                temperature_c: None,
            }],
            mean_ns,
        };
        let rounds = [round(10, Some(7.0)), round(0, None), round(20, Some(8.0))];
        assert_eq!(tracked(&rounds, Some(Figure::Iops)), [20.0]);
        assert_eq!(tracked(&rounds, Some(Figure::QuantileNs(0.99))), [7.0]);
        assert_eq!(tracked(&rounds[2..], None), [40.0]);
    }
}
