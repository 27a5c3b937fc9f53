//! `syncprof raw` on real loop devices and zram.

mod support;

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use support::{Loop, Program, Zram, cells, digest, ran};

const QUICK: &[&str] = &["--rounds", "2", "--budget", "1s", "--span", "2m"];

fn quick<'a>(args: &[&'a str]) -> Vec<&'a str> {
    args.iter().copied().chain(QUICK.iter().copied()).collect()
}

#[test]
fn a_device_keeps_its_content_and_the_figures_are_those_of_the_device() {
    needs_root!();
    let device = Loop::new(64);
    device.format("ext4");
    let before = device.digest();
    let args = quick(&["raw", device.node(), "--sizes", "512,4k,64k"]);
    let (ran, record) = Program::new().measure(&args);
    let ran = ran.exits(0);
    assert_eq!(device.digest(), before);
    let ran = ran.says("warning").says("--overwrite writes random bytes");
    assert!(!ran.stdout.contains("warning"), "{}", ran.stdout);
    for text in ["512", "4K", "64K", "MiB/s", "p99", device.name()] {
        assert!(ran.stdout.contains(text), "no {text} in {}", ran.stdout);
    }
    let cells = cells(&record, "raw");
    assert_eq!(cells.len(), 3);
    for cell in cells {
        let (ops, size) = (
            cell["ops"].as_u64().unwrap(),
            cell["size_bytes"].as_u64().unwrap(),
        );
        assert!(ops > 0);
        assert_eq!(cell["bytes"], ops * size);
        let latency = &cell["latency_ns"];
        let p = |name: &str| latency[name].as_u64().unwrap();
        assert!(p("min") <= p("p50") && p("p50") <= p("p99") && p("p99") <= p("max"));
        // The device itself counted just what was written, and one flush for each write.
        let slices = cell["slices"].as_array().unwrap();
        for slice in slices {
            let counted = &slice["devices"][0]["counted"];
            assert_eq!(
                counted["write_sectors"].as_u64().unwrap() * 512,
                slice["bytes"]
            );
            assert_eq!(counted["flushes"], slice["ops"]);
        }
    }
}

#[test]
fn every_method_engine_and_pattern_preserves() {
    needs_root!();
    let device = Loop::new(16);
    fs::write(device.image(), vec![0xa5; 16 << 20]).unwrap();
    let before = device.digest();
    let program = Program::new();
    for more in [
        &["--method", "o_dsync,o_sync,rwf_dsync,fdatasync,fsync,none"][..],
        &["--engine", "sync", "--method", "o_dsync,rwf_dsync,fsync"],
        &["--pattern", "seq,rand,same", "--queue-depth", "1,8"],
        &["--jobs", "1,3", "--direct", "on,off"],
        &["--rate", "500", "--sqpoll"],
        &["--engine", "null"],
    ] {
        let mut args = quick(&["raw", device.node(), "--sizes", "4k"]);
        args.extend(more);
        let (_, record) = program.measure(&args);
        for cell in cells(&record, "raw") {
            assert!(cell["ops"].as_u64().unwrap() > 0, "{cell:#}");
            assert!(cell["failed"].is_null(), "{cell:#}");
        }
        assert_eq!(device.digest(), before, "{more:?}");
    }
}

#[test]
fn a_kill_at_any_moment_leaves_the_content() {
    needs_root!();
    let device = Loop::new(16);
    device.format("ext4");
    let before = device.digest();
    let program = Program::new();
    let mut random = fastrand::Rng::with_seed(20);
    for moment in 0..20 {
        let record = program.state().join(format!("{moment}.json"));
        let args = [
            "raw",
            device.node(),
            "--sizes",
            "4k,64k",
            "--span",
            "8m",
            "--queue-depth",
            "4",
            "--json",
            record.to_str().unwrap(),
        ];
        let mut child = program.start(&args);
        // Half of them while it certainly writes.
        if moment % 2 == 0 {
            child.until_saved(&record);
        }
        sleep(Duration::from_millis(random.u64(1..400)));
        child.killed();
        assert_eq!(device.digest(), before, "kill {moment}");
    }
}

#[test]
fn the_second_flush_of_plain_calls_is_told() {
    needs_root!();
    let device = Loop::new(16);
    let mut args = quick(&["raw", device.node(), "--sizes", "4k"]);
    args.extend(["--engine", "uring,sync"]);
    let (ran, record) = Program::new().measure(&args);
    ran.exits(0).says("flush once more");
    for cell in cells(&record, "raw") {
        let flushes_per_write = if cell["engine"] == "sync" { 2 } else { 1 };
        for slice in cell["slices"].as_array().unwrap() {
            let flushes = slice["devices"][0]["counted"]["flushes"].as_u64().unwrap();
            assert_eq!(flushes, flushes_per_write * slice["ops"].as_u64().unwrap());
        }
    }
}

#[test]
fn a_bio_based_device_of_4k_blocks_is_measured_and_its_worker_requests_are_told() {
    needs_root!();
    let zram = Zram::new(32);
    let node = zram.node();
    let (ran, record) = Program::new().measure(&quick(&["raw", &node]));
    let ran = ran
        .exits(0)
        .says("512 is left out: not a multiple of the logical block of 4096");
    assert!(ran.stdout.contains("1M"));
    assert_eq!(cells(&record, "raw").len(), 9);
    // zram can't do NOWAIT, so every write of the ring goes to a worker thread, where they can be
    // counted at all.
    let cell = &cells(&record, "raw")[0];
    let handed = &cell["handed"];
    assert!(handed["ops"].as_u64().unwrap() > 0);
    assert_eq!(handed["requests"], handed["ops"]);
}

