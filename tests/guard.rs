//! What the guard refuses, each on a real device that is in that state, and without a byte written.

mod support;

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::process::{Command, Stdio};

use syncprof::guard::{self, Permit};
use syncprof::sys::root::Root;

use support::running::Running;
use support::{Loop, Program, digest, system};

/// `raw` on `path`, and on a symbolic link to it, is refused with this in its message; also when it
/// is told to overwrite, by force.
#[track_caller]
fn refused(path: &str, part: &str) {
    let program = Program::new();
    let folder = support::folder();
    let link = folder.path().join("link");
    symlink(path, &link).unwrap();
    let name = path.rsplit('/').next().unwrap();
    let force: &[&str] = &["--overwrite", "--force", "--confirm", name];
    for path in [path, link.to_str().unwrap()] {
        for more in [&[], force] {
            let args = [&["raw", path, "--rounds", "1", "--budget", "1s"], more].concat();
            program.run(&args).exits(3).says_one_line(part);
        }
    }
}

#[test]
fn what_does_not_exist_is_not_created() {
    refused("/dev/syncprof-nothing", "no such");
    assert!(!fs::exists("/dev/syncprof-nothing").unwrap());
    let folder = support::folder();
    let path = folder.path().join("sdz");
    refused(path.to_str().unwrap(), "no such");
    assert!(!path.exists());
}

#[test]
fn what_is_no_block_device_is_not_written() {
    let folder = support::folder();
    let path = folder.path().join("image");
    fs::write(&path, "precious").unwrap();
    refused(path.to_str().unwrap(), "not a block device");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    refused(folder.path().to_str().unwrap(), "not a block device");
    refused("/dev/null", "not a block device");
}

#[test]
fn a_mounted_device_names_the_gap_as_the_way() {
    needs_root!();
    for fs in ["ext4", "xfs", "btrfs"] {
        let mount = Loop::new(if fs == "xfs" { 320 } else { 128 }).mounted(fs);
        system("sync", &["-f", mount.dir()]);
        let before = mount.device().digest();
        refused(
            mount.device().node(),
            &format!("syncprof gap {}", mount.dir()),
        );
        assert_eq!(mount.device().digest(), before, "{fs}");
    }
}

#[test]
fn a_device_mounted_read_only_is_mounted() {
    needs_root!();
    let device = Loop::new(64);
    device.format("ext4");
    let mount = support::Mount::of(device, &["-o", "ro"]);
    refused(mount.device().node(), "mounted");
}

#[test]
fn a_mount_in_another_namespace_counts() {
    needs_root!();
    let device = Loop::new(64);
    device.format("ext4");
    let before = device.digest();
    let point = support::folder();
    let script = format!(
        "mount -o ro {} {} && echo ready && read line",
        device.node(),
        point.path().display()
    );
    let mut child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    refused(device.node(), "namespace");
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(device.digest(), before);
}

#[test]
fn a_disk_with_a_partition_in_use_and_the_partition_are_refused() {
    needs_root!();
    let disk = support::partitioned(256);
    let partition = format!("{}p1", disk.node());
    system("mkfs.ext4", &["-q", "-F", &partition]);
    let _mount = support::Mount::node(&partition, &["-o", "ro"]);
    refused(disk.node(), "p1");
    refused(&partition, "mounted");
    // The other partition is free.
    let other = format!("{}p2", disk.node());
    let before = digest(other.as_ref());
    let args = [
        "raw", &other, "--rounds", "1", "--budget", "1s", "--sizes", "4k",
    ];
    Program::new().run(&args).exits(0);
    assert_eq!(digest(other.as_ref()), before);
}

#[test]
fn swap_is_refused() {
    needs_root!();
    let device = Loop::new(64);
    system("mkswap", &[device.node()]);
    system("swapon", &[device.node()]);
    let result = std::panic::catch_unwind(|| refused(device.node(), "swap"));
    system("swapoff", &[device.node()]);
    result.unwrap();
}

#[test]
fn every_member_of_a_btrfs_is_refused() {
    needs_root!();
    let (first, second) = (Loop::new(192), Loop::new(192));
    system("mkfs.btrfs", &["-q", "-f", first.node(), second.node()]);
    system("btrfs", &["device", "scan", first.node(), second.node()]);
    let second_node = second.node().to_owned();
    let mount = support::Mount::of(first, &[]);
    refused(&second_node, "btrfs");
    refused(mount.device().node(), "btrfs");
    drop(mount);
}

