//! What a drive's own facts say against the figures, and what a run took of it.

use serde::{Deserialize, Serialize};

use crate::model::devid::DevId;
use crate::model::drive::{DATA_UNIT_BYTES, DriveCounts, Health};
use crate::model::facts::{DeviceFacts, DeviceKind, PcieLink};
use crate::model::record::Record;

/// So close below its warning temperature a drive is soon to slow down.
const HOT_MARGIN_C: i32 = 5;
/// Fewer data units than this tell nothing of a drive's own writing: about 1 GB, which drives keep in
/// buffers and write on when they like. The counter's step is then 0.05 %.
const TELLING_UNITS: u64 = 2000;
/// What a drive may have used of its endurance.
const WORN_PERCENT: u8 = 100;

// Bits of NVMe's critical warning (NVMe Base Specification 2.0, 5.16.1.3).
const SPARE_LOW: u8 = 1;
const TOO_HOT: u8 = 1 << 1;
const DEGRADED: u8 = 1 << 2;
const READ_ONLY: u8 = 1 << 3;
const BACKUP_FAILED: u8 = 1 << 4;

/// What makes one doubt figures of a drive.
#[derive(Clone, Debug, PartialEq)]
pub enum Doubt {
    /// The kernel sends no flushes, but there is a volatile cache that is on.
    NotFlushed(Teller),
    /// The kernel flushes a cache that is off or not there.
    FlushedInVain(Teller),
    /// Its PCIe link is slower than it could be.
    SlowLink {
        /// What it carries, encoding taken off.
        now_bytes_per_s: f64,
        /// What it could carry.
        most_bytes_per_s: f64,
    },
    /// By its own count of wear and temperature.
    Health(HealthDoubt),
}

/// What a drive's health says against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthDoubt {
    /// It is at its warning temperature, or nearly.
    Hot {
        /// Where it is.
        temperature_c: Option<i32>,
        /// From where on it warns.
        warning_c: Option<i32>,
    },
    /// Its spare capacity is at the threshold or below.
    SpareLow {
        /// What is left.
        spare_percent: u8,
        /// Where it warns.
        threshold_percent: u8,
    },
    /// It is used beyond the endurance that its vendor gives it.
    WornOut(u8),
    /// It says that it is no longer reliable.
    Degraded,
    /// It takes no more writes.
    ReadOnly,
    /// What keeps its memory when the power goes has failed.
    BackupFailed,
}

/// Who tells of a write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// The drive, asked by a command.
    Drive,
    /// The SCSI driver, in sysfs.
    Driver,
}

/// What makes one doubt figures of this drive; nothing for what is no drive.
pub fn doubts(device: &DeviceFacts) -> Vec<Doubt> {
    if device.kind != DeviceKind::Disk {
        return Vec::new();
    }
    let link = device.pcie.as_ref().and_then(slow_link);
    let drive = device.drive.as_ref();
    let warning_c = drive.and_then(|drive| drive.nvme.as_ref()?.warning_temperature_c);
    let health = drive.and_then(|drive| drive.health.as_ref());
    let of_health = health.map(|health| health_doubts(health, warning_c));
    cache_doubt(device)
        .into_iter()
        .chain(link)
        .chain(of_health.into_iter().flatten().map(Doubt::Health))
        .collect()
}

fn cache_doubt(device: &DeviceFacts) -> Option<Doubt> {
    let cache = &device.drive.as_ref()?.cache;
    let driver = || {
        let driver = cache.driver.as_ref()?;
        Some((driver.starts_with("write back"), Teller::Driver))
    };
    let told = cache.is_volatile().map(|is| (is, Teller::Drive));
    let (is_volatile, teller) = told.or_else(driver)?;
    let is_flushed = device.write_cache.as_ref()?.starts_with("write back");
    match (is_flushed, is_volatile) {
        (false, true) => Some(Doubt::NotFlushed(teller)),
        (true, false) => Some(Doubt::FlushedInVain(teller)),
        _ => None,
    }
}

