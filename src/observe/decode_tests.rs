use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

const KERNELS: [&str; 4] = ["5.15", "6.1", "6.12", "6.18"];

fn stored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace/formats")
}

fn format(kernel: &str, known: &Known) -> Format {
    let name = format!("{}.format", known.path.replace('/', "."));
    let text = fs::read_to_string(stored().join(kernel).join(name)).unwrap();
    Format::parse(&text).unwrap()
}

fn decoder(kernel: &str) -> Decoder {
    let mut decoder = Decoder::default();
    for known in &KNOWN {
        decoder.learn(known, &format(kernel, known)).unwrap();
    }
    decoder
}

/// An event's bytes, all zero but for these numbers, each at its offset.
fn bytes(len: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (offset, value) in fields {
        bytes[*offset..offset + value.len()].copy_from_slice(value);
    }
    bytes
}

fn expected() -> Block {
    Block {
        dev: DevId {
            major: 259,
            minor: 7,
        },
        sector: Some(123_456),
        bytes: 20_480,
        flags: Flags::parse("FWFS"),
        comm: Comm::from_bytes(b"jbd2/nvme0n1-8"),
        error: 0,
    }
}

/// A request's issue, its letters and name at the offsets of that kernel's `format` file.
fn issue(id: u16, rwbs: usize, comm: usize) -> Vec<u8> {
    bytes(
        68,
        &[
            (0, &id.to_ne_bytes()),
            (8, &(259_u32 << 20 | 7).to_ne_bytes()),
            (16, &123_456_u64.to_ne_bytes()),
            (24, &40_u32.to_ne_bytes()),
            (28, &20_480_u32.to_ne_bytes()),
            (rwbs, b"FWFS"),
            (comm, b"jbd2/nvme0n1-8"),
        ],
    )
}

#[test]
fn an_issue_reads_the_same_from_every_kernel() {
    // Offsets as in the files: 6.12 has a priority before the letters, and 6.18 has more letters.
    for (kernel, rwbs, comm) in [
        ("5.15", 32, 40),
        ("6.1", 32, 40),
        ("6.12", 34, 42),
        ("6.18", 34, 44),
    ] {
        let id = format(kernel, &KNOWN[0]).id;
        assert_eq!(
            decoder(kernel).decode(&issue(id, rwbs, comm)),
            Some(Kind::RqIssue(expected())),
            "{kernel}"
        );
    }
}

#[test]
fn a_completion_tells_its_error_and_no_name() {
    for (kernel, rwbs) in [("5.15", 32), ("6.1", 32), ("6.12", 34), ("6.18", 34)] {
        let id = format(kernel, &KNOWN[1]).id;
        let mut raw = issue(id, rwbs, 44);
        raw[28..32].copy_from_slice(&(-5_i32).to_ne_bytes());
        let failed = Block {
            error: -5,
            comm: Comm::default(),
            ..expected()
        };
        assert_eq!(
            decoder(kernel).decode(&raw),
            Some(Kind::RqComplete(failed)),
            "{kernel}"
        );
    }
}

/// Letters and name of a queued bio, letters of a completed one, at the offsets of the files.
#[test]
fn a_bio_reads_the_same_from_every_kernel() {
    for (kernel, comm) in [("5.15", 36), ("6.1", 36), ("6.12", 36), ("6.18", 38)] {
        let mut queued = issue(format(kernel, &KNOWN[2]).id, 28, comm);
        // The letters overwrite the request's length in bytes, which a bio doesn't have.
        queued[32..36].fill(0);
        assert_eq!(
            decoder(kernel).decode(&queued),
            Some(Kind::BioQueue(expected())),
            "{kernel}"
        );
        let mut completed = issue(format(kernel, &KNOWN[3]).id, 32, 44);
        completed[28..32].copy_from_slice(&(-28_i32).to_ne_bytes());
        let failed = Block {
            error: -28,
            comm: Comm::default(),
            ..expected()
        };
        assert_eq!(
            decoder(kernel).decode(&completed),
            Some(Kind::BioComplete(failed)),
            "{kernel}"
        );
    }
}

#[test]
fn a_flush_has_no_place() {
    let decoder = decoder("6.18");
    for (known, sector) in [(&KNOWN[0], 0), (&KNOWN[1], u64::MAX)] {
        let mut raw = issue(format("6.18", known).id, 34, 44);
        raw[16..24].copy_from_slice(&sector.to_ne_bytes());
        raw[34..38].copy_from_slice(b"FF\0\0");
        let Some(Kind::RqIssue(block) | Kind::RqComplete(block)) = decoder.decode(&raw) else {
            panic!("{}", known.path);
        };
        assert_eq!(block.sector, None, "{}", known.path);
    }
}

#[test]
fn a_commit_tells_its_transaction() {
    for kernel in KERNELS {
        let decoder = decoder(kernel);
        for known in &KNOWN {
            let Meaning::Commit(step) = known.meaning else {
                continue;
            };
            let raw = bytes(
                24,
                &[
                    (0, &format(kernel, known).id.to_ne_bytes()),
                    (8, &(8_u32 << 20 | 1).to_ne_bytes()),
                    (16, &77_u32.to_ne_bytes()),
                ],
            );
            let commit = Commit {
                dev: DevId { major: 8, minor: 1 },
                step,
                transaction: 77,
            };
            assert_eq!(decoder.decode(&raw), Some(Kind::JournalCommit(commit)));
        }
    }
}

#[test]
fn a_handover_tells_whose_request_it_was_where_the_kernel_does() {
    let known = KNOWN.iter().find(|known| !known.names_device()).unwrap();
    for kernel in ["6.1", "6.12", "6.18"] {
        let raw = bytes(
            64,
            &[
                (0, &format(kernel, known).id.to_ne_bytes()),
                (24, &99_u64.to_ne_bytes()),
            ],
        );
        assert_eq!(
            decoder(kernel).decode(&raw),
            Some(Kind::AsyncWork(Handover {
                user_data: Some(99)
            }))
        );
    }
    let raw = bytes(64, &[(0, &format("5.15", known).id.to_ne_bytes())]);
    assert_eq!(
        decoder("5.15").decode(&raw),
        Some(Kind::AsyncWork(Handover { user_data: None }))
    );
}

#[test]
fn an_event_that_was_not_learnt_or_is_cut_short_says_nothing() {
    let decoder = decoder("6.18");
    assert_eq!(decoder.decode(&issue(1, 34, 44)), None);
    let whole = issue(format("6.18", &KNOWN[0]).id, 34, 44);
    for len in 0..60 {
        assert_eq!(decoder.decode(&whole[..len]), None, "{len} bytes");
    }
}

#[test]
fn a_device_goes_into_a_filter_as_it_comes_out_of_an_event() {
    let dev = DevId {
        major: 259,
        minor: 1_048_575,
    };
    assert_eq!(device(kernel_dev(dev).into()), dev);
}

proptest! {
    #[test]
    fn no_bytes_panic(kernel in 0..KERNELS.len(), event in 0..KNOWN.len(), mut raw: Vec<u8>) {
        let kernel = KERNELS[kernel];
        if raw.len() >= 2 {
            raw[..2].copy_from_slice(&format(kernel, &KNOWN[event]).id.to_ne_bytes());
        }
        let _ = decoder(kernel).decode(&raw);
    }
}
