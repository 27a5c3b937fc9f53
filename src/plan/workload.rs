//! A workload over time: what may be set, what holds where nothing is set, and what doesn't go
//! together.

use std::time::Duration;

use crate::model::cell::WorkloadKind;
use crate::model::timeline::{Checkpoint, Churn, WalAppend, Workload};
use crate::model::units::{show_bytes, show_ns};

use super::check::{MAX_JOBS, PlanError, fail};
use super::settings::Options;

/// Bytes of a commit, and of a database's page: PostgreSQL's blocks (XLOG_BLCKSZ and BLCKSZ in
/// configure.ac).
const RECORD_BYTES: u64 = 8 << 10;
/// A log that is written from its start again at its end: large enough that its blocks are not those
/// of the write before.
const LOG_BYTES: u64 = 64 << 20;
/// PostgreSQL's segments (DEFAULT_XLOG_SEG_SIZE).
const SEGMENT_BYTES: u64 = 16 << 20;
/// Whole segments that a log keeps.
const KEPT_SEGMENTS: u32 = 3;
/// A mailing-list post's loop: files of 20 MiB, written by 1 MiB.
const FILE_BYTES: u64 = 20 << 20;
const WRITE_BYTES: u64 = 1 << 20;
const PAUSE: Duration = Duration::from_millis(10);
const DATA_BYTES: u64 = 256 << 20;
const CLIENTS: u32 = 4;
const DIRTY_PAGES_PER_S: f64 = 2000.0;
/// More pages than this in a second are beyond what one thread can dirty.
const MAX_DIRTY_PAGES_PER_S: f64 = 1e7;
/// The longest time between checkpoints that is chosen, and how many of them a run has room for.
const LONGEST_INTERVAL: Duration = Duration::from_secs(30);
const INTERVALS: u32 = 4;
/// The shortest stretch, and time between checkpoints: below, there is nothing to see over time.
const SHORTEST: Duration = Duration::from_millis(200);
/// Kernels write dirty data back after 30 s and commit journals every 5 s
/// (/proc/sys/vm/dirty_expire_centisecs, ext4's option commit): a minute shows both.
const BUDGET: Duration = Duration::from_secs(60);
/// Enough repetitions for an interval, and for each to be long enough.
const COMPARED: u32 = 5;
/// The device's side of a repetition needs no checkpoints, and so less time.
const RAW_SHARE: u32 = 4;

/// What one source (the command line, a profile) sets of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadOptions {
    /// Which.
    pub kind: Option<WorkloadKind>,
    /// Committing clients.
    pub clients: Option<u32>,
    /// Records that wait together are written together.
    pub group_commit: Option<bool>,
    /// From one checkpoint to the next.
    pub checkpoint_interval: Option<Duration>,
    /// The share of the interval that a checkpoint's writes are spread over.
    pub checkpoint_spread: Option<f64>,
    /// Bytes of the data file.
    pub data_bytes: Option<u64>,
    /// Pages dirtied in a second.
    pub dirty_pages_per_s: Option<f64>,
    /// Bytes of a file that is made and removed.
    pub file_bytes: Option<u64>,
    /// Between two such files.
    pub pause: Option<Duration>,
    /// Bytes of a log's segment.
    pub segment_bytes: Option<u64>,
    /// How long each stretch runs.
    pub duration: Option<Duration>,
    /// Stretches of each side.
    pub repeat: Option<u32>,
}

/// A workload, and how long and how often it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadPlan {
    /// What runs.
    pub workload: Workload,
    /// The size of the data file was asked for; else it is what there is room for, at most.
    pub is_data_given: bool,
    /// How long it runs at a time.
    pub duration: Duration,
    /// How long the device's side runs at a time.
    pub raw_duration: Duration,
    /// How often each side runs.
    pub repeat: u32,
}

impl WorkloadOptions {
    /// These options, and `under` where these leave one open.
    #[must_use]
    pub fn over(self, under: WorkloadOptions) -> WorkloadOptions {
        WorkloadOptions {
            kind: self.kind.or(under.kind),
            clients: self.clients.or(under.clients),
            group_commit: self.group_commit.or(under.group_commit),
            checkpoint_interval: self.checkpoint_interval.or(under.checkpoint_interval),
            checkpoint_spread: self.checkpoint_spread.or(under.checkpoint_spread),
            data_bytes: self.data_bytes.or(under.data_bytes),
            dirty_pages_per_s: self.dirty_pages_per_s.or(under.dirty_pages_per_s),
            file_bytes: self.file_bytes.or(under.file_bytes),
            pause: self.pause.or(under.pause),
            segment_bytes: self.segment_bytes.or(under.segment_bytes),
            duration: self.duration.or(under.duration),
            repeat: self.repeat.or(under.repeat),
        }
    }

