//! Who else used the disk or the filesystem meanwhile.

use crate::model::devid::DevId;
use crate::model::record::Cell;
use crate::model::trace::Class;
use crate::model::units::{digits3, show_amount, show_ns, show_percent};

use super::{Case, Explanation, Kind, MATTERS, name, typical};
use crate::analyse::foreign::{Elsewhere, Foreign, drowned};

/// What others did while a cell ran.
struct Others {
    what: String,
    /// Per byte of what `of` names.
    share: f64,
    of: String,
    may_be: &'static str,
}

const ANYBODY: &str = "They may be other programs or the filesystem's own background work; the \
                       figures include waiting for them.";

/// Others used the disk meanwhile.
pub(super) fn foreign_io(case: &Case<'_>) -> Option<Explanation> {
    let of = |cell| {
        traced_others(case, cell)
            .into_iter()
            .chain(counted_others(case, cell))
    };
    let found: Vec<(&Cell, Others)> = case
        .cells
        .iter()
        .flat_map(|&cell| of(cell).map(move |others| (cell, others)))
        .filter(|(_, others)| others.share > MATTERS)
        .collect();
    // Not the typical but the worst: the others' load has nothing to do with the size.
    let (cell, others) = found
        .iter()
        .max_by(|one, other| one.1.share.total_cmp(&other.1.share))?;
    let text = format!(
        "Others used the disk while {} was measured: {}, {} of {}. {}",
        name(cell),
        others.what,
        show_percent(others.share),
        others.of,
        others.may_be,
    );
    let cells = case
        .cells
        .iter()
        .copied()
        .filter(|cell| found.iter().any(|(one, _)| one.spec.id == cell.spec.id));
    Some(case.explain(Kind::Fact, cells, text))
}

fn counted_others(case: &Case<'_>, cell: &Cell) -> Option<Others> {
    let foreign = case.amplification(cell)?.foreign.as_ref()?;
    let mut parts = Vec::new();
    for (bytes, verb) in [
        (foreign.written_bytes, "written"),
        (foreign.read_bytes, "read"),
    ] {
        if bytes > 0 {
            parts.push(format!("{} {verb}", show_amount(bytes)));
        }
    }
    let done = parts.join(" and ");
    let share = foreign.share;
    Some(match &foreign.outside[..] {
        [] => Others {
            what: done,
            share,
            of: "its own writes' bytes".to_owned(),
            may_be: ANYBODY,
        },
        partitions => Others {
            what: format!("{done} {}", place(case, foreign)),
            share,
            of: format!("what was written to {}", names(case, partitions)),
            may_be: "The figures include waiting for them.",
        },
    })
}

/// `on sda outside sda2, most of it on sda3`
fn place(case: &Case<'_>, foreign: &Foreign) -> String {
    let disk = device_name(case, foreign.device);
    let most = foreign.neighbour.as_ref();
    let most = most.map_or_else(String::new, |name| format!(", most of it on {name}"));
    format!("on {disk} outside {}{most}", names(case, &foreign.outside))
}

/// `sda2`, or `sda2 and sda3`
fn names(case: &Case<'_>, devices: &[DevId]) -> String {
    let names: Vec<String> = devices.iter().map(|&dev| device_name(case, dev)).collect();
    names.join(" and ")
}

fn device_name(case: &Case<'_>, dev: DevId) -> String {
    let device = case.target.devices().find(|device| device.dev == dev);
    device.map_or_else(|| dev.to_string(), |device| device.name.clone())
}

fn traced_others(case: &Case<'_>, cell: &Cell) -> Option<Others> {
    let traced = cell.traced.as_ref()?;
    // What goes to the disk beyond the target's partition is classed as others', its journal too.
    let mut neighbours = cell.slices.iter().flat_map(|slice| &slice.neighbours);
    let may_be_journal = match Elsewhere::of(case.target) {
        Elsewhere::No => false,
        Elsewhere::On(device) => neighbours.any(|one| one.dev == device),
        Elsewhere::Somewhere => true,
    };
    if may_be_journal {
        return None;
    }
    let others = traced
        .classes
        .iter()
        .find(|traffic| traffic.class == Class::Other)?;
    let share = others.bytes as f64 / traced.bytes as f64;
    share.is_finite().then(|| Others {
        what: format!(
            "{} traced as written by other processes",
            show_amount(others.bytes)
        ),
        share,
        of: "its own writes' bytes".to_owned(),
        may_be: ANYBODY,
    })
}

/// The device was read, although the run only writes.
pub(super) fn reads(case: &Case<'_>) -> Option<Explanation> {
    let found = case.counted(|_, counted| {
        // What a raw device was read beside the cell's writes is told as others'.
        let is_told = counted
            .foreign
            .as_ref()
            .is_some_and(|foreign| foreign.outside.is_empty());
        !is_told && counted.reads_per_byte > MATTERS
    });
    let (cell, counted) = found
        .iter()
        .max_by(|one, other| one.1.reads_per_byte.total_cmp(&other.1.reads_per_byte))?;
    let text = format!(
        "{} was also read while {} was measured: {} bytes per byte written, although the run only \
         writes. That may be another program on the filesystem, the filesystem looking up its own \
         metadata, or the rest of blocks that were written in part; the figures include waiting for it.",
        device_name(case, counted.device),
        name(cell),
        digits3(counted.reads_per_byte),
    );
    let cells = found.iter().map(|&(cell, _)| cell);
    Some(case.explain(Kind::Fact, cells, text))
}

/// XFS counts what programs write to its files, and it was more than the cell wrote.
pub(super) fn same_filesystem(case: &Case<'_>) -> Option<Explanation> {
    let found: Vec<(&Cell, f64)> = case
        .cells
        .iter()
        .filter_map(|&cell| {
            let all_bytes = case.effort(cell)?.filesystem_bytes?;
            Some((cell, all_bytes / cell.spec.axes.size_bytes as f64 - 1.0))
        })
        .filter(|(_, beyond)| *beyond > MATTERS)
        .collect();
    let Some((cell, beyond)) = typical(&found, |(cell, _)| cell.spec.axes.size_bytes) else {
        return uncounted(case);
    };
    let text = format!(
        "Others wrote to the same filesystem while {} was measured: by XFS's own count, {} bytes per \
         byte of the cell's own writes. The figures include waiting for them.",
        name(cell),
        digits3(*beyond),
    );
    let cells = found.iter().map(|&(cell, _)| cell);
    Some(case.explain(Kind::Fact, cells, text))
}

/// While the run did nothing, its filesystem was written to all the same.
fn uncounted(case: &Case<'_>) -> Option<Explanation> {
    let idle = case.target.idle.as_ref()?;
    let cells = case.cells.iter().copied();
    let found: Vec<(&Cell, f64)> = cells
        .filter_map(|cell| Some((cell, drowned(cell, case.target)?)))
        .collect();
    let (cell, rate) = typical(&found, |(cell, _)| cell.spec.axes.size_bytes)?;
    let text = format!(
        "Others wrote to the same filesystem: {}/s in moments in which this run did nothing ({} of {}, {} in \
         all). Amplification, flushes and effective share of {} would have their writes in them, so they are \
         left out; the latencies include waiting for them. They may be other programs or the filesystem's own \
         background work.",
        show_amount(*rate as u64),
        idle.busy_moments,
        idle.moments,
        show_ns(idle.elapsed_ns as f64),
        name(cell),
    );
    Some(case.explain(Kind::Fact, found.iter().map(|(cell, _)| *cell), text))
}
