//! What stands under the tables, and what is said beside them: where the figures come from, and why
//! one may doubt them. A warning names the flag to try next.

use std::collections::{BTreeMap, BTreeSet};

use crate::analyse::limits::binding_limits;
use crate::model::cell::Method;
use crate::model::record::{BaselineKind, Cell, Content, Ended, Level, Note, Record, Run, Target};
use crate::model::units::{show_amount, show_bytes, show_ns};

use super::drives;
use super::figures::{UNKNOWN, count, percent, things};
use super::view::{Line, Study, Table, is_directory};

/// The share of writes that worker threads did, or of the time that they ran, beyond which a cell's
/// latencies say more of those threads than of the device. Without any, waking the run's own threads
/// makes 0.2 % of the time.
const WORKER_SHARE: f64 = 0.01;

/// What to know about one target's figures.
pub(super) fn of_target(study: &Study<'_>, target: &Target, cells: &[&Cell]) -> Vec<Line> {
    let mut lines = Vec::new();
    if is_directory(target) {
        lines.extend(baseline(study, target, cells));
    }
    lines.extend(content(study, target));
    lines.extend(buffered(target, cells).into_iter().map(|text| {
        Line::warning(format!(
            "{text}; ask for it with --direct off, or name a directory on another filesystem"
        ))
    }));
    lines.extend(in_memory(study, cells));
    lines.extend(imprecise(study, cells));
    let shown = study.sides(cells);
    lines.extend(workers(&shown));
    lines.extend(shown.iter().filter_map(|cell| out_of_range(cell)));
    for cell in shown {
        if let Some(reason) = &cell.failed {
            let text = format!("failed: {}: {reason}", cell.spec.id);
            lines.extend([Line::remark(text.clone()), Line::warning(text)]);
        }
    }
    lines.extend(remarks(study.record, Some(target)));
    lines
}

/// What holds for the whole run.
pub(super) fn foot(study: &Study<'_>) -> Vec<Line> {
    let run = &study.record.run;
    let host = &study.record.host;
    let is_over_time = !study.record.timelines.is_empty();
    let (unit, precision) = match is_over_time {
        true => ("repetition", String::new()),
        false => (
            "round",
            format!(" precision asked for ±{};", percent(run.precision)),
        ),
    };
    let rounds = format!(
        "{} in {}, seed {};{precision} {}",
        things(run.rounds as usize, unit),
        show_ns(run.elapsed_ns as f64),
        run.seed,
        match study.record.cells.is_empty() && !is_over_time {
            true => "nothing was to be measured".to_owned(),
            false => ended(run, unit),
        },
    );
    let machine = format!(
        "{}, Linux {}, {}; {} {}; started {}",
        host.hostname,
        host.kernel,
        match host.usable_cpus {
            Some(usable) if usable < host.cpus =>
                format!("{usable} of {}", things(host.cpus as usize, "CPU")),
            _ => things(host.cpus as usize, "CPU"),
        },
        study.record.tool.name,
        study.record.tool.version,
        run.started
    );
    let durability = study.record.durability.as_ref();
    // A device that is compared with what a witness knows is only read.
    let is_measured = durability.is_none_or(|durability| durability.checked.is_none());
    let rounds = is_measured.then(|| Line::remark(rounds));
    let mut lines: Vec<Line> = rounds.into_iter().collect();
    lines.push(Line::remark(machine));
    lines.extend(limits(study.record));
    let cut_short = matches!(
        run.ended,
        Some(Ended::Interrupted | Ended::InUse | Ended::Stalled | Ended::Changed | Ended::Failed)
            | None
    );
    if cut_short && (run.rounds > 0 || is_over_time) {
        let rounds = things(run.rounds as usize, unit);
        lines.push(Line::warning(format!(
            "only {rounds}: {}",
            ended(run, unit)
        )));
    }
    lines.extend(drives::of_run(study.record));
    lines.extend(remarks(study.record, None));
    lines
}

/// Which of a target's writes were buffered although direct I/O was asked for, and why, a sentence for
/// each reason.
pub(super) fn buffered(target: &Target, cells: &[&Cell]) -> Vec<String> {
    let told = |which: &str, reason: &str| {
        format!("{which} were buffered although direct I/O was asked for: {reason}")
    };
    let mut lost: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for cell in cells {
        if let Some(buffered) = &cell.buffered {
            lost.entry(&buffered.reason)
                .or_default()
                .push(&cell.spec.id);
        }
    }
    let asked = cells.iter().filter(|cell| cell.spec.axes.direct).count();
    let whole = target.buffered.iter().map(|reason| told("writes", reason));
    let parts = lost.iter().map(|(reason, ids)| match ids.len() == asked {
        true => told("writes", reason),
        false => told(&format!("the writes of {}", ids.join(", ")), reason),
    });
    whole.chain(parts).collect()
}

/// Buffered writes that nothing syncs end in memory, and so does what they say.
fn in_memory(study: &Study<'_>, cells: &[&Cell]) -> Option<Line> {
    let is_any = study
        .sides(cells)
        .into_iter()
        .any(|cell| is_memory(study, cell));
    is_any.then(|| {
        let text = "the rates and latencies of buffered writes without a sync are those of memory: the \
                    device is written to later; ask for a sync, such as --method o_dsync, or for --direct on";
        Line::warning(text.to_owned())
    })
}

