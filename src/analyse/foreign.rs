//! Others' I/O on the disks below a target, by the kernel's counters alone.
//!
//! Two things can be held against each other. A disk counts all that its partitions do, so what it
//! counts beyond those that are the target's is others'. And a raw device takes each byte of a
//! synchronous direct write just once. Other devices of a stack can't be held against those below them: what a loop
//! device writes to its file is more by the time that it has gone through that file's filesystem, and
//! so with the copies, checksums and logs of md and device-mapper.

use serde::{Deserialize, Serialize};

use crate::fs::Filesystem;
use crate::model::cell::{Method, Role};
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::model::record::{Cell, Target};
use crate::model::traffic::{BlockStat, DeviceTraffic};
use crate::model::units::SECTOR_BYTES;

/// Others' I/O on the same disk while a cell ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    /// The disk; or the raw device that the cell wrote.
    pub device: DevId,
    /// The partitions of it that are the target's: what didn't go there, or to the journal of the
    /// target's filesystem, is others'. Empty where it is what the cell itself didn't write.
    pub outside: Vec<DevId>,
    /// Bytes that others wrote.
    pub written_bytes: u64,
    /// Bytes that others read; the run reads nothing while it measures.
    pub read_bytes: u64,
    /// Both, per byte written to the partitions, or by the cell.
    pub share: f64,
    /// The other partition that most of it went to, as far as it went to any.
    pub neighbour: Option<String>,
}

/// The most of it, where the target lies on several disks.
pub(super) fn foreign(cell: &Cell, target: &Target) -> Option<Foreign> {
    let mut disks: Vec<DevId> = target.devices().filter_map(disk_of).collect();
    disks.sort_unstable();
    disks.dedup();
    let on_disks = disks.iter().filter_map(|&disk| on_disk(cell, target, disk));
    let beside = target.stack.first();
    let beside = beside.and_then(|top| beside_own(cell, top.dev));
    on_disks
        .chain(beside)
        .max_by(|one, other| one.share.total_cmp(&other.share))
}

/// The disk of a partition.
fn disk_of(device: &DeviceFacts) -> Option<DevId> {
    match (device.kind, &device.lower[..]) {
        (DeviceKind::Partition, &[disk]) => Some(disk),
        _ => None,
    }
}

/// Where the target's filesystem has a journal elsewhere.
pub(super) enum Elsewhere {
    /// It has none there.
    No,
    /// On this device.
    On(DevId),
    /// That is not known.
    Somewhere,
}

impl Elsewhere {
    pub(super) fn of(target: &Target) -> Elsewhere {
        let journal = target.mount.as_ref().and_then(|m| m.journal.as_ref());
        match journal.filter(|journal| journal.external == Some(true)) {
            None => Elsewhere::No,
            Some(journal) => journal.device.map_or(Elsewhere::Somewhere, Elsewhere::On),
        }
    }
}

/// Others' share of what a filesystem's devices wrote from which the figures are not a cell's own.
const DROWNS: f64 = 0.05;
/// In so few moments, it may be the filesystem's own background that wrote.
const LEAST_BUSY: u32 = 3;

/// Bytes a second that were written to the devices of a file cell's filesystem while the run did nothing, if
/// that is too much of what was written while the cell ran to tell the two apart. None where
/// the filesystem counts what programs write to it.
pub(super) fn drowned(cell: &Cell, target: &Target) -> Option<f64> {
    let idle = target
        .idle
        .as_ref()
        .filter(|idle| idle.busy_moments >= LEAST_BUSY)?;
    let counts_programs = target
        .mount
        .as_ref()
        .is_some_and(|mount| Filesystem::of(&mount.fs_type).extras.counts_programs);
    if cell.spec.role != Role::File || counts_programs {
        return None;
    }
    let of = |devices: &[DeviceTraffic]| -> u64 {
        let is_top = |one: &&DeviceTraffic| idle.devices.iter().any(|top| top.dev == one.dev);
        let own = devices.iter().filter(is_top);
        bytes(own.map(|one| one.counted.write_sectors).sum())
    };
    let rate = of(&idle.devices) as f64 / idle.elapsed_ns as f64 * 1e9;
    let written = cell
        .slices
        .iter()
        .map(|slice| of(&slice.devices))
        .sum::<u64>() as f64;
    (rate * cell.elapsed_ns as f64 / 1e9 > DROWNS * written).then_some(rate)
}

