use super::*;
use crate::model::cell::{Method, Pattern};
use crate::model::claims::{ClaimedDevice, Claims, Conditions, Figure, Point, Span, SteadyRound};
use crate::model::fixture::Builder;

/// Ten rounds of 4 KiB writes of about 20 µs: 50K IOPS, 205 MB/s.
fn record(conditions: Conditions, bound: Option<Bound>) -> Record {
    let mut record = Builder::new("validate")
        .device("raw")
        .cell("raw", None, 4096, 20e3, 2000)
        .record;
    let claim = Claim {
        name: "c".to_owned(),
        capacities_bytes: Vec::new(),
        conditions,
        bound,
    };
    record.validation = Some(Validation {
        claims: Claims {
            name: "n".to_owned(),
            about: "a".to_owned(),
            device: ClaimedDevice::default(),
            claims: vec![claim],
            unsaid: Vec::new(),
        },
        as_if: false,
        purged: false,
        trials: vec![Trial {
            cell: Some(record.cells[0].spec.id.clone()),
            ..Trial::default()
        }],
    });
    record
}

fn all_said() -> Conditions {
    Conditions {
        pattern: Some(Pattern::Seq),
        size_bytes: Some(4096),
        queue_depth: Some(1),
        jobs: Some(1),
        method: Some(Method::ODsync),
        direct: Some(true),
        state: Some(DriveState::Any),
        span: Some(Span::Bytes(64 << 20)),
        write_cache: Some(true),
    }
}

fn at_least(iops: f64) -> Option<Bound> {
    Some(Bound {
        figure: Figure::Iops,
        side: Side::AtLeast,
        value: iops,
    })
}

fn at_most(figure: Figure, value: f64) -> Option<Bound> {
    Some(Bound {
        figure,
        side: Side::AtMost,
        value,
    })
}

fn validation(record: &mut Record) -> &mut Validation {
    record.validation.as_mut().unwrap()
}

fn judged(record: &Record) -> Verdict {
    verdicts(record).remove(0)
}

#[track_caller]
fn is(record: &Record, outcome: Outcome, part: &str) {
    let verdict = judged(record);
    assert_eq!(verdict.outcome, outcome, "{verdict:?}");
    assert!(
        verdict.reason.as_deref().unwrap_or("").contains(part),
        "{verdict:?}"
    );
    let passed = match outcome {
        Outcome::Holds => Some(true),
        Outcome::Fails => Some(false),
        _ => None,
    };
    assert_eq!(verdict.passed, passed);
}

#[test]
fn every_figure_is_judged_on_its_side() {
    for (bound, outcome) in [
        (at_least(40e3), Outcome::Holds),
        (at_least(60e3), Outcome::Fails),
        (at_most(Figure::Iops, 60e3), Outcome::Holds),
        (at_most(Figure::MeanNs, 25e3), Outcome::Holds),
        (at_most(Figure::MeanNs, 18e3), Outcome::Fails),
        (at_most(Figure::QuantileNs(0.5), 22e3), Outcome::Holds),
        (at_most(Figure::QuantileNs(0.5), 18e3), Outcome::Fails),
        (at_most(Figure::QuantileNs(0.999), 100e3), Outcome::Fails),
        (at_most(Figure::ThroughputBytesPerS, 250e6), Outcome::Holds),
    ] {
        is(&record(all_said(), bound), outcome, "");
    }
}

#[test]
fn the_intervals_ends_decide_and_a_bound_between_them_is_undecided() {
    let Interval { value, low, high } =
        judged(&record(all_said(), at_least(1.0))).measured.unwrap();
    assert!(low < value && value < high);
    // 99 % sure, and not just 95 %.
    let Interval { low, high, .. } = Interval { value, low, high }.widened(SURE);
    is(&record(all_said(), at_least(low)), Outcome::Holds, "");
    is(
        &record(all_said(), at_least(low + 1.0)),
        Outcome::Undecided,
        "",
    );
    is(
        &record(all_said(), at_least(value)),
        Outcome::Undecided,
        "too near",
    );
    is(
        &record(all_said(), at_least(high)),
        Outcome::Undecided,
        "too near",
    );
    is(
        &record(all_said(), at_least(high + 1.0)),
        Outcome::Fails,
        "",
    );
}

#[test]
fn too_few_writes_for_a_percentile_leave_it_undecided() {
    let record = record(all_said(), at_most(Figure::QuantileNs(0.99999), 1e9));
    is(&record, Outcome::Undecided, "beyond that percentile");
}

#[test]
fn what_differs_is_not_comparable_and_says_what() {
    let mut other = record(all_said(), at_least(40e3));
    validation(&mut other).claims.device.models = vec!["DC-4*".to_owned()];
    is(&other, Outcome::NotComparable, "the model is ACME DC-3");

    let mut other = record(all_said(), at_least(40e3));
    validation(&mut other).claims.claims[0].capacities_bytes = vec![960_000_000_000];
    is(&other, Outcome::NotComparable, "960 GB");

    let mut conditions = all_said();
    conditions.queue_depth = Some(16);
    is(
        &record(conditions, at_least(40e3)),
        Outcome::NotComparable,
        "queue depth 1 was measured, 16 is claimed",
    );

    for (state, part) in [
        (DriveState::Fresh, "not purged"),
        (DriveState::Steady, "not made steady"),
    ] {
        let mut conditions = all_said();
        conditions.state = Some(state);
        is(
            &record(conditions, at_least(40e3)),
            Outcome::NotComparable,
            part,
        );
    }
}

