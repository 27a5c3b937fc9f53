//! Real writes to ordinary temporary files.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::*;
use crate::sys::buffer::Aligned;

/// Eight blocks of 4 KiB.
const LEN: usize = 32_768;

/// A file of `LEN` zero bytes, open with the flags that `method` needs.
fn zeroed(folder: &tempfile::TempDir, method: Method, direct: bool) -> File {
    let path = folder.path().join(format!("{method}-{direct}"));
    std::fs::write(&path, [0; LEN]).unwrap();
    let flags = match method {
        Method::ODsync => libc::O_DSYNC,
        Method::OSync => libc::O_SYNC,
        _ => 0,
    };
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags | if direct { libc::O_DIRECT } else { 0 })
        .open(path)
        .unwrap()
}

fn content(file: &File) -> Aligned {
    let mut bytes = Aligned::new(LEN).unwrap();
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), LEN);
    bytes
}

fn one_pass(kind: EngineKind, method: Method, queue_depth: u32) -> Spec {
    Spec {
        kind,
        method,
        queue_depth,
        one_pass: true,
        payload_seed: 0,
        op_times: 0,
        null: None,
        limits: ops(u64::MAX),
        ..spec()
    }
}

/// Every engine, method, directness and queue depth that write and go together.
fn each_way(mut test: impl FnMut(&Spec, bool)) {
    let writes = |method: &&Method| **method != Method::EmptyFlush;
    for &method in Method::ALL.iter().filter(writes) {
        for direct in [false, true] {
            test(&one_pass(EngineKind::Sync, method, 1), direct);
            for queue_depth in [1, 8] {
                test(&one_pass(EngineKind::Uring, method, queue_depth), direct);
            }
        }
    }
}

#[test]
fn an_empty_flush_writes_nothing_and_counts_no_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let spec = one_pass(EngineKind::Sync, Method::EmptyFlush, 1);
    let file = zeroed(&folder, spec.method, false);
    let lane = Lane {
        to: To::Fd(file.as_fd()),
        offsets: &OFFSETS,
        ..nothing()
    };
    let sample = go(vec![lane], &spec);
    assert_eq!((sample.ops, sample.bytes, sample.errors), (8, 0, 0));
    assert!(content(&file).iter().all(|&byte| byte == 0));
}

#[test]
fn every_way_of_writing_writes_every_block_of_every_job() {
    let folder = tempfile::tempdir().unwrap();
    each_way(|spec, direct| {
        let file = zeroed(&folder, spec.method, direct);
        let lane = |offsets| Lane {
            to: To::Fd(file.as_fd()),
            offsets,
            ..nothing()
        };
        let (first, second) = OFFSETS.split_at(4);
        let sample = go(vec![lane(first), lane(second)], spec);
        assert_eq!(
            (sample.ops, sample.errors),
            (8, 0),
            "{spec:?} {:?}",
            sample.first_error
        );
        assert!(sample.fallbacks.is_empty(), "{:?}", sample.fallbacks);
        let content = content(&file);
        let sectors: std::collections::HashSet<&[u8]> = content.chunks(512).collect();
        assert_eq!(sectors.len(), LEN / 512, "{spec:?}");
        assert!(!sectors.contains(&[0; 512][..]), "{spec:?}");
    });
}

/// Slices that are compared share a seed, and so their blocks, but must not write what is there.
#[test]
fn the_payload_has_a_seed_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = zeroed(&folder, Method::None, false);
    let written = |payload_seed| {
        let lane = Lane {
            to: To::Fd(file.as_fd()),
            ..nothing()
        };
        let spec = Spec {
            payload_seed,
            ..one_pass(EngineKind::Sync, Method::None, 1)
        };
        go(vec![lane], &spec);
        content(&file)
    };
    let (first, again, other) = (written(1), written(1), written(2));
    assert_eq!(first[..], again[..]);
    let mut sectors = first.chunks(512).zip(other.chunks(512));
    assert!(sectors.all(|(one, two)| one != two));
}

#[test]
fn a_kernel_thread_may_poll_for_the_writes() {
    let folder = tempfile::tempdir().unwrap();
    let file = zeroed(&folder, Method::Fdatasync, false);
    let lane = Lane {
        to: To::Fd(file.as_fd()),
        ..nothing()
    };
    let ring = RingOptions {
        sqpoll: true,
        iopoll: false,
    };
    let sample = go(
        vec![lane],
        &Spec {
            ring,
            ..one_pass(EngineKind::Uring, Method::Fdatasync, 4)
        },
    );
    assert_eq!(
        (sample.ops, sample.errors),
        (8, 0),
        "{:?}",
        sample.first_error
    );
    assert!(
        content(&file)
            .chunks(4096)
            .all(|block| block.iter().any(|&byte| byte != 0))
    );
}

