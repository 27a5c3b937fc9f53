//! Where the kernel's events are closed: the device's counters still tell, and one line says what is
//! missing and how to get it.

mod support;

use std::fs;
use std::process::Command;

use support::seccomp::without;
use support::{Loop, Program, Ran, cells, ran};

const QUICK: &[&str] = &[
    "--rounds", "2", "--budget", "1s", "--span", "1m", "--sizes", "4k",
];

/// The program under `setup`, which makes the kernel's events unavailable in some way.
struct Closed<'a> {
    program: Program,
    device: Loop,
    setup: &'a dyn Fn(Command) -> Command,
}

impl<'a> Closed<'a> {
    fn by(setup: &'a dyn Fn(Command) -> Command) -> Closed<'a> {
        Closed {
            program: Program::new(),
            device: Loop::new(16),
            setup,
        }
    }

    fn run(&self, more: &[&str]) -> Ran {
        let args = [&["raw", self.device.node()], QUICK, more].concat();
        let command = self.program.command(&args);
        ran((self.setup)(command).output().unwrap())
    }

    /// What `--trace` gives in each of its ways.
    fn tells(&self, parts: &[&str]) {
        let record = self.program.state().join("record.json");
        let auto = self.run(&["--json", record.to_str().unwrap()]).exits(0);
        let auto = auto.prints("ampl.").prints("flushes");
        assert!(!auto.stdout.contains("Anatomy"), "{auto:#?}");
        let told: Vec<&str> = auto
            .stderr
            .lines()
            .filter(|line| line.contains("not traced") || line.contains("not counted"))
            .collect();
        assert_eq!(told.len(), 1, "{auto:#?}");
        for part in parts {
            assert!(told[0].contains(part), "no {part:?} in {auto:#?}");
        }
        let record = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
        let cell = cells(&record, "raw")[0];
        assert!(cell["traced"].is_null() && cell["slices"][0]["devices"].is_array());

        let mut on = self.run(&["--trace", "on"]).exits(4);
        assert_eq!(on.stdout, "");
        for part in parts {
            on = on.ends_with_error(part);
        }
        let off = self.run(&["--trace", "off"]).exits(0);
        assert!(!off.stderr.contains("not traced"), "{off:#?}");
    }
}

/// The same command in a mount namespace of its own, which a shell script changes first.
fn with_mounts(script: &str, inner: &Command) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-ec",
        &format!("{script}\nexec \"$@\""),
        "sh",
    ]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (key, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    command
}

/// Other mounts of tracefs, as the one that debugfs makes by itself, go too.
const NO_TRACEFS: &str = "
for at in /sys/kernel/debug/tracing /sys/kernel/debug /sys/kernel/tracing; do
    while umount \"$at\" 2>/dev/null; do :; done
done";

#[test]
fn without_a_mount_of_tracefs_the_command_that_mounts_it_is_told() {
    needs_root!();
    Closed::by(&|command| with_mounts(NO_TRACEFS, &command)).tells(&[
        "tracefs is not mounted",
        "mount -t tracefs tracefs /sys/kernel/tracing",
    ]);
}

#[test]
fn a_filter_of_system_calls_is_told_whatever_it_answers() {
    needs_root!();
    for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
        Closed::by(&|mut command| {
            without(libc::SYS_perf_event_open, errno, &mut command);
            command
        })
        .tells(&["perf_event_open", "seccomp filter", "seccomp profile"]);
    }
}

/// The kernel of the tests can't be locked down and up again, so its answers are made up: the file
/// that tells the level, and the error of the call.
#[test]
fn a_locked_down_kernel_is_told() {
    needs_root!();
    let lockdown = "
mount -t tmpfs tmpfs /sys/kernel/security
echo 'none integrity [confidentiality]' >/sys/kernel/security/lockdown";
    Closed::by(&|command| {
        let mut command = with_mounts(lockdown, &command);
        without(libc::SYS_perf_event_open, libc::EPERM, &mut command);
        command
    })
    .tells(&["locked down", "boot it without lockdown=confidentiality"]);
}
