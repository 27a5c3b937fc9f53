//! What drives say of themselves, beyond what the kernel makes of it. What a drive doesn't tell, or
//! only to root, is absent (`None`), never an error.

use serde::{Deserialize, Serialize};

use super::devid::DevId;

/// How a drive is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interface {
    /// NVMe admin commands.
    Nvme,
    /// SCSI commands.
    Scsi,
    /// ATA commands through SCSI.
    Ata,
}

/// A drive's own facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveFacts {
    /// How it was asked.
    pub interface: Interface,
    /// Its volatile write cache.
    pub cache: DriveCache,
    /// SCSI and ATA: it says that it takes FUA writes. Every NVMe drive must.
    pub fua: Option<bool>,
    /// What only NVMe drives tell.
    pub nvme: Option<NvmeFacts>,
    /// Its wear and temperature when it was asked.
    pub health: Option<Health>,
    /// Questions that it didn't answer, and why, a line each.
    pub unanswered: Vec<String>,
}

/// A drive's volatile write cache, as the drive and its driver see it. What the block layer makes of
/// it is [`super::facts::DeviceFacts::write_cache`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveCache {
    /// The drive has one. A drive without one keeps what it acknowledged, or says so.
    pub present: Option<bool>,
    /// It is on.
    pub enabled: Option<bool>,
    /// SCSI: the driver's `cache_type`, such as `write back`.
    pub driver: Option<String>,
    /// SCSI: the driver's word on FUA.
    pub driver_fua: Option<bool>,
}

impl DriveCache {
    /// Whether the drive's own word is that acknowledged writes may be in volatile memory.
    pub fn is_volatile(&self) -> Option<bool> {
        match (self.present, self.enabled) {
            (Some(false), _) => Some(false),
            (_, enabled) => enabled,
        }
    }
}

/// What an NVMe controller and namespace tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NvmeFacts {
    /// The revision of the specification that the controller follows, such as `1.4.0`.
    pub version: Option<String>,
    /// From here on it warns of its temperature.
    pub warning_temperature_c: Option<i32>,
    /// From here on it may shut itself down.
    pub critical_temperature_c: Option<i32>,
    /// The formats that the namespace can have.
    pub formats: Vec<NvmeFormat>,
    /// The newest entry of its error log.
    pub last_error: Option<NvmeError>,
}

/// A format of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmeFormat {
    /// Logical block.
    pub block_bytes: u64,
    /// Metadata beside each block.
    pub metadata_bytes: u64,
    /// How the drive rates its performance, from 0, the best, to 3.
    pub performance_rank: u8,
    /// The namespace has it now.
    pub in_use: bool,
}

/// An entry of an error log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NvmeError {
    /// Counts all entries over the controller's life, from 1.
    pub number: u64,
    /// The NVMe status: type and code, as in the specification's tables.
    pub status: u16,
    /// The namespace; 0 where it was about none.
    pub nsid: u32,
}

/// A drive's wear and temperature. Counts are those of its life; a count that the drive gives with more
/// than 64 bits is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The composite temperature.
    pub temperature_c: Option<i32>,
    /// NVMe's bits: 0 spare low, 1 temperature, 2 reliability degraded, 3 read-only, 4 backup of
    /// volatile memory failed, 5 persistent memory.
    pub critical_warning: u8,
    /// Spare capacity that is left.
    pub spare_percent: u8,
    /// Below this, the drive warns.
    pub spare_threshold_percent: u8,
    /// Of the endurance that the vendor gives it; may pass 100.
    pub used_percent: u8,
    /// What hosts wrote, in steps of [`DATA_UNIT_BYTES`], rounded up.
    pub host_written_bytes: Option<u64>,
    /// What hosts read, likewise.
    pub host_read_bytes: Option<u64>,
    /// Write commands.
    pub host_writes: Option<u64>,
    /// What the drive wrote to its media, its own housekeeping included; only OCP drives tell.
    pub media_written_bytes: Option<u64>,
    /// What is left of the capacitors that keep a drive up when the power goes; only OCP drives tell.
    pub capacitor_percent: Option<u16>,
    /// Power cycles.
    pub power_cycles: Option<u64>,
    /// Hours powered on.
    pub power_on_hours: Option<u64>,
    /// Losses of power without notice.
    pub unsafe_shutdowns: Option<u64>,
    /// Errors that reached the host.
    pub media_errors: Option<u64>,
    /// Entries in the error log over its life.
    pub error_log_entries: Option<u64>,
    /// Minutes at or above the warning temperature.
    pub hot_minutes: u32,
    /// Minutes at or above the critical temperature.
    pub critical_minutes: u32,
    /// Times that it slowed down to cool.
    pub throttlings: u64,
    /// Seconds that it was slowed down.
    pub throttled_seconds: u64,
}

/// The step in which NVMe drives count what hosts write and read: a thousand units of 512 bytes
/// (NVMe Base Specification 2.0, 5.16.1.3).
pub const DATA_UNIT_BYTES: u64 = 1000 * 512;

/// A drive before and after a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveCounts {
    /// The disk.
    pub dev: DevId,
    /// Right before the first slice, preparation done.
    pub before: Health,
    /// Right after the last one; none where the run has not ended, or the drive no longer answered.
    pub after: Option<Health>,
}
