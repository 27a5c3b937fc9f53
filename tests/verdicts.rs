//! Whole trials of claims over the null engine, on a virtual clock, where the truth is known: do
//! verdicts come out right?

mod virtual_device;

use syncprof::analyse::steady::{last_window, tracked};
use syncprof::analyse::stop;
use syncprof::analyse::verdict::{Outcome, Verdict, are_known, verdicts};
use syncprof::engine::Distribution;
use syncprof::model::cell::{Method, Role};
use syncprof::model::claims::{
    Bound, Claim, ClaimedDevice, Claims, Conditions, DriveState, Figure, Side, SteadyRound, Trial,
    Validation,
};
use syncprof::model::record::{Ended, Record, TargetKind};
use syncprof::session::{
    self, MAX_ROUNDS, Outcome as Sliced, Pace, Progress, SliceError, SliceParams, Slicer, Stage,
    TrialPlan, Watch,
};

use virtual_device::{Known, cell, record, target};

const RUNS: u64 = 100;
/// Of them, so many must come out right.
const RIGHT: u64 = 95;

const CLAIMED: Distribution = Distribution::LogNormal {
    median: 100_000.0,
    sigma: 0.4,
};
/// Of the same writes made durable.
const DURABLE: Distribution = Distribution::Exponential { mean: 300_000.0 };

/// Goes on as the program does, and tells nobody.
struct AsTheProgram;

impl Watch for AsTheProgram {
    fn stage(&mut self, _: &[usize], _: &Stage) {}

    fn before_slice(&mut self, _: &[usize], _: &Progress, _: &Record) {}

    fn save(&mut self, _: &Record) -> anyhow::Result<()> {
        Ok(())
    }

    fn precise(&self, claims: &[usize], part: &Record) -> bool {
        stop::precise_enough(part, part.run.precision, part.run.min_rounds)
            && are_known(part, claims, part.run.precision)
    }

    fn steady(&self, _: &[usize], record: &Record, rounds: &[SteadyRound]) -> bool {
        let bound = record.validation.as_ref().unwrap().claims.claims[0].bound;
        let values = tracked(rounds, bound.map(|bound| bound.figure));
        last_window(&values).is_some_and(|window| window.is_steady)
    }

    fn interrupted(&self) -> bool {
        false
    }
}

/// A record with one claim, whose cells are those of a device.
fn claimed(seed: u64, pace: &Pace, state: DriveState, bound: Bound) -> Record {
    let mut cells = vec![cell("raw", Role::Raw), cell("raw", Role::Raw)];
    cells[0].spec.axes.method = Method::None;
    for (cell, name) in cells.iter_mut().zip(["plain", "durable"]) {
        cell.spec.id = name.to_owned();
        if state == DriveState::Steady {
            cell.spec.id += "/steady";
        }
    }
    let ids: Vec<String> = cells.iter().map(|cell| cell.spec.id.clone()).collect();
    let axes = &cells[0].spec.axes;
    let claim = Claim {
        name: "claim".to_owned(),
        capacities_bytes: Vec::new(),
        conditions: Conditions {
            pattern: Some(axes.pattern),
            size_bytes: Some(axes.size_bytes),
            queue_depth: Some(axes.queue_depth),
            jobs: Some(axes.jobs),
            state: Some(state),
            ..Conditions::default()
        },
        bound: Some(bound),
    };
    let mut record = record(
        "validate",
        seed,
        pace,
        vec![target("raw", TargetKind::Device, None)],
        cells,
    );
    // A drive without facts differs from all that is claimed; here its facts are not the matter.
    record.targets[0].stack = vec![virtual_device::drive()];
    record.validation = Some(Validation {
        claims: Claims {
            name: "claims".to_owned(),
            about: "claims".to_owned(),
            device: ClaimedDevice::default(),
            claims: vec![claim],
            unsaid: Vec::new(),
        },
        as_if: false,
        purged: false,
        trials: vec![Trial {
            cell: Some(ids[0].clone()),
            durable_cell: Some(ids[1].clone()),
            ..Trial::default()
        }],
    });
    record
}

const PACE: Pace = Pace {
    budget_ns: 2_000_000_000,
    min_rounds: 8,
    rounds: None,
};

fn verdict(record: &mut Record, slicer: &mut dyn Slicer, fill: bool) -> Verdict {
    let course = TrialPlan {
        pace: PACE,
        fill: fill.then_some((0, 64 << 20, 4096)),
        round_ns: 100_000_000,
    };
    session::validate(record, slicer, &course, &mut AsTheProgram).unwrap();
    verdicts(record).remove(0)
}

fn bound(figure: Figure, side: Side, value: f64) -> Bound {
    Bound {
        figure,
        side,
        value,
    }
}

/// The truth of each figure.
fn truth(figure: Figure) -> f64 {
    match figure {
        Figure::Iops => 1e9 / CLAIMED.mean(),
        Figure::ThroughputBytesPerS => 4096e9 / CLAIMED.mean(),
        Figure::MeanNs => CLAIMED.mean(),
        Figure::QuantileNs(share) => CLAIMED.quantile(share),
    }
}

