//! What an ordinary user gets.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use support::{Loop, Mount, Ran, ran, system};
use tempfile::TempDir;

/// The program, where every user can run it, and a home and a directory for a user without rights.
struct Nobody {
    _alone: MutexGuard<'static, ()>,
    place: TempDir,
    disk: Mount,
    program: PathBuf,
}

const UID: u32 = 65_534;

impl Nobody {
    /// One at a time: the kernel charges locked memory to the user, whichever process locked it.
    fn new() -> Nobody {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = tempfile::Builder::new()
            .prefix("syncprof-nobody-")
            .tempdir_in("/var/tmp")
            .unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let program = place.path().join("syncprof");
        fs::copy(env!("CARGO_BIN_EXE_syncprof"), &program).unwrap();
        let disk = Loop::new(64).mounted("ext4");
        for folder in [place.path().join("home"), disk.path().join("data")] {
            fs::create_dir(&folder).unwrap();
            std::os::unix::fs::chown(&folder, Some(UID), Some(UID)).unwrap();
        }
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(disk.path(), open).unwrap();
        Nobody {
            _alone: alone,
            place,
            disk,
            program,
        }
    }

    fn data(&self) -> PathBuf {
        self.disk.path().join("data")
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(&["--clear-groups"], args)
    }

    /// Runs the program with more options of setpriv(1), which must say what groups it is in.
    fn run_with(&self, options: &[&str], args: &[&str]) -> Ran {
        self.run_by(Command::new("setpriv"), options, args)
    }

    /// Runs the program under a limit of prlimit(1).
    fn run_under(&self, limit: &str, args: &[&str]) -> Ran {
        let mut command = Command::new("prlimit");
        command.args([limit, "setpriv"]);
        self.run_by(command, &["--clear-groups"], args)
    }

    fn run_by(&self, mut command: Command, options: &[&str], args: &[&str]) -> Ran {
        command.args(["--reuid", "65534", "--regid", "65534"]);
        command
            .args(options)
            .arg("--")
            .arg(&self.program)
            .args(args)
            .current_dir(self.data());
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.place.path().join("home"));
        ran(command.output().unwrap())
    }
}

const QUICK: &[&str] = &[
    "--rounds", "2", "--budget", "1s", "--span", "1m", "--sizes", "4k",
];

#[test]
fn a_file_is_measured_and_a_gap_says_what_is_missing() {
    needs_root!();
    let nobody = Nobody::new();
    let args = |verb: &'static str| [&[verb, "."], QUICK].concat();
    nobody.run(&args("file")).exits(0).prints("4K");
    let ran = nobody.run(&args("gap")).exits(0).prints("4K");
    let ran = ran.says("no baseline, so no gap");
    assert!(
        ran.stdout.contains("sudo") || ran.stdout.contains("root"),
        "{ran:#?}"
    );
    assert_eq!(fs::read_dir(nobody.data()).unwrap().count(), 0);
}

#[test]
fn a_device_needs_rights() {
    needs_root!();
    let device = Loop::new(16);
    let before = device.digest();
    let nobody = Nobody::new();
    nobody
        .run(&["raw", device.node()])
        .exits(4)
        .says_one_line("run as root");
    assert_eq!(device.digest(), before);
    nobody.run(&["list"]).exits(0).prints(device.name());
}

#[test]
fn a_directory_without_rights_and_a_home_without_room_are_told() {
    needs_root!();
    let nobody = Nobody::new();
    nobody.run(&["file", "/etc"]).exits(4).says_one_line("/etc");
    fs::set_permissions(
        nobody.place.path().join("home"),
        fs::Permissions::from_mode(0o000),
    )
    .unwrap();
    std::os::unix::fs::chown(nobody.place.path().join("home"), Some(0), Some(0)).unwrap();
    nobody
        .run(&[&["file", "."], QUICK].concat())
        .exits(0)
        .says("--json FILE");
}

/// A ring's buffers are given back before the next ring is made.
#[test]
fn locked_memory_for_one_ring_does_for_many_in_a_row() {
    needs_root!();
    let nobody = Nobody::new();
    let args = [
        "file", ".", "--sizes", "1m", "--span", "4m", "--trunc", "--rounds", "4", "--budget", "2s",
    ];
    let ran = nobody.run_under("--memlock=1500000", &args).exits(0);
    assert!(!ran.stderr.contains("register"), "{ran:#?}");
}

/// Root has neither limit.
#[test]
fn limits_on_threads_and_on_locked_memory_are_told_with_the_remedy() {
    needs_root!();
    let nobody = Nobody::new();
    let args = [&["file", ".", "--jobs", "16"], QUICK].concat();
    nobody
        .run_under("--nproc=4", &args)
        .exits(1)
        .says("a thread for each job: Resource temporarily unavailable (os error 11)")
        .says("ulimit -u");
    let ran = nobody.run_under("--memlock=0", &[&["file", "."], QUICK].concat());
    // Kernels from 5.12 to 6.13 charge a ring to nobody.
    if ran.status != Some(0) {
        ran.exits(4).says_one_line("ulimit -l");
    }
    assert_eq!(fs::read_dir(nobody.data()).unwrap().count(), 0);
}

