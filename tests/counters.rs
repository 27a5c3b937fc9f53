//! What is counted of every slice beside the device, against real filesystems.

mod support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use serde_json::Value;
use support::disturbance::Disturbance;
use support::{Loop, Mount, Program, Ran, cells, folder, system};

/// A few quick rounds of 4 KiB cells.
fn measure(args: &[&str]) -> (Ran, Value) {
    let quick = [
        "--sizes", "4k", "--span", "4m", "--rounds", "10", "--budget", "2s",
    ];
    Program::new().measure(&[args, &quick].concat())
}

/// The file cells in the states `overwrite` and `trunc`.
fn file_cells(fs: &str, mib: u64, trace: &str) -> Vec<Value> {
    let mount = Loop::new(mib).mounted(fs);
    let (_, record) = measure(&["file", mount.dir(), "--trunc", "--trace", trace]);
    cells(&record, "file").into_iter().cloned().collect()
}

fn in_state<'c>(cells: &'c [Value], state: &str) -> &'c Value {
    let found = cells.iter().find(|cell| cell["file_state"] == state);
    found.unwrap()
}

fn slices(cell: &Value) -> impl Iterator<Item = &Value> {
    cell["slices"].as_array().unwrap().iter()
}

/// A count summed over the slices of a cell, per write.
#[track_caller]
fn per_write(cell: &Value, path: &str) -> f64 {
    let count = |slice: &Value| slice.pointer(path).and_then(Value::as_u64).unwrap();
    let sum: u64 = slices(cell).map(count).sum();
    sum as f64 / cell["ops"].as_f64().unwrap()
}

/// One for each write, beside what the filesystem commits of its own every few seconds.
#[track_caller]
fn is_one(value: f64) {
    assert!((1.0..1.05).contains(&value), "{value}");
}

#[track_caller]
fn is_none(value: f64) {
    assert!(value < 0.05, "{value}");
}

/// Truncated, written, closed: the file's blocks are other ones each time.
#[test]
fn each_write_of_trunc_each_truncates() {
    needs_root!();
    for (fs, counted) in [
        ("ext4", "/filesystem/jbd2/transactions"),
        ("xfs", "/filesystem/xfs/log_writes"),
    ] {
        let mount = Loop::new(320).mounted(fs);
        let (_, record) = measure(&["file", mount.dir(), "--file-state", "trunc-each"]);
        let cells = cells(&record, "file");
        assert!(
            per_write(cells[0], counted) >= 1.0,
            "{fs}: {:#}",
            cells[0]["slices"]
        );
    }
}

#[test]
fn ext4_commits_a_transaction_for_each_write_that_allocates() {
    needs_root!();
    let cells = file_cells("ext4", 128, "on");
    let [overwrite, trunc] = ["overwrite", "trunc"].map(|state| in_state(&cells, state));
    is_one(per_write(trunc, "/filesystem/jbd2/transactions"));
    is_one(per_write(trunc, "/filesystem/jbd2/requested"));
    is_none(per_write(overwrite, "/filesystem/jbd2/transactions"));
    for slice in slices(trunc) {
        assert!(slice["filesystem"]["jbd2"]["commit_ns"].as_u64().unwrap() > 0);
    }
    // Each is a request of several blocks and a commit block, as traced.
    let traced = &trunc["traced"];
    let classes = traced["classes"].as_array().unwrap();
    let journal = classes
        .iter()
        .find(|one| one["class"] == "journal")
        .unwrap();
    let requests = journal["requests"].as_f64().unwrap() / traced["ops"].as_f64().unwrap();
    assert!((2.0..2.1).contains(&requests), "{traced:#}");
    // The kernel makes ext4's own figure from the device's: they may not differ by a KiB a slice.
    for slice in cells.iter().flat_map(slices) {
        let counted = &slice["devices"][0]["counted"]["write_sectors"];
        let bytes = slice["filesystem"]["ext4_written_bytes"].as_u64().unwrap();
        let apart = bytes.abs_diff(counted.as_u64().unwrap() * 512);
        assert!(apart <= 65_536, "{slice:#}");
    }
}

