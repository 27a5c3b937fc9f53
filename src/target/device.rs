//! One device's facts from its sysfs directory (Documentation/ABI/stable/sysfs-block).

use std::path::Path;

use super::identity::{self, Identity};
use super::images::Images;
use super::loops;
use super::sysfs::{dev_of, device_dir, disk_dir, flag, is_partition, name_of, names, text, value};
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::model::units::SECTOR_BYTES;
use crate::sys::root::Root;

/// Documentation/admin-guide/devices.txt.
const LOOP_MAJOR: u32 = 7;

/// The facts of a device. Fails if it isn't in sysfs.
pub(super) fn facts(root: &Root, dev: DevId) -> std::io::Result<DeviceFacts> {
    let dir = device_dir(root, dev)?;
    let disk = disk_dir(&dir);
    let queue = disk.join("queue");
    let kind = kind_of(&dir, dev);
    let Identity {
        model,
        serial,
        firmware,
    } = if kind == DeviceKind::Partition {
        Identity::default()
    } else {
        identity::identity(&dir)
    };
    Ok(DeviceFacts {
        name: name_of(&dir),
        dev,
        kind,
        size_bytes: value::<u64>(dir.join("size")).unwrap_or(0) * SECTOR_BYTES,
        diskseq: value(disk.join("diskseq")),
        model,
        serial,
        firmware,
        logical_block_bytes: value(queue.join("logical_block_size")),
        physical_block_bytes: value(queue.join("physical_block_size")),
        rotational: flag(queue.join("rotational")),
        read_only: flag(dir.join("ro")),
        write_cache: text(queue.join("write_cache")),
        fua: flag(queue.join("fua")),
        // Made for each disk with queues of requests, and no other (blk_mq_sysfs_register() in
        // block/blk-mq-sysfs.c); `queue` is there for all.
        request_queues: Some(disk.join("mq").is_dir()),
        scheduler: text(queue.join("scheduler")).map(|choices| chosen(&choices).to_owned()),
        zoned: text(queue.join("zoned")),
        // The file holds a mask: the alignment less one.
        dma_alignment_bytes: value::<u64>(queue.join("dma_alignment")).map(|mask| mask + 1),
        max_request_bytes: value::<u64>(queue.join("max_sectors_kb")).map(|kib| kib * 1024),
        pcie: identity::pcie_link(root, disk),
        partition_start_bytes: (kind == DeviceKind::Partition)
            .then(|| value::<u64>(dir.join("start")).map(|sectors| sectors * SECTOR_BYTES))
            .flatten(),
        target_start_bytes: None,
        file_start_bytes: None,
        alignment_offset_bytes: value(dir.join("alignment_offset")),
        backing_file: text(dir.join("loop/backing_file")),
        dm_name: text(dir.join("dm/name")),
        lower: lower(root, &dir, dev, kind),
        drive: None,
    })
}

fn kind_of(dir: &Path, dev: DevId) -> DeviceKind {
    if is_partition(dir) {
        DeviceKind::Partition
    } else if dir.join("dm").is_dir() {
        DeviceKind::Dm
    } else if dir.join("md").is_dir() {
        DeviceKind::Md
    } else if dev.major == LOOP_MAJOR {
        DeviceKind::Loop
    } else if name_of(dir).starts_with("zram") {
        DeviceKind::Zram
    } else {
        DeviceKind::Disk
    }
}

/// The devices directly below.
fn lower(root: &Root, dir: &Path, dev: DevId, kind: DeviceKind) -> Vec<DevId> {
    match kind {
        DeviceKind::Partition => dev_of(disk_dir(dir)).into_iter().collect(),
        DeviceKind::Loop => loops::backing(&Images::of(root), root, dev, dir)
            .and_then(|backing| {
                backing
                    .block_device
                    .or_else(|| backing.file.map(|file| file.dev))
            })
            // A file on tmpfs or btrfs has an anonymous device number, which is no block device's.
            .filter(|&lower| device_dir(root, lower).is_ok())
            .into_iter()
            .collect(),
        _ => {
            let slaves = dir.join("slaves");
            names(&slaves)
                .iter()
                .filter_map(|name| dev_of(slaves.join(name)))
                .collect()
        }
    }
}

/// The one in brackets of `none [mq-deadline] kyber`.
fn chosen(choices: &str) -> &str {
    choices
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(choices, |(chosen, _)| chosen)
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("[none]"), "none");
        assert_eq!(chosen("none"), "none");
    }
}
