//! Whether a drive, and a cell, are what a claim speaks of.

use crate::model::cell::Axes;
use crate::model::claims::{Claim, Claims, Conditions, DriveState, Figure, Span};
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::model::units::show_bytes;

/// Vendors count in 10^9 bytes and round; drives keep a little for themselves.
const CAPACITY_TOLERANCE: f64 = 0.02;

/// The drive of a stack: the first device, or its disk where that is a partition.
pub fn drive(stack: &[DeviceFacts]) -> Option<&DeviceFacts> {
    match stack {
        [partition, disk, ..] if partition.kind == DeviceKind::Partition => Some(disk),
        stack => stack.first(),
    }
}

/// How the drive of `stack` differs from what a claim is about, a phrase each; empty if it doesn't.
pub fn drive_differs(claims: &Claims, claim: &Claim, stack: &[DeviceFacts]) -> Vec<String> {
    let Some(drive) = drive(stack) else {
        return vec!["nothing is known of the drive".to_owned()];
    };
    let mut differs = Vec::new();
    let models = &claims.device.models;
    let model = drive.model.as_deref().map(str::trim);
    if !models.is_empty()
        && !models
            .iter()
            .any(|pattern| matches(pattern, model.unwrap_or("")))
    {
        differs.push(format!(
            "the model is {}, the claim is about {}",
            model.unwrap_or("unknown"),
            models.join(" or "),
        ));
    }
    let capacities = match claim.capacities_bytes.as_slice() {
        [] => &claims.device.capacities_bytes[..],
        own => own,
    };
    let is_near = |&claimed: &u64| {
        let off = drive.size_bytes as f64 / claimed as f64 - 1.0;
        off.abs() <= CAPACITY_TOLERANCE
    };
    if !capacities.is_empty() && !capacities.iter().any(is_near) {
        let words: Vec<String> = capacities.iter().map(|&bytes| gigabytes(bytes)).collect();
        differs.push(format!(
            "the capacity is {} GB, the claim is about {} GB",
            gigabytes(drive.size_bytes),
            words.join(", "),
        ));
    }
    differs.extend(write_cache_differs(&claim.conditions, drive));
    differs
}

fn gigabytes(bytes: u64) -> String {
    let text = format!("{:.2}", bytes as f64 / 1e9);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// By the kernel's view, which decides whether it sends flushes.
fn write_cache_differs(conditions: &Conditions, drive: &DeviceFacts) -> Option<String> {
    let wanted = conditions.write_cache?;
    let words = |on| if on { "on" } else { "off" };
    let found = match drive.write_cache.as_deref() {
        Some("write back") => true,
        Some("write through") => false,
        _ => {
            return Some(format!(
                "the write cache is not known, the claim is with it {}",
                words(wanted)
            ));
        }
    };
    (found != wanted).then(|| {
        format!(
            "the write cache is {}, the claim is with it {}",
            words(found),
            words(wanted)
        )
    })
}

/// How a cell differs from a claim's conditions, a phrase each. `device_bytes` is the size of what
/// was written.
pub fn cell_differs(conditions: &Conditions, axes: &Axes, device_bytes: u64) -> Vec<String> {
    let mut differs = Vec::new();
    let mut unlike = |what: &str, measured: String, claimed: Option<String>| {
        if let Some(claimed) = claimed.filter(|claimed| *claimed != measured) {
            differs.push(format!(
                "{what} {measured} was measured, {claimed} is claimed"
            ));
        }
    };
    unlike(
        "pattern",
        axes.pattern.to_string(),
        conditions.pattern.map(|pattern| pattern.to_string()),
    );
    unlike(
        "size",
        show_bytes(axes.size_bytes),
        conditions.size_bytes.map(show_bytes),
    );
    unlike(
        "queue depth",
        axes.queue_depth.to_string(),
        conditions.queue_depth.map(|depth| depth.to_string()),
    );
    unlike(
        "jobs",
        axes.jobs.to_string(),
        conditions.jobs.map(|jobs| jobs.to_string()),
    );
    unlike(
        "method",
        axes.method.to_string(),
        conditions.method.map(|method| method.to_string()),
    );
    let direct = |on: bool| if on { "on" } else { "off" }.to_owned();
    unlike("direct", direct(axes.direct), conditions.direct.map(direct));
    // Spans are whole blocks of all jobs, so a little less than was asked for.
    let whole = |span_bytes: u64| {
        let stripe_bytes = axes.size_bytes * u64::from(axes.jobs);
        span_bytes - span_bytes % stripe_bytes.max(1)
    };
    let claimed = conditions.span.map(|span| match span {
        Span::Whole => whole(device_bytes),
        Span::Bytes(bytes) => whole(bytes),
    });
    unlike("span", show_bytes(axes.span_bytes), claimed.map(show_bytes));
    differs
}

/// Conditions that a claim leaves open and that may be why its bound was not reached by writes of these
/// axes: the vendor could name others under which it is. `fresh`: the drive was purged, which no state
/// betters.
pub fn open_conditions(
    conditions: &Conditions,
    axes: &Axes,
    figure: Figure,
    fresh: bool,
) -> Vec<&'static str> {
    let mut open = Vec::new();
    if conditions.size_bytes.is_none() {
        open.push("size");
    }
    // Of latencies, one write in flight is the best for the claim; of rates, the sequential pattern.
    if figure.is_latency() && conditions.pattern.is_none() {
        open.push("pattern");
    }
    let more_helps = !figure.is_latency();
    if conditions.queue_depth.is_none() && (more_helps || axes.queue_depth > 1) {
        open.push("queue depth");
    }
    if conditions.jobs.is_none() && (more_helps || axes.jobs > 1) {
        open.push("jobs");
    }
    if conditions.state.is_none() && !fresh {
        open.push("state");
    }
    open
}

