//! Made-up timelines for tests.

use crate::model::cell::Role;
use crate::model::fixture::PARTITION;
use crate::model::histogram::encode;
use crate::model::sample::latency_histogram;
use crate::model::timeline::{
    Checkpoint, Churn, DeviceShare, Interval, Latencies, Phase, Timeline, WalAppend, Workload,
    Writeback,
};
use crate::model::traffic::{BlockStat, DeviceTraffic};

pub(crate) fn churn() -> Workload {
    Workload::Churn(Churn {
        file_bytes: 1000,
        write_bytes: 1000,
        pause_ns: 0,
    })
}

pub(crate) fn checkpoint() -> Workload {
    Workload::Checkpoint(Checkpoint {
        clients: 4,
        group_commit: false,
        record_bytes: 1000,
        log_bytes: 1 << 20,
        data_bytes: 1 << 24,
        page_bytes: 8192,
        dirty_pages_per_s: 2000.0,
        interval_ns: 2_000_000_000,
        spread_share: 0.0,
    })
}

pub(crate) fn wal_append() -> Workload {
    Workload::WalAppend(WalAppend {
        record_bytes: 1000,
        segment_bytes: 1 << 20,
        kept_segments: 3,
    })
}

/// The same with checkpoints from and to these milliseconds. Commits are shared out among phases by
/// whole intervals.
pub(crate) fn with_checkpoints(mut timeline: Timeline, spans_ms: &[(u64, u64)]) -> Timeline {
    let interval_ns = timeline.interval_ns;
    let ops = |from_ns: u64, to_ns: u64| {
        let range = (from_ns / interval_ns) as usize..(to_ns / interval_ns) as usize;
        timeline.intervals[range].iter().map(|bin| bin.ops).sum()
    };
    let mut phases = Vec::new();
    let mut from_ns = 0;
    let mut add = |from_ns, to_ns, checkpoint| {
        phases.push(Phase {
            start_ns: from_ns,
            end_ns: to_ns,
            ops: ops(from_ns, to_ns),
            checkpoint,
        });
    };
    for &(start_ms, end_ms) in spans_ms {
        let (start_ns, end_ns) = (start_ms * 1_000_000, end_ms * 1_000_000);
        add(from_ns, start_ns, None);
        let writeback = Writeback {
            pages: 500,
            fsync_ns: end_ns - start_ns,
        };
        add(start_ns, end_ns, Some(writeback));
        from_ns = end_ns;
    }
    add(from_ns, timeline.elapsed_ns, None);
    timeline.phases = phases;
    timeline
}

/// A timeline with so many operations of 1000 bytes in each interval of 100 ms.
pub(crate) fn timeline(workload: Workload, ops: &[u64]) -> Timeline {
    let none = Latencies {
        latency_ns: None,
        histogram_v2: encode(&latency_histogram()),
        out_of_range: 0,
    };
    let length_ns = ops.len() as u64 * 100_000_000;
    let interval = |&ops: &u64| Interval {
        ops,
        bytes: ops * 1000,
        ..Interval::default()
    };
    Timeline {
        target: "d0".to_owned(),
        role: Role::File,
        segments: None,
        repetition: 0,
        workload,
        duration_ns: length_ns,
        started_ns: 0,
        elapsed_ns: length_ns,
        ops: ops.iter().sum(),
        bytes: ops.iter().sum::<u64>() * 1000,
        errors: 0,
        failed: None,
        interval_ns: 100_000_000,
        intervals: ops.iter().map(interval).collect(),
        phases: Vec::new(),
        switches: Vec::new(),
        dirtied_pages: 0,
        outside: none,
        inside: None,
        devices: Vec::new(),
        settling: Vec::new(),
    }
}

/// The same with a device that wrote so many sectors in each interval, and `settling` after the end.
pub(crate) fn with_device(mut timeline: Timeline, sectors: &[u64], settling: u64) -> Timeline {
    let traffic = |write_sectors| {
        vec![DeviceTraffic {
            dev: PARTITION,
            counted: BlockStat {
                write_sectors,
                ..BlockStat::default()
            },
        }]
    };
    for (interval, sectors) in timeline.intervals.iter_mut().zip(sectors) {
        interval.device = Some(DeviceShare {
            write_bytes: sectors * 512,
            ..DeviceShare::default()
        });
    }
    timeline.devices = traffic(sectors.iter().sum());
    timeline.settling = traffic(settling);
    timeline
}
