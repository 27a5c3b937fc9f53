//! `witness`, and `durability` with one: what is told of damage that a test makes by hand, and what a
//! witness bears.

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::running::PATIENCE;
use support::witness::{Witness, first_line, promise};
use support::{Loop, Program, Ran};

const RECORD_BYTES: usize = 4096;
const PLACES: u64 = 256;
/// Compares, and gives what came of it.
fn verify(program: &Program, device: &Loop, address: &str) -> (Ran, Value) {
    let json = program.state().join("verified.json");
    let args = [
        "durability",
        device.node(),
        "--witness",
        address,
        "--verify",
        "--json",
        json.to_str().unwrap(),
    ];
    let ran = program.run(&args);
    let text = fs::read_to_string(&json).unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
    let record: Value = serde_json::from_str(&text).unwrap();
    (ran, record["durability"]["checked"].clone())
}

fn place(device: &Loop, place: u64) -> Vec<u8> {
    let mut bytes = vec![0; RECORD_BYTES];
    let image = File::open(device.image()).unwrap();
    image
        .read_exact_at(&mut bytes, place * RECORD_BYTES as u64)
        .unwrap();
    bytes
}

fn damage(device: &Loop, place: u64, bytes: &[u8]) {
    let image = OpenOptions::new().write(true).open(device.image()).unwrap();
    image
        .write_all_at(bytes, place * RECORD_BYTES as u64)
        .unwrap();
    image.sync_all().unwrap();
}

