//! Where the bytes of device-mapper devices lie, by their tables (Documentation/admin-guide/device-mapper).

use std::fs::File;

use super::graph::{ALL, Map, Node};
use crate::model::devid::DevId;
use crate::model::units::SECTOR_BYTES;
use crate::sys::devmapper::{self, DmTarget};
use crate::sys::root::Root;

/// /dev/mapper/control, for as long as tables are asked for; none without device-mapper, or without the
/// right.
pub(super) struct Control(Option<File>);

impl Control {
    pub(super) fn open(root: &Root) -> Control {
        Control(File::open(root.dev.join("mapper/control")).ok())
    }

    /// What a device is made of; none if it can't be asked.
    pub(super) fn table(&self, dev: DevId) -> Option<Vec<DmTarget>> {
        devmapper::table(self.0.as_ref()?, dev).ok()
    }

    /// How its targets are; none likewise.
    pub(super) fn status(&self, dev: DevId) -> Option<Vec<DmTarget>> {
        devmapper::status(self.0.as_ref()?, dev).ok()
    }
}

/// Where a target of device `own` keeps its bytes. What is no plain range, or of a sort that is not known
/// here, lies anywhere in the devices that the table names.
pub(super) fn maps(own: DevId, target: &DmTarget) -> Vec<Map> {
    let words: Vec<&str> = target.words.split_whitespace().collect();
    ranges(target, &words)
        .or_else(|| shares(own, target, &words))
        .unwrap_or_else(|| {
            let named = words.iter().filter_map(|word| word.parse().ok());
            named.map(|dev| anywhere(target, dev, ALL)).collect()
        })
}

/// Those that map ranges to ranges, whichever part of them writes.
fn ranges(target: &DmTarget, words: &[&str]) -> Option<Vec<Map>> {
    match target.kind.as_str() {
        "linear" | "flakey" | "dust" => Some(vec![run(target, words)?]),
        "crypt" => Some(vec![run(target, words.get(3..)?)?]),
        // Reads, writes and flushes may each go to a device of their own.
        "delay" => words
            .chunks(3)
            .map(|leg| run(target, leg))
            .collect::<Option<_>>(),
        "striped" => {
            let count: u64 = words.first()?.parse().ok()?;
            let each = target.sectors.checked_div(count)?;
            let legs = words.get(2..)?.chunks(2);
            legs.map(|leg| {
                let Map { lower, place, .. } = run(target, leg)?;
                let end = place.start.saturating_add(each.checked_mul(SECTOR_BYTES)?);
                Some(Map::anywhere(span(target), lower, place.start..end))
            })
            .collect()
        }
        _ => None,
    }
}

/// Those whose driver gives bytes of the device below to several devices, and keeps them apart: a pool its
/// volumes, an origin its snapshots, which get a copy before it changes.
fn shares(own: DevId, target: &DmTarget, words: &[&str]) -> Option<Vec<Map>> {
    let dev = |at: usize| words.get(at)?.parse::<DevId>().ok();
    let share = |map: Map, id| Map {
        share: Some(id),
        ..map
    };
    let upper = span(target);
    let origin = |dev| {
        let length = upper.end - upper.start;
        let map = Map::run(upper.start, length, Node::Device(dev), upper.start);
        share(map, libc::makedev(own.major, own.minor))
    };
    match target.kind.as_str() {
        "thin" => {
            let volume = words.get(1)?.parse().ok()?;
            let pool = share(anywhere(target, dev(0)?, ALL), volume);
            let origin = dev(2).map(|origin| anywhere(target, origin, ALL));
            Some([pool].into_iter().chain(origin).collect())
        }
        "snapshot-origin" => Some(vec![origin(dev(0)?)]),
        "snapshot" | "snapshot-merge" => {
            Some(vec![origin(dev(0)?), anywhere(target, dev(1)?, ALL)])
        }
        _ => None,
    }
}

/// The target's bytes in `words`' device from `words`' sector on.
fn run(target: &DmTarget, words: &[&str]) -> Option<Map> {
    let dev = words.first()?.parse().ok()?;
    let at_sector: u64 = words.get(1)?.parse().ok()?;
    let upper = span(target);
    Some(Map::run(
        upper.start,
        upper.end - upper.start,
        Node::Device(dev),
        at_sector.checked_mul(SECTOR_BYTES)?,
    ))
}

fn anywhere(target: &DmTarget, dev: DevId, place: std::ops::Range<u64>) -> Map {
    Map::anywhere(span(target), Node::Device(dev), place)
}

