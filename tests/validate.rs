//! `syncprof validate` on real loop devices.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::throttle::Throttle;
use support::{Loop, Program, Ran, ran};

const QUICK: &[&str] = &["--rounds", "8", "--budget", "1s"];

/// Claims that any device keeps, that none keeps, and one on a steady drive.
const CLAIMS: &str = r#"
about = "claims for tests"
unsaid = ["who made them"]
[device]
vendor = "nobody"
source = "this test"

[[claim]]
name = "easy"
pattern = "seq"
size = "64k"
queue_depth = 4
state = "any"
at_least = { iops = 1 }

[[claim]]
name = "impossible"
pattern = "rand"
size = "4k"
queue_depth = 1
state = "any"
at_most = { mean_us = 0.001 }

[[claim]]
name = "worn in"
pattern = "rand"
size = "4k"
queue_depth = 4
state = "steady"
at_least = { iops = 1 }
"#;

/// A claims file beside a program's state.
fn write(program: &Program, text: &str) -> PathBuf {
    let path = program.state().join("claims.toml");
    fs::write(&path, text).unwrap();
    path
}

fn validate(program: &Program, device: &Loop, claims: &Path, more: &[&str]) -> (Ran, Value) {
    let mut args = vec![
        "validate",
        device.node(),
        "--claims",
        claims.to_str().unwrap(),
    ];
    args.extend(QUICK);
    args.extend(more);
    program.measure(&args)
}

/// The verdicts of the record that was measured last, as the JSON report has them.
fn verdicts(program: &Program) -> Vec<Value> {
    let path = program.state().join("record.json");
    let ran = program.run(&["report", "--format", "json", path.to_str().unwrap()]);
    let report: Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    report["verdicts"].as_array().unwrap().clone()
}

fn outcomes(verdicts: &[Value]) -> Vec<&str> {
    let all = verdicts.iter();
    all.map(|verdict| verdict["outcome"].as_str().unwrap())
        .collect()
}

#[test]
fn claims_are_tried_judged_and_the_device_keeps_its_content() {
    needs_root!();
    let device = Loop::new(16);
    device.format("ext4");
    let before = device.digest();
    let program = Program::new();
    let claims = write(&program, CLAIMS);
    let (ran, record) = validate(&program, &device, &claims, &[]);
    let ran = ran
        .exits(1)
        .prints("1 holds, 1 fails, 1 not run")
        .prints("who made them")
        .prints("allow them with --overwrite");
    assert_eq!(device.digest(), before);
    let verdicts = verdicts(&program);
    assert_eq!(outcomes(&verdicts), ["holds", "fails", "not_run"]);
    let passed: Vec<Option<bool>> = verdicts.iter().map(|v| v["passed"].as_bool()).collect();
    assert_eq!(passed, [Some(true), Some(false), None]);
    // Each claim beside the same writes made durable, in the same rounds.
    let cells = record["cells"].as_array().unwrap();
    let methods: Vec<&str> = cells
        .iter()
        .map(|cell| cell["method"].as_str().unwrap())
        .collect();
    assert_eq!(methods, ["none", "o_dsync", "none", "o_dsync"]);
    for cell in cells {
        assert_eq!(cell["slices"].as_array().unwrap().len(), 8, "{cell:#}");
    }
    assert!(verdicts[0]["durable"]["value"].as_f64().unwrap() > 0.0);
    // The record holds what was claimed and measured, and no verdict: it is judged anew.
    assert!(record["validation"]["claims"]["claims"][2]["name"] == "worn in");
    assert!(!record.to_string().contains("\"outcome\""));
    let path = program.state().join("record.json");
    let again = program.run(&["report", path.to_str().unwrap()]).exits(0);
    assert_eq!(again.stdout, ran.stdout);
}

#[test]
fn another_drive_is_not_judged_unless_as_if() {
    needs_root!();
    let device = Loop::new(16);
    let before = device.digest();
    let program = Program::new();
    let (ran, record) = validate(&program, &device, Path::new("intel-p3700"), &[]);
    ran.exits(0)
        .prints("3 not comparable")
        .prints("the model is unknown, the claim is about *P3700*");
    assert!(record["cells"].as_array().unwrap().is_empty());
    assert!(
        outcomes(&verdicts(&program))
            .iter()
            .all(|outcome| *outcome == "not_comparable")
    );

    let (ran, record) = validate(&program, &device, Path::new("intel-p3700"), &["--as-if"]);
    ran.prints(", as if");
    assert!(!record["cells"].as_array().unwrap().is_empty());
    for verdict in verdicts(&program) {
        assert_ne!(verdict["outcome"], "not_comparable", "{verdict:#}");
        assert!(verdict["as_if"][0].as_str().unwrap().contains("model"));
    }
    assert_eq!(device.digest(), before);
}

#[test]
fn a_claim_at_another_queue_depth_is_not_comparable() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let claims = write(&program, CLAIMS);
    let (ran, _) = validate(&program, &device, &claims, &["--queue-depth", "2"]);
    ran.exits(0)
        .prints("queue depth 2 was measured, 4 is claimed")
        .prints("queue depth 2 was measured, 1 is claimed");
}