/// What a cell measured is the page cache's speed.
pub(super) fn is_memory(study: &Study<'_>, cell: &Cell) -> bool {
    cell.spec.axes.method == Method::None && study.is_buffered(cell)
}

/// What the run was held to: a fact, and a doubt.
fn limits(record: &Record) -> Vec<Line> {
    let is_measured = record.run.rounds > 0 || !record.cells.is_empty();
    let told = binding_limits(record).into_iter().filter(|_| is_measured);
    told.flat_map(|text| {
        let doubt = format!(
            "{text}: these figures may be the limit's and not the device's; measure without it"
        );
        [Line::remark(text), Line::warning(doubt)]
    })
    .collect()
}

fn ended(run: &Run, unit: &str) -> String {
    match run.ended {
        Some(Ended::Precise) => "every headline figure reached the precision".to_owned(),
        Some(Ended::Budget) if run.rounds == run.min_rounds => format!(
            "{} are made whatever the budget, here {}",
            things(run.min_rounds as usize, unit),
            show_ns(run.budget_ns as f64)
        ),
        Some(Ended::Budget) => format!("the budget of {} ended", show_ns(run.budget_ns as f64)),
        Some(Ended::Rounds) => format!("the number of {unit}s asked for was reached"),
        Some(Ended::Interrupted) => "interrupted".to_owned(),
        Some(Ended::Changed) => "a setting of what is measured changed".to_owned(),
        Some(Ended::InUse) => "the device came into use".to_owned(),
        Some(Ended::Stalled) => "nothing completed any more".to_owned(),
        Some(Ended::Failed) => "nothing was left that works".to_owned(),
        None => "not ended: still running, or killed".to_owned(),
    }
}

fn baseline(study: &Study<'_>, target: &Target, cells: &[&Cell]) -> Vec<Line> {
    let Some(baseline) = &target.baseline else {
        return Vec::new();
    };
    let raw = baseline.target.as_ref().and_then(|id| study.target(id));
    let path = raw.map_or("the device", |raw| raw.path.as_str());
    let part = |sign: &str, text: &Option<String>| {
        text.as_ref()
            .map_or_else(String::new, |text| format!("{sign}{text}"))
    };
    let why = part(": ", &baseline.reason) + &part("; ", &baseline.remedy);
    let mut lines = match baseline.kind {
        BaselineKind::Extents => vec![Line::remark(format!(
            "Baseline: the scratch file's own blocks, written through {path}{why}"
        ))],
        BaselineKind::Device => vec![Line::remark(format!("Baseline: {path}{why}"))],
        BaselineKind::None => vec![
            Line::remark(format!("No baseline, so no gap{why}")),
            Line::warning(format!("no baseline, so no gap{why}")),
        ],
    };
    let missing: Vec<&str> = cells
        .iter()
        .filter(|cell| baseline.kind != BaselineKind::None && study.gap(cell).is_none())
        .map(|cell| cell.spec.id.as_str())
        .collect();
    if !missing.is_empty() {
        let text = format!("Without a raw counterpart: {}", missing.join(", "));
        lines.push(Line::remark(text));
    }
    if let Some(raw) = raw {
        lines.extend(content(study, raw));
        lines.extend(remarks(study.record, Some(raw)));
    }
    lines
}

/// What a preserved device was written with: a drive may do zeros or compressible bytes faster.
fn content(study: &Study<'_>, target: &Target) -> Vec<Line> {
    let Some(Content {
        span_bytes,
        zero_share,
        compressible_share,
        random_share,
    }) = target.content
    else {
        return Vec::new();
    };
    let mut lines = vec![Line::remark(format!(
        "{}'s own bytes were written back: {} looked at, {} zero, {} compressible, {} random",
        target.path,
        show_amount(span_bytes),
        percent(zero_share),
        percent(compressible_share),
        percent(random_share),
    ))];
    let has_files = study
        .record
        .cells
        .iter()
        .any(|cell| cell.spec.file_state.is_some());
    if zero_share + compressible_share > 0.1 {
        lines.push(Line::warning(format!(
            "{}'s own bytes are {} zero or compressible, so a drive that compresses or skips zeros \
             looks faster than it is{}; --overwrite writes random bytes, and destroys what it holds",
            target.path,
            percent(zero_share + compressible_share),
            if has_files { ", and files are written with other bytes" } else { "" },
        )));
    }
    lines
}

fn imprecise(study: &Study<'_>, cells: &[&Cell]) -> Vec<Line> {
    let run = &study.record.run;
    let rows = cells
        .iter()
        .filter(|cell| study.imprecise.contains(&cell.spec.id) && cell.failed.is_none())
        .count();
    if rows == 0 || run.rounds == 0 {
        return Vec::new();
    }
    let more = match run.ended {
        Some(Ended::Rounds) => "ask for more --rounds",
        _ => "give the run a larger --budget",
    };
    let precision = percent(run.precision);
    vec![
        Line::remark(format!("* wider than ±{precision}")),
        Line::warning(format!(
            "{rows} of {} wider than ±{precision}: {more}, or accept less with --precision",
            things(cells.len(), "interval"),
        )),
    ]
}