    /// The options that are set, each with the workload that it belongs to; none: to all.
    fn set(&self) -> Vec<(&'static str, Option<WorkloadKind>)> {
        use WorkloadKind::{Checkpoint, Churn, WalAppend};
        [
            (self.clients.is_some(), "clients", Some(Checkpoint)),
            (
                self.group_commit.is_some(),
                "group-commit",
                Some(Checkpoint),
            ),
            (
                self.checkpoint_interval.is_some(),
                "checkpoint-interval",
                Some(Checkpoint),
            ),
            (
                self.checkpoint_spread.is_some(),
                "checkpoint-spread",
                Some(Checkpoint),
            ),
            (self.data_bytes.is_some(), "data", Some(Checkpoint)),
            (self.dirty_pages_per_s.is_some(), "dirty", Some(Checkpoint)),
            (self.file_bytes.is_some(), "file-size", Some(Churn)),
            (self.pause.is_some(), "pause", Some(Churn)),
            (
                self.segment_bytes.is_some(),
                "segment-size",
                Some(WalAppend),
            ),
            (self.duration.is_some(), "duration", None),
            (self.repeat.is_some(), "repeat", None),
        ]
        .into_iter()
        .filter_map(|(is_set, name, kind)| is_set.then_some((name, kind)))
        .collect()
    }
}

/// The workload that `options` ask for, if any; with `compare`, beside the device. Refuses options
/// that don't go together.
pub fn workload(options: &Options, compare: bool) -> Result<Option<WorkloadPlan>, PlanError> {
    let asked = &options.workload;
    let set = asked.set();
    let Some(kind) = asked.kind else {
        return match set.first() {
            None => Ok(None),
            Some((name, kind)) => fail(format!(
                "{name} says how a workload runs: name one with --workload {}",
                kind.map_or("checkpoint, churn or wal-append", WorkloadKind::as_str)
            )),
        };
    };
    if let Some((name, Some(other))) = set.iter().find(|(_, of)| of.is_some_and(|of| of != kind)) {
        return fail(format!(
            "{name} is not an option of workload {kind}, but of {other}"
        ));
    }
    if let Some(name) = options.first_axis() {
        return fail(format!(
            "{name} doesn't apply to workload {kind}, which has its own writes and length: leave it \
             out"
        ));
    }
    let schedule = Schedule::of(kind, asked, options.budget, compare)?;
    let workload = match kind {
        WorkloadKind::Checkpoint => Workload::Checkpoint(checkpoint(asked, schedule.duration)?),
        WorkloadKind::Churn => Workload::Churn(Churn {
            file_bytes: asked.file_bytes.unwrap_or(FILE_BYTES),
            write_bytes: WRITE_BYTES,
            pause_ns: ns(asked.pause.unwrap_or(PAUSE)),
        }),
        WorkloadKind::WalAppend => Workload::WalAppend(wal_append(asked)?),
    };
    Ok(Some(WorkloadPlan {
        workload,
        is_data_given: asked.data_bytes.is_some(),
        duration: schedule.duration,
        raw_duration: schedule.raw_duration,
        repeat: schedule.repeat,
    }))
}

impl Options {
    /// The first axis that is set, or bound of a run of cells.
    fn first_axis(&self) -> Option<&'static str> {
        [
            (self.sizes.is_some(), "sizes"),
            (self.method.is_some(), "method"),
            (self.direct.is_some(), "direct"),
            (self.queue_depth.is_some(), "queue-depth"),
            (self.jobs.is_some(), "jobs"),
            (self.pattern.is_some(), "pattern"),
            (self.file_state.is_some(), "file-state"),
            (self.engine.is_some(), "engine"),
            (self.span_bytes.is_some(), "span"),
            (self.rate_per_s.is_some(), "rate"),
            (self.precision.is_some(), "precision"),
            (self.rounds.is_some(), "rounds"),
            (self.sqpoll.is_some(), "sqpoll"),
            (self.iopoll.is_some(), "iopoll"),
        ]
        .into_iter()
        .find_map(|(is_set, name)| is_set.then_some(name))
    }
}

