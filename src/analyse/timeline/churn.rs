//! What a device wrote for files that nobody needed any more.

use serde::{Deserialize, Serialize};

use crate::analyse::interval::Interval;
use crate::analyse::ratio::{Work, ratio};
use crate::model::cell::WorkloadKind;
use crate::model::devid::DevId;
use crate::model::record::Record;
use crate::model::timeline::Timeline;
use crate::model::traffic::DeviceTraffic;
use crate::model::units::SECTOR_BYTES;

use super::rate::{bins, rate};

/// What churn at one target came to, all repetitions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChurnFigures {
    /// The `id` of the target.
    pub target: String,
    /// Files that were made, written and removed.
    pub files: u64,
    /// Bytes that were written to them.
    pub user_bytes: u64,
    /// The same in a second.
    pub user_bytes_per_s: Option<Interval>,
    /// What the device was asked to write; none where no device counts.
    pub device: Option<ChurnedDevice>,
}

/// What the device below the filesystem wrote while files were made and removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChurnedDevice {
    /// Bytes written while the workload ran.
    pub running_bytes: u64,
    /// Bytes written after it, until nothing was held back any more.
    pub settling_bytes: u64,
    /// Both. All files are gone by then, so none of it was for a file that is still there: file
    /// data, and the filesystem's own metadata and journal, which can't be told apart by counters.
    pub redundant_bytes: u64,
    /// `redundant_bytes` over the bytes that the program wrote.
    pub redundant_share: f64,
    /// The same with its interval, from repetitions; none of too few.
    pub redundant_to_written: Option<Interval>,
    /// Bytes in a second while the workload ran.
    pub mean_bytes_per_s: f64,
    /// The same with its interval; none where the device wrote too seldom for one.
    pub bytes_per_s: Option<Interval>,
    /// The most in any whole second.
    pub peak_bytes_per_s: Option<f64>,
}

/// The figures of each target that has churn, in the record's order.
pub fn churn_figures(record: &Record) -> Vec<ChurnFigures> {
    let targets = record.targets.iter();
    targets
        .filter_map(|target| {
            let all = super::of_target(record, &target.id);
            let is_churn = |line: &&&Timeline| line.workload.kind() == WorkloadKind::Churn;
            let tops = target.tops().unwrap_or_default();
            figures(
                &tops,
                &all.iter().filter(is_churn).copied().collect::<Vec<_>>(),
            )
        })
        .collect()
}

fn figures(tops: &[DevId], timelines: &[&Timeline]) -> Option<ChurnFigures> {
    let first = timelines.first()?;
    let user_bytes = timelines.iter().map(|line| line.bytes).sum();
    Some(ChurnFigures {
        target: first.target.clone(),
        files: timelines.iter().map(|line| line.ops).sum(),
        user_bytes,
        user_bytes_per_s: rate(timelines, |bin| bin.bytes),
        device: device(tops, timelines, user_bytes),
    })
}

fn device(tops: &[DevId], timelines: &[&Timeline], user_bytes: u64) -> Option<ChurnedDevice> {
    let sectors = |traffic: &[DeviceTraffic]| -> Option<u64> {
        let of = |top: &DevId| traffic.iter().find(|one| one.dev == *top);
        let each = tops.iter().map(|top| Some(of(top)?.counted.write_sectors));
        each.sum::<Option<u64>>().filter(|_| !tops.is_empty())
    };
    let written = |pick: fn(&Timeline) -> &Vec<DeviceTraffic>| {
        let each = timelines.iter().map(|line| sectors(pick(line)));
        each.map(|sectors| Some(sectors? * SECTOR_BYTES))
            .sum::<Option<u64>>()
    };
    let running_bytes = written(|line| &line.devices)?;
    let settling_bytes = written(|line| &line.settling)?;
    let redundant_bytes = running_bytes + settling_bytes;
    let share = redundant_bytes as f64 / user_bytes as f64;
    let pairs: Option<Vec<(Work, Work)>> = timelines
        .iter()
        .map(|line| {
            let sectors = sectors(&line.devices)? + sectors(&line.settling)?;
            let work = |amount: u64| Work {
                amount: amount as f64,
                elapsed_ns: line.elapsed_ns as f64,
            };
            Some((work(sectors * SECTOR_BYTES), work(line.bytes)))
        })
        .collect();
    let seconds = timelines.iter().flat_map(|line| {
        let width = 1_000_000_000_u64.checked_div(line.interval_ns).unwrap_or(1);
        bins(line, width as usize, device_bytes)
    });
    let elapsed_ns: u64 = timelines.iter().map(|line| line.elapsed_ns).sum();
    Some(ChurnedDevice {
        mean_bytes_per_s: running_bytes as f64 / elapsed_ns.max(1) as f64 * 1e9,
        running_bytes,
        settling_bytes,
        redundant_bytes,
        redundant_share: if share.is_finite() { share } else { 0.0 },
        redundant_to_written: pairs.as_deref().and_then(ratio),
        bytes_per_s: rate(timelines, device_bytes),
        peak_bytes_per_s: seconds.max().map(|bytes| bytes as f64),
    })
}

/// What the device wrote in an interval.
pub fn device_bytes(interval: &crate::model::timeline::Interval) -> u64 {
    interval.device.map_or(0, |device| device.write_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::timeline::made::{churn, timeline, with_device};
    use crate::model::fixture::PARTITION;

    #[test]
    fn all_that_the_device_wrote_is_redundant_also_after_the_end() {
        // 20 s of 10 files of 1000 bytes a second; the device writes 100 sectors every 5 s.
        let ops = [1; 200];
        let sectors: Vec<u64> = (0..200).map(|at| u64::from(at % 50 == 49) * 100).collect();
        let line = with_device(timeline(churn(), &ops), &sectors, 21);
        let figures = figures(&[PARTITION], &[&line]).unwrap();
        assert_eq!((figures.files, figures.user_bytes), (200, 200_000));
        let device = figures.device.unwrap();
        assert_eq!(device.running_bytes, 400 * 512);
        assert_eq!(device.redundant_bytes, 421 * 512);
        assert!((device.redundant_share - 421.0 * 512.0 / 200_000.0).abs() < 1e-12);
        assert_eq!(device.peak_bytes_per_s, Some(51_200.0));
        assert!((figures.user_bytes_per_s.unwrap().value - 10_000.0).abs() < 1e-6);
    }

    #[test]
    fn repetitions_give_the_share_an_interval() {
        let line = |sectors: u64| with_device(timeline(churn(), &[1; 20]), &[sectors; 20], 0);
        let lines = [line(1), line(2), line(3)];
        let figures = figures(&[PARTITION], &lines.iter().collect::<Vec<_>>()).unwrap();
        let device = figures.device.unwrap();
        let share = device.redundant_to_written.unwrap();
        // Of 1000 bytes a file, 512 to 1536 were written again.
        assert!((device.redundant_share - 1.024).abs() < 1e-9);
        assert!(share.covers(1.024) && share.covers(0.512), "{share:?}");
        assert!(!share.covers(10.0), "{share:?}");
    }

    #[test]
    fn without_a_device_that_counts_there_is_no_such_figure() {
        let figures = figures(&[PARTITION], &[&timeline(churn(), &[1; 20])]).unwrap();
        assert_eq!(figures.device, None);
        assert_eq!(figures.files, 20);
    }
}
