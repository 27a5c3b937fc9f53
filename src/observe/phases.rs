//! How the time of a write divides into phases, at queue depth 1. Pure: requests in, phases out.

use std::cmp::Reverse;

use super::attribute::Request;
use crate::model::sample::OpTime;
use crate::model::trace::{Class, Phase, PhaseTime, Stretch};

/// The phases of a list of writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Anatomy {
    /// Writes whose phases are known.
    pub ops: u64,
    /// The phases that occurred, in the order of [`Phase::ALL`]. The means add up to `latency_ns`.
    pub phases: Vec<PhaseTime>,
    /// Mean latency of the writes.
    pub latency_ns: f64,
    /// The write of median latency, stretch by stretch.
    pub typical: Vec<Stretch>,
}

/// Divides the time of each write. `requests` are in the order of their issue, and `ops` follow one
/// another without overlap.
pub fn phases(requests: &[Request], ops: &[OpTime]) -> Anatomy {
    let spans = spans(requests);
    let mut begin = 0;
    let divided: Vec<Vec<Stretch>> = ops
        .iter()
        .map(|op| {
            while begin < spans.len() && spans[begin].end_ns <= op.start_ns {
                begin += 1;
            }
            let rest = &spans[begin..];
            let end = rest.partition_point(|span| span.start_ns < op.end_ns);
            divide(op, &rest[..end])
        })
        .collect();
    summarise(&divided)
}

fn summarise(divided: &[Vec<Stretch>]) -> Anatomy {
    let count = divided.len();
    let latency = |stretches: &Vec<Stretch>| stretches.last().map_or(0, |last| last.end_ns);
    let mut by_latency: Vec<&Vec<Stretch>> = divided.iter().collect();
    by_latency.sort_by_key(|stretches| latency(stretches));
    let Some(typical) = by_latency.get(count.saturating_sub(1) / 2) else {
        return Anatomy::default();
    };
    let phases = Phase::ALL
        .into_iter()
        .filter_map(|phase| {
            let mut times: Vec<u64> = divided
                .iter()
                .map(|stretches| time_in(stretches, phase))
                .collect();
            times.sort_unstable();
            let total: u64 = times.iter().sum();
            // The nearest rank: the least time that at least 99 % don't exceed.
            let p99_ns = times[(count * 99).div_ceil(100) - 1];
            (total > 0).then_some(PhaseTime {
                phase,
                mean_ns: total as f64 / count as f64,
                p99_ns,
            })
        })
        .collect();
    Anatomy {
        ops: count as u64,
        phases,
        latency_ns: divided.iter().map(latency).sum::<u64>() as f64 / count as f64,
        typical: typical.to_vec(),
    }
}

fn time_in(stretches: &[Stretch], phase: Phase) -> u64 {
    stretches
        .iter()
        .filter(|stretch| stretch.phase == phase)
        .map(|stretch| stretch.end_ns - stretch.start_ns)
        .sum()
}

/// A request's time at the device, and what it is called while nothing more telling goes on.
#[derive(Clone, Copy, Debug)]
struct Span {
    start_ns: u64,
    end_ns: u64,
    phase: Phase,
    bytes: u64,
}

fn spans(requests: &[Request]) -> Vec<Span> {
    requests
        .iter()
        .enumerate()
        .map(|(at, request)| Span {
            start_ns: request.issue_ns,
            end_ns: request.complete_ns,
            phase: phase_of(request, &requests[at + 1..]),
            bytes: request.bytes,
        })
        .collect()
}

fn phase_of(request: &Request, later: &[Request]) -> Phase {
    match request.class {
        _ if request.is_commit_block => Phase::CommitBlock,
        Class::Data => Phase::DataWrite,
        Class::Journal => Phase::JournalWrite,
        Class::Metadata => Phase::MetadataWrite,
        Class::Flush => {
            let next = later.iter().find(|next| is_own(next.class));
            let is_before_commit = next
                .is_some_and(|next| next.is_commit_block && next.issue_ns >= request.complete_ns);
            if is_before_commit {
                Phase::PreFlush
            } else {
                Phase::PostFlush
            }
        }
        Class::Other | Class::Unknown => Phase::OtherWrite,
    }
}

fn is_own(class: Class) -> bool {
    !matches!(class, Class::Other | Class::Unknown)
}

/// Where several requests are at the device, the first of these names the time: the write's own
/// before what may only happen to run beside it, and somebody else's last.
const PRECEDENCE: [Phase; 7] = [
    Phase::DataWrite,
    Phase::JournalWrite,
    Phase::CommitBlock,
    Phase::PreFlush,
    Phase::PostFlush,
    Phase::MetadataWrite,
    Phase::OtherWrite,
];

fn precedence(phase: Phase) -> usize {
    PRECEDENCE
        .iter()
        .position(|other| *other == phase)
        .unwrap_or(PRECEDENCE.len())
}