#[test]
fn preserved_bytes_go_where_they_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Aligned::new(LEN).unwrap();
    fastrand::Rng::with_seed(3).fill(&mut bytes);
    // The first block is none of the lane's, and the bytes begin with the second.
    let data = Data::Preserved {
        bytes: &bytes[4096..],
        base_bytes: 4096,
    };
    each_way(|spec, direct| {
        let file = zeroed(&folder, spec.method, direct);
        let offsets = &OFFSETS[1..];
        let sample = go(
            vec![Lane {
                to: To::Fd(file.as_fd()),
                offsets,
                start: 0,
                data,
            }],
            spec,
        );
        assert_eq!(
            (sample.ops, sample.errors),
            (7, 0),
            "{spec:?} {:?}",
            sample.first_error
        );
        let content = content(&file);
        assert!(content[..4096].iter().all(|&byte| byte == 0));
        assert!(content[4096..] == bytes[4096..], "{spec:?}");
    });
}

#[test]
fn buffered_writes_need_no_alignment() {
    let folder = tempfile::tempdir().unwrap();
    for kind in [EngineKind::Uring, EngineKind::Sync] {
        let file = zeroed(&folder, Method::ODsync, false);
        let offsets: Vec<u64> = (0..10).map(|block| block * 100).collect();
        let lane = Lane {
            to: To::Fd(file.as_fd()),
            offsets: &offsets,
            ..nothing()
        };
        let spec = Spec {
            size_bytes: 100,
            ..one_pass(kind, Method::ODsync, 1)
        };
        assert_eq!(go(vec![lane], &spec).bytes, 1000);
        let content = content(&file);
        let written: std::collections::HashSet<&[u8]> = content[..1000].chunks(100).collect();
        assert_eq!(written.len(), 10);
        assert!(content[1000..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_file_that_each_write_truncates_holds_one_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let place = File::open(folder.path()).unwrap();
    std::fs::write(&path, [1; 20_000]).unwrap();
    for (kind, told) in [(EngineKind::Sync, 0), (EngineKind::Uring, 1)] {
        let lane = Lane {
            to: To::Reopen {
                folder: place.as_fd(),
                name: "file",
                flags: OFlag::O_WRONLY | OFlag::O_TRUNC,
            },
            ..nothing()
        };
        let sample = go(vec![lane], &one_pass(kind, Method::Fdatasync, 1));
        assert_eq!(
            (sample.ops, sample.errors, sample.fallbacks.len()),
            (8, 0, told)
        );
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_a_failed_write() {
    let folder = tempfile::tempdir().unwrap();
    let place = File::open(folder.path()).unwrap();
    let lane = Lane {
        to: To::Reopen {
            folder: place.as_fd(),
            name: "missing",
            flags: OFlag::O_WRONLY,
        },
        ..nothing()
    };
    let sample = go(vec![lane], &one_pass(EngineKind::Sync, Method::None, 1));
    assert_eq!(sample.first_error.unwrap().errno, Some(libc::ENOENT));
}

#[test]
fn the_writes_own_error_is_told_not_that_its_sync_was_cancelled() {
    // Memory sealed against writes answers EPERM (fcntl(2), F_SEAL_WRITE).
    let sealed = memfd_create(c"sealed", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    fcntl(&sealed, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_WRITE)).unwrap();
    each_way(|spec, _| {
        let lane = Lane {
            to: To::Fd(sealed.as_fd()),
            ..nothing()
        };
        let sample = go(vec![lane], spec);
        let failure = sample.first_error.unwrap();
        assert_eq!(failure.errno, Some(libc::EPERM), "{spec:?}");
        assert_eq!(
            (sample.ops, sample.errors),
            (0, u64::from(spec.queue_depth))
        );
    });
}

#[test]
fn a_sync_that_fails_is_told_apart_from_its_write() {
    // It takes a write and cannot be synced: EINVAL (fsync(2)).
    let null = File::options().write(true).open("/dev/null").unwrap();
    for kind in [EngineKind::Uring, EngineKind::Sync] {
        let lane = Lane {
            to: To::Fd(null.as_fd()),
            ..nothing()
        };
        let sample = go(vec![lane], &one_pass(kind, Method::Fdatasync, 1));
        let failure = sample.failure().unwrap();
        let told =
            "sync after the write of 4096 bytes at offset 0: EINVAL: Invalid argument; 1 of 1";
        assert!(failure.starts_with(told), "{kind}: {failure}");
    }
}

#[test]
fn a_write_that_the_kernel_cuts_short_is_told_with_its_length() {
    // A pipe takes 64 KiB (pipe(7)) and, without blocking, no more.
    for method in [Method::None, Method::Fdatasync] {
        let (mut reader, writer) = nix::unistd::pipe2(OFlag::O_NONBLOCK)
            .map(|(reader, writer)| (File::from(reader), File::from(writer)))
            .unwrap();
        let lane = Lane {
            to: To::Fd(writer.as_fd()),
            ..nothing()
        };
        let spec = Spec {
            size_bytes: 1 << 20,
            ..one_pass(EngineKind::Uring, method, 1)
        };
        let sample = go(vec![lane], &spec);
        let failure = sample.first_error.unwrap();
        assert_eq!(
            (failure.errno, failure.written_bytes),
            (None, 65_536),
            "{method}"
        );
        let mut taken = vec![0; 65_536];
        reader.read_exact(&mut taken).unwrap();
    }
}

#[test]
fn one_job_that_cannot_start_ends_the_run_without_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let file = zeroed(&folder, Method::None, false);
    let good = Lane {
        to: To::Fd(file.as_fd()),
        ..nothing()
    };
    let bad = Lane {
        to: To::Reopen {
            folder: file.as_fd(),
            name: "a\0b",
            flags: OFlag::O_WRONLY,
        },
        ..nothing()
    };
    let spec = one_pass(EngineKind::Uring, Method::None, 1);
    let error = run(
        &mut Crew::default(),
        vec![good, bad],
        &spec,
        &AtomicBool::new(false),
        &mut || true,
    )
    .unwrap_err();
    assert!(error.to_string().starts_with("job 1: "), "{error}");
    assert!(content(&file).iter().all(|&byte| byte == 0));
}

#[test]
fn a_rate_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = zeroed(&folder, Method::None, false);
    for (kind, queue_depth) in [(EngineKind::Uring, 4), (EngineKind::Sync, 1)] {
        let lane = Lane {
            to: To::Fd(file.as_fd()),
            ..nothing()
        };
        let spec = Spec {
            rate_per_s: Some(2000.0),
            one_pass: false,
            limits: ops(100),
            ..one_pass(kind, Method::None, queue_depth)
        };
        let sample = go(vec![lane], &spec);
        // The last arrival is due after 99 spacings of 500 µs: never sooner, however busy the
        // machine that runs this test.
        assert!(
            sample.elapsed_ns >= 99 * 500_000,
            "{kind}: {}",
            sample.elapsed_ns
        );
        assert_eq!(sample.ops, 100);
    }
}

#[test]
fn this_process_may_make_a_ring() {
    probe(&Root::host()).unwrap();
}

#[test]
fn a_ring_dropped_by_a_panic_has_drained_its_writes() {
    use crate::sys::ring::{Config, Durability, Memory, with_ring};
    let folder = tempfile::tempdir().unwrap();
    let mut file = zeroed(&folder, Method::None, true);
    let memory = Memory::Slots(4096);
    let config = Config {
        fd: file.as_fd(),
        memory,
        slots: 8,
        durability: Durability::Fsync,
        sqpoll: false,
        iopoll: false,
    };
    let panicked = std::panic::catch_unwind(|| {
        with_ring(&config, |ring| {
            for slot in 0..8 {
                ring.slot_mut(slot).unwrap().fill(7);
                ring.push(slot, 0, 4096, u64::from(slot) * 4096).unwrap();
                assert!(ring.slot_mut(slot).is_none(), "lent while in flight");
                assert_eq!(
                    ring.push(slot, 0, 4096, 0).unwrap_err().raw_os_error(),
                    Some(libc::EBUSY)
                );
            }
            assert_eq!(
                ring.push(9, 0, 4096, 0).unwrap_err().raw_os_error(),
                Some(libc::EFAULT)
            );
            ring.enter(0, None).unwrap();
            panic!("on purpose");
        })
        .unwrap();
    });
    assert!(panicked.is_err());
    assert!(content(&file).iter().all(|&byte| byte == 7));
    file.flush().unwrap();
}
