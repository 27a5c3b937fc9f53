//! What doesn't answer: requests that the kernel loses, and filesystems that stand still. The run says
//! so, heeds a signal, and ends by itself.

mod support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use support::running::Running;
use support::{Loop, Program, cells, folder, system};

/// For LD_PRELOAD: once the file LOSE is there, a thread's next submission isn't passed on; nor are any
/// after it, if FOR_GOOD is set.
const LOSER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static atomic_int lost;
static _Thread_local int is_dead;
long syscall(long number, ...) {
	static long (*real)(long, ...);
	va_list list;
	long x[6];
	va_start(list, number);
	for (int i = 0; i < 6; i++) x[i] = va_arg(list, long);
	va_end(list);
	if (!real) real = dlsym(RTLD_NEXT, "syscall");
	if (number == SYS_io_uring_enter && x[1] > 0 && !lost && !access(getenv("LOSE"), F_OK)) {
		lost = 1;
		is_dead = getenv("FOR_GOOD") != 0;
		x[1] = 0;
	}
	if (number == SYS_io_uring_enter && is_dead) x[1] = 0;
	return real(number, x[0], x[1], x[2], x[3], x[4], x[5]);
}
"#;

/// Loses a request of the program that it is loaded into.
struct Loser {
    folder: TempDir,
}

impl Loser {
    fn new() -> Loser {
        let folder = folder();
        let (source, library) = (folder.path().join("lose.c"), folder.path().join("lose.so"));
        fs::write(&source, LOSER).unwrap();
        let [source, library] = [&source, &library].map(|path| path.to_str().unwrap());
        system("cc", &["-shared", "-fPIC", "-o", library, source, "-ldl"]);
        Loser { folder }
    }

    fn load(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.folder.path().join("lose.so"));
        command.env("LOSE", self.folder.path().join("now"));
    }

    fn now(&self) {
        File::create(self.folder.path().join("now")).unwrap();
    }
}

/// `file` on a folder, a round of which is in its record, with more to come; the record's path, and that of
/// what it says.
fn under_way(program: &Program, args: &[&str], change: &dyn Fn(&mut Command)) -> Begun {
    let record = program.state().join("record.json");
    let said = program.state().join("said");
    let common = [
        "--sizes",
        "4k",
        "--trace",
        "off",
        "--budget",
        "60s",
        "--precision",
        "0.001%",
        "--json",
        record.to_str().unwrap(),
    ];
    let mut command = program.command(&[args, &common].concat());
    command.stderr(File::create(&said).unwrap());
    change(&mut command);
    let mut running = Running::new(command.spawn().unwrap());
    running.until_saved(&record);
    Begun {
        running,
        record,
        said,
    }
}

struct Begun {
    running: Running,
    record: PathBuf,
    said: PathBuf,
}

impl Begun {
    fn record(&self) -> Value {
        parsed(&self.record)
    }
}

