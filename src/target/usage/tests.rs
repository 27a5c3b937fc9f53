//! Uses of made-up devices.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A made-up machine with disk sda, its partition sda1, and whatever a test adds.
struct Machine(TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(TempDir::new().unwrap());
        for dir in ["sys/dev/block", "sys/class/block", "dev"] {
            fs::create_dir_all(machine.0.path().join(dir)).unwrap();
        }
        machine.file("proc/self/mountinfo", "");
        machine.device("sda", "8:0");
        machine.partition("sda/sda1", "8:1", 0);
        machine
    }

    /// A partition of 2048 sectors.
    fn partition(&self, place: &str, dev: &str, start: u64) {
        self.device(place, dev);
        self.file(&format!("sys/devices/{place}/partition"), "1");
        self.file(&format!("sys/devices/{place}/start"), &start.to_string());
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn device(&self, place: &str, dev: &str) {
        self.file(&format!("sys/devices/{place}/dev"), dev);
        self.file(&format!("sys/devices/{place}/size"), "2048");
        let dir = self.0.path().join("sys/devices").join(place);
        symlink(&dir, self.0.path().join("sys/dev/block").join(dev)).unwrap();
        let name = dir.file_name().unwrap();
        symlink(&dir, self.0.path().join("sys/class/block").join(name)).unwrap();
    }

    /// A device-mapper device over others, whose table can't be read here.
    fn map(&self, name: &str, dev: &str, lower: &[&str]) {
        self.device(name, dev);
        self.file(&format!("sys/devices/{name}/dm/name"), name);
        for lower in lower {
            self.file(&format!("sys/devices/{name}/slaves/{lower}/dev"), lower);
        }
    }

    /// A loop device on a file; without a right to ask by ioctl, as here, the path decides.
    fn attach(&self, minor: u32, image: &str, offset_bytes: u64) {
        self.device(&format!("loop{minor}"), &format!("7:{minor}"));
        let image = self.0.path().join(image);
        if let Ok(found) = fs::metadata(&image) {
            let disk = crate::target::FileId::of(&found).dev.to_string();
            fs::create_dir_all(self.0.path().join("sys/dev/block").join(disk)).unwrap();
        }
        let dir = format!("sys/devices/loop{minor}/loop");
        self.file(&format!("{dir}/backing_file"), image.to_str().unwrap());
        self.file(&format!("{dir}/offset"), &offset_bytes.to_string());
    }

    fn root(&self) -> Root {
        Root {
            sys: self.0.path().join("sys"),
            proc: self.0.path().join("proc"),
            dev: self.0.path().join("dev"),
        }
    }

    fn usage(&self, dev: &str) -> Vec<(Relation, String, DeviceUser)> {
        usage(&self.root(), dev.parse().unwrap())
            .unwrap()
            .uses
            .into_iter()
            .map(|found| (found.relation, found.of, found.by))
            .collect()
    }
}

fn mount(mount_point: &str, pid: Option<u32>) -> DeviceUser {
    DeviceUser::Mount {
        mount_point: mount_point.into(),
        pid,
    }
}

#[test]
fn an_idle_device_has_no_uses() {
    assert_eq!(Machine::new().usage("8:0"), []);
    assert_eq!(Machine::new().usage("8:1"), []);
}

#[test]
fn a_mounted_partition_is_a_use_of_its_disk_too() {
    let machine = Machine::new();
    machine.file(
        "proc/self/mountinfo",
        "1 0 8:1 / /data rw - ext4 /dev/sda1 rw\n",
    );
    let here = mount("/data", None);
    assert_eq!(
        machine.usage("8:1"),
        [(Relation::Itself, "sda1".into(), here.clone())]
    );
    assert_eq!(
        machine.usage("8:0"),
        [(Relation::Partition, "sda1".into(), here)]
    );
}

#[test]
fn a_mount_in_another_namespace_names_a_process_there() {
    let machine = Machine::new();
    for pid in ["self", "77", "78"] {
        fs::create_dir_all(machine.0.path().join(format!("proc/{pid}/ns"))).unwrap();
    }
    let line = "1 0 8:1 / /data rw - ext4 /dev/sda1 rw\n";
    machine.file("proc/77/mountinfo", line);
    machine.file("proc/78/mountinfo", line);
    for (pid, namespace) in [("self", "mnt:[1]"), ("77", "mnt:[2]"), ("78", "mnt:[2]")] {
        symlink(
            namespace,
            machine.0.path().join(format!("proc/{pid}/ns/mnt")),
        )
        .unwrap();
    }
    let there = mount("/data", Some(77));
    assert_eq!(
        machine.usage("8:1"),
        [(Relation::Itself, "sda1".into(), there)]
    );
}

