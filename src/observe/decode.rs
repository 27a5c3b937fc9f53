//! From an event's bytes to what it says: a pure function of the kernel's own layouts. Total:
//! whatever the bytes are, it never panics.

use super::event::{Block, Comm, Commit, CommitStep, Handover, Kind};
use super::format::{Field, Format, FormatError};
use super::rwbs::Flags;
use crate::model::devid::DevId;
use crate::model::units::SECTOR_BYTES;

/// An event that can be decoded.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its path within the `events` folder of tracefs.
    pub path: &'static str,
    /// Must it be there for a trace to be of use? Others belong to modules that may not be loaded,
    /// or tell of rare things.
    pub needed: bool,
    meaning: Meaning,
}

#[derive(Clone, Copy, Debug)]
enum Meaning {
    Block(fn(Block) -> Kind),
    Commit(CommitStep),
    AsyncWork,
}

impl Known {
    /// Does the event name the device, so that it can be filtered by it?
    pub fn names_device(&self) -> bool {
        !matches!(self.meaning, Meaning::AsyncWork)
    }
}

const fn block(path: &'static str, needed: bool, kind: fn(Block) -> Kind) -> Known {
    Known {
        path,
        needed,
        meaning: Meaning::Block(kind),
    }
}

const fn commit(path: &'static str, step: CommitStep) -> Known {
    Known {
        path,
        needed: false,
        meaning: Meaning::Commit(step),
    }
}

/// Every event that can be decoded.
pub const KNOWN: [Known; 10] = [
    block("block/block_rq_issue", true, Kind::RqIssue),
    block("block/block_rq_complete", true, Kind::RqComplete),
    block("block/block_bio_queue", true, Kind::BioQueue),
    block("block/block_bio_complete", true, Kind::BioComplete),
    block("block/block_rq_requeue", false, Kind::RqRequeue),
    block("block/block_rq_merge", false, Kind::RqMerge),
    commit("jbd2/jbd2_start_commit", CommitStep::Start),
    commit("jbd2/jbd2_commit_logging", CommitStep::Logging),
    commit("jbd2/jbd2_end_commit", CommitStep::End),
    Known {
        path: "io_uring/io_uring_queue_async_work",
        needed: false,
        meaning: Meaning::AsyncWork,
    },
];

/// Decodes the events whose layouts it was given.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Where every event's number lies.
    id: Option<Field>,
    events: Vec<(u16, Layout)>,
}

#[derive(Clone, Debug)]
enum Layout {
    Block {
        kind: fn(Block) -> Kind,
        dev: Field,
        sector: Field,
        nr_sector: Field,
        /// Only where the request's bytes are told beside its sectors.
        bytes: Option<Field>,
        rwbs: Field,
        comm: Option<Field>,
        error: Option<Field>,
    },
    Commit {
        step: CommitStep,
        dev: Field,
        transaction: Field,
    },
    AsyncWork {
        /// Since Linux 5.18.
        user_data: Option<Field>,
    },
}

impl Decoder {
    /// Learns the layout of an event. Fails where a field is missing, without which the event says
    /// nothing.
    pub fn learn(&mut self, known: &Known, format: &Format) -> Result<(), FormatError> {
        let layout = match known.meaning {
            Meaning::Block(kind) => Layout::Block {
                kind,
                dev: format.field("dev")?,
                sector: format.field("sector")?,
                nr_sector: format.field("nr_sector")?,
                bytes: format.optional("bytes"),
                rwbs: format.field("rwbs")?,
                comm: format.optional("comm"),
                error: format.optional("error"),
            },
            Meaning::Commit(step) => Layout::Commit {
                step,
                dev: format.field("dev")?,
                transaction: format.field("transaction")?,
            },
            Meaning::AsyncWork => Layout::AsyncWork {
                user_data: format.optional("user_data"),
            },
        };
        // The fields that all events have are at the same place in each.
        self.id = Some(format.field("common_type")?);
        self.events.push((format.id, layout));
        Ok(())
    }

    /// What the event says. None for an event that was not learnt, and for bytes that are too few.
    pub fn decode(&self, raw: &[u8]) -> Option<Kind> {
        let id = self.id?.unsigned(raw)?;
        let (_, layout) = self
            .events
            .iter()
            .find(|(known, _)| u64::from(*known) == id)?;
        Some(match layout {
            Layout::Block { kind, .. } => kind(layout.block(raw)?),
            Layout::Commit {
                step,
                dev,
                transaction,
            } => Kind::JournalCommit(Commit {
                dev: device(dev.unsigned(raw)?),
                step: *step,
                transaction: transaction.unsigned(raw)? as u32,
            }),
            Layout::AsyncWork { user_data } => Kind::AsyncWork(Handover {
                user_data: match user_data {
                    Some(user_data) => Some(user_data.unsigned(raw)?),
                    None => None,
                },
            }),
        })
    }
}

impl Layout {
    fn block(&self, raw: &[u8]) -> Option<Block> {
        let Layout::Block {
            dev,
            sector,
            nr_sector,
            bytes,
            rwbs,
            comm,
            error,
            ..
        } = self
        else {
            return None;
        };
        let flags = Flags::from_bytes(rwbs.bytes(raw)?);
        let bytes = match bytes {
            Some(bytes) => bytes.unsigned(raw)?,
            None => nr_sector.unsigned(raw)?.saturating_mul(SECTOR_BYTES),
        };
        // A flush request's place is -1, for which its issue shows 0 (`blk_rq_trace_sector` in
        // include/linux/blktrace_api.h).
        let sector = sector
            .unsigned(raw)
            .map(|sector| (sector != u64::MAX && !flags.is_flush()).then_some(sector))?;
        Some(Block {
            dev: device(dev.unsigned(raw)?),
            sector,
            bytes,
            flags,
            comm: match comm {
                Some(comm) => Comm::from_bytes(comm.bytes(raw)?),
                None => Comm::default(),
            },
            error: match error {
                Some(error) => error.int(raw)?,
                None => 0,
            },
        })
    }
}

/// A device's number as the kernel keeps it, which is not that of stat(2): include/linux/kdev_t.h.
const MINOR_BITS: u32 = 20;

fn device(dev: u64) -> DevId {
    let dev = dev as u32;
    DevId {
        major: dev >> MINOR_BITS,
        minor: dev & ((1 << MINOR_BITS) - 1),
    }
}

/// The number of a device, as events carry it.
pub fn kernel_dev(dev: DevId) -> u32 {
    dev.major << MINOR_BITS | dev.minor
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
