//! What a log costs whose segments are made anew, against one that recycles them.

use serde::{Deserialize, Serialize};

use crate::analyse::interval::Interval;
use crate::analyse::ratio::ratio;
use crate::model::cell::{Role, WorkloadKind};
use crate::model::record::Record;
use crate::model::timeline::{Segments, Timeline};

use super::rate::{median, rate};
use super::steady::{Steadiness, steadiness};

/// A log at one target, all repetitions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalFigures {
    /// The `id` of the target.
    pub target: String,
    /// Segments made anew.
    pub created: SideFigures,
    /// Segments recycled.
    pub recycled: SideFigures,
    /// Records in a second, recycled over created, from paired repetitions.
    pub recycled_to_created: Option<Interval>,
    /// The device's side; none without one.
    pub raw: Option<SideFigures>,
    /// Raw over recycled.
    pub raw_to_recycled: Option<Interval>,
    /// Raw over created.
    pub raw_to_created: Option<Interval>,
}

/// One side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideFigures {
    /// Records.
    pub records: u64,
    /// Records in a second, changes of segments among them.
    pub per_s: Option<Interval>,
    /// Changes from one segment to the next.
    pub switches: usize,
    /// The median time of one.
    pub switch_ns: Option<f64>,
    /// By whole seconds; none of fewer than three.
    pub steadiness: Option<Steadiness>,
}

/// The figures of each directory with a log of segments, in the record's order.
pub fn wal_figures(record: &Record) -> Vec<WalFigures> {
    let targets = record.targets.iter();
    targets
        .filter_map(|target| {
            let own = super::of_target(record, &target.id).into_iter();
            let own: Vec<&Timeline> = own
                .filter(|line| line.workload.kind() == WorkloadKind::WalAppend)
                .filter(|line| line.role == Role::File)
                .collect();
            let baseline = target.baseline.as_ref().and_then(|b| b.target.as_ref());
            let raw = baseline.map(|id| super::of_target(record, id));
            (!own.is_empty()).then(|| figures(&target.id, &own, &raw.unwrap_or_default()))
        })
        .collect()
}

fn figures(target: &str, own: &[&Timeline], raw: &[&Timeline]) -> WalFigures {
    let of = |segments: Segments| -> Vec<&Timeline> {
        let ours = own.iter().filter(|line| line.segments == Some(segments));
        ours.copied().collect()
    };
    let (created, recycled) = (of(Segments::Created), of(Segments::Recycled));
    WalFigures {
        target: target.to_owned(),
        created: side(&created),
        recycled: side(&recycled),
        recycled_to_created: compared(&recycled, &created),
        raw: (!raw.is_empty()).then(|| side(raw)),
        raw_to_recycled: compared(raw, &recycled),
        raw_to_created: compared(raw, &created),
    }
}

fn side(timelines: &[&Timeline]) -> SideFigures {
    let switches = timelines.iter().flat_map(|line| &line.switches);
    let took: Vec<f64> = switches.map(|switch| switch.took_ns as f64).collect();
    SideFigures {
        records: timelines.iter().map(|line| line.ops).sum(),
        per_s: rate(timelines, |bin| bin.ops),
        switches: took.len(),
        switch_ns: median(took),
        steadiness: steadiness(timelines),
    }
}

/// One side's rate over the other's, from paired repetitions.
fn compared(one: &[&Timeline], other: &[&Timeline]) -> Option<Interval> {
    let pairs: Vec<_> = one
        .iter()
        .filter_map(|one| {
            let other = other
                .iter()
                .find(|other| other.repetition == one.repetition)?;
            Some((super::whole_work(one), super::whole_work(other)))
        })
        .collect();
    ratio(&pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::timeline::made::{timeline, wal_append};
    use crate::model::timeline::Switch;

    fn line(segments: Segments, repetition: u32, ops: u64) -> Timeline {
        let mut line = timeline(wal_append(), &[ops; 20]);
        line.segments = Some(segments);
        line.repetition = repetition;
        line.switches = vec![Switch {
            at_ns: 1,
            took_ns: 1000 * u64::from(repetition + 1),
        }];
        line
    }

    #[test]
    fn sides_are_compared_within_repetitions() {
        // The machine drifts by half; the ratio doesn't.
        let lines: Vec<Timeline> = [(0, 100), (1, 80), (2, 50)]
            .into_iter()
            .flat_map(|(repetition, ops)| {
                [
                    line(Segments::Created, repetition, ops),
                    line(Segments::Recycled, repetition, ops * 3),
                ]
            })
            .collect();
        let figures = figures("d0", &lines.iter().collect::<Vec<_>>(), &[]);
        let ratio = figures.recycled_to_created.unwrap();
        assert!(
            (ratio.value - 3.0).abs() < 1e-9 && ratio.high - ratio.low < 1e-6,
            "{ratio:?}"
        );
        assert_eq!(figures.created.records, 20 * 230);
        assert_eq!(
            (figures.recycled.switches, figures.recycled.switch_ns),
            (3, Some(2000.0))
        );
        assert_eq!((figures.raw, figures.raw_to_created), (None, None));
    }

    #[test]
    fn two_repetitions_give_no_interval() {
        let lines = [
            line(Segments::Created, 0, 10),
            line(Segments::Recycled, 0, 20),
            line(Segments::Created, 1, 10),
        ];
        let figures = figures("d0", &lines.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(figures.recycled_to_created, None);
    }
}
