//! Whole runs over the null engine, on a virtual clock, with latency distributions whose truth is
//! known: do the intervals that are printed cover it as often as they say?

mod virtual_device;

use syncprof::analyse::interval::Interval;
use syncprof::analyse::{gap, stop};
use syncprof::engine::Distribution;
use syncprof::model::cell::Role;
use syncprof::model::record::{Baseline, BaselineKind, Record, TargetKind};
use syncprof::session::{self, Hooks, Pace, Progress};

use virtual_device::{Known, cell, record, target};

const RUNS: u64 = 500;
/// What 95 % may look like in 500 runs.
const COVERED: std::ops::RangeInclusive<f64> = 0.92..=0.98;

/// Stops as the program does.
struct AsTheProgram;

impl Hooks for AsTheProgram {
    fn before_slice(&mut self, _: &Progress, _: &Record) {}

    fn after_round(&mut self, _: &Record) -> anyhow::Result<()> {
        Ok(())
    }

    fn precise(&self, record: &Record) -> bool {
        stop::precise_enough(record, record.run.precision, record.run.min_rounds)
    }

    fn interrupted(&self) -> bool {
        false
    }
}

/// A file's cell and the raw one that it is compared with.
fn two_sides(seed: u64, pace: &Pace) -> Record {
    let baseline = Baseline {
        kind: BaselineKind::Extents,
        target: Some("raw".to_owned()),
        reason: None,
        remedy: None,
    };
    let targets = vec![
        target("file", TargetKind::Directory, Some(baseline)),
        target("raw", TargetKind::Device, None),
    ];
    let cells = vec![cell("raw", Role::Raw), cell("file", Role::File)];
    record("gap", seed, pace, targets, cells)
}

/// One run of the two cells, and the gap that it reports.
fn run(seed: u64, raw: Distribution, file: Distribution) -> gap::Gap {
    let pace = Pace {
        budget_ns: 2_000_000_000,
        min_rounds: 8,
        rounds: None,
    };
    let mut record = two_sides(seed, &pace);
    let mut known = Known::new(seed, &[raw, file]);
    session::run(&mut record, &mut known, &pace, &mut AsTheProgram).unwrap();
    assert!(record.run.rounds >= 8);
    gap::gaps(&record).remove(0)
}

/// How often a figure's interval was given, and covered the truth.
#[derive(Debug, Default)]
struct Covered {
    given: u64,
    held: u64,
}

impl Covered {
    fn add(&mut self, interval: Option<Interval>, truth: f64) {
        if let Some(interval) = interval {
            self.given += 1;
            self.held += u64::from(interval.low <= truth && truth <= interval.high);
        }
    }

    /// The interval is as good as it says. A figure is left out where a run has too few samples
    /// for it, but not often.
    #[track_caller]
    fn is_as_said(&self) {
        assert!(self.given >= RUNS * 9 / 10, "{self:?}");
        assert!(
            COVERED.contains(&(self.held as f64 / self.given as f64)),
            "{self:?}"
        );
    }
}

#[test]
fn intervals_cover_the_truth_as_often_as_they_say() {
    for (raw, file) in [
        (
            Distribution::LogNormal {
                median: 100_000.0,
                sigma: 0.4,
            },
            Distribution::LogNormal {
                median: 180_000.0,
                sigma: 0.6,
            },
        ),
        (
            Distribution::Exponential { mean: 150_000.0 },
            Distribution::Exponential { mean: 200_000.0 },
        ),
        (
            Distribution::Uniform {
                low: 50_000.0,
                high: 150_000.0,
            },
            Distribution::LogNormal {
                median: 250_000.0,
                sigma: 0.3,
            },
        ),
    ] {
        let [mut ratio, mut p50, mut p99] = [const { Covered { given: 0, held: 0 } }; 3];
        let delta = |p: f64| file.quantile(p) - raw.quantile(p);
        for seed in 0..RUNS {
            let gap = run(seed, raw, file);
            ratio.add(gap.throughput_ratio, file.mean() / raw.mean());
            p50.add(gap.p50_delta_ns, delta(0.5));
            p99.add(gap.p99_delta_ns, delta(0.99));
        }
        println!("{raw:?} against {file:?}: ratio {ratio:?}, p50 {p50:?}, p99 {p99:?}");
        ratio.is_as_said();
        p50.is_as_said();
        p99.is_as_said();
    }
}

#[test]
fn raw_against_raw_seldom_reports_a_difference() {
    let same = Distribution::LogNormal {
        median: 120_000.0,
        sigma: 0.5,
    };
    let differs = (0..RUNS).filter(|&seed| {
        let ratio = run(seed + 10_000, same, same).throughput_ratio.unwrap();
        !(ratio.low <= 1.0 && 1.0 <= ratio.high)
    });
    let share = differs.count() as f64 / RUNS as f64;
    println!("A/A: {share}");
    assert!(share <= 0.07, "{share}");
}
