//! Made-up timelines for tests.

use crate::model::cell::Role;
use crate::model::facts::DevId;
use crate::model::histogram::encode;
use crate::model::sample::latency_histogram;
use crate::model::timeline::{Churn, DeviceShare, Interval, Latencies, Timeline, Workload};
use crate::model::traffic::{BlockStat, DeviceTraffic};

pub(crate) fn churn() -> Workload {
    Workload::Churn(Churn {
        file_bytes: 1000,
        write_bytes: 1000,
        pause_ns: 0,
    })
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
            dev: DevId { major: 7, minor: 0 },
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