/// An ext4 with its journal on a device of its own. Fields go in their order.
struct Apart {
    mount: Mount,
    _journal: Loop,
}

impl Apart {
    fn new() -> Apart {
        let (device, journal) = (Loop::new(128), Loop::new(64));
        let quiet = ["-q", "-F", "-b", "4096"];
        let options = ["-O", "journal_dev", journal.node()];
        system("mke2fs", &[&quiet[..], &options].concat());
        let place = format!("device={}", journal.node());
        let at_once = "lazy_itable_init=0,lazy_journal_init=0";
        let options = ["-E", at_once, "-J", &place, device.node()];
        system("mkfs.ext4", &[&quiet[..], &options].concat());
        Apart {
            mount: Mount::of(device, &[]),
            _journal: journal,
        }
    }
}

#[test]
fn the_transactions_of_a_journal_on_another_device_are_found() {
    needs_root!();
    // Of two such journals in use, each must be taken for its own filesystem's.
    for filesystem in [Apart::new(), Apart::new()] {
        let dir = filesystem.mount.dir();
        let (_, record) = measure(&["file", dir, "--file-state", "append", "--trace", "off"]);
        let target = &record["targets"][0];
        assert_eq!(target["mount"]["journal"]["external"], true);
        let cell = cells(&record, "file")[0];
        is_one(per_write(cell, "/filesystem/jbd2/transactions"));
    }
}

/// The parts of the devices of a filesystem on several, for its one append cell: bytes per byte and
/// flushes per write of each; and the sums that the columns show.
fn parts(dir: &str) -> (Vec<(f64, f64)>, Value, Ran) {
    let quick = ["--sizes", "4k", "--rounds", "10", "--budget", "2s"];
    let args = ["file", dir, "--file-state", "append", "--trace", "off"];
    let program = Program::new();
    let (ran, _) = program.measure(&[&args[..], &quick].concat());
    let record = program.state().join("record.json");
    let report = ["report", record.to_str().unwrap(), "--format", "json"];
    let all: Value = serde_json::from_str(&program.run(&report).stdout).unwrap();
    let counted = all["amplification"][0].clone();
    let each = |part: &Value| {
        let of = |key: &str| part[key].as_f64().unwrap();
        (of("bytes_per_byte"), of("flushes_per_write"))
    };
    let parts = counted["parts"].as_array().unwrap().iter().map(each);
    (parts.collect(), counted, ran)
}

#[test]
fn every_device_of_a_filesystem_counts_in_a_row_of_its_own() {
    needs_root!();
    let filesystem = Apart::new();
    let (parts, sums, ran) = parts(filesystem.mount.dir());
    let [data, journal] = parts[..] else {
        panic!("{sums:#}")
    };
    // The data is written to the one, and 20 KiB of a transaction with its commit block to the other.
    assert!((1.0..1.3).contains(&data.0), "{sums:#}");
    assert!((5.0..7.5).contains(&journal.0), "{sums:#}");
    is_one(data.1);
    is_one(journal.1 / 2.0);
    let all = sums["amplification"].as_f64().unwrap();
    assert!((data.0 + journal.0 - all).abs() < 1e-6, "{sums:#}");
    ran.prints("What each device of the filesystem took")
        .prints(&format!("journal: {}", filesystem._journal.name()));

    let (device, log) = (Loop::new(320), Loop::new(128));
    let place = format!("logdev={}", log.node());
    system("mkfs.xfs", &["-q", "-f", "-l", &place, device.node()]);
    let mount = Mount::of(device, &["-o", &place]);
    let (parts, sums, _) = self::parts(mount.dir());
    let [data, journal] = parts[..] else {
        panic!("{sums:#}")
    };
    is_one(data.0);
    assert!((0.3..0.6).contains(&journal.0), "{sums:#}");
    is_one(journal.1 / 2.0);
    drop(mount);

    let (device, other) = (Loop::new(256), Loop::new(256));
    let both = [device.node(), other.node()];
    let raid1 = ["-q", "-f", "-d", "raid1", "-m", "raid1"];
    system("mkfs.btrfs", &[&raid1[..], &both].concat());
    let mount = Mount::of(device, &[]);
    let (parts, sums, _) = self::parts(mount.dir());
    let [one, two] = parts[..] else {
        panic!("{sums:#}")
    };
    // Each has all of it.
    assert!((one.0 / two.0 - 1.0).abs() < 0.05, "{sums:#}");
    drop(mount);
}

