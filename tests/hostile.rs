//! What others do to a run, before it and while it goes on: it ends with the right exit code and one
//! clear line, and keeps to what it may write.

mod support;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use support::{Loop, Mount, Program, ran, system};

/// Options of a short run of one cell.
const QUICK: &[&str] = &[
    "--sizes", "4k", "--span", "1m", "--rounds", "2", "--budget", "1s",
];

/// Options of a run of some seconds.
const LONG: &[&str] = &[
    "--sizes",
    "4k",
    "--span",
    "1m",
    "--budget",
    "4s",
    "--precision",
    "0.01%",
];

#[test]
fn a_record_is_not_written_to_a_block_device() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let device = Loop::new(16);
    let before = device.digest();
    let args = [&["file", mount.dir(), "--json", device.node()], QUICK].concat();
    Program::new()
        .run(&args)
        .exits(4)
        .says_one_line("is a block device");
    assert_eq!(device.digest(), before);
}

/// Through a link of its own: that of /dev is everybody's.
#[test]
fn the_file_that_standard_output_goes_to_is_not_replaced() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let folder = support::folder();
    let link = folder.path().join("stdout");
    symlink("/proc/self/fd/1", &link).unwrap();
    let output = folder.path().join("output");
    let program = Program::new();
    let args = [
        &["file", mount.dir(), "--json", link.to_str().unwrap()],
        QUICK,
    ]
    .concat();
    let mut command = program.command(&args);
    command.stdout(Stdio::from(File::create(&output).unwrap()));
    ran(command.output().unwrap())
        .exits(4)
        .says_one_line("standard output");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_record_that_is_lost_midway_does_not_take_the_figures_with_it() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let outer = support::folder();
    let folder = outer.path().join("records");
    fs::create_dir(&folder).unwrap();
    let record = folder.join("record.json");
    let args = [
        &["file", mount.dir(), "--json", record.to_str().unwrap()],
        LONG,
    ]
    .concat();
    let names = mount.names();
    let program = Program::new();
    let mut child = program.start(&args);
    child.until_saved(&record);
    fs::rename(&folder, outer.path().join("moved")).unwrap();
    let ran = child
        .outcome()
        .exits(4)
        .prints("p99")
        .says("measuring goes on")
        .says("error: cannot save the record");
    let told = |part: &str| ran.stderr.matches(part).count();
    assert_eq!(told("cannot save the record"), 2, "{ran:#?}");
    assert_eq!(mount.names(), names);
}

#[test]
fn a_labs_record_that_is_lost_midway_does_not_take_its_figures_with_it() {
    needs_root!();
    let outer = support::folder();
    let folder = outer.path().join("records");
    fs::create_dir(&folder).unwrap();
    let record = folder.join("record.json");
    let program = Program::new();
    let profile = outer.path().join("two.toml");
    let text =
        "about = 'a'\nquestion = 'q'\n[[matrix]]\nfs = ['ext2', 'ext4']\n[cells]\nsizes = '4k'";
    fs::write(&profile, text).unwrap();
    let args = [
        "lab",
        profile.to_str().unwrap(),
        "--image",
        "64m",
        "--json",
        record.to_str().unwrap(),
    ];
    let mut child = program.start(&[&args[..], LONG].concat());
    child.until_saved(&record);
    fs::rename(&folder, outer.path().join("moved")).unwrap();
    child
        .outcome()
        .exits(4)
        .prints("ext4")
        .says("measuring goes on")
        .says("error: cannot save the record");
}

#[test]
fn a_state_folder_that_cannot_be_written_is_done_without() {
    needs_root!();
    let state = Loop::new(16).mounted("ext4");
    fs::create_dir(state.path().join("syncprof")).unwrap();
    system("mount", &["-o", "remount,ro", state.dir()]);
    let mount = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let mut command = program.command(&[&["file", mount.dir()], QUICK].concat());
    command.env("XDG_STATE_HOME", state.dir());
    ran(command.output().unwrap())
        .exits(0)
        .says("no state folder");
}

#[test]
fn a_scratch_folder_that_stays_is_told_and_cleaned_up_later() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let record = program.state().join("record.json");
    let args = ["gap", mount.dir(), "--json", record.to_str().unwrap()];
    let mut child = program.start(&[&args[..], LONG].concat());
    child.until_saved(&record);
    system("xfs_io", &["-x", "-c", "shutdown", mount.dir()]);
    child.outcome().exits(1).says("syncprof clean");
    let mount = Mount::of(mount.unmounted(), &[]);
    assert_eq!(mount.names().len(), 2, "{:?}", mount.names());
    program.run(&["clean", mount.dir()]).exits(0);
    assert_eq!(mount.names(), ["lost+found"]);
}

#[test]
fn a_full_standard_output_is_named_and_so_is_the_record() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let mut command = program.command(&[&["file", mount.dir()], QUICK].concat());
    command.stdout(Stdio::from(File::create("/dev/full").unwrap()));
    ran(command.output().unwrap())
        .exits(4)
        .says("cannot write to standard output")
        .says("the record is in");
}

#[test]
fn a_directory_whose_name_is_not_utf8_is_told() {
    let folder = support::folder();
    let directory = folder.path().join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&directory).unwrap();
    let program = Program::new();
    let mut command = program.command(&["file"]);
    command.arg(&directory);
    ran(command.output().unwrap())
        .exits(2)
        .says_one_line("not UTF-8");
}

#[test]
fn the_confirmation_asked_for_is_one_that_is_taken() {
    needs_root!();
    let device = Loop::new(16);
    // What lies below a loop device has a serial number, which is not the loop device's.
    Program::new()
        .run(&[&["raw", device.node(), "--overwrite"], QUICK].concat())
        .exits(2)
        .says_one_line(&format!("--confirm {}", device.name()));
}

/// ramfs tells a size of 0 (simple_statfs() in fs/libfs.c).
#[test]
fn a_filesystem_that_tells_no_size_has_room() {
    needs_root!();
    let memory = Mount::node("none", &["-t", "ramfs"]);
    let args = [&["file", memory.dir(), "--direct", "off"], QUICK].concat();
    Program::new().run(&args).exits(0).prints("4K");
    assert_eq!(memory.names(), Vec::<String>::new());
}
