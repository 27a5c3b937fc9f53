//! The kernel's counters at each interval's end.

use crate::model::facts::DevId;
use crate::model::timeline::{CpuShare, DeviceShare, Interval};
use crate::model::traffic::BlockStat;
use crate::model::units::SECTOR_BYTES;
use crate::observe::{blockstat, cpustat};
use crate::sys::root::Root;

/// What the kernel had counted at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    device: Option<BlockStat>,
    cpu: Option<CpuShare>,
}

/// Samples, the first from the begin.
pub(super) struct Samples<'a> {
    root: &'a Root,
    device: Option<DevId>,
    taken: Vec<Sample>,
}

impl<'a> Samples<'a> {
    /// Takes the first; `device` is the one below the filesystem.
    pub(super) fn begin(root: &'a Root, device: Option<DevId>) -> Samples<'a> {
        let mut samples = Samples {
            root,
            device,
            taken: Vec::new(),
        };
        samples.take();
        samples
    }

    /// Takes the next, at an interval's end.
    pub(super) fn take(&mut self) {
        self.taken.push(Sample {
            device: self.device.and_then(|dev| blockstat::read(self.root, dev)),
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
            let [before, after] = [pair[0], pair[1]];
            interval.device = before.device.zip(after.device).and_then(device_share);
            let cpu = before.cpu.zip(after.cpu);
            interval.cpu = cpu.map(|(before, after)| cpustat::since(&after, &before));
        }
    }
}

fn device_share((before, after): (BlockStat, BlockStat)) -> Option<DeviceShare> {
    let counted = blockstat::since(&after, &before)?;
    Some(DeviceShare {
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
            device: Some(BlockStat {
                write_sectors: sectors,
                ..BlockStat::default()
            }),
            cpu: Some(CpuShare {
                user_ns,
                ..CpuShare::default()
            }),
        };
        let samples = Samples {
            root: &root,
            device: None,
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
