//! Each rule: with its figure it speaks and quotes it, without it is silent.

mod counted;

use super::{Explanation, Kind, explanations};
use crate::model::cell::FileState;
use crate::model::devid::DevId;
use crate::model::facts::JournalFacts;
use crate::model::fixture::{Builder, DISK, PerWrite};
use crate::model::record::{BaselineKind, Handed, Record};
use crate::model::trace::{Class, ClassTraffic, Traced};
use crate::model::traffic::BlockStat;

/// A plain overwrite.
const IN_PLACE: PerWrite = PerWrite {
    bytes: 4096,
    requests: 2,
    merges: 0,
    flushes: 1,
};
/// One that allocates on ext4.
const ALLOCATING: PerWrite = PerWrite {
    bytes: 7 * 4096,
    requests: 3,
    merges: 4,
    flushes: 2,
};

/// A record of one 4 KiB cell in a directory.
fn one(state: FileState, each: PerWrite) -> Record {
    directory()
        .cell("t0", Some(state), 4096, 100e3, 100)
        .counted(each)
        .record
}

fn directory() -> Builder {
    Builder::new("file").directory("t0", "/data", BaselineKind::None, None)
}

/// The explanation that begins with or holds `part`.
fn find(record: &Record, part: &str) -> Option<Explanation> {
    explanations(record)
        .into_iter()
        .find(|explanation| explanation.text.contains(part))
}

/// Asserts that one explanation has all of `parts`.
fn says(record: &Record, kind: Kind, parts: &[&str]) {
    let all = explanations(record);
    let found = all.iter().any(|explanation| {
        explanation.kind == kind && parts.iter().all(|part| explanation.text.contains(part))
    });
    assert!(found, "{parts:?} is not in {all:#?}");
}

/// What tracing saw of 100 writes: so many requests, so many of them with FUA.
fn seen(requests: u64, fua_requests: u64) -> Traced {
    Traced {
        dev: DISK,
        slices: 1,
        ops: 100,
        bytes: 409_600,
        elapsed_ns: 1_000_000,
        events: 400,
        lost_events: 0,
        classes: vec![ClassTraffic {
            class: Class::Data,
            requests,
            fua_requests,
            bytes: 409_600,
        }],
        counted: BlockStat::default(),
        phase_ops: 0,
        phases: Vec::new(),
        phase_latency_ns: 0.0,
        typical: Vec::new(),
    }
}

#[test]
fn a_plain_overwrite_needs_no_explanation() {
    assert_eq!(explanations(&one(FileState::Overwrite, IN_PLACE)), []);
}

#[test]
fn a_record_without_counters_explains_nothing() {
    let record = directory()
        .cell("t0", Some(FileState::Unwritten), 4096, 100e3, 100)
        .record;
    assert_eq!(explanations(&record), []);
}

#[test]
fn o_trunc_is_told_with_its_price_and_what_was_written() {
    let record = |trunc_ns| {
        directory()
            .cell("t0", Some(FileState::Overwrite), 4096, 100e3, 100)
            .counted(IN_PLACE)
            .cell("t0", Some(FileState::Trunc), 4096, trunc_ns, 100)
            .counted(ALLOCATING)
            .record
    };
    let slow = record(500e3);
    let part = "O_TRUNC made 4K writes 4.";
    says(
        &slow,
        Kind::Tip,
        &[
            part,
            "7.00 bytes at the device per byte and 2.00 flushes",
            "against 1.00 and 1.00",
        ],
    );
    assert_eq!(find(&slow, part).unwrap().cells, ["t0/file/trunc/4096"]);
    assert_eq!(find(&record(100e3), "O_TRUNC"), None);
}

#[test]
fn unwritten_extents_are_told_beside_written_ones() {
    let record = |in_place, unwritten_ns| {
        directory()
            .cell("t0", Some(FileState::Overwrite), 4096, 100e3, 100)
            .counted(in_place)
            .cell("t0", Some(FileState::Unwritten), 4096, unwritten_ns, 100)
            .counted(ALLOCATING)
            .record
    };
    says(
        &record(IN_PLACE, 300e3),
        Kind::Tip,
        &[
            "preallocated",
            "7.00 bytes",
            "against 1.00 and 1.00",
            "median",
        ],
    );
    // As on btrfs and f2fs, and with data=journal: filling them would help nothing.
    let nearly = PerWrite {
        bytes: 27 * 1024,
        ..ALLOCATING
    };
    for (in_place, unwritten_ns) in [(ALLOCATING, 300e3), (nearly, 300e3), (IN_PLACE, 60e3)] {
        let found = find(&record(in_place, unwritten_ns), "preallocated");
        assert_eq!(found, None);
    }
    // Nothing to hold it against.
    let alone = one(FileState::Unwritten, ALLOCATING);
    assert_eq!(find(&alone, "preallocated"), None);
}

