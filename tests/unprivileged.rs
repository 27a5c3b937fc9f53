//! What an ordinary user gets.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use support::{Loop, Mount, Ran, ran};
use tempfile::TempDir;

/// The program, where every user can run it, and a home and a directory for a user without rights.
struct Nobody {
    place: TempDir,
    disk: Mount,
    program: PathBuf,
}

const UID: u32 = 65_534;

impl Nobody {
    fn new() -> Nobody {
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
            place,
            disk,
            program,
        }
    }

    fn data(&self) -> PathBuf {
        self.disk.path().join("data")
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_by(Command::new("setpriv"), args)
    }

    /// Runs the program with a limit on locked memory, in bytes.
    fn run_under(&self, memlock: u32, args: &[&str]) -> Ran {
        let mut command = Command::new("prlimit");
        command.args([&format!("--memlock={memlock}"), "setpriv"]);
        self.run_by(command, args)
    }

    fn run_by(&self, mut command: Command, args: &[&str]) -> Ran {
        command.args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--",
        ]);
        command
            .arg(&self.program)
            .args(args)
            .current_dir(self.data());
        command
            .env_clear()
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
    let ran = nobody.run_under(1_500_000, &args).exits(0);
    assert!(!ran.stderr.contains("register"), "{ran:#?}");
}
