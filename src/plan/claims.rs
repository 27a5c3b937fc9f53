//! Claims files: what a vendor, or an application's makers, say of a drive; in TOML, built in or in a
//! file.

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use toml::Spanned;

use crate::model::cell::{Method, Pattern};
use crate::model::claims::{
    Bound, Claim, ClaimedDevice, Claims, Conditions, DriveState, Figure, Side, Span,
};
use crate::model::units::parse_bytes;

use super::contradiction;
use super::load::{Library, LoadError, from_toml};
use super::value::{Bytes, Many, One, Scalar, line_at};

/// The claims that the program carries, in the order in which they are listed.
pub const BUILT_IN: [(&str, &str); 12] = [
    (
        "huawei-es3000-v1",
        include_str!("../../profiles/claims/huawei-es3000-v1.toml"),
    ),
    (
        "huawei-es3000-v2",
        include_str!("../../profiles/claims/huawei-es3000-v2.toml"),
    ),
    (
        "huawei-note",
        include_str!("../../profiles/claims/huawei-note.toml"),
    ),
    (
        "intel-p3700",
        include_str!("../../profiles/claims/intel-p3700.toml"),
    ),
    (
        "intel-p4800x",
        include_str!("../../profiles/claims/intel-p4800x.toml"),
    ),
    (
        "micron-9200",
        include_str!("../../profiles/claims/micron-9200.toml"),
    ),
    (
        "micron-9200-range",
        include_str!("../../profiles/claims/micron-9200-range.toml"),
    ),
    (
        "samsung-pm9a3-u2",
        include_str!("../../profiles/claims/samsung-pm9a3-u2.toml"),
    ),
    (
        "samsung-pm9a3-e1s",
        include_str!("../../profiles/claims/samsung-pm9a3-e1s.toml"),
    ),
    (
        "samsung-pm9a3-m2",
        include_str!("../../profiles/claims/samsung-pm9a3-m2.toml"),
    ),
    ("etcd", include_str!("../../profiles/claims/etcd.toml")),
    (
        "ceph-journal",
        include_str!("../../profiles/claims/ceph-journal.toml"),
    ),
];

const LIBRARY: Library<Claims> = Library {
    kind: "claims",
    built_in: &BUILT_IN,
    parse,
};

/// Loads built-in claims by their name, or a file: what has a `/` or ends in `.toml` is a path.
pub fn load(name_or_path: &str) -> Result<Claims, LoadError> {
    LIBRARY.load(name_or_path)
}

/// All built-in claims.
pub fn built_in() -> Result<Vec<Claims>, LoadError> {
    LIBRARY.all()
}

/// Reads claims from their text; `name` is for messages.
pub fn parse(name: &str, text: &str) -> Result<Claims, LoadError> {
    let fail = |at| LoadError::parse(name, at);
    let file: File = from_toml(name, text)?;
    let mut claims: Vec<(usize, Claim)> = Vec::new();
    for spanned in file.claim {
        let (line, _) = line_at(text, spanned.span().start);
        let claim = spanned
            .into_inner()
            .claim()
            .map_err(|message| fail((line, message)))?;
        if let Some((earlier, message)) = contradiction::find(&claims, &claim) {
            let message = format!(
                "{}: contradicts the claim at line {earlier}: {message}",
                claim.name
            );
            return Err(fail((line, message)));
        }
        claims.push((line, claim));
    }
    if claims.is_empty() {
        return Err(fail((
            1,
            "claim: there is none; add a [[claim]]".to_owned(),
        )));
    }
    Ok(Claims {
        name: name.to_owned(),
        about: file.about,
        device: file.device.unwrap_or_default().device(),
        claims: claims.into_iter().map(|(_, claim)| claim).collect(),
        unsaid: file.unsaid.map_or_else(Vec::new, |many| many.0),
    })
}

/// A claims file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    unsaid: Option<Many<String>>,
    device: Option<DeviceTable>,
    #[serde(default)]
    claim: Vec<Spanned<ClaimTable>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceTable {
    vendor: Option<String>,
    model: Option<Many<String>>,
    capacity_gb: Option<Many<Gigabytes>>,
    revision: Option<String>,
    source: Option<String>,
    date: Option<String>,
}

