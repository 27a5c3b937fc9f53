//! The answer of a section, in sentences that stand above its tables.

use crate::analyse::gap::Gap;
use crate::analyse::interval::Interval;
use crate::analyse::quantile::is_known;
use crate::analyse::spread::cell_spread;
use crate::analyse::trunc::TruncPenalty;
use crate::model::record::{BaselineKind, Cell, Target};
use crate::model::units::{digits3, show_bytes, show_ns};

use super::figures::{UNKNOWN, mib_per_s, ratio, spread};
use super::notes::is_memory;
use super::view::Study;

/// What the target's measurements say: the gap, or where there is none the cost of a write, and the
/// price of O_TRUNC if it was measured.
pub(super) fn answers(study: &Study<'_>, target: &Target, cells: &[&Cell]) -> Vec<String> {
    let gaps = cells.iter().filter_map(|cell| study.gap(cell));
    let gap = typical(
        gaps.filter(|gap| gap.throughput_ratio.is_some()),
        |gap: &&Gap| gap.size_bytes,
    );
    let alone = || {
        let measured = cells.iter().filter(|cell| cell.latency_ns.is_some());
        alone(
            study,
            target,
            typical(measured, |cell| cell.spec.axes.size_bytes)?,
        )
    };
    let penalties = study.penalties.iter();
    let penalty = typical(
        penalties
            .filter(|penalty| penalty.target == target.id && penalty.throughput_ratio.is_some()),
        |penalty: &&TruncPenalty| penalty.size_bytes,
    );
    let main = gap.map_or_else(alone, |gap| of_gap(study, target, gap));
    let trunc = penalty.and_then(|penalty| of_trunc(study, penalty));
    main.into_iter().chain(trunc).collect()
}

/// The first at 4 KiB, which is what databases and journals write, or else the first.
fn typical<T: Copy>(
    all: impl Iterator<Item = T> + Clone,
    size_bytes: impl Fn(&T) -> u64,
) -> Option<T> {
    let first = all.clone().next();
    all.into_iter()
        .find(|one| size_bytes(one) == 4096)
        .or(first)
}

fn of_gap(study: &Study<'_>, target: &Target, gap: &Gap) -> Option<String> {
    let (raw, file) = (study.cell(&gap.raw_cell)?, study.cell(&gap.file_cell)?);
    let on = match target.baseline.as_ref().map(|baseline| baseline.kind) {
        Some(BaselineKind::Extents) => "on the same blocks of the device",
        _ => "on the raw device",
    };
    Some(format!(
        "{} {} {}{}: median {} {on}, {} through {}: {}{}",
        show_bytes(gap.size_bytes),
        gap.method,
        gap.file_state,
        buffered(study, file),
        median(raw)?,
        median(file)?,
        filesystem(target),
        verdict(gap.throughput_ratio?, ["raw", "file"]),
        of_memory(study, file),
    ))
}

/// Behind the conditions of writes that went through the page cache.
fn buffered(study: &Study<'_>, cell: &Cell) -> &'static str {
    match study.is_buffered(cell) {
        true => " buffered",
        false => "",
    }
}

/// Behind figures that say nothing of the device.
fn of_memory(study: &Study<'_>, cell: &Cell) -> &'static str {
    match is_memory(study, cell) {
        true => "; without a sync, the speed of memory and not of the device",
        false => "",
    }
}

fn alone(study: &Study<'_>, target: &Target, cell: &Cell) -> Option<String> {
    let state = cell.spec.file_state;
    let sure = cell_spread(cell);
    let sure = sure.map_or_else(String::new, |sure| format!(" {}", spread(Some(sure))));
    Some(format!(
        "{} {}{}{}: median {}, {} MiB/s{sure} {}{}",
        show_bytes(cell.spec.axes.size_bytes),
        cell.spec.axes.method,
        state.map_or_else(String::new, |state| format!(" {state}")),
        buffered(study, cell),
        median(cell)?,
        mib_per_s(cell.throughput_bytes_per_s?),
        match state {
            Some(_) => format!("through {}", filesystem(target)),
            None => format!("on {}", target.path),
        },
        of_memory(study, cell),
    ))
}

fn of_trunc(study: &Study<'_>, penalty: &TruncPenalty) -> Option<String> {
    let open = penalty.open_p50_ns.map_or_else(String::new, |ns| {
        format!("; the truncating open itself takes {}", show_ns(ns as f64))
    });
    Some(format!(
        "{} {} O_TRUNC: median {} without it, {} with it: {}{open}",
        show_bytes(penalty.size_bytes),
        penalty.method,
        median(study.cell(&penalty.overwrite_cell)?)?,
        median(study.cell(&penalty.trunc_cell)?)?,
        verdict(penalty.throughput_ratio?, ["without", "with"]),
    ))
}

fn median(cell: &Cell) -> Option<String> {
    let p50_ns = cell.latency_ns?.p50;
    Some(match is_known(cell.ops, 0.5) {
        true => show_ns(p50_ns as f64),
        false => UNKNOWN.to_owned(),
    })
}

fn filesystem(target: &Target) -> &str {
    match &target.mount {
        Some(mount) => &mount.fs_type,
        None => "the filesystem",
    }
}

/// Which side is faster, where that is known.
fn verdict(interval: Interval, [one, other]: [&str; 2]) -> String {
    let says = if interval.covers(1.0) {
        "no difference shown".to_owned()
    } else if interval.value > 1.0 {
        format!("{one} is {} times as fast", digits3(interval.value))
    } else {
        format!("{other} is {} times as fast", digits3(1.0 / interval.value))
    };
    format!("{says} ({one}/{other} {})", ratio(Some(interval)))
}
