//! What the matrix multiplies out to, and what it refuses.

use super::*;
use crate::model::cell::RingOptions;
use crate::model::cell::{Method, Pattern};
use proptest::prelude::*;
use proptest::sample::subsequence;
use std::collections::HashSet;

fn file(limit_bytes: u64) -> TargetPlan {
    TargetPlan {
        id: "t0".to_owned(),
        role: Role::File,
        logical_block_bytes: 512,
        span_limit_bytes: limit_bytes,
    }
}

fn raw(block_bytes: u64, limit_bytes: u64) -> TargetPlan {
    TargetPlan {
        id: "t1".to_owned(),
        role: Role::Raw,
        logical_block_bytes: block_bytes,
        span_limit_bytes: limit_bytes,
    }
}

fn given(sizes: &[u64]) -> Matrix {
    Matrix {
        sizes: Sizes::Given(sizes.to_vec()),
        ..Matrix::default()
    }
}

fn refusal(matrix: &Matrix) -> String {
    let text = cells(matrix, &file(1 << 30)).unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn the_default_is_twelve_sizes_on_one_span() {
    let cells = cells(&Matrix::default(), &file(1 << 40)).unwrap();
    assert_eq!(cells.len(), 12);
    assert_eq!(cells[3].id, "t0/file/overwrite/o_dsync/4K/qd1/j1/seq");
    assert!(cells.iter().all(|cell| cell.axes.span_bytes == 64 << 20));
}

#[test]
fn each_axis_has_its_place_in_a_cell_s_id() {
    let id = |change: fn(&mut Matrix)| {
        let mut matrix = given(&[4096]);
        change(&mut matrix);
        cells(&matrix, &file(1 << 30)).unwrap()[0].id.clone()
    };
    let plain = "t0/file/overwrite/o_dsync/4K/qd1/j1/seq";
    for (id, wanted) in [
        (id(|_| ()), plain.to_owned()),
        (id(|m| m.span_bytes = Some(8 << 20)), plain.to_owned()),
        (
            id(|m| m.methods = vec![Method::Fsync]),
            plain.replace("o_dsync", "fsync"),
        ),
        (
            id(|m| m.queue_depths = vec![8]),
            plain.replace("qd1", "qd8"),
        ),
        (id(|m| m.jobs = vec![2]), plain.replace("j1", "j2")),
        (
            id(|m| m.patterns = vec![Pattern::Rand]),
            plain.replace("seq", "rand"),
        ),
        (
            id(|m| m.file_states = vec![FileState::Append]),
            plain.replace("overwrite", "append"),
        ),
        (
            id(|m| m.engines = vec![EngineKind::Sync]),
            format!("{plain}/sync"),
        ),
        (id(|m| m.direct = vec![false]), format!("{plain}/buffered")),
        (id(|m| m.ring.sqpoll = true), format!("{plain}/sqpoll")),
        (id(|m| m.ring.iopoll = true), format!("{plain}/iopoll")),
        (
            id(|m| m.rates_per_s = vec![Some(100.5)]),
            format!("{plain}/rate100.5"),
        ),
        (
            id(|m| {
                m.engines = vec![EngineKind::Null];
                m.direct = vec![false];
                m.ring.sqpoll = true;
                m.rates_per_s = vec![Some(7.0)];
            }),
            format!("{plain}/null/buffered/sqpoll/rate7"),
        ),
    ] {
        assert_eq!(id, wanted);
    }
}

#[test]
fn the_span_holds_sixteen_of_the_largest_blocks_for_each_job() {
    let mut matrix = given(&[4096, 32 << 20]);
    matrix.jobs = vec![1, 2];
    let cells = cells(&matrix, &file(1 << 40)).unwrap();
    let spans: Vec<u64> = cells
        .iter()
        .map(|cell| cell.axes.span_bytes >> 20)
        .collect();
    assert_eq!(spans, [512, 512, 1024, 1024]);
}

#[test]
fn a_small_target_takes_the_sizes_that_fit_and_names_the_others() {
    let small = raw(4096, 300 << 10);
    let cells = cells(&Matrix::default(), &small).unwrap();
    let sizes: Vec<u64> = cells
        .iter()
        .map(|cell| cell.axes.size_bytes >> 10)
        .collect();
    assert_eq!(sizes, [4, 8, 16, 32, 64, 128, 256]);
    assert!(cells.iter().all(|cell| cell.axes.span_bytes == 256 << 10));
    let skipped = skipped(&Matrix::default(), &small);
    assert_eq!(skipped.len(), 5);
    assert!(
        skipped[0].reason.contains("logical block of 4096 bytes"),
        "{skipped:?}"
    );
    assert!(skipped[4].reason.contains("300 KiB"), "{skipped:?}");
}

#[test]
fn a_given_size_that_does_not_fit_is_an_error() {
    assert!(refusal(&given(&[1000])).contains("size 1000: not a multiple"));
    assert!(refusal(&given(&[2 << 30])).contains("size 2G: larger than the 1.00 GiB"));
    let mut matrix = given(&[1 << 20]);
    matrix.span_bytes = Some(1 << 20);
    matrix.jobs = vec![2];
    assert!(refusal(&matrix).contains("span has for each of 2 jobs"));
    matrix = given(&[4096]);
    matrix.span_bytes = Some(2 << 30);
    assert!(refusal(&matrix).contains("span 2G: larger than the 1.00 GiB"));
}

#[test]
fn buffered_writes_may_have_any_size() {
    let mut matrix = given(&[2300]);
    matrix.direct = vec![false];
    let cells = cells(&matrix, &file(1 << 30)).unwrap();
    assert_eq!(
        cells[0].id,
        "t0/file/overwrite/o_dsync/2300/qd1/j1/seq/buffered"
    );
    assert_eq!(cells[0].axes.span_bytes % 2300, 0);
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let refuse = |change: fn(&mut Matrix)| {
        let mut matrix = Matrix::default();
        change(&mut matrix);
        refusal(&matrix)
    };
    for (text, part) in [
        (refuse(|m| m.queue_depths = vec![0]), "queue depth 0"),
        (refuse(|m| m.jobs = vec![2000]), "2000 jobs"),
        (refuse(|m| m.rates_per_s = vec![Some(0.0)]), "rate 0"),
        (refuse(|m| m.rates_per_s = vec![Some(f64::NAN)]), "rate NaN"),
        (
            refuse(|m| (m.engines, m.queue_depths) = (vec![EngineKind::Sync], vec![4])),
            "--jobs 4",
        ),
        (
            refuse(|m| (m.engines, m.ring.sqpoll) = (vec![EngineKind::Sync], true)),
            "no ring",
        ),
        (
            refuse(|m| (m.ring.iopoll, m.methods) = (true, vec![Method::Fsync])),
            "iopoll cannot do method fsync",
        ),
        (
            refuse(|m| (m.ring.iopoll, m.direct) = (true, vec![false])),
            "iopoll needs direct",
        ),
        (
            refuse(|m| {
                (m.file_states, m.patterns) = (vec![FileState::Append], vec![Pattern::Rand]);
            }),
            "file state append needs pattern seq",
        ),
        (
            refuse(|m| {
                (m.file_states, m.patterns) = (vec![FileState::TruncEach], vec![Pattern::Rand]);
            }),
            "trunc-each needs pattern seq or same",
        ),
        (
            refuse(|m| {
                (m.file_states, m.queue_depths) = (vec![FileState::TruncEach], vec![8]);
            }),
            "trunc-each cannot keep queue depth 8",
        ),
        (
            refuse(|m| (m.sizes, m.queue_depths) = (Sizes::Given(vec![1 << 20]), vec![4096])),
            "4.00 GiB of buffers",
        ),
    ] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

#[test]
fn devices_have_no_file_states_to_be_refused() {
    let matrix = Matrix {
        patterns: vec![Pattern::Rand],
        file_states: vec![FileState::Append, FileState::Trunc],
        ..Matrix::default()
    };
    let cells = cells(&matrix, &raw(512, 1 << 30)).unwrap();
    assert_eq!(cells.len(), 12);
    assert!(cells.iter().all(|cell| cell.file_state.is_none()));
}

#[test]
fn trunc_each_is_issued_by_the_sync_engine_and_its_baseline_too() {
    let mut matrix = given(&[4096]);
    matrix.file_states = vec![FileState::Overwrite, FileState::TruncEach];
    matrix.engines = vec![EngineKind::Uring, EngineKind::Sync];
    let cells = cells(&matrix, &file(1 << 30)).unwrap();
    assert_eq!(cells.len(), 3, "{cells:?}");
    let raw = raw_counterparts(&cells, &raw(512, 1 << 30));
    let ids: Vec<&str> = raw.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "t1/raw/o_dsync/4K/qd1/j1/seq",
            "t1/raw/o_dsync/4K/qd1/j1/seq/sync"
        ]
    );
}

