//! Writes one after the other, each with bytes that the caller makes: for what is written rather than
//! for how long it takes.

use std::io;
use std::os::fd::BorrowedFd;

use nix::unistd::{fdatasync, fsync};

use super::error::{EngineError, from_setup};
use super::lane::durability;
use crate::model::cell::{EngineKind, Method};
use crate::sys::buffer::Aligned;
use crate::sys::pwrite::pwritev2;
use crate::sys::ring::{self, Config, Memory, SetupError};
use crate::sys::root::Root;

/// Makes the bytes of the next write and gives its offset; none ends the run. That it is called again
/// means that the write before was acknowledged, whole and durable as the method has it.
pub type Next<'a> = &'a mut dyn FnMut(&mut [u8]) -> Option<u64>;

/// Writes `size_bytes` at a time to `fd`, which is open with the method's flags, by io_uring or by plain
/// system calls. A write that fails or is cut short ends the run, with its error.
pub fn one_by_one(
    fd: BorrowedFd<'_>,
    kind: EngineKind,
    method: Method,
    size_bytes: usize,
    next: Next<'_>,
) -> Result<(), EngineError> {
    match kind {
        EngineKind::Uring => by_ring(fd, method, size_bytes, next),
        EngineKind::Sync => by_calls(fd, method, size_bytes, next),
        EngineKind::Null => Err(EngineError::Unsupported {
            why: "the null engine writes nothing that a device could keep".to_owned(),
        }),
    }
}

fn by_ring(
    fd: BorrowedFd<'_>,
    method: Method,
    size_bytes: usize,
    next: Next<'_>,
) -> Result<(), EngineError> {
    let config = Config {
        fd,
        memory: Memory::Slots(size_bytes),
        slots: 1,
        durability: durability(method),
        sqpoll: false,
        iopoll: false,
    };
    ring::with_ring(&config, |ring| {
        while let Some(offset_bytes) = ring
            .slot_mut(0)
            .and_then(|bytes| next(&mut bytes[..size_bytes]))
        {
            let written = ring.write_one(0, 0, size_bytes as u32, offset_bytes);
            check(
                written.map(|count| count as usize),
                size_bytes,
                offset_bytes,
            )?;
        }
        Ok(())
    })
    .map_err(|error| match error {
        SetupError::Memory(source) => memory(source),
        SetupError::Ring(source) => from_setup(source, &Root::host()),
    })?
}

fn by_calls(
    fd: BorrowedFd<'_>,
    method: Method,
    size_bytes: usize,
    next: Next<'_>,
) -> Result<(), EngineError> {
    let mut buffer = Aligned::new(size_bytes).map_err(memory)?;
    let flags = match method {
        Method::RwfDsync => libc::RWF_DSYNC,
        _ => 0,
    };
    while let Some(offset_bytes) = next(&mut buffer) {
        let written = pwritev2(fd, &buffer, offset_bytes, flags);
        check(written, size_bytes, offset_bytes)?;
        let synced = match method {
            Method::Fdatasync => fdatasync(fd),
            Method::Fsync => fsync(fd),
            _ => Ok(()),
        };
        check(
            synced.map(|()| size_bytes).map_err(Into::into),
            size_bytes,
            offset_bytes,
        )?;
    }
    Ok(())
}

fn check(
    written: io::Result<usize>,
    size_bytes: usize,
    offset_bytes: u64,
) -> Result<(), EngineError> {
    let short = |count| {
        let text = format!("{count} of {size_bytes} bytes were written");
        Err(io::Error::new(io::ErrorKind::WriteZero, text))
    };
    let whole = written.and_then(|count| match count == size_bytes {
        true => Ok(()),
        false => short(count),
    });
    whole.map_err(|source| EngineError::Broken {
        what: format!("write at {offset_bytes}"),
        source,
    })
}

fn memory(source: io::Error) -> EngineError {
    EngineError::Setup {
        what: "memory for its writes".to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    const METHODS: [Method; 5] = [
        Method::None,
        Method::ODsync,
        Method::RwfDsync,
        Method::Fdatasync,
        Method::Fsync,
    ];

    #[test]
    fn each_write_lands_with_its_own_bytes_and_in_order() {
        for kind in [EngineKind::Uring, EngineKind::Sync] {
            for method in METHODS {
                let file = tempfile::tempfile().unwrap();
                let mut count = 0_u8;
                one_by_one(file.as_fd(), kind, method, 512, &mut |bytes| {
                    // The one before is there by now.
                    assert_eq!(file.metadata().unwrap().len(), u64::from(count) * 512);
                    (count < 5).then(|| {
                        count += 1;
                        bytes.fill(count);
                        u64::from(count - 1) * 512
                    })
                })
                .unwrap();
                let mut held = vec![0; 5 * 512];
                file.read_exact_at(&mut held, 0).unwrap();
                for (place, number) in held.chunks(512).zip(1..) {
                    assert!(place.iter().all(|&byte| byte == number), "{kind} {method}");
                }
            }
        }
    }

    #[test]
    fn a_write_that_fails_or_is_short_ends_the_run() {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        for kind in [EngineKind::Uring, EngineKind::Sync] {
            let mut calls = 0;
            let error = one_by_one(full.as_fd(), kind, Method::None, 512, &mut |_| {
                calls += 1;
                Some(0)
            });
            let text = error.unwrap_err().to_string();
            assert!(text.contains("No space left"), "{text}");
            assert_eq!(calls, 1);
        }
        assert!(check(Ok(100), 512, 0).is_err());
    }
}
