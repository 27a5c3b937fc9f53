//! Drives in words: what they say of themselves beside what the kernel makes of it, what a run took of
//! them, and why one may doubt them.

use std::collections::BTreeSet;

use crate::analyse::drive::{Doubt, DriveUse, HealthDoubt, Teller, doubts, drive_uses};
use crate::model::drive::{DriveCache, DriveFacts, Health, NvmeFormat};
use crate::model::facts::DeviceFacts;
use crate::model::record::{Record, Target};
use crate::model::units::{digits3, show_amount, show_bytes};

use super::describe;
use super::figures::{count, things};
use super::inventory::UNKNOWN;
use super::view::{Column, Line, Table};

/// What drives say of themselves, a row each; none without a drive.
pub(super) fn table<'a>(devices: impl Iterator<Item = &'a DeviceFacts>) -> Option<Table> {
    let rows: Vec<Vec<String>> = devices.filter_map(row).collect();
    (!rows.is_empty()).then(|| Table {
        caption: "What the drives say of themselves".to_owned(),
        columns: vec![
            Column::text("drive", 0),
            Column::text("kernel's cache", 0),
            Column::text("driver's", 2),
            Column::text("its own", 0),
            Column::wrapping("format"),
            Column::number("°C", 1),
            Column::number("used %", 1),
            Column::number("spare %", 2),
            Column::number("written", 3),
            Column::number("media", 5),
            Column::number("capacitors %", 5),
            Column::number("power cycles", 6),
            Column::number("unsafe", 4),
            Column::number("media errors", 4),
            Column::wrapping("not told"),
        ],
        rows,
    })
}

fn row(device: &DeviceFacts) -> Option<Vec<String>> {
    let drive = device.drive.as_ref()?;
    let known = |fact: Option<String>| fact.unwrap_or_else(|| UNKNOWN.to_owned());
    let number =
        |of: fn(&Health) -> Option<u64>| known(drive.health.as_ref().and_then(of).map(count));
    let amount =
        |of: fn(&Health) -> Option<u64>| known(drive.health.as_ref().and_then(of).map(show_amount));
    let health = drive.health.as_ref();
    let temperature = health.and_then(|health| health.temperature_c);
    let formats = drive.nvme.as_ref().map(|nvme| &nvme.formats);
    Some(vec![
        device.name.clone(),
        known(device.write_cache.clone()),
        known(drive.cache.driver.clone()),
        known(cache_word(&drive.cache).map(str::to_owned)),
        known(formats.and_then(|formats| format_words(formats))),
        known(temperature.map(|degrees| degrees.to_string())),
        number(|health| Some(health.used_percent.into())),
        number(|health| Some(health.spare_percent.into())),
        amount(|health| health.host_written_bytes),
        amount(|health| health.media_written_bytes),
        number(|health| health.capacitor_percent.map(u64::from)),
        number(|health| health.power_cycles),
        number(|health| health.unsafe_shutdowns),
        number(|health| health.media_errors),
        known(drive.unanswered.first().cloned()),
    ])
}

/// A drive's own facts, a line; none for what is no drive, or was not asked.
pub(super) fn fact_line(device: &DeviceFacts) -> Option<String> {
    let drive = device.drive.as_ref()?;
    let mut parts = vec![cache_views(device, drive)];
    if let Some(nvme) = &drive.nvme {
        parts.extend(
            nvme.version
                .as_ref()
                .map(|version| format!("NVMe {version}")),
        );
        parts.extend(format_words(&nvme.formats).map(|words| format!("format {words}")));
    }
    parts.extend(drive.health.as_ref().map(health_words));
    if drive.cache.is_volatile().is_none() && drive.health.is_none() {
        parts.extend(drive.unanswered.first().cloned());
    }
    Some(format!("{} itself: {}", device.name, parts.join(", ")))
}

