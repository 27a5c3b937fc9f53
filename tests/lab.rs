//! `lab`: filesystems that are built, measured and taken down, on real loop devices.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Loop, Program, cells, system};

/// A short run on a small image.
const QUICK: &[&str] = &[
    "--rounds", "3", "--budget", "2s", "--span", "1m", "--trace", "off",
];

/// Three filesystems that are there everywhere, and four that can't be.
const PROFILE: &str = r#"
about = "a test"
question = "Which?"
[cells]
sizes = ["4k", "16k"]
file_state = ["overwrite", "append"]
[[variant]]
name = "plain"
fs = "ext4"
[[variant]]
name = "outside"
fs = "ext4"
journal = "external"
[[matrix]]
fs = ["xfs", "btrfs"]
[[variant]]
name = "bad option"
fs = "ext4"
mount = ["no_such_option"]
[[variant]]
name = "bad mkfs"
fs = "ext4"
mkfs = ["-b", "17"]
[[variant]]
name = "unknown"
fs = "ntfs"
[[variant]]
name = "no journal elsewhere"
fs = "btrfs"
journal = "external"
"#;

fn profile(program: &Program, text: &str) -> String {
    let path = program.state().join("test.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The loop devices that are attached to a nameless image of this program's.
fn loops(program: &Program) -> Vec<PathBuf> {
    let state = program.state().to_str().unwrap().to_owned();
    let entries = fs::read_dir("/sys/block").unwrap().flatten();
    let is_own = |path: &PathBuf| {
        fs::read_to_string(path.join("loop/backing_file")).is_ok_and(|file| file.contains(&state))
    };
    entries.map(|entry| entry.path()).filter(is_own).collect()
}

/// The kernel takes a while to give everything back once a process is gone.
fn nothing_is_attached(program: &Program) {
    let begun = Instant::now();
    while !loops(program).is_empty() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            loops(program)
        );
        sleep(Duration::from_millis(20));
    }
}

fn folders(program: &Program) -> Vec<String> {
    let entries = fs::read_dir(program.state().join("syncprof"))
        .unwrap()
        .flatten();
    let names = entries.map(|entry| entry.file_name().to_str().unwrap().to_owned());
    names.filter(|name| !name.ends_with(".json")).collect()
}

