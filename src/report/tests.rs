//! Reports of small made-up records.

use serde_json::Value;

use super::view::view;
use super::{Style, json, render, table};
use crate::model::cell::FileState;
use crate::model::fixture::Builder;
use crate::model::record::{BaselineKind, Content, Ended, Level, Note, Record, SCHEMA};

fn gap_record() -> Record {
    let mut builder = Builder::new("gap").device("t0").directory(
        "t1",
        "/var/lib/postgresql",
        BaselineKind::Extents,
        Some("t0"),
    );
    for (size_bytes, raw_ns, file_ns) in [
        (512, 17e3, 80e3),
        (4096, 17e3, 78e3),
        (1 << 20, 500e3, 505e3),
    ] {
        builder = builder.cell("t0", None, size_bytes, raw_ns, 300).cell(
            "t1",
            Some(FileState::Overwrite),
            size_bytes,
            file_ns,
            300,
        );
    }
    builder.record
}

fn trunc_record() -> Record {
    Builder::new("file")
        .directory("t0", "/data", BaselineKind::None, None)
        .cell("t0", Some(FileState::Overwrite), 4096, 20e3, 200)
        .cell("t0", Some(FileState::Trunc), 4096, 110e3, 200)
        .record
}

fn text(record: &Record, width: usize) -> String {
    let style = Style {
        width: Some(width),
        color: false,
    };
    render(record, &style)
}

#[test]
fn a_gap_report_answers_in_its_first_sentence() {
    let text = text(&gap_record(), 120);
    assert!(text.contains("4K o_dsync overwrite: median 17."), "{text}");
    assert!(text.contains("through ext4: raw is 4.5"), "{text}");
    assert!(
        text.contains("the scratch file's own blocks, written through /dev/nvme0n1p2"),
        "{text}"
    );
    assert!(text.contains("seed 7"), "{text}");
}

