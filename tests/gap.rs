//! `syncprof gap` on real filesystems: both sides, the same blocks, and nobody else's bytes.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::populated::{check, digests, populated};
use support::{Loop, Mount, Program, cells, digest, system};

const QUICK: &[&str] = &["--rounds", "3", "--budget", "2s", "--span", "2m"];

fn gap_args<'a>(dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    ["gap", dir]
        .iter()
        .chain(more)
        .chain(QUICK)
        .copied()
        .collect()
}

/// What `report --format json` gives for the program's last record.
fn gaps(program: &Program) -> Vec<Value> {
    let path = program.state().join("record.json");
    let ran = program
        .run(&["report", "--format", "json", path.to_str().unwrap()])
        .exits(0);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    value["gaps"].as_array().unwrap().clone()
}

#[test]
fn the_raw_side_writes_the_files_own_blocks_and_no_other_byte() {
    needs_root!();
    for fs in ["ext2", "ext3", "ext4", "xfs"] {
        let mount = populated(fs);
        let (names, before) = (mount.names(), digests(&mount));
        let program = Program::new();
        let more = ["--sizes", "512,4k,64k", "--trunc"];
        let (ran, record) = program.measure(&gap_args(mount.dir(), &more));
        ran.exits(0)
            .prints("raw")
            .prints("file")
            .prints("own blocks");
        assert_eq!(cells(&record, "raw").len(), 3, "{fs}");
        assert_eq!(cells(&record, "file").len(), 6, "{fs}");
        assert_eq!(digests(&mount), before, "{fs}");
        assert_eq!(mount.names(), names, "{fs}");
        let gaps = gaps(&program);
        assert_eq!(gaps.len(), 6, "{fs}");
        for gap in gaps {
            let ratio = &gap["throughput_ratio"];
            let number = |name: &str| ratio[name].as_f64().unwrap();
            assert!(number("low") <= number("value") && number("value") <= number("high"));
            assert!(number("value") > 0.0);
            assert!(gap["raw_cell"].is_string() && gap["file_cell"].is_string());
            // Three rounds on a busy machine may differ too much to bound a quantile.
            let delta = &gap["p50_delta_ns"];
            assert!(delta.is_null() || delta["value"].is_number(), "{gap:#}");
        }
        check(fs, &mount.unmounted());
    }
}

/// The raw side's device counts just the bytes that raw slices wrote: so they went to the device,
/// and through no filesystem.
#[test]
fn the_raw_side_reaches_the_device_at_the_blocks_of_the_file() {
    needs_root!();
    let mount = populated("ext4");
    let (ran, record) = Program::new().measure(&gap_args(
        mount.dir(),
        &["--sizes", "4k,64k", "--jobs", "1,2"],
    ));
    ran.exits(0);
    for role in ["raw", "file"] {
        for cell in cells(&record, role) {
            for slice in cell["slices"].as_array().unwrap() {
                let counted = &slice["devices"][0]["counted"];
                let device_bytes = counted["write_sectors"].as_u64().unwrap() * 512;
                let bytes = slice["bytes"].as_u64().unwrap();
                assert!(device_bytes >= bytes, "{slice:#}");
                assert!(device_bytes <= bytes + (1 << 20), "{slice:#}");
            }
        }
    }
}

#[test]
fn the_scratch_file_is_immutable_while_raw_slices_run() {
    needs_root!();
    let mount = populated("ext4");
    let program = Program::new();
    let mut child = program.start(&["gap", mount.dir(), "--sizes", "4k", "--span", "4m"]);
    child.until(|| {
        let flags = Command::new("lsattr")
            .arg("-R")
            .arg("-a")
            .arg(mount.dir())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&flags.stdout).into_owned();
        text.lines()
            .any(|line| line.contains("overwrite-") && line.contains("i---"))
    });
    child.signal(Signal::SIGINT);
    child.outcome().exits(130);
    assert!(
        !mount
            .names()
            .iter()
            .any(|name| name.starts_with(".syncprof"))
    );
}

/// A descriptor that was open for writing before the flag was set could have the file's blocks moved
/// (EXT4_IOC_MOVE_EXT), or freed on XFS: so no raw slice runs while there is one.
#[test]
fn no_raw_slice_runs_while_somebody_has_the_scratch_file_open_for_writing() {
    needs_root!();
    for (fs, midway) in [("ext4", false), ("ext4", true), ("xfs", true)] {
        let mount = populated(fs);
        let program = Program::new();
        let record = program.state().join("record.json");
        let json = ["gap", mount.dir(), "--json", record.to_str().unwrap()];
        let long = [
            "--sizes",
            "4k",
            "--span",
            "2m",
            "--budget",
            "4s",
            "--precision",
            "0.01%",
        ];
        let mut child = program.start(&[&json[..], &long].concat());
        if midway {
            child.until_saved(&record);
        }
        let mut writer = None;
        child.until(|| {
            // It can't be opened so while it carries the flag.
            let path = scratch_file(&mount);
            let open = |path| fs::File::options().read(true).write(true).open(path);
            writer = path.and_then(|path| open(path).ok());
            writer.is_some()
        });
        let ran = child.outcome();
        let told = format!("{}{}", ran.stdout, ran.stderr);
        assert!(told.contains("open for writing"), "{fs}: {ran:#?}");
        let text = fs::read_to_string(&record).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        assert!(!cells(&record, "file").is_empty());
        let raw = cells(&record, "raw");
        assert!(!raw.is_empty() || !midway, "{fs}: {ran:#?}");
        for cell in raw {
            let failed = cell["failed"].as_str().unwrap_or_default();
            assert!(failed.contains("open for writing"), "{fs}: {cell:#}");
        }
        drop(writer);
    }
}