#[test]
fn variants_are_measured_and_each_failure_is_a_row() {
    needs_root!();
    let program = Program::new();
    let profile = profile(&program, PROFILE);
    let args = [&["lab", &profile, "--image", "900m"], QUICK].concat();
    let (ran, record) = program.measure(&args);
    let ran = ran.exits(1);
    for part in [
        "Which?",
        "bad option",
        "no_such_option",
        "bad mkfs",
        "no recipe for ntfs",
        "btrfs keeps no journal on another device",
        "-J device=/dev/loop",
    ] {
        assert!(ran.stdout.contains(part), "{part} is not in {}", ran.stdout);
    }
    let names: Vec<&str> = record["targets"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|target| target["variant"]["failed"].is_null())
        .filter_map(|target| target["variant"]["name"].as_str())
        .collect();
    assert_eq!(names, ["plain", "outside", "xfs", "btrfs"]);
    // Two sizes and two states on each, and the raw side of each size in the same rounds.
    assert_eq!(cells(&record, "file").len(), 16);
    assert!(cells(&record, "raw").len() >= 8);
    for cell in record["cells"].as_array().unwrap() {
        assert_eq!(
            cell["slices"].as_array().unwrap().len(),
            3,
            "{}",
            cell["id"]
        );
    }
    let mount = |name: &str| {
        let all = record["targets"].as_array().unwrap();
        let target = all
            .iter()
            .find(|target| target["variant"]["name"] == name)
            .unwrap();
        target["mount"].clone()
    };
    assert_eq!(mount("outside")["journal"]["external"], true);
    assert_eq!(mount("btrfs")["fs_type"], "btrfs");
    // The same tables come from the record.
    let path = program.state().join("record.json");
    let again = program.run(&["report", path.to_str().unwrap()]).exits(0);
    assert_eq!(again.stdout, ran.stdout);
    let json = program.run(&["report", path.to_str().unwrap(), "--format", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["rankings"].as_array().unwrap().len(), 2);
    nothing_is_attached(&program);
    assert_eq!(folders(&program), Vec::<String>::new());
}

/// What newer mkfs refuse, a profile would lose at its users.
#[test]
fn what_the_built_in_profiles_name_can_be_made_and_mounted() {
    needs_root!();
    let (device, journal) = (Loop::new(1024), Loop::new(128));
    let point = support::folder();
    let program = Program::new();
    let mut made = BTreeSet::new();
    for entry in fs::read_dir("profiles/lab").unwrap() {
        let path = entry.unwrap().path();
        let profile = path.file_stem().unwrap().to_str().unwrap();
        let ran = program.run(&["lab", profile, "--dry-run"]).exits(0);
        let variants = ran.stdout.lines().filter_map(|line| line.split_once(": "));
        made.extend(variants.map(|(_, commands)| commands.to_owned()));
    }
    let everywhere = ["ext2", "ext3", "ext4", "xfs", "btrfs"].map(|fs| format!("mount -t {fs} "));
    made.retain(|commands| everywhere.iter().any(|mount| commands.contains(mount)));
    assert!(made.len() > 20, "{made:#?}");
    for commands in made {
        let commands = commands
            .replace("DEVICE", device.node())
            .replace("JOURNAL", journal.node());
        for command in commands.split("; ") {
            let mut words: Vec<&str> = command.split(' ').collect();
            let mounts = words[0] == "mount";
            words.extend(mounts.then_some(point.path().to_str().unwrap()));
            system(words[0], &words[1..]);
            if mounts {
                assert!(support::try_unmount(words[words.len() - 1]), "{command}");
            }
        }
    }
}

#[test]
fn nobody_else_sees_the_mounts() {
    needs_root!();
    let program = Program::new();
    let profile = profile(
        &program,
        "about = 'a'\nquestion = 'q'\n[[variant]]\nfs = 'ext2'\n[cells]\nsizes = '4k'",
    );
    let args = [
        "lab",
        &profile,
        "--image",
        "32m",
        "--span",
        "1m",
        "--budget",
        "3s",
        "--precision",
        "0.01%",
    ];
    let state = program.state().to_str().unwrap();
    let mut child = program.start(&args);
    let pid = child.measuring();
    let of = |who: &str| fs::read_to_string(format!("/proc/{who}/mountinfo")).unwrap_or_default();
    child.until(|| of(&pid.to_string()).contains(state));
    let mounts = of("self");
    assert!(!mounts.contains(state), "{mounts}");
    assert!(of(&pid.to_string()).contains(state), "too late");
    child.outcome().exits(0);
    nothing_is_attached(&program);
}

#[test]
fn a_kill_at_any_moment_leaves_nothing_that_clean_does_not_find() {
    needs_root!();
    let program = Program::new();
    let profile = profile(
        &program,
        "about = 'a'\nquestion = 'q'\n[[matrix]]\nfs = ['ext2', 'ext4']\n[cells]\nsizes = '4k'",
    );
    let args = [
        "lab", &profile, "--image", "32m", "--span", "1m", "--budget", "2s", "--rounds", "3",
        "--trace", "off",
    ];
    let mut random = fastrand::Rng::with_seed(30);
    let mut in_midst = 0;
    for _ in 0..30 {
        let child = program.start(&args);
        sleep(Duration::from_millis(random.u64(0..900)));
        in_midst += u32::from(!loops(&program).is_empty());
        child.killed();
    }
    assert!(in_midst > 0, "nothing was there to be left");
    nothing_is_attached(&program);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(
        !mounts.contains(program.state().to_str().unwrap()),
        "{mounts}"
    );
    program.run(&["clean"]).exits(0);
    assert_eq!(folders(&program), Vec::<String>::new());
    program.run(&args).exits(0);
    program.run(&["clean"]).exits(0).prints("nothing is left");
}

#[test]
fn an_interrupt_takes_everything_down_and_saves() {
    needs_root!();
    let program = Program::new();
    let profile = profile(
        &program,
        "about = 'a'\nquestion = 'q'\n[[matrix]]\nfs = ['ext2', 'ext4']\n[cells]\nsizes = '4k'",
    );
    let args = [
        "lab",
        &profile,
        "--image",
        "32m",
        "--span",
        "1m",
        "--budget",
        "60s",
        "--precision",
        "0.01%",
    ];
    let mut child = program.start(&args);
    let folder = program.state().join("syncprof");
    let saved = || {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut records = entries.filter(|entry| entry.path().extension().is_some());
        records
            .any(|entry| fs::read_to_string(entry.path()).is_ok_and(|t| t.contains("\"round\":2")))
    };
    child.until(saved);
    child.signal(Signal::SIGINT);
    child.outcome().exits(130).prints("ext2");
    nothing_is_attached(&program);
    assert_eq!(folders(&program), Vec::<String>::new());
}

#[test]
fn an_image_that_does_not_fit_is_refused_before_anything_is_made() {
    needs_root!();
    let small = Loop::new(64).mounted("ext4");
    let program = Program::new();
    let args = [
        "lab",
        "trunc",
        "--image",
        "60m",
        "--span",
        "1m",
        "--in",
        small.dir(),
    ];
    program.run(&args).exits(4).says_one_line("--image");
    let args = ["lab", "trunc", "--image", "4m", "--span", "1m"];
    program
        .run(&args)
        .exits(2)
        .says_one_line("too little for a filesystem");
    assert!(small.names().iter().all(|name| name == "lost+found"));
}

/// A small disk on which images may claim more than there is.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn of(size: &str) -> SmallDisk {
        let disk = SmallDisk(support::folder());
        let options = format!("size={size}");
        let dir = disk.0.path().to_str().unwrap();
        system("mount", &["-t", "tmpfs", "-o", &options, "none", dir]);
        disk
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        support::try_unmount(self.0.path().to_str().unwrap());
    }
}