impl DeviceTable {
    fn device(self) -> ClaimedDevice {
        ClaimedDevice {
            vendor: self.vendor,
            models: self.model.map_or_else(Vec::new, |many| many.0),
            capacities_bytes: bytes(self.capacity_gb),
            revision: self.revision,
            source: self.source,
            date: self.date,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimTable {
    name: String,
    capacity_gb: Option<Many<Gigabytes>>,
    pattern: Option<One<Pattern>>,
    size: Option<One<Bytes>>,
    queue_depth: Option<One<u32>>,
    jobs: Option<One<u32>>,
    method: Option<One<Method>>,
    direct: Option<One<bool>>,
    state: Option<One<DriveState>>,
    span: Option<One<Span>>,
    write_cache: Option<One<bool>>,
    at_least: Option<Value>,
    at_most: Option<Value>,
}

impl ClaimTable {
    fn claim(self) -> Result<Claim, String> {
        let bound = match (self.at_least, self.at_most) {
            (Some(_), Some(_)) => {
                return Err(format!(
                    "at_most: {} has at_least too; make two claims of it",
                    self.name
                ));
            }
            (Some(Value(figure, value)), None) => Some((figure, Side::AtLeast, value)),
            (None, Some(Value(figure, value))) => Some((figure, Side::AtMost, value)),
            (None, None) => None,
        };
        Ok(Claim {
            name: self.name,
            capacities_bytes: bytes(self.capacity_gb),
            conditions: Conditions {
                pattern: self.pattern.map(|one| one.0),
                size_bytes: self.size.map(|one| one.0.0),
                queue_depth: self.queue_depth.map(|one| one.0),
                jobs: self.jobs.map(|one| one.0),
                method: self.method.map(|one| one.0),
                direct: self.direct.map(|one| one.0),
                state: self.state.map(|one| one.0),
                span: self.span.map(|one| one.0),
                write_cache: self.write_cache.map(|one| one.0),
            },
            bound: bound.map(|(figure, side, value)| Bound {
                figure,
                side,
                value,
            }),
        })
    }
}

fn bytes(list: Option<Many<Gigabytes>>) -> Vec<u64> {
    let list = list.map_or_else(Vec::new, |many| many.0);
    list.into_iter().map(|capacity| capacity.0).collect()
}

/// A capacity as vendors give it, in units of 10^9 bytes.
struct Gigabytes(u64);

impl Scalar for Gigabytes {
    const EXPECTED: &'static str = "a capacity in GB, such as 1600";

    fn from_number(number: f64) -> Result<Self, String> {
        match number.is_finite() && (0.001..1e9).contains(&number) {
            true => Ok(Gigabytes((number * 1e9) as u64)),
            false => Err(format!("{number}: expected {}", Self::EXPECTED)),
        }
    }
}

impl Scalar for Span {
    const EXPECTED: &'static str = "\"whole\" or a size such as \"8g\"";

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "whole" => Ok(Span::Whole),
            size => parse_bytes(size).map(Span::Bytes),
        }
    }
}

/// One figure with its value, as `{ p99_us = 10 }`.
struct Value(Figure, f64);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = Value;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a figure with its value, such as { iops = 1000 } or { p99_us = 10 }")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let Some((key, number)) = map.next_entry::<String, One<f64>>()? else {
                    return Err(A::Error::invalid_length(0, &self));
                };
                if let Some(second) = map.next_key::<String>()? {
                    return Err(A::Error::custom(format!(
                        "two figures, {key} and {second}: expected one"
                    )));
                }
                figure(&key, number.0).map_err(A::Error::custom)
            }
        }
        deserializer.deserialize_map(Table)
    }
}

/// The figure that a key names, and its value in the unit that the key ends in.
fn figure(key: &str, number: f64) -> Result<Value, String> {
    let unknown = || {
        format!(
            "unknown figure '{key}': one of iops, mb_per_s, mib_per_s, gb_per_s, mean_us, mean_ms, or \
             a percentile such as p99_us or p99_9_ms"
        )
    };
    let (figure, unit) = match key {
        "iops" => (Figure::Iops, 1.0),
        "mb_per_s" => (Figure::ThroughputBytesPerS, 1e6),
        "mib_per_s" => (Figure::ThroughputBytesPerS, f64::from(1 << 20)),
        "gb_per_s" => (Figure::ThroughputBytesPerS, 1e9),
        _ => {
            let (name, unit) = match key.rsplit_once('_') {
                Some((name, "us")) => (name, 1e3),
                Some((name, "ms")) => (name, 1e6),
                _ => return Err(unknown()),
            };
            (latency(name).ok_or_else(unknown)?, unit)
        }
    };
    match number.is_finite() && number > 0.0 {
        true => Ok(Value(figure, number * unit)),
        false => Err(format!("{key}: {number} is no positive number")),
    }
}

/// `mean`, or a percentile whose decimals follow an underscore: `p99_9`.
fn latency(name: &str) -> Option<Figure> {
    if name == "mean" {
        return Some(Figure::MeanNs);
    }
    let digits = name.strip_prefix('p')?;
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let percent: f64 = digits.replacen('_', ".", 1).parse().ok()?;
    let share = percent / 100.0;
    (share > 0.0 && share < 1.0).then_some(Figure::QuantileNs(share))
}

#[cfg(test)]
mod tests;
