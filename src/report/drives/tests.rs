use super::*;
use crate::model::drive::{DATA_UNIT_BYTES, DriveCounts, Interface, NvmeFacts};
use crate::model::facts::PcieLink;
use crate::model::fixture::{Builder, DISK};
use crate::report::{Style, inventory, render, warnings as run_warnings};

fn health() -> Health {
    Health {
        temperature_c: Some(66),
        spare_percent: 100,
        spare_threshold_percent: 10,
        used_percent: 3,
        host_written_bytes: Some(24 * DATA_UNIT_BYTES),
        media_written_bytes: Some(100),
        capacitor_percent: Some(98),
        unsafe_shutdowns: Some(1),
        power_cycles: Some(12),
        media_errors: Some(2),
        ..Health::default()
    }
}

fn drive() -> DriveFacts {
    let format = |block_bytes, metadata_bytes, in_use| NvmeFormat {
        block_bytes,
        metadata_bytes,
        performance_rank: 0,
        in_use,
    };
    DriveFacts {
        interface: Interface::Nvme,
        cache: DriveCache {
            present: Some(true),
            enabled: Some(false),
            ..DriveCache::default()
        },
        fua: None,
        nvme: Some(NvmeFacts {
            version: Some("1.4.0".to_owned()),
            warning_temperature_c: Some(70),
            formats: vec![
                format(512, 0, true),
                format(512, 8, false),
                format(4096, 0, false),
            ],
            ..NvmeFacts::default()
        }),
        health: Some(health()),
        unanswered: Vec::new(),
    }
}

/// A run on a partition of that drive, in which hosts wrote `units` and the media half as much again.
fn record(units: u64) -> Record {
    let mut record = Builder::new("raw").device("raw").record;
    let disk = &mut record.targets[0].stack[1];
    disk.drive = Some(drive());
    disk.pcie = Some(PcieLink {
        speed: Some("8.0 GT/s PCIe".to_owned()),
        width: Some(2),
        max_speed: Some("16.0 GT/s PCIe".to_owned()),
        max_width: Some(4),
    });
    let host = units * DATA_UNIT_BYTES;
    record.drives = vec![DriveCounts {
        dev: DISK,
        before: health(),
        after: Some(Health {
            host_written_bytes: Some(24 * DATA_UNIT_BYTES + host),
            media_written_bytes: Some(100 + host / 2 * 3),
            throttlings: 3,
            ..health()
        }),
    }];
    record
}

#[test]
fn a_report_shows_both_views_and_warns_of_what_differs() {
    let record = record(4000);
    let text = render(&record, &Style::default());
    for part in [
        "nvme0n1 itself: write cache off (kernel: write back), NVMe 1.4.0",
        "format 512 (of 512 4K)",
        "66 °C, 3 % of its endurance used, spare 100 %",
        "capacitors 98 %, 2 media errors, 1 unsafe shutdown",
        "nvme0n1 counted 1.91 GiB written by hosts during the run",
        "its media took 2.86 GiB: the drive itself amplifies by 1.50 (±0.000375 by",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    let warnings = run_warnings(&record).join("\n");
    for part in [
        "nvme0n1: the kernel flushes, or writes with FUA, for a write cache that is off",
        "nvme0n1: its PCIe link trained to 8.0 GT/s x2 (of 16.0 GT/s x4) and carries 1.97 of 7.88 GB/s",
        "nvme0n1 is at 66 °C and warns from 70 °C on",
        "nvme0n1 slowed down 3 times to cool",
    ] {
        assert!(warnings.contains(part), "{part} is missing:\n{warnings}");
    }
}

#[test]
fn a_short_run_tells_no_amplification() {
    let text = render(&record(10), &Style::default());
    assert!(
        text.contains("too little to tell the drive's own amplification"),
        "{text}"
    );
    assert!(!text.contains("amplifies by"), "{text}");
}

#[test]
fn a_list_shows_both_views_and_warns() {
    let device = record(10).targets[0].stack[1].clone();
    let inventory = inventory::Inventory {
        devices: vec![inventory::Device {
            facts: device,
            writable_by_raw: true,
            reason: None,
        }],
        mounts: Vec::new(),
    };
    let text = inventory::render(&inventory, &Style::default());
    let row = text
        .lines()
        .find(|line| line.starts_with("nvme0n1") && line.contains("off"));
    let row = row.unwrap_or_else(|| panic!("no row:\n{text}"));
    for part in ["write back", "512 (of 512 4K)", "66", "11.7 MiB", "98"] {
        assert!(row.contains(part), "{part} is missing: {row}");
    }
    assert_eq!(inventory::warnings(&inventory).len(), 3);
}

#[test]
fn a_drive_that_answered_nothing_says_why() {
    let mut device = record(10).targets[0].stack[1].clone();
    device.drive = Some(DriveFacts {
        cache: DriveCache::default(),
        nvme: None,
        health: None,
        unanswered: vec!["cannot open /dev/nvme0n1: Permission denied (os error 13)".to_owned()],
        ..drive()
    });
    let line = fact_line(&device).unwrap();
    assert_eq!(
        line,
        "nvme0n1 itself: write cache unknown (kernel: write back), cannot open /dev/nvme0n1: \
         Permission denied (os error 13)"
    );
}