#[test]
fn data_journal_is_told_where_data_was_written_twice() {
    let with = |mode: &str, each| {
        let mut record = one(FileState::Overwrite, each);
        let mount = record.targets[0].mount.as_mut().unwrap();
        mount.journal.as_mut().unwrap().mode = Some(mode.to_owned());
        record
    };
    says(
        &with("journal", ALLOCATING),
        Kind::Tip,
        &["data=journal", "7.00 bytes"],
    );
    assert_eq!(find(&with("ordered", ALLOCATING), "data=journal"), None);
    assert_eq!(find(&with("journal", IN_PLACE), "data=journal"), None);
}

#[test]
fn copy_on_write_is_told_on_btrfs_unless_it_is_off() {
    let with = |fs_type: &str, option: &str, each| {
        let mut record = one(FileState::Overwrite, each);
        let mount = record.targets[0].mount.as_mut().unwrap();
        mount.fs_type = fs_type.to_owned();
        mount.options.push(option.to_owned());
        record
    };
    let part = "copies on write";
    says(
        &with("btrfs", "ssd", ALLOCATING),
        Kind::Tip,
        &[part, "7.00", "3.00 requests"],
    );
    assert_eq!(find(&with("btrfs", "nodatacow", ALLOCATING), part), None);
    let mut attribute = with("btrfs", "ssd", ALLOCATING);
    attribute.targets[0].nocow = Some(false);
    says(&attribute, Kind::Tip, &[part]);
    attribute.targets[0].nocow = Some(true);
    assert_eq!(find(&attribute, part), None);
    assert_eq!(find(&with("btrfs", "ssd", IN_PLACE), part), None);
    assert_eq!(find(&with("ext4", "ssd", ALLOCATING), part), None);
}

#[test]
fn a_small_journal_is_told_with_the_time_that_fills_it() {
    let with = |size_bytes| {
        let mut record = one(FileState::Append, ALLOCATING);
        let mount = record.targets[0].mount.as_mut().unwrap();
        mount.journal.as_mut().unwrap().size_bytes = Some(size_bytes);
        record
    };
    // 24 KiB beyond the data in about 103 µs fill 4 MiB in 17 or 18 ms.
    says(
        &with(4 << 20),
        Kind::Tip,
        &["journal of 4.00 MiB", "fills it every 17."],
    );
    assert_eq!(find(&with(128 << 20), "small for this load"), None);
    let mut in_place = with(4 << 20);
    for slice in &mut in_place.cells[0].slices {
        slice.devices[0].counted.write_sectors /= 7;
    }
    assert_eq!(find(&in_place, "small for this load"), None);
}

#[test]
fn two_flushes_for_want_of_fua_are_told_with_their_time() {
    let with = |fua, each| {
        let mut record = one(FileState::Append, each);
        record.targets[0].stack[1].fua = Some(fua);
        record
    };
    says(
        &with(false, ALLOCATING),
        Kind::Fact,
        &[
            "nvme0n1 has no FUA",
            "2.00 flushes per 4K append",
            "50.0 µs",
        ],
    );
    assert_eq!(find(&with(true, ALLOCATING), "FUA"), None);
    assert_eq!(find(&with(false, IN_PLACE), "FUA"), None);
    // Flushes of others on the disk count as well; an overwrite commits nothing.
    let mut busy = one(FileState::Overwrite, ALLOCATING);
    busy.targets[0].stack[1].fua = Some(false);
    assert_eq!(find(&busy, "has no FUA"), None);
}

#[test]
fn a_cache_that_nobody_flushes_is_a_danger_and_comes_first() {
    let with = |option: &str, fua, cache: &str, flushes| {
        let each = PerWrite {
            flushes,
            ..ALLOCATING
        };
        let mut record = one(FileState::Unwritten, each);
        let mount = record.targets[0].mount.as_mut().unwrap();
        mount.options.push(option.to_owned());
        for device in &mut record.targets[0].stack {
            device.fua = Some(fua);
            device.write_cache = Some(cache.to_owned());
        }
        record
    };
    let mut unsafe_mount = with("nobarrier", true, "write back", 0);
    unsafe_mount.targets[0].stack[0].partition_start_bytes = Some(63 * 512);
    assert_eq!(explanations(&unsafe_mount)[0].kind, Kind::Danger);
    assert_eq!(explanations(&unsafe_mount)[1].kind, Kind::Tip);
    says(
        &unsafe_mount,
        Kind::Danger,
        &[
            "0 flushes per write",
            "mounted with nobarrier",
            "nvme0n1 is write back",
        ],
    );
    says(
        &with("rw", false, "write back", 0),
        Kind::Danger,
        &["sends none, or something between"],
    );
    // Where the device has FUA, only its events tell that it was not asked for.
    let mut traced = with("rw", true, "write back", 0);
    traced.cells[0].traced = Some(seen(100, 0));
    says(
        &traced,
        Kind::Danger,
        &["0 flushes per write and without FUA", "sends none"],
    );
    let mut flushed = seen(100, 0);
    flushed.classes.push(ClassTraffic {
        class: Class::Flush,
        requests: 1,
        fua_requests: 0,
        bytes: 0,
    });
    for harmless in [seen(100, 1), seen(99, 0), flushed] {
        traced.cells[0].traced = Some(harmless);
        assert_eq!(find(&traced, "A power failure"), None);
    }
    // FUA writes need no flush, nor does a cache that is none.
    for harmless in [
        with("rw", true, "write back", 0),
        with("nobarrier", false, "write through", 0),
        with("nobarrier", false, "write back", 1),
    ] {
        assert_eq!(find(&harmless, "A power failure"), None);
    }
    let mut old_kernel = unsafe_mount;
    old_kernel.host.kernel = "4.18.0-553.el8".to_owned();
    assert_eq!(find(&old_kernel, "A power failure"), None);
}

