//! A lab's variants by what their workload over time came to.

use serde::{Deserialize, Serialize};

use super::checkpoint::checkpoint_figures;
use super::churn::churn_figures;
use super::wal::wal_figures;
use crate::analyse::explain::unflushed;
use crate::analyse::interval::Interval;
use crate::model::record::Record;

/// What variants are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Commits in a second, checkpoints among them: the more, the better.
    CommitsPerS,
    /// Records in a second to recycled segments: the more, the better.
    RecordsPerS,
    /// What the device wrote for files that were gone, over what was written to them: the less, the
    /// better.
    RedundantToWritten,
}

/// One variant's place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its name.
    pub variant: String,
    /// The `id` of its target.
    pub target: String,
    /// What `figure` is.
    pub by: By,
    /// None where too little was measured for an interval.
    pub figure: Option<Interval>,
    /// Its interval and the best one's overlap: this run could see no difference. The variants ran
    /// one after the other, so a device that drifts may still make one.
    pub is_best: bool,
    /// It is mounted so that it sends no flushes to a cache that must be flushed: what it did is not what
    /// the others did, and it is no candidate for the best.
    pub is_undurable: bool,
}

/// The variants that ran a workload over time, the best first, those without a figure after them, and last
/// those that are not durable.
pub fn standings(record: &Record) -> Vec<Standing> {
    let figures = figures(record);
    let variants = record
        .targets
        .iter()
        .filter_map(|target| Some((target, target.variant.as_ref()?)));
    let mut all: Vec<Standing> = variants
        .filter_map(|(target, variant)| {
            let (_, by, figure) = figures.iter().find(|(id, _, _)| *id == target.id)?;
            Some(Standing {
                variant: variant.name.clone(),
                target: target.id.clone(),
                by: *by,
                figure: *figure,
                is_best: false,
                is_undurable: unflushed(target).is_some(),
            })
        })
        .collect();
    all.sort_by(|one, other| {
        let by_cost = cost(one).total_cmp(&cost(other));
        one.is_undurable.cmp(&other.is_undurable).then(by_cost)
    });
    let best = all.first().filter(|best| !best.is_undurable);
    if let Some(best) = best.and_then(|best| best.figure) {
        for one in all.iter_mut().filter(|one| !one.is_undurable) {
            one.is_best = one
                .figure
                .is_some_and(|of| of.low <= best.high && best.low <= of.high);
        }
    }
    all
}

fn figures(record: &Record) -> Vec<(String, By, Option<Interval>)> {
    let commits = checkpoint_figures(record).into_iter();
    let commits = commits.map(|of| (of.target, By::CommitsPerS, of.per_s));
    let records = wal_figures(record).into_iter();
    let records = records.map(|of| (of.target, By::RecordsPerS, of.recycled.per_s));
    let churned = churn_figures(record).into_iter().map(|of| {
        let share = of.device.and_then(|device| device.redundant_to_written);
        (of.target, By::RedundantToWritten, share)
    });
    commits.chain(records).chain(churned).collect()
}

fn cost(standing: &Standing) -> f64 {
    match (standing.figure, standing.by) {
        (None, _) => f64::INFINITY,
        (Some(figure), By::RedundantToWritten) => figure.value,
        (Some(figure), By::CommitsPerS | By::RecordsPerS) => -figure.value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::timeline::made::{churn, timeline, with_device};
    use crate::model::fixture::Builder;
    use crate::model::record::BaselineKind;
    use crate::model::variant::Variant;

    #[test]
    fn the_least_redundant_comes_first_and_equals_share_its_place() {
        let mut builder = Builder::new("lab");
        for id in ["a", "b", "c", "d"] {
            builder = builder.directory(id, "/mnt", BaselineKind::None, None);
        }
        let mut record = builder.record;
        for target in &mut record.targets {
            target.variant = Some(Variant {
                name: target.id.clone(),
                ..Variant::default()
            });
        }
        for (id, sectors) in [("a", [90, 100, 110]), ("b", [1, 2, 3]), ("c", [1, 3, 2])] {
            for sectors in sectors {
                let mut line = with_device(timeline(churn(), &[1; 20]), &[sectors; 20], 0);
                line.target = id.to_owned();
                record.timelines.push(line);
            }
        }
        let standings = standings(&record);
        let places: Vec<(&str, bool)> = standings
            .iter()
            .map(|one| (one.variant.as_str(), one.is_best))
            .collect();
        assert_eq!(places, [("b", true), ("c", true), ("a", false)]);
        // The best, if it could be had: without barriers, before a cache that must be flushed.
        let target = record.targets.iter_mut().find(|target| target.id == "b");
        let mount = target.unwrap().mount.as_mut().unwrap();
        mount.options.push("nobarrier".to_owned());
        let places = |record: &Record| -> Vec<(String, bool, bool)> {
            let standings = super::standings(record).into_iter();
            let place = |one: Standing| (one.variant, one.is_best, one.is_undurable);
            standings.map(place).collect()
        };
        let of = |name: &str, is_best, is_undurable| (name.to_owned(), is_best, is_undurable);
        let left_out = [
            of("c", true, false),
            of("a", false, false),
            of("b", false, true),
        ];
        assert_eq!(places(&record), left_out);
        // Of a cache that needs no flush, none is missed.
        for target in &mut record.targets {
            target.stack[0].write_cache = Some("write through".to_owned());
        }
        assert_eq!(places(&record)[0], of("b", true, false));
    }
}