#[test]
fn a_whole_disk_in_use_is_a_use_of_its_partition_and_a_sibling_is_not() {
    let machine = Machine::new();
    machine.partition("sda/sda2", "8:2", 2048);
    machine.file(
        "proc/self/mountinfo",
        "1 0 8:0 / /whole rw - ext4 /dev/sda rw\n2 0 8:2 / /two rw - ext4 /dev/sda2 rw\n",
    );
    let whole = mount("/whole", None);
    assert_eq!(
        machine.usage("8:1"),
        [(Relation::WholeDisk, "sda".into(), whole)]
    );
}

#[test]
fn a_use_by_another_path_to_the_same_drive_is_a_use() {
    let machine = Machine::new();
    machine.device("sdb", "8:16");
    machine.partition("sda/sda2", "8:2", 2048);
    machine.partition("sdb/sdb1", "8:17", 0);
    machine.partition("sdb/sdb2", "8:18", 2048);
    machine.file(
        "proc/self/mountinfo",
        "1 0 8:18 / /data rw - ext4 /dev/sdb2 rw\n",
    );
    let identify = |disk: &str, wwid: &str| {
        machine.file(&format!("sys/devices/{disk}/device/wwid"), wwid);
    };
    // Nothing, and nothing in common.
    assert_eq!(machine.usage("8:0"), []);
    identify("sda", "\n");
    identify("sdb", "\n");
    assert_eq!(machine.usage("8:0"), []);
    identify("sda", "naa.600a0b80000f1234\n");
    identify("sdb", "naa.600a0b80000f9999\n");
    assert_eq!(machine.usage("8:0"), []);
    identify("sdb", "naa.600a0b80000f1234\n");
    let there = (Relation::OtherPath, "sdb2".into(), mount("/data", None));
    assert_eq!(machine.usage("8:0"), std::slice::from_ref(&there));
    assert_eq!(machine.usage("8:2"), [there]);
    assert_eq!(machine.usage("8:1"), [], "the other partition is free");
    // A path that was not scanned since the drive grew.
    machine.file("sys/devices/sdb/size", "9999");
    assert_eq!(machine.usage("8:2")[0].0, Relation::OtherSize);
}

#[test]
fn a_namespace_under_two_numbers_is_one_drive() {
    let machine = Machine::new();
    for (name, dev) in [("nvme0n1", "259:0"), ("nvme1n1", "259:1")] {
        machine.device(name, dev);
        machine.file(&format!("sys/devices/{name}/wwid"), "eui.0025385b71b0e2a4");
    }
    machine.device("md0", "9:0");
    machine.file("sys/devices/md0/slaves/nvme1n1/dev", "259:1");
    let uses = machine.usage("259:0");
    assert!(
        matches!(&uses[..], [(Relation::OtherPath, of, DeviceUser::Holder { .. })] if of == "nvme1n1"),
        "{uses:?}"
    );
}

#[test]
fn swap_btrfs_and_holders_are_uses() {
    let machine = Machine::new();
    machine.file(
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/sda1 partition 1 0 -2\n",
    );
    machine.file("sys/fs/btrfs/uuid-1/devices/sda1/dev", "8:1");
    machine.map("dm-0", "240:0", &["8:1"]);
    machine.file("sys/devices/dm-0/dm/name", "vg-root");
    machine.file("sys/devices/dm-0/dm/uuid", "LVM-abc");
    let uses: Vec<DeviceUser> = machine
        .usage("8:1")
        .into_iter()
        .map(|found| found.2)
        .collect();
    assert_eq!(
        uses,
        [
            DeviceUser::Swap,
            DeviceUser::Btrfs {
                uuid: "uuid-1".into()
            },
            DeviceUser::Holder {
                name: "dm-0".into(),
                dm_name: Some("vg-root".into()),
                dm_uuid: Some("LVM-abc".into()),
            },
        ]
    );
}

fn exported(what: &str) -> DeviceUser {
    DeviceUser::Export { what: what.into() }
}

#[test]
fn what_the_nvme_target_has_enabled_is_a_use() {
    let machine = Machine::new();
    let namespace = "sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/3";
    machine.file(&format!("{namespace}/device_path"), "/dev/sda1\n");
    machine.file(&format!("{namespace}/enable"), "0\n");
    assert_eq!(machine.usage("8:1"), []);
    machine.file(&format!("{namespace}/enable"), "1\n");
    let export = exported("namespace 3 of the NVMe subsystem nqn.a");
    assert_eq!(
        machine.usage("8:0"),
        [(Relation::Partition, "sda1".into(), export)]
    );
}

