//! Workloads over time on real filesystems: what is counted adds up, and nothing is left.

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Loop, Mount, Program, Zram, system};

const CHURN: &[&str] = &[
    "--workload",
    "churn",
    "--file-size",
    "1m",
    "--duration",
    "1s",
];
const CHECKPOINT: &[&str] = &[
    "--workload",
    "checkpoint",
    "--data",
    "16m",
    "--clients",
    "2",
    "--duration",
    "1s",
];
const WAL: &[&str] = &[
    "--workload",
    "wal-append",
    "--segment-size",
    "64k",
    "--duration",
    "300ms",
];

fn mounted(options: &[&str]) -> Mount {
    let device = Loop::new(400);
    device.format("ext4");
    Mount::of(device, options)
}

fn measure(program: &Program, verb: &str, dir: &str, args: &[&[&str]]) -> (support::Ran, Value) {
    let mut all = vec![verb, dir];
    all.extend(args.iter().copied().flatten());
    program.measure(&all)
}

fn timelines(record: &Value) -> &Vec<Value> {
    record["timelines"].as_array().unwrap()
}

fn sum(timeline: &Value, key: &str) -> u64 {
    let intervals = timeline["intervals"].as_array().unwrap();
    intervals.iter().map(|one| one[key].as_u64().unwrap()).sum()
}

/// What must hold for every timeline.
#[track_caller]
fn adds_up(timeline: &Value) {
    let number = |key: &str| timeline[key].as_u64().unwrap();
    assert!(number("ops") > 0, "{timeline:#}");
    assert_eq!(sum(timeline, "ops"), number("ops"));
    assert_eq!(sum(timeline, "bytes"), number("bytes"));
    assert_eq!(number("errors"), 0);
    let intervals = timeline["intervals"].as_array().unwrap();
    let device: u64 = intervals
        .iter()
        .map(|one| one["device"]["write_bytes"].as_u64().unwrap())
        .sum();
    let counted = &timeline["devices"][0]["counted"]["write_sectors"];
    // Both read the same counters, the one a little before the other begins.
    let counted = counted.as_u64().unwrap() * 512;
    assert!(
        device.abs_diff(counted) <= counted / 10 + (1 << 20),
        "{device} {counted}"
    );
}

#[test]
fn churn_counts_files_and_all_that_the_device_writes_for_them() {
    needs_root!();
    let mount = mounted(&["-o", "nodelalloc"]);
    let program = Program::new();
    let (ran, record) = measure(&program, "file", mount.dir(), &[CHURN]);
    ran.exits(0)
        .prints("Workload churn: files of 1M")
        .prints("redundant")
        .prints("program  ");
    let [timeline] = timelines(&record).as_slice() else {
        panic!("{record:#}")
    };
    adds_up(timeline);
    let (ops, bytes) = (&timeline["ops"], &timeline["bytes"]);
    assert_eq!(bytes.as_u64().unwrap(), ops.as_u64().unwrap() << 20);
    assert!(record["cells"].as_array().unwrap().is_empty());
    assert_eq!(mount.names(), ["lost+found"]);
}

/// The mailing-list finding: a commit in ordered mode takes with it the data of files that are about
/// to be removed, and in writeback mode doesn't; delayed allocation hides it.
#[test]
fn an_ordered_journal_writes_more_for_files_that_are_gone() {
    needs_root!();
    let redundant = |options: &str| {
        let mount = mounted(&["-o", options]);
        let program = Program::new();
        let more = ["--file-size", "20m", "--duration", "4s"];
        let args = [&CHURN[..2], &more];
        let (ran, _) = measure(&program, "file", mount.dir(), &args);
        ran.exits(0);
        let path = program.state().join("record.json");
        let report = program.run(&["report", path.to_str().unwrap(), "--format", "json"]);
        let report: Value = serde_json::from_str(&report.exits(0).stdout).unwrap();
        let bytes = &report["churn"][0]["device"]["redundant_bytes"];
        bytes.as_u64().unwrap()
    };
    // A commit every second, so that several fall into the run.
    let ordered = redundant("data=ordered,nodelalloc,commit=1");
    let writeback = redundant("data=writeback,nodelalloc,commit=1");
    assert!(ordered > 4 * writeback, "{ordered} {writeback}");
}

