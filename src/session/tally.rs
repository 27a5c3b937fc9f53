//! What the kernel counted while the engine ran: read right before and right after each pass, so that
//! what is prepared between passes doesn't count.

use crate::model::facts::DevId;
use crate::model::traffic::{BlockStat, DeviceTraffic, FsCount, ProcessCount};
use crate::observe::fsstat::FsStat;
use crate::observe::workers::Workers;
use crate::observe::{blockstat, fsstat, process};
use crate::sys::clock;
use crate::sys::root::Root;

/// What is read.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) root: &'a Root,
    pub(super) stack: &'a [DevId],
    /// The filesystem of a directory.
    pub(super) filesystem: Option<&'a FsStat>,
}

/// One reading.
pub(super) struct Reading {
    devices: Vec<(DevId, Option<BlockStat>)>,
    worker_requests: Option<u64>,
    /// Processor time of all threads but the calling one.
    other_cpu_ns: u64,
    process: Option<ProcessCount>,
    filesystem: Option<FsCount>,
}

impl Observed<'_> {
    /// Reads them, and what `workers` counted.
    pub(super) fn read(&self, workers: Option<&Workers>) -> Reading {
        let counters = |&dev: &DevId| (dev, blockstat::read(self.root, dev));
        Reading {
            devices: self.stack.iter().map(counters).collect(),
            worker_requests: workers.and_then(Workers::read),
            other_cpu_ns: clock::process_cpu_ns().saturating_sub(clock::thread_cpu_ns()),
            process: process::read(),
            filesystem: self.filesystem.map(FsStat::read),
        }
    }
}

/// Sums over the passes of a slice.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) devices: Vec<DeviceTraffic>,
    /// None where they were not counted.
    pub(super) worker_requests: Option<u64>,
    pub(super) worker_cpu_ns: u64,
    pub(super) process: Option<ProcessCount>,
    pub(super) filesystem: Option<FsCount>,
}

impl Tally {
    /// Adds a pass, in which the engine's own threads used `jobs_cpu_ns` of processor time.
    pub(super) fn add(&mut self, before: &Reading, after: &Reading, jobs_cpu_ns: u64) {
        for (&(dev, before), &(_, after)) in before.devices.iter().zip(&after.devices) {
            let Some((before, after)) = before.zip(after) else {
                continue;
            };
            let counted = blockstat::since(&after, &before);
            match self.devices.iter_mut().find(|device| device.dev == dev) {
                Some(device) => device.counted = device.counted.plus(&counted),
                None => self.devices.push(DeviceTraffic { dev, counted }),
            }
        }
        if let Some((before, after)) = before.worker_requests.zip(after.worker_requests) {
            let handed = after.saturating_sub(before);
            self.worker_requests = Some(self.worker_requests.unwrap_or(0) + handed);
        }
        if let Some((before, after)) = before.process.zip(after.process) {
            let counted = after.since(&before);
            self.process = Some(self.process.map_or(counted, |sum| sum.plus(&counted)));
        }
        if let Some((before, after)) = before.filesystem.zip(after.filesystem) {
            let counted = fsstat::since(&after, &before);
            self.filesystem = Some(self.filesystem.map_or(counted, |sum| sum.plus(&counted)));
        }
        let threads_ns = after.other_cpu_ns.saturating_sub(before.other_cpu_ns);
        self.worker_cpu_ns += threads_ns.saturating_sub(jobs_cpu_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(writes: u64, worker_requests: Option<u64>, other_cpu_ns: u64) -> Reading {
        let dev = DevId { major: 7, minor: 0 };
        let counted = BlockStat {
            writes,
            ..BlockStat::default()
        };
        Reading {
            devices: vec![(dev, Some(counted))],
            worker_requests,
            other_cpu_ns,
            process: Some(ProcessCount {
                voluntary_switches: writes,
                ..ProcessCount::default()
            }),
            filesystem: Some(FsCount {
                jbd2_transactions: Some(2 * writes),
                ..FsCount::default()
            }),
        }
    }

    #[test]
    fn passes_add_up_and_pauses_between_them_do_not_count() {
        let mut tally = Tally::default();
        tally.add(&reading(10, Some(1), 100), &reading(15, Some(2), 180), 50);
        tally.add(&reading(90, Some(7), 500), &reading(91, Some(9), 520), 40);
        assert_eq!(tally.devices.len(), 1);
        assert_eq!(tally.devices[0].counted.writes, 6);
        assert_eq!(tally.worker_requests, Some(3));
        assert_eq!(tally.process.unwrap().voluntary_switches, 6);
        assert_eq!(tally.filesystem.unwrap().jbd2_transactions, Some(12));
        assert_eq!(tally.worker_cpu_ns, 30);
    }

    #[test]
    fn what_cannot_be_counted_stays_unknown() {
        let mut tally = Tally::default();
        tally.add(&reading(0, None, 0), &reading(0, None, 0), 0);
        assert_eq!(tally.worker_requests, None);
    }
}