#[test]
fn the_backing_of_a_loop_device_is_refused_whole_and_by_a_partition() {
    needs_root!();
    let disk = support::partitioned(256);
    let partition = format!("{}p1", disk.node());
    let upper = Loop::over(partition.as_ref(), &[]);
    refused(&partition, upper.name());
    refused(disk.node(), upper.name());
    let top = Loop::over(upper.node().as_ref(), &[]);
    refused(upper.node(), top.name());
    // The top of the stack is free, and what is below it is used by the stack alone.
    let before = digest(top.node().as_ref());
    let args = [
        "raw",
        top.node(),
        "--rounds",
        "1",
        "--budget",
        "1s",
        "--sizes",
        "4k",
    ];
    Program::new().run(&args).exits(0);
    assert_eq!(digest(top.node().as_ref()), before);
}

#[test]
fn a_loop_device_over_what_is_in_use_is_refused() {
    needs_root!();
    // Over a mounted device: an exclusive open of the loop device doesn't see that.
    let mount = Loop::new(64).mounted("ext4");
    let upper = Loop::over(mount.device().node().as_ref(), &[]);
    refused(upper.node(), mount.dir());
    drop(upper);
    // Over an image that another loop device has mounted.
    let second = Loop::over(mount.device().image(), &[]);
    refused(second.node(), mount.device().name());
}

#[test]
fn a_device_that_a_program_has_open_for_writing_is_refused() {
    needs_root!();
    let device = Loop::new(16);
    let held = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(device.node())
        .unwrap();
    refused(device.node(), "open for writing");
    drop(held);
    let _reader = fs::File::open(device.node()).unwrap();
    let args = [
        "raw",
        device.node(),
        "--rounds",
        "1",
        "--budget",
        "1s",
        "--sizes",
        "4k",
    ];
    Program::new().run(&args).exits(0);
}

/// Opens a device as qemu opens a virtual machine's disk, which the claim doesn't keep off, once a run has
/// saved a round of its record: the run ends, prints `table`, and keeps what it measured.
#[track_caller]
fn is_ended_by_an_opener(device: &Loop, args: &[&str], table: &str) {
    let before = device.digest();
    let program = Program::new();
    let record = program.state().join("kept.json");
    let json = ["--json", record.to_str().unwrap()];
    let mut child = program.start(&[args, &json].concat());
    let has_round = |text: String| !text.contains("\"rounds\":0");
    child.until(|| fs::read_to_string(&record).is_ok_and(has_round));
    let opened = fs::OpenOptions::new().write(true).open(device.node());
    let held = opened.unwrap();
    let ran = child.outcome().exits(3).prints(table);
    drop(held);
    let error = ran.stderr.lines().next_back().unwrap();
    let opener = format!("(process {})", std::process::id());
    assert!(error.contains("open for writing in"), "{ran:#?}");
    assert!(error.contains(&opener), "{ran:#?}");
    let kept = fs::read_to_string(&record).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["run"]["ended"], "in_use");
    assert_eq!(device.digest(), before);
}

#[test]
fn a_device_that_comes_into_use_ends_the_run() {
    needs_root!();
    let device = Loop::new(16);
    device.format("ext4");
    let mut args = vec!["raw", device.node(), "--sizes", "4k", "--budget", "20s"];
    args.extend(["--precision", "0.01%"]);
    is_ended_by_an_opener(&device, &args, "4K");
}

#[test]
fn a_spare_device_that_comes_into_use_ends_a_workload() {
    needs_root!();
    let mount = Loop::new(400).mounted("ext4");
    let spare = Loop::new(80);
    let mut args = vec!["gap", mount.dir(), "--raw", spare.node()];
    args.extend(["--workload", "checkpoint", "--data", "16m"]);
    args.extend(["--duration", "300ms", "--repeat", "50"]);
    is_ended_by_an_opener(&spare, &args, "checkpoint");
}

#[test]
fn what_other_hosts_may_have_mounted_is_not_even_preserved() {
    needs_root!();
    let device = Loop::new(16);
    let write = |node: &str, at| {
        let file = fs::OpenOptions::new().write(true).open(node).unwrap();
        file.write_all_at(b"OCFSV2", at).unwrap();
    };
    write(device.node(), 1024);
    let before = device.digest();
    let raw = |node: &str| {
        let args = ["raw", node, "--rounds", "1", "--sizes", "4k"];
        Program::new().run(&args).exits(3).says_one_line("OCFS2")
    };
    raw(device.node());
    assert_eq!(device.digest(), before);
    // On a partition too, of which the whole disk's start shows nothing.
    let disk = support::partitioned(256);
    let partition = format!("{}p1", disk.node());
    write(&partition, 1024);
    system("sync", &[&partition]);
    raw(disk.node());
    raw(&partition);
}

