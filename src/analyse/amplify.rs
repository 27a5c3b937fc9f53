//! What a cell's writes became at the device, by the kernel's own counters.

use serde::{Deserialize, Serialize};

use crate::model::cell::Role;
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, DeviceKind, FsDevice, Holds, Host};
use crate::model::record::{Cell, Record, Target};
use crate::model::traffic::BlockStat;
use crate::model::units::SECTOR_BYTES;

use super::foreign::{Foreign, drowned, foreign};

/// A vendor's note on ext3 and ext4 has each synchronous write of S bytes write 32 KiB of journal and
/// 4 KiB of metadata beside it.
const MODEL_EXTRA_BYTES: f64 = ((32 + 4) << 10) as f64;
/// The cache setting under which the block layer drops flushes before they reach a device
/// (Documentation/block/writeback_cache_control.rst).
const WRITE_THROUGH: &str = "write through";
/// Others' share of a disk's writes from which its flushes are not known to be a cell's own.
const OTHERS: f64 = 0.02;
/// The first kernel that counts flushes (Documentation/block/stat.rst).
const FLUSHES_SINCE: (u32, u32) = (5, 5);

/// One cell's traffic at the devices that its target writes to directly: one, or a filesystem's several.
/// Sums over its slices; nothing of traced ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Amplification {
    /// The `id` of the cell.
    pub cell: String,
    /// The device whose counters these are, or the first of several.
    pub device: DevId,
    /// Of a filesystem on several devices, the part of each; else empty.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Bytes that the device was asked to write, per byte written. Under 1 where writes had not
    /// left the page cache when the slices ended; over 1 on a raw device only by others' I/O.
    pub amplification: f64,
    /// The inverse: the share of the device's bytes that are the program's own. None where the
    /// device wrote nothing.
    pub effective_share: Option<f64>,
    /// Of a file cell: what a vendor's model says that the share is, S / (S + 32 KiB + 4 KiB).
    pub model_share: Option<f64>,
    /// Write requests per write. A filesystem's flush without data (an empty bio) counts as one of
    /// them, a raw device's O_DSYNC flush does not.
    pub requests_per_write: f64,
    /// Bios merged into those requests, per write.
    pub merges_per_write: f64,
    /// Flushes of the drives' caches per write; none where no device of a stack counts them.
    pub flushes_per_write: Option<f64>,
    /// Which device counted the flushes, the first of several: partitions and device-mapper targets don't
    /// count theirs, so it may be the disk below.
    pub flush_device: Option<DevId>,
    /// What iostat would have shown as written while the cell ran.
    pub device_bytes_per_s: f64,
    /// Mean time of a write request at the device, empty ones included.
    pub write_mean_ns: Option<f64>,
    /// Mean time of a flush, from a counter of whole milliseconds.
    pub flush_mean_ns: Option<f64>,
    /// Bytes that the device was asked to read, per byte written. The run only writes.
    pub reads_per_byte: f64,
    /// What others did on the disk meanwhile, as far as the counters tell; none where they can't.
    pub foreign: Option<Foreign>,
}

/// What one of several devices took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The device.
    pub device: DevId,
    /// What the filesystem keeps there; none of the one that it is mounted from.
    pub holds: Option<Holds>,
    /// Bytes that it was asked to write, per byte written.
    pub bytes_per_byte: f64,
    /// Write requests per write.
    pub requests_per_write: f64,
    /// Flushes per write, as in [`Amplification::flushes_per_write`].
    pub flushes_per_write: Option<f64>,
}

/// Every cell whose devices counted, in the record's order, but those that others' writes to the same
/// filesystem drown.
pub fn amplifications(record: &Record) -> Vec<Amplification> {
    let counts_flushes = counts_flushes(&record.host);
    record
        .cells
        .iter()
        .filter_map(|cell| {
            let target = record
                .targets
                .iter()
                .find(|target| target.id == cell.spec.target)?;
            amplification(cell, target, counts_flushes)
        })
        .collect()
}

