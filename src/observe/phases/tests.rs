use super::*;
use proptest::prelude::*;

fn request(class: Class, issue_ns: u64, complete_ns: u64, bytes: u64) -> Request {
    Request {
        issue_ns,
        complete_ns,
        class,
        fua: false,
        preflush: false,
        offset_bytes: (class != Class::Flush).then_some(0),
        bytes,
        is_commit_block: false,
    }
}

fn op(start_ns: u64, end_ns: u64) -> OpTime {
    OpTime {
        start_ns,
        end_ns,
        offset_bytes: 0,
        bytes: 4096,
    }
}

fn told(stretches: &[Stretch]) -> Vec<(Phase, u64, u64, u64)> {
    stretches
        .iter()
        .map(|s| (s.phase, s.start_ns, s.end_ns, s.bytes))
        .collect()
}

/// What ext4 does for a write that allocates, begun at this time; it takes 100 ns.
fn allocating(at: u64) -> Vec<Request> {
    let commit = Request {
        is_commit_block: true,
        ..request(Class::Journal, at + 60, at + 70, 4096)
    };
    vec![
        request(Class::Data, at + 5, at + 20, 4096),
        request(Class::Journal, at + 25, at + 40, 20480),
        request(Class::Flush, at + 45, at + 58, 0),
        commit,
        request(Class::Flush, at + 72, at + 90, 0),
    ]
}

#[test]
fn an_allocating_write_goes_through_all_phases() {
    let found = phases(&allocating(1000), &[], &[op(1000, 1100)]);
    assert_eq!(
        told(&found.typical),
        [
            (Phase::Submit, 0, 5, 0),
            (Phase::DataWrite, 5, 20, 4096),
            (Phase::Waiting, 20, 25, 0),
            (Phase::JournalWrite, 25, 40, 20480),
            (Phase::Waiting, 40, 45, 0),
            (Phase::PreFlush, 45, 58, 0),
            (Phase::Waiting, 58, 60, 0),
            (Phase::CommitBlock, 60, 70, 4096),
            (Phase::Waiting, 70, 72, 0),
            (Phase::PostFlush, 72, 90, 0),
            (Phase::Return, 90, 100, 0),
        ]
    );
    let waiting = found.phases.iter().find(|p| p.phase == Phase::Waiting);
    assert_eq!(waiting.map(|p| (p.mean_ns, p.p99_ns)), Some((14.0, 14)));
    assert_eq!((found.ops, found.latency_ns), (1, 100.0));
}

#[test]
fn a_flush_without_a_commit_block_comes_after_the_data() {
    let requests = [
        request(Class::Data, 10, 20, 4096),
        request(Class::Flush, 20, 40, 0),
    ];
    let found = phases(&requests, &[], &[op(8, 45)]);
    assert_eq!(
        told(&found.typical),
        [
            (Phase::Submit, 0, 2, 0),
            (Phase::DataWrite, 2, 12, 4096),
            (Phase::PostFlush, 12, 32, 0),
            (Phase::Return, 32, 37, 0),
        ]
    );
}

#[test]
fn the_flush_after_a_commit_is_not_the_next_commits() {
    let mut requests = allocating(0);
    requests.extend(allocating(100));
    let found = phases(&requests, &[], &[op(0, 100), op(100, 200)]);
    let mean = |phase| {
        let found = found.phases.iter().find(|p| p.phase == phase);
        found.map(|p| p.mean_ns)
    };
    assert_eq!(mean(Phase::PostFlush), Some(18.0));
    assert_eq!(mean(Phase::PreFlush), Some(13.0));
}

#[test]
fn somebody_elses_request_hides_behind_our_own_and_begins_nothing() {
    let requests = [
        request(Class::Other, 2, 15, 512),
        request(Class::Data, 10, 20, 4096),
        request(Class::Other, 22, 24, 512),
    ];
    let found = phases(&requests, &[], &[op(0, 30)]);
    assert_eq!(
        told(&found.typical),
        [
            (Phase::Submit, 0, 2, 0),
            (Phase::OtherWrite, 2, 10, 512),
            (Phase::DataWrite, 10, 20, 4096),
            (Phase::Return, 20, 22, 0),
            (Phase::OtherWrite, 22, 24, 512),
            (Phase::Return, 24, 30, 0),
        ]
    );
}

#[test]
fn what_was_over_before_a_write_begins_nothing_in_it() {
    // A write of somebody else's goes on from the first of two writes into the second.
    let requests = [
        request(Class::Other, 2, 42, 512),
        request(Class::Data, 5, 30, 4096),
        request(Class::Data, 45, 60, 4096),
    ];
    // The typical one of two is the shorter.
    let found = phases(&requests, &[], &[op(0, 35), op(40, 70)]);
    assert_eq!(
        told(&found.typical),
        [
            (Phase::OtherWrite, 0, 2, 512),
            (Phase::Submit, 2, 5, 0),
            (Phase::DataWrite, 5, 20, 4096),
            (Phase::Return, 20, 30, 0),
        ]
    );
}

