//! Whatever may lie in a ring, read by the layouts of a real kernel, then attributed and divided into
//! phases: a byte that chooses the kernel, a byte that chooses what is known of the target, then the
//! ring's records.
#![no_main]

mod ring;
mod seeds;

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use syncprof::model::devid::DevId;
use syncprof::model::sample::OpTime;
use syncprof::observe::attribute::{Scope, attribute};
use syncprof::observe::decode::{Decoder, KNOWN};
use syncprof::observe::event::{Event, Kind};
use syncprof::observe::format::Format;
use syncprof::observe::phases::phases;
use syncprof::sys::perf::Records;

const FORMATS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/fixtures/trace/formats"
);

static DECODERS: LazyLock<Vec<Decoder>> = LazyLock::new(|| {
    ring::KERNELS
        .map(|kernel| {
            let mut decoder = Decoder::default();
            for known in &KNOWN {
                let path = format!("{FORMATS}/{kernel}/{}.format", known.path.replace('/', "."));
                let text = fs::read_to_string(path).expect("a format of the fixtures");
                let format = Format::parse(&text).expect("a format");
                decoder.learn(known, &format).expect("all fields");
            }
            decoder
        })
        .into()
});

fn seeds() {
    for (path, capture) in seeds::files("tests/fixtures/trace/raw") {
        let name = seeds::stem(&path);
        let kernel = name.split('-').next();
        let kernel = ring::KERNELS
            .iter()
            .position(|known| Some(*known) == kernel);
        let kernel = kernel.expect("a kernel whose formats are known") as u8;
        let records = ring::records(&capture).concat();
        // All that may be known of a target, in two ways.
        for known in [0b0011_0110, 0b0001_1001] {
            let input = [&[kernel, known][..], &records].concat();
            seeds::keep("events", &format!("{name}-{known}"), &input);
        }
    }
}

fuzz_target!(init: seeds(), |input: &[u8]| {
    let [kernel, known, records @ ..] = input else {
        return;
    };
    let decoder = &DECODERS[usize::from(*kernel) % DECODERS.len()];
    let mut events: Vec<Event> = Records::new(records)
        .filter_map(|sample| {
            Some(Event {
                time_ns: sample.time_ns,
                cpu: sample.cpu,
                pid: sample.pid,
                tid: sample.tid,
                kind: decoder.decode(sample.raw)?,
            })
        })
        .collect();
    events.sort_by_key(|event| event.time_ns);
    let scope = scope(*known, &events);
    let found = attribute(&events, &scope);
    let requests: u64 = found.classes.iter().map(|class| class.requests).sum();
    assert_eq!(requests, found.requests.len() as u64 + found.unissued);
    assert!(found.requests.is_sorted_by_key(|request| request.issue_ns));
    let _ = found.expected();

    let ops = ops(&events);
    let anatomy = phases(&found.requests, &found.reads, &ops);
    let total_ns: u64 = ops.iter().map(|op| op.end_ns - op.start_ns).sum();
    let sum_ns: f64 = anatomy.phases.iter().map(|phase| phase.mean_ns).sum();
    let mean_ns = total_ns as f64 / ops.len().max(1) as f64;
    assert!((sum_ns - mean_ns).abs() <= 1e-6 * mean_ns, "{sum_ns} is not {mean_ns}");
    let mut end_ns = 0;
    for stretch in &anatomy.typical {
        assert!(stretch.start_ns == end_ns && stretch.end_ns > end_ns);
        end_ns = stretch.end_ns;
    }
});

/// A target on the device of the first event; the bits of `known` say what is known of it.
fn scope(known: u8, events: &[Event]) -> Scope {
    let is = |bit: u8| known >> bit & 1 == 1;
    let disk = events.iter().find_map(|event| match event.kind {
        Kind::RqIssue(block) | Kind::RqComplete(block) | Kind::BioQueue(block) => Some(block.dev),
        _ => None,
    });
    Scope {
        disk: disk.unwrap_or(DevId { major: 7, minor: 0 }),
        target: if is(0) { 1 << 20..1 << 26 } else { 0..1 << 40 },
        data: is(1).then_some(8 << 20..16 << 20).into_iter().collect(),
        data_moves: is(2),
        journal: if is(3) {
            vec![0..1 << 20, 1 << 20..2 << 20]
        } else {
            Vec::new()
        },
        own_pid: events.first().map_or(1, |event| event.pid),
        fs_type: match known >> 4 & 3 {
            0 => None,
            1 => Some("btrfs".into()),
            2 => Some("xfs".into()),
            _ => Some("ext4".into()),
        },
    }
}

/// Writes that follow one another from the first event, of up to 10 s each.
fn ops(events: &[Event]) -> Vec<OpTime> {
    const LONGEST_NS: u64 = 10_000_000_000;
    let mut ops: Vec<OpTime> = Vec::new();
    for pair in events.windows(2).step_by(3) {
        let start_ns = pair[0].time_ns;
        if ops.last().is_none_or(|last| last.end_ns <= start_ns) {
            ops.push(OpTime {
                start_ns,
                end_ns: pair[1].time_ns.min(start_ns.saturating_add(LONGEST_NS)),
                offset_bytes: 0,
                bytes: 4096,
            });
        }
    }
    ops
}
