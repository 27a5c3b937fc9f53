//! Reports of small made-up records.

use serde_json::Value;

use super::view::view;
use super::{Style, json, note_text, render, table, warnings};
use crate::model::cell::{FileState, Method, Role};
use crate::model::fixture::Builder;
use crate::model::record::{
    BaselineKind, Buffered, Content, Ended, Handed, Level, Note, Record, SCHEMA,
};

fn handed(requests: u64, ops: u64) -> Handed {
    Handed {
        ops,
        requests,
        worker_cpu_ns: 0,
    }
}

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
        "rounds",
        "MiB/s",
        "p99 µs",
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
    let why = "o baseline, so no gap: btrfs moves what is written; give a spare one: --raw DEVICE";
    assert!(text.contains(&format!("N{why}")), "{text}");
    assert_eq!(warnings(&trunc_record())[0], format!("/data: n{why}"));
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
    assert_eq!(value["trunc_penalties"][0]["opens"], 30);
    // Of a median too, a dozen must lie beyond.
    let mut record = trunc_record();
    for slice in record.cells.iter_mut().flat_map(|cell| &mut cell.slices) {
        slice.truncating_opens_ns.truncate(2);
    }
    let value = json(&record).unwrap();
    assert_eq!(value["trunc_penalties"][0]["open_p50_ns"], Value::Null);
    assert_eq!(value["trunc_penalties"][0]["opens"], 20);
}

