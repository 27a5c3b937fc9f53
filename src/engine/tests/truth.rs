//! What is measured, held against known truths on the null engine's virtual clock.

use std::thread;
use std::time::Duration;

use super::*;

fn model(latency: Distribution, servers: u32) -> Option<NullModel> {
    Some(NullModel { latency, servers })
}

/// Time limit, least and most operations, last resort.
fn limits(time_ns: u64, min_ops: u64, max_ops: u64, hard_ns: u64) -> Limits {
    Limits {
        time_ns,
        min_ops,
        max_ops,
        hard_ns,
    }
}

fn close(value: u64, truth: f64, share: f64) -> bool {
    (value as f64 / truth - 1.0).abs() <= share
}

#[test]
fn percentiles_are_those_of_the_distribution() {
    for latency in [
        Distribution::Constant(5e4),
        Distribution::Uniform {
            low: 1e4,
            high: 9e4,
        },
        Distribution::Exponential { mean: 5e4 },
        Distribution::LogNormal {
            median: 5e4,
            sigma: 0.5,
        },
    ] {
        let sample = go(
            vec![nothing()],
            &Spec {
                null: model(latency, 1),
                limits: ops(200_000),
                ..spec()
            },
        );
        assert_eq!(sample.histogram.len(), 200_000);
        for p in [0.5, 0.9, 0.99] {
            // Three digits of the histogram, and three standard errors of the sample's quantile,
            // which with 200,000 draws are below 2.5 % for all of these.
            let measured = sample.histogram.value_at_quantile(p);
            assert!(
                close(measured, latency.quantile(p), 0.026),
                "{latency:?} {p}: {measured}"
            );
        }
        let mean = sample.histogram.mean();
        assert!(
            (mean / latency.mean() - 1.0).abs() < 0.01,
            "{latency:?}: {mean}"
        );
    }
}

#[test]
fn a_constant_latency_is_exact_to_three_digits() {
    let sample = go(vec![nothing()], &spec());
    assert!(close(sample.histogram.min(), 5e4, 1e-3));
    assert!(close(sample.histogram.max(), 5e4, 1e-3));
    assert_eq!((sample.ops, sample.bytes), (1000, 4_096_000));
    assert_eq!(sample.elapsed_ns, 50_000_000);
    // 10 ms intervals of 50 µs operations. One that completes at an interval's end counts in the
    // next.
    assert_eq!(sample.interval_ops, [199, 200, 200, 200, 200, 1]);
}

#[test]
fn a_closed_loop_keeps_the_queue_full() {
    // One server, four in flight: each waits for the three before it.
    let sample = go(
        vec![nothing()],
        &Spec {
            queue_depth: 4,
            ..spec()
        },
    );
    assert_eq!(sample.elapsed_ns, 50_000_000);
    assert!(close(sample.histogram.value_at_quantile(0.5), 2e5, 1e-3));
    // As many servers as are in flight: none waits.
    let wide = Spec {
        queue_depth: 4,
        null: model(Distribution::Constant(5e4), 4),
        ..spec()
    };
    let sample = go(vec![nothing()], &wide);
    assert_eq!(sample.elapsed_ns, 12_500_000);
    assert!(close(sample.histogram.max(), 5e4, 1e-3));
}

#[test]
fn an_open_loop_counts_the_waiting_of_an_overloaded_device() {
    // Arrivals every 83.3 µs, served in 100 µs: operation k waits k x 16.7 µs.
    for queue_depth in [1, 64] {
        let sample = go(
            vec![nothing()],
            &Spec {
                rate_per_s: Some(12_000.0),
                queue_depth,
                null: model(Distribution::Constant(1e5), 1),
                limits: ops(1200),
                ..spec()
            },
        );
        assert_eq!(sample.ops, 1200);
        assert!(close(sample.histogram.min(), 1e5, 1e-3));
        let last_ns = 1e5 + 1199.0 * (1e5 - 1e9 / 12_000.0);
        assert!(
            close(sample.histogram.max(), last_ns, 1e-3),
            "{}",
            sample.histogram.max()
        );
        let median_ns = 1e5 + 599.5 * (1e5 - 1e9 / 12_000.0);
        assert!(close(
            sample.histogram.value_at_quantile(0.5),
            median_ns,
            2e-3
        ));
    }
}

#[test]
fn an_open_loop_below_the_devices_rate_sees_no_waiting() {
    let sample = go(
        vec![nothing()],
        &Spec {
            rate_per_s: Some(5000.0),
            null: model(Distribution::Constant(1e5), 1),
            ..spec()
        },
    );
    assert!(close(sample.histogram.max(), 1e5, 1e-3));
    // The last of 1000 starts after 999 spacings of 200 µs and takes 100 µs.
    assert_eq!(sample.elapsed_ns, 999 * 200_000 + 100_000);
}