/// What the slices that a device counted in did, and what it counted.
#[derive(Default)]
struct Sums {
    ops: u64,
    bytes: u64,
    elapsed_ns: u64,
    counted: BlockStat,
}

impl Sums {
    /// Of the slices that all of these devices counted in.
    fn of(cell: &Cell, devices: &[DevId]) -> Sums {
        let mut sums = Sums::default();
        for slice in &cell.slices {
            let of = |dev: &DevId| slice.devices.iter().find(|one| one.dev == *dev);
            let counted: Option<Vec<_>> = devices.iter().map(of).collect();
            for traffic in counted.iter().flatten() {
                sums.counted = sums.counted.plus(&traffic.counted);
            }
            if counted.is_some() {
                sums.ops += slice.ops;
                sums.bytes += slice.bytes;
                sums.elapsed_ns += slice.elapsed_ns;
            }
        }
        sums
    }

    fn written_bytes(&self) -> u64 {
        self.counted.write_sectors * SECTOR_BYTES
    }

    fn per_write(&self, count: u64) -> f64 {
        count as f64 / self.ops as f64
    }
}

fn amplification(cell: &Cell, target: &Target, counts_flushes: bool) -> Option<Amplification> {
    let tops = target.tops()?;
    let sums = Sums::of(cell, &tops);
    if drowned(cell, target).is_some() {
        return None;
    }
    if sums.ops == 0 || sums.bytes == 0 || sums.elapsed_ns == 0 {
        return None;
    }
    let size_bytes = cell.spec.axes.size_bytes as f64;
    let written_bytes = sums.written_bytes();
    let devices: Vec<&DeviceFacts> = target.devices().collect();
    let flushed = |tops: &[DevId]| flushed(cell, &devices, tops).filter(|_| counts_flushes);
    let all_flushed = flushed(&tops);
    let first = *tops.first()?;
    Some(Amplification {
        cell: cell.spec.id.clone(),
        device: first,
        parts: match tops.len() {
            1 => Vec::new(),
            _ => tops
                .iter()
                .map(|&top| {
                    let own = Sums::of(cell, &[top]);
                    Part {
                        device: top,
                        holds: holds(target, top),
                        bytes_per_byte: own.written_bytes() as f64 / own.bytes as f64,
                        requests_per_write: own.per_write(own.counted.writes),
                        flushes_per_write: flushed(&[top])
                            .map(|flushed| flushed.per_write(flushed.counted.flushes)),
                    }
                })
                .collect(),
        },
        amplification: written_bytes as f64 / sums.bytes as f64,
        effective_share: (written_bytes > 0).then(|| sums.bytes as f64 / written_bytes as f64),
        model_share: (cell.spec.role == Role::File)
            .then(|| size_bytes / (size_bytes + MODEL_EXTRA_BYTES)),
        requests_per_write: sums.per_write(sums.counted.writes),
        merges_per_write: sums.per_write(sums.counted.writes_merged),
        flushes_per_write: all_flushed
            .as_ref()
            .map(|flushed| flushed.per_write(flushed.counted.flushes)),
        flush_device: all_flushed
            .as_ref()
            .and_then(|_| flush_device(&devices, first)),
        device_bytes_per_s: written_bytes as f64 / sums.elapsed_ns as f64 * 1e9,
        write_mean_ns: mean_ns(sums.counted.write_ms, sums.counted.writes),
        flush_mean_ns: all_flushed
            .and_then(|flushed| mean_ns(flushed.counted.flush_ms, flushed.counted.flushes)),
        reads_per_byte: (sums.counted.read_sectors * SECTOR_BYTES) as f64 / sums.bytes as f64,
        foreign: foreign(cell, target),
    })
}

/// Flushes per operation of a cell, where all that were counted are its own.
pub(super) fn flushes_per_op(record: &Record, cell: &Cell, target: &Target) -> Option<f64> {
    let devices: Vec<&DeviceFacts> = target.devices().collect();
    let flushed = flushed(cell, &devices, &target.tops()?);
    let flushed = flushed.filter(|_| counts_flushes(&record.host))?;
    Some(flushed.per_write(flushed.counted.flushes))
}

