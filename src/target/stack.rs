//! Devices, and the devices below them.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use super::blockmap::graph;
use super::device::facts;
use super::graph::Node;
use super::snapshot::Snapshot;
use super::sysfs::{
    dev_of, device_dir, disk_dir, is_partition, name_of, names, partitions, text, value,
};
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::model::units::SECTOR_BYTES;
use crate::sys::root::Root;

/// The device, then every device below it, each once: a partition's disk, the members of dm and
/// md, the device that a loop's backing file lies on. Fails only if the device itself isn't in
/// sysfs; one below that vanished meanwhile is left out.
pub fn stack(root: &Root, dev: DevId) -> io::Result<Vec<DeviceFacts>> {
    let first = facts(root, dev)?;
    let mut seen = HashSet::from([dev]);
    let mut waiting: VecDeque<DevId> = first.lower.iter().copied().collect();
    let mut found = vec![first];
    while let Some(next) = waiting.pop_front() {
        // Each once: also what keeps a ring of links from going round for ever.
        if !seen.insert(next) {
            continue;
        }
        if let Ok(facts) = facts(root, next) {
            waiting.extend(&facts.lower);
            found.push(facts);
        }
    }
    Ok(found)
}

/// Says of each device of a stack where the first one begins in it, through partitions, maps and loop
/// devices with an offset.
pub fn locate(root: &Root, stack: &mut [DeviceFacts]) {
    let Some(top) = stack.first().map(|device| Node::Device(device.dev)) else {
        return;
    };
    let snapshot = Snapshot::of_devices(root);
    let pieces = graph(root, &snapshot).project(&top);
    let start = |node: &Node| {
        let first = pieces.iter().find(|piece| piece.node == *node)?;
        Some(first.bytes.start)
    };
    for device in stack {
        device.target_start_bytes = start(&Node::Device(device.dev));
        let attached = snapshot.attached(device.dev);
        let file = attached.and_then(|found| found.backing.node());
        let file = file.filter(|node| matches!(node, Node::File(_)));
        device.file_start_bytes = file.and_then(|file| start(&file));
    }
}

/// The other partitions of the disk that a partition lies on, with the kernel's names; none of what is
/// no partition.
pub fn neighbours(root: &Root, partition: DevId) -> Vec<(String, DevId)> {
    let Ok(own) = device_dir(root, partition) else {
        return Vec::new();
    };
    if !is_partition(&own) {
        return Vec::new();
    }
    let others = partitions(disk_dir(&own)).into_iter();
    let others = others.filter(|&dev| dev != partition);
    let named = |dev| Some((name_of(&device_dir(root, dev).ok()?), dev));
    others.filter_map(named).collect()
}

/// Where a disk's partitions lie on it: their starts and lengths in bytes; none of what has none.
pub fn partition_places(root: &Root, disk: DevId) -> Vec<(u64, u64)> {
    let Ok(own) = device_dir(root, disk) else {
        return Vec::new();
    };
    let bytes = |file: PathBuf| Some(value::<u64>(file)?.saturating_mul(SECTOR_BYTES));
    let place = |dev| {
        let dir = device_dir(root, dev).ok()?;
        Some((bytes(dir.join("start"))?, bytes(dir.join("size"))?))
    };
    partitions(&own).into_iter().filter_map(place).collect()
}

/// Every disk and partition that has a size, in the order of the disks' numbers, and each disk's
/// partitions after it. Loop, zram and drive
/// bays without anything in them have none.
pub fn all_devices(root: &Root) -> io::Result<Vec<DeviceFacts>> {
    let class = root.sys.join("class/block");
    fs::read_dir(&class).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot list {}: {error}", class.display()),
        )
    })?;
    let mut devices: Vec<DeviceFacts> = names(&class)
        .iter()
        .filter_map(|name| dev_of(class.join(name)))
        .filter_map(|dev| facts(root, dev).ok())
        .filter(|device| device.size_bytes > 0)
        .collect();
    // A partition's number may be of another major than its disk's: that of its driver holds few.
    devices.sort_by_key(|device| match (device.kind, device.lower.first()) {
        (DeviceKind::Partition, Some(&disk)) => (disk, Some(device.dev)),
        _ => (device.dev, None),
    });
    Ok(devices)
}