#[test]
fn backstores_of_the_scsi_target_are_uses_by_name_number_and_file() {
    let machine = Machine::new();
    machine.file("image", "");
    machine.attach(0, "image", 0);
    machine.device("sdb", "8:16");
    let core = "sys/kernel/config/target/core";
    machine.file(&format!("{core}/pscsi_0/whole/udev_path"), "/dev/sda\n");
    machine.file(
        &format!("{core}/iblock_1/one/info"),
        "Status: ACTIVATED\n        iBlock device: sdb\n        Major: 8 Minor: 16  CLAIMED: IBLOCK\n",
    );
    let image = machine.0.path().join("image");
    let text = format!(
        "TCM FILEIO ID: 0        File: {}  Size: 1\n",
        image.display()
    );
    machine.file(&format!("{core}/fileio_2/two/info"), &text);
    let image = image.to_str().unwrap();
    for (dev, relation, name, what) in [
        (
            "8:0",
            Relation::Itself,
            "sda",
            "backstore pscsi_0/whole of the SCSI target",
        ),
        (
            "8:16",
            Relation::Itself,
            "sdb",
            "backstore iblock_1/one of the SCSI target",
        ),
        (
            "7:0",
            Relation::Lower,
            image,
            "backstore fileio_2/two of the SCSI target",
        ),
    ] {
        let export = (relation, name.to_owned(), exported(what));
        assert_eq!(machine.usage(dev), [export], "{dev}");
    }
}

#[test]
fn a_pid_namespace_of_its_own_hides_processes() {
    let machine = Machine::new();
    let root = machine.root();
    let sees_all = || crate::target::sees_all_processes(&root);
    assert!(sees_all(), "a kernel without PID namespaces");
    let link = machine.0.path().join("proc/self/ns/pid");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink("pid:[4026531836]", &link).unwrap();
    assert!(sees_all());
    fs::remove_file(&link).unwrap();
    symlink("pid:[4026532310]", &link).unwrap();
    assert!(!sees_all());
}

#[test]
fn a_second_loop_on_the_same_file_and_its_mount_are_uses() {
    let machine = Machine::new();
    machine.file("image", "");
    machine.attach(0, "image", 0);
    machine.attach(1, "image", 512);
    machine.file(
        "proc/self/mountinfo",
        "1 0 7:1 / /x rw - ext4 /dev/loop1 rw\n",
    );
    let uses = machine.usage("7:0");
    assert_eq!(uses.len(), 2, "{uses:?}");
    let mounted = (Relation::Overlap, "loop1".into(), mount("/x", None));
    assert_eq!(uses[0], mounted);
    assert!(
        matches!(&uses[1], (Relation::Lower, of, DeviceUser::Loop { name }) if name == "loop1" && of.ends_with("image")),
        "{uses:?}"
    );
}

#[test]
fn loops_on_other_parts_of_a_file_are_no_matter() {
    let machine = Machine::new();
    machine.file("image", "");
    machine.attach(0, "image", 0);
    machine.attach(1, "image", 2048 * 512);
    machine.attach(2, "another", 0);
    assert_eq!(machine.usage("7:0"), []);
}

fn mounted(dev: &str) -> String {
    format!("1 0 {dev} / /x rw - ext4 /dev/x rw\n")
}

#[test]
fn a_partition_that_overlaps_another_one_in_use_is_in_use() {
    let machine = Machine::new();
    machine.partition("sda/sda2", "8:2", 2047);
    machine.partition("sda/sda3", "8:3", 4095);
    machine.file("proc/self/mountinfo", &mounted("8:2"));
    let found = usage(&machine.root(), "8:1".parse().unwrap()).unwrap();
    let [found] = &found.uses[..] else {
        panic!("{found:?}");
    };
    assert_eq!(found.relation, Relation::Overlap);
    assert_eq!(found.of, "sda2");
    assert_eq!(found.place.as_deref(), Some("sectors 2047 to 2047 of sda"));
    assert_eq!(machine.usage("8:3"), []);
}

#[test]
fn a_loop_device_over_what_is_used_below_is_in_use() {
    let machine = Machine::new();
    machine.partition("sda/sda2", "8:2", 2048);
    machine.file("dev/image", "");
    machine.attach(0, "dev/image", 0);
    machine.attach(1, "dev/image", 0);
    machine.map("dm-0", "240:0", &["7:1"]);
    machine.map("dm-1", "240:1", &["240:0"]);
    machine.file("proc/self/mountinfo", &mounted("240:1"));
    let uses = machine.usage("7:0");
    let of = |name: &str| {
        uses.iter()
            .any(|(_, of, by)| of == name && *by == mount("/x", None))
    };
    assert!(of("dm-1"), "{uses:?}");
    // And what the map over the map uses is told of the lowest: by it alone, not by what is above.
    let uses = machine.usage("7:1");
    assert!(
        uses.iter()
            .any(|(relation, _, by)| *relation == Relation::Itself
                && matches!(by, DeviceUser::Holder { name, .. } if name == "dm-0"))
    );
    assert!(
        !uses.iter().any(|(_, of, _)| of == "dm-1" || of == "dm-0"),
        "{uses:?}"
    );
}