#[test]
fn not_one_byte_changes_without_every_confirmation() {
    needs_root!();
    let device = Loop::new(16);
    fs::write(device.image(), vec![0xa5; 16 << 20]).unwrap();
    let before = device.digest();
    let program = Program::new();
    let claims = write(&program, CLAIMS);
    let name = device.name();
    let run = |more: &[&str]| {
        let mut args = vec![
            "validate",
            device.node(),
            "--claims",
            claims.to_str().unwrap(),
        ];
        args.extend(QUICK);
        args.extend(["--steady-round", "20ms"]);
        args.extend(more);
        program.run(&args)
    };
    let overwrite = ["--overwrite", "--confirm", name];
    fn with<'a>(overwrite: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
        [overwrite, more].concat()
    }
    run(&["--overwrite"]).exits(2).says_one_line("--confirm");
    run(&["--overwrite", "--confirm", "sda"])
        .exits(3)
        .says_one_line(name);
    run(&["--purge"]).exits(2);
    run(&["--no-precondition"]).exits(2);
    run(&with(&overwrite, &["--purge"]))
        .exits(2)
        .says_one_line("--confirm-purge");
    run(&with(&overwrite, &["--purge", "--confirm-purge", "sda"]))
        .exits(3)
        .says_one_line("does not confirm purging");
    run(&with(
        &overwrite,
        &["--purge", "--confirm-purge", name, "--span", "1m"],
    ))
    .exits(2);
    run(&with(&overwrite, &["--dry-run"]))
        .exits(0)
        .prints("raw/raw/none/4K/qd4/j1/rand/steady");
    assert_eq!(device.digest(), before);

    device.format("ext4");
    let before = device.digest();
    run(&overwrite).exits(3).says_one_line("--force");
    // Nothing is to be tried, so nothing is written, whatever was allowed.
    let args = ["validate", device.node(), "--claims", "micron-9200"];
    program
        .run(&[&args[..], &overwrite, &["--force"]].concat())
        .exits(0);
    assert_eq!(device.digest(), before);
}

#[test]
fn a_claim_on_a_steady_drive_is_tried_after_writing_it_twice() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let claims = write(&program, CLAIMS);
    let confirmed = ["--overwrite", "--confirm", device.name()];
    let more = [&confirmed[..], &["--steady-round", "50ms"]].concat();
    let (ran, record) = validate(&program, &device, &claims, &more);
    ran.exits(1)
        .prints("Steady state for 3 (worn in): ")
        .prints("32.0 MiB were written in order");
    let trial = &record["validation"]["trials"][2];
    assert_eq!(trial["filled"]["bytes"], 32 << 20);
    let rounds = trial["rounds"].as_array().unwrap();
    assert!((5..=25).contains(&rounds.len()), "{}", rounds.len());
    let written = fs::read(device.image()).unwrap();
    assert!(
        written
            .chunks(4096)
            .all(|block| block.iter().any(|&byte| byte != 0))
    );
    // Judged by the window at which it stopped, or undecided after all rounds.
    let verdict = &verdicts(&program)[2];
    let is_steady = verdict["window"]["is_steady"].as_bool().unwrap();
    assert!(is_steady || rounds.len() == 25, "{verdict:#}");
    assert_eq!(
        verdict["outcome"],
        if is_steady { "holds" } else { "undecided" }
    );
    assert_eq!(verdict["window"]["first_round"], rounds.len() - 5);

    let more = [&more[..], &["--no-precondition"]].concat();
    let (_, record) = validate(&program, &device, &claims, &more);
    let trial = &record["validation"]["trials"][2];
    assert!(trial["filled"].is_null() && !trial["rounds"].as_array().unwrap().is_empty());
}

#[test]
fn a_fresh_drive_is_a_purged_one() {
    needs_root!();
    let device = Loop::new(16);
    fs::write(device.image(), vec![0xa5; 16 << 20]).unwrap();
    let program = Program::new();
    let claims = write(
        &program,
        "about = 'x'\n[[claim]]\nname = 'new'\npattern = 'seq'\nsize = '4k'\nqueue_depth = 1\n\
         state = 'fresh'\nspan = '1m'\nat_least = { iops = 1 }",
    );
    let (ran, record) = validate(&program, &device, &claims, &[]);
    ran.exits(0)
        .prints("the drive was not purged, the claim is about a fresh one");
    assert_eq!(record["validation"]["purged"], false);

    let name = device.name();
    let more = [
        "--overwrite",
        "--confirm",
        name,
        "--purge",
        "--confirm-purge",
        name,
    ];
    let (ran, record) = validate(&program, &device, &claims, &more);
    ran.exits(0).prints("1 holds");
    assert_eq!(record["validation"]["purged"], true);
    // The loop driver punches holes in the image (drivers/block/loop.c), and 1 MiB was written since.
    let now = fs::read(device.image()).unwrap();
    assert!(now[1 << 20..].iter().all(|&byte| byte == 0));
}

