//! Where the bytes and the time of a write go, traced on real filesystems.

mod support;

use std::path::Path;

use serde_json::Value;
use support::disturbance::Disturbance;
use support::{Loop, Mount, Program, Zram, cells, system};

/// Thirty rounds have eight traced slices, of 16 writes at least: a background commit of the filesystem
/// in one of them is lost among the rest.
const QUICK: &[&str] = &[
    "--rounds", "30", "--budget", "3s", "--span", "4m", "--trace", "on",
];

/// One traced cell of 4 KiB writes.
struct Traced(Value);

impl Traced {
    fn of(args: &[&str]) -> (Traced, support::Ran) {
        let args: Vec<&str> = args
            .iter()
            .chain(["--sizes", "4k"].iter())
            .copied()
            .collect();
        let args: Vec<&str> = args.iter().chain(QUICK).copied().collect();
        let (ran, record) = Program::new().measure(&args);
        let role = if args[0] == "raw" { "raw" } else { "file" };
        let cell = cells(&record, role)[0].clone();
        assert!(cell["traced"].is_object(), "{ran:#?}");
        let traced = Traced(cell["traced"].clone());
        traced.adds_up();
        (traced, ran)
    }

    fn ops(&self) -> f64 {
        self.0["ops"].as_f64().unwrap()
    }

    fn class(&self, class: &str, what: &str) -> f64 {
        let classes = self.0["classes"].as_array().unwrap();
        classes.iter().find(|c| c["class"] == class).unwrap()[what]
            .as_f64()
            .unwrap()
    }

    /// Requests of a class for each write.
    fn requests(&self, class: &str) -> f64 {
        self.class(class, "requests") / self.ops()
    }

    /// Bytes at the device for each byte written.
    fn amplification(&self) -> f64 {
        let classes = self.0["classes"].as_array().unwrap();
        let bytes: f64 = classes.iter().map(|c| c["bytes"].as_f64().unwrap()).sum();
        bytes / self.0["bytes"].as_f64().unwrap()
    }

    /// A value that is exact unless an event was lost.
    #[track_caller]
    fn is(&self, value: f64, wanted: f64) {
        match self.0["lost_events"] == 0 {
            true => assert_eq!(value, wanted),
            false => near(value, wanted),
        }
    }

    fn mean_ns(&self, phase: &str) -> Option<f64> {
        let phases = self.0["phases"].as_array().unwrap();
        phases
            .iter()
            .find(|p| p["phase"] == phase)
            .map(|p| p["mean_ns"].as_f64().unwrap())
    }

    /// The classes add up to what the device counted, the phases to the latency, and the typical write
    /// has no gap. An event in a hundred may be lost: a virtual machine's 6.18 was seen to count one that
    /// it didn't record (ARCHITECTURE.md). The pass that lost it has no phases then, and only that.
    #[track_caller]
    fn adds_up(&self) {
        let number = |name: &str| self.0[name].as_f64().unwrap();
        let lost = number("lost_events");
        assert!(lost <= 0.01 * number("events"), "{:#}", self.0);
        assert!(self.ops() >= 16.0, "{:#}", self.0);
        let counted = |name: &str| self.0["counted"][name].as_f64().unwrap();
        let classes = ["data", "journal", "metadata", "other", "unknown"];
        let bytes: f64 = classes.iter().map(|class| self.class(class, "bytes")).sum();
        let device_bytes = counted("write_sectors") * 512.0;
        assert!(
            (bytes - device_bytes).abs() <= 0.01 * device_bytes,
            "{:#}",
            self.0
        );
        let flushes = self.class("flush", "requests");
        let bio_based = counted("flushes") == 0.0;
        assert!(
            bio_based || (flushes - counted("flushes")).abs() <= 0.01 * flushes,
            "{:#}",
            self.0
        );

        let latency_ns = self.0["phase_latency_ns"].as_f64().unwrap();
        let phases = self.0["phases"].as_array().unwrap();
        let sum: f64 = phases
            .iter()
            .map(|phase| phase["mean_ns"].as_f64().unwrap())
            .sum();
        assert!((sum - latency_ns).abs() < 1e-6 * latency_ns, "{:#}", self.0);
        let told = number("phase_ops") / self.ops();
        let is_told = if lost == 0.0 {
            told == 1.0
        } else {
            (0.5..1.0).contains(&told)
        };
        assert!(is_told, "{told}: {:#}", self.0);
        let typical = self.0["typical"].as_array().unwrap();
        assert!(!typical.is_empty());
        let mut end_ns = 0;
        for stretch in typical {
            assert_eq!(stretch["start_ns"], end_ns, "{:#}", self.0);
            end_ns = stretch["end_ns"].as_u64().unwrap();
        }
    }
}