/// A prompt may wait for as long as anybody likes.
#[test]
fn what_comes_to_a_device_before_it_is_confirmed_is_not_overwritten() {
    needs_root!();
    let device = Loop::new(16);
    let claimed = || guard::check(&Root::host(), device.node().as_ref()).unwrap();
    let refusal = |permit: Permit, force| {
        let given = permit.overwrite(4096, device.name(), force);
        given.unwrap_err().to_string()
    };
    let image = fs::OpenOptions::new().write(true).open(device.image());
    let image = image.unwrap();
    for force in [false, true] {
        let permit = claimed();
        // Below the device, whose page cache doesn't see it.
        image.write_all_at(b"XFSB", 0).unwrap();
        let text = refusal(permit, force);
        assert!(text.contains("an XFS filesystem"), "{text}");
        image.write_all_at(&[0; 4], 0).unwrap();
    }
    let permit = claimed();
    let opened = fs::OpenOptions::new().write(true).open(device.node());
    let other = holder(opened.unwrap());
    let text = refusal(permit, true);
    other.killed();
    assert!(text.contains("open for writing in sleep"), "{text}");
    claimed().overwrite(4096, device.name(), false).unwrap();
}

/// Another program that has a file open, since one's own descriptors don't count.
fn holder(file: fs::File) -> Running {
    let mut sleep = Command::new("sleep");
    Running::new(sleep.arg("60").stdout(file).spawn().unwrap())
}

#[test]
fn holes_that_a_preserving_run_fills_are_told() {
    needs_root!();
    let device = Loop::new(16);
    let raw = |more: &[&str]| {
        let args = ["raw", device.node(), "--rounds", "1", "--sizes", "4k"];
        let args = [&args, more].concat();
        let ran = Program::new().run(&args).exits(0);
        ran.stderr.matches("which has holes").count()
    };
    assert_eq!(raw(&[]), 1);
    assert_eq!(raw(&["--overwrite", "--confirm", device.name()]), 0);
    device.randomize();
    assert_eq!(raw(&[]), 0);
}

#[test]
fn a_container_is_told_that_it_does_not_see_all_programs() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let args = ["raw", device.node(), "--rounds", "1", "--sizes", "4k"];
    let seen = program.run(&args).exits(0);
    assert!(!seen.stderr.contains("PID namespace"), "{seen:#?}");
    let own = program.command(&args);
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc"]);
    unshare.arg(own.get_program()).args(own.get_args());
    unshare.env("XDG_STATE_HOME", program.state());
    let ran = support::ran(unshare.output().unwrap()).exits(0);
    assert_eq!(ran.stderr.matches("PID namespace").count(), 1, "{ran:#?}");
}

#[test]
fn a_read_only_device_is_refused() {
    needs_root!();
    let device = Loop::new(16);
    system("blockdev", &["--setro", device.node()]);
    refused(device.node(), "read-only");
    let image = device.image().to_owned();
    let folder = device.detached();
    let by_the_driver = Loop::over(&image, &["--read-only"]);
    refused(by_the_driver.node(), "read-only");
    drop(folder);
}

#[test]
fn the_list_says_why_a_device_may_not_be_written() {
    needs_root!();
    let mount = Loop::new(64).mounted("ext4");
    let free = Loop::new(16);
    let program = Program::new();
    let ran = program.run(&["list", "--json"]).exits(0);
    let list: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let device = |name: &str| {
        let devices = list["devices"].as_array().unwrap();
        devices
            .iter()
            .find(|device| device["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(device(free.name())["writable_by_raw"], true);
    let mounted = device(mount.device().name());
    assert_eq!(mounted["writable_by_raw"], false);
    assert!(mounted["reason"].as_str().unwrap().contains(mount.dir()));
    let mounts = list["mounts"].as_array().unwrap();
    let shown = mounts
        .iter()
        .find(|found| found["mount_point"] == mount.dir())
        .unwrap();
    assert!(shown["free_bytes"].as_u64() < shown["size_bytes"].as_u64());
    assert!(shown["free_bytes"].as_u64() > Some(0), "{shown}");
    program
        .run(&["list"])
        .exits(0)
        .prints(free.name())
        .prints("writable by raw?");
}
