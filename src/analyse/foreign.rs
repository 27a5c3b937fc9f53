//! Others' I/O on the disks below a target, by the kernel's counters alone.
//!
//! Two things can be held against each other. A disk counts all that its partitions do, so what it
//! counts beyond one of them is others'. And a raw device takes each byte of a synchronous direct
//! write just once. Other devices of a stack can't be held against those below them: what a loop
//! device writes to its file is more by the time that it has gone through that file's filesystem, and
//! so with the copies, checksums and logs of md and device-mapper.

use serde::{Deserialize, Serialize};

use crate::model::cell::{Method, Role};
use crate::model::facts::{DevId, DeviceFacts, DeviceKind};
use crate::model::record::Cell;
use crate::model::traffic::BlockStat;
use crate::model::units::SECTOR_BYTES;

/// Others' I/O on the same disk while a cell ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    /// The disk; or the raw device that the cell wrote.
    pub device: DevId,
    /// The partition of it that is the target's: what didn't go there is others'. None where it is
    /// what the cell itself didn't write.
    pub outside: Option<DevId>,
    /// Bytes that others wrote.
    pub written_bytes: u64,
    /// Bytes that others read; the run reads nothing while it measures.
    pub read_bytes: u64,
    /// Both, per byte written to the partition, or by the cell.
    pub share: f64,
    /// The other partition that most of it went to, as far as it went to any.
    pub neighbour: Option<String>,
}

/// The most of it, where the target lies on several disks.
pub(super) fn foreign(cell: &Cell, stack: &[DeviceFacts]) -> Option<Foreign> {
    let on_disks = stack.iter().filter_map(|device| on_disk(cell, device));
    let beside = stack.first().and_then(|top| beside_own(cell, top.dev));
    on_disks
        .chain(beside)
        .max_by(|one, other| one.share.total_cmp(&other.share))
}

/// What the disk of a partition did beyond it.
fn on_disk(cell: &Cell, partition: &DeviceFacts) -> Option<Foreign> {
    let (DeviceKind::Partition, &[disk]) = (partition.kind, &partition.lower[..]) else {
        return None;
    };
    let mut own = BlockStat::default();
    let mut all = BlockStat::default();
    for slice in &cell.slices {
        let of = |dev| slice.devices.iter().find(|one| one.dev == dev);
        if let Some((one, disk)) = of(partition.dev).zip(of(disk)) {
            own = own.plus(&one.counted);
            all = all.plus(&disk.counted);
        }
    }
    let written_bytes = bytes(all.write_sectors.saturating_sub(own.write_sectors));
    let read_bytes = bytes(all.read_sectors.saturating_sub(own.read_sectors));
    Some(Foreign {
        device: disk,
        outside: Some(partition.dev),
        written_bytes,
        read_bytes,
        share: share(written_bytes + read_bytes, bytes(own.write_sectors))?,
        neighbour: busiest_neighbour(cell),
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
        outside: None,
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

fn busiest_neighbour(cell: &Cell) -> Option<String> {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for neighbour in cell.slices.iter().flat_map(|slice| &slice.neighbours) {
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
    use crate::model::traffic::NeighbourTraffic;

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
        foreign(&record.cells[0], &record.targets[0].stack)
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
        assert_eq!((foreign.device, foreign.outside), (DISK, Some(PARTITION)));
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

    #[test]
    fn a_raw_devices_bytes_beyond_its_own_are_others() {
        let mut record = record(None);
        let foreign = only(&record).unwrap();
        assert_eq!(foreign.written_bytes, 1000 * (36 << 10));
        assert_eq!((foreign.device, foreign.outside), (PARTITION, None));
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
}