#[test]
fn overwriting_needs_a_free_device_and_its_name() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let before = device.digest();
    let run = |more: &[&str]| {
        let mut args = quick(&["raw", device.node(), "--sizes", "4k", "--overwrite"]);
        args.extend(more);
        program.run(&args)
    };
    run(&[]).exits(2).says_one_line("--confirm");
    run(&["--confirm", "sda"])
        .exits(3)
        .says_one_line(device.name());
    run(&["--confirm", ""]).exits(3);
    run(&["--confirm", device.node()]).exits(3);
    assert_eq!(device.digest(), before);

    run(&["--confirm", device.name()]).exits(0);
    assert_ne!(device.digest(), before);
    let written = fs::read(device.image()).unwrap();
    assert!(
        written[2 << 20..].iter().all(|&byte| byte == 0),
        "written past the span"
    );

    device.format("ext4");
    let before = device.digest();
    run(&["--confirm", device.name()])
        .exits(3)
        .says_one_line("force");
    assert_eq!(device.digest(), before);
    run(&["--confirm", device.name(), "--force"]).exits(0);
    assert_ne!(device.digest(), before);
}

#[test]
fn written_data_is_incompressible_and_never_the_same() {
    needs_root!();
    let device = Loop::new(16);
    let confirmed = ["--overwrite", "--confirm", device.name()];
    let mut args = quick(&["raw", device.node(), "--sizes", "64k"]);
    args.extend(confirmed);
    Program::new().run(&args).exits(0);
    let written = fs::read(device.image()).unwrap();
    // A slow machine does not get round the span.
    let is_written = |sector: &&[u8]| sector.iter().any(|&byte| byte != 0);
    let mut sectors: Vec<&[u8]> = written.chunks(512).filter(is_written).collect();
    assert!(sectors.len() >= 128, "{} sectors written", sectors.len());
    sectors.sort_unstable();
    assert!(
        sectors.windows(2).all(|pair| pair[0] != pair[1]),
        "two sectors are equal"
    );
}

#[test]
fn an_interrupted_run_saves_what_it_measured() {
    needs_root!();
    let device = Loop::new(16);
    let before = digest(device.image());
    let program = Program::new();
    let record = program.state().join("kept.json");
    let path = record.to_str().unwrap();
    let mut child = program.start(&["raw", device.node(), "--sizes", "4k", "--json", path]);
    child.until_saved(&record);
    child.signal(Signal::SIGINT);
    let ran = child.outcome().exits(130);
    assert!(ran.stdout.contains("4K"), "{ran:#?}");
    let text = fs::read_to_string(&record).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["run"]["ended"], "interrupted");
    assert!(record["cells"][0]["ops"].as_u64().unwrap() > 0);
    assert_eq!(digest(device.image()), before);
}

#[test]
fn a_saved_record_prints_the_same_tables() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let (ran, _) = program.measure(&quick(&["raw", device.node(), "--sizes", "4k,64k"]));
    let path = program.state().join("record.json");
    let again = program.run(&["report", path.to_str().unwrap()]).exits(0);
    assert_eq!(ran.exits(0).stdout, again.stdout);
    let json = program
        .run(&["report", "--format", "json", path.to_str().unwrap()])
        .exits(0);
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(value["schema"], "syncprof.record/1");
    assert!(value["gaps"].as_array().unwrap().is_empty());
    let told = value["warnings"].as_array().unwrap();
    assert!(
        told.iter()
            .all(|text| again.stderr.contains(text.as_str().unwrap())),
        "{again:#?}"
    );

    let path = path.to_str().unwrap();
    let both = program.run(&["report", path, path]).exits(0);
    assert_eq!(both.stdout.matches(&again.stdout).count(), 2);
    assert!(both.stdout.starts_with(&format!("{path}:\n")), "{both:#?}");
    let none = program.run(&["report", path, "/nowhere"]).exits(2);
    assert!(none.stdout.is_empty(), "{none:#?}");
}

#[test]
fn a_run_of_one_seed_writes_in_the_same_order() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let order = || {
        let args = quick(&["raw", device.node(), "--seed", "5"]);
        let (_, record) = program.measure(&args);
        let mut slices: Vec<(u64, u64, String)> = Vec::new();
        for cell in cells(&record, "raw") {
            for slice in cell["slices"].as_array().unwrap() {
                let place = |name: &str| slice[name].as_u64().unwrap();
                slices.push((place("round"), place("position"), cell["id"].to_string()));
            }
        }
        slices.sort();
        slices
    };
    assert_eq!(order(), order());
}

#[test]
fn a_dry_run_writes_nothing() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let ran = program
        .run(&["raw", device.node(), "--sizes", "4k,64k", "--dry-run"])
        .exits(0);
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:#?}");
    assert_eq!(fs::read_dir(program.state()).unwrap().count(), 0);
}

#[test]
fn the_program_survives_a_closed_standard_output() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let mut command = program.command(&quick(&["raw", device.node(), "--sizes", "4k"]));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = ran(command.stdout(writer).output().unwrap());
    // As with `| head`: who reads no more wants no more, and the record is kept.
    ran.exits(0).says("the record is in");
}
