//! What the device, the block layer and io_uring do with a write.

use crate::model::cell::{EngineKind, FileState, Method, Role};
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, Holds};
use crate::model::record::{Cell, Handed, Slice, Target};
use crate::model::trace::{Class, Phase, Traced};
use crate::model::units::{SECTOR_BYTES, digits3, show_amount, show_ns, show_percent};

use super::{Case, Explanation, Kind, MATTERS, cells_of, name, quoted, typical};
use crate::analyse::amplify::Amplification;

/// The cache setting of a device that must be flushed.
const WRITE_BACK: &str = "write back";
/// Fewer flushes per write than this are none: concurrent writes may share one, but not a thousand.
const NO_FLUSHES: f64 = 0.001;
/// Writes of a slice that tells something of each.
const TELLING_OPS: u64 = 16;
/// More than one, allowing for a slice's ends.
const TWO_FLUSHES: f64 = 1.9;
/// Mount options that make a filesystem send no flushes (ext4(5), btrfs(5)).
const NO_BARRIER: [&str; 2] = ["nobarrier", "barrier=0"];

/// The option by which a target's filesystem sends no flushes to a cache that must be flushed, if there is
/// one.
pub(in crate::analyse) fn unflushed(target: &Target) -> Option<&str> {
    let beside = target.beside.iter().map(|more| &more.stack);
    let mut stacks = [&target.stack].into_iter().chain(beside);
    let caches = stacks.any(|stack| {
        let top = stack.first();
        top.is_some_and(|device| device.write_cache.as_deref() == Some(WRITE_BACK))
    });
    no_barrier_option(target).filter(|_| caches)
}

fn no_barrier_option(target: &Target) -> Option<&str> {
    let mut options = target.mount.iter().flat_map(|mount| &mount.options);
    let option = options.find(|option| NO_BARRIER.contains(&option.as_str()));
    option.map(String::as_str)
}

/// No flush reaches a cache that loses what it holds.
pub(super) fn no_barrier(case: &Case<'_>) -> Option<Explanation> {
    let option = no_barrier_option(case.target);
    let found = case.counted(|cell, counted| {
        let device = flush_device(case, counted);
        let is_volatile =
            device.is_some_and(|device| device.write_cache.as_deref() == Some(WRITE_BACK));
        // A FUA write needs no flush, and no counter tells it.
        let has_fua = device.is_none_or(|device| device.fua != Some(false));
        cell.spec.role == Role::File
            && cell.spec.axes.method != Method::None
            && counted
                .flushes_per_write
                .is_some_and(|flushes| flushes < NO_FLUSHES)
            && is_volatile
            && match &cell.traced {
                Some(traced) if fua_requests(traced) > 0 || shows_flushes(traced) => false,
                Some(traced) if shows_all(traced) => true,
                _ => option.is_some() || !has_fua,
            }
    });
    let (cell, counted) = quoted(&found)?;
    let device = flush_device(case, counted)?;
    let why = option.map_or_else(
        || "the filesystem sends none, or something between drops them".to_owned(),
        |option| format!("the filesystem is mounted with {option}"),
    );
    let no_fua = match &cell.traced {
        Some(traced) if shows_all(traced) => " and without FUA",
        _ => "",
    };
    let text = format!(
        "{} writes through {} ended with {} flushes per write{no_fua}, although the cache of {} is \
         {WRITE_BACK}: {why}. A power failure loses writes that were acknowledged, and can damage \
         the filesystem. Let it flush, unless the cache is known to survive power loss.",
        name(cell),
        case.filesystem(),
        digits3(counted.flushes_per_write?),
        device.name,
    );
    Some(case.explain(Kind::Danger, cells_of(&found), text))
}

