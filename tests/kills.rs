//! Crash-only: every verb is ended at seeded moments by each signal, and keeps what is promised: nobody
//! else's byte changes, filesystems are clean, `clean` finds all that is left, and each record loads.
//!
//! `SYNCPROF_KILLS=16 cargo test --test kills -- --nocapture` ends each verb so often, and prints a table.

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use syncprof::model::record::Record;
use syncprof::plan::Options;
use syncprof::session::{self, Bench, Hooks, Pace, Progress, RunRequest, Tracing};
use syncprof::sys::root::Root;

use support::populated::{check, digests, populated};
use support::running::{PATIENCE, Running};
use support::witness::{Witness, promise};
use support::{Loop, Mount, Program};

const SIGNALS: [Signal; 7] = [
    Signal::SIGKILL,
    Signal::SIGTERM,
    Signal::SIGABRT,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGXFSZ,
];

/// Where a kill came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    Amid,
    After,
}

/// A verb, what it runs on, and what it promises.
trait Scene {
    fn args(&mut self, program: &Program) -> Vec<String>;

    /// Grows once it writes.
    fn written(&self, _: &Program) -> u64 {
        0
    }

    /// About how long it takes once it has begun.
    fn longest_ms(&self) -> u64 {
        800
    }

    /// Fails unless all is as it was.
    fn check(&mut self, program: &Program);
}

type Staged = fn() -> Box<dyn Scene>;

/// On a device whose content is preserved.
struct OnDevice {
    device: Loop,
    before: String,
    words: &'static str,
}

impl OnDevice {
    fn new(words: &'static str) -> OnDevice {
        let device = Loop::new(16);
        device.format("ext4");
        OnDevice {
            before: device.digest(),
            device,
            words,
        }
    }
}

impl Scene for OnDevice {
    fn args(&mut self, program: &Program) -> Vec<String> {
        let claims = program.state().join("claims.toml");
        let text = "about = 'a'\n[[claim]]\nname = 'n'\npattern = 'rand'\nsize = '4k'\nstate = 'any'\n\
                    queue_depth = 1\njobs = 1\nmethod = 'o_dsync'\ndirect = true\nat_least = { iops = 1 }\n";
        fs::write(&claims, text).unwrap();
        let words = self.words.replace("CLAIMS", claims.to_str().unwrap());
        words_of(&words.replace("NODE", self.device.node()))
    }

    fn written(&self, _: &Program) -> u64 {
        writes(&self.device)
    }

    fn check(&mut self, _: &Program) {
        assert_eq!(self.device.digest(), self.before);
    }
}

/// On a mounted filesystem with other people's files.
struct OnFiles {
    fs: &'static str,
    mount: Option<Mount>,
    names: Vec<String>,
    digests: BTreeMap<String, String>,
    words: &'static str,
}

impl OnFiles {
    fn new(fs: &'static str, words: &'static str) -> OnFiles {
        let mount = populated(fs);
        OnFiles {
            fs,
            names: mount.names(),
            digests: digests(&mount),
            mount: Some(mount),
            words,
        }
    }

    fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }
}

impl Scene for OnFiles {
    fn args(&mut self, _: &Program) -> Vec<String> {
        words_of(&self.words.replace("DIR", self.mount().dir()))
    }

    fn written(&self, _: &Program) -> u64 {
        u64::from(self.mount().names() != self.names)
    }

    fn check(&mut self, _: &Program) {
        assert_eq!(self.mount().names(), self.names);
        assert_eq!(digests(self.mount()), self.digests);
        let device = self.mount.take().unwrap().unmounted();
        check(self.fs, &device);
        self.mount = Some(Mount::of(device, &[]));
    }
}

/// A device that is overwritten before a witness.
struct Promising {
    device: Loop,
    /// Of the witness.
    home: Program,
    witness: Witness,
}

impl Promising {
    fn new() -> Promising {
        let home = Program::new();
        Promising {
            device: Loop::new(8),
            witness: Witness::new(&home),
            home,
        }
    }
}

impl Scene for Promising {
    fn args(&mut self, _: &Program) -> Vec<String> {
        let more = ["--duration", "1s"];
        let args = promise(&self.device, &self.witness.address, &more);
        args.into_iter().map(str::to_owned).collect()
    }

    fn written(&self, _: &Program) -> u64 {
        writes(&self.device)
    }

    fn check(&mut self, _: &Program) {
        let node = self.device.node();
        let args = ["durability", node, "--witness", &self.witness.address];
        let ran = self.home.run(&[&args[..], &["--verify"]].concat());
        // Before its first kill that came late enough, the witness has no run of the device.
        assert!(
            ran.status == Some(0) || ran.stderr.contains("no run"),
            "{ran:#?}"
        );
    }
}

/// A lab on an image of its own.
struct InLab;

