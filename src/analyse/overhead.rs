//! What a cell's writes took of the processor, and of their filesystem's journal.

use serde::{Deserialize, Serialize};

use crate::model::cell::EngineKind;
use crate::model::record::{Cell, Record, Slice};
use crate::model::traffic::{ProcessCount, XfsCount};

/// The share of a run's time that waking its own threads may take: 0.2 % was seen.
const WAKING: f64 = 0.01;

/// One cell, by its slices in which each was counted. Everything is per write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteOverhead {
    /// The `id` of the cell.
    pub cell: String,
    /// Processor time in the program. The kernel counts the sum of this and `system_ns` exactly, and
    /// divides it by what its clock's ticks find.
    pub user_ns: f64,
    /// Processor time in the kernel, on behalf of the program's threads.
    pub system_ns: f64,
    /// Processor time of io_uring's own threads, workers and pollers; none where nothing was handed
    /// to them.
    pub io_uring_ns: Option<f64>,
    /// Times that a thread of the program, io_uring's among them, went to sleep.
    pub voluntary_switches: f64,
    /// Times that a thread's processor was taken away.
    pub involuntary_switches: f64,
    /// ext3 and ext4: journal transactions that were committed while it ran.
    pub transactions: Option<f64>,
    /// ext3 and ext4: how long a commit took; the mean over slices of the journal's own moving
    /// average. None where nothing was committed.
    pub commit_ns: Option<f64>,
    /// XFS: log buffers written.
    pub log_writes: Option<f64>,
    /// XFS: bytes of them.
    pub log_bytes: Option<f64>,
    /// XFS: times that somebody wanted the log on disk.
    pub log_forces: Option<f64>,
    /// XFS: bytes that programs wrote to the filesystem's files, the cell's own among them.
    pub filesystem_bytes: Option<f64>,
}

/// Every cell whose slices were counted, in the record's order.
pub fn efforts(record: &Record) -> Vec<WriteOverhead> {
    record.cells.iter().filter_map(effort).collect()
}

fn effort(cell: &Cell) -> Option<WriteOverhead> {
    let process =
        |of: fn(&ProcessCount) -> u64| per_write(cell, |slice| slice.process.as_ref().map(of));
    let jbd2 = |slice: &Slice| slice.filesystem?.jbd2;
    let xfs =
        |of: fn(&XfsCount) -> u64| per_write(cell, |slice| slice.filesystem?.xfs.as_ref().map(of));
    let io_uring_ns = per_write(cell, |slice| {
        let own = slice.process.and(slice.worker_cpu_ns);
        own.filter(|_| uses_threads(cell))
    });
    Some(WriteOverhead {
        cell: cell.spec.id.clone(),
        user_ns: process(|process| process.user_ns)?,
        // Those threads never run the program.
        system_ns: (process(|process| process.system_ns)? - io_uring_ns.unwrap_or(0.0)).max(0.0),
        io_uring_ns,
        voluntary_switches: process(|process| process.voluntary_switches)?,
        involuntary_switches: process(|process| process.involuntary_switches)?,
        transactions: per_write(cell, |slice| Some(jbd2(slice)?.transactions)),
        commit_ns: mean(
            cell.slices
                .iter()
                .filter_map(|slice| jbd2(slice)?.commit_ns),
        ),
        log_writes: xfs(|xfs| xfs.log_writes),
        log_bytes: xfs(|xfs| xfs.log_bytes),
        log_forces: xfs(|xfs| xfs.log_forces),
        filesystem_bytes: per_write(cell, |slice| slice.filesystem?.xfs?.written_bytes),
    })
}

/// io_uring's own threads did something for the cell. Waking the run's threads is counted as theirs
/// too, so that time alone must be more than that would take.
fn uses_threads(cell: &Cell) -> bool {
    let axes = &cell.spec.axes;
    let all_ns = || {
        let each = cell.slices.iter().filter_map(|slice| slice.worker_cpu_ns);
        each.sum::<u64>() as f64
    };
    axes.engine == EngineKind::Uring
        && (axes.ring.sqpoll
            || cell.handed.map_or_else(
                || all_ns() > WAKING * cell.elapsed_ns as f64,
                |handed| handed.requests > 0,
            ))
}

fn mean(values: impl Iterator<Item = u64>) -> Option<f64> {
    let (count, sum) = values.fold((0u64, 0.0), |(count, sum), value| {
        (count + 1, sum + value as f64)
    });
    (count > 0).then(|| sum / count as f64)
}

/// The sum of a count over the slices that have it, per write of these; none if none has.
fn per_write(cell: &Cell, count: impl Fn(&Slice) -> Option<u64>) -> Option<f64> {
    let mut ops = 0;
    let mut sum = 0;
    for slice in &cell.slices {
        if let Some(count) = count(slice) {
            ops += slice.ops;
            sum += count;
        }
    }
    (ops > 0).then(|| sum as f64 / ops as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cell::FileState;
    use crate::model::fixture::Builder;
    use crate::model::record::{BaselineKind, Handed};
    use crate::model::traffic::{FsCount, Jbd2Count};

    fn record() -> Record {
        let builder = Builder::new("file").directory("t0", "/data", BaselineKind::None, None);
        let mut record = builder
            .cell("t0", Some(FileState::Trunc), 4096, 100e3, 100)
            .record;
        assert_eq!(efforts(&record), []);
        for slice in &mut record.cells[0].slices[..2] {
            slice.process = Some(ProcessCount {
                user_ns: 1000 * slice.ops,
                system_ns: 4000 * slice.ops,
                voluntary_switches: 2 * slice.ops,
                involuntary_switches: 0,
            });
        }
        record
    }

    #[test]
    fn sums_are_divided_by_the_writes_of_the_slices_that_were_counted() {
        let mut record = record();
        let slice = &mut record.cells[0].slices[0];
        slice.filesystem = Some(FsCount {
            jbd2: Some(Jbd2Count {
                transactions: slice.ops,
                requested: None,
                commit_ns: Some(300_000),
            }),
            ..FsCount::default()
        });
        let effort = &efforts(&record)[0];
        assert_eq!((effort.user_ns, effort.system_ns), (1000.0, 4000.0));
        assert_eq!(effort.voluntary_switches, 2.0);
        assert_eq!(effort.transactions, Some(1.0));
        assert_eq!(effort.commit_ns, Some(300_000.0));
        assert_eq!(effort.log_writes, None);
    }

    #[test]
    fn time_of_io_urings_threads_is_told_apart() {
        let mut record = record();
        for slice in &mut record.cells[0].slices {
            slice.worker_cpu_ns = Some(3000 * slice.ops);
        }
        let told = |record: &Record| {
            let effort = &efforts(record)[0];
            (effort.system_ns, effort.io_uring_ns)
        };
        assert_eq!(told(&record), (1000.0, Some(3000.0)));
        record.cells[0].handed = Some(Handed::default());
        assert_eq!(told(&record), (4000.0, None));
    }
}