/// A file that grows is worth nothing without its new size, nor are blocks that were only reserved
/// without the note that they are written: at the device, that is no less than a sector for each write.
/// A slice without it proves what a mean over slices may hide.
pub(super) fn data_alone(case: &Case<'_>) -> Option<Explanation> {
    // Metadata that goes elsewhere isn't seen here.
    let journal = case.target.mount.as_ref().and_then(|m| m.journal.as_ref());
    if journal.is_some_and(|journal| journal.external != Some(false)) {
        return None;
    }
    let device = case.target.stack.first()?;
    let found = case.counted(|cell, _| {
        let axes = &cell.spec.axes;
        let changes_metadata = !matches!(cell.spec.file_state, None | Some(FileState::Overwrite));
        cell.spec.role == Role::File
            && changes_metadata
            && axes.method != Method::None
            && axes.queue_depth == 1
            && axes.jobs == 1
            && slices_alone(cell, device.dev) > 0
    });
    let (cell, counted) = quoted(&found)?;
    let text = format!(
        "{} writes through {} made {} write their data alone in {} of {} slices ({} bytes per byte over \
         all), and not what they changed of the file, its size above all. A power failure loses writes \
         that were acknowledged.{}",
        name(cell),
        case.filesystem(),
        device.name,
        slices_alone(cell, device.dev),
        cell.slices.len(),
        digits3(counted.amplification),
        match cell.spec.axes.engine {
            EngineKind::Uring => " See whether --engine sync makes the filesystem do so too.",
            EngineKind::Sync | EngineKind::Null => "",
        },
    );
    Some(case.explain(Kind::Danger, cells_of(&found), text))
}

/// Slices of so many writes that chance is out of it, in which the device wrote all of their bytes
/// and less than half a sector for each besides.
fn slices_alone(cell: &Cell, dev: DevId) -> usize {
    let is_alone = |slice: &&Slice| {
        let own = slice.devices.iter().find(|device| device.dev == dev);
        let Some(written) = own.map(|device| device.counted.write_sectors * SECTOR_BYTES) else {
            return false;
        };
        let besides = written.checked_sub(slice.bytes);
        slice.ops >= TELLING_OPS && besides.is_some_and(|b| b < slice.ops * SECTOR_BYTES / 2)
    };
    cell.slices.iter().filter(is_alone).count()
}

fn fua_requests(traced: &Traced) -> u64 {
    traced.classes.iter().map(|class| class.fua_requests).sum()
}

/// There were flushes, whatever the device counted: not every driver counts any.
fn shows_flushes(traced: &Traced) -> bool {
    let of = traced.classes.iter().filter(|of| of.class == Class::Flush);
    of.map(|of| of.requests).sum::<u64>() as f64 > NO_FLUSHES * traced.ops as f64
}

/// As many requests were traced as there were writes, so that what none of them shows was not there.
fn shows_all(traced: &Traced) -> bool {
    let requests: u64 = traced.classes.iter().map(|class| class.requests).sum();
    traced.ops > 0 && traced.lost_events == 0 && requests >= traced.ops
}

fn flush_device<'a>(case: &Case<'a>, counted: &Amplification) -> Option<&'a DeviceFacts> {
    let dev = counted.flush_device?;
    case.target.devices().find(|device| device.dev == dev)
}

/// The cell's writes are committed, each by a block of its own: by what tracing saw, or else by what
/// its file state needs. Flushes alone prove nothing, since those of others count too.
fn commits(cell: &Cell) -> bool {
    match cell.traced.as_ref().filter(|traced| traced.phase_ops > 0) {
        Some(traced) => traced
            .phases
            .iter()
            .any(|time| time.phase == Phase::CommitBlock),
        None => cell.spec.file_state != Some(FileState::Overwrite),
    }
}

/// The device that commits are written to: the journal's, or else the one that is flushed.
fn commit_device<'a>(case: &Case<'a>, counted: &Amplification) -> Option<&'a DeviceFacts> {
    let mut beside = case.target.beside.iter();
    match beside.find(|more| more.holds == Holds::Journal) {
        Some(journal) => journal.stack.first(),
        None => flush_device(case, counted),
    }
}

/// Without FUA, a commit block needs a flush before and one after it.
pub(super) fn no_fua(case: &Case<'_>) -> Option<Explanation> {
    let found = case.counted(|cell, counted| {
        let device = commit_device(case, counted);
        cell.spec.role == Role::File
            && commits(cell)
            && counted
                .flushes_per_write
                .is_some_and(|flushes| flushes >= TWO_FLUSHES)
            && device.is_some_and(|device| {
                device.fua == Some(false) && device.write_cache.as_deref() == Some(WRITE_BACK)
            })
    });
    let (cell, counted) = quoted(&found)?;
    let each = counted.flush_mean_ns.map_or_else(String::new, |ns| {
        format!(", each of {} on average", show_ns(ns))
    });
    let text = format!(
        "{} has no FUA, so that what commits a write is flushed before and after: {} flushes per {} \
         write{each}. With FUA the last of them is spared, and with a cache that survives power loss \
         all are.",
        commit_device(case, counted)?.name,
        digits3(counted.flushes_per_write?),
        name(cell),
    );
    Some(case.explain(Kind::Fact, cells_of(&found), text))
}

