//! `syncprof file` on real filesystems.

mod support;

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use support::{Loop, Mount, Program, cells, system};

const QUICK: &[&str] = &["--rounds", "2", "--budget", "1s", "--span", "2m"];

fn mounted(fs: &str) -> Mount {
    let mib = if fs == "xfs" { 320 } else { 192 };
    Loop::new(mib).mounted(fs)
}

fn file_args<'a>(dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    ["file", dir]
        .iter()
        .chain(more)
        .chain(QUICK)
        .copied()
        .collect()
}

#[test]
fn every_state_is_measured_on_every_filesystem_and_nothing_is_left() {
    needs_root!();
    for fs in ["ext2", "ext3", "ext4", "xfs", "btrfs"] {
        let mount = mounted(fs);
        let before = mount.names();
        let states = "overwrite,unwritten,append,trunc,trunc-each";
        // ext2 and ext3 have no fallocate(2).
        let states = if fs == "ext2" || fs == "ext3" {
            "overwrite,append,trunc,trunc-each"
        } else {
            states
        };
        let more = ["--sizes", "4k,64k", "--file-state", states];
        let (ran, record) = Program::new().measure(&file_args(mount.dir(), &more));
        ran.exits(0);
        let cells = cells(&record, "file");
        assert_eq!(cells.len(), 2 * states.split(',').count(), "{fs}");
        for cell in cells {
            assert!(cell["ops"].as_u64().unwrap() > 0, "{fs}: {cell:#}");
            let trunc = cell["file_state"] == "trunc";
            let opens = cell["slices"][0]["truncating_opens_ns"].as_array().unwrap();
            assert_eq!(!opens.is_empty(), trunc, "{fs}: {cell:#}");
        }
        assert_eq!(mount.names(), before, "{fs}");
    }
}

