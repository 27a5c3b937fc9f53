//! What the kernel counted while the engine ran: read right before and right after each pass, so that
//! what is prepared between passes doesn't count.

use crate::model::devid::DevId;
use crate::model::sample::JobUse;
use crate::model::traffic::{BlockStat, DeviceTraffic, FsCount, NeighbourTraffic, ProcessCount};
use crate::observe::fsstat::{FsReading, FsStat};
use crate::observe::workers::Workers;
use crate::observe::{blockstat, fsstat};
use crate::sys::clock;
use crate::sys::root::Root;
use crate::sys::usage;

use super::counters::Counters;

/// What is read.
#[derive(Clone, Copy)]
pub(super) struct Observed<'a> {
    pub(super) root: &'a Root,
    pub(super) counters: &'a Counters,
}

/// One reading.
pub(super) struct Reading {
    devices: Vec<(DevId, Option<BlockStat>)>,
    filesystem: Option<FsReading>,
    worker_requests: Option<u64>,
    own: Own,
}

/// What all threads of this process but the calling one, which only waits for them, used so far.
struct Own {
    other_cpu_ns: u64,
    process: Option<ProcessCount>,
}

impl Own {
    fn read() -> Own {
        Own {
            other_cpu_ns: clock::process_cpu_ns().saturating_sub(clock::thread_cpu_ns()),
            process: usage::of_process()
                .zip(usage::of_thread())
                .map(|(process, thread)| process.since(&thread)),
        }
    }
}

impl Observed<'_> {
    /// Reads them before a pass, and what `workers` counted: the process's own use last, since
    /// reading the others is work of its own.
    pub(super) fn before(&self, workers: Option<&Workers>) -> Reading {
        Reading {
            filesystem: self.filesystem(),
            devices: self.devices(),
            worker_requests: workers.and_then(Workers::read),
            own: Own::read(),
        }
    }

    /// Reads them after a pass: the process's own use first, and the filesystem's counters last,
    /// since jbd2 wakes who waits for a commit before it counts that (the end of
    /// jbd2_journal_commit_transaction() in fs/jbd2/commit.c).
    pub(super) fn after(&self, workers: Option<&Workers>) -> Reading {
        let own = Own::read();
        Reading {
            worker_requests: workers.and_then(Workers::read),
            devices: self.devices(),
            filesystem: self.filesystem(),
            own,
        }
    }

    fn devices(&self) -> Vec<(DevId, Option<BlockStat>)> {
        let neighbours = self.counters.neighbours.iter().map(|(_, dev)| dev);
        let all = self.counters.devices.iter().chain(neighbours);
        all.map(|&dev| (dev, blockstat::read(self.root, dev)))
            .collect()
    }

    fn filesystem(&self) -> Option<FsReading> {
        self.counters.filesystem.as_ref().map(FsStat::read)
    }
}

/// Sums over the passes of a slice.
#[derive(Default)]
pub(super) struct Tally {
    /// None of a device whose counters were not there before and after each pass, or began anew.
    devices: Vec<(DevId, Option<BlockStat>)>,
    /// None where they were not counted.
    pub(super) worker_requests: Option<u64>,
    pub(super) worker_cpu_ns: u64,
    pub(super) process: Option<ProcessCount>,
    pub(super) filesystem: Option<FsCount>,
}

impl Tally {
    /// Adds a pass, in which the engine's own threads used `jobs`. What these used to begin and to end is
    /// not the writes'; what other threads used, io_uring's workers, is.
    pub(super) fn add(&mut self, before: &Reading, after: &Reading, jobs: &JobUse) {
        for (&(dev, before), &(_, after)) in before.devices.iter().zip(&after.devices) {
            let both = after.as_ref().zip(before.as_ref());
            let counted = both.and_then(|(after, before)| blockstat::since(after, before));
            match self.devices.iter_mut().find(|(known, _)| *known == dev) {
                Some((_, sum)) => *sum = sum.zip(counted).map(|(sum, more)| sum.plus(&more)),
                None => self.devices.push((dev, counted)),
            }
        }
        if let Some((before, after)) = before.worker_requests.zip(after.worker_requests) {
            let handed = after.saturating_sub(before);
            self.worker_requests = Some(self.worker_requests.unwrap_or(0) + handed);
        }
        if let Some((before, after)) = before.filesystem.zip(after.filesystem) {
            let counted = fsstat::since(&after, &before);
            self.filesystem = Some(self.filesystem.map_or(counted, |sum| sum.plus(&counted)));
        }
        let threads_ns = after
            .own
            .other_cpu_ns
            .saturating_sub(before.own.other_cpu_ns);
        let worker_cpu_ns = threads_ns.saturating_sub(jobs.cpu_ns);
        self.worker_cpu_ns += worker_cpu_ns;
        if let Some((before, after)) = before.own.process.zip(after.own.process) {
            // All of their time is the kernel's. How a time divides is sampled, for a thread and for the
            // process each on its own (cputime_adjust() in kernel/sched/cputime.c), so that a difference
            // of the two says nothing of it.
            let workers = ProcessCount {
                user_ns: 0,
                system_ns: worker_cpu_ns,
                ..after.since(&before).since(&jobs.took)
            };
            let counted = jobs.driven.plus(&workers);
            self.process = Some(self.process.map_or(counted, |sum| sum.plus(&counted)));
        }
    }

