use super::*;
use crate::model::drive::{DriveCache, DriveFacts, Interface, NvmeFacts};
use crate::model::fixture::{Builder, DISK, stack};

/// The fixture's disk, whose cache the kernel holds for `kernel` and the drive for `cache`.
fn disk(kernel: &str, cache: DriveCache) -> DeviceFacts {
    let mut disk = stack().remove(1);
    disk.write_cache = Some(kernel.to_owned());
    disk.drive = Some(DriveFacts {
        interface: Interface::Nvme,
        cache,
        fua: None,
        nvme: Some(NvmeFacts {
            warning_temperature_c: Some(70),
            ..NvmeFacts::default()
        }),
        health: None,
        unanswered: Vec::new(),
    });
    disk
}

fn told(present: Option<bool>, enabled: Option<bool>, driver: Option<&str>) -> DriveCache {
    DriveCache {
        present,
        enabled,
        driver: driver.map(str::to_owned),
        driver_fua: None,
    }
}

#[test]
fn views_of_a_cache_that_differ_are_told_apart() {
    let back = "write back";
    let through = "write through";
    let off = told(Some(true), Some(false), None);
    let on = told(Some(true), Some(true), None);
    let absent = told(Some(false), None, None);
    let vain = vec![Doubt::FlushedInVain(Teller::Drive)];
    let not = vec![Doubt::NotFlushed(Teller::Drive)];
    for (kernel, cache, expected) in [
        (back, on.clone(), vec![]),
        (back, off.clone(), vain.clone()),
        (back, absent.clone(), vain),
        (through, on, not.clone()),
        (through, off, vec![]),
        (through, absent, vec![]),
        (back, told(Some(true), None, None), vec![]),
        // SCSI drives say whether it is on, not whether there is one; the drive's word goes first.
        (through, told(None, Some(true), Some(through)), not),
        (
            through,
            told(None, None, Some("write back, no read (daft)")),
            vec![Doubt::NotFlushed(Teller::Driver)],
        ),
        (
            back,
            told(None, None, Some("none")),
            vec![Doubt::FlushedInVain(Teller::Driver)],
        ),
    ] {
        assert_eq!(
            doubts(&disk(kernel, cache.clone())),
            expected,
            "{kernel}, {cache:?}"
        );
    }
}

fn link(speed: &str, width: u32, max_speed: &str, max_width: u32) -> PcieLink {
    PcieLink {
        speed: Some(format!("{speed} GT/s PCIe")),
        width: Some(width),
        max_speed: Some(format!("{max_speed} GT/s PCIe")),
        max_width: Some(max_width),
    }
}

#[test]
fn a_link_below_its_best_is_told_with_what_it_carries() {
    assert_eq!(slow_link(&link("16.0", 4, "16.0", 4)), None);
    let Some(Doubt::SlowLink {
        now_bytes_per_s,
        most_bytes_per_s,
    }) = slow_link(&link("8.0", 2, "16.0", 4))
    else {
        panic!("not told");
    };
    assert_eq!(now_bytes_per_s.round(), 1_969_230_769.0);
    assert_eq!(most_bytes_per_s.round(), 7_876_923_077.0);
    assert_eq!(carries("2.5 GT/s PCIe", 1), Some(250e6));
    assert_eq!(carries("64.0 GT/s PCIe", 4), Some(30.25e9));
    assert_eq!(carries("Unknown", 4), None);
    let unknown = PcieLink {
        max_width: None,
        ..link("8.0", 2, "16.0", 4)
    };
    assert_eq!(slow_link(&unknown), None);
}

fn healthy() -> Health {
    Health {
        temperature_c: Some(64),
        spare_percent: 100,
        spare_threshold_percent: 10,
        used_percent: 99,
        ..Health::default()
    }
}

#[test]
fn health_is_doubted_at_its_thresholds() {
    let of = |health: Health| health_doubts(&health, Some(70));
    assert_eq!(of(healthy()), []);
    let hot = Health {
        temperature_c: Some(65),
        ..healthy()
    };
    assert!(matches!(of(hot)[..], [HealthDoubt::Hot { .. }]));
    let low = Health {
        spare_percent: 9,
        used_percent: 100,
        ..healthy()
    };
    assert!(matches!(
        of(low)[..],
        [HealthDoubt::SpareLow { .. }, HealthDoubt::WornOut(100)]
    ));
    let at = Health {
        spare_percent: 10,
        ..healthy()
    };
    assert_eq!(of(at), []);
    let bits = Health {
        critical_warning: 0b11111,
        ..healthy()
    };
    assert_eq!(of(bits).len(), 5);
    let unknown = Health {
        temperature_c: None,
        ..healthy()
    };
    assert_eq!(of(unknown), []);
}

/// A run in which hosts wrote `host` units and the media took `media` bytes.
fn used(host: u64, media: Option<u64>) -> DriveUse {
    let at = |units: u64, media: Option<u64>| Health {
        host_written_bytes: Some(units * DATA_UNIT_BYTES),
        media_written_bytes: media,
        ..healthy()
    };
    let mut record = Builder::new("raw").device("raw").record;
    record.drives = vec![DriveCounts {
        dev: DISK,
        before: at(10, media.map(|_| 7)),
        after: Some(at(10 + host, media.map(|media| media + 7))),
    }];
    drive_uses(&record).remove(0)
}

#[test]
fn a_drive_s_amplification_needs_enough_writes() {
    let enough = used(2000, Some(3000 * DATA_UNIT_BYTES));
    assert_eq!(enough.amplification, Some(1.5));
    assert_eq!(enough.amplification_step, Some(1.5 / 2000.0));
    let short = used(1999, Some(3000 * DATA_UNIT_BYTES));
    assert_eq!(
        (short.amplification, short.amplification_step),
        (None, None)
    );
    assert_eq!(short.host_written_bytes, Some(1999 * DATA_UNIT_BYTES));
    assert_eq!(used(5000, None).amplification, None);
}

#[test]
fn a_drive_that_was_not_asked_twice_tells_nothing() {
    let mut record = Builder::new("raw").device("raw").record;
    record.drives = vec![DriveCounts {
        dev: DISK,
        before: healthy(),
        after: None,
    }];
    assert_eq!(drive_uses(&record), []);
    // A counter that went back, as after a firmware update, is no count.
    record.drives[0].before.host_written_bytes = Some(DATA_UNIT_BYTES);
    record.drives[0].after = Some(Health {
        host_written_bytes: Some(0),
        ..healthy()
    });
    assert_eq!(drive_uses(&record)[0].host_written_bytes, None);
}
