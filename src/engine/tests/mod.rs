//! Tests of whole runs.

mod failures;
mod files;
mod truth;

use super::*;
use crate::model::cell::{EngineKind, Method, Pattern, Payload, RingOptions};

/// Offsets of eight blocks of 4 KiB.
pub(super) const OFFSETS: [u64; 8] = [0, 4096, 8192, 12_288, 16_384, 20_480, 24_576, 28_672];

/// A lane that writes to nothing.
pub(super) fn nothing() -> Lane<'static> {
    Lane {
        to: To::Nothing,
        offsets: &OFFSETS,
        start: 0,
        data: Data::Fresh(Payload::Random),
    }
}

/// A closed loop of the null engine on a virtual clock: 50 µs each, 1000 operations.
pub(super) fn spec() -> Spec {
    Spec {
        size_bytes: 4096,
        method: Method::ODsync,
        queue_depth: 1,
        pattern: Pattern::Seq,
        kind: EngineKind::Null,
        ring: RingOptions::default(),
        rate_per_s: None,
        one_pass: false,
        seed: 1,
        limits: ops(1000),
        interval_ns: 10_000_000,
        payload_seed: 0,
        op_times: 0,
        null: Some(NullModel {
            latency: Distribution::Constant(50_000.0),
            servers: 1,
        }),
    }
}

/// Exactly this many operations.
pub(super) fn ops(count: u64) -> Limits {
    Limits {
        time_ns: u64::MAX,
        min_ops: 0,
        max_ops: count,
        hard_ns: u64::MAX,
    }
}

/// Runs without a signal to stop.
pub(super) fn go(lanes: Vec<Lane<'_>>, spec: &Spec) -> Sample {
    run(
        &mut Crew::default(),
        lanes,
        spec,
        &AtomicBool::new(false),
        &mut || true,
    )
    .unwrap()
}

#[test]
fn what_a_lane_finds_out_is_refused_too() {
    let real = Spec {
        kind: EngineKind::Sync,
        payload_seed: 0,
        op_times: 0,
        null: None,
        ..spec()
    };
    let preserve = Lane {
        data: Data::Fresh(Payload::Preserve),
        ..nothing()
    };
    for (lane, spec, why) in [
        (nothing(), real, "only the null engine"),
        (
            preserve,
            Spec {
                payload_seed: 0,
                op_times: 0,
                null: None,
                ..spec()
            },
            "can't be made",
        ),
    ] {
        let error = run(
            &mut Crew::default(),
            vec![lane],
            &spec,
            &AtomicBool::new(false),
            &mut || true,
        )
        .unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}