/// The node under /dev that the kernel names for a device, checked to be that device. Fails if it
/// is missing or another one, as in a container with a /dev of its own.
pub fn device_node(root: &Root, dev: DevId) -> io::Result<PathBuf> {
    let uevent = text(device_dir(root, dev)?.join("uevent")).unwrap_or_default();
    let name = uevent
        .lines()
        .find_map(|line| line.strip_prefix("DEVNAME="))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("sysfs names no node for block device {dev}"),
            )
        })?;
    let path = root.dev.join(name);
    let found = fs::metadata(&path).map_err(|error| {
        io::Error::new(error.kind(), format!("no node {}: {error}", path.display()))
    })?;
    if !found.file_type().is_block_device() || DevId::from_dev(found.rdev()) != dev {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{} is not block device {dev}", path.display()),
        ));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use tempfile::TempDir;

    /// A made-up /sys, /proc and /dev.
    struct Tree(TempDir);

    impl Tree {
        fn new() -> Tree {
            let tree = Tree(TempDir::new().unwrap());
            for dir in ["sys/dev/block", "sys/class/block", "proc", "dev"] {
                fs::create_dir_all(tree.path(dir)).unwrap();
            }
            tree
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn root(&self) -> Root {
            Root {
                sys: self.path("sys"),
                proc: self.path("proc"),
                dev: self.path("dev"),
            }
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// A device whose directory is `sys/devices/{place}`.
        fn device(&self, place: &str, dev: &str, sectors: u64) {
            let dir = format!("sys/devices/{place}");
            self.file(&format!("{dir}/dev"), dev);
            self.file(&format!("{dir}/size"), &sectors.to_string());
            let name = Path::new(place).file_name().unwrap();
            let target = self.path(&dir);
            symlink(&target, self.path("sys/dev/block").join(dev)).unwrap();
            symlink(&target, self.path("sys/class/block").join(name)).unwrap();
        }

        fn below(&self, upper: &str, lower: &str) {
            let slaves = self.path(&format!("sys/devices/{upper}/slaves"));
            fs::create_dir_all(&slaves).unwrap();
            let name = Path::new(lower).file_name().unwrap();
            symlink(
                self.path(&format!("sys/devices/{lower}")),
                slaves.join(name),
            )
            .unwrap();
        }
    }

    fn dev(text: &str) -> DevId {
        text.parse().unwrap()
    }

    fn names_of(devices: &[DeviceFacts]) -> Vec<&str> {
        devices.iter().map(|device| device.name.as_str()).collect()
    }

    #[test]
    fn a_volume_on_a_partition_stands_on_its_disk() {
        let tree = Tree::new();
        tree.device("block/sda", "8:0", 2_000);
        tree.device("block/sda/sda1", "8:1", 1_000);
        tree.file("sys/devices/block/sda/sda1/partition", "1");
        tree.file("sys/devices/block/sda/sda1/start", "64");
        tree.file("sys/devices/block/sda/queue/logical_block_size", "512\n");
        tree.file("sys/devices/block/sda/mq/0/nr_tags", "32\n");
        tree.device("virtual/block/dm-0", "253:0", 900);
        tree.file("sys/devices/virtual/block/dm-0/dm/name", "vg-root\n");
        tree.file("sys/devices/virtual/block/dm-0/queue/rotational", "0\n");
        tree.below("virtual/block/dm-0", "block/sda/sda1");
        let stack = stack(&tree.root(), dev("253:0")).unwrap();
        assert_eq!(names_of(&stack), ["dm-0", "sda1", "sda"]);
        assert_eq!(stack[0].kind, DeviceKind::Dm);
        assert_eq!(stack[0].dm_name.as_deref(), Some("vg-root"));
        assert_eq!(stack[1].kind, DeviceKind::Partition);
        assert_eq!(stack[1].size_bytes, 512_000);
        assert_eq!(stack[1].partition_start_bytes, Some(32_768));
        assert_eq!(stack[1].logical_block_bytes, Some(512));
        assert_eq!(stack[2].serial, None);
        // A volume takes bios; a partition is queued for as its disk is.
        let queued: Vec<_> = stack.iter().map(|device| device.request_queues).collect();
        assert_eq!(queued, [Some(false), Some(true), Some(true)]);
    }

    #[test]
    fn a_target_is_located_through_partitions_and_loop_devices() {
        let tree = Tree::new();
        tree.device("block/sda", "8:0", 2_000);
        tree.device("block/sda/sda1", "8:1", 1_000);
        tree.file("sys/devices/block/sda/sda1/partition", "1");
        tree.file("sys/devices/block/sda/sda1/start", "63");
        let mut stack = stack(&tree.root(), dev("8:1")).unwrap();
        locate(&tree.root(), &mut stack);
        let starts: Vec<_> = stack
            .iter()
            .map(|device| device.target_start_bytes)
            .collect();
        assert_eq!(starts, [Some(0), Some(63 * 512)]);
    }

    #[test]
    fn a_ring_of_devices_ends() {
        let tree = Tree::new();
        tree.device("block/dm-0", "253:0", 8);
        tree.device("block/dm-1", "253:1", 8);
        for (upper, lower) in [("block/dm-0", "block/dm-1"), ("block/dm-1", "block/dm-0")] {
            tree.file(&format!("sys/devices/{upper}/dm/name"), "x");
            tree.below(upper, lower);
        }
        let stack = stack(&tree.root(), dev("253:1")).unwrap();
        assert_eq!(names_of(&stack), ["dm-1", "dm-0"]);
    }

    #[test]
    fn an_nvme_drive_tells_its_maker_and_its_link() {
        let tree = Tree::new();
        let function = "pci0000:00/0000:3b:00.0";
        tree.device(&format!("{function}/nvme/nvme0/nvme0n1"), "259:0", 8_000);
        for (file, text) in [
            ("nvme/nvme0/model", "DC DRIVE 7450      \n"),
            ("nvme/nvme0/serial", "  S123\n"),
            ("nvme/nvme0/firmware_rev", "1.0\n"),
            ("current_link_speed", "16.0 GT/s PCIe\n"),
            ("current_link_width", "4\n"),
            ("max_link_speed", "Unknown\n"),
            ("max_link_width", "255\n"),
        ] {
            tree.file(&format!("sys/devices/{function}/{file}"), text);
        }
        symlink(
            "..",
            tree.path(&format!("sys/devices/{function}/nvme/nvme0/nvme0n1/device")),
        )
        .unwrap();
        let stack = stack(&tree.root(), dev("259:0")).unwrap();
        assert_eq!(stack[0].model.as_deref(), Some("DC DRIVE 7450"));
        assert_eq!(stack[0].serial.as_deref(), Some("S123"));
        assert_eq!(stack[0].firmware.as_deref(), Some("1.0"));
        let link = stack[0].pcie.clone().unwrap();
        assert_eq!(link.speed.as_deref(), Some("16.0 GT/s PCIe"));
        assert_eq!(link.width, Some(4));
        assert_eq!((link.max_speed, link.max_width), (None, None));
    }

    #[test]
    fn devices_without_a_size_are_not_listed() {
        let tree = Tree::new();
        tree.device("block/loop0", "7:0", 0);
        tree.device("block/sdb", "8:16", 16);
        tree.device("block/sda", "8:0", 16);
        assert_eq!(
            names_of(&all_devices(&tree.root()).unwrap()),
            ["sda", "sdb"]
        );
    }

    #[test]
    fn partitions_follow_their_disk_whatever_their_numbers() {
        let tree = Tree::new();
        tree.device("block/loop1", "7:1", 16);
        tree.device("block/loop0", "7:0", 16);
        tree.device("block/loop0/loop0p1", "259:0", 8);
        tree.file("sys/devices/block/loop0/loop0p1/partition", "1");
        assert_eq!(
            names_of(&all_devices(&tree.root()).unwrap()),
            ["loop0", "loop0p1", "loop1"]
        );
    }

    #[test]
    fn neighbours_are_the_other_partitions_of_the_disk() {
        let tree = Tree::new();
        tree.device("block/sda", "8:0", 16);
        for number in 1..=3 {
            let place = format!("block/sda/sda{number}");
            tree.device(&place, &format!("8:{number}"), 4);
            tree.file(&format!("sys/devices/{place}/partition"), "x");
        }
        let of = |device| neighbours(&tree.root(), dev(device));
        let others = [
            ("sda1".to_owned(), dev("8:1")),
            ("sda3".to_owned(), dev("8:3")),
        ];
        assert_eq!(of("8:2"), others);
        assert_eq!(of("8:0"), []);
        assert_eq!(of("8:99"), []);
    }

    #[test]
    fn partitions_lie_where_sysfs_says() {
        let tree = Tree::new();
        tree.device("block/sda", "8:0", 16);
        tree.device("block/sda/sda1", "8:1", 4);
        tree.file("sys/devices/block/sda/sda1/partition", "1");
        tree.file("sys/devices/block/sda/sda1/start", "8");
        assert_eq!(partition_places(&tree.root(), dev("8:0")), [(4096, 2048)]);
        assert_eq!(partition_places(&tree.root(), dev("8:1")), []);
    }

    #[test]
    fn a_node_that_is_not_the_device_is_refused() {
        let tree = Tree::new();
        tree.device("block/sda", "8:0", 16);
        tree.file("sys/devices/block/sda/uevent", "MAJOR=8\nDEVNAME=sda\n");
        tree.file("dev/sda", "a mistyped dd made this");
        let error = device_node(&tree.root(), dev("8:0")).unwrap_err();
        assert!(
            error.to_string().contains("is not block device 8:0"),
            "{error}"
        );
        assert!(stack(&tree.root(), dev("8:99")).is_err());
    }
}
