//! What is counted of every slice beside the device, against real filesystems.

mod support;

use serde_json::Value;
use support::{Loop, Program, cells};

/// The file cells of 4 KiB in the states `overwrite` and `trunc`.
fn file_cells(fs: &str, mib: u64) -> Vec<Value> {
    let mount = Loop::new(mib).mounted(fs);
    let args = [
        "file",
        mount.dir(),
        "--trunc",
        "--sizes",
        "4k",
        "--span",
        "4m",
        "--rounds",
        "10",
        "--budget",
        "2s",
        "--trace",
        "off",
    ];
    let (_, record) = Program::new().measure(&args);
    cells(&record, "file").into_iter().cloned().collect()
}

/// A count summed over the slices of the cell in this state, per write.
fn per_write(cells: &[Value], state: &str, path: &str) -> f64 {
    let cell = cells
        .iter()
        .find(|cell| cell["file_state"] == state)
        .unwrap();
    let slices = cell["slices"].as_array().unwrap();
    let sum: u64 = slices
        .iter()
        .map(|slice| slice.pointer(path).and_then(Value::as_u64).unwrap())
        .sum();
    sum as f64 / cell["ops"].as_f64().unwrap()
}

#[test]
fn ext4_commits_a_transaction_for_each_write_that_allocates() {
    needs_root!();
    let cells = file_cells("ext4", 128);
    let transactions = |state| per_write(&cells, state, "/filesystem/jbd2/transactions");
    // Beside them, ext4 commits what is left over every five seconds.
    assert!(
        (1.0..1.05).contains(&transactions("trunc")),
        "{}",
        transactions("trunc")
    );
    assert!(
        transactions("overwrite") < 0.05,
        "{}",
        transactions("overwrite")
    );
    // The kernel makes ext4's own figure from the device's: they may not differ by a KiB a slice.
    for cell in &cells {
        for slice in cell["slices"].as_array().unwrap() {
            let sectors = slice["devices"][0]["counted"]["write_sectors"]
                .as_u64()
                .unwrap();
            let bytes = slice["filesystem"]["ext4_written_bytes"].as_u64().unwrap();
            assert!(bytes.abs_diff(sectors * 512) <= 65_536, "{slice:#}");
        }
    }
}

#[test]
fn xfs_writes_its_log_once_for_each_write_that_allocates() {
    needs_root!();
    let cells = file_cells("xfs", 320);
    let log = |state, what: &str| per_write(&cells, state, &format!("/filesystem/xfs/{what}"));
    assert!(
        (1.0..1.05).contains(&log("trunc", "log_writes")),
        "{}",
        log("trunc", "log_writes")
    );
    assert!(
        (1024.0..4096.0).contains(&log("trunc", "log_bytes")),
        "{}",
        log("trunc", "log_bytes")
    );
    assert!(
        log("overwrite", "log_writes") < 0.05,
        "{}",
        log("overwrite", "log_writes")
    );
}

#[test]
fn each_write_sleeps_at_least_once_and_takes_processor_time() {
    needs_root!();
    let device = Loop::new(16);
    let args = [
        "raw",
        device.node(),
        "--sizes",
        "4k",
        "--rounds",
        "10",
        "--budget",
        "2s",
        "--trace",
        "off",
    ];
    let (_, record) = Program::new().measure(&args);
    let cells: Vec<Value> = cells(&record, "raw").into_iter().cloned().collect();
    let mut cell = cells[0].clone();
    cell["file_state"] = "none".into();
    let cells = [cell];
    let of = |what: &str| per_write(&cells, "none", &format!("/process/{what}"));
    // A write that another processor completes before its thread has gone to sleep needs no sleep.
    assert!(
        (0.5..3.0).contains(&of("voluntary_switches")),
        "{}",
        of("voluntary_switches")
    );
    assert!(of("user_ns") + of("system_ns") > 0.0);
    assert!(cells[0]["slices"][0]["filesystem"].is_null());
}