    /// What a device counted, if it did all the time.
    pub(super) fn counted(&self, dev: DevId) -> Option<BlockStat> {
        let found = self.devices.iter().find(|(known, _)| *known == dev);
        found.and_then(|(_, counted)| *counted)
    }

    /// What each of a target's devices counted.
    pub(super) fn devices(&self, counters: &Counters) -> Vec<DeviceTraffic> {
        let traffic = |&dev: &DevId| {
            let counted = self.counted(dev)?;
            Some(DeviceTraffic { dev, counted })
        };
        counters.devices.iter().filter_map(traffic).collect()
    }

    /// What each neighbour counted that was not idle.
    pub(super) fn neighbours(&self, counters: &Counters) -> Vec<NeighbourTraffic> {
        let traffic = |(name, dev): &(String, DevId)| {
            let counted = self.counted(*dev)?;
            let is_idle = counted.reads + counted.writes + counted.discards == 0;
            (!is_idle).then(|| NeighbourTraffic {
                name: name.clone(),
                dev: *dev,
                counted,
            })
        };
        counters.neighbours.iter().filter_map(traffic).collect()
    }

    /// Devices whose counters can't be used.
    pub(super) fn lost(&self) -> impl Iterator<Item = DevId> {
        let lost = self.devices.iter().filter(|(_, sum)| sum.is_none());
        lost.map(|&(dev, _)| dev)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: DevId = DevId { major: 7, minor: 0 };

    fn reading(writes: u64, worker_requests: Option<u64>, other_cpu_ns: u64) -> Reading {
        let counted = BlockStat {
            writes,
            ..BlockStat::default()
        };
        Reading {
            devices: vec![(DEV, Some(counted))],
            worker_requests,
            own: Own {
                other_cpu_ns,
                process: Some(ProcessCount {
                    voluntary_switches: writes,
                    ..ProcessCount::default()
                }),
            },
            filesystem: None,
        }
    }

    #[test]
    fn passes_add_up_and_pauses_between_them_do_not_count() {
        let mut tally = Tally::default();
        let switches = |voluntary_switches| ProcessCount {
            voluntary_switches,
            ..ProcessCount::default()
        };
        // Of five switches, three are its threads', two of these while it wrote.
        let used = JobUse {
            cpu_ns: 50,
            took: switches(3),
            driven: switches(2),
        };
        tally.add(
            &reading(10, Some(1), 100),
            &reading(15, Some(2), 180),
            &used,
        );
        let used = JobUse {
            cpu_ns: 40,
            ..JobUse::default()
        };
        tally.add(
            &reading(90, Some(7), 500),
            &reading(91, Some(9), 520),
            &used,
        );
        assert_eq!(tally.devices.len(), 1);
        assert_eq!(tally.counted(DEV).unwrap().writes, 6);
        assert_eq!(tally.worker_requests, Some(3));
        let process = tally.process.unwrap();
        assert_eq!((process.voluntary_switches, process.system_ns), (5, 30));
        assert_eq!(tally.worker_cpu_ns, 30);
        assert_eq!(tally.lost().count(), 0);
    }

    #[test]
    fn what_cannot_be_counted_stays_unknown() {
        let mut tally = Tally::default();
        tally.add(
            &reading(0, None, 0),
            &reading(0, None, 0),
            &JobUse::default(),
        );
        assert_eq!((tally.worker_requests, tally.filesystem), (None, None));
    }

    #[test]
    fn a_device_that_vanished_or_began_anew_in_one_pass_tells_nothing_of_the_slice() {
        let vanished = || Reading {
            devices: vec![(DEV, None)],
            ..reading(0, None, 0)
        };
        for bad in [
            [reading(5, None, 0), reading(2, None, 0)],
            [reading(5, None, 0), vanished()],
            [vanished(), reading(5, None, 0)],
        ] {
            let mut tally = Tally::default();
            tally.add(
                &reading(1, None, 0),
                &reading(3, None, 0),
                &JobUse::default(),
            );
            tally.add(&bad[0], &bad[1], &JobUse::default());
            tally.add(
                &reading(6, None, 0),
                &reading(9, None, 0),
                &JobUse::default(),
            );
            let counters = Counters {
                devices: vec![DEV],
                ..Counters::default()
            };
            assert_eq!(tally.devices(&counters), []);
            assert_eq!(tally.lost().collect::<Vec<_>>(), [DEV]);
        }
    }

    #[test]
    fn neighbours_are_told_by_name_unless_idle() {
        let mut tally = Tally::default();
        tally.add(
            &reading(1, None, 0),
            &reading(3, None, 0),
            &JobUse::default(),
        );
        let counters = Counters {
            neighbours: vec![("loop0p1".to_owned(), DEV)],
            ..Counters::default()
        };
        assert_eq!(tally.neighbours(&counters)[0].name, "loop0p1");
        assert_eq!(tally.neighbours(&counters)[0].counted.writes, 2);
        tally = Tally::default();
        tally.add(
            &reading(3, None, 0),
            &reading(3, None, 0),
            &JobUse::default(),
        );
        assert_eq!(tally.neighbours(&counters), []);
    }
}