/// What a claim leaves unsaid of its conditions.
pub fn unsaid(conditions: &Conditions) -> Vec<&'static str> {
    let Conditions {
        pattern,
        size_bytes,
        queue_depth,
        jobs,
        method,
        direct,
        state,
        span,
        write_cache,
    } = conditions;
    [
        ("pattern", pattern.is_none()),
        ("size", size_bytes.is_none()),
        ("queue depth", queue_depth.is_none()),
        ("jobs", jobs.is_none()),
        ("method", method.is_none()),
        ("direct", direct.is_none()),
        ("state", state.is_none()),
        ("span", span.is_none() && *state != Some(DriveState::Steady)),
        ("write cache", write_cache.is_none()),
    ]
    .into_iter()
    .filter_map(|(name, is_open)| is_open.then_some(name))
    .collect()
}

/// Whether `text` is like `pattern`, in which `*` is any text; case doesn't matter.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or("");
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::claims::ClaimedDevice;
    use crate::model::fixture::stack;

    fn claims(models: &[&str], capacities_gb: &[u64]) -> Claims {
        Claims {
            name: "x".into(),
            about: "x".into(),
            device: ClaimedDevice {
                models: models.iter().map(|&model| model.to_owned()).collect(),
                capacities_bytes: capacities_gb.iter().map(|gb| gb * 1_000_000_000).collect(),
                ..ClaimedDevice::default()
            },
            claims: Vec::new(),
            unsaid: Vec::new(),
        }
    }

    fn claim(conditions: Conditions) -> Claim {
        Claim {
            name: "c".into(),
            capacities_bytes: Vec::new(),
            conditions,
            bound: None,
        }
    }

    #[test]
    fn patterns_match_as_in_a_shell_whatever_the_case() {
        for (pattern, text, is_like) in [
            ("ACME DC-3", "acme dc-3", true),
            ("*dc*", "ACME DC-3", true),
            ("ACME*3", "ACME DC-3", true),
            ("ACME*", "acme", true),
            ("a*a", "a", false),
            ("*x*", "ACME", false),
            ("DC", "ACME DC-3", false),
            ("", "ACME", false),
        ] {
            assert_eq!(matches(pattern, text), is_like, "{pattern} {text}");
        }
    }

    #[test]
    fn a_partition_is_judged_by_its_disk() {
        // The disk has 1,920.38 GB, its partition 500 GiB and no model.
        let plain = claim(Conditions::default());
        let differs =
            |models: &[&str], gb: &[u64]| drive_differs(&claims(models, gb), &plain, &stack());
        assert!(differs(&["*DC-3"], &[960, 1920]).is_empty());
        assert!(differs(&[], &[]).is_empty());
        assert!(differs(&["DC-4*"], &[])[0].contains("ACME DC-3"));
        assert!(differs(&[], &[1600])[0].contains("1920.38 GB"));
    }

    #[test]
    fn a_claims_own_capacity_counts_before_the_files() {
        let mut own = claim(Conditions::default());
        own.capacities_bytes = vec![960_000_000_000];
        assert_eq!(
            drive_differs(&claims(&[], &[960, 1920]), &own, &stack()).len(),
            1
        );
    }

    #[test]
    fn the_write_cache_must_be_as_claimed() {
        let with = |on| {
            claim(Conditions {
                write_cache: Some(on),
                ..Conditions::default()
            })
        };
        assert!(drive_differs(&claims(&[], &[]), &with(true), &stack()).is_empty());
        let differs = drive_differs(&claims(&[], &[]), &with(false), &stack());
        assert!(differs[0].contains("is on"), "{differs:?}");
    }
}