impl Scene for InLab {
    fn args(&mut self, program: &Program) -> Vec<String> {
        let profile = program.state().join("lab.toml");
        let text = "about = 'a'\nquestion = 'q'\n[[matrix]]\nfs = ['ext2', 'ext4']\n[cells]\nsizes = '4k'\n";
        fs::write(&profile, text).unwrap();
        let profile = profile.to_str().unwrap();
        words_of(&format!(
            "lab {profile} --image 32m --span 1m --rounds 3 --trace off"
        ))
    }

    fn written(&self, program: &Program) -> u64 {
        loops(program)
    }

    fn check(&mut self, program: &Program) {
        // The kernel takes a while to give everything back once a process is gone.
        let begun = Instant::now();
        while loops(program) > 0 {
            assert!(begun.elapsed() < PATIENCE, "a loop device stays");
            sleep(Duration::from_millis(20));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(
            !mounts.contains(program.state().to_str().unwrap()),
            "{mounts}"
        );
    }
}

/// What reads alone.
struct Reading(&'static str);

impl Scene for Reading {
    fn args(&mut self, _: &Program) -> Vec<String> {
        let records = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/records");
        words_of(&self.0.replace("RECORDS", records))
    }

    fn longest_ms(&self) -> u64 {
        40
    }

    fn check(&mut self, _: &Program) {}
}

/// `clean`, after a run that was killed.
struct Cleaning(OnFiles);

impl Scene for Cleaning {
    fn args(&mut self, program: &Program) -> Vec<String> {
        let args = self.0.args(program);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut child = program.start(&args);
        child.until(|| self.0.written(program) > 0);
        child.killed();
        words_of("clean")
    }

    fn longest_ms(&self) -> u64 {
        15
    }

    fn check(&mut self, program: &Program) {
        self.0.check(program);
    }
}

fn words_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The writes that a device counted.
fn writes(device: &Loop) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", device.name())).unwrap();
    stat.split_whitespace().nth(4).unwrap().parse().unwrap()
}

/// The loop devices over images in the program's state folder.
fn loops(program: &Program) -> u64 {
    let state = program.state().to_str().unwrap();
    let entries = fs::read_dir("/sys/block").unwrap().flatten();
    let backing = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("loop/backing_file"));
    let backings = entries.filter_map(|entry| backing(entry).ok());
    backings.filter(|file| file.contains(state)).count() as u64
}

/// Ends the verb once, cleans up, and fails unless every promise was kept.
fn kill(scene: &mut dyn Scene, signal: Signal, late: bool, random: &mut fastrand::Rng) -> Moment {
    let program = Program::new();
    let args = scene.args(&program);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let written = scene.written(&program);
    let mut child = program.start(&args);
    let is_over = |child: &mut Running| child.try_wait().unwrap().is_some();
    let begun = Instant::now();
    // Half of them while it certainly writes, if it ever does.
    while late && !is_over(&mut child) && scene.written(&program) == written {
        assert!(begun.elapsed() < PATIENCE, "{args:?} does not begin");
        sleep(Duration::from_millis(2));
    }
    sleep(Duration::from_millis(random.u64(0..scene.longest_ms())));
    let moment = match (is_over(&mut child), scene.written(&program) > written) {
        (true, _) => Moment::After,
        (false, true) => Moment::Amid,
        (false, false) => Moment::Before,
    };
    if moment != Moment::After {
        child.signal(signal);
        // One that is ignored ends nothing; of the others, a second one would end it in haste.
        if signal == Signal::SIGXFSZ && !is_over(&mut child) {
            sleep(Duration::from_millis(200));
            child.signal(Signal::SIGTERM);
        }
    }
    let ran = child.outcome();
    assert!(
        !ran.stderr.contains("panicked"),
        "{signal}, {moment:?}: {ran:#?}"
    );
    let folder = program.state().join("syncprof");
    if moment == Moment::Amid && matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP)
    {
        assert!(ran.status.is_some(), "{signal} was not caught: {ran:#?}");
        program.run(&["clean"]).exits(0).prints("nothing is left");
    }
    program.run(&["clean"]).exits(0);
    program.run(&["clean"]).exits(0).prints("nothing is left");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.to_str().unwrap();
        assert!(
            name.ends_with(".json"),
            "{signal}, {moment:?}: {name} is left"
        );
        program.run(&["report", name]).exits(0);
    }
    scene.check(&program);
    moment
}

/// Printed however it ends.
struct Table(BTreeMap<(usize, &'static str, &'static str), [u32; 3]>);

impl Drop for Table {
    fn drop(&mut self) {
        let mut text =
            String::from("verb                    signal    kills  before  amid  after\n");
        let mut sums = [0; 3];
        for ((_, verb, signal), counts) in &self.0 {
            let [before, amid, after] = counts;
            let all: u32 = counts.iter().sum();
            (0..3).for_each(|at| sums[at] += counts[at]);
            let _ = writeln!(
                text,
                "{verb:22}  {signal:8}  {all:5}  {before:6}  {amid:4}  {after:5}"
            );
        }
        let [before, amid, after] = sums;
        let all = before + amid + after;
        let _ = writeln!(
            text,
            "{:22}  {:8}  {all:5}  {before:6}  {amid:4}  {after:5}",
            "all", ""
        );
        println!("{text}");
    }
}

