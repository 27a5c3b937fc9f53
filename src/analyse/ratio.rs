//! Ratios of throughputs from paired rounds.

use super::interval::{Interval, MIN_ROUNDS, mean_and_error, reach};

/// What one side did in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Operations completed, or bytes written.
    pub amount: f64,
    /// Time that they took.
    pub elapsed_ns: f64,
}

/// Throughput of the first side over that of the second, with its interval; one pair a round.
///
/// The estimate is the ratio of the two sides' total throughputs, and its interval comes from
/// leaving out one round at a time (the jackknife, on logarithms, with Student's t). Drift that is
/// common to both sides of a round cancels, because a pair is left out as a whole. The mean of
/// the rounds' own log ratios would do the same, but a slice of 20 operations has a throughput
/// that is biased by its latencies' spread, in every round alike, so more rounds would only make
/// a wrong figure look sure; the ratio of totals is biased by the spread over all operations, and
/// the jackknife takes even that away. `super::tests` show it.
///
/// None with fewer than [`MIN_ROUNDS`] rounds, or where a side did nothing in all rounds but one.
pub fn ratio(rounds: &[(Work, Work)]) -> Option<Interval> {
    let logs = |one: Work, other: Work| {
        (one.amount / one.elapsed_ns).ln() - (other.amount / other.elapsed_ns).ln()
    };
    jackknife(rounds, logs)
}

/// Throughput of one side alone, in amount per second, with its interval over rounds.
pub fn rate_per_s(rounds: &[Work]) -> Option<Interval> {
    let pairs: Vec<(Work, Work)> = rounds.iter().map(|&work| (work, Work::default())).collect();
    jackknife(&pairs, |one, _| (one.amount / one.elapsed_ns * 1e9).ln())
}

/// exp of a statistic of two sums, its bias removed and its interval found by leaving out one round
/// at a time: B. Efron and R. Tibshirani, An Introduction to the Bootstrap, chapter 11.
fn jackknife(rounds: &[(Work, Work)], statistic: impl Fn(Work, Work) -> f64) -> Option<Interval> {
    let count = rounds.len();
    if count < MIN_ROUNDS {
        return None;
    }
    let sum = |pick: fn(&(Work, Work)) -> Work| {
        rounds
            .iter()
            .map(pick)
            .fold(Work::default(), |sum, work| Work {
                amount: sum.amount + work.amount,
                elapsed_ns: sum.elapsed_ns + work.elapsed_ns,
            })
    };
    let (one, other) = (sum(|pair| pair.0), sum(|pair| pair.1));
    let less = |all: Work, part: Work| Work {
        amount: all.amount - part.amount,
        elapsed_ns: all.elapsed_ns - part.elapsed_ns,
    };
    let whole = statistic(one, other);
    let n = count as f64;
    let pseudo: Vec<f64> = rounds
        .iter()
        .map(|pair| n * whole - (n - 1.0) * statistic(less(one, pair.0), less(other, pair.1)))
        .collect();
    let (log, error) = mean_and_error(&pseudo)?;
    let reach = reach(count, error);
    Interval::new(log.exp(), (log - reach).exp(), (log + reach).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(amount: f64, elapsed_ns: f64) -> Work {
        Work { amount, elapsed_ns }
    }

    #[test]
    fn drift_that_both_sides_share_leaves_no_width() {
        let rounds: Vec<(Work, Work)> = (1..=8)
            .map(|drift| {
                (
                    work(100.0, f64::from(drift)),
                    work(100.0, 3.0 * f64::from(drift)),
                )
            })
            .collect();
        let interval = ratio(&rounds).unwrap();
        assert!((interval.value - 3.0).abs() < 1e-9);
        assert!(interval.high - interval.low < 1e-9, "{interval:?}");
    }

    #[test]
    fn a_rate_is_in_amounts_per_second() {
        let interval = rate_per_s(&[work(500.0, 1e6); 3]).unwrap();
        assert!((interval.value - 5e5).abs() < 1e-3, "{interval:?}");
    }

    #[test]
    fn what_cannot_be_known_is_none_and_never_infinite() {
        assert_eq!(ratio(&[(work(1.0, 1.0), work(1.0, 1.0)); 2]), None);
        assert_eq!(ratio(&[(work(1.0, 1.0), work(0.0, 0.0)); 8]), None);
        let mut rounds = [(work(1.0, 1.0), work(0.0, 1.0)); 8];
        rounds[3].1.amount = 1.0;
        assert_eq!(ratio(&rounds), None, "one round holds all that a side did");
    }
}