#[test]
fn a_disk_that_fills_while_the_image_grows_costs_that_variant_alone() {
    needs_root!();
    let disk = SmallDisk::of("40m");
    let image = disk.0.path().join("image");
    fs::File::create(&image)
        .unwrap()
        .set_len(400 << 20)
        .unwrap();
    let device = Loop::over(&image, &[]);
    let program = Program::new();
    // XFS zeroes its log (mkfs.xfs(8)), which is larger than the disk.
    let text = "about = 'a'\nquestion = 'q'\n[cells]\nsizes = '4k'\n\
                [[variant]]\nname = 'before'\nfs = 'ext4'\n\
                [[variant]]\nname = 'full'\nfs = 'xfs'\nmkfs = ['-l', 'size=64m']\n\
                [[variant]]\nname = 'after'\nfs = 'ext2'";
    let profile = profile(&program, text);
    let destroys = ["--overwrite", "--confirm", device.name()];
    let args = ["lab", &profile, "--device", device.node()];
    let (ran, record) = program.measure(&[&args[..], &destroys, QUICK].concat());
    ran.exits(1).prints("No space left on device");
    assert_eq!(failed(&record), ["full"]);
    assert_eq!(cells(&record, "file").len(), 2);
}

#[test]
fn a_device_too_small_for_a_filesystem_costs_that_variant_alone() {
    needs_root!();
    let program = Program::new();
    let text =
        "about = 'a'\nquestion = 'q'\n[cells]\nsizes = '4k'\n[[matrix]]\nfs = ['xfs', 'ext4']";
    let profile = profile(&program, text);
    let (ran, record) = program.measure(&[&["lab", &profile, "--image", "64m"], QUICK].concat());
    ran.exits(1).prints("mkfs.xfs");
    assert_eq!(failed(&record), ["xfs"]);
    assert_eq!(cells(&record, "file").len(), 1);
    nothing_is_attached(&program);
}

/// The variants that were not measured.
fn failed(record: &Value) -> Vec<&str> {
    let targets = record["targets"].as_array().unwrap();
    let failed = targets
        .iter()
        .filter(|target| !target["variant"]["failed"].is_null());
    failed
        .filter_map(|target| target["variant"]["name"].as_str())
        .collect()
}

