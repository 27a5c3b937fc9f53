//! What stands under the tables: where the figures come from, and why one may doubt them.

use crate::model::record::{BaselineKind, Cell, Content, Ended, Level, Note, Record, Target};
use crate::model::units::{show_amount, show_bytes, show_ns};

use super::figures::{count, percent, things};
use super::view::{Line, Study, is_directory};

/// Requests that worker threads did, beyond which a cell's latencies say more of those threads than
/// of the device.
const WORKER_SHARE: f64 = 0.01;

/// What to know about one target's figures.
pub(super) fn of_target(study: &Study<'_>, target: &Target, cells: &[&Cell]) -> Vec<Line> {
    let mut lines = Vec::new();
    if is_directory(target) {
        lines.extend(baseline(study, target, cells));
    }
    lines.extend(content(study, target));
    if let Some(reason) = &target.buffered {
        lines.push(Line::warning(format!(
            "These writes were buffered although direct I/O was asked for: {reason}"
        )));
    }
    let mut with_raw: Vec<&Cell> = Vec::new();
    for &cell in cells {
        let raw = study.gap(cell).and_then(|gap| study.cell(&gap.raw_cell));
        for side in raw.into_iter().chain([cell]) {
            if !with_raw.iter().any(|listed| listed.spec.id == side.spec.id) {
                with_raw.push(side);
            }
        }
    }
    lines.extend(imprecise(study, cells));
    lines.extend(unknown(study, cells));
    lines.extend(with_raw.iter().filter_map(|cell| workers(cell)));
    lines.extend(with_raw.iter().filter_map(|cell| out_of_range(cell)));
    lines.extend(with_raw.iter().filter_map(|cell| {
        let reason = cell.failed.as_ref()?;
        Some(Line::warning(format!("Failed: {}: {reason}", cell.spec.id)))
    }));
    lines.extend(noted(study.record, Some(target)));
    lines
}

/// What holds for the whole run.
pub(super) fn foot(study: &Study<'_>) -> Vec<Line> {
    let run = &study.record.run;
    let host = &study.record.host;
    let ended = match run.ended {
        Some(Ended::Precise) => "every headline figure reached the precision".to_owned(),
        Some(Ended::Budget) => format!("the budget of {} ended", show_ns(run.budget_ns as f64)),
        Some(Ended::Rounds) => "the number of rounds asked for was reached".to_owned(),
        Some(Ended::Interrupted) => "interrupted".to_owned(),
        Some(Ended::Failed) => "no cell was left that works".to_owned(),
        None => "not ended: still running, or killed".to_owned(),
    };
    let text = format!(
        "{} in {}, seed {}; precision asked for ±{}; {ended}",
        things(run.rounds as usize, "round"),
        show_ns(run.elapsed_ns as f64),
        run.seed,
        percent(run.precision),
    );
    let cut_short = matches!(run.ended, Some(Ended::Interrupted | Ended::Failed) | None);
    let mut lines = vec![if cut_short {
        Line::warning(text)
    } else {
        Line::remark(text)
    }];
    lines.push(Line::remark(format!(
        "{}, Linux {}, {}; {} {}; started {}",
        host.hostname,
        host.kernel,
        things(host.cpus as usize, "CPU"),
        study.record.tool.name,
        study.record.tool.version,
        run.started
    )));
    lines.extend(noted(study.record, None));
    lines
}

fn baseline(study: &Study<'_>, target: &Target, cells: &[&Cell]) -> Vec<Line> {
    let Some(baseline) = &target.baseline else {
        return Vec::new();
    };
    let raw = baseline.target.as_ref().and_then(|id| study.target(id));
    let path = raw.map_or("the device", |raw| raw.path.as_str());
    let reason = baseline
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let remedy = baseline
        .remedy
        .as_ref()
        .map(|remedy| format!("; {remedy}"))
        .unwrap_or_default();
    let mut lines = Vec::new();
    lines.push(match baseline.kind {
        BaselineKind::Extents => Line::remark(format!(
            "Baseline: the scratch file's own blocks, written through {path}{reason}{remedy}"
        )),
        BaselineKind::Device => Line::remark(format!("Baseline: {path}{reason}{remedy}")),
        BaselineKind::None => Line::warning(format!("No baseline, so no gap{reason}{remedy}")),
    });
    let missing: Vec<&str> = cells
        .iter()
        .filter(|cell| baseline.kind != BaselineKind::None && study.gap(cell).is_none())
        .map(|cell| cell.spec.id.as_str())
        .collect();
    if !missing.is_empty() {
        lines.push(Line::warning(format!(
            "Without a raw counterpart: {}",
            missing.join(", ")
        )));
    }
    if let Some(raw) = raw {
        lines.extend(content(study, raw));
        lines.extend(noted(study.record, Some(raw)));
    }
    lines
}