#[test]
fn xfs_writes_its_log_once_for_each_write_that_allocates() {
    needs_root!();
    let cells = file_cells("xfs", 320, "on");
    let [overwrite, trunc] = ["overwrite", "trunc"].map(|state| in_state(&cells, state));
    is_one(per_write(trunc, "/filesystem/xfs/log_writes"));
    is_one(per_write(trunc, "/filesystem/xfs/log_forces"));
    is_none(per_write(overwrite, "/filesystem/xfs/log_writes"));
    // What XFS says that it wrote to its log is what was traced on the way there.
    let traced = &trunc["traced"];
    let classes = traced["classes"].as_array().unwrap();
    let journal = classes
        .iter()
        .find(|one| one["class"] == "journal")
        .unwrap();
    let of_traced = journal["bytes"].as_f64().unwrap() / traced["ops"].as_f64().unwrap();
    let counted = per_write(trunc, "/filesystem/xfs/log_bytes");
    assert!(
        (counted / of_traced - 1.0).abs() < 0.1,
        "{counted} {of_traced}"
    );
    // Nobody else writes there.
    for slice in cells.iter().flat_map(slices) {
        assert_eq!(slice["filesystem"]["xfs"]["written_bytes"], slice["bytes"]);
    }
}

#[test]
fn others_who_write_to_the_same_xfs_are_told() {
    needs_root!();
    let mount = Loop::new(320).mounted("xfs");
    let other = mount.path().join("other");
    fs::write(&other, vec![1; 1 << 20]).unwrap();
    let (ran, _) = {
        let _writer = Disturbance::writer(&other);
        measure(&["file", mount.dir(), "--trace", "off"])
    };
    ran.prints("Others wrote to the same filesystem while 4K overwrite was measured");
}

/// A disk of two partitions, the second with a filesystem. Fields go in their order.
struct Partitions {
    mount: Mount,
    disk: Loop,
}

fn partitions() -> Partitions {
    let disk = support::partitioned(320);
    let second = format!("{}p2", disk.node());
    let at_once = "lazy_itable_init=0,lazy_journal_init=0";
    system("mkfs.ext4", &["-q", "-F", "-E", at_once, &second]);
    Partitions {
        mount: Mount::node(&second, &[]),
        disk,
    }
}