#[test]
fn a_file_that_grows_without_its_size_is_a_danger() {
    let with = |state, bytes| {
        let each = PerWrite { bytes, ..IN_PLACE };
        let mut record = one(state, each);
        record.targets[0].mount.as_mut().unwrap().journal = None;
        record
    };
    let parts = ["4K append", "alone in 10 of 10 slices", "loses"];
    says(&with(FileState::Append, 4096), Kind::Danger, &parts);
    // One slice is enough, whatever the others wrote.
    let mut once = with(FileState::Append, 7 * 4096);
    for device in &mut once.cells[0].slices[3].devices {
        device.counted.write_sectors = 100 * 8;
    }
    says(&once, Kind::Danger, &["alone in 1 of 10 slices"]);
    once.cells[0].slices[3].ops = 15;
    assert_eq!(find(&once, "their data alone"), None);
    let known = |external| {
        let mut record = with(FileState::Append, 4096);
        let journal = JournalFacts {
            mode: None,
            size_bytes: None,
            external,
            device: None,
        };
        record.targets[0].mount.as_mut().unwrap().journal = Some(journal);
        record
    };
    says(&known(Some(false)), Kind::Danger, &["their data alone"]);
    for harmless in [
        with(FileState::Overwrite, 4096),
        with(FileState::Append, 4096 + 512),
        known(Some(true)),
        known(None),
    ] {
        assert_eq!(find(&harmless, "their data alone"), None);
    }
}

#[test]
fn worker_threads_are_told_with_their_share_and_time() {
    let with = |requests| {
        let mut record = one(FileState::Overwrite, IN_PLACE);
        record.cells[0].handed = Some(Handed {
            ops: 100,
            requests,
            worker_cpu_ns: 100 * 34_000,
        });
        record
    };
    says(
        &with(50),
        Kind::Fact,
        &[
            "50 % of the 4K overwrite writes",
            "34.0 µs of processor time",
        ],
    );
    assert_eq!(find(&with(1), "worker threads"), None);
}

#[test]
fn a_partition_that_straddles_physical_blocks_is_told_with_its_start() {
    let with = |start_bytes| {
        let mut record = one(FileState::Overwrite, IN_PLACE);
        record.targets[0].stack[0].partition_start_bytes = Some(start_bytes);
        record
    };
    says(
        &with(63 * 512),
        Kind::Tip,
        &["nvme0n1p2 begins 32256 bytes", "3.50 KiB past", "1 MiB"],
    );
    assert_eq!(find(&with(1 << 20), "begins"), None);
}

/// Offsets that make up for each other straddle nothing; those of a loop device count against its file.
#[test]
fn what_straddles_is_judged_by_where_the_target_begins_at_the_bottom() {
    let with = |start_bytes, first_bytes| {
        let mut record = one(FileState::Overwrite, IN_PLACE);
        let stack = &mut record.targets[0].stack;
        let mut disk = stack[0].clone();
        (disk.name, disk.lower) = ("sda".to_owned(), Vec::new());
        disk.dev = DevId { major: 8, minor: 0 };
        disk.physical_block_bytes = Some(4096);
        disk.target_start_bytes = Some(start_bytes);
        disk.alignment_offset_bytes = Some(first_bytes);
        (stack[0].name, stack[0].lower) = ("dm-0".to_owned(), vec![disk.dev]);
        // Wrong by itself, and put right by what lies above.
        stack[0].partition_start_bytes = Some(35 * 512);
        stack[0].target_start_bytes = Some(0);
        stack.push(disk);
        record
    };
    assert_eq!(find(&with(40 * 512, 0), "begins"), None);
    assert_eq!(find(&with(63 * 512, 7 * 512), "begins"), None);
    let told = ["dm-0 begins 17920 bytes into sda", "1.50 KiB past"];
    says(&with(35 * 512, 0), Kind::Tip, &told);
    let mut on_file = with(40 * 512, 0);
    let disk = &mut on_file.targets[0].stack[1];
    disk.backing_file = Some("/image".to_owned());
    disk.file_start_bytes = Some(35 * 512);
    says(
        &on_file,
        Kind::Tip,
        &["dm-0 begins 17920 bytes into /image"],
    );
}