/// Options of setpriv(1) for these capabilities.
fn with(capabilities: &str) -> [&str; 4] {
    ["--inh-caps", capabilities, "--ambient-caps", capabilities]
}

/// SECURITY.md says what each verb needs: with that, it does its work, and without, it says what is missing.
#[test]
fn each_verb_works_with_the_capabilities_that_it_needs() {
    needs_root!();
    let nobody = Nobody::new();
    let device = Loop::new(16);
    let before = device.digest();
    let run = |capabilities: &str, args: &[&str]| {
        let args = [args, &["--trace", "off"], QUICK].concat();
        nobody.run_with(
            &[&["--clear-groups"], &with(capabilities)[..]].concat(),
            &args,
        )
    };
    let raw = ["raw", device.node()];
    let sees = "+dac_override,+sys_ptrace";
    run("+dac_override", &raw)
        .exits(0)
        .says("may not look into");
    let writer = fs::File::options().write(true).open(device.node()).unwrap();
    run("+dac_override", &raw)
        .exits(0)
        .says("may not look into");
    run(sees, &raw).exits(3).says_one_line("open for writing");
    drop(writer);
    let ran = run(sees, &raw).exits(0);
    assert!(!ran.stderr.contains("may not look into"), "{ran:#?}");
    let gap = ["gap", "."];
    let without = run("+dac_override", &gap).exits(0);
    without.says("CAP_LINUX_IMMUTABLE");
    let with_flag = run("+dac_override,+linux_immutable", &gap).exits(0);
    with_flag.prints("raw/file");
    let profile = nobody.place.path().join("one.toml");
    let text = "about = 'a'\nquestion = 'q'\n[[matrix]]\nfs = ['ext4']\n[cells]\nsizes = '4k'";
    fs::write(&profile, text).unwrap();
    let lab = ["lab", profile.to_str().unwrap(), "--image", "64m"];
    run("+sys_admin", &lab)
        .exits(4)
        .ends_with_error("CAP_DAC_OVERRIDE");
    run("+sys_admin,+dac_override", &lab)
        .exits(0)
        .prints("ext4");
    assert_eq!(device.digest(), before);
    assert_eq!(fs::read_dir(nobody.data()).unwrap().count(), 0);
}

/// Standard error has one line of what the kernel doesn't tell, and it holds these texts.
#[track_caller]
fn one_line_of_what_is_missing(ran: &Ran, parts: &[&str]) {
    let told: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("not traced") || line.contains("not counted"))
        .collect();
    assert_eq!(told.len(), 1, "{ran:#?}");
    for part in parts {
        assert!(told[0].contains(part), "no {part:?} in {ran:#?}");
    }
}

#[test]
fn without_the_kernels_events_counters_still_tell() {
    needs_root!();
    let nobody = Nobody::new();
    let device = Loop::new(16);
    // Whoever is in the group of disks may open one, where udev(7) set it so.
    let as_member = ["--groups", "disk"];
    let node = device.node();
    system("chgrp", &["disk", node]);
    system("chmod", &["g+rw", node]);
    for (options, args) in [
        (&["--clear-groups"][..], ["file", "."]),
        (&as_member, ["raw", node]),
    ] {
        let args = [&args[..], QUICK].concat();
        let ran = nobody.run_with(options, &args).exits(0);
        let ran = ran.prints("ampl.").prints("flushes");
        one_line_of_what_is_missing(&ran, &["tracefs is root's", "run as root"]);
        nobody
            .run_with(options, &[&args[..], &["--trace", "on"]].concat())
            .exits(4)
            .ends_with_error("run as root");
    }
}

/// Tracefs may be readable without the right to record, and the right without the memory for it.
#[test]
fn what_a_user_with_some_capabilities_lacks_is_told() {
    needs_root!();
    let nobody = Nobody::new();
    let run = |capabilities: &str, memlock: &str| {
        let mut command = Command::new("prlimit");
        command.args([&format!("--memlock={memlock}"), "setpriv"]);
        let options = [&["--clear-groups"], &with(capabilities)[..]].concat();
        let args = [&["file", "."], QUICK].concat();
        nobody.run_by(command, &options, &args).exits(0)
    };
    let reads = run("+dac_read_search", "8388608");
    one_line_of_what_is_missing(&reads, &["kernel.perf_event_paranoid is", "CAP_PERFMON"]);
    // perfmon is newer than some setpriv(1).
    let little = run("+dac_read_search,+cap_38", "1000000");
    one_line_of_what_is_missing(&little, &["locked memory: ulimit -l"]);
    // Who may lock as much as there is needs no limit raised: not every root may raise one.
    let enough = run("+dac_read_search,+ipc_lock,+cap_38", "1000000");
    assert!(!enough.stderr.contains("not traced"), "{enough:#?}");
    enough.prints("Anatomy");
}
