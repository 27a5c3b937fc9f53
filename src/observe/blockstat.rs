//! The kernel's counters of a block device.

use std::fs;
use std::path::PathBuf;

use super::counter;
use crate::model::devid::DevId;
use crate::model::traffic::BlockStat;
use crate::sys::root::Root;

/// The counters of the device, as they stand now. None when it has none, or has gone.
pub fn read(root: &Root, dev: DevId) -> Option<BlockStat> {
    parse(&fs::read_to_string(root.sys.join(format!("dev/block/{dev}/stat"))).ok()?)
}

/// Reads the text of a `stat` file: 11 fields, 15 since Linux 4.18 (discards), 17 since 5.5
/// (flushes): Documentation/block/stat.rst. Fields that a later kernel may add are not looked at.
fn parse(text: &str) -> Option<BlockStat> {
    let mut fields = [0u64; 17];
    let mut found = 0;
    for (field, word) in fields.iter_mut().zip(text.split_ascii_whitespace()) {
        *field = word.parse().ok()?;
        found += 1;
    }
    if !matches!(found, 11 | 15 | 17) {
        return None;
    }
    Some(BlockStat {
        reads: fields[0],
        reads_merged: fields[1],
        read_sectors: fields[2],
        read_ms: fields[3],
        writes: fields[4],
        writes_merged: fields[5],
        write_sectors: fields[6],
        write_ms: fields[7],
        in_flight: fields[8],
        busy_ms: fields[9],
        queue_ms: fields[10],
        discards: fields[11],
        discards_merged: fields[12],
        discard_sectors: fields[13],
        discard_ms: fields[14],
        flushes: fields[15],
        flush_ms: fields[16],
    })
}

/// What was counted between two readings; none if the counters began anew in between. `in_flight` is
/// the level at the second.
pub fn since(after: &BlockStat, before: &BlockStat) -> Option<BlockStat> {
    let advance = |of: fn(&BlockStat) -> u64| counter::advance(of(after), of(before));
    Some(BlockStat {
        reads: advance(|stat| stat.reads)?,
        reads_merged: advance(|stat| stat.reads_merged)?,
        read_sectors: advance(|stat| stat.read_sectors)?,
        read_ms: advance(|stat| stat.read_ms)?,
        writes: advance(|stat| stat.writes)?,
        writes_merged: advance(|stat| stat.writes_merged)?,
        write_sectors: advance(|stat| stat.write_sectors)?,
        write_ms: advance(|stat| stat.write_ms)?,
        in_flight: after.in_flight,
        busy_ms: advance(|stat| stat.busy_ms)?,
        queue_ms: advance(|stat| stat.queue_ms)?,
        discards: advance(|stat| stat.discards)?,
        discards_merged: advance(|stat| stat.discards_merged)?,
        discard_sectors: advance(|stat| stat.discard_sectors)?,
        discard_ms: advance(|stat| stat.discard_ms)?,
        flushes: advance(|stat| stat.flushes)?,
        flush_ms: advance(|stat| stat.flush_ms)?,
    })
}