#[test]
fn checkpoints_are_phases_and_every_commit_is_in_one() {
    needs_root!();
    let mount = mounted(&[]);
    let program = Program::new();
    for more in [&[][..], &["--group-commit", "--checkpoint-spread", "50%"]] {
        let (ran, record) = measure(&program, "file", mount.dir(), &[CHECKPOINT, more]);
        ran.exits(0)
            .prints("commits/s")
            .prints("between checkpoints")
            .prints("checkpoints  ");
        let [timeline] = timelines(&record).as_slice() else {
            panic!("{record:#}")
        };
        adds_up(timeline);
        let phases = timeline["phases"].as_array().unwrap();
        assert!(
            phases
                .iter()
                .any(|one| one["checkpoint"]["pages"].as_u64() > Some(0))
        );
        let in_phases: u64 = phases.iter().map(|one| one["ops"].as_u64().unwrap()).sum();
        assert_eq!(in_phases, timeline["ops"].as_u64().unwrap());
        assert!(timeline["dirtied_pages"].as_u64().unwrap() > 0);
        assert_eq!(mount.names(), ["lost+found"]);
    }
}

#[test]
fn both_sides_of_a_gap_run_in_every_repetition() {
    needs_root!();
    let mount = mounted(&[]);
    let program = Program::new();
    let repeat: &[&str] = &["--repeat", "3"];
    let short: &[&str] = &["--duration", "800ms"];
    let args = [&CHECKPOINT[..6], short, repeat];
    let (ran, record) = measure(&program, "gap", mount.dir(), &args);
    ran.exits(0).prints("raw/file outside checkpoints");
    for repetition in 0..3 {
        for role in ["file", "raw"] {
            let ours = timelines(&record)
                .iter()
                .filter(|one| one["repetition"] == repetition && one["role"] == role);
            assert_eq!(
                ours.inspect(|one| adds_up(one)).count(),
                1,
                "{repetition} {role}"
            );
        }
    }
    assert_eq!(record["targets"][1]["baseline"]["kind"], "extents");
    assert_eq!(mount.names(), ["lost+found"]);
}

#[test]
fn segments_are_made_and_recycled_in_alternation() {
    needs_root!();
    let mount = mounted(&[]);
    let program = Program::new();
    let (ran, record) = measure(&program, "gap", mount.dir(), &[WAL, &["--repeat", "3"]]);
    ran.exits(0).prints("recycled/created").prints("raw/file");
    let of = |segments: &str| {
        let all = timelines(&record).iter();
        let ours: Vec<&Value> = all.filter(|one| one["segments"] == segments).collect();
        ours.iter().for_each(|one| adds_up(one));
        ours.iter()
            .map(|one| one["switches"].as_array().unwrap().len())
            .collect::<Vec<_>>()
    };
    for segments in ["created", "recycled"] {
        let switches = of(segments);
        assert_eq!(switches.len(), 3);
        assert!(
            switches.iter().sum::<usize>() > 0,
            "{segments}: {switches:?}"
        );
    }
    assert_eq!(mount.names(), ["lost+found"]);
}

/// Without `--overwrite`, the device's side writes back the very bytes that it read.
#[test]
fn a_spare_device_keeps_what_it_holds() {
    needs_root!();
    let mount = mounted(&[]);
    let spare = Loop::new(80);
    spare.randomize();
    let before = spare.digest();
    let program = Program::new();
    let short: &[&str] = &[
        "--duration",
        "400ms",
        "--repeat",
        "1",
        "--raw",
        spare.node(),
    ];
    let (ran, record) = measure(&program, "gap", mount.dir(), &[&CHECKPOINT[..6], short]);
    ran.exits(0);
    let raw = timelines(&record).iter().find(|one| one["role"] == "raw");
    adds_up(raw.unwrap());
    assert_eq!(spare.digest(), before);
}

