//! Facts of devices, mounts and hosts. A fact that the system does not offer is absent (`None`),
//! never an error.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::devid::DevId;
use super::drive::DriveFacts;

/// What a block device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// A whole disk of a hardware or virtual bus.
    Disk,
    /// A partition of one.
    Partition,
    /// A device-mapper target: LVM, LUKS, multipath and others.
    Dm,
    /// An md array.
    Md,
    /// A loop device.
    Loop,
    /// Compressed memory.
    Zram,
}

/// One block device of a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// The kernel's name, such as `nvme0n1p1`.
    pub name: String,
    /// Its number.
    pub dev: DevId,
    /// What it is.
    pub kind: DeviceKind,
    /// Its capacity.
    pub size_bytes: u64,
    /// The kernel's sequence number of the disk: another disk under the same name has another.
    pub diskseq: Option<u64>,
    /// Model, as the drive gives it.
    pub model: Option<String>,
    /// Serial number, as the drive gives it.
    pub serial: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// Smallest unit that it addresses.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit that it writes without reading first.
    pub physical_block_bytes: Option<u64>,
    /// It turns.
    pub rotational: Option<bool>,
    /// It is set read-only.
    pub read_only: Option<bool>,
    /// The kernel's view of its cache: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// It takes FUA writes.
    pub fua: Option<bool>,
    /// It takes requests, which the block layer queues for it. A driver without takes bios alone, as dm,
    /// bcache, pmem and the head of a multipath NVMe drive do, and counts none of its flushes. None in a
    /// record that is older than this.
    #[serde(default)]
    pub request_queues: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// How it is zoned: `none`, `host-aware` or `host-managed`.
    pub zoned: Option<String>,
    /// Alignment of memory that O_DIRECT needs.
    pub dma_alignment_bytes: Option<u64>,
    /// Largest request that the block layer makes.
    pub max_request_bytes: Option<u64>,
    /// The PCIe link of the drive.
    pub pcie: Option<PcieLink>,
    /// Where a partition starts on its disk.
    pub partition_start_bytes: Option<u64>,
    /// Where in it the target begins; none where nothing tells, as below a loop device's file, and in a
    /// record that is older than this.
    #[serde(default)]
    pub target_start_bytes: Option<u64>,
    /// Where in a loop device's backing file the target begins.
    #[serde(default)]
    pub file_start_bytes: Option<u64>,
    /// Where a drive's first physical block begins that is whole.
    #[serde(default)]
    pub alignment_offset_bytes: Option<u64>,
    /// What a loop device reads and writes.
    pub backing_file: Option<String>,
    /// A device-mapper device's name, as under /dev/mapper.
    pub dm_name: Option<String>,
    /// The devices directly below: a partition's disk, the members of dm and md, the device that a
    /// loop's backing file lies on.
    pub lower: Vec<DevId>,
    /// What the drive says of itself; none unless it was asked.
    #[serde(default)]
    pub drive: Option<DriveFacts>,
}

/// What a drive's PCIe link trained to, and what the drive could. For a SATA or SAS drive, that of its
/// controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PcieLink {
    /// As sysfs words it, such as `16.0 GT/s PCIe`.
    pub speed: Option<String>,
    /// Lanes.
    pub width: Option<u32>,
    /// The most that the drive's end could, whatever it is plugged into.
    pub max_speed: Option<String>,
    /// Lanes.
    pub max_width: Option<u32>,
}

/// One mounted filesystem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MountFacts {
    /// Where it is mounted.
    pub mount_point: String,
    /// What is mounted, as mountinfo words it.
    pub source: String,
    /// Its type, such as `ext4`.
    pub fs_type: String,
    /// The device number that its files have. For btrfs and network filesystems, an anonymous one.
    pub dev: DevId,
    /// The block device that it sits on, where there is just one.
    pub block_device: Option<DevId>,
    /// Options of the mount and of the superblock.
    pub options: Vec<String>,
    /// Its block size.
    pub block_bytes: Option<u64>,
    /// Its capacity.
    pub size_bytes: Option<u64>,
    /// What an unprivileged user may still write.
    pub free_bytes: Option<u64>,
    /// Its journal.
    pub journal: Option<JournalFacts>,
}

impl MountFacts {
    /// It was mounted read-only, by the mount or by the superblock.
    pub fn is_read_only(&self) -> bool {
        self.options.iter().any(|option| option == "ro")
    }
}

/// A filesystem's journal, or log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalFacts {
    /// ext3 and ext4: `ordered`, `writeback` or `journal`; `none` without a journal.
    pub mode: Option<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// It lies on another device.
    pub external: Option<bool>,
    /// On which, if that is known. None in a record that is older than this.
    #[serde(default)]
    pub device: Option<DevId>,
}

/// A further device of a filesystem, beside the one that it is mounted from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FsDevice {
    /// What the filesystem keeps there.
    pub holds: Holds,
    /// It, and all devices below it; empty where it isn't known which one it is.
    pub stack: Vec<DeviceFacts>,
}

/// What a filesystem keeps on one of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// Its journal, or log.
    Journal,
    /// The data of XFS's realtime files.
    Realtime,
    /// Anything, as a btrfs does on each of several devices.
    Anything,
}

impl fmt::Display for Holds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Holds::Journal => "journal",
            Holds::Realtime => "realtime data",
            Holds::Anything => "data and metadata",
        })
    }
}

/// The machine that a record comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub hostname: String,
    /// The kernel's release and version.
    pub kernel: String,
    /// The processor's architecture.
    pub arch: String,
    /// Processors in use.
    pub cpus: u32,
    /// Those of them that the run could use (sched_setaffinity(2)). None in a record that is older than
    /// this.
    #[serde(default)]
    pub usable_cpus: Option<u32>,
    /// Limits that its control groups set on writes and on processor time.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// The processor's model.
    pub cpu_model: Option<String>,
    /// Memory.
    pub memory_bytes: Option<u64>,
}

/// A limit of a control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The file that sets it.
    pub file: String,
    /// The device that it is on; none of processor time.
    pub device: Option<DevId>,
    /// As the file words it.
    pub value: String,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if let Some(device) = self.device {
            write!(f, "{device} ")?;
        }
        f.write_str(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_round_trip() {
        let dev: DevId = "259:12".parse().unwrap();
        assert_eq!(
            dev,
            DevId {
                major: 259,
                minor: 12
            }
        );
        assert_eq!(dev.to_string(), "259:12");
        assert!("259".parse::<DevId>().is_err());
    }

    #[test]
    fn a_dev_t_splits_into_its_two_numbers() {
        assert_eq!(
            DevId::from_dev(libc::makedev(259, 300)),
            DevId {
                major: 259,
                minor: 300
            }
        );
    }
}
