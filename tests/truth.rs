//! Whole runs over the null engine, on a virtual clock, with latency distributions whose truth is
//! known: do the intervals that are printed cover it as often as they say?

use std::sync::atomic::AtomicBool;

use syncprof::analyse::interval::Interval;
use syncprof::analyse::{gap, stop};
use syncprof::engine::{self, Crew, Data, Distribution, Lane, Limits, NullModel, Spec, To};
use syncprof::model::cell::{Axes, CellSpec, EngineKind, FileState, Method, Pattern, Payload};
use syncprof::model::cell::{RingOptions, Role};
use syncprof::model::facts::Host;
use syncprof::model::record::{
    Baseline, BaselineKind, Cell, Record, Run, SCHEMA, Slice, Target, TargetKind, Tool,
};
use syncprof::session::{self, Ask, Hooks, Outcome, Pace, Progress, SliceError, Slicer};

const RUNS: u64 = 500;
/// What 95 % may look like in 500 runs.
const COVERED: std::ops::RangeInclusive<f64> = 0.92..=0.98;

/// Two cells whose latencies are drawn from known distributions, and drift together.
struct Known {
    now_ns: u64,
    models: [Distribution; 2],
    drift: fastrand::Rng,
    crew: Crew,
}

impl Slicer for Known {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn slice(&mut self, index: usize, ask: &Ask) -> Result<Outcome, SliceError> {
        let lane = Lane {
            to: To::Nothing,
            offsets: &[0],
            start: 0,
            data: Data::Fresh(Payload::Zero),
        };
        let spec = Spec {
            size_bytes: 4096,
            method: Method::ODsync,
            queue_depth: 1,
            pattern: Pattern::Same,
            kind: EngineKind::Null,
            ring: RingOptions::default(),
            rate_per_s: None,
            one_pass: false,
            // Cells that are compared get one seed in a round; their latencies are not one.
            seed: ask.seed ^ self.drift.u64(..),
            limits: Limits {
                time_ns: ask.time_ns,
                min_ops: ask.min_ops,
                max_ops: u64::MAX,
                hard_ns: ask.hard_ns,
            },
            interval_ns: 10_000_000,
            payload_seed: 0,
            op_times: 0,
            null: Some(NullModel {
                latency: self.models[index],
                servers: 1,
            }),
        };
        let sample = engine::run(
            &mut self.crew,
            vec![lane],
            &spec,
            &AtomicBool::new(false),
            &mut |_| {},
        )
        .map_err(|error| SliceError::Fatal(error.into()))?;
        self.now_ns += sample.elapsed_ns;
        Ok(Outcome {
            slice: Slice::of(&sample),
            histogram: sample.histogram,
            handed: None,
            failed: None,
            notes: Vec::new(),
        })
    }
}

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

fn cell(target: &str, role: Role) -> Cell {
    let axes = Axes {
        size_bytes: 4096,
        method: Method::ODsync,
        direct: true,
        queue_depth: 1,
        jobs: 1,
        pattern: Pattern::Seq,
        engine: EngineKind::Null,
        ring: RingOptions::default(),
        span_bytes: 1 << 20,
        rate_per_s: None,
    };
    let file_state = (role == Role::File).then_some(FileState::Overwrite);
    let spec = CellSpec {
        id: role.to_string(),
        target: target.to_owned(),
        role,
        file_state,
        axes,
    };
    Cell::new(spec)
}

fn target(id: &str, kind: TargetKind, baseline: Option<Baseline>) -> Target {
    Target {
        id: id.to_owned(),
        path: format!("/{id}"),
        kind,
        stack: Vec::new(),
        mount: None,
        buffered: None,
        content: None,
        baseline,
        variant: None,
    }
}

fn record(seed: u64, pace: &Pace) -> Record {
    let baseline = Baseline {
        kind: BaselineKind::Extents,
        target: Some("raw".to_owned()),
        reason: None,
        remedy: None,
    };
    Record {
        schema: SCHEMA.to_owned(),
        tool: Tool {
            name: "syncprof".to_owned(),
            version: "0".to_owned(),
        },
        host: Host::default(),
        run: Run {
            verb: "gap".to_owned(),
            command: Vec::new(),
            started: String::new(),
            elapsed_ns: 0,
            seed,
            precision: 0.05,
            budget_ns: pace.budget_ns,
            min_rounds: pace.min_rounds,
            rounds: 0,
            ended: None,
            payload: Payload::Random,
        },
        targets: vec![
            target("file", TargetKind::Directory, Some(baseline)),
            target("raw", TargetKind::Device, None),
        ],
        cells: vec![cell("raw", Role::Raw), cell("file", Role::File)],
        notes: Vec::new(),
        lab: None,
        drives: Vec::new(),
    }
}

/// One run of the two cells, and the gap that it reports.
fn run(seed: u64, raw: Distribution, file: Distribution) -> gap::Gap {
    let pace = Pace {
        budget_ns: 2_000_000_000,
        min_rounds: 8,
        rounds: None,
    };
    let mut record = record(seed, &pace);
    let mut known = Known {
        crew: Crew::default(),
        now_ns: 0,
        models: [raw, file],
        drift: fastrand::Rng::with_seed(!seed),
    };
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
