//! What `durability` says of a loop device, and that it leaves the device's bytes alone.

mod support;

use std::fs;

use support::{Loop, Program, cells, system};

const QUICK: &[&str] = &[
    "--span", "8m", "--rounds", "8", "--budget", "3s", "--trace", "off",
];

#[test]
fn every_question_is_answered_with_reasons_and_no_byte_changes() {
    needs_root!();
    let device = Loop::new(32);
    device.randomize();
    let before = device.digest();
    let program = Program::new();
    let args = [&["durability", device.node()], QUICK].concat();
    let (ran, record) = program.measure(&args);
    for question in [
        "volatile cache",
        "flushes sent",
        "flush",
        "dirty bytes",
        "FUA",
        "medium",
        "power cuts",
    ] {
        assert!(ran.stdout.contains(question), "no {question:?} in {ran:#?}");
    }
    // A loop device takes flushes and no FUA (drivers/block/loop.c), and no timing proves a promise.
    let ran = ran
        .prints("the device takes no FUA")
        .prints("not testable here");
    assert!(!ran.stdout.contains("honours"), "{ran:#?}");
    assert!(record["durability"].is_object());
    assert_eq!(device.digest(), before);
}

#[test]
fn a_device_in_use_is_refused_and_a_profile_too() {
    needs_root!();
    let mount = Loop::new(32).mounted("ext4");
    let program = Program::new();
    let node = mount.device().node().to_owned();
    program.run(&["durability", &node]).exits(3);
    let profile = ["durability", &node, "--profile", "quick"];
    program.run(&profile).exits(2).says("takes no --profile");
}

/// The kernel takes them from Linux 6.15 on.
#[test]
fn blocks_above_4_kib_are_written_whole() {
    needs_root!();
    let release = system("uname", &["-r"]);
    let mut numbers = release.split('.').map(|part| part.parse().unwrap_or(0));
    if (numbers.next(), numbers.next()) < (Some(6), Some(15)) {
        return eprintln!("skipped: Linux before 6.15");
    }
    let folder = support::folder();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let device = Loop::over(&image, &["--sector-size", "16384"]);
    device.randomize();
    let before = device.digest();
    let args = [&["durability", device.node()], QUICK].concat();
    let (ran, record) = Program::new().measure(&args);
    let cells = cells(&record, "raw");
    let sizes = cells.iter().map(|cell| cell["size_bytes"].as_u64());
    assert_eq!(sizes.min(), Some(Some(16_384)), "{ran:#?}");
    ran.exits(0);
    assert_eq!(device.digest(), before);
}