/// The write cache by everybody who has a view of it.
fn cache_views(device: &DeviceFacts, drive: &DriveFacts) -> String {
    let cache = &drive.cache;
    let own = cache_word(cache).unwrap_or("unknown");
    let kernel = device.write_cache.as_deref().unwrap_or("unknown");
    let driver = cache.driver.as_ref();
    let driver = driver.map_or_else(String::new, |driver| format!(", driver: {driver}"));
    format!("write cache {own} (kernel: {kernel}{driver})")
}

/// A drive's own word on its volatile cache.
fn cache_word(cache: &DriveCache) -> Option<&'static str> {
    match (cache.present, cache.enabled) {
        (Some(false), _) => Some("none"),
        (_, Some(true)) => Some("on"),
        (_, Some(false)) => Some("off"),
        (Some(true), None) => Some("there"),
        (None, None) => None,
    }
}

/// A namespace's format, and where it could have other blocks, which: `512+8 (of 512 4K)`.
fn format_words(formats: &[NvmeFormat]) -> Option<String> {
    let own = formats.iter().find(|format| format.in_use)?;
    let mut words = show_bytes(own.block_bytes);
    if own.metadata_bytes > 0 {
        words += &format!("+{}", own.metadata_bytes);
    }
    let blocks: BTreeSet<u64> = formats.iter().map(|format| format.block_bytes).collect();
    if blocks.len() > 1 {
        let blocks: Vec<String> = blocks.into_iter().map(show_bytes).collect();
        words += &format!(" (of {})", blocks.join(" "));
    }
    Some(words)
}

fn health_words(health: &Health) -> String {
    let mut parts = Vec::new();
    parts.extend(health.temperature_c.map(|degrees| format!("{degrees} °C")));
    parts.push(format!("{} % of its endurance used", health.used_percent));
    parts.push(format!("spare {} %", health.spare_percent));
    let written = health.host_written_bytes;
    parts.extend(written.map(|bytes| format!("{} written in its life", show_amount(bytes))));
    let capacitor = health.capacitor_percent;
    parts.extend(capacitor.map(|percent| format!("capacitors {percent} %")));
    let errors = health.media_errors.filter(|&errors| errors > 0);
    parts.extend(errors.map(|errors| format!("{} media errors", count(errors))));
    let lost = health.unsafe_shutdowns.filter(|&times| times > 0);
    parts.extend(lost.map(|times| things(times as usize, "unsafe shutdown")));
    parts.join(", ")
}

/// What the drives of a run counted, and why one may doubt them, each drive once.
pub(super) fn of_run(record: &Record) -> Vec<Line> {
    let mut seen = Vec::new();
    let mut lines = Vec::new();
    for device in record.targets.iter().flat_map(Target::devices) {
        if !seen.contains(&device.dev) {
            seen.push(device.dev);
            lines.extend(warnings(device).into_iter().map(Line::warning));
        }
    }
    for used in drive_uses(record) {
        let mut devices = record.targets.iter().flat_map(Target::devices);
        let name = devices
            .find(|device| device.dev == used.dev)
            .map_or_else(|| used.dev.to_string(), |device| device.name.clone());
        lines.extend(use_lines(&name, &used));
    }
    lines
}

fn use_lines(name: &str, used: &DriveUse) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(host) = used.host_written_bytes {
        let says = match (used.media_written_bytes, used.amplification) {
            (None, _) => "; it doesn't tell what its media took".to_owned(),
            (Some(media), None) => format!(
                ", its media took {}: too little to tell the drive's own amplification from",
                show_amount(media)
            ),
            (Some(media), Some(ratio)) => format!(
                ", its media took {}: the drive itself amplifies by {} (±{} by the counter's step)",
                show_amount(media),
                digits3(ratio),
                digits3(used.amplification_step.unwrap_or_default()),
            ),
        };
        lines.push(Line::remark(format!(
            "{name} counted {} written by hosts during the run, in steps of 500 KiB{says}",
            show_amount(host)
        )));
    }
    if used.throttlings > 0 {
        lines.push(Line::warning(format!(
            "{name} slowed down {} to cool during the run, so it is slower here than it could be; \
             see to its airflow",
            things(used.throttlings as usize, "time")
        )));
    }
    if used.media_errors > 0 {
        lines.push(Line::warning(format!(
            "{name} counted {} during the run; save what it holds",
            things(used.media_errors as usize, "media error")
        )));
    }
    lines
}

