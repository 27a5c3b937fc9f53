//! What the integration tests share: the program run in a world of its own, and real loop devices
//! and filesystems that go away with their values, also when a test fails.
#![allow(dead_code)] // Each test program uses its own part of this.

pub mod disturbance;
pub mod fuse;
pub mod populated;
pub mod running;
pub mod seccomp;
pub mod throttle;
pub mod witness;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use running::Running;
use serde_json::Value;
use tempfile::TempDir;

/// Ends the test early where there is no root, which devices and mounts need. In CI that is a
/// failure: no device test may be skipped there.
#[macro_export]
macro_rules! needs_root {
    () => {
        if !nix::unistd::geteuid().is_root() {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must run the device tests as root"
            );
            eprintln!("skipped: needs root");
            return;
        }
    };
}

/// A folder for a test's images, on a real filesystem.
pub fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("syncprof-test-")
        .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .unwrap()
}

/// Runs a program of the system that must succeed, and gives what it printed.
pub fn system(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; tests/run.sh installs it"));
    assert!(
        output.status.success(),
        "{program} {args:?}: {}",
        lossy(&output.stderr)
    );
    lossy(&output.stdout)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a run of the program gave.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; none if a signal ended it.
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// The run ended with this exit code.
    #[track_caller]
    pub fn exits(self, status: i32) -> Ran {
        assert_eq!(self.status, Some(status), "{self:#?}");
        self
    }

    /// Standard error is one line, which holds this text.
    #[track_caller]
    pub fn says_one_line(self, part: &str) -> Ran {
        assert_eq!(self.stderr.lines().count(), 1, "{self:#?}");
        self.says(part)
    }

    /// Standard error ends with one line of an error, which holds this text; before it, there are but
    /// warnings of what was known to be amiss before.
    #[track_caller]
    pub fn ends_with_error(self, part: &str) -> Ran {
        let mut lines = self.stderr.lines();
        let error = lines.next_back().unwrap_or_default();
        assert!(
            error.contains(": error: ") && error.contains(part),
            "no {part:?} in {self:#?}"
        );
        assert!(lines.all(|line| line.contains(": warning: ")), "{self:#?}");
        self
    }

    /// Standard error holds this text.
    #[track_caller]
    pub fn says(self, part: &str) -> Ran {
        assert!(self.stderr.contains(part), "no {part:?} in {self:#?}");
        self
    }

    /// Standard output holds this text.
    #[track_caller]
    pub fn prints(self, part: &str) -> Ran {
        assert!(self.stdout.contains(part), "no {part:?} in {self:#?}");
        self
    }
}

/// The program, with a state folder of its own.
pub struct Program {
    state: TempDir,
}

impl Program {
    pub fn new() -> Program {
        Program { state: folder() }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_syncprof"));
        command
            .args(args)
            .env("XDG_STATE_HOME", self.state.path())
            .env_remove("COLUMNS");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    pub fn start(&self, args: &[&str]) -> Running {
        Running::new(self.command(args).spawn().unwrap())
    }

    /// Runs a measurement of a few quick rounds and gives its record.
    pub fn measure(&self, args: &[&str]) -> (Ran, Value) {
        let path = self.state.path().join("record.json");
        let _ = fs::remove_file(&path);
        let mut args = args.to_vec();
        args.extend(["--json", path.to_str().unwrap()]);
        let ran = self.run(&args);
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("no record: {error}: {ran:#?}"));
        (ran, serde_json::from_str(&text).unwrap())
    }

    /// The state folder.
    pub fn state(&self) -> &Path {
        self.state.path()
    }
}

pub fn ran(output: Output) -> Ran {
    Ran {
        status: output.status.code(),
        stdout: lossy(&output.stdout),
        stderr: lossy(&output.stderr),
    }
}

/// The cells of a record with this role.
pub fn cells<'r>(record: &'r Value, role: &str) -> Vec<&'r Value> {
    record["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|cell| cell["role"] == role)
        .collect()
}

/// `losetup --find` gives two callers the same device at times, and an open of another test's device
/// with O_EXCL makes its mount fail: so devices are set up one at a time.
fn setup() -> MutexGuard<'static, ()> {
    static SETUP: Mutex<()> = Mutex::new(());
    SETUP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A loop device over an image of its own. Detached when dropped.
pub struct Loop {
    node: PathBuf,
    image: PathBuf,
    partitions: u32,
    _folder: Option<TempDir>,
}

impl Loop {
    /// A loop device of `mib` MiB, direct to its image.
    pub fn new(mib: u64) -> Loop {
        let folder = folder();
        let image = folder.path().join("image");
        fs::File::create(&image)
            .unwrap()
            .set_len(mib << 20)
            .unwrap();
        let mut device = Loop::over(&image, &["--direct-io=on"]);
        device._folder = Some(folder);
        device
    }

    /// A loop device over `image`, with more options of losetup(8).
    pub fn over(image: &Path, options: &[&str]) -> Loop {
        let _one_at_a_time = setup();
        let mut args = vec!["--find", "--show"];
        args.extend(options);
        args.push(image.to_str().unwrap());
        let node = PathBuf::from(system("losetup", &args).trim());
        let device = Loop {
            node,
            image: image.to_owned(),
            partitions: 0,
            _folder: None,
        };
        if !options.contains(&"--read-only") {
            // A loop device that was once set read-only stays so when it gets another image.
            system("blockdev", &["--setrw", device.node()]);
        }
        device
    }

    pub fn node(&self) -> &str {
        self.node.to_str().unwrap()
    }

