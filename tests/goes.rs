//! What goes away under a run, or was bad before: each says what happened, and what to do.

mod support;

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{Loop, Mount, Program, system};

const QUICK: &[&str] = &[
    "--sizes", "4k", "--span", "1m", "--rounds", "2", "--trace", "off",
];
const LONG: &[&str] = &[
    "--sizes", "4k", "--span", "1m", "--rounds", "1000", "--budget", "60s", "--trace", "off",
];

/// A drive that is taken out has no length any more, and a write to it is ENOSPC.
#[test]
fn a_device_that_vanishes_is_called_gone() {
    needs_root!();
    let folder = support::folder();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let device = Loop::over(&image, &[]);
    let program = Program::new();
    let json = program.state().join("record.json");
    let args = ["raw", device.node(), "--json", json.to_str().unwrap()];
    let mut child = program.start(&[&args[..], LONG].concat());
    child.until_saved(&json);
    // A write of it would give the image a length again. It writes in another process than it watches.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let children = fs::read_to_string(children).unwrap();
    let to_all = |signal| {
        let pids = children.split_whitespace().map(|pid| pid.parse().unwrap());
        pids.for_each(|pid| kill(Pid::from_raw(pid), signal).unwrap());
    };
    to_all(Signal::SIGSTOP);
    std::thread::sleep(std::time::Duration::from_millis(200));
    let truncated = File::options().write(true).open(&image);
    truncated.unwrap().set_len(0).unwrap();
    system("losetup", &["--set-capacity", device.node()]);
    to_all(Signal::SIGCONT);
    let ran = child.outcome().exits(1);
    let ran = ran.says("is gone: taken out, detached or given up by its driver");
    assert!(!ran.stderr.contains("free some space"), "{ran:#?}");
}

/// ext4's journal is aborted, as after an error of its device: what was measured stays, and no message asks
/// for a capability.
#[test]
fn a_filesystem_that_is_shut_down_is_called_so_and_cleaned_up_later() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let json = program.state().join("record.json");
    let args = ["gap", mount.dir(), "--json", json.to_str().unwrap()];
    let mut child = program.start(&[&args[..], LONG].concat());
    child.until_saved(&json);
    system("xfs_io", &["-x", "-c", "shutdown -f", mount.dir()]);
    let ran = child.outcome().exits(1).says("shut down").says("dmesg");
    assert!(!ran.stderr.contains("CAP_"), "{ran:#?}");
    let record: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(record["run"]["rounds"].as_u64() > Some(0));
    let cleaned = program.run(&["clean"]);
    assert!(!cleaned.stdout.contains("nothing is left"), "{cleaned:#?}");
    assert!(
        !cleaned.stderr.contains("does not say that it is"),
        "{cleaned:#?}"
    );
    // Unmounted, its entry is told; mounted again, its folder goes.
    let device = mount.unmounted();
    program.run(&["clean"]).exits(0).says("is not there");
    let again = Mount::of(device, &[]);
    program
        .run(&["clean", again.dir()])
        .exits(0)
        .prints("removed");
    assert_eq!(again.names(), ["lost+found"]);
}

/// Reads of a loop device past the end of its image are EIO.
#[test]
fn a_bad_sector_under_a_signature_is_told_with_its_place() {
    needs_root!();
    let folder = support::folder();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let device = Loop::over(&image, &["--direct-io=on"]);
    File::options()
        .write(true)
        .open(&image)
        .unwrap()
        .set_len(8 << 20)
        .unwrap();
    let args = [&["raw", device.node()], QUICK].concat();
    Program::new()
        .run(&args)
        .exits(4)
        .says_one_line("cannot read its signature at offset ")
        .says("Input/output error")
        .says("name a partition or a map without that sector");
}

#[test]
fn polling_without_queues_names_the_option() {
    needs_root!();
    let device = Loop::new(16);
    let args = [&["raw", device.node(), "--iopoll"], QUICK].concat();
    Program::new()
        .run(&args)
        .exits(1)
        .says("nvme.poll_queues=N")
        .says("leave out --iopoll");
}

#[test]
fn a_record_on_standard_output_has_it_alone() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let args = [&["file", mount.dir(), "--json", "-"], QUICK].concat();
    let ran = program.run(&args).exits(0);
    let record: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(record["schema"], "syncprof.record/1");
    assert_eq!(record["run"]["rounds"], 2);
    assert!(!fs::exists("-").unwrap());
}

#[test]
fn a_command_in_a_message_can_be_pasted() {
    needs_root!();
    let device = Loop::new(64);
    device.format("ext4");
    let folder = support::folder();
    let point = folder.path().join("a b's");
    fs::create_dir(&point).unwrap();
    system("mount", &[device.node(), point.to_str().unwrap()]);
    let ran = Program::new().run(&["raw", device.node()]);
    assert!(support::try_unmount(point.to_str().unwrap()));
    let quoted = point.to_str().unwrap().replace('\'', r"'\''");
    ran.exits(3)
        .says_one_line(&format!("`syncprof gap '{quoted}'`"));
}

#[test]
fn what_clean_leaves_alone_is_told() {
    needs_root!();
    let (data, program) = (support::folder(), Program::new());
    let left = data.path().join(".syncprof-scratch-1-00000000");
    fs::DirBuilder::new().mode(0o700).create(&left).unwrap();
    let owner = serde_json::json!({
        "pid": 1, "start_ticks": 1, "boot_id": "b", "machine": "another", "folder": left,
    });
    fs::write(left.join("owner.json"), owner.to_string()).unwrap();
    let directory = data.path().to_str().unwrap();
    let ran = program.run(&["clean", directory]).exits(0);
    let ran = ran.says("another machine (another)");
    assert!(!ran.stdout.contains("nothing is left"), "{ran:#?}");
    assert!(left.join("owner.json").exists());
    let mount = Loop::new(64).mounted("ext4");
    let json = program.state().join("record.json");
    let args = ["file", mount.dir(), "--json", json.to_str().unwrap()];
    let mut child = program.start(&[&args[..], LONG].concat());
    child.until_saved(&json);
    program
        .run(&["clean"])
        .exits(0)
        .says("in use by a run that goes on");
    child.signal(Signal::SIGTERM);
    child.outcome().exits(130);
}