#[test]
fn each_kind_of_damage_is_told_as_what_it_is() {
    needs_root!();
    let device = Loop::new(8);
    let program = Program::new();
    let witness = Witness::new(&program);
    let address = witness.address.as_str();
    let mut first = String::new();
    for engine in ["sync", "uring"] {
        let args = promise(&device, address, &["--records", "300", "--engine", engine]);
        let ran = program.run(&args).exits(0).prints("300 records");
        first = ran.stdout.split([' ', ':']).nth(1).unwrap().to_owned();
    }
    let older = place(&device, 20);
    let args = promise(
        &device,
        address,
        &["--records", "600", "--method", "fdatasync"],
    );
    program.run(&args).exits(0);
    let (ran, checked) = verify(&program, &device, address);
    ran.exits(0).prints("said goodbye");
    assert_eq!(checked["promised"], 600);
    assert_eq!(checked["counts"]["intact"], PLACES);
    let overwritten = ["--verify", "--run", first.as_str()];
    let args = ["durability", device.node(), "--witness", address];
    let ran = program.run(&[&args[..], &overwritten].concat());
    ran.exits(2).says("began after");

    damage(&device, 10, &[0; RECORD_BYTES]);
    damage(&device, 20, &older);
    damage(&device, 30, &place(&device, 31));
    damage(&device, 40, &[0xff; 512]);
    let (ran, checked) = verify(&program, &device, address);
    ran.exits(1).prints("contradicted");
    let counts = &checked["counts"];
    for kind in ["lost", "stale", "misplaced", "torn"] {
        assert_eq!(counts[kind], 1, "{kind} in {checked:#}");
    }
    assert_eq!(counts["intact"], PLACES - 4);
    assert_eq!(counts["undecided"], 0);
    let faults: Vec<&Value> = checked["missing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|missing| &missing["fault"])
        .collect();
    assert_eq!(faults, ["lost", "stale", "misplaced", "torn"]);
}

#[test]
fn a_run_that_was_killed_kept_its_promises_and_no_power_was_cut() {
    needs_root!();
    let device = Loop::new(8);
    let program = Program::new();
    let witness = Witness::new(&program);
    let mut writer = program.start(&promise(&device, &witness.address, &[]));
    let line = first_line(writer.stdout.as_mut().unwrap());
    assert!(line.contains("Cut the power"), "{line}");
    let args = ["durability", device.node(), "--witness", &witness.address];
    let ran = program.run(&[&args[..], &["--verify"]].concat());
    ran.exits(4).says("in use");
    writer.killed();
    let (ran, checked) = verify(&program, &device, &witness.address);
    ran.exits(0).prints("has not started anew");
    assert!(checked["promised"].as_u64().unwrap() >= 1);
    assert_eq!(checked["tally"]["cuts"], 0);
    let ran = witness.ended().exits(0).says("begins").says("was cut off");
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
}

#[test]
fn a_device_that_comes_into_use_is_written_no_more() {
    needs_root!();
    let device = Loop::new(8);
    let program = Program::new();
    let witness = Witness::new(&program);
    let ten_seconds = ["--duration", "10s"];
    let mut writer = program.start(&promise(&device, &witness.address, &ten_seconds));
    first_line(writer.stdout.as_mut().unwrap());
    let _held = OpenOptions::new().write(true).open(device.node()).unwrap();
    let opener = format!("(process {})", std::process::id());
    writer.outcome().exits(3).ends_with_error(&opener);
}

#[test]
fn a_witness_that_is_killed_goes_on_where_it_was() {
    needs_root!();
    let device = Loop::new(8);
    let program = Program::new();
    let witness = Witness::new(&program);
    let address = witness.address.clone();
    let mut writer = program.start(&promise(&device, &address, &[]));
    first_line(writer.stdout.as_mut().unwrap());
    let witness = witness.reborn(&program);
    // It goes on once the writer has found it again.
    let kept = fs::read_dir(&witness.state).unwrap();
    let run = kept
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .unwrap();
    let before = fs::metadata(&run).unwrap().len();
    writer.until(|| fs::metadata(&run).unwrap().len() >= before + 1000);
    writer.signal(Signal::SIGINT);
    let ran = writer.outcome().exits(130);
    let (_, checked) = verify(&program, &device, &address);
    let promised = format!(
        "{} records were acknowledged and promised",
        checked["promised"]
    );
    ran.prints(&promised);
    assert_eq!(checked["ended"], true);
    witness.ended().exits(0).says("goes on after");
}

#[test]
fn a_goodbye_finds_a_witness_that_was_away() {
    needs_root!();
    let device = Loop::new(8);
    let program = Program::new();
    let witness = Witness::new(&program);
    let mut writer = program.start(&promise(&device, &witness.address, &[]));
    first_line(writer.stdout.as_mut().unwrap());
    let witness = witness.reborn_after(&program, || writer.signal(Signal::SIGINT));
    writer.outcome().exits(130);
    let (ran, checked) = verify(&program, &device, &witness.address);
    ran.exits(0).prints("said goodbye");
    assert_eq!(checked["ended"], true);
}

#[test]
fn bad_peers_disturb_nobody() {
    needs_root!();
    let device = Loop::new(8);
    let program = Program::new();
    let witness = Witness::new(&program);
    let call = || TcpStream::connect(&witness.address).unwrap();
    let _idle: Vec<TcpStream> = (0..300).map(|_| call()).collect();
    let begin = br#"{"say":"begin","version":1,"pledge":{"id":"../../etc/passwd"}}"#;
    let find = br#"{"say":"find","version":99,"id":null,"device":null}"#;
    let wrote = br#"{"say":"wrote","sequence":18446744073709551615}"#;
    let mut noise = vec![0; 4096];
    fastrand::Rng::with_seed(7).fill(&mut noise);
    for bad in [
        &begin[..],
        find,
        wrote,
        &noise,
        b"",
        b"\n",
        b"GET / HTTP/1.1",
    ] {
        let mut peer = call();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.write_all(&[bad, b"\n"].concat()).unwrap();
        let mut answer = String::new();
        BufReader::new(&peer).read_line(&mut answer).unwrap();
        assert!(
            answer.contains("refused"),
            "{:?}: {answer}",
            String::from_utf8_lossy(bad)
        );
    }
    // Half a message, and one without end.
    call().write_all(&begin[..20]).unwrap();
    let mut endless = call();
    // It may be left before it has said all that.
    let _ = endless.write_all(&vec![b'x'; 1 << 20]);
    let args = promise(&device, &witness.address, &["--records", "100"]);
    program.run(&args).exits(0);
    let (ran, checked) = verify(&program, &device, &witness.address);
    ran.exits(0);
    assert_eq!(checked["counts"]["intact"], 100);
    let kept = fs::read_dir(&witness.state).unwrap().count();
    assert_eq!(kept, 2, "a lock and the one run");
    let ran = witness.ended().exits(0);
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
}

#[test]
fn nothing_is_written_without_every_yes_and_nothing_is_found_that_was_not_promised() {
    needs_root!();
    let device = Loop::new(8);
    device.randomize();
    let before = device.digest();
    let program = Program::new();
    let witness = Witness::new(&program);
    let address = witness.address.as_str();
    let node = device.node();
    let call =
        |more: &[&str]| program.run(&[&["durability", node, "--witness", address], more].concat());
    call(&[]).exits(2).says("--overwrite");
    call(&["--overwrite", "--confirm", "sda"])
        .exits(3)
        .says("does not confirm");
    call(&["--overwrite"]).exits(2).says("--confirm");
    let none = [
        "--overwrite",
        "--confirm",
        device.name(),
        "--method",
        "none",
    ];
    call(&none).exits(2).says("nothing is promised");
    let small = ["--overwrite", "--confirm", device.name(), "--span", "4k"];
    call(&small).exits(2).says("records in the span");
    let null = [
        "--overwrite",
        "--confirm",
        device.name(),
        "--engine",
        "null",
    ];
    call(&null).exits(2).says("null engine");
    let odd = [
        "--overwrite",
        "--confirm",
        device.name(),
        "--record-size",
        "1000",
    ];
    call(&odd).exits(2).says("--record-size");
    let nonsense = [
        &["--verify", "--overwrite"][..],
        &["--overwrite", "--confirm", device.name(), "--dry-run"],
        &["--overwrite", "--confirm", device.name(), "--rounds", "3"],
        &[
            "--overwrite",
            "--confirm",
            device.name(),
            "--json",
            "x.json",
        ],
    ];
    for more in nonsense {
        call(more).exits(2);
    }
    call(&["--verify"]).exits(4).says("knows no run");
    call(&["--verify", "--run", "../lock"])
        .exits(4)
        .says("knows no run");
    program
        .run(&["durability", node, "--verify"])
        .exits(2)
        .says("--witness");
    let file = device.image().to_str().unwrap();
    let args = ["durability", file, "--witness", address, "--verify"];
    program.run(&args).exits(2).says("not a block device");
    let nobody = promise(&device, "127.0.0.1:1", &[]);
    program
        .run(&nobody)
        .exits(4)
        .says("cannot reach the witness");
    assert_eq!(device.digest(), before);
    let second = ["witness", "--listen", address, "--state", "/proc/none"];
    program.run(&second).exits(4);
    let state = witness.state.to_str().unwrap();
    let second = ["witness", "--listen", "127.0.0.1:0", "--state", state];
    program
        .run(&second)
        .exits(4)
        .says("another witness uses it");
}