    pub fn name(&self) -> &str {
        self.node.file_name().unwrap().to_str().unwrap()
    }

    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Detaches the device, and gives the folder that its image goes away with.
    pub fn detached(mut self) -> Option<TempDir> {
        self._folder.take()
    }

    /// Fills it with random bytes.
    pub fn randomize(&self) {
        let mib = fs::metadata(&self.image).unwrap().len() >> 20;
        let (to, count) = (format!("of={}", self.node()), format!("count={mib}"));
        let args = ["if=/dev/urandom", &to, "bs=1M", &count, "status=none"];
        system("dd", &args);
    }

    /// A digest of all that the device holds.
    pub fn digest(&self) -> String {
        digest(&self.image)
    }

    /// Makes a filesystem on it.
    pub fn format(&self, fs: &str) {
        let node = self.node();
        match fs {
            "xfs" => system("mkfs.xfs", &["-q", "-f", node]),
            "btrfs" => system("mkfs.btrfs", &["-q", "-f", node]),
            // All of it now, so that no kernel thread writes inode tables while something is counted.
            ext => {
                let at_once = "lazy_itable_init=0,lazy_journal_init=0";
                system(&format!("mkfs.{ext}"), &["-q", "-F", "-E", at_once, node])
            }
        };
    }

    /// Makes a filesystem on it and mounts that.
    pub fn mounted(self, fs: &str) -> Mount {
        self.format(fs);
        Mount::of(self, &[])
    }
}

impl Loop {
    /// Has the kernel forget the first partitions.
    fn forget_partitions(&self, count: u32) {
        for number in 1..=count {
            let number = number.to_string();
            let _ = Command::new("delpart")
                .args([self.node(), &number])
                .output();
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Partitions would outlive the image, and show up with the next one.
        self.forget_partitions(self.partitions);
        let _ = Command::new("losetup").arg("-d").arg(&self.node).status();
    }
}

/// A loop device of `mib` MiB with two partitions, of 100 MiB and of the rest. The kernel is told of
/// them, since not every kernel reads partition tables.
pub fn partitioned(mib: u64) -> Loop {
    let mut device = Loop::new(mib);
    // Those that a test left that was killed.
    device.forget_partitions(2);
    let first_sectors = 100 << 11;
    let rest_sectors = (mib << 11) - 2048 - first_sectors;
    let second_start = (2048 + first_sectors).to_string();
    let node = device.node().to_owned();
    system("addpart", &[&node, "1", "2048", &first_sectors.to_string()]);
    device.partitions = 1;
    system(
        "addpart",
        &[&node, "2", &second_start, &rest_sectors.to_string()],
    );
    device.partitions = 2;
    device
}

/// A digest of a file's or a device's content, past all caches.
pub fn digest(path: &Path) -> String {
    system("sync", &[path.to_str().unwrap()]);
    system("sha256sum", &[path.to_str().unwrap()])
        .split(' ')
        .next()
        .unwrap()
        .to_owned()
}

/// A mounted filesystem on a loop device. Unmounted when dropped.
pub struct Mount {
    point: TempDir,
    is_mounted: bool,
    device: Option<Loop>,
}

impl Mount {
    /// Mounts what is on `device`, with options of mount(8).
    pub fn of(device: Loop, options: &[&str]) -> Mount {
        let mut mount = Mount::node(device.node(), options);
        mount.device = Some(device);
        mount
    }

    /// Mounts what is on the device `node`, which somebody else owns.
    pub fn node(node: &str, options: &[&str]) -> Mount {
        let point = folder();
        let mut args = options.to_vec();
        args.extend([node, point.path().to_str().unwrap()]);
        system("mount", &args);
        Mount {
            point,
            is_mounted: true,
            device: None,
        }
    }

    pub fn path(&self) -> &Path {
        self.point.path()
    }

    pub fn dir(&self) -> &str {
        self.point.path().to_str().unwrap()
    }

    pub fn device(&self) -> &Loop {
        self.device.as_ref().unwrap()
    }

    /// Unmounts.
    pub fn unmount(&mut self) {
        assert!(try_unmount(self.dir()), "{} stays mounted", self.dir());
        self.is_mounted = false;
    }

    /// Unmounts and gives the device back.
    pub fn unmounted(mut self) -> Loop {
        self.unmount();
        self.device.take().unwrap()
    }

    /// The names in the filesystem's root.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.is_mounted && !try_unmount(self.dir()) {
            let _ = Command::new("umount").arg("-l").arg(self.path()).status();
        }
    }
}

/// Unmounts. Whoever looks at all mounts of the machine, as other tests do, holds each for a moment.
pub fn try_unmount(point: &str) -> bool {
    (0..100).any(|_| {
        let tried = Command::new("umount").arg(point).output();
        let is_done = tried.is_ok_and(|output| output.status.success());
        if !is_done {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        is_done
    })
}

/// A zram device of its own, of `mib` MiB.
pub struct Zram {
    number: String,
}

impl Zram {
    pub fn new(mib: u64) -> Zram {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").unwrap();
        let zram = Zram {
            number: number.trim().to_owned(),
        };
        fs::write(
            format!("/sys/block/zram{}/disksize", zram.number),
            format!("{mib}M"),
        )
        .unwrap();
        zram
    }

    pub fn node(&self) -> String {
        format!("/dev/zram{}", self.number)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // Busy for as long as anybody who looks at all devices has it open.
        let is_gone = || fs::write("/sys/class/zram-control/hot_remove", &self.number).is_ok();
        for _ in 0..100 {
            if is_gone() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