#[test]
fn the_tables_show_units_samples_and_spread() {
    let text = text(&gap_record(), 160);
    for part in [
        "raw/file [95 %]",
        "Δp50 µs",
        "Δp99.9 µs",
        "rounds",
        "MiB/s",
        "p99.9 µs",
        "max µs",
        "writes",
        "3,000",
        "±",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[test]
fn no_width_breaks_the_layout() {
    for record in [gap_record(), trunc_record()] {
        let view = view(&record);
        for width in 40..=300 {
            let style = Style {
                width: Some(width),
                color: false,
            };
            for line in table::render(&view, &style).lines() {
                let length = line.chars().count();
                let has_long_word = line
                    .split_whitespace()
                    .any(|word| word.chars().count() > 30);
                assert!(
                    length <= width || has_long_word,
                    "{length} > {width}: {line}"
                );
            }
        }
    }
}

#[test]
fn columns_that_do_not_fit_are_named() {
    assert!(text(&gap_record(), 80).contains("(no room for: "));
    assert!(!text(&gap_record(), 200).contains("no room"));
}

#[test]
fn a_file_run_without_a_baseline_says_why_and_what_would_give_one() {
    let text = text(&trunc_record(), 120);
    assert!(
        text.contains(
            "! No baseline, so no gap: btrfs moves what is written; give a spare one: --raw DEVICE"
        ),
        "{text}"
    );
    assert!(!text.contains("raw/file"), "{text}");
}

#[test]
fn the_o_trunc_penalty_shows_the_open_apart() {
    let text = text(&trunc_record(), 120);
    assert!(
        text.contains("open p50 µs") && text.contains("5.63 ["),
        "{text}"
    );
    let value = json(&trunc_record()).unwrap();
    assert_eq!(value["trunc_penalties"][0]["open_p50_ns"], 900_000);
    assert_eq!(value["trunc_penalties"][0]["opens"], 10);
}

#[test]
fn doubts_are_told() {
    let mut record = gap_record();
    record.targets[0].content = Some(Content {
        span_bytes: 64 << 20,
        zero_share: 1.0,
        compressible_share: 0.0,
        random_share: 0.0,
    });
    record.targets[1].buffered = Some("tmpfs has no direct I/O".to_owned());
    record.cells[0].slices[0].worker_requests = Some(100);
    record.cells[1].out_of_range = 3;
    record.cells[1].failed =
        Some("write of 512 bytes at offset 0: No space left on device".to_owned());
    record.run.precision = 0.0001;
    record.run.ended = Some(Ended::Interrupted);
    record.notes.push(Note {
        level: Level::Fallback,
        target: None,
        text: "buffers are not registered".to_owned(),
    });
    let text = text(&record, 300);
    for part in [
        "100 % zero",
        "! These writes were buffered",
        "! raw 512: 100 of 3,000 writes (3.3 %) went through io_uring worker threads",
        "3 latencies lie outside",
        "! Failed: t1/file/overwrite/512: write of 512 bytes",
        "* 2 of 3 rows wider than",
        "interrupted",
        "! buffers are not registered",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[test]
fn writes_that_failed_are_not_counted_as_handed_over() {
    let mut record = gap_record();
    record.cells[0].slices[0].worker_requests = Some(3001);
    let text = text(&record, 300);
    assert!(text.contains("3,000 of 3,000 writes (100 %)"), "{text}");
}

#[test]
fn a_record_gives_a_terminal_nothing_to_obey() {
    let mut record = gap_record();
    let evil = "\u{1b}]0;x\u{7}\n\u{9b}31m".to_owned();
    for target in &mut record.targets {
        target.path = evil.clone();
        target.stack[0].model = Some(evil.clone());
        target.stack[0].name = evil.clone();
        if let Some(mount) = &mut target.mount {
            mount.mount_point = evil.clone();
            mount.fs_type = evil.clone();
        }
    }
    record.host.hostname = evil.clone();
    for cell in &mut record.cells {
        cell.failed = Some(evil.clone());
    }
    for width in [40, 300] {
        let text = text(&record, width);
        let obeyed = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(obeyed), "{text:?}");
    }
}

#[test]
fn several_directories_get_a_summary() {
    let record = Builder::new("gap")
        .directory("t0", "/a", BaselineKind::None, None)
        .directory("t1", "/b", BaselineKind::None, None)
        .cell("t0", Some(FileState::Overwrite), 4096, 20e3, 30)
        .cell("t1", Some(FileState::Overwrite), 4096, 20e3, 30)
        .record;
    let text = text(&record, 120);
    assert!(text.contains("All targets"), "{text}");
}

#[test]
fn json_keeps_the_record_and_adds_the_gaps() {
    let record = gap_record();
    let value = json(&record).unwrap();
    assert_eq!(value["schema"], SCHEMA);
    let gap = &value["gaps"][1];
    assert_eq!(gap["size_bytes"], 4096);
    assert_eq!(gap["raw_cell"], "t0/raw/4096");
    assert_eq!(gap["file_cell"], "t1/file/overwrite/4096");
    for key in ["throughput_ratio", "p50_delta_ns", "p99_delta_ns"] {
        for part in ["value", "low", "high"] {
            assert!(gap[key][part].is_f64(), "{key}.{part}: {gap}");
        }
    }
    let ratio = gap["throughput_ratio"]["value"].as_f64().unwrap();
    assert!((4.4..4.8).contains(&ratio), "{ratio}");
    // 3000 operations have 3 beyond their 99.9th percentile: too few.
    assert_eq!(gap["p99_9_delta_ns"], Value::Null);
    assert_eq!(gap["rounds"], 10);
    assert_eq!(Record::parse(&value.to_string()).unwrap(), record);
}

#[test]
fn a_record_cut_short_is_shown_without_figures_that_it_cannot_have() {
    let mut record = gap_record();
    for cell in &mut record.cells {
        cell.slices.truncate(1);
        (cell.ops, cell.latency_ns) = (0, None);
        (cell.iops, cell.throughput_bytes_per_s) = (None, None);
    }
    record.run.ended = None;
    let text = text(&record, 120);
    assert!(text.contains("n/a: fewer than 3 rounds"), "{text}");
    assert!(
        text.contains("! 10 rounds") && text.contains("killed"),
        "{text}"
    );
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    record.cells.clear();
    record.targets.clear();
    assert!(super::render(&record, &Style::default()).contains("seed 7"));
}

#[test]
fn colour_is_only_where_it_was_asked_for() {
    let record = gap_record();
    assert!(!text(&record, 100).contains('\x1b'));
    let style = Style {
        width: Some(100),
        color: true,
    };
    assert!(render(&record, &style).contains("\x1b[1m"));
}

#[test]
fn a_raw_cell_that_two_states_share_is_shown_once() {
    let record = Builder::new("gap")
        .device("t0")
        .directory("t1", "/data", BaselineKind::Extents, Some("t0"))
        .cell("t0", None, 4096, 20e3, 30)
        .cell("t1", Some(FileState::Overwrite), 4096, 40e3, 30)
        .cell("t1", Some(FileState::Trunc), 4096, 120e3, 30)
        .record;
    let text = text(&record, 140);
    assert_eq!(text.matches("  4K  device").count(), 1, "{text}");
    assert_eq!(text.matches("  4K  trunc ").count(), 3, "{text}");
}