/// Where a device's counting is switched off, if it is (`queue/iostats` in
/// Documentation/ABI/stable/sysfs-block): all of its counters then stand still. Drivers without
/// request queues count all the same (bio_start_io_acct() in block/blk-core.c), so zram shows 0 there
/// and counts; of them, dm and md heed the switch (drivers/md/dm.c, drivers/md/md.c).
pub fn switched_off(root: &Root, dev: DevId) -> Option<PathBuf> {
    let device = root.sys.join(format!("dev/block/{dev}"));
    // A partition has no queue of its own: its disk's folder is the one above, links resolved.
    let switches = ["queue/iostats", "../queue/iostats"].map(|path| device.join(path));
    let switch = switches
        .iter()
        .find_map(|path| fs::canonicalize(path).ok())?;
    let text = fs::read_to_string(&switch).ok()?;
    let disk = switch.parent()?.parent()?;
    let heeds_it = ["mq", "dm", "md"]
        .iter()
        .any(|kind| disk.join(kind).exists());
    (heeds_it && text.trim() == "0").then_some(switch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_in_the_kernels_order() {
        let text = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n";
        let stat = parse(text).unwrap();
        assert_eq!((stat.reads, stat.read_sectors, stat.writes), (1, 3, 5));
        assert_eq!((stat.write_sectors, stat.in_flight), (7, 9));
        assert_eq!((stat.discards, stat.flushes, stat.flush_ms), (12, 16, 17));
    }

    #[test]
    fn older_kernels_print_fewer_fields() {
        let old = parse("1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((old.queue_ms, old.discards, old.flushes), (11, 0, 0));
        let newer = parse("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15").unwrap();
        assert_eq!((newer.discard_ms, newer.flushes), (15, 0));
        for bad in [
            "",
            "1 2 3",
            "1 2 3 4 5 6 7 8 9 10 x",
            "1 2 3 4 5 6 7 8 9 10 11 12",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_difference_keeps_levels_and_survives_a_wrap() {
        let before = BlockStat {
            writes: 10,
            write_ms: u64::from(u32::MAX) - 1,
            in_flight: 7,
            ..BlockStat::default()
        };
        let after = BlockStat {
            writes: 14,
            write_ms: 3,
            in_flight: 2,
            ..BlockStat::default()
        };
        let counted = since(&after, &before).unwrap();
        assert_eq!((counted.writes, counted.flushes), (4, 0));
        assert_eq!((counted.write_ms, counted.in_flight), (5, 2));
    }

    #[test]
    fn counters_that_began_anew_tell_nothing() {
        // As many sectors as before, but fewer requests: another device by the same number.
        let stat = |writes, write_sectors| BlockStat {
            writes,
            write_sectors,
            ..BlockStat::default()
        };
        assert_eq!(since(&stat(3, 9000), &stat(900, 7200)), None);
    }

    #[test]
    fn a_device_is_found_by_its_number() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root {
            sys: tree.path().into(),
            ..Root::host()
        };
        let dev = DevId { major: 7, minor: 3 };
        assert_eq!(read(&root, dev), None);
        let folder = tree.path().join("dev/block/7:3");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stat"), "1 0 8 0 2 0 16 0 0 0 0 0 0 0 0 4 0\n").unwrap();
        assert_eq!(read(&root, dev).unwrap().flushes, 4);
    }

    #[test]
    fn a_device_may_count_nothing_and_its_partitions_then_neither() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root {
            sys: tree.path().into(),
            ..Root::host()
        };
        let disk = tree.path().join("devices/sda");
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::write(disk.join("queue/iostats"), "1\n").unwrap();
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::create_dir_all(disk.join("mq")).unwrap();
        let devices = tree.path().join("dev/block");
        fs::create_dir_all(&devices).unwrap();
        std::os::unix::fs::symlink(&disk, devices.join("8:0")).unwrap();
        std::os::unix::fs::symlink(disk.join("sda1"), devices.join("8:1")).unwrap();
        let switch = disk.join("queue/iostats").canonicalize();
        for (text, wanted) in [("1\n", None), ("0\n", switch.ok())] {
            fs::write(disk.join("queue/iostats"), text).unwrap();
            for minor in [0, 1] {
                assert_eq!(switched_off(&root, DevId { major: 8, minor }), wanted);
            }
        }
        assert_eq!(switched_off(&root, DevId { major: 9, minor: 0 }), None);
        // A driver without request queues counts whatever the switch says.
        fs::remove_dir(disk.join("mq")).unwrap();
        assert_eq!(switched_off(&root, DevId { major: 8, minor: 0 }), None);
    }

    proptest! {
        #[test]
        fn what_a_kernel_prints_is_read_back(
            values in prop::collection::vec(any::<u64>(), 17..20),
            pad in " {1,8}",
        ) {
            let text = values.iter().map(|v| format!("{pad}{v}")).collect::<String>();
            let stat = parse(&text).unwrap();
            prop_assert_eq!(stat.reads, values[0]);
            prop_assert_eq!(stat.write_sectors, values[6]);
            prop_assert_eq!(stat.flush_ms, values[16]);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = parse(&text);
        }

        #[test]
        fn every_field_advances_also_past_the_end_of_its_32_or_64_bits(
            before in prop::collection::vec(any::<u64>(), 17),
            by in prop::collection::vec(0u64..1 << 30, 17),
            is_narrow in prop::collection::vec(any::<bool>(), 17),
        ) {
            let narrow = |at: usize, value: u64| match is_narrow[at] {
                true => value & 0xFFFF_FFFF,
                false => value,
            };
            let stat = |value: &dyn Fn(usize) -> u64| {
                let text = (0..17).map(|at| format!(" {}", narrow(at, value(at))));
                parse(&text.collect::<String>()).unwrap()
            };
            let after = stat(&|at| narrow(at, before[at]).wrapping_add(by[at]));
            let counted = since(&after, &stat(&|at| before[at])).unwrap();
            let wanted = BlockStat { in_flight: after.in_flight, ..stat(&|at| by[at]) };
            prop_assert_eq!(counted, wanted);
        }
    }
}
