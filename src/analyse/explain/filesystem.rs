//! What the filesystem does for a write, and what the file's state has to do with it.

use std::ops::RangeInclusive;

use crate::fs::{Filesystem, Journal};
use crate::model::cell::{FileState, Method};
use crate::model::trace::Class;
use crate::model::units::{digits3, show_amount, show_bytes, show_ns};

use super::{Case, Explanation, Kind, cells_of, cost, medians, name, quoted, short_cost, typical};
use crate::analyse::amplify::Amplification;
use crate::analyse::overhead::WriteOverhead;
use crate::model::record::Cell;

/// Bytes per byte from which a write is not just itself: counters of a cell that overwrites in place
/// come out at 1.00.
const AMPLIFIED: f64 = 1.1;
/// Bytes per byte from which data was written twice.
const TWICE: f64 = 1.5;
/// A journal that is small whatever the load: mke2fs makes larger ones for filesystems of 1 GiB
/// and more (`ext2fs_default_journal_size` in e2fsprogs, lib/ext2fs/mkjournal.c).
const SMALL_JOURNAL_BYTES: u64 = 16 << 20;
/// A journal that is filled faster than this writes back metadata all the time to make room.
const FILLED_QUICKLY_NS: f64 = 1e9;

/// Commits per write that are one for each, allowing for the filesystem's own now and then.
const ONE_EACH: RangeInclusive<f64> = 0.9..=1.1;

/// Opening with O_TRUNC costs throughput, beyond doubt.
pub(super) fn truncation(case: &Case<'_>) -> Option<Explanation> {
    let slower: Vec<_> = case
        .penalties
        .iter()
        .filter(|penalty| penalty.target == case.target.id)
        .filter_map(|penalty| Some((penalty, penalty.throughput_ratio?)))
        .filter(|(_, ratio)| ratio.low > 1.0)
        .collect();
    let (penalty, ratio) = typical(&slower, |(penalty, _)| penalty.size_bytes)?;
    let cell = |id: &str| case.cells.iter().copied().find(|cell| cell.spec.id == id);
    let (trunc, overwrite) = (cell(&penalty.trunc_cell)?, cell(&penalty.overwrite_cell)?);
    let at_device = match (case.amplification(trunc), case.amplification(overwrite)) {
        (Some(with), Some(without)) => {
            format!(": {}, against {}", cost(with), short_cost(without))
        }
        _ => String::new(),
    };
    let text = format!(
        "O_TRUNC made {} writes {} times as slow (95 % interval {} to {}{}), because the blocks that \
         it frees are allocated again, write by write{at_device}. Open without it and overwrite in \
         place.",
        show_bytes(penalty.size_bytes),
        digits3(ratio.value),
        digits3(ratio.low),
        digits3(ratio.high),
        medians(trunc, overwrite),
    );
    let cells = slower
        .iter()
        .filter_map(|(penalty, _)| cell(&penalty.trunc_cell));
    Some(case.explain(Kind::Tip, cells, text))
}

/// Preallocated extents are marked as written by the first write to them. What there is to do about it is
/// told only where it helped in this very run: a filesystem that copies on write, or that journals data,
/// does as much for extents that were written.
pub(super) fn unwritten(case: &Case<'_>) -> Option<Explanation> {
    let into_written = |cell: &Cell| {
        let other = case.overwrite_of(cell)?;
        Some((other, case.amplification(other)?))
    };
    let p50_ns = |cell: &Cell| cell.latency_ns.map_or(0, |latency| latency.p50);
    let found = case.counted(|cell, counted| {
        cell.spec.file_state == Some(FileState::Unwritten)
            && counted.amplification >= AMPLIFIED
            && into_written(cell).is_some_and(|(other, without)| {
                counted.amplification >= without.amplification * AMPLIFIED
                    && p50_ns(other) <= p50_ns(cell)
            })
    });
    let (cell, counted) = quoted(&found)?;
    let (other, without) = into_written(cell)?;
    let text = format!(
        "{} writes into preallocated extents that nothing had written: {}, against {} into written ones{}. \
         The first write to each must also be recorded in the filesystem. Fill files once, rather than only \
         preallocate them.",
        show_bytes(cell.spec.axes.size_bytes),
        cost(counted),
        short_cost(without),
        medians(cell, other),
    );
    Some(case.explain(Kind::Tip, cells_of(&found), text))
}

/// data=journal writes data twice.
pub(super) fn data_journal(case: &Case<'_>) -> Option<Explanation> {
    let journal = case.target.mount.as_ref()?.journal.as_ref()?;
    if journal.mode.as_deref() != Some("journal") {
        return None;
    }
    let found = case
        .counted(|cell, counted| cell.spec.file_state.is_some() && counted.amplification >= TWICE);
    let (cell, counted) = quoted(&found)?;
    let text = format!(
        "data=journal writes data to the journal first and in place later: {} for {}. With \
         data=ordered, the default, data is written once.",
        cost(counted),
        name(cell),
    );
    Some(case.explain(Kind::Tip, cells_of(&found), text))
}

