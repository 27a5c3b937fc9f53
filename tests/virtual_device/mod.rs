//! A device of known latencies on a virtual clock, for tests of whole sessions, and records for it.
#![allow(dead_code)] // Each test program uses its own part of this.

use std::sync::atomic::AtomicBool;

use syncprof::engine::{self, Crew, Data, Distribution, Lane, Limits, NullModel, Spec, To};
use syncprof::model::cell::{Axes, CellSpec, EngineKind, FileState, Method, Pattern, Payload};
use syncprof::model::cell::{RingOptions, Role};
use syncprof::model::facts::{DeviceFacts, Host};
use syncprof::model::record::{
    Baseline, Cell, Record, Run, SCHEMA, Slice, Target, TargetKind, Tool,
};
use syncprof::session::{Outcome, Pace, SliceError, SliceParams, Slicer};

/// Cells whose latencies are drawn from known distributions, and drift together.
pub struct Known {
    now_ns: u64,
    /// Each cell's.
    models: Vec<Distribution>,
    drift: fastrand::Rng,
    crew: Crew,
}

impl Slicer for Known {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn slice(&mut self, index: usize, ask: &SliceParams) -> Result<Outcome, SliceError> {
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
                max_ops: ask.max_ops,
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
            &mut || true,
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

impl Known {
    pub fn new(seed: u64, models: &[Distribution]) -> Known {
        Known {
            now_ns: 0,
            models: models.to_vec(),
            drift: fastrand::Rng::with_seed(!seed),
            crew: Crew::default(),
        }
    }

    /// Gives a cell other latencies from now on.
    pub fn set(&mut self, index: usize, model: Distribution) {
        self.models[index] = model;
    }
}

/// A drive that says nothing of itself but its size.
pub fn drive() -> DeviceFacts {
    let facts = serde_json::json!({
        "name": "null0", "dev": "1:0", "kind": "disk", "size_bytes": 1 << 30,
        "lower": [],
    });
    serde_json::from_value(facts).unwrap()
}

pub fn cell(target: &str, role: Role) -> Cell {
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

pub fn target(id: &str, kind: TargetKind, baseline: Option<Baseline>) -> Target {
    Target {
        id: id.to_owned(),
        path: format!("/{id}"),
        kind,
        stack: Vec::new(),
        mount: None,
        beside: Vec::new(),
        idle: None,
        buffered: None,
        nocow: None,
        content: None,
        baseline,
        variant: None,
    }
}

/// A record of these cells before anything is measured, as `pace` would have it.
pub fn record(
    verb: &str,
    seed: u64,
    pace: &Pace,
    targets: Vec<Target>,
    cells: Vec<Cell>,
) -> Record {
    Record {
        schema: SCHEMA.to_owned(),
        tool: Tool {
            name: "syncprof".to_owned(),
            version: "0".to_owned(),
        },
        host: Host::default(),
        run: Run {
            verb: verb.to_owned(),
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
        targets,
        cells,
        timelines: Vec::new(),
        drives: Vec::new(),
        durability: None,
        notes: Vec::new(),
        lab: None,
        validation: None,
    }
}