/// What is near: counts of single background requests beside some hundred writes.
#[track_caller]
fn near(value: f64, wanted: f64) {
    assert!(
        (value - wanted).abs() <= 0.05 * wanted.max(0.5),
        "{value} is not {wanted}"
    );
}

fn file_on(fs: &str, options: &[&str], more: &[&str]) -> (Traced, support::Ran) {
    let device = Loop::new(if fs == "xfs" { 320 } else { 192 });
    match fs {
        // A small device would get blocks of 1 KiB.
        "ext4" => drop(system(
            "mkfs.ext4",
            &[
                "-q",
                "-F",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0",
                "-b",
                "4096",
                device.node(),
            ],
        )),
        other => device.format(other),
    }
    on(Mount::of(device, options), more)
}

fn on(mount: Mount, more: &[&str]) -> (Traced, support::Ran) {
    Traced::of(&[&["file", mount.dir()], more].concat())
}

#[test]
fn a_raw_write_is_one_request_and_one_flush() {
    needs_root!();
    let device = Loop::new(16);
    let (raw, _) = Traced::of(&["raw", device.node()]);
    raw.is(raw.amplification(), 1.0);
    raw.is(raw.requests("data"), 1.0);
    raw.is(raw.requests("flush"), 1.0);
    assert!(raw.mean_ns("data_write").unwrap() > 0.0);
    assert!(raw.mean_ns("journal_write").is_none());
}

#[test]
fn an_overwrite_on_ext4_and_xfs_is_one_request_and_one_flush() {
    needs_root!();
    for fs in ["ext4", "xfs"] {
        let (file, _) = file_on(fs, &[], &[]);
        near(file.amplification(), 1.0);
        file.is(file.requests("data"), 1.0);
        near(file.requests("flush"), 1.0);
    }
}

#[test]
fn after_o_trunc_ext4_writes_a_journal_request_a_commit_block_and_flushes_twice() {
    needs_root!();
    let (file, _) = file_on("ext4", &[], &["--file-state", "trunc"]);
    let amplification = file.amplification();
    assert!((5.0..=9.0).contains(&amplification), "{amplification}");
    near(file.requests("data"), 1.0);
    near(file.requests("journal"), 2.0);
    near(file.requests("flush"), 2.0);
    // More than two blocks: one request of several, and the commit block.
    let journal_bytes = file.class("journal", "bytes") / file.ops();
    assert!(journal_bytes >= 3.0 * 4096.0, "{journal_bytes}");
    for phase in ["journal_write", "pre_flush", "commit_block", "post_flush"] {
        assert!(file.mean_ns(phase).unwrap() > 0.0, "{phase}");
    }
}

#[test]
fn journalled_data_is_written_at_least_twice() {
    needs_root!();
    let (file, ran) = file_on("ext4", &["-o", "data=journal"], &[]);
    let journal = file.class("journal", "bytes") / file.0["bytes"].as_f64().unwrap();
    assert!(journal >= 2.0, "{journal}");
    ran.prints("data=journal");
}

