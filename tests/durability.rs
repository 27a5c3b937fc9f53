//! What `durability` says of a loop device, and that it leaves the device's bytes alone.

mod support;

use std::fs;
use std::os::unix::fs::FileExt;

use support::disturbance::Disturbance;
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

#[test]
fn flushes_of_others_on_the_disk_below_are_none_of_the_devices() {
    needs_root!();
    let folder = support::folder();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let device = Loop::over(&image, &["--direct-io=on"]);
    let other = fs::File::create(folder.path().join("other")).unwrap();
    let program = Program::new();
    let _flusher = Disturbance::of(move |round| {
        other.write_all_at(b"x", round % 4096).unwrap();
        other.sync_data().unwrap();
    });
    program.measure(&[&["durability", device.node()], QUICK].concat());
    let record = program.state().join("record.json");
    let report = program.run(&["report", record.to_str().unwrap(), "--format", "json"]);
    let all: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    let costs = all["sync_costs"].as_array().unwrap();
    let empty = costs.iter().find(|cost| cost["bare_cell"].is_null());
    let each = empty.unwrap()["flushes_per_op"].as_f64().unwrap();
    assert!((0.95..1.05).contains(&each), "{costs:#?}");
}

#[test]
fn a_layer_below_that_drops_flushes_is_named() {
    needs_root!();
    let below = Loop::new(32);
    let device = Loop::over(std::path::Path::new(below.node()), &[]);
    let setting = format!("/sys/block/{}/queue/write_cache", below.name());
    fs::write(&setting, "write through").unwrap();
    let (ran, _) = Program::new().measure(&[&["durability", device.node()], QUICK].concat());
    fs::write(&setting, "write back").unwrap();
    ran.prints(&format!(
        "no flush goes further down than to {}",
        below.name()
    ));
}
