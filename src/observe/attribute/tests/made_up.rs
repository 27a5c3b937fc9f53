//! Events that a device could have had.

use super::*;
use crate::observe::event::{Block, Comm};
use crate::observe::rwbs::Flags;

const DISK: DevId = DevId { major: 8, minor: 0 };

fn scope() -> Scope {
    Scope {
        disk: DISK,
        target: 4096..1 << 30,
        data: vec![0..8192, 8192..16384],
        data_moves: false,
        journal: Vec::new(),
        own_pid: 100,
        fs_type: Some("ext4".into()),
    }
}

fn block(sector: Option<u64>, bytes: u64, flags: &str, comm: &str) -> Block {
    Block {
        dev: DISK,
        sector,
        bytes,
        flags: Flags::parse(flags),
        comm: Comm::from_bytes(comm.as_bytes()),
        error: 0,
    }
}

/// Events of a process that is not ours, a nanosecond apart.
fn events(kinds: &[Kind]) -> Vec<Event> {
    (1..)
        .zip(kinds)
        .map(|(time_ns, kind)| Event {
            time_ns,
            cpu: 0,
            pid: 7,
            tid: 7,
            kind: *kind,
        })
        .collect()
}

#[test]
fn a_request_completed_in_parts_is_one_and_a_requeued_one_begins_when_issued_again() {
    let whole = block(Some(8), 8192, "WS", "x");
    let found = attribute(
        &events(&[
            Kind::RqIssue(whole),
            Kind::RqRequeue(whole),
            Kind::RqIssue(whole),
            Kind::RqComplete(block(Some(8), 4096, "WS", "")),
            Kind::RqComplete(block(Some(16), 4096, "WS", "")),
        ]),
        &scope(),
    );
    assert_eq!(of(&found, Class::Data), (1, 8192));
    let [request] = found.requests[..] else {
        panic!("{found:?}")
    };
    assert_eq!((request.issue_ns, request.complete_ns), (3, 5));
    assert_eq!((found.unissued, found.unfinished), (0, 0));
}

#[test]
fn requests_at_the_edges_of_the_trace_are_counted_as_such() {
    let found = attribute(
        &events(&[
            Kind::RqComplete(block(Some(8), 4096, "WS", "")),
            Kind::RqComplete(block(None, 0, "FF", "")),
            Kind::RqIssue(block(Some(16), 4096, "WS", "x")),
        ]),
        &scope(),
    );
    assert_eq!((found.unissued, found.unfinished), (2, 1));
    assert!(found.requests.is_empty());
    assert_eq!(of(&found, Class::Data), (1, 4096));
    assert_eq!(of(&found, Class::Flush), (1, 0));
}

#[test]
fn somebody_elses_writes_are_other_and_doubt_is_unknown() {
    let class = |sector, bytes, flags, comm| {
        let whole = block(Some(sector), bytes, flags, comm);
        let found = attribute(
            &events(&[Kind::RqIssue(whole), Kind::RqComplete(whole)]),
            &scope(),
        );
        found.requests[0].class
    };
    assert_eq!(class(8 + 100, 4096, "WS", "postgres"), Class::Other);
    assert_eq!(class(8 + 100, 4096, "WM", "postgres"), Class::Other);
    assert_eq!(class(8 + 100, 4096, "WM", "kworker/u8:7"), Class::Metadata);
    assert_eq!(class(8 + 100, 4096, "W", "kworker/u8:7"), Class::Unknown);
    assert_eq!(class(8 + 100, 4096, "WM", "jbd2/sda-8"), Class::Journal);
    // Across two ranges that touch, past the last, and before the partition.
    assert_eq!(class(16, 8192, "WS", "postgres"), Class::Data);
    assert_eq!(class(8 + 24, 8192, "W", "kworker/u8:7"), Class::Unknown);
    assert_eq!(class(0, 4096, "WM", "kworker/u8:7"), Class::Other);
}

#[test]
fn reads_discards_and_other_disks_are_left_out() {
    let elsewhere = Block {
        dev: DevId {
            major: 8,
            minor: 16,
        },
        ..block(Some(8), 4096, "WS", "x")
    };
    let mut kinds = vec![Kind::RqIssue(elsewhere), Kind::RqComplete(elsewhere)];
    for flags in ["R", "D", "RM"] {
        let whole = block(Some(8), 4096, flags, "x");
        kinds.extend([Kind::RqIssue(whole), Kind::RqComplete(whole)]);
    }
    let found = attribute(&events(&kinds), &scope());
    assert_eq!(found.expected(), Expected::default());
    assert_eq!((found.unissued, found.unfinished), (0, 0));
}

#[test]
fn reads_are_kept_that_a_write_may_wait_for() {
    let of_reads = |sector, flags, comm, own| {
        let whole = block(Some(sector), 4096, flags, comm);
        let mut events = events(&[
            Kind::BioQueue(whole),
            Kind::RqIssue(whole),
            Kind::RqComplete(whole),
        ]);
        if own {
            events[0].pid = 100;
        }
        attribute(&events, &scope()).reads
    };
    let read = Read {
        issue_ns: 2,
        complete_ns: 3,
        bytes: 4096,
    };
    assert_eq!(of_reads(8, "RSM", "syncprof", true), [read]);
    assert_eq!(of_reads(8, "RM", "kworker/0:1", false), [read]);
    // Read ahead, somebody else's, and outside the target.
    assert_eq!(of_reads(8, "RA", "syncprof", true), []);
    assert_eq!(of_reads(8, "R", "postgres", false), []);
    assert_eq!(of_reads(0, "RSM", "syncprof", true), []);
    // The completion is all that was seen.
    let whole = block(Some(8), 4096, "R", "");
    let found = attribute(&events(&[Kind::RqComplete(whole)]), &scope());
    assert_eq!(found.reads, []);
}