/// The file that both sides write, once it is there.
fn scratch_file(mount: &Mount) -> Option<std::path::PathBuf> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_named = |path: &Path, start: &str| {
        path.file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(start.as_bytes()))
    };
    let mut folders = entries(mount.path()).map(|entry| entry.path());
    let folder = folders.find(|path| is_named(path, ".syncprof-scratch-"))?;
    let mut files = entries(&folder).map(|entry| entry.path());
    files.find(|path| is_named(path, "overwrite-"))
}

#[test]
fn a_kill_during_raw_slices_leaves_other_files_alone_and_the_filesystem_clean() {
    needs_root!();
    for fs in ["ext4", "xfs"] {
        let mount = populated(fs);
        let (names, before) = (mount.names(), digests(&mount));
        let program = Program::new();
        let mut random = fastrand::Rng::with_seed(9);
        let record = program.state().join("record.json");
        let json = ["--json", record.to_str().unwrap()];
        for _ in 0..6 {
            let _ = fs::remove_file(&record);
            let args = ["gap", mount.dir(), "--sizes", "4k", "--span", "4m"];
            let mut child = program.start(&[&args[..], &json].concat());
            child.until_saved(&record);
            sleep(Duration::from_millis(random.u64(0..300)));
            child.killed();
            program.run(&["clean"]).exits(0);
        }
        assert_eq!(mount.names(), names);
        assert_eq!(digests(&mount), before);
        check(fs, &mount.unmounted());
    }
}

#[test]
fn without_a_baseline_the_file_side_is_printed_with_the_reason_and_the_way_to_one() {
    needs_root!();
    let mount = Loop::new(192).mounted("btrfs");
    let program = Program::new();
    let (ran, record) = program.measure(&gap_args(mount.dir(), &["--sizes", "4k"]));
    ran.exits(0).prints("btrfs").prints("--raw DEVICE");
    assert!(cells(&record, "raw").is_empty());
    assert!(!cells(&record, "file").is_empty());
    assert_eq!(record["targets"][0]["baseline"]["kind"], "none");
    assert!(gaps(&program).is_empty());
}

#[test]
fn journalled_data_has_a_baseline_too_and_the_file_side_is_labelled_buffered() {
    needs_root!();
    let device = Loop::new(192);
    device.format("ext4");
    let mount = Mount::of(device, &["-o", "data=journal"]);
    let (ran, record) = Program::new().measure(&gap_args(mount.dir(), &["--sizes", "4k"]));
    ran.exits(0).prints("buffered");
    assert_eq!(cells(&record, "raw").len(), 1);
    check("ext4", &mount.unmounted());
}

#[test]
fn writes_through_the_page_cache_have_no_baseline_at_the_files_own_blocks() {
    needs_root!();
    let mount = Loop::new(192).mounted("ext4");
    let program = Program::new();
    let more = ["--sizes", "4k", "--method", "fsync", "--direct", "off"];
    let (ran, record) = program.measure(&gap_args(mount.dir(), &more));
    ran.exits(0).prints("past the page cache");
    assert_eq!(record["targets"][0]["baseline"]["kind"], "none");
    let more = ["--sizes", "4k", "--method", "fsync", "--direct", "on,off"];
    let (ran, record) = program.measure(&gap_args(mount.dir(), &more));
    ran.exits(0).says("past the page cache");
    assert_eq!(cells(&record, "raw").len(), 1);
}

#[test]
fn a_spare_device_is_a_baseline_and_keeps_its_content() {
    needs_root!();
    let mount = Loop::new(192).mounted("btrfs");
    let spare = Loop::new(64);
    spare.format("ext4");
    let before = spare.digest();
    let program = Program::new();
    let more = ["--sizes", "4k,64k", "--raw", spare.node()];
    let (ran, record) = program.measure(&gap_args(mount.dir(), &more));
    ran.exits(0).prints(spare.name());
    assert_eq!(cells(&record, "raw").len(), 2);
    assert_eq!(gaps(&program).len(), 2);
    assert_eq!(spare.digest(), before);
}

#[test]
fn the_mounted_device_as_baseline_is_refused_with_the_way_to_it() {
    needs_root!();
    let mount = Loop::new(192).mounted("ext4");
    let node = mount.device().node().to_owned();
    let program = Program::new();
    program
        .run(&gap_args(mount.dir(), &["--raw", &node]))
        .exits(3)
        .says_one_line(&format!("gap {}", mount.dir()));
}

#[test]
fn a_filesystem_on_a_partition_is_measured_through_the_partition() {
    needs_root!();
    let disk = support::partitioned(256);
    let partition = format!("{}p2", disk.node());
    system("mkfs.ext4", &["-q", "-F", &partition]);
    let mut mount = Mount::node(&partition, &[]);
    let first = digest(Path::new(&format!("{}p1", disk.node())));
    let (ran, record) = Program::new().measure(&gap_args(mount.dir(), &["--sizes", "4k"]));
    mount.unmount();
    ran.exits(0).prints(&partition);
    assert_eq!(cells(&record, "raw").len(), 1);
    assert_eq!(record["targets"][0]["stack"].as_array().unwrap().len(), 3);
    assert_eq!(digest(Path::new(&format!("{}p1", disk.node()))), first);
    system("e2fsck", &["-fn", &partition]);
}

#[test]
fn all_names_every_filesystem_on_a_device_and_writes_none_in_a_dry_run() {
    needs_root!();
    let mount = Loop::new(192).mounted("ext4");
    let program = Program::new();
    let ran = program
        .run(&["gap", "--all", "--dry-run", "--sizes", "4k"])
        .exits(0);
    assert!(ran.stdout.lines().count() >= 2, "{ran:#?}");
    assert_eq!(mount.names(), ["lost+found"]);
}
