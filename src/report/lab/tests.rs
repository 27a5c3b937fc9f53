use crate::model::cell::FileState;
use crate::model::fixture::{Builder, DISK, PARTITION};
use crate::model::record::{BaselineKind, Level, Note, Record, Slice};
use crate::model::traffic::{BlockStat, DeviceTraffic};
use crate::model::variant::{Lab, Remedy, Side, Variant};
use crate::report::{Style, json, render};

/// Three variants beside one raw cell, and one that could not be built.
fn record() -> Record {
    let mut builder = Builder::new("lab")
        .device("raw")
        .cell("raw", None, 4096, 20e3, 200);
    for (id, ns) in [("a", 60e3), ("b", 30e3), ("c", 31.5e3), ("d", 0.0)] {
        builder = builder.directory(id, "/mnt", BaselineKind::Device, Some("raw"));
        if ns > 0.0 {
            builder = builder.cell(id, Some(FileState::Append), 4096, ns, 200);
        }
    }
    let mut record = builder.record;
    for target in &mut record.targets[1..] {
        target.variant = Some(Variant {
            name: format!("variant {}", target.id),
            failed: (target.id == "d").then(|| "mkfs.d is missing".to_owned()),
            commands: vec![format!("mkfs.{}", target.id)],
            ..Variant::default()
        });
    }
    let side = |variant: &str| Side {
        variant: variant.to_owned(),
        state: FileState::Append,
    };
    record.lab = Some(Lab {
        profile: "p".to_owned(),
        question: "Which?".to_owned(),
        scratch: "an image".to_owned(),
        is_image: true,
        remedies: vec![Remedy {
            name: "b for a".to_owned(),
            claimed_percent: 80.0,
            from: side("variant a"),
            to: side("variant b"),
        }],
    });
    record
}

#[test]
fn variants_are_ranked_and_equals_are_called_so() {
    let text = render(&record(), &Style::default());
    let at = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("{part} is not in:\n{text}"))
    };
    assert!(at("1  variant b") < at("3  variant a"), "{text}");
    assert!(
        text.contains("no difference that this run could see to variant c"),
        "{text}"
    );
    assert!(
        text.contains("mkfs.d is missing") && text.contains("██"),
        "{text}"
    );
    assert!(text.contains("+98 %") && text.contains("+80 %"), "{text}");
    assert!(text.contains("Absolute figures are the image's"), "{text}");
}

#[test]
fn each_condition_has_a_ranking_of_its_own_and_says_which() {
    let mut record = record();
    let depth = "queue depth";
    assert!(!render(&record, &Style::default()).contains(depth));
    let mut deep = record.cells.clone();
    for cell in &mut deep {
        cell.spec.id += "/32";
        cell.spec.axes.queue_depth = 32;
    }
    // There, another one is the best.
    let swapped = [("b", "a"), ("a", "b")];
    for cell in &mut deep {
        let other = swapped.iter().find(|(one, _)| *one == cell.spec.target);
        if let Some((_, other)) = other {
            cell.spec.target = (*other).to_owned();
        }
    }
    record.cells.extend(deep);
    let value = json(&record).unwrap();
    assert_eq!(value["rankings"].as_array().unwrap().len(), 2);
    for (at, depth, best) in [(0, 1, "variant b"), (1, 32, "variant a")] {
        let ranking = &value["rankings"][at];
        assert_eq!(ranking["queue_depth"], depth);
        assert_eq!(ranking["file_state"], "append");
        assert_eq!(ranking["rows"][0]["variant"], best);
        assert_eq!(value["gains"][at]["question"]["queue_depth"], depth);
    }
    let text = render(&record, &Style::default());
    for part in [
        "o_dsync append, queue depth 1: variant b comes closest",
        "o_dsync append, queue depth 32: variant a comes closest",
        "o_dsync append, queue depth 32: throughput",
        "b for a  queue depth 1 ",
        "b for a  queue depth 32",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

/// Counts writes of a target that no flush came with, before a volatile cache.
fn lose_flushes(record: &mut Record, id: &str) {
    let counted = |dev, slice: &Slice| DeviceTraffic {
        dev,
        counted: BlockStat {
            writes: slice.ops,
            write_sectors: slice.bytes / 512,
            ..BlockStat::default()
        },
    };
    let cells = record.cells.iter_mut();
    let own = cells.filter(|cell| cell.spec.target == id);
    for slice in own.flat_map(|cell| &mut cell.slices) {
        slice.devices = [PARTITION, DISK].map(|dev| counted(dev, slice)).into();
    }
    let targets = record.targets.iter_mut();
    let own = targets.filter(|target| target.id == id);
    for device in own.flat_map(|target| &mut target.stack) {
        device.write_cache = Some("write back".to_owned());
        device.fua = Some(false);
    }
}

#[test]
fn what_is_not_made_durable_is_no_candidate() {
    let mut record = record();
    lose_flushes(&mut record, "b");
    let text = render(&record, &Style::default());
    for part in [
        "variant c comes closest",
        "left out, since their writes were not made durable: variant b",
        "   !  variant b",
        "1  variant c",
        "2  variant a",
        "Danger: variant b: 4K append",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    // Far better than the rest, which is not held against it.
    lose_flushes(&mut record, "c");
    let text = render(&record, &Style::default());
    assert!(text.contains("variant a comes closest"), "{text}");
    assert!(
        text.contains("not made durable: variant b, variant c"),
        "{text}"
    );
}

#[test]
fn one_sided_and_buffered_variants_are_told() {
    let mut record = record();
    for target in record.targets.iter_mut().filter(|target| target.id == "a") {
        target.buffered = Some("a caches".to_owned());
        let baseline = target.baseline.as_mut().unwrap();
        baseline.kind = BaselineKind::None;
        baseline.target = None;
        baseline.reason = Some("its blocks move".to_owned());
    }
    record.notes.push(Note {
        level: Level::Fallback,
        target: Some("b".to_owned()),
        text: "b writes in another way".to_owned(),
    });
    let text = render(&record, &Style::default());
    assert!(
        text.contains("variant b: b writes in another way"),
        "{text}"
    );
    assert!(
        text.contains("direct I/O was asked for: a caches"),
        "{text}"
    );
    assert!(
        text.contains("without a raw side") && text.contains("its blocks move"),
        "{text}"
    );
}

#[test]
fn json_has_the_rankings_and_the_gains() {
    let value = json(&record()).unwrap();
    assert_eq!(value["rankings"][0]["rows"][2]["variant"], "variant a");
    assert_eq!(value["gains"][0]["claimed_percent"], 80.0);
}