#[test]
fn as_if_judges_all_the_same_and_is_marked() {
    let mut conditions = all_said();
    conditions.queue_depth = Some(16);
    let mut record = record(conditions, at_least(60e3));
    validation(&mut record).as_if = true;
    let verdict = judged(&record);
    assert_eq!(verdict.outcome, Outcome::Fails);
    assert_eq!(verdict.as_if.len(), 1);
    assert!(verdict.as_if[0].contains("queue depth"), "{verdict:?}");
}

#[test]
fn a_claim_that_leaves_its_conditions_open_is_not_refuted_by_others() {
    let mut open = all_said();
    open.queue_depth = None;
    is(&record(open.clone(), at_least(40e3)), Outcome::Holds, "");
    is(
        &record(open.clone(), at_least(60e3)),
        Outcome::NotComparable,
        "queue depth",
    );
    // With one write in flight, a latency is at its best.
    is(
        &record(open.clone(), at_most(Figure::MeanNs, 18e3)),
        Outcome::Fails,
        "",
    );
    // It isn't with more, which were asked for.
    let mut deep = record(open.clone(), at_most(Figure::MeanNs, 18e3));
    deep.cells[0].spec.axes.queue_depth = 32;
    is(&deep, Outcome::NotComparable, "queue depth");
    open.queue_depth = Some(32);
    let mut deep = record(open.clone(), at_most(Figure::MeanNs, 18e3));
    deep.cells[0].spec.axes.queue_depth = 32;
    is(&deep, Outcome::Fails, "");
    open.queue_depth = Some(1);
    // A processor may be what keeps one job from the rate, and no latency.
    open.jobs = None;
    is(
        &record(open.clone(), at_least(60e3)),
        Outcome::NotComparable,
        "leaves open: jobs; try others with a claims file",
    );
    is(
        &record(open.clone(), at_most(Figure::MeanNs, 18e3)),
        Outcome::Fails,
        "",
    );
    open.jobs = Some(1);
    open.state = None;
    let mut record = record(open, at_least(60e3));
    is(&record, Outcome::NotComparable, "--purge");
    validation(&mut record).purged = true;
    is(&record, Outcome::Fails, "");
}

#[test]
fn a_trial_that_was_not_made_says_why() {
    let mut record = record(all_said(), at_least(40e3));
    validation(&mut record).trials[0] = Trial {
        not_run: Some("too large".to_owned()),
        ..Trial::default()
    };
    is(&record, Outcome::NotRun, "too large");
    let mut record = self::record(all_said(), at_least(40e3));
    record.cells[0].ops = 0;
    is(&record, Outcome::NotRun, "ended before it");
    record.cells[0].failed = Some("EIO".to_owned());
    is(&record, Outcome::NotRun, "EIO");
}

#[test]
fn a_claim_without_a_figure_is_measured_and_not_judged() {
    is(
        &record(all_said(), None),
        Outcome::NotComparable,
        "names no figure",
    );
}

fn rounds(iops: &[u64]) -> Vec<SteadyRound> {
    iops.iter()
        .map(|&ops| SteadyRound {
            points: vec![Point {
                ops,
                bytes: ops * 4096,
                elapsed_ns: 1_000_000_000,
                temperature_c: None,
            }],
            mean_ns: Some(1e9 / ops as f64),
        })
        .collect()
}

#[test]
fn only_a_steady_drive_is_judged_as_one() {
    let mut conditions = all_said();
    conditions.state = Some(DriveState::Steady);
    let mut record = record(conditions, at_least(40e3));
    validation(&mut record).trials[0].rounds = rounds(&[90, 50, 40, 40, 40, 41]);
    let verdict = judged(&record);
    assert!(!verdict.window.unwrap().is_steady);
    is(
        &record,
        Outcome::Undecided,
        "did not become steady in 6 rounds",
    );
    validation(&mut record).trials[0]
        .rounds
        .extend(rounds(&[40]));
    is(&record, Outcome::Holds, "");
    assert_eq!(judged(&record).window.unwrap().first_round, 2);
}

#[test]
fn a_cliff_of_the_rounds_is_found() {
    let mut record = record(all_said(), at_least(40e3));
    validation(&mut record).trials[0].rounds = rounds(&[90, 90, 91, 30, 31, 30, 30]);
    assert_eq!(judged(&record).cliffs.len(), 1);
}

#[test]
fn it_is_known_when_it_is_judged_or_precise() {
    assert!(are_known(&record(all_said(), at_least(40e3)), &[0], 1e-9));
    let Interval { value, .. } = judged(&record(all_said(), at_least(1.0))).measured.unwrap();
    let straddling = record(all_said(), at_least(value));
    assert!(!are_known(&straddling, &[0], 1e-9));
    assert!(are_known(&straddling, &[0], 0.5));
    assert!(are_known(&straddling, &[], 1e-9));
}

#[test]
fn a_claim_does_not_hold_on_a_drive_that_stood_still() {
    let mut record = record(all_said(), at_least(1000.0));
    assert_eq!(judged(&record).outcome, Outcome::Holds);
    let mut still = record.cells[0].slices[0].clone();
    record.cells[0].stalled.push(still.clone());
    let verdict = judged(&record);
    assert_eq!(verdict.outcome, Outcome::Undecided);
    assert!(verdict.reason.unwrap().contains("stood still"));
    // What the kernel lost is not the drive's.
    still.rescued = 1;
    record.cells[0].stalled = vec![still];
    assert_eq!(judged(&record).outcome, Outcome::Holds);
}