/// What a disk did beyond the target's partitions of it. Several may be its own: members of a volume or
/// of an array, or the journal's.
fn on_disk(cell: &Cell, target: &Target, disk: DevId) -> Option<Foreign> {
    let journal = match Elsewhere::of(target) {
        Elsewhere::No => None,
        Elsewhere::On(device) => Some(device),
        Elsewhere::Somewhere => return None,
    };
    let is_own = |device: &&DeviceFacts| disk_of(device) == Some(disk);
    let mut own: Vec<DevId> = target.devices().filter(is_own).map(|d| d.dev).collect();
    own.sort_unstable();
    own.dedup();
    let mut written_sectors = 0;
    let mut ours = BlockStat::default();
    let mut all = BlockStat::default();
    for slice in &cell.slices {
        let of = |dev: DevId| slice.devices.iter().find(|one| one.dev == dev);
        let parts: Option<Vec<_>> = own.iter().map(|&dev| of(dev)).collect();
        let Some((parts, disk)) = parts.zip(of(disk)) else {
            continue;
        };
        all = all.plus(&disk.counted);
        for part in parts {
            written_sectors += part.counted.write_sectors;
            ours = ours.plus(&part.counted);
        }
        // A neighbour that isn't there was idle.
        let mut neighbours = slice.neighbours.iter();
        if let Some(journal) = neighbours.find(|one| Some(one.dev) == journal) {
            ours = ours.plus(&journal.counted);
        }
    }
    let written_bytes = bytes(all.write_sectors.saturating_sub(ours.write_sectors));
    let read_bytes = bytes(all.read_sectors.saturating_sub(ours.read_sectors));
    Some(Foreign {
        device: disk,
        outside: own,
        written_bytes,
        read_bytes,
        share: share(written_bytes + read_bytes, bytes(written_sectors))?,
        neighbour: busiest_neighbour(cell, journal),
    })
}

/// What a raw device did beyond the cell's own writes.
fn beside_own(cell: &Cell, device: DevId) -> Option<Foreign> {
    let axes = &cell.spec.axes;
    // What was left in the page cache may be written during another cell's slices.
    if cell.spec.role != Role::Raw || !axes.direct || axes.method == Method::None {
        return None;
    }
    let mut own_bytes = 0;
    let mut all = BlockStat::default();
    for slice in &cell.slices {
        if let Some(traffic) = slice.devices.iter().find(|one| one.dev == device) {
            own_bytes += slice.bytes;
            all = all.plus(&traffic.counted);
        }
    }
    let written_bytes = bytes(all.write_sectors).saturating_sub(own_bytes);
    let read_bytes = bytes(all.read_sectors);
    Some(Foreign {
        device,
        outside: Vec::new(),
        written_bytes,
        read_bytes,
        share: share(written_bytes + read_bytes, own_bytes)?,
        neighbour: None,
    })
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR_BYTES
}