fn parsed(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_request_that_was_lost_is_brought_back_and_its_slice_left_out() {
    let (program, loser, data) = (Program::new(), Loser::new(), folder());
    let args = ["file", data.path().to_str().unwrap()];
    let mut begun = under_way(&program, &args, &|command| loser.load(command));
    loser.now();
    begun.running.until_in(&begun.said, "had lost a request");
    begun.running.signal(Signal::SIGINT);
    let (record, said) = (begun.record.clone(), begun.said.clone());
    begun.running.outcome().exits(130);
    let record = parsed(&record);
    let cell = cells(&record, "file")[0];
    let stalled = cell["stalled"].as_array().unwrap();
    assert_eq!(stalled.len(), 1);
    assert_eq!(stalled[0]["rescued"], 1);
    let wait_ns = stalled[0]["longest_wait_ns"].as_u64().unwrap();
    assert!(
        (2_000_000_000..10_000_000_000).contains(&wait_ns),
        "{wait_ns}"
    );
    for slice in cell["slices"].as_array().unwrap() {
        assert!(slice["longest_wait_ns"].as_u64().unwrap() < 2_000_000_000);
    }
    let said = fs::read_to_string(said).unwrap();
    assert!(said.contains("not the device's doing"), "{said}");
    assert!(!said.contains("stood still"), "{said}");
}

#[test]
fn a_request_that_nothing_brings_back_ends_the_run_with_its_tables() {
    let (program, loser, data) = (Program::new(), Loser::new(), folder());
    let args = ["file", data.path().to_str().unwrap(), "--stall", "5s"];
    let begun = under_way(&program, &args, &|command| {
        loser.load(command);
        command.env("FOR_GOOD", "1");
    });
    loser.now();
    let lost = Instant::now();
    let (record, said) = (begun.record.clone(), begun.said.clone());
    let ran = begun.running.outcome().exits(5);
    assert!(lost.elapsed() > Duration::from_secs(4));
    let printed = ran.prints("4K").stdout;
    let said = fs::read_to_string(said).unwrap();
    assert!(
        said.contains("given up: ") && said.contains("nothing completed for 5 s"),
        "{said}"
    );
    assert!(said.contains("`syncprof report "), "{said}");
    assert_eq!(parsed(&record)["run"]["ended"], "stalled");
    let again = program.run(&["report", record.to_str().unwrap()]).exits(0);
    assert_eq!(again.stdout, printed);
    // Writes may be in flight, so the files stay, until nobody uses them.
    assert!(fs::read_dir(data.path()).unwrap().count() > 0);
    program.run(&["clean"]).exits(0);
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
}

#[test]
fn a_signal_is_answered_at_once_and_the_next_one_ends_it() {
    let (program, loser, data) = (Program::new(), Loser::new(), folder());
    let args = ["file", data.path().to_str().unwrap()];
    let mut begun = under_way(&program, &args, &|command| {
        loser.load(command);
        command.env("FOR_GOOD", "1");
    });
    loser.now();
    let before = begun.record()["run"]["rounds"].clone();
    begun.running.until(|| {
        std::thread::sleep(Duration::from_secs(3));
        let after = begun_rounds(&begun.record);
        after == before || after.as_u64() > before.as_u64()
    });
    begun.running.signal(Signal::SIGTERM);
    begun.running.until_in(&begun.said, "interrupted; ");
    begun.running.signal(Signal::SIGQUIT);
    let (record, said) = (begun.record.clone(), begun.said.clone());
    begun.running.outcome().exits(130).prints("4K");
    let said = fs::read_to_string(said).unwrap();
    assert!(said.contains("given up: "), "{said}");
    assert_eq!(parsed(&record)["run"]["ended"], "interrupted");
    program.run(&["clean"]).exits(0);
}

fn begun_rounds(record: &Path) -> Value {
    parsed(record)["run"]["rounds"].clone()
}

#[test]
fn sigquit_ends_a_run_as_ctrl_c_does() {
    let (program, data) = (Program::new(), folder());
    let args = ["file", data.path().to_str().unwrap()];
    let begun = under_way(&program, &args, &|_| {});
    begun.running.signal(Signal::SIGQUIT);
    let record = begun.record.clone();
    begun.running.outcome().exits(130).prints("4K");
    assert_eq!(parsed(&record)["run"]["ended"], "interrupted");
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
}

#[test]
fn a_killed_run_leaves_no_process_behind() {
    let (program, data) = (Program::new(), folder());
    let args = ["file", data.path().to_str().unwrap()];
    let begun = under_way(&program, &args, &|command| {
        // Its end is that of all processes that have it open.
        command.stderr(Stdio::piped());
    });
    begun.running.killed();
    program.run(&["clean"]).exits(0).prints("removed");
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
}

/// Thaws a filesystem, also when a test fails.
struct Frozen(String);

impl Frozen {
    fn new(dir: &str) -> Frozen {
        system("fsfreeze", &["-f", dir]);
        Frozen(dir.to_owned())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        system("fsfreeze", &["-u", &self.0]);
    }
}

/// What can't be killed is not waited for: a thread that writes to a frozen filesystem sleeps in the kernel.
#[test]
fn a_run_on_a_frozen_filesystem_ends_by_itself() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let args = [
        "file",
        mount.dir(),
        "--span",
        "8m",
        "--stall",
        "5s",
        "--engine",
        "sync",
    ];
    let mut begun = under_way(&program, &args, &|_| {});
    let frozen = Frozen::new(mount.dir());
    let (record, said) = (begun.record.clone(), begun.said.clone());
    begun.running.until_in(&said, "is held in the kernel");
    let status = begun.running.wait().unwrap().code();
    assert_eq!(status, Some(5));
    assert_eq!(parsed(&record)["run"]["ended"], "stalled");
    drop(frozen);
    drop(begun.running);
    // The process ends now that it can, and its locks with it.
    let since = Instant::now();
    while !program.run(&["clean"]).stdout.contains("removed") {
        assert!(since.elapsed() < support::running::PATIENCE);
    }
}
