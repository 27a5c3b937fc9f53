//! What each request to a device was for. Pure: events in, classes out.
//!
//! The classes are told by place first, because that is certain; by who submitted, and by the `M`
//! flag of the kernel's own filesystems after that; what remains is unknown.

mod commit;
mod pair;

use std::ops::Range;

use super::event::Event;
use crate::fs::{ALL, Filesystem};
use crate::model::devid::DevId;
use crate::model::trace::{Class, ClassTraffic};
use crate::model::units::SECTOR_BYTES;
use pair::{By, Done};

/// What is known of the writes that were traced.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The device whose events count: the whole disk where the target is a partition, because the
    /// events of requests and of bios name the disk, and places on it.
    pub disk: DevId,
    /// Where on the disk the target lies, in bytes.
    pub target: Range<u64>,
    /// The measured file's blocks, or the measured span: bytes of the target.
    pub data: Vec<Range<u64>>,
    /// The file's blocks may change while it is written (append, truncation, copy-on-write), so
    /// what our process writes without the `M` flag is data too, wherever it goes.
    pub data_moves: bool,
    /// Where the journal lies: bytes of the target. Empty if there is none or it isn't known.
    pub journal: Vec<Range<u64>>,
    /// Our process; its io_uring worker threads belong to it.
    pub own_pid: u32,
    /// The filesystem's type; none for a raw device.
    pub fs_type: Option<String>,
}

/// A write or flush request, from when it went to the driver until it completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it went to the driver.
    pub issue_ns: u64,
    /// When the driver completed it.
    pub complete_ns: u64,
    /// What it was for.
    pub class: Class,
    /// The device itself was asked for FUA.
    pub fua: bool,
    /// The submitter asked for a flush before it, which is a request of its own.
    pub preflush: bool,
    /// Where on the disk; none for a flush.
    pub offset_bytes: Option<u64>,
    /// What it wrote.
    pub bytes: u64,
    /// It makes a transaction valid: the commit block of a journal, or the superblock of btrfs.
    pub is_commit_block: bool,
}

/// A read at the device that somebody waits for, the process whose writes are traced or the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// When it went to the driver.
    pub issue_ns: u64,
    /// When the driver completed it.
    pub complete_ns: u64,
    /// What it read.
    pub bytes: u64,
}

/// Requests and their sums by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributed {
    /// Requests that were issued and completed between the first and the last event, in the order
    /// of their issue.
    pub requests: Vec<Request>,
    /// Reads of the target that a write may wait for, in the order of their issue: of a block that is
    /// written in part, or of the filesystem's metadata. Other processes' are left out, and what is
    /// read ahead.
    pub reads: Vec<Read>,
    /// Sums over all requests that completed, each class once, in the order of [`Class::ALL`].
    pub classes: Vec<ClassTraffic>,
    /// Requests that completed but were issued before the first event: in `classes` only.
    pub unissued: u64,
    /// Requests that were issued and did not complete before the last event: nowhere else.
    pub unfinished: u64,
    /// Bios that asked for a flush and had no bytes.
    pub empty_flush_bios: u64,
    /// The device has no requests, only bios, as zram and dm.
    pub bio_based: bool,
}

/// What the counters of a device should show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// `BlockStat::writes`
    pub writes: u64,
    /// `BlockStat::write_sectors`
    pub write_sectors: u64,
    /// `BlockStat::flushes`
    pub flushes: u64,
}

impl Attributed {
    /// What the disk's own counters should have counted for these requests. An empty flush bio
    /// counts as a write of no sectors; a write counts once, however many flushes it needs; bios of
    /// a device without requests count as writes only (blk_account_io_done() in block/blk-mq.c,
    /// bdev_start_io_acct() in block/blk-core.c).
    pub fn expected(&self) -> Expected {
        let of = |flush: bool| {
            self.classes
                .iter()
                .filter(move |traffic| (traffic.class == Class::Flush) == flush)
        };
        let flushes: u64 = of(true).map(|traffic| traffic.requests).sum();
        let writes: u64 = of(false).map(|traffic| traffic.requests).sum();
        let bytes: u64 = of(false).map(|traffic| traffic.bytes).sum();
        Expected {
            writes: writes + self.empty_flush_bios,
            write_sectors: bytes / SECTOR_BYTES,
            flushes: if self.bio_based { 0 } else { flushes },
        }
    }
}