/// How many of the runs come out so, with a bound of `factor` times the truth.
fn count(figure: Figure, side: Side, factor: f64, outcome: Outcome) -> u64 {
    let right = (0..RUNS).filter(|&seed| {
        let bound = bound(figure, side, factor * truth(figure));
        let mut record = claimed(seed, &PACE, DriveState::Any, bound);
        let mut known = Known::new(seed, &[CLAIMED, DURABLE]);
        verdict(&mut record, &mut known, false).outcome == outcome
    });
    let count = right.count() as u64;
    println!("{figure} {side} {factor} times the truth: {outcome:?} {count} of {RUNS}");
    count
}

/// A throughput is judged as its writes per second are.
const FIGURES: [(Figure, Side, f64); 3] = [
    (Figure::Iops, Side::AtLeast, 0.1),
    (Figure::MeanNs, Side::AtMost, 0.1),
    (Figure::QuantileNs(0.99), Side::AtMost, 0.15),
];

#[test]
fn what_holds_holds_and_what_fails_fails() {
    for (figure, side, off) in FIGURES {
        let [low, high] = match side {
            Side::AtLeast => [Outcome::Holds, Outcome::Fails],
            Side::AtMost => [Outcome::Fails, Outcome::Holds],
        };
        assert!(count(figure, side, 1.0 - off, low) >= RIGHT);
        assert!(count(figure, side, 1.0 + off, high) >= RIGHT);
    }
}

#[test]
fn a_bound_at_the_truth_is_undecided() {
    for (figure, side, _) in FIGURES {
        assert!(count(figure, side, 1.0, Outcome::Undecided) >= RIGHT);
    }
}

#[test]
fn another_drive_is_not_comparable_whatever_it_does() {
    let right = (0..RUNS).filter(|&seed| {
        let figure = bound(Figure::Iops, Side::AtLeast, 0.5 * truth(Figure::Iops));
        let mut record = claimed(seed, &PACE, DriveState::Any, figure);
        let mut known = Known::new(seed, &[CLAIMED, DURABLE]);
        let device = &mut record.validation.as_mut().unwrap().claims.device;
        device.models = vec!["another*".to_owned()];
        verdict(&mut record, &mut known, false).outcome == Outcome::NotComparable
    });
    assert_eq!(right.count() as u64, RUNS);
}

#[test]
fn the_durable_side_is_its_own_and_the_interval_covers_it() {
    let covered = (0..RUNS).filter(|&seed| {
        let figure = bound(Figure::Iops, Side::AtLeast, 1.0);
        let mut record = claimed(seed, &PACE, DriveState::Any, figure);
        let mut known = Known::new(seed, &[CLAIMED, DURABLE]);
        let durable = verdict(&mut record, &mut known, false).durable.unwrap();
        durable.covers(1e9 / DURABLE.mean())
    });
    let covered = covered.count();
    assert!((90..=100).contains(&covered), "{covered}");
}

/// A drive that gets slower by `factor` with each slice, at most `steps` times.
struct Worn {
    known: Known,
    factor: f64,
    steps: i32,
    slices: i32,
}

impl Slicer for Worn {
    fn now_ns(&self) -> u64 {
        self.known.now_ns()
    }

    fn slice(&mut self, index: usize, ask: &SliceParams) -> Result<Sliced, SliceError> {
        let worn = self.factor.powi(self.slices.min(self.steps));
        self.slices += 1;
        self.known.set(
            0,
            Distribution::LogNormal {
                median: 100_000.0 * worn,
                sigma: 0.4,
            },
        );
        self.known.slice(index, ask)
    }
}

fn worn(seed: u64, factor: f64, steps: i32, iops: f64) -> (Record, Verdict) {
    let figure = bound(Figure::Iops, Side::AtLeast, iops);
    let mut record = claimed(seed, &PACE, DriveState::Steady, figure);
    let mut slicer = Worn {
        known: Known::new(seed, &[CLAIMED, DURABLE]),
        factor,
        steps,
        slices: 0,
    };
    let verdict = verdict(&mut record, &mut slicer, true);
    (record, verdict)
}

#[test]
fn a_drive_is_judged_by_what_it_does_once_it_is_steady() {
    // Twelve slices from fresh to a fourth of it, of which the sequential writes take some.
    let (factor_each, steps) = (4_f64.powf(1.0 / 12.0), 12);
    let steady = truth(Figure::Iops) / 4.0;
    for (factor, outcome) in [(0.9, Outcome::Holds), (1.1, Outcome::Fails)] {
        let right = (0..RUNS).filter(|&seed| {
            let (record, verdict) = worn(seed, factor_each, steps, factor * steady);
            let trial = &record.validation.as_ref().unwrap().trials[0];
            assert_eq!(trial.filled.as_ref().unwrap().bytes, 2 * (64 << 20));
            verdict.outcome == outcome && verdict.window.unwrap().is_steady
        });
        assert!(right.count() as u64 >= RIGHT, "{factor}");
    }
}

#[test]
fn a_drive_that_never_gets_steady_is_undecided_after_25_rounds() {
    let (record, verdict) = worn(1, 1.1, 1000, 1.0);
    let trial = &record.validation.as_ref().unwrap().trials[0];
    assert_eq!(trial.rounds.len(), MAX_ROUNDS);
    assert_eq!(verdict.outcome, Outcome::Undecided);
    assert!(verdict.reason.unwrap().contains("25 rounds"));
    assert!(matches!(
        record.run.ended,
        Some(Ended::Precise | Ended::Budget)
    ));
}
