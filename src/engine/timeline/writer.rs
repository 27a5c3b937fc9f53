//! How records are written: through a file by plain system calls, as databases do, or to a device by
//! a ring of one write. The ring is there because Linux flushes a device once more behind each
//! O_DSYNC write that a system call waits for: `engine::sync` says where.

use std::os::fd::BorrowedFd;

use crate::engine::EngineError;
use crate::engine::error::from_setup;
use crate::engine::spec::Data;
use crate::sys::buffer::Aligned;
use crate::sys::pwrite::pwritev2;
use crate::sys::ring::{Config, Durability, Memory, Ring, SetupError, with_ring};
use crate::sys::root::Root;
use crate::workload::log::Piece;
use crate::workload::payload::Filler;

use super::failure::Failure;

const WHAT: &str = "write a record";

/// Writes records, one piece at a time.
pub(super) trait Write {
    /// Makes the bytes of the next piece ready; not timed.
    fn prepare(&mut self, len_bytes: u64);

    /// Writes a piece; it is on disk then.
    fn write(&mut self, piece: Piece) -> Result<(), Failure>;
}

/// What a writer is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sink<'a> {
    /// Open with O_DSYNC.
    pub(super) fd: BorrowedFd<'a>,
    /// A device, which is written by a ring.
    pub(super) is_device: bool,
    pub(super) data: Data<'a>,
    /// Of the payload.
    pub(super) seed: u64,
    /// Bytes of a record.
    pub(super) record_bytes: u64,
    /// Bytes of the longest piece.
    pub(super) longest_bytes: u64,
}

/// Makes a writer and calls `work` with it.
pub(super) fn with_writer<R>(
    sink: &Sink<'_>,
    work: impl FnOnce(&mut dyn Write) -> R,
) -> Result<R, EngineError> {
    let memory_error = |source| EngineError::Setup {
        what: "memory for its writes".to_owned(),
        source,
    };
    let mut filler = match sink.data {
        Data::Fresh(payload) => Filler::new(payload, sink.seed),
        Data::Preserved { .. } => None,
    };
    match (sink.is_device, sink.data, &mut filler) {
        (false, _, Some(filler)) => {
            let mut buffer = Aligned::new(sink.longest_bytes as usize).map_err(memory_error)?;
            filler.fill(&mut buffer);
            let filler = filler.clone();
            let fd = sink.fd;
            Ok(work(&mut Calls { fd, buffer, filler }))
        }
        (true, Data::Preserved { bytes, base_bytes }, _) => ring(
            sink,
            Memory::Span {
                bytes,
                unit_bytes: sink.record_bytes as usize,
            },
            |ring| {
                work(&mut Ringed {
                    ring,
                    filler: None,
                    base_bytes,
                })
            },
        ),
        (true, Data::Fresh(_), Some(filler)) => {
            let memory = Memory::Slots(sink.longest_bytes as usize);
            ring(sink, memory, |ring| {
                if let Some(bytes) = ring.slot_mut(0) {
                    filler.fill(bytes);
                }
                work(&mut Ringed {
                    ring,
                    filler: Some(filler.clone()),
                    base_bytes: 0,
                })
            })
        }
        _ => Err(EngineError::Unsupported {
            why: "files are written with bytes that are made, not with what is there".to_owned(),
        }),
    }
}

fn ring<R>(
    sink: &Sink<'_>,
    memory: Memory<'_>,
    work: impl FnOnce(&mut Ring<'_>) -> R,
) -> Result<R, EngineError> {
    let config = Config {
        fd: sink.fd,
        memory,
        slots: 1,
        durability: Durability::Descriptor,
        sqpoll: false,
        iopoll: false,
    };
    with_ring(&config, work).map_err(|error| match error {
        SetupError::Memory(source) => EngineError::Setup {
            what: "memory for its writes".to_owned(),
            source,
        },
        SetupError::Ring(error) => from_setup(error, &Root::host()),
    })
}

/// By pwritev2(2).
struct Calls<'a> {
    fd: BorrowedFd<'a>,
    buffer: Aligned,
    filler: Filler,
}

impl Write for Calls<'_> {
    fn prepare(&mut self, len_bytes: u64) {
        self.filler.stamp(&mut self.buffer[..len_bytes as usize]);
    }

    fn write(&mut self, piece: Piece) -> Result<(), Failure> {
        let bytes = &self.buffer[..piece.len_bytes as usize];
        match pwritev2(self.fd, bytes, piece.offset_bytes, 0) {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) => Err(Failure::short(WHAT)),
            Err(error) => Err(Failure::of(WHAT, &error)),
        }
    }
}

/// By io_uring, one write at a time.
struct Ringed<'r, 'm> {
    ring: &'r mut Ring<'m>,
    /// None: what is written is what is there.
    filler: Option<Filler>,
    /// The offset of the first byte of what is there.
    base_bytes: u64,
}

impl Write for Ringed<'_, '_> {
    fn prepare(&mut self, len_bytes: u64) {
        if let Some(filler) = &mut self.filler
            && let Some(bytes) = self.ring.slot_mut(0)
        {
            filler.stamp(&mut bytes[..len_bytes as usize]);
        }
    }

    fn write(&mut self, piece: Piece) -> Result<(), Failure> {
        let from = match self.filler {
            Some(_) => 0,
            None => (piece.offset_bytes - self.base_bytes) as usize,
        };
        let len = piece.len_bytes as u32;
        match self.ring.write_one(0, from, len, piece.offset_bytes) {
            Ok(written) if written == len => Ok(()),
            Ok(_) => Err(Failure::short(WHAT)),
            Err(error) => Err(Failure::of(WHAT, &error)),
        }
    }
}
