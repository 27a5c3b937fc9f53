//! Pairs what went to a device with what came back from it.

use std::collections::HashMap;

use super::super::event::{Block, Comm, Event, Kind};
use super::super::rwbs::{Flags, Op};
use crate::model::devid::DevId;
use crate::model::units::SECTOR_BYTES;

/// A write or flush request that the device completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// When it went to the driver; none if that was before the first event.
    pub issue_ns: Option<u64>,
    pub complete_ns: u64,
    /// On the disk. None for a flush.
    pub offset_bytes: Option<u64>,
    pub bytes: u64,
    /// As the driver got it.
    pub flags: Flags,
    /// As the block layer got it: it takes pre-flush and FUA out of what it hands on, if it does
    /// them by flush requests (block/blk-flush.c).
    pub asked: Option<Flags>,
    /// Who submitted it, else who handed it to the driver.
    pub by: Option<By>,
    /// Who handed it to the driver.
    pub issuer: Comm,
}

/// A thread that ran when something was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct By {
    pub pid: u32,
    pub comm: Comm,
}

/// What a list of events says of one device.
#[derive(Debug, Default)]
pub(super) struct Paired {
    /// In the order in which they went to the driver; those of before the first event come first.
    pub done: Vec<Done>,
    /// Requests that did not complete before the last event.
    pub unfinished: u64,
    /// Bios without bytes that asked for a flush.
    pub empty_flush_bios: u64,
    /// The device has no requests, only bios.
    pub bio_based: bool,
}

/// Pairs the events of one device. Reads and discards are left out.
pub(super) fn pair(events: &[Event], disk: DevId) -> Paired {
    pair_of(events, disk, is_counted)
}

/// The reads of one device.
pub(super) fn reads(events: &[Event], disk: DevId) -> Vec<Done> {
    pair_of(events, disk, |flags| flags.op == Op::Read).done
}

/// Pairs the events of one device that are wanted.
fn pair_of(events: &[Event], disk: DevId, wanted: fn(Flags) -> bool) -> Paired {
    let bio_based = !events.iter().any(|event| {
        matches!(&event.kind, Kind::RqIssue(block) | Kind::RqComplete(block) if block.dev == disk)
    });
    let mut pairing = Pairing::default();
    let is_wanted = |block: &Block| block.dev == disk && wanted(block.flags);
    for event in events {
        match &event.kind {
            Kind::RqIssue(block) if is_wanted(block) => pairing.issue(event, block),
            Kind::RqComplete(block) if is_wanted(block) => pairing.complete(event, block),
            Kind::RqRequeue(block) if is_wanted(block) => pairing.requeue(block),
            Kind::BioQueue(block) if is_wanted(block) && bio_based => pairing.issue(event, block),
            Kind::BioQueue(block) if is_wanted(block) => pairing.queue(event, block),
            Kind::BioQueue(block) if block.dev == disk => pairing.bios_seen = true,
            Kind::BioComplete(block) if is_wanted(block) && bio_based => {
                pairing.complete_bio(event, block);
            }
            _ => {}
        }
    }
    let mut done = pairing.done;
    done.sort_by_key(|request| (request.issue_ns, request.complete_ns));
    let empty = |request: &&Done| request.flags.is_write() && request.bytes == 0;
    Paired {
        empty_flush_bios: if bio_based {
            done.iter().filter(empty).count() as u64
        } else {
            pairing.empty_flush_bios
        },
        done,
        unfinished: pairing.in_flight.len() as u64,
        bio_based,
    }
}

/// Is it one of the requests that `writes` or `flushes` of the device's counters count?
/// Write-zeroes count as writes: op_stat_group() of include/linux/blk_types.h.
fn is_counted(flags: Flags) -> bool {
    matches!(flags.op, Op::Write | Op::WriteZeroes | Op::Flush)
}

#[derive(Default)]
struct Pairing {
    in_flight: Vec<InFlight>,
    done: Vec<Done>,
    /// The latest bio queued at a sector, until a request that begins there is issued.
    queued: HashMap<u64, (By, Flags)>,
    /// Bios were seen: the device's empty flush bios can be told from them.
    bios_seen: bool,
    empty_bios_waiting: u64,
    empty_flush_bios: u64,
    /// A request at sector 0 completed its bytes; its flush sequence may still go on.
    sector_0_written: bool,
}

struct InFlight {
    request: Done,
    left_bytes: u64,
}

impl Pairing {
    fn queue(&mut self, event: &Event, block: &Block) {
        self.bios_seen = true;
        if block.bytes == 0 {
            self.empty_bios_waiting += 1;
        } else if let Some(sector) = block.sector {
            self.queued.insert(sector, (by(event, block), block.flags));
        }
    }