/// What the devices counted that count the flushes of `tops`; none where one of them isn't counted, or
/// where others wrote to them, whose flushes count there too.
fn flushed(cell: &Cell, devices: &[&DeviceFacts], tops: &[DevId]) -> Option<Sums> {
    let each = tops.iter().map(|&top| flush_device(devices, top));
    let mut by: Vec<DevId> = each.collect::<Option<_>>()?;
    // Two partitions may be of one disk.
    by.sort_unstable();
    by.dedup();
    let (own, all) = (Sums::of(cell, tops), Sums::of(cell, &by));
    // A flush comes with a write request, be it empty, or with one that has data.
    let beyond = |of: fn(&BlockStat) -> u64, least: u64| {
        let (own, all) = (of(&own.counted), of(&all.counted));
        all.saturating_sub(own) as f64 > OTHERS * own.max(least) as f64
    };
    let is_shared = own.ops > 0
        && (beyond(|counted| counted.writes, own.ops)
            || beyond(|counted| counted.write_sectors, own.bytes / SECTOR_BYTES));
    // A device below may have been added to the stack's counters later, or not at all.
    (all.ops > 0 && !is_shared).then_some(all)
}

/// What a filesystem keeps on this one of its further devices.
fn holds(target: &Target, top: DevId) -> Option<Holds> {
    let is_it = |more: &&FsDevice| more.stack.first().is_some_and(|device| device.dev == top);
    target.beside.iter().find(is_it).map(|more| more.holds)
}

fn mean_ns(total_ms: u64, requests: u64) -> Option<f64> {
    (requests > 0).then(|| total_ms as f64 * 1e6 / requests as f64)
}

/// The device that counts the flushes which the device `top` is sent. Flushes are counted where the
/// block layer sequences them (block/blk-flush.c), for whole disks with request queues alone: not
/// for partitions, nor for bio-based device-mapper and md devices, which send them on, nor for any other
/// disk that takes bios. They are looked for as long as there is just one device below, since several get
/// a flush each.
fn flush_device(devices: &[&DeviceFacts], top: DevId) -> Option<DevId> {
    let find = |dev: DevId| devices.iter().find(|device| device.dev == dev);
    let mut device = find(top)?;
    loop {
        let sends_on = matches!(
            device.kind,
            DeviceKind::Partition | DeviceKind::Dm | DeviceKind::Md
        );
        // What is dropped above a device counts as zero there, and rightly so.
        if device.write_cache.as_deref() == Some(WRITE_THROUGH) {
            return Some(device.dev);
        }
        if !sends_on {
            return (device.request_queues != Some(false)).then_some(device.dev);
        }
        let [below] = device.lower[..] else {
            return None;
        };
        device = find(below)?;
    }
}