#[test]
fn whenever_a_verb_is_killed_its_promises_are_kept() {
    needs_root!();
    let kills = std::env::var("SYNCPROF_KILLS").map_or(2, |count| count.parse().unwrap());
    let mut random = fastrand::Rng::with_seed(10);
    let mut table = Table(BTreeMap::new());
    let scenes: [(&str, Staged); 14] = [
        ("raw", || {
            Box::new(OnDevice::new(
                "raw NODE --sizes 4k,64k --span 8m --queue-depth 4 --rounds 8",
            ))
        }),
        ("validate", || {
            Box::new(OnDevice::new(
                "validate NODE --claims CLAIMS --span 8m --rounds 8",
            ))
        }),
        ("durability", || {
            Box::new(OnDevice::new("durability NODE --span 8m --rounds 4"))
        }),
        ("durability --witness", || Box::new(Promising::new())),
        ("file, ext4", || {
            Box::new(OnFiles::new(
                "ext4",
                "file DIR --sizes 4k,64k --file-state overwrite,append,trunc --span 4m --rounds 8",
            ))
        }),
        ("file, xfs", || {
            Box::new(OnFiles::new(
                "xfs",
                "file DIR --sizes 4k --file-state overwrite,unwritten --span 4m --rounds 8",
            ))
        }),
        ("gap, ext4", || {
            Box::new(OnFiles::new(
                "ext4",
                "gap DIR --sizes 4k --trunc --span 4m --rounds 8",
            ))
        }),
        ("gap, xfs", || {
            Box::new(OnFiles::new(
                "xfs",
                "gap DIR --sizes 4k --span 4m --rounds 8",
            ))
        }),
        ("gap --workload, ext4", || {
            Box::new(OnFiles::new(
                "ext4",
                "gap DIR --workload checkpoint --data 16m --clients 2 --duration 1s --repeat 1",
            ))
        }),
        ("file --workload, xfs", || {
            Box::new(OnFiles::new(
                "xfs",
                "file DIR --workload churn --file-size 1m --duration 1s --repeat 1",
            ))
        }),
        ("lab", || Box::new(InLab)),
        ("list", || Box::new(Reading("list"))),
        ("report", || {
            Box::new(Reading("report RECORDS/gap.json RECORDS/lab.json"))
        }),
        ("clean", || {
            Box::new(Cleaning(OnFiles::new(
                "ext4",
                "file DIR --sizes 4k --span 4m --rounds 8",
            )))
        }),
    ];
    for (index, (verb, scene)) in scenes.into_iter().enumerate() {
        let mut scene = scene();
        for count in 0..kills {
            let signal = SIGNALS[(index + count) % SIGNALS.len()];
            let late = count % 2 == 1;
            let moment = kill(&mut *scene, signal, late, &mut random);
            let row = (index, verb, signal.as_str());
            table.0.entry(row).or_default()[moment as usize] += 1;
        }
    }
}

/// Ends a run by a panic on its third slice.
struct Panicking(u32);

impl Hooks for Panicking {
    fn before_slice(&mut self, _: &Progress, _: &Record) {
        self.0 += 1;
        assert!(self.0 < 3, "on purpose");
    }

    fn after_round(&mut self, _: &Record) -> anyhow::Result<()> {
        Ok(())
    }

    fn precise(&self, _: &Record) -> bool {
        false
    }

    fn interrupted(&self) -> bool {
        false
    }
}

/// One that no signal brings about: what was made goes away while it unwinds.
#[test]
fn a_panic_amid_slices_leaves_nothing() {
    needs_root!();
    let mut scene = OnFiles::new("ext4", "");
    let program = Program::new();
    let root = Root::host();
    let options = Options {
        sizes: Some(vec![4096]),
        span_bytes: Some(4 << 20),
        ..Options::default()
    };
    let wish = RunRequest {
        verb: "gap",
        command: Vec::new(),
        directories: vec![scene.mount().path().to_owned()],
        all: false,
        device: None,
        overwrite: false,
        compare: true,
        fallback: false,
        settings: options.settings(),
        also: Vec::new(),
        durability: None,
        seed: 1,
    };
    let run = || {
        let stop = AtomicBool::new(false);
        let survey = session::survey(&root, wish).unwrap();
        let state = Some(program.state());
        let (mut record, places) = session::prepare(&root, survey, None, state, &stop).unwrap();
        assert!(scene.written(&program) > 0);
        let pace = Pace {
            budget_ns: record.run.budget_ns,
            min_rounds: 8,
            rounds: None,
        };
        let bench = Bench::new(&root, &mut record, places, &stop, Tracing::Off);
        session::run(&mut record, &mut bench.unwrap(), &pace, &mut Panicking(0)).unwrap();
    };
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    scene.check(&program);
    program.run(&["clean"]).exits(0).prints("nothing is left");
}
