//! What can't be measured: one clear line, the right exit code, and nothing left behind.

mod support;

use std::fs;

use support::seccomp::without;
use support::{Loop, Mount, Program, cells, ran};

#[test]
fn usage_errors_name_what_is_wrong() {
    let program = Program::new();
    for (args, part) in [
        (&["file", "/nowhere"][..], "/nowhere"),
        (&["file", "/etc/hostname"], "not a directory"),
        (&["file", ".", "--sizes", "4kb"], "4kb"),
        (&["file", ".", "--sizes", "0"], "0"),
        (&["file", ".", "--method", "odsync"], "o_dsync"),
        (&["file", ".", "--budget", "60"], "60"),
        (&["file", ".", "--precision", "5"], "5%"),
        (&["file", ".", "--profile", "nothing"], "vendor-note"),
        (
            &["file", ".", "--engine", "sync", "--queue-depth", "4"],
            "--jobs",
        ),
        (&["file", ".", "--iopoll", "--method", "fsync"], "iopoll"),
        (&["file", ".", "--rate", "-1"], "-1"),
        (&["file", ".", "--sizes", "1m", "--span", "64k"], "span"),
        (&["file", ".", "--sizes", "600"], "600"),
        (&["gap", ".", "--overwrite"], "--raw"),
        (&["raw", "/dev/x", "--file-state", "trunc"], "--file-state"),
        (&["file", "/", ".", "--sizes", "600"], ": size 600"),
        (&["report", "/nowhere"], "/nowhere"),
        (&["profiles", "nothing"], "nothing"),
        (&["nothing"], "nothing"),
    ] {
        let ran = program.run(args).exits(2).says(part);
        assert!(ran.stdout.is_empty(), "{ran:#?}");
    }
}

#[test]
fn a_profile_with_an_unknown_key_names_the_line() {
    let folder = support::folder();
    let path = folder.path().join("mine.toml");
    fs::write(&path, "about = \"mine\"\n\nsizs = [\"4k\"]\n").unwrap();
    let program = Program::new();
    program
        .run(&[
            "file",
            ".",
            "--profile",
            path.to_str().unwrap(),
            "--dry-run",
        ])
        .exits(2)
        .says_one_line("mine.toml:3")
        .says("sizs");
}

#[test]
fn what_is_no_record_is_told() {
    let folder = support::folder();
    let path = folder.path().join("record.json");
    let program = Program::new();
    for text in ["", "{", "[]", "{}", r#"{"schema":"syncprof.record/99"}"#] {
        fs::write(&path, text).unwrap();
        program
            .run(&["report", path.to_str().unwrap()])
            .exits(2)
            .says_one_line("record.json");
    }
}

#[test]
fn a_size_that_the_device_cannot_take_is_refused() {
    needs_root!();
    let device = Loop::new(8);
    let program = Program::new();
    for (size, part) in [("600", "multiple"), ("16m", "larger")] {
        program
            .run(&["raw", device.node(), "--sizes", size])
            .exits(2)
            .says_one_line(part);
    }
    let with_4k_blocks = Loop::over(device.image(), &["--sector-size", "4096"]);
    drop(device);
    program
        .run(&["raw", with_4k_blocks.node(), "--sizes", "512"])
        .exits(2)
        .says_one_line("logical block of 4096");
}

#[test]
fn a_read_only_filesystem_is_refused() {
    needs_root!();
    let device = Loop::new(64);
    device.format("ext4");
    let mount = Mount::of(device, &["-o", "ro"]);
    Program::new()
        .run(&["file", mount.dir()])
        .exits(4)
        .says_one_line("read-only");
}

#[test]
fn a_record_that_cannot_be_saved_is_told_before_anything_is_measured() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let names = mount.names();
    Program::new()
        .run(&["file", mount.dir(), "--json", "/nowhere/record.json"])
        .exits(4)
        .says_one_line("/nowhere/record.json");
    assert_eq!(mount.names(), names);
}

#[test]
fn a_device_that_fails_makes_its_cells_fail_and_the_rest_goes_on() {
    needs_root!();
    // The image is sparse on a filesystem that is full: some writes get ENOSPC, which the loop
    // device turns into EIO or ENOSPC.
    let host = Loop::new(48).mounted("ext4");
    let image = host.path().join("image");
    fs::File::create(&image)
        .unwrap()
        .set_len(256 << 20)
        .unwrap();
    let device = Loop::over(&image, &["--direct-io=on"]);
    let filler = host.path().join("filler");
    let stat = nix::sys::statvfs::statvfs(host.path()).unwrap();
    let free = stat.blocks_available() * stat.fragment_size();
    fs::write(&filler, vec![1; (free - (2 << 20)) as usize]).unwrap();
    // Where it would write back what is there, the guard refuses it.
    let args = [
        "raw",
        device.node(),
        "--overwrite",
        "--confirm",
        device.name(),
        "--sizes",
        "1m",
        "--span",
        "64m",
        "--rounds",
        "2",
    ];
    let (ran, record) = Program::new().measure(&args);
    ran.exits(1);
    assert!(record["cells"][0]["failed"].is_string(), "{record:#}");
    drop(device);
}

#[test]
fn blocked_io_uring_is_told_with_its_cause_and_the_ways_out() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let names = mount.names();
    let args = [
        "file",
        mount.dir(),
        "--sizes",
        "4k",
        "--rounds",
        "1",
        "--budget",
        "1s",
    ];
    let blocked = |more: &[&str]| {
        let mut command = program.command(&[&args[..], more].concat());
        ran(without(libc::SYS_io_uring_setup, libc::EPERM, &mut command)
            .output()
            .unwrap())
    };
    blocked(&[])
        .exits(4)
        .says_one_line("seccomp")
        .says("--engine sync");
    blocked(&["--engine", "sync"]).exits(0);
    let path = program.state().join("fallback.json");
    blocked(&["--fallback", "--json", path.to_str().unwrap()])
        .exits(0)
        .says("engine sync");
    let record = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(cells(&record, "file")[0]["engine"], "sync");
    assert_eq!(record["notes"][0]["level"], "fallback");
    assert_eq!(mount.names(), names);
}

/// A write that was queued and never submitted is not waited for.
#[test]
fn a_ring_that_cannot_be_entered_fails_its_cells_and_hangs_nothing() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let names = mount.names();
    for method in ["o_dsync", "fdatasync"] {
        let args = [
            "file",
            mount.dir(),
            "--sizes",
            "4k",
            "--method",
            method,
            "--rounds",
            "1",
        ];
        let mut command = program.command(&args);
        ran(without(libc::SYS_io_uring_enter, libc::EPERM, &mut command)
            .output()
            .unwrap())
        .exits(1)
        .prints("io_uring_enter");
    }
    assert_eq!(mount.names(), names);
}