/// The kernel of a host counts flushes. One whose release can't be read is taken for a newer one.
fn counts_flushes(host: &Host) -> bool {
    let mut numbers = host
        .kernel
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= FLUSHES_SINCE,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cell::FileState;
    use crate::model::fixture::{Builder, DISK, PARTITION, PerWrite};
    use crate::model::record::BaselineKind;

    /// What the vendor's note counts: 4 KiB of data and 36 KiB more.
    const NOTE: PerWrite = PerWrite {
        bytes: 40 << 10,
        requests: 3,
        merges: 4,
        flushes: 2,
    };

    fn record(state: Option<FileState>, each: PerWrite) -> Record {
        let builder = match state {
            None => Builder::new("raw").device("t0"),
            Some(_) => Builder::new("file").directory("t0", "/data", BaselineKind::None, None),
        };
        builder
            .cell("t0", state, 4096, 100e3, 100)
            .counted(each)
            .record
    }

    fn only(record: &Record) -> Amplification {
        let mut all = amplifications(record);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn figures_are_sums_over_slices_per_write_and_per_byte() {
        let record = record(Some(FileState::Trunc), NOTE);
        let counted = only(&record);
        assert_eq!(counted.device, PARTITION);
        assert_eq!(counted.amplification, 10.0);
        assert_eq!(counted.effective_share, Some(0.1));
        assert_eq!(counted.model_share, Some(0.1));
        assert_eq!(
            (counted.requests_per_write, counted.merges_per_write),
            (3.0, 4.0)
        );
        assert_eq!(counted.write_mean_ns, Some(10_000.0));
        let throughput = record.cells[0].throughput_bytes_per_s.unwrap();
        assert!((counted.device_bytes_per_s / throughput - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_model_is_the_notes_own() {
        let share = |size_bytes| {
            let record = Builder::new("file")
                .directory("t0", "/data", BaselineKind::None, None)
                .cell("t0", Some(FileState::Trunc), size_bytes, 100e3, 10)
                .counted(NOTE)
                .record;
            only(&record).model_share.unwrap()
        };
        for (size_bytes, percent) in [(4 << 10, 10.0), (32 << 10, 47.0), (512 << 10, 93.4)] {
            assert!(
                (share(size_bytes) * 100.0 - percent).abs() < 0.1,
                "{size_bytes}"
            );
        }
    }

    #[test]
    fn flushes_are_counted_by_the_disk_below_a_partition() {
        let counted = only(&record(Some(FileState::Trunc), NOTE));
        assert_eq!(counted.flushes_per_write, Some(2.0));
        assert_eq!(counted.flush_device, Some(DISK));
        assert_eq!(counted.flush_mean_ns, Some(50_000.0));
    }

    #[test]
    fn flushes_of_several_members_or_an_old_kernel_are_unknown() {
        let mut mirror = record(Some(FileState::Trunc), NOTE);
        let top = &mut mirror.targets[0].stack[0];
        top.kind = DeviceKind::Md;
        top.lower.push(DevId { major: 8, minor: 0 });
        assert_eq!(only(&mirror).flushes_per_write, None);
        let mut old = record(Some(FileState::Trunc), NOTE);
        old.host.kernel = "5.4.0-150-generic".to_owned();
        assert_eq!(only(&old).flushes_per_write, None);
        assert_eq!(only(&old).flush_device, None);
    }

    #[test]
    fn flushes_of_a_disk_that_takes_bios_are_unknown_and_not_zero() {
        // bcache, drbd, pmem, the head of a multipath NVMe drive: a disk by all but its counters.
        let mut record = record(Some(FileState::Trunc), PerWrite { flushes: 0, ..NOTE });
        assert_eq!(only(&record).flushes_per_write, Some(0.0));
        for device in &mut record.targets[0].stack {
            device.request_queues = Some(false);
        }
        let counted = only(&record);
        assert_eq!(counted.flushes_per_write, None);
        assert_eq!((counted.flush_device, counted.flush_mean_ns), (None, None));
        // As zram, which has no cache to flush: what is dropped above it are no flushes.
        record.targets[0].stack[1].write_cache = Some(WRITE_THROUGH.to_owned());
        assert_eq!(only(&record).flushes_per_write, Some(0.0));
    }

    #[test]
    fn a_device_without_a_volatile_cache_is_sent_no_flush() {
        let mut record = record(None, PerWrite { flushes: 0, ..NOTE });
        let top = &mut record.targets[0].stack[0];
        (top.kind, top.lower) = (DeviceKind::Dm, Vec::new());
        assert_eq!(only(&record).flushes_per_write, None);
        record.targets[0].stack[0].write_cache = Some(WRITE_THROUGH.to_owned());
        assert_eq!(only(&record).flushes_per_write, Some(0.0));
    }

    #[test]
    fn a_cell_that_nothing_counted_has_no_figures() {
        let mut record = record(Some(FileState::Trunc), NOTE);
        for slice in &mut record.cells[0].slices {
            slice.devices.clear();
        }
        assert_eq!(amplifications(&record), []);
    }
}