#[test]
fn churn_has_no_device_side_and_says_why() {
    needs_root!();
    let mount = mounted(&[]);
    let program = Program::new();
    let (ran, record) = measure(&program, "gap", mount.dir(), &[CHURN]);
    ran.exits(0).says("a device doesn't have");
    assert_eq!(record["targets"][0]["baseline"]["kind"], "none");
    assert_eq!(timelines(&record).len(), 1);
}

#[test]
fn filesystems_without_places_on_a_device_run_workloads_too() {
    needs_root!();
    let device = Loop::new(400);
    device.format("btrfs");
    let mount = Mount::of(device, &[]);
    let program = Program::new();
    let args = [&WAL[..4], &["--duration", "300ms", "--repeat", "1"]];
    let (ran, record) = measure(&program, "gap", mount.dir(), &args);
    ran.exits(0).says("no baseline");
    assert_eq!(timelines(&record).len(), 2);
    assert_eq!(mount.names(), Vec::<String>::new());
}

#[test]
fn a_report_says_what_the_run_said() {
    needs_root!();
    let mount = mounted(&[]);
    let program = Program::new();
    let (ran, _) = measure(&program, "file", mount.dir(), &[CHECKPOINT]);
    let path = program.state().join("record.json");
    let again = program.run(&["report", path.to_str().unwrap()]).exits(0);
    assert_eq!(again.stdout, ran.exits(0).stdout);
}

#[test]
fn what_does_not_apply_is_refused_and_not_ignored() {
    let program = Program::new();
    for (args, part) in [
        (&["--workload", "churn", "--sizes", "4k"][..], "sizes"),
        (&["--workload", "churn", "--clients", "2"], "clients"),
        (&["--workload", "churn", "--trunc"], "--trunc"),
        (&["--workload", "churn", "--trace", "on"], "--trace on"),
        (&["--clients", "2"], "--workload checkpoint"),
        (&["--workload", "churn", "--rounds", "3"], "rounds"),
        (
            &["--workload", "checkpoint", "--checkpoint-interval", "1h"],
            "checkpoint-interval",
        ),
        (
            &["--workload", "wal-append", "--segment-size", "5000"],
            "segment-size",
        ),
    ] {
        let mut all = vec!["file", "/tmp"];
        all.extend(args);
        program.run(&all).exits(2).says_one_line(part);
    }
}

#[test]
fn a_profile_may_name_a_workload_and_its_errors_have_a_line() {
    needs_root!();
    let mount = mounted(&[]);
    let program = Program::new();
    let path = program.state().join("churn.toml");
    let run = |text: &str| {
        fs::write(&path, text).unwrap();
        let args = [
            "file",
            mount.dir(),
            "--profile",
            path.to_str().unwrap(),
            "--dry-run",
        ];
        program.run(&args)
    };
    let good = "about = 'x'\n[workload]\nkind = 'churn'\nfile_size = '2m'\npause = '0s'\n";
    run(good).exits(0).prints("churn: file");
    run("about = 'x'\n[workload]\nkind = 'churn'\nfilesize = '2m'\n")
        .exits(2)
        .says_one_line(":4: ");
    run("about = 'x'\nsizes = '4k'\n[workload]\nkind = 'churn'\n")
        .exits(2)
        .says_one_line("sizes");
}

#[test]
fn no_room_is_told_before_anything_is_written() {
    needs_root!();
    let mount = mounted(&[]);
    let program = Program::new();
    let args = [
        "file",
        mount.dir(),
        "--workload",
        "churn",
        "--file-size",
        "1g",
    ];
    program.run(&args).exits(4).says_one_line("--file-size");
    assert_eq!(mount.names(), ["lost+found"]);
}