/// How long and how often.
struct Schedule {
    duration: Duration,
    raw_duration: Duration,
    repeat: u32,
}

impl Schedule {
    fn of(
        kind: WorkloadKind,
        asked: &WorkloadOptions,
        budget: Option<Duration>,
        compare: bool,
    ) -> Result<Schedule, PlanError> {
        // Of a repetition's time, in stretches of `duration`: the sides through the filesystem, and
        // the share of one that the device's takes.
        let (sides, raw_divisor) = match (kind, compare) {
            (WorkloadKind::Churn, _) | (WorkloadKind::Checkpoint, false) => (1, None),
            (WorkloadKind::Checkpoint, true) => (1, Some(RAW_SHARE)),
            (WorkloadKind::WalAppend, false) => (2, None),
            (WorkloadKind::WalAppend, true) => (2, Some(1)),
        };
        let stretches = f64::from(sides) + raw_divisor.map_or(0.0, |by| 1.0 / f64::from(by));
        let is_compared = sides > 1 || raw_divisor.is_some();
        let total = budget.unwrap_or(match raw_divisor {
            // Checkpoints on one side of a comparison need their time too.
            Some(RAW_SHARE) => 2 * BUDGET,
            _ => BUDGET,
        });
        let repeat = match (asked.repeat, asked.duration) {
            (Some(repeat), _) => repeat,
            (None, _) if !is_compared => 1,
            (None, None) => COMPARED,
            (None, Some(duration)) => {
                let fitting = total.as_secs_f64() / (duration.as_secs_f64() * stretches);
                (fitting as u32).max(3)
            }
        };
        let share = total.div_f64(stretches * f64::from(repeat.max(1)));
        let duration = asked.duration.unwrap_or(share);
        if duration < SHORTEST {
            return fail(format!(
                "stretches of {} are too short to show anything over time: give a longer \
                 --duration or --budget, or a smaller --repeat",
                show_ns(duration.as_nanos() as f64)
            ));
        }
        Ok(Schedule {
            duration,
            raw_duration: (duration / raw_divisor.unwrap_or(1)).max(SHORTEST),
            repeat,
        })
    }
}

fn checkpoint(asked: &WorkloadOptions, duration: Duration) -> Result<Checkpoint, PlanError> {
    let clients = asked.clients.unwrap_or(CLIENTS);
    if !(1..=MAX_JOBS).contains(&clients) {
        return fail(format!("{clients} clients: must be from 1 to {MAX_JOBS}"));
    }
    let dirty_pages_per_s = asked.dirty_pages_per_s.unwrap_or(DIRTY_PAGES_PER_S);
    if !(0.0..=MAX_DIRTY_PAGES_PER_S).contains(&dirty_pages_per_s) {
        return fail(format!(
            "dirty {dirty_pages_per_s}: must be pages in a second, from 0 to \
             {MAX_DIRTY_PAGES_PER_S:.0}"
        ));
    }
    let chosen = (duration / INTERVALS)
        .min(LONGEST_INTERVAL)
        .max(SHORTEST / 2);
    let interval = asked.checkpoint_interval.unwrap_or(chosen);
    if interval >= duration || interval < SHORTEST / 2 {
        return fail(format!(
            "checkpoint-interval {}: must be from {} to less than the {} that the workload runs \
             at a time",
            show_ns(interval.as_nanos() as f64),
            show_ns((SHORTEST / 2).as_nanos() as f64),
            show_ns(duration.as_nanos() as f64),
        ));
    }
    let data_bytes = asked.data_bytes.unwrap_or(DATA_BYTES);
    if data_bytes < RECORD_BYTES {
        return fail(format!(
            "data {}: must hold at least one page of {}",
            show_bytes(data_bytes),
            show_bytes(RECORD_BYTES)
        ));
    }
    Ok(Checkpoint {
        clients,
        group_commit: asked.group_commit.unwrap_or(false),
        record_bytes: RECORD_BYTES,
        log_bytes: LOG_BYTES,
        data_bytes: data_bytes / RECORD_BYTES * RECORD_BYTES,
        page_bytes: RECORD_BYTES,
        dirty_pages_per_s,
        interval_ns: ns(interval),
        spread_share: asked.checkpoint_spread.unwrap_or(0.0),
    })
}

