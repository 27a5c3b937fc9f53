use super::*;
use crate::model::cell::{EngineKind, Method};
use crate::model::drive::{DriveCache, DriveFacts, Interface};
use crate::model::durability::Durability;
use crate::model::facts::DeviceKind;
use crate::model::fixture::{Builder, PerWrite};

/// The median latencies of an ablation, in nanoseconds.
#[derive(Clone, Copy)]
struct Device {
    bare: f64,
    fua: f64,
    flushed: f64,
    flushed_4m: f64,
    empty: f64,
}

/// A drive that really flushes.
const HONEST: Device = Device {
    bare: 20e3,
    fua: 1e6,
    flushed: 1.2e6,
    flushed_4m: 40e6,
    empty: 100e3,
};

fn record(device: Device) -> Record {
    let mut builder = Builder::new("durability").device("raw");
    let small = 4096;
    let large = 4 << 20;
    for (method, engine, size_bytes, latency_ns) in [
        (Method::None, EngineKind::Uring, small, device.bare),
        (Method::ODsync, EngineKind::Uring, small, device.fua),
        (Method::RwfDsync, EngineKind::Uring, small, device.fua),
        (Method::None, EngineKind::Sync, small, device.bare),
        (Method::None, EngineKind::Sync, large, 100.0 * device.bare),
        (Method::Fdatasync, EngineKind::Sync, small, device.flushed),
        (
            Method::Fdatasync,
            EngineKind::Sync,
            large,
            device.flushed_4m,
        ),
        (Method::EmptyFlush, EngineKind::Sync, small, device.empty),
    ] {
        let each = PerWrite {
            flushes: u64::from(matches!(method, Method::Fdatasync | Method::EmptyFlush)),
            ..PerWrite::default()
        };
        builder = builder.cell("raw", None, size_bytes, latency_ns, 200);
        builder = builder.counted(each);
        let cell = builder.record.cells.last_mut().unwrap();
        cell.spec.id = format!("{method}/{engine}/{size_bytes}");
        cell.spec.axes.method = method;
        cell.spec.axes.engine = engine;
    }
    let mut record = builder.record;
    record.durability = Some(Durability::default());
    let stack = &mut record.targets[0].stack;
    stack[0].kind = DeviceKind::Partition;
    for device in stack {
        device.write_cache = Some("write back".to_owned());
        device.fua = Some(true);
        device.rotational = Some(false);
    }
    record
}

#[track_caller]
fn verdict(record: &Record, question: Question) -> Verdict {
    let all = findings(record);
    let found = all.iter().find(|finding| finding.question == question);
    let found = found.unwrap();
    assert!(!found.reasons.is_empty());
    found.verdict
}

#[test]
fn a_drive_that_flushes_is_consistent_and_nothing_more() {
    let record = record(HONEST);
    assert_eq!(verdict(&record, Question::VolatileCache), Verdict::Declared);
    for question in [
        Question::FlushSent,
        Question::Flush,
        Question::DirtyBytes,
        Question::Fua,
        Question::Medium,
    ] {
        assert_eq!(
            verdict(&record, question),
            Verdict::Consistent,
            "{question}"
        );
    }
    assert_eq!(verdict(&record, Question::PowerCut), Verdict::NotTestable);
}

#[test]
fn a_flush_and_a_fua_write_that_take_no_longer_are_suspicious_unless_the_cache_is_protected() {
    let mut record = record(Device {
        fua: 19e3,
        flushed: 30e3,
        flushed_4m: 2e6,
        empty: 10e3,
        ..HONEST
    });
    let questions = [Question::Flush, Question::Fua, Question::Medium];
    for question in questions {
        assert_eq!(
            verdict(&record, question),
            Verdict::Suspicious,
            "{question}"
        );
    }
    record.durability.as_mut().unwrap().protected = true;
    for question in questions {
        assert_eq!(
            verdict(&record, question),
            Verdict::Consistent,
            "{question}"
        );
    }
}