#[test]
fn who_has_switched_copy_on_write_off_is_not_told_to() {
    needs_root!();
    let mount = mounted("btrfs");
    for (flag, is_off) in [("-C", false), ("+C", true)] {
        system("chattr", &[flag, mount.dir()]);
        let (ran, record) = Program::new().measure(&file_args(mount.dir(), &["--sizes", "4k"]));
        let ran = ran.exits(0);
        assert_eq!(record["targets"][0]["nocow"], is_off);
        assert_ne!(
            ran.stdout.contains("copies on write"),
            is_off,
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn every_method_and_engine_works_on_a_file() {
    needs_root!();
    let mount = mounted("ext4");
    let program = Program::new();
    for more in [
        &[
            "--method",
            "o_dsync,o_sync,rwf_dsync,fdatasync,fsync,none",
            "--direct",
            "on,off",
        ][..],
        &["--engine", "sync,null", "--method", "o_dsync,fdatasync"],
        &[
            "--jobs",
            "1,2",
            "--queue-depth",
            "1,4",
            "--pattern",
            "seq,rand,same",
        ],
        &["--rate", "200", "--payload", "50%"],
    ] {
        let mut args = file_args(mount.dir(), &["--sizes", "4k"]);
        args.extend(more);
        let (ran, record) = program.measure(&args);
        ran.exits(0);
        for cell in cells(&record, "file") {
            assert!(cell["ops"].as_u64().unwrap() > 0, "{cell:#}");
        }
    }
}

#[test]
fn trunc_measures_both_states_side_by_side_and_prints_the_penalty() {
    needs_root!();
    let mount = mounted("ext4");
    let (ran, record) =
        Program::new().measure(&file_args(mount.dir(), &["--sizes", "4k", "--trunc"]));
    ran.exits(0)
        .prints("overwrite")
        .prints("trunc")
        .prints("O_TRUNC");
    let states: Vec<_> = cells(&record, "file")
        .iter()
        .map(|cell| &cell["file_state"])
        .collect();
    assert_eq!(states, ["overwrite", "trunc"]);
}

#[test]
fn a_filesystem_that_caches_direct_writes_is_labelled() {
    needs_root!();
    let mount = Mount::of(formatted("ext4", 192), &["-o", "data=journal"]);
    let (ran, record) = Program::new().measure(&file_args(mount.dir(), &["--sizes", "4k"]));
    let ran = ran.exits(0).says("--direct off");
    // In the line of what all writes have in common, or in a column.
    assert!(ran.stdout.contains("4K  buffered"), "{ran:#?}");
    let cell = &cells(&record, "file")[0];
    assert_eq!(cell["buffered"]["is_refused"], false, "{cell:#}");

    let mount = mounted("ext4");
    let (ran, record) = Program::new().measure(&file_args(mount.dir(), &["--sizes", "4k"]));
    assert!(!ran.exits(0).stdout.contains("buffered"));
    assert!(record["cells"][0]["buffered"].is_null());
}

fn formatted(fs: &str, mib: u64) -> Loop {
    let device = Loop::new(mib);
    device.format(fs);
    device
}

#[test]
fn facts_of_the_filesystem_are_those_that_its_own_tools_tell() {
    needs_root!();
    let device = Loop::new(192);
    system(
        "mkfs.ext4",
        &["-q", "-F", "-b", "1024", "-J", "size=8", device.node()],
    );
    let mount = Mount::of(device, &["-o", "data=writeback"]);
    let (_, record) = Program::new().measure(&file_args(mount.dir(), &["--sizes", "4k"]));
    let facts = &record["targets"][0]["mount"];
    assert_eq!(facts["fs_type"], "ext4");
    assert_eq!(facts["block_bytes"], 1024);
    assert_eq!(facts["journal"]["mode"], "writeback");
    assert_eq!(facts["journal"]["size_bytes"], 8 << 20);

    let device = Loop::new(512);
    system("mkfs.xfs", &["-q", "-f", "-l", "size=96m", device.node()]);
    let mount = Mount::of(device, &[]);
    let (_, record) = Program::new().measure(&file_args(mount.dir(), &["--sizes", "4k"]));
    assert_eq!(
        record["targets"][0]["mount"]["journal"]["size_bytes"],
        96 << 20
    );

    let device = Loop::new(192);
    system(
        "mkfs.ext4",
        &["-q", "-F", "-O", "^has_journal", device.node()],
    );
    let mount = Mount::of(device, &[]);
    let (_, record) = Program::new().measure(&file_args(mount.dir(), &["--sizes", "4k"]));
    assert_eq!(record["targets"][0]["mount"]["journal"]["mode"], "none");
}

#[test]
fn a_signal_leaves_nothing_behind() {
    needs_root!();
    let mount = mounted("ext4");
    let before = mount.names();
    let program = Program::new();
    let mut random = fastrand::Rng::with_seed(3);
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    for signal in signals.iter().cycle().take(12) {
        let mut child = program.start(&["file", mount.dir(), "--trunc", "--sizes", "4k,64k"]);
        child.until(|| mount.names() != before);
        sleep(Duration::from_millis(random.u64(0..500)));
        child.signal(*signal);
        child.outcome().exits(130);
        assert_eq!(mount.names(), before, "{signal}");
        assert_eq!(entries(&program), Vec::<String>::new(), "{signal}");
    }
}

/// The entries of scratch folders in the program's state folder.
fn entries(program: &Program) -> Vec<String> {
    let names = fs::read_dir(program.state().join("syncprof"))
        .into_iter()
        .flatten();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("scratch")).collect()
}

#[test]
fn what_a_kill_leaves_is_told_and_cleaned() {
    needs_root!();
    let mount = mounted("ext4");
    let before = mount.names();
    let program = Program::new();
    let mut random = fastrand::Rng::with_seed(4);
    for moment in 0..8 {
        let mut child = program.start(&["gap", mount.dir(), "--sizes", "4k"]);
        // Half of them while there certainly is something to leave.
        if moment % 2 == 0 {
            child.until(|| mount.names() != before);
        }
        sleep(Duration::from_millis(random.u64(1..600)));
        child.killed();
        program.run(&["clean"]).exits(0);
        assert_eq!(mount.names(), before);
        assert_eq!(entries(&program), Vec::<String>::new());
    }
    // Without the state folder, by the directory.
    let mut child = program.start(&["gap", mount.dir(), "--sizes", "4k"]);
    child.until(|| mount.names() != before);
    child.killed();
    program
        .run(&["file", mount.dir(), "--rounds", "1", "--sizes", "4k"])
        .says("syncprof clean");
    Program::new()
        .run(&["clean", mount.dir()])
        .exits(0)
        .prints("removed");
    assert_eq!(mount.names(), before);
}

#[test]
fn a_running_measurement_is_not_cleaned_away() {
    needs_root!();
    let mount = mounted("ext4");
    let program = Program::new();
    let before = mount.names();
    let mut child = program.start(&["file", mount.dir(), "--sizes", "4k"]);
    child.until(|| mount.names() != before);
    program
        .run(&["clean", mount.dir()])
        .exits(0)
        .says("in use by a run that goes on");
    assert_ne!(mount.names(), before);
    child.signal(Signal::SIGINT);
    child.outcome().exits(130);
}

#[test]
fn a_full_filesystem_is_refused_and_a_small_one_gets_a_small_span() {
    needs_root!();
    let mount = Loop::new(32).mounted("ext4");
    let program = Program::new();
    let free = || {
        let stat = nix::sys::statvfs::statvfs(mount.path()).unwrap();
        stat.blocks_available() * stat.fragment_size()
    };
    let (ran, record) = program.measure(&["file", mount.dir(), "--rounds", "1", "--budget", "1s"]);
    ran.exits(0);
    assert!(record["cells"][0]["span_bytes"].as_u64().unwrap() <= free() / 2);

    program
        .run(&["file", mount.dir(), "--span", "30m"])
        .says_one_line("half")
        .exits(4);

    let filler = mount.path().join("filler");
    fs::write(&filler, vec![1; (free() - (256 << 10)) as usize]).unwrap();
    let names = mount.names();
    program
        .run(&["file", mount.dir()])
        .exits(4)
        .says_one_line("half");
    assert_eq!(mount.names(), names);
}

/// Each alone would be allowed half of what is free.
#[test]
fn directories_on_one_filesystem_share_what_a_run_may_take_of_it() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let dirs: Vec<String> = ["a", "b", "c"]
        .iter()
        .map(|name| format!("{}/{name}", mount.dir()))
        .collect();
    dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let stat = nix::sys::statvfs::statvfs(mount.path()).unwrap();
    let free = stat.blocks_available() * stat.fragment_size();
    let program = Program::new();
    let run = |more: &[&str]| {
        let mut args = vec!["file"];
        args.extend(dirs.iter().map(String::as_str));
        args.extend(["--rounds", "1", "--budget", "1s", "--sizes", "4k"]);
        program.measure(&[&args[..], more].concat())
    };
    let (ran, record) = run(&[]);
    ran.exits(0);
    let spans = cells(&record, "file").into_iter();
    let spans: Vec<u64> = spans
        .map(|cell| cell["span_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(spans.len(), 3);
    assert!(spans.iter().sum::<u64>() <= free / 2, "{spans:?} of {free}");

    let span = format!("{}k", free / 2 / 1024 / 4 * 4);
    let mut args = vec!["file"];
    args.extend(dirs.iter().map(String::as_str));
    args.extend(["--sizes", "4k", "--span", &span]);
    program.run(&args).exits(4).says_one_line("lie there too");
    for dir in &dirs {
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    }
}

#[test]
fn tmpfs_is_measured_without_a_device() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let dir = folder.path().to_str().unwrap();
    let (ran, record) = Program::new().measure(&file_args(dir, &["--sizes", "4k"]));
    let ran = ran.exits(0).says("--direct off");
    // In the line of what all writes have in common, or in a column.
    assert!(ran.stdout.contains("4K  buffered"), "{ran:#?}");
    assert!(record["targets"][0]["stack"].as_array().unwrap().is_empty());
    assert_eq!(fs::read_dir(Path::new(dir)).unwrap().count(), 0);
}