/// Why a table says n/a, or lacks columns that would say nothing else.
pub(super) fn unknown(
    study: &Study<'_>,
    cells: &[&Cell],
    tables: &[Table],
    dropped: &[String],
) -> Option<Line> {
    let says = tables
        .iter()
        .flat_map(|table| table.rows.iter().flatten())
        .any(|text| text.starts_with(UNKNOWN));
    let names: Vec<&str> = dropped
        .iter()
        .map(|name| name.trim_end_matches(" µs"))
        .collect();
    let what = match (says, names.is_empty()) {
        (false, true) => return None,
        (true, true) => UNKNOWN.to_owned(),
        (false, false) => format!("No {}", names.join(", ")),
        (true, false) => format!("{UNKNOWN}, and no {}", names.join(", ")),
    };
    let nothing = cells.iter().all(|cell| cell.ops == 0);
    let why = match study.record.run.rounds {
        _ if nothing => "nothing was measured",
        0..3 => {
            "fewer than 3 rounds, which give no interval, or too few writes beyond that quantile"
        }
        _ => "too few writes beyond that quantile; a larger --budget gives more",
    };
    Some(Line::remark(format!("{what}: {why}")))
}

/// The share of the time that threads ran which are not the run's own. A polling thread is no
/// worker, and yet its time counts there.
fn busy_share(cell: &Cell) -> Option<f64> {
    let cpu_ns = cell.slices.iter().filter_map(|slice| slice.worker_cpu_ns);
    let share = cpu_ns.sum::<u64>() as f64 / cell.elapsed_ns as f64;
    (!cell.spec.axes.ring.sqpoll).then_some(share)
}

/// By the requests, or else by the time: how much the worker threads did, if it is much.
fn worker_share(cell: &Cell) -> Option<f64> {
    let counted = cell.handed.and_then(|handed| handed.share());
    let share = counted.or_else(|| busy_share(cell))?;
    (share.is_finite() && share > WORKER_SHARE).then_some(share)
}

/// Cells whose writes went through worker threads: a line for each side and state.
fn workers(cells: &[&Cell]) -> Vec<Line> {
    let mut sides = Vec::new();
    for cell in cells {
        let side = (cell.spec.role, cell.spec.file_state);
        if !sides.contains(&side) {
            sides.push(side);
        }
    }
    let of = |side| {
        cells
            .iter()
            .filter(move |cell| (cell.spec.role, cell.spec.file_state) == side)
    };
    let line = |(role, state)| {
        let handed = || of((role, state)).filter(|cell| worker_share(cell).is_some());
        let sizes = |cells: &mut dyn Iterator<Item = &&Cell>| {
            let sizes: BTreeSet<u64> = cells.map(|cell| cell.spec.axes.size_bytes).collect();
            sizes.into_iter().collect::<Vec<u64>>()
        };
        let shares = handed().filter_map(|cell| worker_share(cell));
        let least = percent(shares.clone().fold(f64::INFINITY, f64::min));
        let most = percent(shares.fold(0.0, f64::max));
        let share = if least == most {
            most
        } else {
            format!("{least} to {most}")
        };
        let what = match handed().next()?.handed {
            Some(_) => format!("{share} of writes went through io_uring worker threads"),
            None => format!("io_uring worker threads ran for {share} of the time"),
        };
        Some(Line::warning(format!(
            "{role}{}, {}: {what}, which adds microseconds that are not the device's; compare with \
             --engine sync",
            state.map_or_else(String::new, |state| format!(" {state}")),
            size_words(&sizes(&mut handed()), &sizes(&mut of((role, state)))),
        )))
    };
    sides.into_iter().filter_map(line).collect()
}

/// Some of the sizes that were measured, both ascending: `4K, 16K`, or `512 to 1M` where none
/// between is left out.
fn size_words(some: &[u64], all: &[u64]) -> String {
    match some {
        [first, _, .., last] if all.windows(some.len()).any(|window| window == some) => {
            format!("{} to {}", show_bytes(*first), show_bytes(*last))
        }
        _ => {
            let words: Vec<String> = some.iter().map(|size| show_bytes(*size)).collect();
            words.join(", ")
        }
    }
}

fn out_of_range(cell: &Cell) -> Option<Line> {
    (cell.out_of_range > 0).then(|| {
        Line::warning(format!(
            "{}: {} latencies lie outside the histogram's 1 ns to 10 min and are clamped",
            cell.spec.id,
            count(cell.out_of_range)
        ))
    })
}

/// What the run noted as good to know. What it did in another way than asked for, and what may
/// mislead, is said on standard error.
fn remarks(record: &Record, target: Option<&Target>) -> Vec<Line> {
    let about = |note: &&Note| note.target.as_ref() == target.map(|target| &target.id);
    record
        .notes
        .iter()
        .filter(about)
        .filter(|note| note.level == Level::Remark)
        .map(|note| Line::remark(note.text.clone()))
        .collect()
}