#[test]
fn a_baseline_with_larger_blocks_skips_the_smaller_sizes_aloud() {
    let cells = cells(&given(&[512, 4096]), &file(1 << 30)).unwrap();
    let found = raw_counterparts(&cells, &raw(4096, 1 << 30));
    assert_eq!(found.cells.len(), 1);
    assert_eq!(found.skipped.len(), 1);
    assert_eq!(found.skipped[0].size_bytes, 512);
    let none = raw_counterparts(&cells, &raw(512, 1 << 20));
    assert!(
        none.cells.is_empty() && none.skipped[0].reason.contains("--span"),
        "{none:?}"
    );
}

prop_compose! {
    fn any_matrix()(
        sizes in prop::option::of(subsequence(vec![512_u64, 1536, 4096, 12288, 65536, 1 << 20], 1..6)),
        methods in subsequence(Method::ALL.to_vec(), 1..4),
        direct in subsequence(vec![true, false], 1..=2),
        queue_depths in subsequence(vec![1_u32, 2, 32], 1..=3),
        jobs in subsequence(vec![1_u32, 3, 4], 1..=3),
        patterns in subsequence(Pattern::ALL.to_vec(), 1..=3),
        file_states in subsequence(FileState::ALL.to_vec(), 1..=5),
        engines in subsequence(EngineKind::ALL.to_vec(), 1..=3),
        polls in (any::<bool>(), any::<bool>()),
        span_bytes in prop::option::of(1_u64..1 << 28),
        rates_per_s in subsequence(vec![None, Some(1.0), Some(100.5)], 1..=3),
    ) -> Matrix {
        Matrix {
            sizes: sizes.map_or(Sizes::Default, Sizes::Given),
            methods, direct, queue_depths, jobs, patterns, file_states, engines,
            ring: RingOptions { sqpoll: polls.0, iopoll: polls.1 },
            span_bytes, rates_per_s,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_global_rejects: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn cells_are_unique_and_each_can_be_measured(
        matrix in any_matrix(),
        block_bytes in prop::sample::select(vec![1_u64, 512, 4096]),
        limit_bytes in 1_u64..1 << 36,
        role in prop::sample::select(Role::ALL),
    ) {
        let target = TargetPlan {
            id: "t0".to_owned(),
            role,
            logical_block_bytes: block_bytes,
            span_limit_bytes: limit_bytes,
        };
        let Ok(cells) = cells(&matrix, &target) else { return Ok(()) };
        prop_assert!(!cells.is_empty());
        let ids: HashSet<&str> = cells.iter().map(|cell| cell.id.as_str()).collect();
        prop_assert_eq!(ids.len(), cells.len());
        for cell in &cells {
            let axes = &cell.axes;
            prop_assert!(axes.span_bytes <= limit_bytes);
            prop_assert!(axes.span_bytes >= axes.size_bytes * u64::from(axes.jobs));
            prop_assert!(axes.span_bytes.is_multiple_of(axes.size_bytes * u64::from(axes.jobs)));
            prop_assert!(!axes.direct || axes.size_bytes.is_multiple_of(block_bytes));
            prop_assert_eq!(cell.role, role);
            prop_assert_eq!(cell.file_state.is_some(), role == Role::File);
            prop_assert!(axes.engine != EngineKind::Sync || axes.queue_depth == 1);
        }
        let raw = raw_counterparts(&cells, &TargetPlan { role: Role::Raw, ..target });
        for cell in &cells {
            prop_assert!(raw.cells.iter().any(|raw| raw.axes == cell.axes));
        }
    }
}

/// Blocks above 4 KiB: Linux 6.15 and later (BLK_MAX_BLOCK_SIZE).
#[test]
fn an_ablation_s_sizes_are_whole_blocks() {
    for (block_bytes, least) in [
        (512, 4096),
        (4096, 4096),
        (16_384, 16_384),
        (65_536, 65_536),
    ] {
        for matrix in crate::plan::ablation(None) {
            let cells = cells(&matrix, &raw(block_bytes, 1 << 30)).unwrap();
            let sizes = cells.iter().map(|cell| cell.axes.size_bytes);
            assert_eq!(sizes.min(), Some(least), "{block_bytes}");
        }
    }
}

#[test]
fn every_built_in_profile_can_be_measured_on_both_sides() {
    for profile in crate::plan::profile::built_in().unwrap() {
        let settings = profile.options.settings();
        let cells = cells(&settings.matrix, &file(1 << 30)).unwrap();
        let raw = raw_counterparts(&cells, &raw(512, 1 << 30));
        assert!(!cells.is_empty(), "{}", profile.name);
        assert!(
            raw.skipped.is_empty(),
            "{}: {:?}",
            profile.name,
            raw.skipped
        );
    }
}