#[test]
fn the_drives_own_word_on_its_cache_counts() {
    let idle = Device {
        fua: 19e3,
        flushed: 30e3,
        flushed_4m: 2e6,
        empty: 10e3,
        ..HONEST
    };
    let said = |is_on: bool, kernel: &str| {
        let mut record = record(idle);
        for device in &mut record.targets[0].stack {
            device.write_cache = Some(kernel.to_owned());
        }
        let stack = &mut record.targets[0].stack;
        stack[0].lower = vec![stack[1].dev];
        stack[1].drive = Some(DriveFacts {
            interface: Interface::Nvme,
            cache: DriveCache {
                present: Some(true),
                enabled: Some(is_on),
                ..DriveCache::default()
            },
            fua: None,
            nvme: None,
            health: None,
            unanswered: Vec::new(),
        });
        record
    };
    let off = said(false, "write back");
    assert_eq!(verdict(&off, Question::VolatileCache), Verdict::Declared);
    for question in [Question::Flush, Question::Fua] {
        assert_eq!(verdict(&off, question), Verdict::Consistent, "{question}");
        let on = said(true, "write back");
        assert_eq!(verdict(&on, question), Verdict::Suspicious, "{question}");
    }
    // Of two drives below, one that is on decides, and one that says nothing leaves it open.
    let mut mirror = said(false, "write back");
    let mut other = mirror.targets[0].stack.last().unwrap().clone();
    other.name = "other".to_owned();
    other.drive.as_mut().unwrap().cache.enabled = Some(true);
    mirror.targets[0].stack.push(other);
    assert_eq!(verdict(&mirror, Question::Fua), Verdict::Suspicious);
    mirror.targets[0].stack.last_mut().unwrap().drive = None;
    assert_eq!(verdict(&mirror, Question::Fua), Verdict::Suspicious);
    // What a drive says is nothing to who writes to pages in memory above it.
    let mut above = said(false, "write back");
    above.targets[0].stack[0].kind = DeviceKind::Loop;
    assert_eq!(verdict(&above, Question::Flush), Verdict::Suspicious);
    // The kernel doesn't flush a cache of which the drive says that it is on.
    let unflushed = said(true, "write through");
    let verdict = verdict(&unflushed, Question::VolatileCache);
    assert_eq!(verdict, Verdict::Contradicted);
}

#[test]
fn without_a_flush_nothing_can_be_said_of_it() {
    let mut record = record(Device {
        fua: 19e3,
        ..HONEST
    });
    assert_eq!(verdict(&record, Question::Fua), Verdict::Suspicious);
    record.targets[0].stack[0].write_cache = Some("write through".to_owned());
    assert_eq!(verdict(&record, Question::VolatileCache), Verdict::Declared);
    for question in [
        Question::FlushSent,
        Question::Flush,
        Question::DirtyBytes,
        Question::Fua,
    ] {
        assert_eq!(
            verdict(&record, question),
            Verdict::NotTestable,
            "{question}"
        );
    }
    let stack = &mut record.targets[0].stack;
    stack[0].write_cache = Some("write back".to_owned());
    stack[0].fua = Some(false);
    assert_eq!(verdict(&record, Question::Fua), Verdict::NotTestable);
}

#[test]
fn flushes_that_the_kernel_sends_and_does_not_count_are_suspicious() {
    let mut record = record(HONEST);
    for slice in record.cells.iter_mut().flat_map(|cell| &mut cell.slices) {
        for device in &mut slice.devices {
            device.counted.flushes /= 2;
        }
    }
    assert_eq!(verdict(&record, Question::FlushSent), Verdict::Suspicious);
}

#[test]
fn a_disk_that_takes_bios_has_no_count_of_flushes() {
    let mut record = record(HONEST);
    for slice in record.cells.iter_mut().flat_map(|cell| &mut cell.slices) {
        for device in &mut slice.devices {
            device.counted.flushes = 0;
        }
    }
    let each = |record: &Record| costs(record).pop().unwrap().flushes_per_op;
    assert_eq!(each(&record), Some(0.0));
    for device in &mut record.targets[0].stack {
        device.request_queues = Some(false);
    }
    assert_eq!(each(&record), None);
    assert_eq!(verdict(&record, Question::FlushSent), Verdict::NotTestable);
}