#[test]
fn an_applications_buffered_threshold_is_tried_and_preserves() {
    needs_root!();
    let device = Loop::new(16);
    fs::write(device.image(), vec![0x5a; 16 << 20]).unwrap();
    let before = device.digest();
    let program = Program::new();
    let (ran, record) = validate(&program, &device, Path::new("etcd"), &[]);
    assert!(matches!(ran.status, Some(0 | 1)), "{ran:#?}");
    let cells = record["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1, "its own writes are durable");
    assert_eq!(cells[0]["method"], "fdatasync");
    assert_eq!(cells[0]["size_bytes"], 2300);
    assert!(cells[0]["ops"].as_u64().unwrap() > 0);
    assert_eq!(device.digest(), before);
}

#[test]
fn an_interrupted_trial_keeps_what_it_did() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let claims = write(&program, CLAIMS);
    let record = program.state().join("kept.json");
    let mut args = vec![
        "validate",
        device.node(),
        "--claims",
        claims.to_str().unwrap(),
    ];
    args.extend(QUICK);
    args.extend(["--overwrite", "--confirm", device.name()]);
    args.extend([
        "--steady-round",
        "100ms",
        "--json",
        record.to_str().unwrap(),
    ]);
    let mut child = program.start(&args);
    // Until the first round towards the steady state is saved.
    child.until_in(&record, "\"mean_ns\":");
    child.signal(Signal::SIGINT);
    let ran = child.outcome().exits(130);
    ran.prints("1 holds, 1 fails");
    let record: Value = serde_json::from_str(&fs::read_to_string(&record).unwrap()).unwrap();
    assert_eq!(record["run"]["ended"], "interrupted");
    assert!(record["cells"][0]["ops"].as_u64().unwrap() > 0);
}

/// 64 GiB have more blocks of 4 KiB than a slice lists.
#[test]
fn a_large_drive_is_written_all_over() {
    needs_root!();
    let device = Loop::new(64 << 10);
    let program = Program::new();
    let claims = write(
        &program,
        "about = 'x'\n[[claim]]\nname = 'n'\npattern = 'rand'\nsize = '4k'\nqueue_depth = 4\n\
         state = 'any'\nspan = 'whole'\nat_least = { iops = 1 }",
    );
    let (ran, _) = validate(&program, &device, &claims, &[]);
    ran.exits(0)
        .prints("1 not run")
        .prints("its span of 64.0 GiB is more than the 1.00 GiB that can be kept");
    let confirmed = ["--overwrite", "--confirm", device.name(), "--rounds", "2"];
    let mut args = vec![
        "validate",
        device.node(),
        "--claims",
        claims.to_str().unwrap(),
    ];
    args.extend(confirmed);
    args.extend(["--budget", "500ms"]);
    let (ran, record) = program.measure(&args);
    ran.exits(0);
    assert_eq!(record["cells"][0]["span_bytes"], 64_u64 << 30);
    // Written are places of the first and of the last quarter.
    let image = fs::File::open(device.image()).unwrap();
    for start in [0, 48_i64 << 30] {
        let data = nix::unistd::lseek(&image, start, nix::unistd::Whence::SeekData).unwrap();
        assert!(data < start + (16 << 30), "{start}: {data}");
    }
}

/// The kernel throttles in slices of its own (block/blk-throttle.c), so that the rate is 200 a second
/// only about, and a busy machine adds stalls of half a second: every bound is a factor of 20 away.
#[test]
fn a_device_of_known_speed_gets_the_verdicts_that_it_deserves() {
    needs_root!();
    let device = Loop::new(16);
    let Some(throttle) = Throttle::new(device.name(), 200) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "CI must have a control group for I/O"
        );
        eprintln!("skipped: the kernel has no control group for I/O");
        return;
    };
    let program = Program::new();
    let run = |least: u32, most: u32, more: &[&str]| {
        let claim = |bound: &str| {
            format!(
                "[[claim]]\nname = 'n'\npattern = 'rand'\nsize = '4k'\nqueue_depth = 4\n\
                 jobs = 1\nstate = 'any'\n{bound}\n"
            )
        };
        let at_least = claim(&format!("at_least = {{ iops = {least} }}"));
        let at_most = claim(&format!("at_most = {{ iops = {most} }}"));
        let claims = write(&program, &format!("about = 'x'\n{at_least}{at_most}"));
        let claims = claims.to_str().unwrap();
        let args = [
            "validate",
            device.node(),
            "--claims",
            claims,
            "--budget",
            "4s",
        ];
        let args = [&args[..], more].concat();
        ran(throttle.command(&program.command(&args)).output().unwrap())
    };
    // The limit is told, and a device under it is not the one that is claimed of.
    let limit = run(10, 4000, &[]);
    let limit = limit.says("a control group limits this run, /sys/fs/cgroup/");
    assert!(!limit.stdout.contains("2 hold"), "{limit:#?}");
    limit.prints("not comparable");
    run(10, 4000, &["--as-if"]).exits(0).prints("2 hold");
    run(4000, 9000, &["--as-if"])
        .exits(1)
        .prints("1 holds, 1 fails");
    run(5, 10, &["--as-if"]).exits(1).prints("1 holds, 1 fails");
}
