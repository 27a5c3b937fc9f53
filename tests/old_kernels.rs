//! Events of older kernels, as their bytes lay in the ring, beside the line that the kernel itself
//! printed of each.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use syncprof::model::devid::DevId;
use syncprof::model::trace::Class;
use syncprof::model::traffic::BlockStat;
use syncprof::observe::attribute::{self, Attributed, Expected, Scope};
use syncprof::observe::decode::{Decoder, KNOWN};
use syncprof::observe::event::{Block, CommitStep, Event, Kind};
use syncprof::observe::format::Format;
use syncprof::observe::rwbs::Flags;

/// A capture of four writes that extend a file on ext4.
struct Capture {
    device: DevId,
    pid: u32,
    counted: BlockStat,
    /// What was decoded, beside the kernel's own line.
    events: Vec<(Event, String)>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace")
}

fn decoder(kernel: &str) -> Decoder {
    let mut decoder = Decoder::default();
    for known in &KNOWN {
        let name = format!("formats/{kernel}/{}.format", known.path.replace('/', "."));
        let format = Format::parse(&fs::read_to_string(fixtures().join(name)).unwrap()).unwrap();
        decoder.learn(known, &format).unwrap();
    }
    decoder
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The capture of a kernel, on a device of a kind, decoded by the layouts of `formats`.
fn capture(kernel: &str, device: &str, formats: &str) -> Capture {
    let path = fixtures().join(format!("raw/{kernel}-{device}-ext4.jsonl"));
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let head: Value = lines.next().unwrap();
    let decoder = decoder(formats);
    let number = |line: &Value, key: &str| u32::try_from(line[key].as_u64().unwrap()).unwrap();
    Capture {
        device: head["device"].as_str().unwrap().parse().unwrap(),
        pid: number(&head, "pid"),
        counted: serde_json::from_value(head["counted"].clone()).unwrap(),
        events: lines
            .map(|line: Value| {
                let said = line["text"].as_str().unwrap().to_owned();
                let kind = decoder.decode(&unhex(line["raw"].as_str().unwrap()));
                let event = Event {
                    time_ns: line["time_ns"].as_u64().unwrap(),
                    cpu: number(&line, "cpu"),
                    pid: number(&line, "pid"),
                    tid: number(&line, "tid"),
                    kind: kind.unwrap_or_else(|| panic!("not decoded: {said}")),
                };
                (event, said)
            })
            .collect(),
    }
}

impl Capture {
    fn events(&self) -> Vec<Event> {
        self.events.iter().map(|(event, _)| *event).collect()
    }

    fn attributed(&self) -> Attributed {
        let scope = Scope {
            disk: self.device,
            target: 0..1 << 40,
            data: Vec::new(),
            data_moves: true,
            journal: Vec::new(),
            own_pid: self.pid,
            fs_type: Some("ext4".into()),
        };
        attribute::attribute(&self.events(), &scope)
    }
}

/// What stands between the last pair of brackets.
fn bracketed(said: &str) -> &str {
    let (_, inner) = said.rsplit_once(" [").unwrap();
    inner.strip_suffix(']').unwrap()
}

/// `DEV LETTERS [BYTES] [()] SECTOR + SECTORS ... [COMM or ERROR]`, after the event's name.
fn agrees(block: &Block, said: &str) {
    let (_, body) = said.split_once(": ").unwrap();
    let (before, after) = body.split_once(" + ").unwrap();
    let words: Vec<&str> = before.split(' ').collect();
    assert_eq!(block.dev.to_string().replace(':', ","), words[0], "{said}");
    assert_eq!(block.flags, Flags::parse(words[1]), "{said}");
    let sectors: u64 = after.split(' ').next().unwrap().parse().unwrap();
    assert_eq!(block.bytes, sectors * 512, "{said}");
    let sector: u64 = words.last().unwrap().parse().unwrap();
    match block.sector {
        Some(told) => assert_eq!(told, sector, "{said}"),
        None => assert!(
            block.bytes == 0 && (sector == 0 || sector == u64::MAX),
            "{said}"
        ),
    }
    if block.comm.is_empty() {
        assert_eq!(block.error.to_string(), bracketed(said), "{said}");
    } else {
        assert_eq!(block.comm.to_string(), bracketed(said), "{said}");
    }
}

#[test]
fn every_event_says_what_the_kernel_itself_printed() {
    for kernel in ["6.1", "6.12"] {
        for device in ["nvme", "loop"] {
            let capture = capture(kernel, device, kernel);
            for (event, said) in &capture.events {
                let (name, _) = said.split_once(':').unwrap();
                match (event.kind, name) {
                    (Kind::RqIssue(block), "block_rq_issue")
                    | (Kind::RqComplete(block), "block_rq_complete")
                    | (Kind::BioQueue(block), "block_bio_queue") => agrees(&block, said),
                    (Kind::JournalCommit(commit), _) => {
                        let step = match commit.step {
                            CommitStep::Start => "jbd2_start_commit",
                            CommitStep::Logging => "jbd2_commit_logging",
                            CommitStep::End => "jbd2_end_commit",
                        };
                        let dev = commit.dev.to_string().replace(':', ",");
                        let start =
                            format!("{step}: dev {dev} transaction {} sync ", commit.transaction);
                        assert!(said.starts_with(&start), "{said}");
                    }
                    (Kind::AsyncWork(handover), "io_uring_queue_async_work") => {
                        assert_eq!(handover.user_data, Some(0x1234_5678_9abc_def0));
                        assert!(said.contains("user_data 0x123456789abcdef0,"), "{said}");
                        assert_eq!(event.pid, capture.pid);
                    }
                    _ => panic!("{event:?} is not {said}"),
                }
            }
            let of = |step| {
                let is_step =
                    |e: &Event| matches!(e.kind, Kind::JournalCommit(c) if c.step == step);
                capture
                    .events()
                    .iter()
                    .filter(|event| is_step(event))
                    .count()
            };
            for step in [CommitStep::Start, CommitStep::Logging, CommitStep::End] {
                assert_eq!(of(step), 4, "{kernel} {device} {step:?}");
            }
        }
    }
}

#[test]
fn classes_add_up_to_what_an_older_kernels_device_counted() {
    for kernel in ["6.1", "6.12"] {
        for device in ["nvme", "loop"] {
            let capture = capture(kernel, device, kernel);
            let found = capture.attributed();
            let counted = Expected {
                writes: capture.counted.writes,
                write_sectors: capture.counted.write_sectors,
                flushes: capture.counted.flushes,
            };
            assert_eq!(found.expected(), counted, "{kernel} {device}");
            let of = |class| found.classes.iter().find(|c| c.class == class).unwrap();
            assert_eq!(
                (of(Class::Data).requests, of(Class::Data).bytes),
                (4, 4 * 4096)
            );
            assert_eq!(of(Class::Unknown).requests + of(Class::Other).requests, 0);
            // The NVMe device does FUA: each commit block is one such write, and no second flush.
            let fua = if device == "nvme" { 4 } else { 0 };
            assert_eq!(of(Class::Journal).fua_requests, fua, "{kernel} {device}");
            assert_eq!(of(Class::Flush).requests, 8 - fua, "{kernel} {device}");
        }
    }
}

/// What is read of block and jbd2 events lies at the same places in 5.15 as in 6.1 (the fixtures'
/// README tells the sources), so 6.1's bytes are 5.15's.
#[test]
fn the_layouts_of_5_15_read_the_same_events() {
    for device in ["nvme", "loop"] {
        let (new, old) = (
            capture("6.1", device, "6.1"),
            capture("6.1", device, "5.15"),
        );
        for (new, old) in new.events().iter().zip(old.events()) {
            match old.kind {
                Kind::AsyncWork(handover) => assert_eq!(handover.user_data, None),
                _ => assert_eq!(old, *new),
            }
        }
        assert_eq!(old.attributed(), new.attributed());
    }
}