fn busiest_neighbour(cell: &Cell, journal: Option<DevId>) -> Option<String> {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    let neighbours = cell.slices.iter().flat_map(|slice| &slice.neighbours);
    for neighbour in neighbours.filter(|one| Some(one.dev) != journal) {
        let sectors = neighbour.counted.write_sectors + neighbour.counted.read_sectors;
        match sums.iter_mut().find(|(name, _)| *name == neighbour.name) {
            Some((_, sum)) => *sum += sectors,
            None => sums.push((&neighbour.name, sectors)),
        }
    }
    let most = sums.into_iter().max_by_key(|(_, sectors)| *sectors)?;
    (most.1 > 0).then(|| most.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cell::FileState;
    use crate::model::fixture::{Builder, DISK, PARTITION, PerWrite};
    use crate::model::record::{BaselineKind, Record};
    use crate::model::traffic::{Idle, NeighbourTraffic};

    /// 1000 writes of 4 KiB, which put 40 KiB each on the device.
    fn record(state: Option<FileState>) -> Record {
        let builder = match state {
            None => Builder::new("raw").device("t0"),
            Some(_) => Builder::new("file").directory("t0", "/data", BaselineKind::None, None),
        };
        let each = PerWrite {
            bytes: 40 << 10,
            ..PerWrite::default()
        };
        builder
            .cell("t0", state, 4096, 100e3, 100)
            .counted(each)
            .record
    }

    fn only(record: &Record) -> Option<Foreign> {
        foreign(&record.cells[0], &record.targets[0])
    }

    /// Adds to what the disk counted in each slice, through a partition of this name if any.
    fn disturb(record: &mut Record, written_sectors: u64, read_sectors: u64, name: Option<&str>) {
        for slice in &mut record.cells[0].slices {
            let counted = BlockStat {
                write_sectors: written_sectors,
                read_sectors,
                ..BlockStat::default()
            };
            let disk = slice.devices.iter_mut().find(|device| device.dev == DISK);
            let disk = disk.unwrap();
            disk.counted = disk.counted.plus(&counted);
            slice.neighbours.extend(name.map(|name| NeighbourTraffic {
                name: name.to_owned(),
                dev: PARTITION,
                counted,
            }));
        }
    }

    #[test]
    fn others_io_is_what_the_disk_did_beyond_the_partition() {
        let mut record = record(Some(FileState::Trunc));
        assert_eq!(only(&record).unwrap().share, 0.0);
        for slice in &mut record.cells[0].slices {
            for device in &mut slice.devices {
                // The filesystem's own reads are no others'.
                device.counted.read_sectors += 8;
            }
        }
        disturb(&mut record, 16, 2, None);
        let foreign = only(&record).unwrap();
        let told = (foreign.written_bytes, foreign.read_bytes);
        assert_eq!(told, (81_920, 10_240));
        assert_eq!((foreign.device, foreign.outside), (DISK, vec![PARTITION]));
        assert_eq!(foreign.share, 92_160.0 / 40_960_000.0);
        assert_eq!(foreign.neighbour, None);
    }

    #[test]
    fn the_neighbour_that_did_most_is_named() {
        let mut record = record(Some(FileState::Trunc));
        disturb(&mut record, 16, 0, Some("nvme0n1p1"));
        disturb(&mut record, 8, 16, Some("nvme0n1p3"));
        let foreign = only(&record).unwrap();
        assert_eq!(foreign.neighbour.as_deref(), Some("nvme0n1p3"));
    }

    #[test]
    fn a_partition_is_held_against_its_disk_whatever_lies_on_it() {
        let mut record = record(Some(FileState::Trunc));
        disturb(&mut record, 16, 0, None);
        let volume = DeviceFacts {
            kind: DeviceKind::Dm,
            dev: DevId {
                major: 252,
                minor: 0,
            },
            lower: vec![PARTITION],
            ..record.targets[0].stack[0].clone()
        };
        record.targets[0].stack.insert(0, volume);
        assert_eq!(only(&record).unwrap().written_bytes, 81_920);
        // A whole disk below it tells nothing: those are other bytes.
        record.targets[0].stack.remove(1);
        assert_eq!(only(&record), None);
    }

    /// Another partition of the disk.
    const OTHER: DevId = DevId {
        major: 259,
        minor: 3,
    };

    /// The disk counts as much again as the partition does, which is what the other one counted.
    fn counted_twice(record: &mut Record) -> BlockStat {
        let first = record.cells[0].slices[0].devices[0].counted;
        for slice in &mut record.cells[0].slices {
            let disk = slice.devices.iter_mut().find(|device| device.dev == DISK);
            let disk = disk.unwrap();
            disk.counted = disk.counted.plus(&first);
        }
        first
    }

    #[test]
    fn two_partitions_of_a_disk_that_are_the_targets_are_no_others() {
        let mut record = record(Some(FileState::Trunc));
        let counted = counted_twice(&mut record);
        let told = only(&record).unwrap();
        assert_eq!((told.share, told.outside), (1.0, vec![PARTITION]));
        // Both are members of a volume.
        for slice in &mut record.cells[0].slices {
            slice.devices.push(DeviceTraffic {
                dev: OTHER,
                counted,
            });
        }
        let stack = &mut record.targets[0].stack;
        let mut other = stack[0].clone();
        other.dev = OTHER;
        stack.insert(1, other);
        let told = only(&record).unwrap();
        assert_eq!((told.share, told.outside), (0.0, vec![PARTITION, OTHER]));
        disturb(&mut record, 16, 0, None);
        let told = only(&record).unwrap();
        assert_eq!((told.written_bytes, told.share), (81_920, 0.001));
    }

    #[test]
    fn a_journal_on_another_partition_of_the_disk_is_no_others() {
        let mut record = record(Some(FileState::Trunc));
        let counted = counted_twice(&mut record);
        for slice in &mut record.cells[0].slices {
            slice.neighbours.push(NeighbourTraffic {
                name: "nvme0n1p3".to_owned(),
                dev: OTHER,
                counted,
            });
        }
        assert_eq!(only(&record).unwrap().share, 1.0);
        let mut lie = |device| {
            let mount = record.targets[0].mount.as_mut().unwrap();
            let journal = mount.journal.as_mut().unwrap();
            (journal.external, journal.device) = (Some(true), device);
            only(&record)
        };
        let told = lie(Some(OTHER)).unwrap();
        assert_eq!((told.share, told.neighbour), (0.0, None));
        // On another disk.
        assert_eq!(lie(Some(DISK)).unwrap().share, 1.0);
        assert_eq!(lie(None), None);
    }

    #[test]
    fn a_raw_devices_bytes_beyond_its_own_are_others() {
        let mut record = record(None);
        let foreign = only(&record).unwrap();
        assert_eq!(foreign.written_bytes, 1000 * (36 << 10));
        assert_eq!((foreign.device, foreign.outside), (PARTITION, vec![]));
        record.targets[0].stack.remove(1);
        let top = &mut record.targets[0].stack[0];
        (top.kind, top.lower) = (DeviceKind::Disk, Vec::new());
        assert_eq!(only(&record).unwrap().share, 9.0);
        record.cells[0].spec.axes.direct = false;
        assert_eq!(only(&record), None);
    }

    #[test]
    fn a_disk_that_was_not_counted_all_the_time_is_compared_where_it_was() {
        let mut record = record(Some(FileState::Trunc));
        disturb(&mut record, 16, 0, None);
        for slice in &mut record.cells[0].slices[..5] {
            slice.devices.retain(|device| device.dev == PARTITION);
        }
        assert_eq!(only(&record).unwrap().written_bytes, 40_960);
    }

    #[test]
    fn what_is_written_while_the_run_is_idle_drowns_a_cells_own() {
        let mut record = record(Some(FileState::Append));
        let cell = record.cells[0].clone();
        let written_per_s = 1000.0 * 40960.0 / (cell.elapsed_ns as f64 / 1e9);
        let mut told = |share: f64, busy_moments| {
            let counted = BlockStat {
                write_sectors: (share * written_per_s / 512.0) as u64,
                ..BlockStat::default()
            };
            record.targets[0].idle = Some(Idle {
                moments: 8,
                busy_moments,
                elapsed_ns: 1_000_000_000,
                devices: vec![DeviceTraffic {
                    dev: PARTITION,
                    counted,
                }],
            });
            drowned(&record.cells[0], &record.targets[0])
        };
        assert_eq!(told(0.01, 8), None);
        assert_eq!(told(0.5, 2), None);
        assert!(told(0.5, 8).is_some());
        assert_eq!(super::super::amplify::amplifications(&record), []);
    }
}
