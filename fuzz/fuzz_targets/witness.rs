//! What comes over the wire, lies in a witness's folder, and stands in the records on a device: a byte that
//! chooses among them, then the bytes.
#![no_main]

mod seeds;

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use syncprof::witness::codec;
use syncprof::witness::message::{Reply, Request};
use syncprof::witness::store::Run;
use syncprof::workload::stamp::{self, Content, SECTOR_BYTES, Stamp};

fn seeds() {
    let device = json!({
        "hostname": "a", "name": "sda", "serial": "S1", "model": "M", "start_bytes": 0, "size_bytes": 1 << 30,
    });
    let pledge = json!({
        "id": "0123456789abcdef0123456789abcdef", "device": device, "span_bytes": 1 << 20,
        "record_bytes": 4096, "method": "o_dsync", "engine": "uring", "window": 8, "boot_id": "b",
        "started": "2026-01-01T00:00:00Z",
    });
    let counts = json!({
        "intact": 9, "lost": 0, "torn": 0, "misplaced": 0, "stale": 0, "out_of_order": 0, "undecided": 0,
    });
    let lines = |lines: &[serde_json::Value]| -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    };
    let requests = lines(&[
        json!({"say": "begin", "version": 1, "pledge": pledge}),
        json!({"say": "wrote", "sequence": 7}),
        json!({"say": "end", "sequence": 8}),
        json!({"say": "find", "version": 1, "id": null, "device": device}),
        json!({"say": "checked", "version": 1, "id": "0a", "boot_id": "c", "counts": counts}),
    ]);
    let replies = lines(&[
        json!({"say": "begun", "sequence": 0}),
        json!({"say": "found", "pledge": pledge, "promised": 7, "ended": false, "later": null}),
        json!({"say": "noted", "tally": {"runs": 1, "cuts": 1, "survived": 1}}),
        json!({"say": "refused", "why": "because"}),
    ]);
    let kept = lines(&[
        json!({"begun": {"received": "2026-01-01T00:00:00Z", "pledge": pledge}}),
        json!({"wrote": 7}),
        json!({"checked": {"boot_id": "c", "counts": counts}}),
        json!({"ended": 8}),
    ]);
    for (kind, text) in [(0, requests), (1, replies), (2, kept)] {
        seeds::keep(
            "witness",
            &format!("lines-{kind}"),
            &[&[kind], text.as_bytes()].concat(),
        );
    }
    let mut record = vec![0; 2 * SECTOR_BYTES];
    let stamp = Stamp {
        run: 1,
        sequence: 2,
        offset_bytes: 4096,
        length_bytes: record.len() as u32,
    };
    stamp::write(&stamp, &mut record);
    seeds::keep("witness", "record", &[&[3], record.as_slice()].concat());
}

fuzz_target!(init: seeds(), |input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    match choice % 4 {
        0 => {
            let mut from = input;
            while let Ok(Some(request)) = codec::read::<Request>(&mut from) {
                if let Request::Begin { pledge, .. } = &request
                    && pledge.fault().is_none()
                {
                    assert!(pledge.places() > 0);
                    for sequence in [1, pledge.places(), u64::MAX] {
                        let place = pledge.offset_bytes(sequence) / pledge.record_bytes;
                        assert!(place < pledge.places());
                        assert_eq!(pledge.newest_at(place, sequence), Some(sequence));
                    }
                }
            }
        }
        1 => {
            let mut from = input;
            while let Ok(Some(_)) = codec::read::<Reply>(&mut from) {}
        }
        2 => {
            let _ = Run::parse(input).expect("reading from memory");
        }
        _ => {
            if let Content::Whole(stamp) = stamp::read(input) {
                let mut again = vec![0; input.len()];
                assert_eq!(stamp.length_bytes as usize, input.len());
                stamp::write(&stamp, &mut again);
            }
        }
    }
});
