//! The guard's table, as far as this machine can make its rows: see tests/guard-table.sh.

mod support;

use std::process::Command;

#[test]
fn devices_in_use_are_refused_and_free_ones_measured_without_a_changed_byte() {
    needs_root!();
    let folder = support::folder();
    let output = Command::new("sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guard-table.sh"))
        .arg(env!("CARGO_BIN_EXE_syncprof"))
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let ran = support::ran(output);
    println!("{}", ran.stdout);
    let ran = ran.exits(0);
    let rows = |expected| {
        let is_row = |line: &&str| line.starts_with(&format!("ok       {expected}"));
        ran.stdout.lines().filter(is_row).count()
    };
    // What every machine of the tests can make.
    assert!(rows("refused") >= 25 && rows("allowed") >= 8, "{ran:#?}");
}