/// Divides one write's time into stretches that follow one another from its submission to its
/// completion. `spans` holds all that are at the device in that time.
fn divide(op: &OpTime, spans: &[Span]) -> Vec<Stretch> {
    let within = |time_ns: u64| time_ns.clamp(op.start_ns, op.end_ns.max(op.start_ns));
    let mut edges: Vec<u64> = spans
        .iter()
        .flat_map(|span| [within(span.start_ns), within(span.end_ns)])
        .chain([op.start_ns, within(op.end_ns)])
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let own = || spans.iter().filter(|span| span.phase != Phase::OtherWrite);
    let first_ns = own().map(|span| within(span.start_ns)).min();
    let last_ns = own().map(|span| within(span.end_ns)).max();
    let mut stretches: Vec<Stretch> = Vec::new();
    for edge in edges.windows(2) {
        let (start_ns, end_ns) = (edge[0], edge[1]);
        let phase = spans
            .iter()
            .filter(|span| span.start_ns <= start_ns && span.end_ns >= end_ns)
            .map(|span| span.phase)
            .min_by_key(|phase| precedence(*phase))
            .unwrap_or(match (first_ns, last_ns) {
                (Some(first_ns), Some(last_ns)) if start_ns >= first_ns => {
                    if start_ns >= last_ns {
                        Phase::Return
                    } else {
                        Phase::Waiting
                    }
                }
                _ => Phase::Submit,
            });
        match stretches.last_mut() {
            Some(last) if last.phase == phase => last.end_ns = end_ns - op.start_ns,
            _ => stretches.push(Stretch {
                phase,
                start_ns: start_ns - op.start_ns,
                end_ns: end_ns - op.start_ns,
                bytes: 0,
            }),
        }
    }
    give_bytes(op, spans, &mut stretches);
    stretches
}

/// Gives the bytes of each request that ended in the write's time to the last stretch of its phase
/// that it shared; what was hidden behind other requests all the time goes to the stretch that it
/// ended in.
fn give_bytes(op: &OpTime, spans: &[Span], stretches: &mut [Stretch]) {
    for span in spans {
        if span.end_ns > op.end_ns || span.end_ns <= op.start_ns {
            continue;
        }
        let end_ns = span.end_ns - op.start_ns;
        let start_ns = span.start_ns.saturating_sub(op.start_ns);
        let best = stretches
            .iter_mut()
            .filter(|stretch| stretch.start_ns < end_ns && stretch.end_ns > start_ns)
            .max_by_key(|stretch| {
                (
                    stretch.phase == span.phase,
                    Reverse(end_ns.abs_diff(stretch.end_ns)),
                )
            });
        if let Some(stretch) = best {
            stretch.bytes += span.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
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
        let found = phases(&allocating(1000), &[op(1000, 1100)]);
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
        let found = phases(&requests, &[op(8, 45)]);
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
        let found = phases(&requests, &[op(0, 100), op(100, 200)]);
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
        let found = phases(&requests, &[op(0, 30)]);
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
    fn a_write_that_reaches_no_device_is_all_software() {
        let found = phases(&[], &[op(5, 25)]);
        assert_eq!(told(&found.typical), [(Phase::Submit, 0, 20, 0)]);
        assert_eq!(phases(&[], &[]), Anatomy::default());
    }

    #[test]
    fn the_typical_write_has_the_median_latency() {
        let ops = [op(0, 90), op(100, 110), op(200, 230)];
        let found = phases(&[], &ops);
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
            lengths in prop::collection::vec((0u64..30, 1u64..120), 1..8),
        ) {
            let mut at = 0;
            let ops: Vec<OpTime> = lengths.into_iter().map(|(pause, takes)| {
                let start = at + pause;
                at = start + takes;
                op(start, at)
            }).collect();
            let mut total = 0;
            for op in &ops {
                let stretches = phases(&requests, &[*op]).typical;
                let mut end = 0;
                for stretch in &stretches {
                    prop_assert_eq!(stretch.start_ns, end);
                    prop_assert!(stretch.end_ns > stretch.start_ns);
                    end = stretch.end_ns;
                }
                prop_assert_eq!(end, op.end_ns - op.start_ns);
                prop_assert!(stretches.windows(2).all(|two| two[0].phase != two[1].phase));
                let ended: u64 = requests.iter()
                    .filter(|r| r.complete_ns > op.start_ns && r.complete_ns <= op.end_ns)
                    .map(|r| r.bytes).sum();
                prop_assert_eq!(stretches.iter().map(|s| s.bytes).sum::<u64>(), ended);
                total += end;
            }
            // All in one call divide as each alone: the phases of all add up to their latencies.
            let found = phases(&requests, &ops);
            let sum: f64 = found.phases.iter().map(|phase| phase.mean_ns).sum();
            prop_assert!((sum - total as f64 / ops.len() as f64).abs() < 1e-6);
            prop_assert!((found.latency_ns - sum).abs() < 1e-6);
            for phase in &found.phases {
                let alone: u64 = ops.iter()
                    .map(|op| time_in(&phases(&requests, &[*op]).typical, phase.phase)).sum();
                prop_assert!((phase.mean_ns - alone as f64 / ops.len() as f64).abs() < 1e-6);
            }
        }
    }
}