#[test]
fn a_map_that_nobody_uses_beside_another_over_the_same_map_is_no_matter() {
    let machine = Machine::new();
    machine.map("dm-0", "240:0", &["8:0"]);
    machine.map("dm-1", "240:1", &["240:0"]);
    machine.map("dm-2", "240:2", &["240:0"]);
    assert_eq!(machine.usage("240:1"), []);
    machine.file("proc/self/mountinfo", &mounted("240:2"));
    assert_eq!(
        machine.usage("240:1"),
        [(Relation::Overlap, "dm-2".into(), mount("/x", None))]
    );
    // Over a disk itself, two maps over the same bytes are nobody's habit.
    machine.file("proc/self/mountinfo", "");
    machine.map("dm-3", "240:3", &["8:0"]);
    let uses = machine.usage("240:3");
    assert!(
        matches!(&uses[..], [(Relation::Lower, of, DeviceUser::Holder { name, .. }), ..] if of == "sda" && name == "dm-0"),
        "{uses:?}"
    );
}

#[test]
fn a_thread_with_descriptors_of_its_own_may_be_a_writer_and_so_may_be_one_of_the_image() {
    let machine = Machine::new();
    let image = machine.0.path().join("dev/image");
    machine.file("dev/image", "");
    machine.attach(0, "dev/image", 0);
    machine.file("proc/77/comm", "writer");
    machine.file("proc/77/task/77/comm", "writer");
    let table = "proc/77/task/78";
    machine.file(&format!("{table}/fdinfo/3"), "flags:\t0100002\n");
    fs::create_dir_all(machine.0.path().join(table).join("fd")).unwrap();
    symlink(&image, machine.0.path().join(table).join("fd/3")).unwrap();
    let writer = DeviceUser::Writer {
        pid: 77,
        process: "writer".into(),
    };
    let path = image.to_str().unwrap().to_owned();
    assert_eq!(machine.usage("7:0"), [(Relation::Lower, path, writer)]);
}

#[test]
fn arrays_in_one_container_have_each_their_part_of_its_members() {
    let machine = Machine::new();
    let array = |name: &str, dev: &str, offset: u64| {
        machine.device(name, dev);
        let md = format!("sys/devices/{name}/md");
        machine.file(&format!("{md}/metadata_version"), "external:/md127/0");
        machine.file(&format!("{md}/dev-sda/offset"), &offset.to_string());
        machine.file(&format!("{md}/dev-sda/size"), "512");
        machine.file(&format!("{md}/dev-sda/block/dev"), "8:0");
        machine.file(&format!("sys/devices/{name}/slaves/sda/dev"), "8:0");
    };
    array("md124", "9:124", 0);
    array("md125", "9:125", 1024);
    machine.file("proc/self/mountinfo", &mounted("9:124"));
    assert_eq!(machine.usage("9:125"), []);
    assert_eq!(machine.usage("9:124").len(), 1);
    array("md126", "9:126", 1023);
    let uses = machine.usage("9:126");
    assert!(
        uses.contains(&(Relation::Overlap, "md124".into(), mount("/x", None))),
        "{uses:?}"
    );
}

#[test]
fn an_image_on_a_filesystem_over_others_is_refused_and_may_be_another_s_of_its_size() {
    let machine = Machine::new();
    machine.file("image", "");
    machine.file("other", "");
    machine.attach(0, "image", 0);
    machine.attach(1, "other", 0);
    for minor in [0, 1] {
        machine.file(&format!("sys/devices/loop{minor}/loop/sizelimit"), "0");
    }
    assert_eq!(machine.usage("7:0"), []);
    // Now nothing says what filesystem has them.
    let disk = fs::metadata(machine.0.path().join("image")).unwrap();
    let disk = crate::target::FileId::of(&disk).dev.to_string();
    fs::remove_dir(machine.0.path().join("sys/dev/block").join(disk)).unwrap();
    let uses = machine.usage("7:0");
    assert_eq!(
        uses.iter()
            .filter(|(_, _, by)| *by == DeviceUser::Unresolved)
            .count(),
        2,
        "{uses:?}"
    );
    assert!(
        uses.iter()
            .any(|(_, _, by)| matches!(by, DeviceUser::Loop { name } if name == "loop1"))
    );
    // Files of two sizes are two files.
    machine.file("sys/devices/loop1/size", "4096");
    let uses = machine.usage("7:0");
    assert_eq!(uses.len(), 1, "{uses:?}");
    assert_eq!(uses[0].2, DeviceUser::Unresolved);
}
