//! Limits on the process (getrlimit(2)): each ends a run in one line with the remedy, and nothing is left.

mod support;

use std::fs;
use std::process::Command;

use support::{Loop, Mount, Program, Ran, ran};

const ONE_CELL: &[&str] = &["--sizes", "4k", "--trace", "off"];
const QUICK: &[&str] = &["--span", "1m", "--rounds", "2"];

/// Runs the program under a limit of prlimit(1), and sees that the directory and the state folder hold
/// nothing afterwards but records.
fn under(limit: &str, mount: &Mount, program: &Program, args: &[&str]) -> Ran {
    let args = [&["file", mount.dir()], ONE_CELL, args].concat();
    let plain = program.command(&args);
    let mut command = Command::new("prlimit");
    command.arg(limit).arg("--").arg(plain.get_program());
    command.args(plain.get_args());
    command.env("XDG_STATE_HOME", program.state());
    let ran = ran(command.output().unwrap());
    assert_eq!(mount.names(), ["lost+found"], "{ran:#?}");
    let state = program.state().join("syncprof");
    let left: Vec<_> = fs::read_dir(state)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    let is_record = |name: &str| name.starts_with("file-") && name.ends_with(".json");
    let names = left.iter().map(|entry| entry.file_name());
    let mut names = names.map(|name| name.into_string().unwrap());
    assert!(names.all(|name| is_record(&name)), "{left:?}");
    ran
}

#[test]
fn a_scratch_file_over_the_limit_is_told_and_not_begun() {
    needs_root!();
    let (mount, program) = (Loop::new(64).mounted("ext4"), Program::new());
    for limit in ["--fsize=102400", "--fsize=0"] {
        let ran = under(limit, &mount, &program, QUICK).exits(4);
        let last = ran.stderr.lines().next_back().unwrap_or_default();
        assert!(
            last.contains("error: ") && last.ends_with("ulimit -f"),
            "{ran:#?}"
        );
    }
}

/// As with a full disk: what was measured is printed, and the exit status says that it isn't kept.
#[test]
fn a_record_over_the_limit_leaves_the_tables() {
    needs_root!();
    let (mount, program) = (Loop::new(64).mounted("ext4"), Program::new());
    let args = ["--span", "8k", "--rounds", "20"];
    under("--fsize=12000", &mount, &program, &args)
        .exits(4)
        .prints("4K")
        .says("the record will not be kept")
        .says("measuring goes on")
        .ends_with_error("ulimit -f");
}

#[test]
fn a_soft_limit_on_open_files_is_raised_and_a_hard_one_told() {
    needs_root!();
    let (mount, program) = (Loop::new(64).mounted("ext4"), Program::new());
    under("--nofile=8:1024", &mount, &program, QUICK).exits(0);
    under("--nofile=16:16", &mount, &program, QUICK)
        .exits(4)
        .says_one_line("(ulimit -n ");
    let jobs = [QUICK, &["--jobs", "100"]].concat();
    under("--nofile=128:128", &mount, &program, &jobs)
        .exits(4)
        .says_one_line("fewer --jobs");
}

/// What is too little for the allocator would end in an abort, with files and flags left.
#[test]
fn too_little_memory_is_told_beforehand() {
    needs_root!();
    let (mount, program) = (Loop::new(64).mounted("ext4"), Program::new());
    under("--as=40000000", &mount, &program, QUICK)
        .exits(4)
        .says_one_line("ulimit -v");
    let deep = [QUICK, &["--jobs", "4", "--queue-depth", "16384"]].concat();
    under("--as=200000000", &mount, &program, &deep)
        .exits(4)
        .says_one_line("--queue-depth");
    under("--as=200000000", &mount, &program, QUICK).exits(0);
}
