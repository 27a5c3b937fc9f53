mod made_up;

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::model::sample::OpTime;
use crate::model::trace::Phase;
use crate::model::traffic::BlockStat;
use crate::observe::event::Kind;
use crate::observe::phases::{Anatomy, phases};

/// Events of four writes of 4 KiB as a kernel 6.18 told them: a first line of what was known, then
/// an event on each line.
struct Stored {
    events: Vec<Event>,
    scope: Scope,
    ops: Vec<OpTime>,
    counted: BlockStat,
}

fn numbers(value: &Value) -> Vec<Range<u64>> {
    let pair = |pair: &Value| pair[0].as_u64().unwrap()..pair[1].as_u64().unwrap();
    value.as_array().unwrap().iter().map(pair).collect()
}

fn stored(name: &str) -> Stored {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/attribute")
        .join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    let (head, events) = text.split_once('\n').unwrap();
    let head: Value = serde_json::from_str(head).unwrap();
    Stored {
        events: events
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        scope: Scope {
            disk: head["disk"].as_str().unwrap().parse().unwrap(),
            target: head["target"][0].as_u64().unwrap()..head["target"][1].as_u64().unwrap(),
            data: numbers(&head["data"]),
            data_moves: false,
            journal: numbers(&head["journal"]),
            own_pid: u32::try_from(head["own_pid"].as_u64().unwrap()).unwrap(),
            fs_type: head["fs_type"].as_str().map(str::to_owned),
        },
        ops: head["ops"]
            .as_array()
            .unwrap()
            .iter()
            .map(|op| OpTime {
                start_ns: op["start_ns"].as_u64().unwrap(),
                end_ns: op["end_ns"].as_u64().unwrap(),
                offset_bytes: op["offset_bytes"].as_u64().unwrap(),
                bytes: op["bytes"].as_u64().unwrap(),
            })
            .collect(),
        counted: serde_json::from_value(head["counted"].clone()).unwrap(),
    }
}

impl Stored {
    fn attributed(&self) -> Attributed {
        attribute(&self.events, &self.scope)
    }

    fn anatomy(&self) -> Anatomy {
        let found = self.attributed();
        phases(&found.requests, &found.reads, &self.ops)
    }

    /// Bytes to the device for each byte written.
    fn amplification(&self) -> f64 {
        let bytes: u64 = self.attributed().classes.iter().map(|t| t.bytes).sum();
        let written: u64 = self.ops.iter().map(|op| op.bytes).sum();
        bytes as f64 / written as f64
    }
}

fn of(found: &Attributed, class: Class) -> (u64, u64) {
    let traffic = found.classes.iter().find(|t| t.class == class).unwrap();
    (traffic.requests, traffic.bytes)
}

fn course(stretches: &[crate::model::trace::Stretch]) -> Vec<Phase> {
    let busy = |phase: &Phase| !matches!(phase, Phase::Submit | Phase::Waiting | Phase::Return);
    stretches.iter().map(|s| s.phase).filter(busy).collect()
}

const ALL: [&str; 11] = [
    "raw_over",
    "ext4_over",
    "ext4_trunc",
    "ext4_data_journal",
    "ext4_no_journal",
    "ext4_nobarrier",
    "ext4_partition",
    "ext4_zram",
    "ext3_append",
    "xfs_append",
    "btrfs_over",
];

#[test]
fn classes_add_up_to_what_the_device_counted() {
    for name in ALL {
        let stored = stored(name);
        let found = stored.attributed();
        let counted = Expected {
            writes: stored.counted.writes,
            write_sectors: stored.counted.write_sectors,
            flushes: stored.counted.flushes,
        };
        assert_eq!(found.expected(), counted, "{name}: {found:?}");
        assert_eq!((found.unissued, found.unfinished), (0, 0), "{name}");
    }
}

#[test]
fn phases_sum_to_the_latency_of_real_writes() {
    for name in ALL {
        let stored = stored(name);
        let found = stored.anatomy();
        let total: u64 = stored.ops.iter().map(|op| op.end_ns - op.start_ns).sum();
        let sum: f64 = found.phases.iter().map(|phase| phase.mean_ns).sum();
        assert_eq!(found.ops, 4, "{name}");
        assert!((found.latency_ns - total as f64 / 4.0).abs() < 1e-6);
        assert!((sum - found.latency_ns).abs() < 1e-6, "{name}");
        assert!(course(&found.typical).contains(&Phase::DataWrite), "{name}");
    }
}

#[test]
fn a_raw_write_and_an_overwrite_are_one_data_request_and_one_flush() {
    for name in ["raw_over", "ext4_over"] {
        let stored = stored(name);
        let found = stored.attributed();
        assert_eq!(of(&found, Class::Data), (4, 4 * 4096), "{name}");
        assert_eq!(of(&found, Class::Flush), (4, 0), "{name}");
        assert_eq!(found.requests.len(), 8, "{name}");
        let course = course(&stored.anatomy().typical);
        assert_eq!(course, [Phase::DataWrite, Phase::PostFlush], "{name}");
    }
    assert_eq!(stored("raw_over").attributed().empty_flush_bios, 0);
    assert_eq!(stored("ext4_over").attributed().empty_flush_bios, 4);
}