#[test]
fn more_syncs_than_a_disk_turns_contradict_the_platter() {
    let mut record = record(HONEST);
    record.durability.as_mut().unwrap().rpm = Some(7200);
    // 1 ms a write: 1000 of them in a second, and a disk turns 120 times.
    assert_eq!(verdict(&record, Question::Medium), Verdict::Contradicted);
    record.durability.as_mut().unwrap().rpm = Some(100_000);
    assert_eq!(verdict(&record, Question::Medium), Verdict::Consistent);
}

#[test]
fn the_medium_below_a_loop_device_is_known_only_if_told() {
    let mut record = record(HONEST);
    record.targets[0].stack[0].kind = DeviceKind::Loop;
    assert_eq!(verdict(&record, Question::Medium), Verdict::NotTestable);
    record.durability.as_mut().unwrap().program_ns = Some(900_000);
    assert_eq!(verdict(&record, Question::Medium), Verdict::Consistent);
    record.durability.as_mut().unwrap().program_ns = Some(1_500_000);
    assert_eq!(verdict(&record, Question::Medium), Verdict::Suspicious);
}

#[test]
fn another_record_is_asked_nothing() {
    let mut record = record(HONEST);
    record.durability = None;
    assert!(findings(&record).is_empty());
    assert!(costs(&record).is_empty());
}

#[test]
fn flushes_of_others_on_the_disk_below_are_not_counted_as_its_own() {
    let mut record = record(HONEST);
    let each = |record: &Record| costs(record).pop().unwrap().flushes_per_op;
    assert_eq!(each(&record), Some(1.0));
    for slice in record.cells.iter_mut().flat_map(|cell| &mut cell.slices) {
        let disk = slice.devices.last_mut().unwrap();
        disk.counted.writes += slice.ops;
        disk.counted.flushes += 2 * slice.ops;
    }
    assert_eq!(each(&record), None);
    assert_eq!(verdict(&record, Question::FlushSent), Verdict::NotTestable);
    // A device that counts its own is asked, and none below it.
    let stack = &mut record.targets[0].stack;
    (stack[0].kind, stack[0].request_queues) = (DeviceKind::Loop, Some(true));
    for slice in record.cells.iter_mut().flat_map(|cell| &mut cell.slices) {
        slice.devices[0].counted.flushes = slice.ops;
    }
    assert_eq!(each(&record), Some(1.0));
}

#[test]
fn a_cache_that_is_overridden_at_any_layer_is_contradicted() {
    let volatile = DriveFacts {
        interface: Interface::Nvme,
        cache: DriveCache {
            present: Some(true),
            enabled: Some(true),
            ..DriveCache::default()
        },
        fua: None,
        nvme: None,
        health: None,
        unanswered: Vec::new(),
    };
    for kind in [DeviceKind::Dm, DeviceKind::Md, DeviceKind::Loop] {
        let mut record = record(HONEST);
        let stack = &mut record.targets[0].stack;
        (stack[0].kind, stack[0].lower) = (kind, vec![stack[1].dev]);
        stack[1].drive = Some(volatile.clone());
        assert_eq!(verdict(&record, Question::VolatileCache), Verdict::Declared);
        let stack = &mut record.targets[0].stack;
        stack[1].write_cache = Some("write through".to_owned());
        let found = verdict(&record, Question::VolatileCache);
        assert_eq!(found, Verdict::Contradicted, "{kind:?}");
        // dm and md send on what they get, and the disk gets none of it.
        let flush = verdict(&record, Question::Flush);
        assert_eq!(
            flush == Verdict::NotTestable,
            kind != DeviceKind::Loop,
            "{kind:?}"
        );
    }
}