#[test]
fn without_a_journal_nothing_is_journalled() {
    needs_root!();
    let device = Loop::new(192);
    system(
        "mkfs.ext4",
        &[
            "-q",
            "-F",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0",
            "-b",
            "4096",
            "-O",
            "^has_journal",
            device.node(),
        ],
    );
    let (file, _) = on(Mount::of(device, &[]), &["--file-state", "append"]);
    assert_eq!(file.requests("journal"), 0.0);
    near(file.requests("data"), 1.0);
    assert!(file.requests("metadata") > 0.5);
}

#[test]
fn an_append_on_xfs_writes_the_log_between_two_flushes() {
    needs_root!();
    let (file, _) = file_on("xfs", &[], &["--file-state", "append"]);
    near(file.requests("data"), 1.0);
    assert!(file.requests("journal") >= 0.9, "{:#}", file.0);
    near(file.requests("flush"), 2.0);
    for phase in ["pre_flush", "post_flush"] {
        assert!(file.mean_ns(phase).unwrap() > 0.0, "{phase}: {:#}", file.0);
    }
}

#[test]
fn on_btrfs_metadata_dominates() {
    needs_root!();
    let (file, ran) = file_on("btrfs", &[], &[]);
    assert!(file.class("metadata", "bytes") > 4.0 * file.0["bytes"].as_f64().unwrap());
    ran.prints("copies on write");
}

#[test]
fn without_barriers_nothing_is_flushed_and_the_danger_is_told() {
    needs_root!();
    let (file, ran) = file_on("ext4", &["-o", "nobarrier"], &["--file-state", "append"]);
    assert_eq!(file.requests("flush"), 0.0);
    assert!(
        ran.stdout.to_lowercase().contains("nobarrier"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.to_lowercase().contains("danger"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_bio_based_device_is_traced() {
    needs_root!();
    let zram = Zram::new(32);
    let (raw, _) = Traced::of(&["raw", &zram.node()]);
    raw.is(raw.amplification(), 1.0);
    raw.is(raw.requests("data"), 1.0);
}

#[test]
fn a_partition_is_traced_through_its_disk() {
    needs_root!();
    let disk = support::partitioned(128);
    let partition = format!("{}p2", disk.node());
    let (raw, _) = Traced::of(&["raw", &partition]);
    raw.is(raw.amplification(), 1.0);
    raw.is(raw.requests("data"), 1.0);
    raw.is(raw.requests("flush"), 1.0);
}

#[test]
fn another_writer_on_the_disk_is_told_apart() {
    needs_root!();
    let disk = support::partitioned(256);
    let (first, second) = (format!("{}p1", disk.node()), format!("{}p2", disk.node()));
    let _writer = Disturbance::writer(Path::new(&first));
    let args = ["raw", &second, "--sizes", "4k", "--trace", "on"];
    let (ran, record) = Program::new().measure(
        &[
            &args[..],
            &["--rounds", "6", "--budget", "3s", "--span", "4m"],
        ]
        .concat(),
    );
    let traced = Traced(cells(&record, "raw")[0]["traced"].clone());
    near(traced.requests("data"), 1.0);
    assert!(traced.class("other", "requests") > 0.0, "{:#}", traced.0);
    assert!(
        ran.stdout.to_lowercase().contains("other"),
        "{}",
        ran.stdout
    );
}

#[test]
fn tracing_off_records_nothing_and_a_record_explains_itself_again() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let args = [
        "raw",
        device.node(),
        "--sizes",
        "4k",
        "--rounds",
        "3",
        "--budget",
        "1s",
    ];
    let (_, record) = program.measure(&[&args[..], &["--trace", "off"]].concat());
    assert!(record["cells"][0]["traced"].is_null());
    program.measure(&[&args[..], &["--trace", "on"]].concat());
    let path = program.state().join("record.json");
    program
        .run(&["explain", path.to_str().unwrap()])
        .exits(0)
        .prints("flush")
        .prints("data");
}
