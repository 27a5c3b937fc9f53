//! Figures as text.

use crate::analyse::interval::Interval;
use crate::analyse::quantile::is_known;
use crate::model::histogram::LatencyNs;
use crate::model::record::Cell;
pub(super) use crate::model::units::show_percent as percent;
use crate::model::units::{decimals, digits3};

/// What stands where a figure cannot be known; a note says why.
pub(super) const UNKNOWN: &str = "n/a";

/// Nanoseconds as microseconds, without the unit.
pub(super) fn us(ns: f64) -> String {
    digits3(ns / 1e3)
}

/// Bytes per second as MiB/s, without the unit.
pub(super) fn mib_per_s(bytes_per_s: f64) -> String {
    digits3(bytes_per_s / f64::from(1 << 20))
}

/// A ratio with its interval: `4.39 [4.31, 4.48]`.
pub(super) fn ratio(interval: Option<Interval>) -> String {
    interval.map_or_else(
        || UNKNOWN.to_owned(),
        |Interval { value, low, high }| {
            let places = decimals(high, 3);
            format!("{value:.places$} [{low:.places$}, {high:.places$}]")
        },
    )
}

/// A difference of latencies in µs, with the wider side of its interval, which decides how many
/// digits mean something: `+61.2 ±1.3`.
pub(super) fn delta_us(interval: Option<Interval>) -> String {
    interval.map_or_else(
        || UNKNOWN.to_owned(),
        |Interval { value, low, high }| {
            let reach = (high - value).max(value - low) / 1e3;
            let places = match reach > 0.0 {
                true => decimals(reach, 2),
                false => decimals(value / 1e3, 3),
            };
            let value = format!("{:+.places$}", value / 1e3);
            // Nothing but zeros has no sign.
            let is_zero = !value.contains(|c: char| ('1'..='9').contains(&c));
            let value = if is_zero { &value[1..] } else { &value };
            format!("{value} ±{reach:.places$}")
        },
    )
}

/// Half an interval's width as a percentage: `±1.4 %`.
pub(super) fn spread(interval: Option<Interval>) -> String {
    interval
        .and_then(|interval| interval.relative_half_width())
        .map_or_else(
            || UNKNOWN.to_owned(),
            |share| format!("±{}", percent(share)),
        )
}

/// A quantile in µs, of so many operations that enough lie beyond it.
pub(super) fn quantile_us(
    latency: Option<&LatencyNs>,
    ops: u64,
    share: f64,
    pick: fn(&LatencyNs) -> u64,
) -> String {
    match latency {
        Some(latency) if is_known(ops, share) => us(pick(latency) as f64),
        _ => UNKNOWN.to_owned(),
    }
}

/// The median of a cell's latencies in µs.
pub(super) fn p50_us(cell: &Cell) -> String {
    quantile_us(cell.latency_ns.as_ref(), cell.ops, 0.5, |latency| {
        latency.p50
    })
}

/// A whole number with its thousands told apart.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 job`, `4 jobs`.
pub(super) fn things(number: usize, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {thing}{ending}", count(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample::latency_histogram;

    #[test]
    fn a_quantile_needs_12_operations_beyond_it() {
        let mut histogram = latency_histogram();
        histogram.record_n(50_000, 12_000).unwrap();
        let latency = LatencyNs::of(&histogram);
        let p99 = |ops| quantile_us(latency.as_ref(), ops, 0.99, |latency| latency.p99);
        assert!(p99(1200).starts_with("50."), "{}", p99(1200));
        assert_eq!(p99(1199), UNKNOWN);
        assert_eq!(
            quantile_us(None, 1200, 0.99, |latency| latency.p99),
            UNKNOWN
        );
    }

    #[test]
    fn thousands_are_told_apart() {
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn a_difference_shows_its_sign_and_the_wider_side() {
        for (value, low, high, shown) in [
            (61_200.0, 60_000.0, 63_500.0, "+61.2 ±2.3"),
            (-500.0, -900.0, -100.0, "-0.50 ±0.40"),
            (12.0, -1_300.0, 1_300.0, "0.0 ±1.3"),
            (-12.0, -1_300.0, 1_300.0, "0.0 ±1.3"),
            (5_345_200.0, 5_345_000.0, 5_345_400.0, "+5345.20 ±0.20"),
            (234_000.0, -604_000.0, 1_072_000.0, "+234 ±838"),
            (1_000.0, 1_000.0, 1_000.0, "+1.00 ±0.00"),
        ] {
            assert_eq!(delta_us(Interval::new(value, low, high)), shown);
        }
        assert_eq!(delta_us(None), "n/a");
    }

    #[test]
    fn a_ratio_shows_its_interval() {
        assert_eq!(ratio(Interval::new(4.391, 4.31, 4.48)), "4.39 [4.31, 4.48]");
        assert_eq!(ratio(Interval::new(0.957, 0.8, 1.1)), "0.96 [0.80, 1.10]");
    }
}