/// The target's bytes of its device.
pub(super) fn span(target: &DmTarget) -> std::ops::Range<u64> {
    let start = target.start_sector.saturating_mul(SECTOR_BYTES);
    start..start.saturating_add(target.sectors.saturating_mul(SECTOR_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line as `dmsetup table` prints it.
    pub(super) fn target(line: &str) -> DmTarget {
        let mut words = line.splitn(4, ' ');
        DmTarget {
            start_sector: words.next().unwrap().parse().unwrap(),
            sectors: words.next().unwrap().parse().unwrap(),
            kind: words.next().unwrap().to_owned(),
            words: words.next().unwrap_or_default().to_owned(),
        }
    }

    /// Device, first and last byte but one, and whether in order, of each map of a line.
    fn lower(line: &str) -> Vec<(String, u64, u64, bool)> {
        let own = "254:3".parse().unwrap();
        let maps = maps(own, &target(line)).into_iter();
        maps.map(|map| {
            let Node::Device(dev) = map.lower else {
                panic!("{line}: {map:?}");
            };
            let (start, end) = (map.place.start, map.place.end);
            (dev.to_string(), start / 512, end / 512, map.in_order)
        })
        .collect()
    }

    fn at(dev: &str, start: u64, end: u64) -> (String, u64, u64, bool) {
        (dev.to_owned(), start, end, true)
    }

    fn all_of(dev: &str) -> (String, u64, u64, bool) {
        (dev.to_owned(), 0, u64::MAX / 512, false)
    }

    /// Lines of a real kernel, 6.12.
    #[test]
    fn plain_ranges_are_found_in_each_table() {
        for (line, lower_ones) in [
            ("0 2048 linear 7:0 2048", vec![at("7:0", 2048, 4096)]),
            (
                "0 2048 flakey 7:0 24576 3600 0 1 error_writes",
                vec![at("7:0", 24_576, 26_624)],
            ),
            (
                "0 2048 crypt aes-xts-plain64 babe 0 7:0 16384",
                vec![at("7:0", 16_384, 18_432)],
            ),
            (
                "0 2048 crypt capi:xts(aes)-plain64 :64:logon:cryptsetup:a-d0 0 7:0 32768 1 \
                 allow_discards",
                vec![at("7:0", 32_768, 34_816)],
            ),
            (
                "0 2048 delay 7:0 20480 0 7:1 20480 5",
                vec![at("7:0", 20_480, 22_528), at("7:1", 20_480, 22_528)],
            ),
            (
                "0 8192 striped 2 128 7:0 4096 7:1 0",
                vec![
                    ("7:0".into(), 4096, 8192, false),
                    ("7:1".into(), 0, 4096, false),
                ],
            ),
            ("0 2048 zero", vec![]),
            ("0 2048 error", vec![]),
        ] {
            assert_eq!(lower(line), lower_ones, "{line}");
        }
    }

    #[test]
    fn other_tables_lie_anywhere_in_the_devices_that_they_name() {
        for (line, devices) in [
            (
                "0 131072 multipath 0 0 1 1 round-robin 0 2 1 7:2 1 7:3 1",
                &["7:2", "7:3"][..],
            ),
            (
                "0 2048 mirror core 1 1024 2 7:0 65536 7:1 8192",
                &["7:0", "7:1"],
            ),
            (
                "0 4096 raid raid1 3 0 region_size 1024 2 - 7:0 - 7:1",
                &["7:0", "7:1"],
            ),
            (
                "0 65536 thin-pool 254:8 254:9 128 0 1 skip_block_zeroing",
                &["254:8", "254:9"],
            ),
            ("0 2048 log-writes 254:0 254:17", &["254:0", "254:17"]),
            // Not as it should be, and so not trusted.
            ("0 2048 linear 7:0 x", &["7:0"]),
            ("0 2048 delay 7:0 20480 0 7:1", &["7:0", "7:1"]),
            ("0 2048 new-one 3 7:0 5 7:9", &["7:0", "7:9"]),
        ] {
            let all: Vec<_> = devices.iter().map(|dev| all_of(dev)).collect();
            assert_eq!(lower(line), all, "{line}");
        }
    }

    #[test]
    fn volumes_of_a_pool_and_snapshots_of_an_origin_share_it() {
        let share = |line: &str| {
            let maps = maps("254:3".parse().unwrap(), &target(line));
            let maps = maps.into_iter();
            maps.map(|map| (map.lower, map.share)).collect::<Vec<_>>()
        };
        let node = |dev: &str| Node::Device(dev.parse().unwrap());
        assert_eq!(share("0 8 thin 254:10 1"), [(node("254:10"), Some(1))]);
        assert_eq!(
            share("0 8 thin 254:10 1 254:4"),
            [(node("254:10"), Some(1)), (node("254:4"), None)]
        );
        let own = Some(libc::makedev(254, 3));
        assert_eq!(share("0 8 snapshot-origin 254:13"), [(node("254:13"), own)]);
        assert_eq!(
            share("0 8 snapshot 254:13 254:14 P 8"),
            [(node("254:13"), own), (node("254:14"), None)]
        );
    }
}
