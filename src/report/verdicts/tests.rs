use serde_json::Value;

use crate::model::claims::{
    Bound, Claim, ClaimedDevice, Claims, Conditions, DriveState, Figure, Point, Series, Side,
    SteadyRound, Trial, Validation,
};
use crate::model::fixture::Builder;
use crate::model::record::Record;
use crate::report::{Style, json, render};

fn claim(name: &str, capacity_gb: Option<u64>, bound: Bound) -> Claim {
    Claim {
        name: name.to_owned(),
        capacities_bytes: capacity_gb
            .map(|gb| gb * 1_000_000_000)
            .into_iter()
            .collect(),
        conditions: Conditions {
            size_bytes: Some(4096),
            queue_depth: Some(1),
            jobs: Some(1),
            state: Some(DriveState::Any),
            ..Conditions::default()
        },
        bound: Some(bound),
    }
}

fn bound(figure: Figure, side: Side, value: f64) -> Bound {
    Bound {
        figure,
        side,
        value,
    }
}

fn round(ops: u64) -> SteadyRound {
    SteadyRound {
        points: vec![Point {
            ops,
            bytes: ops * 4096,
            elapsed_ns: 1_000_000_000,
            temperature_c: Some(51.0),
        }],
        mean_ns: Some(1e9 / ops as f64),
    }
}

/// Three claims on a drive of 50K IOPS and 12.5K durable ones.
fn record() -> Record {
    let mut record = Builder::new("validate")
        .device("raw")
        .cell("raw", None, 4096, 20e3, 2000)
        .cell("raw", None, 4096, 80e3, 2000)
        .record;
    record.cells[1].spec.id = "durable".to_owned();
    let mut worn = claim("stable", None, bound(Figure::Iops, Side::AtLeast, 230e3));
    worn.conditions.state = Some(DriveState::Steady);
    let trial = Trial {
        cell: Some(record.cells[0].spec.id.clone()),
        durable_cell: Some("durable".to_owned()),
        ..Trial::default()
    };
    record.validation = Some(Validation {
        claims: Claims {
            name: "acme".to_owned(),
            about: "what ACME says".to_owned(),
            device: ClaimedDevice {
                source: Some("a leaflet".to_owned()),
                ..ClaimedDevice::default()
            },
            claims: vec![
                claim(
                    "write",
                    None,
                    bound(Figure::ThroughputBytesPerS, Side::AtLeast, 100e6),
                ),
                worn,
                claim(
                    "latency",
                    Some(960),
                    bound(Figure::QuantileNs(0.5), Side::AtMost, 25e3),
                ),
            ],
            unsaid: vec!["the weather".to_owned()],
        },
        as_if: false,
        purged: false,
        trials: vec![
            trial.clone(),
            Trial {
                rounds: [900, 890, 300, 300, 300, 310, 305].map(round).into(),
                filled: Some(Series {
                    bytes: 2 << 30,
                    elapsed_ns: 3_000_000_000,
                    points: Vec::new(),
                }),
                ..trial.clone()
            },
            trial,
        ],
    });
    record
}

fn text(width: usize) -> String {
    let style = Style {
        width: Some(width),
        color: false,
    };
    render(&record(), &style)
}

#[test]
fn the_answer_counts_verdicts_and_names_the_claims_and_their_source() {
    let text = text(160);
    assert!(
        text.contains("Of 3 claims of acme: 1 holds, 1 fails, 1 not comparable"),
        "{text}"
    );
    assert!(
        text.contains("Claims: what ACME says (a leaflet)"),
        "{text}"
    );
    assert!(text.contains("Unsaid besides: the weather."), "{text}");
}

#[test]
fn each_claim_stands_beside_what_was_measured_and_what_is_durable() {
    let text = text(160);
    let row = |start: &str| {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_else(|| panic!("no row {start:?} in {text}"))
            .to_owned()
    };
    let throughput = row("1     ≥ 100 MB/s");
    assert!(
        throughput.contains("holds") && throughput.matches('[').count() == 2,
        "{throughput}"
    );
    assert!(row("2    ≥ 230K IOPS").contains("fails"), "{text}");
    assert!(row("3  p50 ≤ 25.0 µs").contains("not comparable"), "{text}");
    assert!(
        text.contains("3: not comparable: the capacity is 1920.38 GB"),
        "{text}"
    );
    assert!(text.contains("latency (960 GB)"), "{text}");
}

#[test]
fn the_steady_state_shows_its_figures_a_plot_and_its_window() {
    let text = text(160);
    assert!(
        text.contains("Steady state for 2 (stable): reached in rounds 3 to 7"),
        "{text}"
    );
    assert!(
        text.contains("(at most 20 %)") && text.contains("(at most 10 %)"),
        "{text}"
    );
    let rounds: Vec<&str> = text.lines().filter(|line| line.ends_with("  51")).collect();
    assert_eq!(rounds.len(), 7, "{text}");
    assert_eq!(
        rounds[0].matches('█').count(),
        30,
        "the largest fills the plot: {text}"
    );
    assert_eq!(rounds.iter().filter(|line| line.contains('*')).count(), 5);
    assert!(
        text.contains("2.00 GiB were written in order in 3.00 s"),
        "{text}"
    );
}

#[test]
fn everything_fits_a_terminal_of_80_columns() {
    for line in text(80).lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn json_says_passed_or_not_or_null() {
    let value = json(&record()).unwrap();
    let passed: Vec<&Value> = value["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verdict| &verdict["passed"])
        .collect();
    assert_eq!(
        passed,
        [&Value::Bool(true), &Value::Bool(false), &Value::Null]
    );
    let verdict = &value["verdicts"][1];
    assert_eq!(verdict["bound"]["figure"], "iops");
    assert_eq!(verdict["window"]["is_steady"], true);
    assert!(verdict["measured"]["low"].as_f64().unwrap() > 40e3);
    let plain = json(&Builder::new("raw").record).unwrap();
    assert!(plain["verdicts"].as_array().unwrap().is_empty());
}