/// Copy-on-write writes a new block, and the tree that leads to it.
pub(super) fn copy_on_write(case: &Case<'_>) -> Option<Explanation> {
    let fs = Filesystem::of(case.filesystem());
    let off = fs.extras.copies_unless?;
    if case.has_option(&[off]).is_some() || case.target.nocow == Some(true) {
        return None;
    }
    let found = case.counted(|cell, counted| {
        cell.spec.file_state == Some(FileState::Overwrite) && counted.amplification >= AMPLIFIED
    });
    let (cell, counted) = quoted(&found)?;
    let text = format!(
        "{} copies on write: a {} put {} in {} requests, since each write takes new blocks and \
         logs the trees that lead to them. `chattr +C` on a directory makes files created in it \
         overwrite in place, without checksums.",
        fs.name,
        name(cell),
        cost(counted),
        digits3(counted.requests_per_write),
    );
    Some(case.explain(Kind::Tip, cells_of(&found), text))
}

/// A small journal that these writes fill again and again.
pub(super) fn small_journal(case: &Case<'_>) -> Option<Explanation> {
    let size_bytes = case.target.mount.as_ref()?.journal.as_ref()?.size_bytes?;
    if size_bytes > SMALL_JOURNAL_BYTES || Filesystem::of(case.filesystem()).journal != Journal::Ext
    {
        return None;
    }
    let found = case.counted(|cell, counted| {
        journal_bytes_per_s(cell, counted)
            .is_some_and(|rate| size_bytes as f64 / rate * 1e9 < FILLED_QUICKLY_NS)
    });
    let (cell, counted) = quoted(&found)?;
    let rate = journal_bytes_per_s(cell, counted)?;
    let text = format!(
        "The journal of {} is small for this load: {} writes {} per second beyond the data, which \
         fills it every {}, and a full journal holds writes up until metadata is written back. \
         `tune2fs -J size=128` makes a larger one, on the unmounted filesystem, after `tune2fs -O \
         ^has_journal`.",
        show_amount(size_bytes),
        name(cell),
        show_amount(rate as u64),
        show_ns(size_bytes as f64 / rate * 1e9),
    );
    Some(case.explain(Kind::Tip, cells_of(&found), text))
}

/// What the journal or log wrote of its own, per write.
struct Committed {
    per_write: f64,
    /// `transaction` or `log write`
    what: &'static str,
    /// What one of them was.
    each: String,
}

fn committed(effort: &WriteOverhead) -> Option<Committed> {
    if let Some(per_write) = effort.transactions {
        let each = effort.commit_ns.map(show_ns);
        return Some(Committed {
            per_write,
            what: "journal transaction",
            each: each.map_or_else(String::new, |time| {
                format!(", the last few of {time} by the journal's own running average")
            }),
        });
    }
    let (writes, bytes) = effort.log_writes.zip(effort.log_bytes)?;
    Some(Committed {
        per_write: writes,
        what: "log write",
        each: format!(", each of {}", show_amount((bytes / writes) as u64)),
    })
}

/// Every write is committed by itself.
pub(super) fn own_transaction(case: &Case<'_>) -> Option<Explanation> {
    let of = |cell: &Cell| committed(case.effort(cell)?);
    let found: Vec<(&Cell, Committed)> = case
        .cells
        .iter()
        .filter_map(|&cell| Some((cell, of(cell)?)))
        .filter(|(_, committed)| ONE_EACH.contains(&committed.per_write))
        .collect();
    let (cell, committed) = typical(&found, |(cell, _)| cell.spec.axes.size_bytes)?;
    let in_place = case
        .overwrite_of(cell)
        .filter(|overwrite| overwrite.spec.id != cell.spec.id)
        .and_then(of);
    let beside = in_place.as_ref().map(|other| other.per_write);
    let spared = spared(cell, beside);
    let in_place = in_place.map_or_else(String::new, |other| {
        format!(", against {} to overwrite", digits3(other.per_write))
    });
    let what = committed.what;
    let text = format!(
        "Each {} write is a {what} of its own: {} {what}s per write{in_place}{}. Only writes at the \
         same time share one{spared}.",
        name(cell),
        digits3(committed.per_write),
        committed.each,
    );
    let cells = found.iter().map(|(cell, _)| *cell);
    Some(case.explain(Kind::Fact, cells, text))
}

/// Which writes need no commit, as far as this run doesn't say otherwise: `per_overwrite` is what those in
/// place were. fdatasync(2) and O_DSYNC (open(2)) leave metadata that isn't needed to read the data back;
/// with data=journal, the data itself is committed.
fn spared(cell: &Cell, per_overwrite: Option<f64>) -> &'static str {
    let is_in_place = cell.spec.file_state == Some(FileState::Overwrite);
    match cell.spec.axes.method {
        Method::Fsync | Method::OSync => {
            "; fsync and O_SYNC commit the time of a file's change too, while fdatasync and O_DSYNC don't"
        }
        _ if is_in_place || per_overwrite.is_some_and(|each| each >= *ONE_EACH.start()) => "",
        _ => "; writes that change nothing but data that is there already need none",
    }
}

/// What a cell wrote to the journal: as traced, or else what the device wrote beyond the data. None
/// where that is too little to tell from nothing.
fn journal_bytes_per_s(cell: &Cell, counted: &Amplification) -> Option<f64> {
    if let Some(traced) = cell.traced.as_ref().filter(|traced| traced.elapsed_ns > 0) {
        let journal = traced
            .classes
            .iter()
            .find(|traffic| traffic.class == Class::Journal)?;
        return Some(journal.bytes as f64 / traced.elapsed_ns as f64 * 1e9)
            .filter(|&rate| rate > 0.0);
    }
    (counted.amplification >= AMPLIFIED)
        .then(|| counted.device_bytes_per_s * (1.0 - 1.0 / counted.amplification))
}
