//! The kernel's counters at each interval's end.

use crate::model::devid::DevId;
use crate::model::timeline::{CpuShare, DeviceShare, Interval};
use crate::model::traffic::BlockStat;
use crate::model::units::SECTOR_BYTES;
use crate::observe::{blockstat, cpustat};
use crate::sys::root::Root;

/// What the kernel had counted at one moment.
#[derive(Clone, Debug)]
struct Sample {
    devices: Vec<Option<BlockStat>>,
    cpu: Option<CpuShare>,
}

/// Samples, the first from the begin.
pub(super) struct Samples<'a> {
    root: &'a Root,
    devices: &'a [DevId],
    taken: Vec<Sample>,
}

impl<'a> Samples<'a> {
    /// Takes the first; `devices` are those below the filesystem, whose sums are told.
    pub(super) fn begin(root: &'a Root, devices: &'a [DevId]) -> Samples<'a> {
        let mut samples = Samples {
            root,
            devices,
            taken: Vec::new(),
        };
        samples.take();
        samples
    }

    /// Takes the next, at an interval's end.
    pub(super) fn take(&mut self) {
        self.taken.push(Sample {
            devices: self
                .devices
                .iter()
                .map(|&dev| blockstat::read(self.root, dev))
                .collect(),
            cpu: cpustat::read(self.root),
        });
    }

    /// Adds what was counted between the samples to the intervals, and intervals in which nothing
    /// but that was counted.
    pub(super) fn fill(&self, intervals: &mut Vec<Interval>) {
        let between = self.taken.len().saturating_sub(1);
        if intervals.len() < between {
            intervals.resize(between, Interval::default());
        }
        for (interval, pair) in intervals.iter_mut().zip(self.taken.windows(2)) {
            let [before, after] = pair else { continue };
            interval.device = device_share(&before.devices, &after.devices);
            let cpu = before.cpu.zip(after.cpu);
            interval.cpu = cpu.map(|(before, after)| cpustat::since(&after, &before));
        }
    }
}

/// The sums over all devices; none where one of them can't be told, or there is none.
fn device_share(before: &[Option<BlockStat>], after: &[Option<BlockStat>]) -> Option<DeviceShare> {
    let mut counted = BlockStat::default();
    for (before, after) in before.iter().zip(after) {
        counted = counted.plus(&blockstat::since(after.as_ref()?, before.as_ref()?)?);
    }
    (!before.is_empty()).then_some(DeviceShare {
        write_bytes: counted.write_sectors * SECTOR_BYTES,
        writes: counted.writes,
        flushes: counted.flushes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_go_to_the_intervals_between_samples() {
        let root = Root::host();
        let sample = |sectors: u64, user_ns: u64| Sample {
            devices: [sectors, 1]
                .map(|write_sectors| {
                    Some(BlockStat {
                        write_sectors,
                        ..BlockStat::default()
                    })
                })
                .into(),
            cpu: Some(CpuShare {
                user_ns,
                ..CpuShare::default()
            }),
        };
        let samples = Samples {
            root: &root,
            devices: &[],
            taken: vec![sample(10, 5), sample(12, 5), sample(20, 9)],
        };
        let mut intervals = vec![Interval {
            ops: 3,
            ..Interval::default()
        }];
        samples.fill(&mut intervals);
        let bytes: Vec<u64> = intervals
            .iter()
            .map(|interval| interval.device.unwrap().write_bytes)
            .collect();
        assert_eq!(bytes, [2 * 512, 8 * 512]);
        assert_eq!(intervals[0].ops, 3);
        assert_eq!(intervals[1].cpu.unwrap().user_ns, 4);
    }
}