/// What a preserved device was written with: a drive may do zeros or compressible bytes faster.
fn content(study: &Study<'_>, target: &Target) -> Option<Line> {
    let Content {
        span_bytes,
        zero_share,
        compressible_share,
        random_share,
    } = target.content?;
    let text = format!(
        "{}'s own bytes were written back: {} looked at, {} zero, {} compressible, {} random",
        target.path,
        show_amount(span_bytes),
        percent(zero_share),
        percent(compressible_share),
        percent(random_share),
    );
    let has_files = study
        .record
        .cells
        .iter()
        .any(|cell| cell.spec.file_state.is_some());
    if zero_share + compressible_share <= 0.1 {
        return Some(Line::remark(text));
    }
    let unlike = if has_files {
        ", and files were written with other bytes"
    } else {
        ""
    };
    Some(Line::warning(format!(
        "{text}; drives that compress or skip zeros look faster than they are{unlike}"
    )))
}

fn imprecise(study: &Study<'_>, cells: &[&Cell]) -> Option<Line> {
    let rows = cells
        .iter()
        .filter(|cell| study.imprecise.contains(&cell.spec.id) && cell.failed.is_none())
        .count();
    (rows > 0).then(|| {
        Line::warning(format!(
            "* {rows} of {} wider than ±{}: give the run a larger --budget, or accept less \
             with --precision",
            things(cells.len(), "row"),
            percent(study.record.run.precision)
        ))
    })
}

/// Why a table says n/a.
fn unknown(study: &Study<'_>, cells: &[&Cell]) -> Option<Line> {
    let gaps: Vec<_> = cells.iter().filter_map(|cell| study.gap(cell)).collect();
    let few_rounds = gaps.iter().any(|gap| gap.rounds < 3);
    let lacks = gaps.iter().any(|gap| {
        gap.p50_delta_ns.is_none() || gap.p99_delta_ns.is_none() || gap.p99_9_delta_ns.is_none()
    });
    let few_ops = cells.iter().any(|cell| cell.ops < 1000);
    let reason = if few_rounds {
        "fewer than 3 rounds, so no interval can be given"
    } else if lacks || few_ops {
        "too few writes beyond that quantile to bound it; a larger --budget gives more"
    } else {
        return None;
    };
    Some(Line::remark(format!("n/a: {reason}")))
}

fn workers(cell: &Cell) -> Option<Line> {
    let requests: u64 = cell
        .slices
        .iter()
        .filter_map(|slice| slice.worker_requests)
        .sum();
    // A write that failed was handed over too, and is not among the cell's writes.
    let requests = requests.min(cell.ops);
    let share = requests as f64 / cell.ops as f64;
    (cell.ops > 0 && share > WORKER_SHARE).then(|| {
        Line::warning(format!(
            "{} {}: {} of {} writes ({}) went through io_uring worker threads, which adds \
             microseconds that are not the device's; compare with --engine sync",
            cell.spec.role,
            show_bytes(cell.spec.axes.size_bytes),
            count(requests),
            count(cell.ops),
            percent(share),
        ))
    })
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

fn noted(record: &Record, target: Option<&Target>) -> Vec<Line> {
    let about = |note: &&Note| note.target.as_ref() == target.map(|target| &target.id);
    record
        .notes
        .iter()
        .filter(about)
        .map(|note| match note.level {
            Level::Remark => Line::remark(note.text.clone()),
            Level::Fallback | Level::Warning => Line::warning(note.text.clone()),
        })
        .collect()
}