fn wal_append(asked: &WorkloadOptions) -> Result<WalAppend, PlanError> {
    let segment_bytes = asked.segment_bytes.unwrap_or(SEGMENT_BYTES);
    if segment_bytes == 0 || !segment_bytes.is_multiple_of(RECORD_BYTES) {
        return fail(format!(
            "segment-size {}: must be a number of whole records of {}",
            show_bytes(segment_bytes),
            show_bytes(RECORD_BYTES)
        ));
    }
    Ok(WalAppend {
        record_bytes: RECORD_BYTES,
        segment_bytes,
        kept_segments: KEPT_SEGMENTS,
    })
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(kind: WorkloadKind) -> Options {
        let workload = WorkloadOptions {
            kind: Some(kind),
            ..WorkloadOptions::default()
        };
        Options {
            workload,
            ..Options::default()
        }
    }

    fn plan(options: &Options, compare: bool) -> WorkloadPlan {
        workload(options, compare).unwrap().unwrap()
    }

    #[test]
    fn no_workload_is_none_and_its_options_alone_are_refused() {
        assert_eq!(workload(&Options::default(), false), Ok(None));
        let mut options = Options::default();
        options.workload.file_bytes = Some(1);
        let error = workload(&options, false).unwrap_err().to_string();
        assert!(
            error.contains("file-size") && error.contains("--workload churn"),
            "{error}"
        );
    }

    #[test]
    fn others_options_and_axes_are_refused() {
        let mut churn = options(WorkloadKind::Churn);
        churn.workload.clients = Some(2);
        let error = workload(&churn, false).unwrap_err().to_string();
        assert!(
            error.contains("clients") && error.contains("checkpoint"),
            "{error}"
        );
        let mut churn = options(WorkloadKind::Churn);
        churn.sizes = Some(vec![4096]);
        assert!(
            workload(&churn, false)
                .unwrap_err()
                .to_string()
                .contains("sizes")
        );
    }

    #[test]
    fn three_checkpoints_end_before_the_run_does() {
        for budget_s in [8, 60, 600] {
            let mut options = options(WorkloadKind::Checkpoint);
            options.budget = Some(Duration::from_secs(budget_s));
            let plan = plan(&options, false);
            let Workload::Checkpoint(checkpoint) = &plan.workload else {
                panic!("not a checkpoint")
            };
            assert!(u128::from(checkpoint.interval_ns) * 4 <= plan.duration.as_nanos());
            assert!(checkpoint.interval_ns <= 30_000_000_000);
            assert_eq!((plan.repeat, plan.duration.as_secs()), (1, budget_s));
        }
    }

    #[test]
    fn the_budget_is_shared_out_among_sides_and_repetitions() {
        let total = |options: &Options, compare| {
            let plan = plan(options, compare);
            (
                plan.repeat,
                plan.duration.as_secs_f64(),
                plan.raw_duration.as_secs_f64(),
            )
        };
        let (repeat, duration_s, raw_s) = total(&options(WorkloadKind::Checkpoint), true);
        assert!((f64::from(repeat) * (duration_s + raw_s) - 120.0).abs() < 1e-6);
        let (repeat, duration_s, _) = total(&options(WorkloadKind::WalAppend), false);
        assert!((f64::from(repeat) * 2.0 * duration_s - 60.0).abs() < 1e-6);
        let mut given = options(WorkloadKind::WalAppend);
        given.workload.duration = Some(Duration::from_secs(2));
        assert_eq!(total(&given, true), (10, 2.0, 2.0));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        type Set = fn(&mut WorkloadOptions);
        let cases: [(&str, WorkloadKind, Set); 6] = [
            ("clients", WorkloadKind::Checkpoint, |set| {
                set.clients = Some(0)
            }),
            ("dirty", WorkloadKind::Checkpoint, |set| {
                set.dirty_pages_per_s = Some(f64::NAN);
            }),
            ("data", WorkloadKind::Checkpoint, |set| {
                set.data_bytes = Some(100)
            }),
            ("checkpoint-interval", WorkloadKind::Checkpoint, |set| {
                set.checkpoint_interval = Some(Duration::from_secs(60));
            }),
            ("segment-size", WorkloadKind::WalAppend, |set| {
                set.segment_bytes = Some(10_000);
            }),
            ("too short", WorkloadKind::Churn, |set| {
                set.duration = Some(Duration::from_millis(1));
            }),
        ];
        for (part, kind, set) in cases {
            let mut options = options(kind);
            set(&mut options.workload);
            let error = workload(&options, false).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
