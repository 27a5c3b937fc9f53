//! What a cell's writes took of the processor, and of their filesystem's journal.

use serde::{Deserialize, Serialize};

use crate::model::record::{Cell, Record, Slice};
use crate::model::traffic::{ProcessCount, XfsLogCount};

/// One cell, by its slices in which each was counted. Everything is per write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// The `id` of the cell.
    pub cell: String,
    /// Processor time in the program; an estimate, as the kernel divides it by its clock's ticks.
    pub user_ns: f64,
    /// Processor time in the kernel, io_uring's worker threads included; an estimate too.
    pub system_ns: f64,
    /// Times that a thread of the program went to sleep.
    pub voluntary_switches: f64,
    /// Times that a thread's processor was taken away.
    pub involuntary_switches: f64,
    /// ext3 and ext4: journal transactions that were committed while it ran.
    pub transactions: Option<f64>,
    /// XFS: log buffers written.
    pub log_writes: Option<f64>,
    /// XFS: bytes of them.
    pub log_bytes: Option<f64>,
}

/// Every cell whose slices were counted, in the record's order.
pub fn efforts(record: &Record) -> Vec<Effort> {
    record.cells.iter().filter_map(effort).collect()
}

fn effort(cell: &Cell) -> Option<Effort> {
    let process =
        |of: fn(&ProcessCount) -> u64| per_write(cell, |slice| slice.process.as_ref().map(of));
    let log = |of: fn(&XfsLogCount) -> u64| {
        per_write(cell, |slice| slice.filesystem?.xfs_log.as_ref().map(of))
    };
    Some(Effort {
        cell: cell.spec.id.clone(),
        user_ns: process(|process| process.user_ns)?,
        system_ns: process(|process| process.system_ns)?,
        voluntary_switches: process(|process| process.voluntary_switches)?,
        involuntary_switches: process(|process| process.involuntary_switches)?,
        transactions: per_write(cell, |slice| slice.filesystem?.jbd2_transactions),
        log_writes: log(|log| log.writes),
        log_bytes: log(|log| log.bytes),
    })
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
    use crate::model::record::BaselineKind;
    use crate::model::traffic::FsCount;

    #[test]
    fn sums_are_divided_by_the_writes_of_the_slices_that_were_counted() {
        let builder = Builder::new("file").directory("t0", "/data", BaselineKind::None, None);
        let mut record = builder
            .cell("t0", Some(FileState::Trunc), 4096, 100e3, 100)
            .record;
        assert_eq!(efforts(&record), []);
        let slices = &mut record.cells[0].slices;
        let ops = slices[0].ops;
        for slice in &mut slices[..2] {
            slice.process = Some(ProcessCount {
                user_ns: 1000 * slice.ops,
                system_ns: 4000 * slice.ops,
                voluntary_switches: 2 * slice.ops,
                involuntary_switches: 0,
            });
        }
        slices[0].filesystem = Some(FsCount {
            jbd2_transactions: Some(ops),
            ..FsCount::default()
        });
        let effort = &efforts(&record)[0];
        assert_eq!((effort.user_ns, effort.system_ns), (1000.0, 4000.0));
        assert_eq!(effort.voluntary_switches, 2.0);
        assert_eq!(effort.transactions, Some(1.0));
        assert_eq!(effort.log_writes, None);
    }
}