    fn issue(&mut self, event: &Event, block: &Block) {
        // A flush request is traced with sector 0 when it is issued, and without one after.
        let sector = block.sector.filter(|_| !block.flags.is_flush());
        let queued = sector.and_then(|sector| self.queued.remove(&sector));
        self.in_flight.push(InFlight {
            request: Done {
                issue_ns: Some(event.time_ns),
                complete_ns: event.time_ns,
                offset_bytes: sector.map(|sector| sector.saturating_mul(SECTOR_BYTES)),
                bytes: block.bytes,
                flags: block.flags,
                asked: queued.map(|(_, flags)| flags),
                by: Some(queued.map_or(by(event, block), |(by, _)| by)),
                issuer: block.comm,
            },
            left_bytes: block.bytes,
        });
    }

    /// The driver gave a request back. It will be issued again: only that time counts.
    fn requeue(&mut self, block: &Block) {
        let Some(at) = self.find(block) else { return };
        let request = self.in_flight.remove(at).request;
        if let (Some(offset), Some(by)) = (request.offset_bytes, request.by) {
            let asked = request.asked.unwrap_or(request.flags);
            self.queued.insert(offset / SECTOR_BYTES, (by, asked));
        }
    }

    fn complete(&mut self, event: &Event, block: &Block) {
        if !block.flags.is_flush() && block.bytes == 0 {
            self.end_of_sequence(block);
            return;
        }
        match self.find(block) {
            Some(at) => {
                let request = &mut self.in_flight[at];
                request.left_bytes = request.left_bytes.saturating_sub(block.bytes);
                if request.left_bytes == 0 {
                    self.finish(at, event.time_ns);
                }
            }
            None => self.done.push(unissued(event, block)),
        }
        self.sector_0_written |= !block.flags.is_flush() && block.sector == Some(0);
    }

    /// A write whose flushes are requests of their own completes once more, without bytes, when
    /// all of them are done, and an empty flush bio completes only so, at sector 0
    /// (blk_flush_complete_seq() in block/blk-flush.c). The counters count it here.
    fn end_of_sequence(&mut self, block: &Block) {
        if block.sector.is_some_and(|sector| sector != 0) {
            return;
        }
        let is_empty_bio = if self.bios_seen {
            self.empty_bios_waiting > 0
        } else {
            !self.sector_0_written
        };
        if is_empty_bio {
            self.empty_bios_waiting = self.empty_bios_waiting.saturating_sub(1);
            self.empty_flush_bios += 1;
        }
        self.sector_0_written = false;
    }

    fn complete_bio(&mut self, event: &Event, block: &Block) {
        // Drivers may advance a bio's place while they work, so its end is known by either.
        let place = block.sector.unwrap_or(0).saturating_mul(SECTOR_BYTES);
        let found = self.in_flight.iter().position(|waiting| {
            let start = waiting.request.offset_bytes.unwrap_or(0);
            start == place && waiting.request.bytes == block.bytes
                || block.bytes == 0 && start.checked_add(waiting.request.bytes) == Some(place)
        });
        match found.or_else(|| self.find(block)) {
            Some(at) => self.finish(at, event.time_ns),
            None => self.done.push(unissued(event, block)),
        }
    }

    /// The oldest request in flight that this one is, or is a part of.
    fn find(&self, block: &Block) -> Option<usize> {
        self.in_flight.iter().position(|waiting| {
            let request = &waiting.request;
            if block.flags.is_flush() || request.flags.is_flush() {
                return block.flags.is_flush() && request.flags.is_flush();
            }
            let (Some(sector), Some(start)) = (block.sector, request.offset_bytes) else {
                return false;
            };
            let place = sector.saturating_mul(SECTOR_BYTES);
            place >= start && (place - start < request.bytes || place == start)
        })
    }

    fn finish(&mut self, at: usize, time_ns: u64) {
        let request = self.in_flight.remove(at).request;
        self.done.push(Done {
            complete_ns: time_ns,
            ..request
        });
    }
}

fn by(event: &Event, block: &Block) -> By {
    By {
        pid: event.pid,
        comm: block.comm,
    }
}

/// A completion of what was issued before the first event.
fn unissued(event: &Event, block: &Block) -> Done {
    let sector = block.sector.filter(|_| !block.flags.is_flush());
    Done {
        issue_ns: None,
        complete_ns: event.time_ns,
        offset_bytes: sector.map(|sector| sector.saturating_mul(SECTOR_BYTES)),
        bytes: block.bytes,
        flags: block.flags,
        asked: None,
        by: None,
        issuer: Comm::default(),
    }
}
