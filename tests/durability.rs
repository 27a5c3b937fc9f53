//! What `durability` says of a loop device, and that it leaves the device's bytes alone.

mod support;

use support::{Loop, Program};

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
