//! What each way to make a write synchronous costs over the same write without one.

use serde::{Deserialize, Serialize};

use crate::model::cell::Method;
use crate::model::durability::Durability;
use crate::model::record::{Cell, Record, Target};
use crate::model::units::{digits3, show_amount, show_ns};

use super::super::amplify::flushes_per_op;
use super::super::compare::compare;
use super::super::interval::Interval;
use super::{Finding, Question, Verdict, is_write_back, own_word};

/// A flush with something to bring counts as longer than an empty one only if it is so by this share of
/// the medians that enter without an interval.
const SAME_SHARE: f64 = 0.1;
/// Flushes counted per flush asked for, beyond which each was sent. A request that the kernel merges
/// with another's counts once.
const EACH_SENT: f64 = 0.9;

/// One way to make a write synchronous, against none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The `id` of its cell.
    pub cell: String,
    /// The `id` of the cell of the same writes without a sync; none of an empty flush, which has
    /// none.
    pub bare_cell: Option<String>,
    /// Median latency over that of the bare cell, by paired rounds.
    pub p50_cost_ns: Option<Interval>,
    /// Flush requests that the device counted, per operation; none where no device of the stack
    /// counts any, or where others' count among them.
    pub flushes_per_op: Option<f64>,
}

/// The costs of a record's ablation, in the order of its cells; none of a record that asked nothing of
/// the kind.
pub fn costs(record: &Record) -> Vec<Cost> {
    if record.durability.is_none() {
        return Vec::new();
    }
    record
        .cells
        .iter()
        .filter(|cell| cell.spec.axes.method != Method::None && cell.ops > 0)
        .map(|cell| {
            let bare = bare_of(record, cell);
            let target = record.targets.iter().find(|of| of.id == cell.spec.target);
            Cost {
                cell: cell.spec.id.clone(),
                bare_cell: bare.map(|bare| bare.spec.id.clone()),
                p50_cost_ns: bare.and_then(|bare| compare(bare, cell).p50_delta_ns),
                flushes_per_op: target.and_then(|target| flushes_per_op(record, cell, target)),
            }
        })
        .collect()
}

/// The same writes on the same engine without a sync.
fn bare_of<'a>(record: &'a Record, cell: &Cell) -> Option<&'a Cell> {
    let axes = &cell.spec.axes;
    if axes.method == Method::EmptyFlush {
        return None;
    }
    record.cells.iter().find(|other| {
        let bare = &other.spec.axes;
        let same = (bare.size_bytes, bare.engine) == (axes.size_bytes, axes.engine);
        bare.method == Method::None && same && other.ops > 0
    })
}

pub(super) fn findings(record: &Record, target: &Target, told: &Durability) -> Vec<Finding> {
    let costs = costs(record);
    vec![
        sent(record, target, &costs),
        flush(record, target, told, &costs),
        dirty_bytes(record, target, &costs),
        fua(record, target, told, &costs),
    ]
}

/// The costs of a method, by size, smallest first.
fn of<'a>(record: &'a Record, costs: &'a [Cost], method: Method) -> Vec<(&'a Cell, &'a Cost)> {
    let mut found: Vec<(&Cell, &Cost)> = costs
        .iter()
        .filter_map(|cost| {
            let cell = record.cells.iter().find(|cell| cell.spec.id == cost.cell)?;
            (cell.spec.axes.method == method).then_some((cell, cost))
        })
        .collect();
    found.sort_by_key(|(cell, _)| cell.spec.axes.size_bytes);
    found
}

/// Why no flush is to be seen at all, where the kernel sends none.
fn no_flush(target: &Target) -> Option<&'static str> {
    match is_write_back(target) {
        Some(true) => None,
        Some(false) => Some(
            "the kernel takes the device, or what is below it, for write through and sends no flush",
        ),
        None => Some("the kernel doesn't say whether it sends the device flushes"),
    }
}

fn sent(record: &Record, target: &Target, costs: &[Cost]) -> Finding {
    let finding =
        |verdict, reason: String| Finding::new(Question::FlushSent, verdict, vec![reason]);
    let empty = of(record, costs, Method::EmptyFlush);
    let counted = empty.first().and_then(|(_, cost)| cost.flushes_per_op);
    match (no_flush(target), counted) {
        (Some(why), _) => finding(Verdict::NotTestable, why.to_owned()),
        (None, Some(each)) if each >= EACH_SENT => finding(
            Verdict::Consistent,
            format!(
                "the kernel counted {} flushes completed by the device for each that was asked for",
                digits3(each)
            ),
        ),
        (None, Some(each)) if each > 0.0 => finding(
            Verdict::Suspicious,
            format!(
                "the kernel counted only {} flushes for each that was asked for",
                digits3(each)
            ),
        ),
        (None, _) => finding(
            Verdict::NotTestable,
            "the kernel counts no flushes on this sort of device, or others wrote to the disk below, \
             whose flushes count there too"
                .to_owned(),
        ),
    }
}

/// Does a flush of a little take longer than one of nothing?
fn flush(record: &Record, target: &Target, told: &Durability, costs: &[Cost]) -> Finding {
    let untestable = |why: &str| not_testable(Question::Flush, why);
    if let Some(why) = no_flush(target) {
        return untestable(why);
    }
    let Some(Medians {
        size_bytes,
        bare_ns,
        empty_ns,
        full_ns,
        over_empty,
    }) = medians(record, costs)
    else {
        return untestable("too few rounds for a comparison");
    };
    let measured = format!(
        "a write of {} takes {}, with a flush {}; a flush alone, {}",
        show_amount(size_bytes),
        show_ns(bare_ns),
        show_ns(full_ns),
        show_ns(empty_ns)
    );
    // A flush that has nothing to bring adds just what it takes alone.
    let slack_ns = SAME_SHARE * bare_ns.max(empty_ns);
    if over_empty.low > bare_ns + slack_ns {
        return Finding::new(Question::Flush, Verdict::Consistent, vec![measured]);
    }
    if over_empty.high > bare_ns + slack_ns {
        let why = "which is too unsteady to tell them apart: give the run a larger --budget";
        let reasons = vec![measured, why.to_owned()];
        return Finding::new(Question::Flush, Verdict::NotTestable, reasons);
    }
    let open = "so the flush found nothing to do, or did nothing";
    let reasons = vec![measured, open.to_owned()];
    cacheless(Question::Flush, target, &reasons)
        .unwrap_or_else(|| no_wait(Question::Flush, told, reasons))
}