#[test]
fn a_device_is_built_on_only_once_it_is_confirmed() {
    needs_root!();
    let program = Program::new();
    let profile = profile(
        &program,
        "about = 'a'\nquestion = 'q'\n[[matrix]]\nfs = ['ext4', 'btrfs']\n[cells]\nsizes = '4k'",
    );
    let device = Loop::new(200);
    let before = device.digest();
    let run = |more: &[&str]| {
        let args = [&["lab", &profile, "--device", device.node()], QUICK, more].concat();
        program.run(&args)
    };
    run(&[]).exits(2).says_one_line("--overwrite");
    run(&["--overwrite"]).exits(2).says_one_line("--confirm");
    run(&["--overwrite", "--confirm", "sda"]).exits(3);
    assert_eq!(device.digest(), before);
    let ran = run(&["--overwrite", "--confirm", device.name()]).exits(0);
    // btrfs has no blocks of its own that can be written raw.
    assert!(
        ran.stdout.contains("ext4") && ran.stdout.contains("btrfs"),
        "{}",
        ran.stdout
    );
    let mount = device.mounted("ext4");
    let args = [
        "lab",
        &profile,
        "--device",
        mount.device().node(),
        "--overwrite",
        "--force",
        "--confirm",
        mount.device().name(),
    ];
    program.run(&args).exits(3).says_one_line("mounted");
}

#[test]
fn a_journal_is_not_made_where_the_filesystem_is() {
    needs_root!();
    let program = Program::new();
    let profile = profile(
        &program,
        "about = 'a'\nquestion = 'q'\n[cells]\nsizes = '4k'\n\
         [[variant]]\nfs = 'ext4'\njournal = 'external'",
    );
    let disk = support::partitioned(256);
    let node = disk.node().to_owned();
    let [first, second] = [1, 2].map(|number| format!("{node}p{number}"));
    let before = disk.digest();
    let name = |node: &str| node.rsplit('/').next().unwrap().to_owned();
    let run = |device: &str, journal: &str| {
        let (own, journals) = (name(device), name(journal));
        let devices = [
            "lab",
            &profile,
            "--device",
            device,
            "--journal-device",
            journal,
        ];
        let confirmed = [
            "--overwrite",
            "--confirm",
            &own,
            "--confirm-journal",
            &journals,
        ];
        program.run(&[&devices[..], &confirmed, QUICK].concat())
    };
    for (device, journal) in [(&node, &node), (&node, &first), (&first, &node)] {
        run(device, journal)
            .exits(2)
            .says_one_line("shares its bytes");
    }
    assert_eq!(disk.digest(), before);
    let commands = format!("-J device={first} {second}");
    run(&second, &first).exits(0).prints(&commands);
}

/// An image is built on without a question.
#[test]
fn a_profile_cannot_name_other_devices() {
    needs_root!();
    let program = Program::new();
    let precious = Loop::new(200);
    let before = precious.digest();
    for variant in [
        format!("fs = 'btrfs'\nmkfs = ['{}']", precious.node()),
        format!("fs = 'xfs'\nmkfs = ['-l', 'logdev={}']", precious.node()),
        format!("fs = 'xfs'\nmount = ['logdev={}']", precious.node()),
    ] {
        let text = "about = 'a'\nquestion = 'q'\n[cells]\nsizes = '4k'\n[[variant]]\n";
        let profile = profile(&program, &format!("{text}{variant}"));
        let args = [&["lab", &profile, "--image", "400m"], QUICK].concat();
        program.run(&args).exits(2).says_one_line("test.toml:");
    }
    assert_eq!(precious.digest(), before);
}

#[test]
fn a_dry_run_shows_the_commands_and_needs_no_rights() {
    let program = Program::new();
    let ran = program.run(&["lab", "journal-modes", "--dry-run"]).exits(0);
    let line = "ext4 data=journal: mkfs.ext4 -q -F";
    assert!(ran.stdout.contains(line), "{}", ran.stdout);
    assert!(!Path::new(&program.state().join("syncprof")).exists());
    program
        .run(&["lab", "no-such"])
        .exits(2)
        .says_one_line("journal-modes");
}
