//! What the filesystem's journal counted, and others' I/O.

use super::*;
use crate::model::cell::Method;
use crate::model::trace::{Class, ClassTraffic};
use crate::model::traffic::{
    BlockStat, FsCount, Jbd2Count, NeighbourTraffic, ProcessCount, XfsCount,
};

#[test]
fn others_io_is_told_by_the_disk_beside_the_partition() {
    let with = |extra_sectors| {
        let mut record = one(FileState::Overwrite, IN_PLACE);
        for slice in &mut record.cells[0].slices {
            let disk = slice.devices.iter_mut().find(|device| device.dev == DISK);
            disk.unwrap().counted.write_sectors += extra_sectors;
        }
        record
    };
    // 100 writes of 8 sectors in each of 10 slices.
    says(
        &with(80),
        Kind::Fact,
        &[
            "4K overwrite",
            "400 KiB written on nvme0n1 outside nvme0n1p2, 10 % of",
        ],
    );
    assert_eq!(find(&with(8), "Others used"), None);
    let mut named = with(80);
    named.cells[0].slices[0].neighbours.push(NeighbourTraffic {
        name: "nvme0n1p1".to_owned(),
        dev: DISK,
        counted: BlockStat {
            read_sectors: 1,
            ..BlockStat::default()
        },
    });
    says(&named, Kind::Fact, &["most of it on nvme0n1p1"]);
}

#[test]
fn reads_during_writes_are_told_with_their_share() {
    let with = |read_sectors| {
        let mut record = one(FileState::Overwrite, IN_PLACE);
        let devices = record.cells[0].slices.iter_mut();
        for device in devices.flat_map(|slice| &mut slice.devices) {
            device.counted.read_sectors += read_sectors;
        }
        record
    };
    // 100 writes of 8 sectors in each slice.
    says(
        &with(80),
        Kind::Fact,
        &[
            "nvme0n1p2 was also read",
            "4K overwrite",
            "0.100 bytes per byte",
        ],
    );
    assert_eq!(find(&with(8), "also read"), None);
}

#[test]
fn others_io_is_told_by_the_trace() {
    let mut record = directory()
        .cell("t0", Some(FileState::Trunc), 4096, 100e3, 100)
        .traced()
        .record;
    assert_eq!(find(&record, "Others used"), None);
    let traced = record.cells[0].traced.as_mut().unwrap();
    traced.classes.push(ClassTraffic {
        class: Class::Other,
        requests: 3,
        fua_requests: 0,
        bytes: 40960,
    });
    says(&record, Kind::Fact, &["40.0 KiB traced", "10 %"]);
    // They may be the journal's, where that lies somewhere else.
    let mount = record.targets[0].mount.as_mut().unwrap();
    mount.journal.as_mut().unwrap().external = Some(true);
    assert_eq!(find(&record, "Others used"), None);
    let mount = record.targets[0].mount.as_mut().unwrap();
    mount.journal.as_mut().unwrap().device = Some(DISK);
    says(&record, Kind::Fact, &["40.0 KiB traced", "10 %"]);
}

/// A record of 4 KiB cells, overwrite and append, in which these were counted for each write.
fn journalled(overwrite: FsCount, append: FsCount) -> Record {
    let mut record = directory()
        .cell("t0", Some(FileState::Overwrite), 4096, 100e3, 100)
        .cell("t0", Some(FileState::Append), 4096, 300e3, 100)
        .record;
    for (cell, each) in record.cells.iter_mut().zip([overwrite, append]) {
        for slice in &mut cell.slices {
            slice.process = Some(ProcessCount::default());
            let sum = (1..slice.ops).fold(each, |sum, _| sum.plus(&each));
            slice.filesystem = Some(sum);
        }
    }
    record
}

#[test]
fn a_transaction_for_each_write_is_told_beside_the_overwrites() {
    let jbd2 = |transactions| FsCount {
        jbd2: Some(Jbd2Count {
            transactions,
            requested: Some(transactions),
            commit_ns: Some(321_000),
        }),
        ..FsCount::default()
    };
    let record = journalled(jbd2(0), jbd2(1));
    let part = "Each 4K append write is a journal transaction of its own";
    says(
        &record,
        Kind::Fact,
        &[
            part,
            "1.00 journal transactions per write, against 0",
            "321 µs",
        ],
    );
    assert_eq!(find(&record, part).unwrap().cells, ["t0/file/append/4096"]);
    let needs_none = "need none";
    says(&record, Kind::Fact, &[part, needs_none]);
    // With fsync, an overwrite is one too: it changes the time of the file's change.
    let mut fsync = journalled(jbd2(1), jbd2(1));
    for cell in &mut fsync.cells {
        cell.spec.axes.method = Method::Fsync;
    }
    let part = "Each 4K overwrite write is a journal transaction of its own";
    says(
        &fsync,
        Kind::Fact,
        &[part, "O_SYNC commit the time of a file's change too"],
    );
    assert_eq!(find(&fsync, needs_none), None);
    // As it is with data=journal, whatever the method.
    let whatever = journalled(jbd2(1), jbd2(1));
    says(
        &whatever,
        Kind::Fact,
        &[part, "Only writes at the same time share one."],
    );
    assert_eq!(find(&journalled(jbd2(0), jbd2(2)), "of its own:"), None);
    assert_eq!(find(&journalled(jbd2(0), jbd2(0)), "of its own:"), None);
}

#[test]
fn xfs_tells_of_log_writes_and_of_others_on_the_same_filesystem() {
    let xfs = |log_writes, written_bytes| FsCount {
        xfs: Some(XfsCount {
            log_writes,
            log_bytes: log_writes * 1536,
            log_forces: log_writes,
            written_bytes: Some(written_bytes),
        }),
        ..FsCount::default()
    };
    let record = journalled(xfs(0, 4096), xfs(1, 4096));
    let part = "Each 4K append write is a log write of its own";
    says(
        &record,
        Kind::Fact,
        &[part, "1.00 log writes per write", "1.50 KiB"],
    );
    let part = "Others wrote to the same filesystem";
    assert_eq!(find(&record, part), None);
    let record = journalled(xfs(0, 4096), xfs(1, 4096 + 1024));
    says(
        &record,
        Kind::Fact,
        &[part, "4K append", "0.250 bytes per byte"],
    );
}
