//! Bytes and nanoseconds, as people type and read them.

use std::time::Duration;

/// The unit of the block layer's counters and events, whatever the device (include/linux/types.h).
pub const SECTOR_BYTES: u64 = 512;

/// Parses a byte count: digits, then nothing or a binary unit (`k`, `m`, `g`, `t`, each also as
/// `Ki`, `KiB`, in either case). Decimal units are refused, because `kB` means 1000 to some tools
/// and 1024 to others.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let bad = || format!("bad size '{text}': expected a number and a unit, such as 512, 4k or 1m");
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    let shift = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "ki" | "kib" => 10,
        "m" | "mi" | "mib" => 20,
        "g" | "gi" | "gib" => 30,
        "t" | "ti" | "tib" => 40,
        _ => return Err(bad()),
    };
    number
        .checked_mul(1 << shift)
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| format!("bad size '{text}': must be from 1 byte to 16 EiB"))
}

/// A byte count in the largest binary unit that divides it: `512`, `4K`, `1M`.
pub fn show_bytes(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A byte count rounded to three significant digits, for amounts that are not a power of two:
/// `1.75 TiB`.
pub fn show_amount(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{} {unit}", digits3(value))
            };
        }
        value /= 1024.0;
    }
    format!("{} PiB", digits3(value))
}

/// Three significant digits, without an exponent.
pub fn digits3(value: f64) -> String {
    format!("{value:.*}", decimals(value, 3))
}

/// Decimals that show `value` with so many significant digits, at most 6.
pub fn decimals(value: f64, digits: i32) -> usize {
    let size = value.abs();
    // Rounding may carry into one more digit, as 9.996 does.
    let fits = |places: i32| size + 0.5 * 10_f64.powi(-places) < 10_f64.powi(digits - places);
    let places = (1..=6).rev().find(|&places| size > 0.0 && fits(places));
    places.unwrap_or(0) as usize
}

/// A share as a percentage: `4.2 %`, `47 %`.
pub fn show_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A length of time with three significant digits and a fitting unit: `85 ns`, `12.3 µs`.
pub fn show_ns(ns: f64) -> String {
    let size = ns.abs();
    if size < 999.5 {
        format!("{ns:.0} ns")
    } else if size < 999_500.0 {
        format!("{} µs", digits3(ns / 1e3))
    } else if size < 999_500_000.0 {
        format!("{} ms", digits3(ns / 1e6))
    } else {
        format!("{} s", digits3(ns / 1e9))
    }
}

/// Parses a length of time such as `500ms`, `60s` or `3m`; a bare number is refused.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    parse_pause(text)
        .ok()
        .filter(|d| !d.is_zero())
        .ok_or_else(|| bad_duration(text))
}

/// Parses a length of time that may be none, such as `10ms` or `0s`; a bare number is refused.
pub fn parse_pause(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration = text.trim().parse().map_err(|_| bad_duration(text))?;
    Duration::try_from(parsed).map_err(|_| bad_duration(text))
}

fn bad_duration(text: &str) -> String {
    format!("bad duration '{text}': expected a number and a unit, such as 500ms, 60s or 3m")
}

/// Parses a percentage such as `5%` or `2.5%` to a share (0.05, 0.025).
pub fn parse_percent(text: &str) -> Result<f64, String> {
    parse_spread(text)
        .ok()
        .filter(|share| *share > 0.0)
        .ok_or_else(|| bad_percent(text))
}

/// Parses a percentage that may be zero, such as `50%` or `0%`, to a share.
pub fn parse_spread(text: &str) -> Result<f64, String> {
    text.trim()
        .strip_suffix('%')
        .and_then(|n| n.parse::<f64>().ok())
        .filter(|n| (0.0..=100.0).contains(n))
        .map(|n| n / 100.0)
        .ok_or_else(|| bad_percent(text))
}

fn bad_percent(text: &str) -> String {
    format!("bad percentage '{text}': expected one such as 5%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_binary_and_decimal_units_are_refused() {
        assert_eq!(parse_bytes("512"), Ok(512));
        assert_eq!(parse_bytes("4k"), Ok(4096));
        assert_eq!(parse_bytes("4KiB"), Ok(4096));
        assert_eq!(parse_bytes("1M"), Ok(1 << 20));
        for bad in [
            "",
            "k",
            "4kb",
            "4 k",
            "-4k",
            "4.5k",
            "0",
            "99999999999t",
            "0x10",
        ] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_keep_three_digits() {
        assert_eq!(show_ns(85.0), "85 ns");
        assert_eq!(show_ns(12_345.0), "12.3 µs");
        assert_eq!(show_ns(999_600.0), "1.00 ms");
        assert_eq!(show_ns(-1_500.0), "-1.50 µs");
        assert_eq!(show_ns(2.5e9), "2.50 s");
    }

    #[test]
    fn three_digits_are_kept_however_small() {
        for (value, shown) in [
            (0.0293, "0.0293"),
            (0.5, "0.500"),
            (0.9996, "1.00"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (12_345.6, "12346"),
            (0.0, "0"),
            (-0.25, "-0.250"),
            (1e-9, "0.000000"),
        ] {
            assert_eq!(digits3(value), shown);
        }
    }

    #[test]
    fn shares_are_percentages() {
        assert_eq!(show_percent(0.0423), "4.2 %");
        assert_eq!(show_percent(0.0996), "10 %");
        assert_eq!(show_percent(1.0), "100 %");
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("3m"), Ok(Duration::from_secs(180)));
        for bad in ["60", "", "s", "-1s", "0s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentages_need_the_sign() {
        assert_eq!(parse_percent("5%"), Ok(0.05));
        for bad in ["5", "%", "-1%", "0%", "nan%", "101%"] {
            assert!(parse_percent(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_shown_size_parses_back(bytes in 1u64..) {
            prop_assert_eq!(parse_bytes(&show_bytes(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (parse_bytes(&text), parse_duration(&text), parse_percent(&text));
        }
    }
}