#[test]
fn random_service_queues_as_theory_says() {
    // D/M/1 at a load of 0.8: the root of r = exp(-(1 - r) / 0.8) is 0.6286, so the mean time in
    // the system is 50 µs / (1 - 0.6286) = 134.6 µs.
    let sample = go(
        vec![nothing()],
        &Spec {
            rate_per_s: Some(16_000.0),
            queue_depth: 256,
            null: model(Distribution::Exponential { mean: 5e4 }, 1),
            limits: ops(1_000_000),
            ..spec()
        },
    );
    let mean = sample.histogram.mean();
    assert!((mean / 134_600.0 - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn lanes_share_the_rate_and_the_operations() {
    let lanes = || vec![nothing(), nothing(), nothing()];
    let sample = go(
        lanes(),
        &Spec {
            rate_per_s: Some(3000.0),
            ..spec()
        },
    );
    assert_eq!(sample.ops, 1000);
    assert_eq!(sample.elapsed_ns, 999 * 1_000_000 / 3 + 50_000);
    let closed = go(lanes(), &spec());
    // 334 operations in the first lane, 333 in each of the others.
    assert_eq!((closed.ops, closed.elapsed_ns), (1000, 334 * 50_000));
}

#[test]
fn limits_are_exact() {
    for (limits, count) in [
        // Time first; operations that are in flight then are counted.
        (limits(1_000_000, 0, u64::MAX, u64::MAX), 20),
        (limits(1_000_001, 0, u64::MAX, u64::MAX), 21),
        // Not before the least number of operations.
        (limits(1_000_000, 100, u64::MAX, u64::MAX), 100),
        // But never past the last resort.
        (limits(1_000_000, 100, u64::MAX, 2_000_000), 40),
        (limits(1_000_000, 0, 7, u64::MAX), 7),
        (limits(0, 0, 7, u64::MAX), 0),
        (ops(0), 0),
    ] {
        let sample = go(vec![nothing()], &Spec { limits, ..spec() });
        assert_eq!(sample.ops, count, "{limits:?}");
    }
}

#[test]
fn arrivals_before_an_open_loops_end_are_issued_late_or_told() {
    let at = |rate| {
        go(
            vec![nothing()],
            &Spec {
                rate_per_s: Some(rate),
                limits: limits(10_000_000, 0, u64::MAX, u64::MAX),
                ..spec()
            },
        )
    };
    // 300 arrivals are due in 10 ms and take 15 ms: the last waits most, and counts.
    let late = at(30_000.0);
    assert_eq!((late.ops, late.fallbacks.len()), (300, 0));
    assert!(close(late.histogram.max(), 15e6 - 299.0 * 1e9 / 3e4, 1e-3));
    // 600 are due, 400 are served in twice the time.
    let (over, more) = (at(60_000.0), at(80_000.0));
    assert_eq!((over.ops, more.ops), (400, 400));
    assert!(over.fallbacks[0].contains("latencies are missing"));
    // Told once for a whole run of slices.
    assert_eq!(over.fallbacks, more.fallbacks);
    // A rate that is kept leaves none, also when the next arrival lies past the end.
    let kept = at(250.0);
    assert_eq!((kept.ops, kept.fallbacks.len()), (3, 0));
}

#[test]
fn one_pass_ends_after_the_last_block() {
    let lane = Lane {
        start: 3,
        ..nothing()
    };
    let sample = go(
        vec![lane],
        &Spec {
            one_pass: true,
            queue_depth: 2,
            ..spec()
        },
    );
    assert_eq!(sample.ops, 5);
}

#[test]
fn runs_of_one_seed_are_equal() {
    let latency = Distribution::LogNormal {
        median: 5e4,
        sigma: 1.0,
    };
    let run = |seed| {
        go(
            vec![nothing()],
            &Spec {
                seed,
                null: model(latency, 1),
                ..spec()
            },
        )
    };
    assert_eq!(run(7).histogram, run(7).histogram);
    assert_ne!(run(7).elapsed_ns, run(8).elapsed_ns);
}

#[test]
fn a_stop_before_the_start_measures_nothing() {
    let sample = run(
        &mut Crew::default(),
        vec![nothing()],
        &spec(),
        &AtomicBool::new(true),
        &mut || true,
    )
    .unwrap();
    assert_eq!((sample.ops, sample.elapsed_ns), (0, 0));
}

#[test]
fn a_stop_ends_an_endless_run_with_what_was_measured() {
    let stop = AtomicBool::new(false);
    let endless = Spec {
        payload_seed: 0,
        op_times: 0,
        null: None,
        limits: ops(u64::MAX),
        ..spec()
    };
    let sample = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        run(
            &mut Crew::default(),
            vec![nothing()],
            &endless,
            &stop,
            &mut || true,
        )
        .unwrap()
    });
    assert!(sample.ops > 0);
    assert_eq!(sample.histogram.len(), sample.ops);
}

#[test]
fn the_harness_measures_its_own_cost() {
    let sample = go(
        vec![nothing()],
        &Spec {
            payload_seed: 0,
            op_times: 0,
            null: None,
            queue_depth: 4,
            ..spec()
        },
    );
    assert_eq!((sample.ops, sample.errors), (1000, 0));
    assert!(sample.elapsed_ns > 0 && sample.jobs.cpu_ns > 0);
}