/// The median latencies that tell what a flush has to do.
struct Medians {
    size_bytes: u64,
    /// Of a write alone.
    bare_ns: f64,
    /// Of a flush alone.
    empty_ns: f64,
    /// Of a write and a flush.
    full_ns: f64,
    /// How much longer a write and a flush take than a flush alone.
    over_empty: Interval,
}

fn medians(record: &Record, costs: &[Cost]) -> Option<Medians> {
    let p50_ns = |cell: &Cell| Some(cell.latency_ns?.p50 as f64);
    let (empty, _) = *of(record, costs, Method::EmptyFlush).first()?;
    let (full, _) = *of(record, costs, Method::Fdatasync).first()?;
    Some(Medians {
        size_bytes: full.spec.axes.size_bytes,
        bare_ns: p50_ns(bare_of(record, full)?)?,
        empty_ns: p50_ns(empty)?,
        full_ns: p50_ns(full)?,
        over_empty: compare(empty, full).p50_delta_ns?,
    })
}

/// A drive that says that it has no volatile cache, or that it is off, waits in every write: then
/// a sync has nothing left to wait for.
fn cacheless(question: Question, target: &Target, reasons: &[String]) -> Option<Finding> {
    let (name, _) = own_word(target).filter(|(_, is_volatile)| !is_volatile)?;
    let explains = format!(
        "{name} itself says that it has no volatile cache, or that it is off, which explains it"
    );
    let reasons = reasons.iter().cloned().chain([explains]).collect();
    Some(Finding::new(question, Verdict::Consistent, reasons))
}

/// Nothing waited for the medium: an honest device does that only where its cache survives.
pub(super) fn no_wait(question: Question, told: &Durability, mut reasons: Vec<String>) -> Finding {
    let (verdict, reason) = match told.protected {
        true => (
            Verdict::Consistent,
            "a cache that survives a loss of power, which you say it has, explains it",
        ),
        false => (
            Verdict::Suspicious,
            "a cache that survives a loss of power would explain it: if the vendor claims one, say \
             --protected",
        ),
    };
    reasons.push(reason.to_owned());
    Finding::new(question, verdict, reasons)
}

fn dirty_bytes(record: &Record, target: &Target, costs: &[Cost]) -> Finding {
    let untestable = |why: &str| not_testable(Question::DirtyBytes, why);
    if let Some(why) = no_flush(target) {
        return untestable(why);
    }
    let known: Vec<(u64, Interval)> = of(record, costs, Method::Fdatasync)
        .iter()
        .filter_map(|(cell, cost)| Some((cell.spec.axes.size_bytes, cost.p50_cost_ns?)))
        .collect();
    let (Some((least, little)), Some((most, much))) = (known.first(), known.last()) else {
        return untestable("too few rounds for a comparison");
    };
    if least == most {
        return untestable("the device has no room for a second size");
    }
    let measured = format!(
        "a flush costs {} after {}, {} after {}",
        show_ns(little.value.max(0.0)),
        show_amount(*least),
        show_ns(much.value.max(0.0)),
        show_amount(*most)
    );
    if much.low > little.high {
        return Finding::new(Question::DirtyBytes, Verdict::Consistent, vec![measured]);
    }
    let open = "which doesn't grow: what was written may have reached the medium before the flush \
                came, or have been safe at once, or the flush does nothing";
    Finding::new(
        Question::DirtyBytes,
        Verdict::NotTestable,
        vec![measured, open.to_owned()],
    )
}

fn fua(record: &Record, target: &Target, told: &Durability, costs: &[Cost]) -> Finding {
    let untestable = |why: &str| not_testable(Question::Fua, why);
    // The block layer takes FUA from a write, as it drops flushes (submit_bio_noacct() in
    // block/blk-core.c).
    if is_write_back(target) == Some(false) {
        return untestable(
            "the kernel takes the device, or what is below it, for write through and sends no FUA",
        );
    }
    match target.stack.first().and_then(|device| device.fua) {
        Some(true) => {}
        Some(false) => {
            return untestable(
                "the device takes no FUA: the kernel sends a flush behind each write",
            );
        }
        None => return untestable("the kernel doesn't say whether the device takes FUA"),
    }
    let writes = of(record, costs, Method::RwfDsync);
    let cost = writes.first().and_then(|(_, cost)| cost.p50_cost_ns);
    let Some(cost) = cost else {
        return untestable("too few rounds for a comparison");
    };
    if cost.low > 0.0 {
        let reason = format!("FUA makes a write {} longer", show_ns(cost.value));
        return Finding::new(Question::Fua, Verdict::Consistent, vec![reason]);
    }
    let reason = "a FUA write takes no longer than one without".to_owned();
    let reasons = vec![reason];
    cacheless(Question::Fua, target, &reasons)
        .unwrap_or_else(|| no_wait(Question::Fua, told, reasons))
}

fn not_testable(question: Question, why: &str) -> Finding {
    Finding::new(question, Verdict::NotTestable, vec![why.to_owned()])
}
