//! How the time of a write divides into phases, at queue depth 1. Pure: requests in, phases out.

use std::cmp::Reverse;

use super::attribute::{Read, Request};
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
pub fn phases(requests: &[Request], reads: &[Read], ops: &[OpTime]) -> Anatomy {
    let spans = spans(requests, reads);
    let mut begin = 0;
    let divided: Vec<Vec<Stretch>> = ops
        .iter()
        .map(|op| {
            while begin < spans.len() && spans[begin].end_ns <= op.start_ns {
                begin += 1;
            }
            let rest = &spans[begin..];
            let end = rest.partition_point(|span| span.start_ns < op.end_ns);
            // One that goes on keeps in those that began after it and are over.
            let at_device = rest[..end].iter().filter(|span| span.end_ns > op.start_ns);
            divide(op, &at_device.copied().collect::<Vec<Span>>())
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

/// All that was at the device, in the order of its beginning.
fn spans(requests: &[Request], reads: &[Read]) -> Vec<Span> {
    let requests = requests.iter().enumerate().map(|(at, request)| Span {
        start_ns: request.issue_ns,
        end_ns: request.complete_ns,
        phase: phase_of(request, &requests[at + 1..]),
        bytes: request.bytes,
    });
    let reads = reads.iter().map(|read| Span {
        start_ns: read.issue_ns,
        end_ns: read.complete_ns,
        phase: Phase::Read,
        bytes: read.bytes,
    });
    let mut spans: Vec<Span> = requests.chain(reads).collect();
    spans.sort_by_key(|span| (span.start_ns, span.end_ns));
    spans
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
const PRECEDENCE: [Phase; 8] = [
    Phase::DataWrite,
    Phase::JournalWrite,
    Phase::CommitBlock,
    Phase::PreFlush,
    Phase::PostFlush,
    Phase::MetadataWrite,
    Phase::Read,
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
        if span.end_ns > op.end_ns {
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
mod tests;