#[test]
fn a_quantile_that_few_writes_lie_beyond_is_not_shown() {
    // Of 3000 writes, 3 lie beyond the p99.9, and 30 beyond the p99.
    let all = text(&gap_record(), 200);
    assert!(
        all.contains("p99 µs") && !all.contains(" p99.9 µs"),
        "{all}"
    );
    let mut record = gap_record();
    for cell in &mut record.cells {
        cell.ops = 12_000;
    }
    assert!(text(&record, 200).contains(" p99.9 µs"));
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
    record.cells[0].handed = Some(handed(100, 3000));
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
    let told = warnings(&record).join("\n");
    for part in [
        "own bytes are 100 % zero or compressible",
        "; --overwrite writes random bytes",
        "\n/var/lib/postgresql: writes were buffered",
        "raw, 512: 3.3 % of writes went through io_uring worker threads",
        "3 latencies lie outside",
        "failed: t1/file/overwrite/512: write of 512 bytes",
        "2 of 3 intervals wider than ±0.0 %: give the run a larger --budget",
        "only 10 rounds: interrupted",
    ] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    let text = text(&record, 300);
    for part in [
        "100 % zero",
        "* wider than ±0.0 %",
        "failed: t1/",
        "interrupted",
        "buffered",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    // What the run noted it said itself, when it happened.
    assert!(!told.contains("not registered") && !text.contains("not registered"));
    assert_eq!(
        json(&record).unwrap()["warnings"].as_array().unwrap().len(),
        told.lines().count()
    );
}

#[test]
fn a_warning_names_its_path_once() {
    let builder = Builder::new("raw").device("t0");
    let mut record = builder.cell("t0", None, 4096, 20e3, 200).record;
    record.targets[0].content = Some(Content {
        compressible_share: 1.0,
        ..Content::default()
    });
    let told = warnings(&record);
    assert!(
        told[0].starts_with("/dev/nvme0n1p2's own bytes"),
        "{told:?}"
    );
}

#[test]
fn worker_threads_are_told_of_once_for_each_side_and_state() {
    let mut builder = Builder::new("file").directory("t0", "/data", BaselineKind::None, None);
    for size_bytes in [512, 1024, 4096, 8192] {
        for state in [FileState::Overwrite, FileState::Trunc] {
            builder = builder.cell("t0", Some(state), size_bytes, 20e3, 100);
        }
    }
    let mut record = builder.record;
    for cell in &mut record.cells {
        let size_bytes = cell.spec.axes.size_bytes;
        let is_trunc = cell.spec.file_state == Some(FileState::Trunc);
        let requests = match (is_trunc, size_bytes) {
            (true, _) => 100,
            (false, 1024) => 0,
            (false, _) => size_bytes / 512,
        };
        cell.handed = Some(handed(requests, 100));
    }
    let told = warnings(&record);
    let told: Vec<&String> = told.iter().filter(|text| text.contains("worker")).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    let part = "/data: file overwrite, 4K, 8K: 8.0 % to 16 % of writes went through";
    assert!(told[0].starts_with(part), "{}", told[0]);
    let part = "/data: file trunc, 512 to 8K: 100 % of writes went through";
    assert!(told[1].starts_with(part), "{}", told[1]);
    assert!(told[1].ends_with("--engine sync"), "{}", told[1]);
}

#[test]
fn where_worker_requests_cannot_be_counted_the_threads_time_tells() {
    let record = |cpu_share: f64, sqpoll: bool| {
        let mut builder = Builder::new("raw")
            .device("t0")
            .cell("t0", None, 4096, 20e3, 100);
        let cell = &mut builder.record.cells[0];
        cell.spec.axes.ring.sqpoll = sqpoll;
        for slice in &mut cell.slices {
            slice.worker_cpu_ns = Some((slice.elapsed_ns as f64 * cpu_share) as u64);
        }
        warnings(&builder.record).join("\n")
    };
    let told = record(0.12, false);
    assert!(
        told.contains("raw, 4K: io_uring worker threads ran for 12 % of the time"),
        "{told}"
    );
    assert!(!record(0.002, false).contains("worker"));
    assert!(
        !record(0.9, true).contains("worker"),
        "a polling thread is no worker"
    );
}

#[test]
fn buffered_rows_are_labelled_also_beside_direct_ones() {
    let mut record = gap_record();
    record.targets[1].buffered = Some("data=journal".to_owned());
    let text = text(&record, 160);
    assert!(text.contains("  4K  buffered  "), "{text}");
    assert!(text.contains("  4K  direct    raw"), "{text}");
}

/// One size is refused, another ignored: each is told with its reason, and only those.
#[test]
fn a_cell_that_lost_its_direct_writes_is_labelled_alone() {
    let mut record = gap_record();
    let files = |record: &Record| -> Vec<usize> {
        let cells = record.cells.iter().enumerate();
        let files = cells.filter(|(_, cell)| cell.spec.role == Role::File);
        files.map(|(index, _)| index).collect()
    };
    let [first, .., last] = files(&record)[..] else {
        panic!("fewer than two cells of files");
    };
    record.cells[first].buffered = Some(Buffered {
        reason: "refused".to_owned(),
        is_refused: true,
    });
    let told = warnings(&record).join("\n");
    let (one, other) = (&record.cells[first].spec.id, &record.cells[last].spec.id);
    let line =
        format!("the writes of {one} were buffered although direct I/O was asked for: refused");
    assert!(told.contains(&line) && !told.contains(other), "{told}");
    assert_eq!(text(&record, 200).matches("  buffered  file").count(), 1);
    record.cells[first].spec.axes.method = Method::None;
    let told = warnings(&record).join("\n");
    assert!(told.contains("are those of memory"), "{told}");
}

#[test]
fn columns_that_would_say_nothing_are_left_out_and_the_reason_said_once() {
    let text = text(&gap_record(), 160);
    assert!(!text.contains("Δp99.9 µs"), "{text}");
    assert!(
        text.contains("No Δp99.9, p99.9: too few writes beyond that quantile; a larger"),
        "{text}"
    );
    assert_eq!(text.matches("too few writes").count(), 1, "{text}");
}

#[test]
fn each_verb_is_answered_in_a_sentence() {
    let raw = Builder::new("raw")
        .device("t0")
        .cell("t0", None, 4096, 20e3, 200)
        .record;
    let raw = text(&raw, 200);
    assert!(
        raw.contains("\n4K o_dsync: median 20.") && raw.contains(" % on /dev/nvme0n1p2\n"),
        "{raw}"
    );
    let file = text(&trunc_record(), 200);
    assert!(
        file.contains("4K o_dsync overwrite: median 20.") && file.contains("through ext4\n"),
        "{file}"
    );
    let part = "with it: without is 5.63 times as fast (without/with 5.63 [";
    assert!(file.contains(part), "{file}");
    assert!(
        file.contains("the truncating open itself takes 900 µs"),
        "{file}"
    );
}

#[test]
fn a_note_names_its_target_where_there_are_several() {
    let note = Note {
        level: Level::Warning,
        target: Some("t1".to_owned()),
        text: "512 is left out".to_owned(),
    };
    let record = gap_record();
    assert_eq!(
        note_text(&record, &note),
        "/var/lib/postgresql: 512 is left out"
    );
    assert_eq!(note_text(&trunc_record(), &note), "512 is left out");
}

#[test]
fn writes_that_failed_are_not_counted_as_handed_over() {
    let mut record = gap_record();
    record.cells[0].handed = Some(handed(3001, 3000));
    let warnings = warnings(&record);
    let told = |part: &str| warnings.iter().any(|text| text.contains(part));
    assert!(told("100 % of writes went through"), "{warnings:?}");
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
    assert!(
        text.contains("All targets") && text.contains("file p50 µs"),
        "{text}"
    );
    assert!(!text.contains("The gap"), "{text}");
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
    record.run.ended = None;
    record.run.rounds = 1;
    for cell in &mut record.cells {
        cell.slices.truncate(1);
    }
    let first = text(&record, 120);
    let part = "n/a, and no Δp99, Δp99.9, ±, p99.9: fewer than 3 rounds";
    assert!(first.contains(part), "{first}");
    for cell in &mut record.cells {
        (cell.ops, cell.latency_ns) = (0, None);
        (cell.iops, cell.throughput_bytes_per_s) = (None, None);
    }
    let text = text(&record, 120);
    assert!(text.contains(": nothing was measured"), "{text}");
    assert!(
        text.contains("1 round in") && text.contains("killed"),
        "{text}"
    );
    assert!(
        warnings(&record).contains(&"only 1 round: not ended: still running, or killed".to_owned())
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
    assert_eq!(text.matches("  4K  trunc ").count(), 2, "{text}");
}