#[test]
fn an_allocating_write_of_ext_is_data_a_journal_request_and_a_commit_block_between_flushes() {
    for name in ["ext4_trunc", "ext4_partition", "ext3_append"] {
        let stored = stored(name);
        let found = stored.attributed();
        assert_eq!(of(&found, Class::Data), (4, 4 * 4096), "{name}");
        assert_eq!(of(&found, Class::Flush).0, 8, "{name}");
        let journal = |commit| {
            found.requests.iter().filter(move |request| {
                request.class == Class::Journal && request.is_commit_block == commit
            })
        };
        assert_eq!(journal(true).count(), 4, "{name}");
        assert!(journal(true).all(|request| request.preflush), "{name}");
        // ext4_partition has blocks of 1 KiB, the others of 4 KiB.
        let block_bytes = journal(true).next().unwrap().bytes;
        assert!(
            journal(false).any(|request| request.bytes >= 4 * block_bytes),
            "{name}"
        );
        if block_bytes == 4096 {
            let amplification = stored.amplification();
            assert!((5.0..=9.0).contains(&amplification), "{amplification}");
        }
        assert_eq!(
            course(&stored.anatomy().typical),
            [
                Phase::DataWrite,
                Phase::JournalWrite,
                Phase::PreFlush,
                Phase::CommitBlock,
                Phase::PostFlush
            ],
            "{name}"
        );
        for class in [Class::Other, Class::Unknown] {
            assert_eq!(of(&found, class), (0, 0), "{name}");
        }
    }
}

#[test]
fn data_journalling_writes_the_data_twice() {
    let stored = stored("ext4_data_journal");
    let found = stored.attributed();
    assert_eq!(of(&found, Class::Data).1, 4 * 4096);
    assert!(of(&found, Class::Journal).1 >= 4 * 4096);
    assert!(stored.amplification() >= 2.0);
    let commits = found.requests.iter().filter(|r| r.is_commit_block);
    assert_eq!(commits.count(), 4);
}

#[test]
fn without_a_journal_there_is_no_journal_class() {
    let found = stored("ext4_no_journal").attributed();
    assert_eq!(of(&found, Class::Journal), (0, 0));
    assert_eq!(of(&found, Class::Data), (4, 4 * 4096));
    assert!(of(&found, Class::Metadata).0 >= 4);
    assert!(
        found
            .requests
            .iter()
            .all(|request| !request.is_commit_block)
    );
}

#[test]
fn without_barriers_there_is_no_flush_and_the_commit_block_is_still_told() {
    for name in ["ext4_nobarrier", "ext4_zram"] {
        let stored = stored(name);
        let found = stored.attributed();
        assert_eq!(of(&found, Class::Flush), (0, 0), "{name}");
        let commits: Vec<&Request> = found
            .requests
            .iter()
            .filter(|r| r.is_commit_block)
            .collect();
        assert_eq!(commits.len(), 4, "{name}");
        let one_block = commits.iter().all(|commit| commit.bytes <= 4096);
        assert!(one_block, "{name}: {commits:?}");
    }
    assert!(stored("ext4_zram").attributed().bio_based);
}

#[test]
fn a_log_write_of_xfs_lies_between_two_flushes() {
    let stored = stored("xfs_append");
    let found = stored.attributed();
    assert_eq!(of(&found, Class::Data), (4, 4 * 4096));
    assert_eq!(of(&found, Class::Journal).0, 4);
    assert_eq!(of(&found, Class::Flush).0, 8);
    let mut log = found.requests.iter().filter(|r| r.class == Class::Journal);
    assert!(log.all(|request| request.preflush && request.is_commit_block));
    assert_eq!(
        course(&stored.anatomy().typical),
        [
            Phase::DataWrite,
            Phase::PreFlush,
            Phase::CommitBlock,
            Phase::PostFlush
        ]
    );
}

#[test]
fn on_btrfs_metadata_dominates_and_moving_data_is_told_by_who_wrote_it() {
    let mut stored = stored("btrfs_over");
    // Where the file lay before: copy-on-write puts the data elsewhere.
    stored.scope.data.clear();
    assert_eq!(of(&stored.attributed(), Class::Unknown).1, 4 * 4096);
    stored.scope.data_moves = true;
    let found = stored.attributed();
    assert_eq!(of(&found, Class::Data).1, 4 * 4096);
    assert!(of(&found, Class::Metadata).1 > 10 * of(&found, Class::Data).1);
    assert_eq!(of(&found, Class::Unknown), (0, 0));
    let course = course(&stored.anatomy().typical);
    let end = [Phase::PreFlush, Phase::CommitBlock, Phase::PostFlush];
    assert!(course.ends_with(&end), "{course:?}");
}

#[test]
fn where_metadata_is_not_marked_nothing_is_called_data_for_who_wrote_it() {
    for (fs_type, class) in [("btrfs", Class::Data), ("jfs", Class::Unknown)] {
        let mut stored = stored("btrfs_over");
        stored.scope.data.clear();
        stored.scope.data_moves = true;
        stored.scope.fs_type = Some(fs_type.to_owned());
        let found = stored.attributed();
        assert_eq!(of(&found, class).1, 4 * 4096, "{fs_type}");
    }
}

#[test]
fn without_the_journals_place_its_thread_tells_it() {
    let mut stored = stored("ext4_trunc");
    let known = stored.attributed();
    stored.scope.journal.clear();
    assert_eq!(stored.attributed(), known);
}

#[test]
fn without_the_events_of_bios_the_commit_blocks_are_found_by_their_flushes() {
    for name in [
        "ext4_trunc",
        "ext4_data_journal",
        "xfs_append",
        "ext3_append",
    ] {
        let mut stored = stored(name);
        let known = stored.attributed();
        let is_bio = |event: &Event| matches!(event.kind, Kind::BioQueue(_));
        stored.events.retain(|event| !is_bio(event));
        let found = stored.attributed();
        assert_eq!(found.expected(), known.expected(), "{name}");
        let marks = |found: &Attributed| {
            let marks = found.requests.iter().map(|r| r.is_commit_block);
            marks.collect::<Vec<_>>()
        };
        assert_eq!(marks(&found), marks(&known), "{name}");
    }
}
