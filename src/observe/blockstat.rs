//! The kernel's counters of a block device.

use std::fs;

use crate::model::facts::DevId;
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

/// What was counted between two readings. `in_flight` is the level at the second.
pub fn since(after: &BlockStat, before: &BlockStat) -> BlockStat {
    BlockStat {
        reads: advance(after.reads, before.reads),
        reads_merged: advance(after.reads_merged, before.reads_merged),
        read_sectors: advance(after.read_sectors, before.read_sectors),
        read_ms: advance(after.read_ms, before.read_ms),
        writes: advance(after.writes, before.writes),
        writes_merged: advance(after.writes_merged, before.writes_merged),
        write_sectors: advance(after.write_sectors, before.write_sectors),
        write_ms: advance(after.write_ms, before.write_ms),
        in_flight: after.in_flight,
        busy_ms: advance(after.busy_ms, before.busy_ms),
        queue_ms: advance(after.queue_ms, before.queue_ms),
        discards: advance(after.discards, before.discards),
        discards_merged: advance(after.discards_merged, before.discards_merged),
        discard_sectors: advance(after.discard_sectors, before.discard_sectors),
        discard_ms: advance(after.discard_ms, before.discard_ms),
        flushes: advance(after.flushes, before.flushes),
        flush_ms: advance(after.flush_ms, before.flush_ms),
    }
}

/// How far a counter advanced. The kernel prints times, and on 32-bit machines every field, as 32
/// bits, which wrap: one that went from the upper quarter of that range to the lower did. Anything
/// else that went back (sums over processors that are read one after the other may, by a little)
/// did not advance.
fn advance(after: u64, before: u64) -> u64 {
    const WRAP: u64 = 1 << 32;
    const QUARTER: u64 = WRAP / 4;
    if after < before && (WRAP - QUARTER..WRAP).contains(&before) && after < QUARTER {
        after + WRAP - before
    } else {
        after.saturating_sub(before)
    }
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
    fn a_difference_keeps_levels_and_survives_a_wrap_and_a_step_back() {
        let before = BlockStat {
            writes: 10,
            flushes: 5,
            write_ms: u64::from(u32::MAX) - 1,
            in_flight: 7,
            ..BlockStat::default()
        };
        let after = BlockStat {
            writes: 14,
            flushes: 4,
            write_ms: 3,
            in_flight: 2,
            ..BlockStat::default()
        };
        let counted = since(&after, &before);
        assert_eq!((counted.writes, counted.flushes), (4, 0));
        assert_eq!((counted.write_ms, counted.in_flight), (5, 2));
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
        fn a_counter_that_advanced_advanced_by_the_difference(before in 0u64..1 << 62, by in 0u64..1 << 40) {
            prop_assert_eq!(advance(before + by, before), by);
        }
    }
}