/// io_uring handed writes to threads of its own.
pub(super) fn worker_threads(case: &Case<'_>) -> Option<Explanation> {
    let found: Vec<(&Cell, Handed, f64)> = case
        .cells
        .iter()
        .filter_map(|&cell| Some((cell, cell.handed?, cell.handed?.share()?)))
        .filter(|(_, _, share)| *share > MATTERS)
        .collect();
    let (cell, handed, share) = typical(&found, |(cell, _, _)| cell.spec.axes.size_bytes)?;
    let text = format!(
        "io_uring handed {} of the {} writes to worker threads ({} of {} that were watched), which used {} of \
         processor time per write: {}. That time is the kernel's, not the device's; --engine sync shows the \
         write without it.",
        show_percent(*share),
        name(cell),
        handed.requests.min(handed.ops),
        handed.ops,
        show_ns(handed.worker_cpu_ns as f64 / handed.ops as f64),
        // io_fsync_prep() in io_uring/sync.c has REQ_F_FORCE_ASYNC; io_write() in io_uring/rw.c gives
        // what would block to them.
        match cell.spec.axes.method {
            Method::Fdatasync | Method::Fsync => "it never syncs a file in the submitting thread",
            _ =>
                "what would block, as a write that allocates or one of several requests, can't be \
                  issued from the submitting thread",
        },
    );
    let cells = found.iter().map(|&(cell, _, _)| cell);
    Some(case.explain(Kind::Fact, cells, text))
}

/// What the page cache and most filesystems have as blocks of a loop device's file.
const FILE_BLOCK_BYTES: u64 = 4096;

/// Blocks that straddle those of the drive, or of a loop device's file, below.
pub(super) fn misaligned(case: &Case<'_>) -> Option<Explanation> {
    let stack = &case.target.stack;
    let top = stack.first()?;
    let (lower, start_bytes, block_bytes, past_bytes) = stack.iter().find_map(straddled)?;
    let cell = typical(&case.cells, |cell| cell.spec.axes.size_bytes)?;
    let median = cell.latency_ns.map_or_else(String::new, |latency| {
        format!(
            ", as the {} writes here with their median of {}",
            name(cell),
            show_ns(latency.p50 as f64)
        )
    });
    let text = format!(
        "{} begins {start_bytes} bytes into {lower}, {} past a physical block of {block_bytes}: each write \
         of a block touches two{median}. Begin partitions, maps and loop devices at a multiple of 1 MiB of \
         what they lie on.",
        top.name,
        show_amount(past_bytes),
    );
    Some(case.explain(Kind::Tip, case.cells.iter().copied(), text))
}

/// What a target's blocks straddle at a device of its stack: the name, where the target begins there, the
/// blocks there, and how far past one of them. What lies between counts only with what it adds up to.
fn straddled(device: &DeviceFacts) -> Option<(&str, u64, u64, u64)> {
    if let (Some(file), Some(start)) = (&device.backing_file, device.file_start_bytes) {
        let past_bytes = start % FILE_BLOCK_BYTES;
        return (past_bytes > 0).then_some((file, start, FILE_BLOCK_BYTES, past_bytes));
    }
    let block_bytes = device.physical_block_bytes.filter(|&bytes| bytes > 0)?;
    let (lower, start) = match (device.target_start_bytes, device.partition_start_bytes) {
        (Some(start), _) if device.lower.is_empty() => (device.name.as_str(), start),
        // A record that doesn't say where the target begins.
        (None, Some(start)) => ("its disk", start),
        _ => return None,
    };
    let first_bytes = device.alignment_offset_bytes.unwrap_or(0) % block_bytes;
    let past_bytes = (start + block_bytes - first_bytes) % block_bytes;
    (past_bytes > 0).then_some((lower, start, block_bytes, past_bytes))
}