/// Tells what each write and flush request of the scope's disk was for. `events` are in the order
/// of their times. Discards are left out.
pub fn attribute(events: &[Event], scope: &Scope) -> Attributed {
    let paired = pair::pair(events, scope.disk);
    let mut classes: Vec<ClassTraffic> = Class::ALL
        .into_iter()
        .map(|class| ClassTraffic {
            class,
            requests: 0,
            fua_requests: 0,
            bytes: 0,
        })
        .collect();
    let mut classed = Vec::with_capacity(paired.done.len());
    for done in &paired.done {
        let class = scope.class_of(done);
        if let Some(traffic) = classes.iter_mut().find(|traffic| traffic.class == class) {
            traffic.requests += 1;
            traffic.fua_requests += u64::from(done.flags.fua);
            traffic.bytes += done.bytes;
        }
        classed.push((class, *done));
    }
    let commits = commit::commit_blocks(&classed, scope);
    let requests: Vec<Request> = classed
        .iter()
        .zip(commits)
        .filter_map(|((class, done), is_commit_block)| {
            Some(Request {
                issue_ns: done.issue_ns?,
                complete_ns: done.complete_ns,
                class: *class,
                fua: done.flags.fua,
                preflush: done.asked.unwrap_or(done.flags).preflush && *class != Class::Flush,
                offset_bytes: done.offset_bytes,
                bytes: done.bytes,
                is_commit_block,
            })
        })
        .collect();
    Attributed {
        unissued: (paired.done.len() - requests.len()) as u64,
        requests,
        reads: scope.reads(events),
        classes,
        unfinished: paired.unfinished,
        empty_flush_bios: paired.empty_flush_bios,
        bio_based: paired.bio_based,
    }
}

impl Scope {
    fn reads(&self, events: &[Event]) -> Vec<Read> {
        let reads = pair::reads(events, self.disk);
        let is_waited_for = |done: &&Done| {
            let place = done.place();
            let is_inside = place.is_some_and(|place| {
                place.start >= self.target.start && place.end <= self.target.end
            });
            let by = done.by.map(|by| self.origin(by));
            let is_others = matches!(by, Some(Origin::Process) | None);
            is_inside && !is_others && !done.flags.readahead
        };
        let read = |done: &Done| {
            Some(Read {
                issue_ns: done.issue_ns?,
                complete_ns: done.complete_ns,
                bytes: done.bytes,
            })
        };
        let waited_for = reads.iter().filter(is_waited_for);
        waited_for.filter_map(read).collect()
    }

    fn class_of(&self, done: &Done) -> Class {
        let Some(place) = done.place() else {
            return Class::Flush;
        };
        if place.start < self.target.start || place.end > self.target.end {
            return Class::Other;
        }
        let place = place.start - self.target.start..place.end - self.target.start;
        if lies_in(&place, &self.journal) {
            return Class::Journal;
        }
        if lies_in(&place, &self.data) {
            return Class::Data;
        }
        match done.by.map(|by| self.origin(by)) {
            // jbd2 writes ordered data too, but that is in the file's blocks.
            Some(Origin::Jbd2) if self.journal.is_empty() => Class::Journal,
            Some(Origin::Process) => Class::Other,
            _ if done.asked.unwrap_or(done.flags).meta => Class::Metadata,
            Some(Origin::Own) if self.data_moves && self.fs().marks_metadata => Class::Data,
            _ => Class::Unknown,
        }
    }

    /// What is known of the filesystem, or of none.
    fn fs(&self) -> &'static Filesystem {
        Filesystem::of(self.fs_type.as_deref().unwrap_or_default())
    }

    fn origin(&self, by: By) -> Origin {
        if by.pid == self.own_pid {
            Origin::Own
        } else if by.comm.is_jbd2() {
            Origin::Jbd2
        } else if is_kernel_thread(by) {
            Origin::Kernel
        } else {
            Origin::Process
        }
    }
}

enum Origin {
    Own,
    Jbd2,
    Kernel,
    Process,
}

/// Is it a thread of the kernel, which may act for anybody? The events tell no more than its name;
/// one that isn't here counts as another process.
fn is_kernel_thread(by: By) -> bool {
    const NAMES: [&str; 9] = [
        "kworker/",
        "ksoftirqd/",
        "swapper/",
        "kswapd",
        "kcompactd",
        "flush-",
        "dmcrypt_write",
        "kcryptd",
        "irq/",
    ];
    let name = by.comm.as_bytes();
    by.pid == 0
        || name.is_empty()
        || ALL
            .iter()
            .flat_map(|fs| fs.threads)
            .chain(&NAMES)
            .any(|known| name.starts_with(known.as_bytes()))
}

impl Done {
    /// The bytes of the disk that it wrote or read; none for what is only a flush.
    fn place(&self) -> Option<Range<u64>> {
        let start = self.offset_bytes?;
        (self.bytes > 0).then_some(start..start.saturating_add(self.bytes))
    }
}

/// Does all of it lie in the ranges? It may lie across several that touch.
fn lies_in(place: &Range<u64>, ranges: &[Range<u64>]) -> bool {
    let mut at = place.start;
    while at < place.end {
        match ranges.iter().find(|range| range.contains(&at)) {
            Some(range) => at = range.end,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests;