#[test]
fn what_a_write_reads_first_is_named_and_hides_behind_its_own_requests() {
    let requests = [
        request(Class::Data, 20, 30, 4096),
        request(Class::Flush, 32, 40, 0),
    ];
    let read = |issue_ns, complete_ns| Read {
        issue_ns,
        complete_ns,
        bytes: 512,
    };
    let found = phases(&requests, &[read(5, 15), read(25, 31)], &[op(0, 45)]);
    assert_eq!(
        told(&found.typical),
        [
            (Phase::Submit, 0, 5, 0),
            (Phase::Read, 5, 15, 512),
            (Phase::Waiting, 15, 20, 0),
            (Phase::DataWrite, 20, 30, 4096),
            (Phase::Read, 30, 31, 512),
            (Phase::Waiting, 31, 32, 0),
            (Phase::PostFlush, 32, 40, 0),
            (Phase::Return, 40, 45, 0),
        ]
    );
}

#[test]
fn a_write_that_reaches_no_device_is_all_software() {
    let found = phases(&[], &[], &[op(5, 25)]);
    assert_eq!(told(&found.typical), [(Phase::Submit, 0, 20, 0)]);
    assert_eq!(phases(&[], &[], &[]), Anatomy::default());
}

#[test]
fn the_typical_write_has_the_median_latency() {
    let ops = [op(0, 90), op(100, 110), op(200, 230)];
    let found = phases(&[], &[], &ops);
    assert_eq!(told(&found.typical), [(Phase::Submit, 0, 30, 0)]);
    assert_eq!(found.phases[0].p99_ns, 90);
}

fn timeline() -> impl Strategy<Value = Vec<Request>> {
    let one = (0usize..6, any::<bool>(), 0u64..500, 1u64..60, 0u64..9);
    prop::collection::vec(one, 0..25).prop_map(|drawn| {
        let mut requests: Vec<Request> = drawn
            .into_iter()
            .map(
                |(class, is_commit_block, issue_ns, takes_ns, blocks)| Request {
                    is_commit_block: is_commit_block && Class::ALL[class] == Class::Journal,
                    ..request(
                        Class::ALL[class],
                        issue_ns,
                        issue_ns + takes_ns,
                        blocks * 512,
                    )
                },
            )
            .collect();
        requests.sort_by_key(|request| (request.issue_ns, request.complete_ns));
        requests
    })
}

proptest! {
    #[test]
    fn stretches_follow_one_another_and_sum_to_the_latency(
        requests in timeline(),
        reads in timeline(),
        lengths in prop::collection::vec((0u64..30, 1u64..120), 1..8),
    ) {
        let reads: Vec<Read> = reads.iter().map(|request| Read {
            issue_ns: request.issue_ns,
            complete_ns: request.complete_ns,
            bytes: request.bytes,
        }).collect();
        let mut at = 0;
        let ops: Vec<OpTime> = lengths.into_iter().map(|(pause, takes)| {
            let start = at + pause;
            at = start + takes;
            op(start, at)
        }).collect();
        let mut total = 0;
        for op in &ops {
            let stretches = phases(&requests, &reads, &[*op]).typical;
            let mut end = 0;
            for stretch in &stretches {
                prop_assert_eq!(stretch.start_ns, end);
                prop_assert!(stretch.end_ns > stretch.start_ns);
                end = stretch.end_ns;
            }
            prop_assert_eq!(end, op.end_ns - op.start_ns);
            prop_assert!(stretches.windows(2).all(|two| two[0].phase != two[1].phase));
            let ends = requests.iter().map(|r| (r.complete_ns, r.bytes))
                .chain(reads.iter().map(|r| (r.complete_ns, r.bytes)));
            let ended: u64 = ends
                .filter(|(end_ns, _)| *end_ns > op.start_ns && *end_ns <= op.end_ns)
                .map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(stretches.iter().map(|s| s.bytes).sum::<u64>(), ended);
            total += end;
        }
        // All in one call divide as each alone: the phases of all add up to their latencies.
        let found = phases(&requests, &reads, &ops);
        let sum: f64 = found.phases.iter().map(|phase| phase.mean_ns).sum();
        prop_assert!((sum - total as f64 / ops.len() as f64).abs() < 1e-6);
        prop_assert!((found.latency_ns - sum).abs() < 1e-6);
        for phase in &found.phases {
            let alone: u64 = ops.iter()
                .map(|op| time_in(&phases(&requests, &reads, &[*op]).typical, phase.phase)).sum();
            prop_assert!((phase.mean_ns - alone as f64 / ops.len() as f64).abs() < 1e-6);
        }
    }
}
