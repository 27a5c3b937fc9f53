//! Clients and checkpoints on files. Facts, not times.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::engine::spec::Data;
use crate::model::cell::Payload;

const COURSE: Schedule = Schedule {
    duration_ns: 150_000_000,
    interval_ns: 10_000_000,
};
const PACE: Pace = Pace {
    dirty_pages_per_s: 2000.0,
    interval_ns: 30_000_000,
    spread_ns: 0,
};
const RECORD_BYTES: u64 = 4096;
const RECORDS: u64 = 8;

fn file(pages: u64) -> File {
    let path = tempfile::NamedTempFile::new().unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path.path())
        .unwrap();
    file.set_len(pages * RECORD_BYTES).unwrap();
    file
}

fn offsets() -> Vec<u64> {
    (0..RECORDS).map(|record| record * RECORD_BYTES).collect()
}

fn log<'a>(file: &'a File, offsets: &'a [u64], group_commit: bool) -> Log<'a> {
    Log {
        fd: file.as_fd(),
        is_device: false,
        offsets,
        record_bytes: RECORD_BYTES,
        data: Data::Fresh(Payload::Random),
        seed: 1,
        clients: 3,
        group_commit,
    }
}

fn run(log: &Log<'_>, background: Option<&Background<'_>>) -> Counted {
    commits(
        &COURSE,
        log,
        background,
        &AtomicBool::new(false),
        &mut |_| true,
    )
    .unwrap()
}

fn ops(counted: &Counted) -> u64 {
    counted.intervals.iter().map(|interval| interval.ops).sum()
}

#[test]
fn counts_add_up_alone_and_in_groups() {
    for group_commit in [false, true] {
        let (file, offsets) = (file(RECORDS), offsets());
        let counted = run(&log(&file, &offsets, group_commit), None);
        assert_eq!(counted.failure, None);
        let ops = ops(&counted);
        assert!(ops > 3);
        let bytes: u64 = counted.intervals.iter().map(|one| one.bytes).sum();
        assert_eq!(bytes, ops * RECORD_BYTES);
        assert_eq!(counted.outside.len(), ops);
        assert!(counted.inside.is_empty() && counted.phases.is_empty());
        assert_eq!(file.metadata().unwrap().len(), RECORDS * RECORD_BYTES);
    }
}

#[test]
fn phases_follow_one_another_and_hold_all_commits() {
    for spread_ns in [0, 15_000_000] {
        let (log_file, data, offsets) = (file(RECORDS), file(64), offsets());
        let pace = Pace { spread_ns, ..PACE };
        let background =
            Background::new(data.as_fd(), (64, RECORD_BYTES), &pace, Payload::Random, 5);
        let counted = run(&log(&log_file, &offsets, false), Some(&background));
        assert_eq!(counted.failure, None);
        let phases = &counted.phases;
        assert!(phases.len() >= 3, "{phases:?}");
        assert_eq!(phases[0].start_ns, 0);
        for pair in phases.windows(2) {
            assert_eq!(pair[0].end_ns, pair[1].start_ns);
            assert_ne!(pair[0].checkpoint.is_some(), pair[1].checkpoint.is_some());
        }
        assert!(phases[1].checkpoint.unwrap().pages > 0);
        assert_eq!(
            phases.iter().map(|phase| phase.ops).sum::<u64>(),
            ops(&counted)
        );
        assert_eq!(counted.outside.len() + counted.inside.len(), ops(&counted));
        assert!(counted.dirtied_pages > 0);
    }
}

#[test]
fn a_log_that_cannot_be_written_ends_it_for_all() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let (read_only, offsets) = (File::open(path.path()).unwrap(), offsets());
    for group_commit in [false, true] {
        let counted = run(&log(&read_only, &offsets, group_commit), None);
        assert!(counted.errors >= 1);
        let text = counted.failure.unwrap().to_string();
        assert!(
            text.starts_with("cannot write a record: Bad file"),
            "{text}"
        );
    }
}

#[test]
fn a_data_file_that_cannot_be_written_ends_it_too() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let (read_only, log_file) = (File::open(path.path()).unwrap(), file(RECORDS));
    let offsets = offsets();
    let background = Background::new(
        read_only.as_fd(),
        (64, RECORD_BYTES),
        &PACE,
        Payload::Random,
        5,
    );
    let counted = run(&log(&log_file, &offsets, false), Some(&background));
    let text = counted.failure.unwrap().to_string();
    assert!(text.contains("page of the data file"), "{text}");
}

#[test]
fn what_is_preserved_is_written_back_by_a_ring() {
    let (file, offsets) = (file(RECORDS), offsets());
    let mut content = crate::sys::buffer::Aligned::new((RECORDS * RECORD_BYTES) as usize).unwrap();
    fastrand::Rng::with_seed(3).fill(&mut content);
    file.write_all_at(&content, 0).unwrap();
    let log = Log {
        is_device: true,
        data: Data::Preserved {
            bytes: &content,
            base_bytes: 0,
        },
        ..log(&file, &offsets, false)
    };
    let counted = run(&log, None);
    assert_eq!(counted.failure, None);
    assert!(ops(&counted) > RECORDS);
    let mut read = vec![0; content.len()];
    file.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(read, &content[..]);
}