#[test]
fn others_on_another_partition_of_the_disk_are_told_without_a_trace() {
    needs_root!();
    let partitions = partitions();
    let (mount, disk) = (&partitions.mount, &partitions.disk);
    let args = ["file", mount.dir(), "--trace", "off"];
    let (ran, record) = measure(&args);
    assert!(!ran.stdout.contains("Others used"), "{ran:#?}");
    let is_idle = |slice: &Value| slice["neighbours"] == Value::Array(Vec::new());
    assert!(slices(cells(&record, "file")[0]).any(is_idle));

    let (ran, record) = {
        let _writer = Disturbance::writer(&PathBuf::from(format!("{}p1", disk.node())));
        measure(&args)
    };
    let name = disk.name();
    ran.prints("Others used the disk while 4K overwrite was measured")
        .prints(&format!(
            "on {name} outside {name}p2, most of it on {name}p1"
        ));
    for slice in slices(cells(&record, "file")[0]) {
        let neighbour = &slice["neighbours"][0];
        assert_eq!(neighbour["name"], format!("{name}p1"));
        assert!(neighbour["counted"]["writes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn reads_of_the_device_while_it_is_written_are_told() {
    needs_root!();
    let mount = Loop::new(128).mounted("ext4");
    let (ran, _) = {
        let _reader = Disturbance::reader(Path::new(mount.device().node()));
        measure(&["file", mount.dir(), "--trace", "off"])
    };
    ran.prints("was also read while 4K overwrite was measured");
}

/// Takes the scratch files below a directory out of the page cache.
fn forget(dir: &Path) {
    let scratch =
        |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".syncprof-scratch-");
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    for folder in entries(dir).filter(|entry| scratch(&entry.file_name())) {
        for file in entries(&folder.path()) {
            if let Ok(file) = File::open(file.path()) {
                let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
            }
        }
    }
    std::thread::sleep(Duration::from_millis(1));
}

#[test]
fn what_a_write_must_read_first_is_a_phase_of_its_own() {
    needs_root!();
    // Through the image's pages: some kernels in virtual machines count the events of an interrupt that
    // wakes an idle processor, as a disk's is, but don't record them, and phases are told of whole
    // traces alone.
    let folder = folder();
    let image = folder.path().join("image");
    File::create(&image).unwrap().set_len(128 << 20).unwrap();
    let device = Loop::over(&image, &[]);
    let at_once = "lazy_itable_init=0,lazy_journal_init=0";
    let options = ["-q", "-F", "-b", "4096", "-E", at_once, device.node()];
    system("mkfs.ext4", &options);
    let mount = Mount::of(device, &[]);
    let dir = mount.path().to_owned();
    let forgetful = Disturbance::of(move |_| forget(&dir));
    // An eighth of a block, whose rest comes from the device.
    let args = ["file", mount.dir(), "--direct", "off", "--sizes", "512"];
    let more = ["--pattern", "rand", "--span", "32m", "--trace", "on"];
    let pace = ["--rounds", "10", "--budget", "2s"];
    let (ran, record) = Program::new().measure(&[&args[..], &more, &pace].concat());
    drop(forgetful);
    ran.prints("was also read while 512 overwrite was measured");
    let cell = cells(&record, "file")[0];
    let phases = cell["traced"]["phases"].as_array().unwrap();
    let read = phases.iter().find(|one| one["phase"] == "read");
    assert!(
        read.is_some_and(|one| one["mean_ns"].as_f64() > Some(0.0)),
        "{cell:#}"
    );
}

/// Switches a device's counting off, and on again when dropped.
struct Uncounted(PathBuf);

impl Uncounted {
    fn of(device: &Loop) -> Uncounted {
        let switch = format!("/sys/block/{}/queue/iostats", device.name());
        fs::write(&switch, "0").unwrap();
        Uncounted(switch.into())
    }
}

impl Drop for Uncounted {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "1");
    }
}

#[test]
fn a_device_that_counts_nothing_has_no_figures_and_the_switch_is_named() {
    needs_root!();
    let device = Loop::new(16);
    let uncounted = Uncounted::of(&device);
    let (ran, record) = measure(&["raw", device.node(), "--trace", "off"]);
    for slice in slices(cells(&record, "raw")[0]) {
        let devices = slice["devices"].as_array().unwrap();
        let counts = |one: &&Value| one["dev"] == record["targets"][0]["stack"][0]["dev"];
        assert_eq!(devices.iter().find(counts), None);
    }
    assert!(!ran.stdout.contains("ampl."), "{ran:#?}");
    ran.says("echo 1 > ")
        .says(&format!("{}/queue/iostats", device.name()));
    drop(uncounted);
}