fn health_doubts(health: &Health, warning_c: Option<i32>) -> Vec<HealthDoubt> {
    let warns = |bit| health.critical_warning & bit != 0;
    let is_hot = match (health.temperature_c, warning_c) {
        (Some(now), Some(warning)) => now >= warning - HOT_MARGIN_C,
        _ => false,
    };
    // Drives that don't count spare give 0 for both.
    let spare_low = health.spare_percent < health.spare_threshold_percent;
    let all = [
        (
            is_hot || warns(TOO_HOT),
            HealthDoubt::Hot {
                temperature_c: health.temperature_c,
                warning_c,
            },
        ),
        (
            spare_low || warns(SPARE_LOW),
            HealthDoubt::SpareLow {
                spare_percent: health.spare_percent,
                threshold_percent: health.spare_threshold_percent,
            },
        ),
        (
            health.used_percent >= WORN_PERCENT,
            HealthDoubt::WornOut(health.used_percent),
        ),
        (warns(DEGRADED), HealthDoubt::Degraded),
        (warns(READ_ONLY), HealthDoubt::ReadOnly),
        (warns(BACKUP_FAILED), HealthDoubt::BackupFailed),
    ];
    let found = all.into_iter().filter(|(is, _)| *is);
    found.map(|(_, doubt)| doubt).collect()
}

fn slow_link(link: &PcieLink) -> Option<Doubt> {
    let now_bytes_per_s = carries(link.speed.as_deref()?, link.width?)?;
    let most_bytes_per_s = carries(link.max_speed.as_deref()?, link.max_width?)?;
    (now_bytes_per_s < most_bytes_per_s).then_some(Doubt::SlowLink {
        now_bytes_per_s,
        most_bytes_per_s,
    })
}

/// Bytes per second in one direction, once the line's encoding is taken off: 8b/10b up to 5 GT/s,
/// 128b/130b up to 32 (PCI Express Base Specification 5.0, 4.2), and flits of 256 bytes of which 242
/// are for packets at 64 (6.0, 4.2.3).
fn carries(speed: &str, width: u32) -> Option<f64> {
    let giga_transfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let share = if giga_transfers <= 5.0 {
        8.0 / 10.0
    } else if giga_transfers <= 32.0 {
        128.0 / 130.0
    } else {
        242.0 / 256.0
    };
    Some(giga_transfers * 1e9 / 8.0 * share * f64::from(width))
}

/// What a drive counted while a run went on, whoever wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveUse {
    /// The disk.
    pub dev: DevId,
    /// What hosts wrote, in steps of [`DATA_UNIT_BYTES`].
    pub host_written_bytes: Option<u64>,
    /// What its media took.
    pub media_written_bytes: Option<u64>,
    /// Media over host; none where either is unknown or too little was written to tell.
    pub amplification: Option<f64>,
    /// Half the width of `amplification` that the host counter's step alone leaves open.
    pub amplification_step: Option<f64>,
    /// Times that it slowed down to cool.
    pub throttlings: u64,
    /// Errors that reached the host.
    pub media_errors: u64,
}

/// What each drive of a run counted from its begin to its end; none that was not asked at both.
pub fn drive_uses(record: &Record) -> Vec<DriveUse> {
    record.drives.iter().filter_map(drive_use).collect()
}

fn drive_use(counts: &DriveCounts) -> Option<DriveUse> {
    let (before, after) = (&counts.before, counts.after.as_ref()?);
    let grown = |of: fn(&Health) -> Option<u64>| of(after)?.checked_sub(of(before)?);
    let host = grown(|health| health.host_written_bytes);
    let media = grown(|health| health.media_written_bytes);
    let telling = host.filter(|&host| host >= TELLING_UNITS * DATA_UNIT_BYTES);
    let amplification = telling
        .zip(media)
        .map(|(host, media)| media as f64 / host as f64);
    let step = amplification.zip(host);
    Some(DriveUse {
        dev: counts.dev,
        host_written_bytes: host,
        media_written_bytes: media,
        amplification,
        amplification_step: step.map(|(ratio, host)| ratio * DATA_UNIT_BYTES as f64 / host as f64),
        throttlings: after.throttlings.saturating_sub(before.throttlings),
        media_errors: grown(|health| health.media_errors).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests;
