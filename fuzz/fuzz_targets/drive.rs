//! What a drive holds and says of itself: a byte that chooses among the signatures on it, an ext
//! filesystem's journal, and its answers to NVMe, SCSI and ATA commands; then the bytes.
#![no_main]

mod seeds;

use std::fs::File;
use std::io::Error;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use syncprof::guard::signature;
use syncprof::sys::nvme::{Answer, Query};
use syncprof::target::drive::{nvme, scsi};
use syncprof::target::journal_map::ext_ranges;

/// The size of the device that the bytes are laid on.
const DEVICE_BYTES: u64 = 8 << 20;

fn seeds() {
    // As in the formats' own headers: where, and what.
    let laid: [(&str, u32, &[u8]); 9] = [
        ("mbr", 510, b"\x55\xAA"),
        ("gpt", 512, b"EFI PART"),
        ("gpt-end", (DEVICE_BYTES - 512) as u32, b"EFI PART"),
        ("xfs", 0, b"XFSB"),
        ("btrfs", 0x1_0040, b"_BHRfS_M"),
        ("lvm", 0x218, b"LVM2 001"),
        ("md", 4096, b"\xfc\x4e\x2b\xa9"),
        (
            "md-end",
            (DEVICE_BYTES - 65_536) as u32,
            b"\xfc\x4e\x2b\xa9",
        ),
        ("zfs", 128 << 10, &0x00BA_B10C_u64.to_le_bytes()),
    ];
    for (name, at, bytes) in laid {
        let head = [&[0][..], &at.to_le_bytes(), &[bytes.len() as u8]].concat();
        seeds::keep("drive", name, &[&head, bytes].concat());
    }
    for (name, map) in [
        (
            "tree",
            &b"\x0a\xf3\x01\0\x04\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\x64"[..],
        ),
        ("map", &[9; 60]),
    ] {
        let mut superblock = vec![1; 2048];
        superblock[1..1025].fill(0);
        let mut put = |at: usize, bytes: &[u8]| {
            superblock[1 + at..1 + at + bytes.len()].copy_from_slice(bytes);
        };
        put(0x38, &[0x53, 0xEF]);
        put(0x5C, &[4]);
        put(0xE0, &[8]);
        put(0xFD, &[1]);
        put(0x10C, map);
        put(0x14C, &16384_u32.to_le_bytes());
        seeds::keep("drive", &format!("journal-{name}"), &superblock);
    }
    let fixtures = seeds::files("tests/fixtures/nvme");
    let of = |name: &str| {
        let found = fixtures.iter().find(|(path, _)| path.ends_with(name));
        found.expect("a captured page").1.as_slice()
    };
    let pages = ["id-ctrl.bin", "id-ns.bin", "smart-log.bin", "error-log.bin"]
        .map(of)
        .concat();
    seeds::keep("drive", "nvme", &[&[2][..], &pages].concat());
    seeds::keep("drive", "scsi", b"\x03\x17\0\x10\0\x08\x12\x14\0\xff\xff");
}

fuzz_target!(init: seeds(), |input: &[u8]| {
    let Some((choice, input)) = input.split_first() else {
        return;
    };
    match choice % 4 {
        0 => signatures(input),
        1 => journal(input),
        2 => answers(input),
        _ => {
            let _ = (scsi::caching_page(input), scsi::identify(input));
        }
    }
});

/// Lays pieces on a device, each after four bytes that say where and one that says how long it is.
fn signatures(mut input: &[u8]) {
    static DEVICE: LazyLock<File> = LazyLock::new(|| {
        let name = format!("/dev/shm/syncprof-fuzz-{}", std::process::id());
        let device = File::create_new(&name).expect("a file in memory");
        std::fs::remove_file(&name).expect("a file that was just made");
        File::options()
            .read(true)
            .write(true)
            .open(format!(
                "/proc/self/fd/{}",
                std::os::fd::AsRawFd::as_raw_fd(&device)
            ))
            .expect("that file")
    });
    DEVICE
        .set_len(0)
        .and_then(|()| DEVICE.set_len(DEVICE_BYTES))
        .expect("an empty device");
    while let Some((head, rest)) = input.split_first_chunk::<5>() {
        let at = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let (piece, rest) = rest.split_at(rest.len().min(head[4].into()));
        let at = u64::from(at) % (DEVICE_BYTES - 256);
        DEVICE.write_all_at(piece, at).expect("room");
        input = rest;
    }
    let whole = signature::find(&DEVICE, 0, DEVICE_BYTES).expect("a device that can be read");
    // Its second half looks like a device as well, and one that ends too early can't be read.
    signature::find(&DEVICE, DEVICE_BYTES / 2, DEVICE_BYTES / 2).expect("a part of it");
    let _ = signature::find(&DEVICE, DEVICE_BYTES / 2, DEVICE_BYTES);
    let _ = signature::find(&DEVICE, 0, u64::from(*input.first().unwrap_or(&0)) * 512);
    std::hint::black_box(whole);
}

/// A superblock, then blocks, which come again and again.
fn journal(input: &[u8]) {
    let Some((superblock, blocks)) = input.split_first_chunk::<1024>() else {
        return;
    };
    let read = |at: u64, block: &mut [u8]| {
        let start = usize::try_from(at).ok()? % blocks.len().max(1);
        let mut from = blocks[start.min(blocks.len())..].iter().cycle();
        block.fill_with(|| from.next().copied().unwrap_or(0));
        Some(())
    };
    if let Some(ranges) = ext_ranges(superblock, &read) {
        assert!(ranges.iter().all(|range| range.start < range.end));
    }
}

/// The answers of a controller, in the order of the queries; one that is cut is none.
fn answers(input: &[u8]) {
    let answer = |query: Query| {
        let (from, len) = match query {
            Query::IdentifyController => (0, 4096),
            Query::IdentifyNamespace { .. } => (4096, 4096),
            Query::Smart => (8192, 512),
            Query::LastError => (8704, 64),
            Query::OcpSmart => (8768, 512),
            Query::SupportedLogPages => (9280, 1024),
            Query::VolatileWriteCache => (0, 4),
        };
        let data = input.get(from..(from + len).min(input.len()));
        let data = data.ok_or_else(|| Error::other("no answer"))?.to_vec();
        Ok(Answer {
            value: data.len() as u32,
            data,
        })
    };
    let facts = nvme::told(Some(1), &answer);
    std::hint::black_box(facts);
}