#[test]
fn each_write_sleeps_at_least_once_and_takes_processor_time() {
    needs_root!();
    let device = Loop::new(16);
    let (_, record) = measure(&["raw", device.node(), "--trace", "off"]);
    let cell = cells(&record, "raw")[0];
    let of = |what: &str| per_write(cell, &format!("/process/{what}"));
    // A write that another processor completes before its thread has gone to sleep needs no sleep.
    let sleeps = of("voluntary_switches");
    assert!((0.5..3.0).contains(&sleeps), "{sleeps}");
    assert!(of("user_ns") + of("system_ns") > 0.0);
    assert!(slices(cell).all(|slice| slice["filesystem"].is_null()));
}

#[test]
fn processors_that_the_run_may_not_use_are_not_told_as_its_own() {
    needs_root!();
    let device = Loop::new(16);
    let program = Program::new();
    let args = [
        "raw",
        device.node(),
        "--sizes",
        "4k",
        "--rounds",
        "8",
        "--budget",
        "1s",
    ];
    let own = program.command(&args);
    let mut pinned = std::process::Command::new("taskset");
    pinned.args(["-c", "0"]).arg(own.get_program()).args(args);
    pinned.env("XDG_STATE_HOME", program.state());
    let ran = support::ran(pinned.output().unwrap()).exits(0);
    let all = std::thread::available_parallelism().unwrap();
    if all.get() > 1 {
        ran.prints(&format!(", 1 of {all} CPUs")).says(&format!(
            "the CPU affinity of this run allows 1 of {all} CPUs"
        ));
    }
}

#[test]
fn others_who_write_to_the_same_ext4_or_btrfs_leave_no_figure_for_the_devices() {
    needs_root!();
    for fs in ["ext4", "btrfs"] {
        let mount = Loop::new(256).mounted(fs);
        let args = [
            "file",
            mount.dir(),
            "--file-state",
            "append",
            "--trace",
            "off",
        ];
        let (ran, _) = measure(&args);
        assert!(!ran.stdout.contains("Others wrote"), "{fs}: {ran:#?}");
        ran.prints("ampl.");
        let other = mount.path().join("other");
        fs::write(&other, vec![1; 1 << 20]).unwrap();
        let (ran, record) = {
            let _writer = Disturbance::writer(&other);
            measure(&args)
        };
        assert!(record["targets"][0]["idle"]["busy_moments"].as_u64() > Some(2));
        assert!(!ran.stdout.contains("ampl."), "{fs}: {ran:#?}");
        ran.prints("Others wrote to the same filesystem");
    }
}

#[test]
fn a_setting_that_changes_ends_the_run_and_keeps_what_came_before() {
    needs_root!();
    let mount = Loop::new(128).mounted("ext4");
    let cache = format!("/sys/block/{}/queue/write_cache", mount.device().name());
    let dir = mount.dir();
    let remount = |option: &str| {
        let options = format!("remount,{option}");
        system("mount", &["-o", &options, dir]);
    };
    type Change<'a> = &'a dyn Fn();
    let changes: [(Change<'_>, Change<'_>, &str); 2] = [
        (
            &|| fs::write(&cache, "write through").unwrap(),
            &|| fs::write(&cache, "write back").unwrap(),
            "changed from write back to write through",
        ),
        (
            &|| remount("noatime"),
            &|| remount("relatime"),
            "changed from rw,relatime to rw,noatime",
        ),
    ];
    for (change, back, told) in changes {
        let program = Program::new();
        let record = program.state().join("record.json");
        let args = [
            "file", dir, "--sizes", "4k", "--span", "4m", "--trace", "off",
        ];
        let more = ["--rounds", "100000", "--json", record.to_str().unwrap()];
        let mut running = program.start(&[&args[..], &more].concat());
        running.until_saved(&record);
        change();
        let ran = running.outcome().exits(1);
        back();
        ran.says(told).says("all figures are from before");
        let record: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        assert_eq!(record["run"]["ended"], "changed");
        let rounds = record["run"]["rounds"].as_u64().unwrap() as usize;
        assert!(rounds > 0);
        assert_eq!(slices(cells(&record, "file")[0]).count(), rounds);
    }
}