/// Waits until the scratch folder has this file, and gives the folder's name.
fn scratch_with(mount: &Path, file: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        for entry in fs::read_dir(mount).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with(".syncprof-scratch-") && entry.path().join(file).exists() {
                return name;
            }
        }
        sleep(Duration::from_millis(2));
    }
    panic!("no scratch folder with {file}");
}

/// Workloads without their duration, and a file of each that is there from when it begins. One that
/// churns has none but the scratch folder's own: it makes its file, and unlinks it a moment later.
fn begun() -> [(&'static [&'static str], &'static str); 3] {
    [
        (&CHURN[..4], "owner.json"),
        (&CHECKPOINT[..6], "data"),
        (&WAL[..4], "old-0"),
    ]
}

#[test]
fn an_interrupt_saves_what_was_measured_and_cleans_up() {
    needs_root!();
    for (args, file) in begun() {
        let mount = mounted(&[]);
        let program = Program::new();
        let path = program.state().join("record.json");
        let mut all = vec!["file", mount.dir(), "--duration", "1m", "--repeat", "1"];
        all.extend(args);
        all.extend(["--json", path.to_str().unwrap()]);
        let child = program.start(&all);
        scratch_with(mount.path(), file);
        sleep(Duration::from_millis(700));
        child.signal(Signal::SIGINT);
        child.outcome().exits(130);
        let record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(record["run"]["ended"], "interrupted");
        assert_eq!(mount.names(), ["lost+found"], "{args:?}");
    }
}

#[test]
fn a_killed_run_is_cleaned_up_by_clean() {
    needs_root!();
    for (args, file) in begun() {
        let mount = mounted(&[]);
        let program = Program::new();
        let mut all = vec!["file", mount.dir(), "--duration", "1m"];
        all.extend(args);
        let child = program.start(&all);
        let folder = scratch_with(mount.path(), file);
        child.killed();
        assert!(mount.names().contains(&folder));
        program.run(&["clean"]).exits(0);
        assert_eq!(mount.names(), ["lost+found"], "{args:?}");
    }
}

/// A disk that fills up while the workload runs ends it with what the kernel said.
#[test]
fn a_full_disk_fails_the_timeline_and_the_run() {
    needs_root!();
    let mount = mounted(&["-o", "nodelalloc"]);
    let program = Program::new();
    let path = program.state().join("record.json");
    let mut child = program.start(&[
        "file",
        mount.dir(),
        "--workload",
        "churn",
        "--file-size",
        "60m",
        "--duration",
        "1m",
        "--json",
        path.to_str().unwrap(),
    ]);
    scratch_with(mount.path(), "owner.json");
    let filler = fs::File::create(mount.path().join("filler")).unwrap();
    let chunk = vec![1; 1 << 20];
    let mut offset = 0;
    // Each file that goes leaves room for the next, until that is taken.
    while child.try_wait().unwrap().is_none() {
        match filler.write_at(&chunk, offset) {
            Ok(len) => offset += len as u64,
            Err(_) => sleep(Duration::from_millis(1)),
        }
    }
    child.outcome().exits(1).says("No space left");
    let record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(record["run"]["ended"], "failed");
    let failed = timelines(&record)[0]["failed"].as_str().unwrap();
    assert!(failed.contains("No space left"), "{failed}");
    assert_eq!(mount.names(), ["filler", "lost+found"]);
}

/// zram has no flush and counts no flushes; a filesystem on it runs all the same.
#[test]
fn a_device_that_counts_no_flushes_is_no_obstacle() {
    needs_root!();
    let zram = Zram::new(300);
    system("mkfs.ext4", &["-q", "-F", &zram.node()]);
    let mount = Mount::node(&zram.node(), &[]);
    let program = Program::new();
    let (ran, record) = measure(&program, "file", mount.dir(), &[CHURN]);
    ran.exits(0);
    assert!(timelines(&record)[0]["ops"].as_u64().unwrap() > 0);
}
