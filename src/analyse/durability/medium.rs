//! Can each synchronous write have waited for the medium: for the platter to come round, or for the
//! flash to be programmed?

use crate::model::cell::Method;
use crate::model::durability::Durability;
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::model::record::{Cell, Record, Target};
use crate::model::units::{digits3, show_ns};

use super::super::spread::cell_spread;
use super::{Finding, Question, Verdict};

/// Where the user doesn't say how fast a disk turns: the fastest that is common.
const DEFAULT_RPM: u32 = 7200;
/// Where the user doesn't say how long flash takes: single-level cells program a page in 200 to
/// 300 µs, and no other kind is faster.
const DEFAULT_PROGRAM_NS: u64 = 200_000;
/// A disk that turns a little faster than it should is no miracle.
const RPM_SLACK: f64 = 1.05;

/// What a device writes to in the end.
enum Medium {
    Platter { rpm: u32 },
    Flash { program_ns: u64 },
    Unknown { why: String },
}

pub(super) fn finding(record: &Record, target: &Target, told: &Durability) -> Finding {
    let fastest = record
        .cells
        .iter()
        .filter(|cell| is_sync_write(cell))
        .filter(|cell| cell.latency_ns.is_some())
        .min_by_key(|cell| cell.latency_ns.map(|latency| latency.p50));
    let Some(fastest) = fastest else {
        return untestable("no synchronous write completed".to_owned());
    };
    match medium(&target.stack, told) {
        Medium::Platter { rpm } => platter(fastest, rpm),
        Medium::Flash { program_ns } => flash(fastest, program_ns, told),
        Medium::Unknown { why } => untestable(why),
    }
}

fn is_sync_write(cell: &Cell) -> bool {
    !matches!(cell.spec.axes.method, Method::None | Method::EmptyFlush)
}

fn untestable(why: String) -> Finding {
    Finding::new(Question::Medium, Verdict::NotTestable, vec![why])
}

/// What the user says, or else what the drives at the bottom of the stack are.
fn medium(stack: &[DeviceFacts], told: &Durability) -> Medium {
    if let Some(rpm) = told.rpm {
        return Medium::Platter { rpm };
    }
    if let Some(program_ns) = told.program_ns {
        return Medium::Flash { program_ns };
    }
    let unknown = |why: String| Medium::Unknown {
        why: format!("{why}; say what is below it with --rpm or --program-time"),
    };
    let soft = [DeviceKind::Loop, DeviceKind::Zram];
    if let Some(device) = stack.iter().find(|device| soft.contains(&device.kind)) {
        return unknown(format!("{} is no drive", device.name));
    }
    let drives = stack
        .iter()
        .filter(|device| device.kind == DeviceKind::Disk);
    let turns: Vec<Option<bool>> = drives.map(|drive| drive.rotational).collect();
    match turns.first() {
        Some(Some(first)) if turns.iter().all(|turns| *turns == Some(*first)) => match first {
            true => Medium::Platter { rpm: DEFAULT_RPM },
            false => Medium::Flash {
                program_ns: DEFAULT_PROGRAM_NS,
            },
        },
        _ => unknown("the kernel doesn't say whether it turns, or its drives differ".to_owned()),
    }
}

fn platter(cell: &Cell, rpm: u32) -> Finding {
    let most_per_s = f64::from(rpm) / 60.0;
    let Some(rate) = cell_spread(cell) else {
        return untestable("too few rounds to be sure of a rate".to_owned());
    };
    let per_write = cell.spec.axes.size_bytes as f64;
    let (value, low, high) = (
        rate.value / per_write,
        rate.low / per_write,
        rate.high / per_write,
    );
    let measured = format!(
        "{} {} writes/s to one place; a disk of {rpm} rpm is back there {} times a second",
        digits3(value),
        cell.spec.axes.method,
        digits3(most_per_s)
    );
    if high <= most_per_s * RPM_SLACK {
        return Finding::new(Question::Medium, Verdict::Consistent, vec![measured]);
    }
    if low <= most_per_s * RPM_SLACK {
        let why = "the interval holds that rate: give the run a larger --budget".to_owned();
        return Finding::new(Question::Medium, Verdict::NotTestable, vec![measured, why]);
    }
    let open = "so a cache answered, or it is no such disk: a virtual disk's word for turning means \
                nothing, and whether the cache survives a loss of power no timing tells";
    Finding::new(
        Question::Medium,
        Verdict::Contradicted,
        vec![measured, open.to_owned()],
    )
}

fn flash(cell: &Cell, program_ns: u64, told: &Durability) -> Finding {
    let p50_ns = cell.latency_ns.map_or(0, |latency| latency.p50);
    let measured = format!(
        "the fastest synchronous write, {}, takes {} at the median; programming a page of flash, {} \
         or more",
        cell.spec.axes.method,
        show_ns(p50_ns as f64),
        show_ns(program_ns as f64)
    );
    if p50_ns >= program_ns {
        return Finding::new(Question::Medium, Verdict::Consistent, vec![measured]);
    }
    super::ablation::no_wait(
        Question::Medium,
        told,
        vec![measured, "so a cache answered".to_owned()],
    )
}