/// Why one may doubt a drive's figures, and what to do about it, a line each.
pub(super) fn warnings(device: &DeviceFacts) -> Vec<String> {
    let name = &device.name;
    let all = doubts(device);
    let texts = all.iter().map(|doubt| match doubt {
        Doubt::NotFlushed(teller) => not_flushed(name, *teller),
        Doubt::FlushedInVain(teller) => flushed_in_vain(name, *teller),
        Doubt::SlowLink {
            now_bytes_per_s,
            most_bytes_per_s,
        } => slow_link(device, *now_bytes_per_s, *most_bytes_per_s),
        Doubt::Health(doubt) => health_text(name, doubt),
    });
    texts.collect()
}

fn who(teller: Teller) -> &'static str {
    match teller {
        Teller::Drive => "the drive",
        Teller::Driver => "its driver",
    }
}

fn not_flushed(name: &str, teller: Teller) -> String {
    format!(
        "{name}: the kernel takes its write cache for write through and sends no flush, but {} says \
         that it is on: what is acknowledged may be lost with the power, and a durable write costs more \
         than is measured; write \"write back\" to its queue/write_cache in sysfs",
        who(teller)
    )
}

fn flushed_in_vain(name: &str, teller: Teller) -> String {
    format!(
        "{name}: the kernel flushes, or writes with FUA, for a write cache that is off or not there, as \
         {} says, so a synchronous write may cost more than it must; to compare, write \"write \
         through\" to its queue/write_cache in sysfs",
        who(teller)
    )
}

fn slow_link(device: &DeviceFacts, now_bytes_per_s: f64, most_bytes_per_s: f64) -> String {
    let link = device.pcie.as_ref().and_then(describe::link);
    format!(
        "{}: its PCIe link trained to {} and carries {} of {} GB/s at most, so what a vendor claims of \
         it may be out of reach; see to its slot, lanes and bifurcation",
        device.name,
        link.unwrap_or_default(),
        digits3(now_bytes_per_s / 1e9),
        digits3(most_bytes_per_s / 1e9),
    )
}

fn health_text(name: &str, doubt: &HealthDoubt) -> String {
    let degrees = |value: &Option<i32>| {
        value.map_or_else(
            || "a temperature that it doesn't tell".to_owned(),
            |value| format!("{value} °C"),
        )
    };
    match doubt {
        HealthDoubt::Hot {
            temperature_c,
            warning_c,
        } => format!(
            "{name} is at {} and warns from {} on, where drives slow down; see to its airflow",
            degrees(temperature_c),
            degrees(warning_c)
        ),
        HealthDoubt::SpareLow {
            spare_percent,
            threshold_percent,
        } => format!(
            "{name} has {spare_percent} % of its spare left and warns below {threshold_percent} %: it \
             is worn, and may be slower than a new one; replace it"
        ),
        HealthDoubt::WornOut(used) => format!(
            "{name} has used {used} % of the endurance that its vendor gives it: it may be slower than a \
             new one; replace it"
        ),
        HealthDoubt::Degraded => {
            format!("{name} says that it is no longer reliable; save what it holds, and replace it")
        }
        HealthDoubt::ReadOnly => format!("{name} says that it takes no more writes; replace it"),
        HealthDoubt::BackupFailed => format!(
            "{name} says that what keeps its memory when the power goes has failed: what is acknowledged \
             may be lost; replace it"
        ),
    }
}

#[cfg(test)]
mod tests;
