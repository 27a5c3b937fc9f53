//! What commits and checkpoints at one target came to.

use serde::{Deserialize, Serialize};

use crate::analyse::interval::Interval;
use crate::analyse::ratio::{Work, rate_per_s, ratio};
use crate::model::cell::{Role, WorkloadKind};
use crate::model::record::Record;
use crate::model::timeline::{Phase, Timeline, Writeback};

use super::dip::{Dip, dips};
use super::rate::{median, rate};
use super::steady::{Steadiness, steadiness};

/// What a checkpointed database came to, all repetitions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointFigures {
    /// The `id` of the target.
    pub target: String,
    /// Commits.
    pub commits: u64,
    /// Commits in a second, all the time.
    pub per_s: Option<Interval>,
    /// Commits in a second while no checkpoint ran.
    pub outside_per_s: Option<Interval>,
    /// Commits in a second while one ran.
    pub inside_per_s: Option<Interval>,
    /// Inside over outside, each checkpoint paired with the time before it.
    pub inside_to_outside: Option<Interval>,
    /// Checkpoints.
    pub checkpoints: usize,
    /// The median time that a checkpoint took, of those that the run's end did not cut short.
    pub checkpoint_ns: Option<f64>,
    /// The median time that its fsync took, of the same.
    pub fsync_ns: Option<f64>,
    /// The median of the pages that it wrote.
    pub pages: Option<f64>,
    /// The dips; none without a time between checkpoints.
    pub dips: Option<DipFigures>,
    /// By whole seconds; none of fewer than three.
    pub steadiness: Option<Steadiness>,
    /// The share of all processors' time that was used; none where the kernel doesn't tell.
    pub cpu_busy: Option<f64>,
    /// The device's commits in a second, and the ratio to them; none without a device's side.
    pub raw: Option<RawFigures>,
}

/// The dips of all checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DipFigures {
    /// Width of the widest bins that were looked at.
    pub bin_ns: u64,
    /// The median depth, as a share of the usual rate.
    pub depth: f64,
    /// The median of what would be so deep by chance; none where too little lies between checkpoints.
    pub chance_depth: Option<f64>,
    /// The deepest.
    pub deepest: f64,
    /// The median length.
    pub length_ns: f64,
    /// The longest.
    pub longest_ns: u64,
}

/// The same commits to the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawFigures {
    /// Commits in a second.
    pub per_s: Option<Interval>,
    /// Raw over file outside checkpoints, from paired repetitions.
    pub raw_to_file: Option<Interval>,
}

/// The figures of each directory with checkpoints, in the record's order.
pub fn checkpoint_figures(record: &Record) -> Vec<CheckpointFigures> {
    let is_ours = |line: &&Timeline| line.workload.kind() == WorkloadKind::Checkpoint;
    let targets = record.targets.iter();
    targets
        .filter_map(|target| {
            let own = super::of_target(record, &target.id).into_iter();
            let own: Vec<&Timeline> = own
                .filter(is_ours)
                .filter(|line| line.role == Role::File)
                .collect();
            let baseline = target.baseline.as_ref().and_then(|b| b.target.as_ref());
            let raw = baseline.map(|id| super::of_target(record, id));
            (!own.is_empty()).then(|| figures(&target.id, &own, &raw.unwrap_or_default()))
        })
        .collect()
}

fn figures(target: &str, own: &[&Timeline], raw: &[&Timeline]) -> CheckpointFigures {
    let phases = || {
        let lines = own.iter();
        lines.flat_map(|&line| line.phases.iter().map(move |phase| (line, phase)))
    };
    let checkpoints =
        || phases().filter_map(|(line, phase)| Some((line, phase, phase.checkpoint?)));
    // One that the end cuts short leaves its rest to the fsync, and nobody commits beside that.
    let whole = |value: fn(&Phase, &Writeback) -> u64| {
        let whole = checkpoints().filter(|(line, phase, _)| !is_cut_short(line, phase));
        median(
            whole
                .map(|(_, phase, did)| value(phase, &did) as f64)
                .collect(),
        )
    };
    let works = |inside: bool| -> Vec<Work> {
        let ours = phases().filter(|(_, phase)| phase.checkpoint.is_some() == inside);
        ours.filter_map(|(line, phase)| sample(line, phase))
            .collect()
    };
    CheckpointFigures {
        target: target.to_owned(),
        commits: own.iter().map(|line| line.ops).sum(),
        per_s: rate(own, |bin| bin.ops),
        outside_per_s: rate_per_s(&works(false)),
        inside_per_s: rate_per_s(&works(true)),
        inside_to_outside: ratio(&pairs(own)),
        checkpoints: checkpoints().count(),
        checkpoint_ns: whole(|phase, _| phase.end_ns.saturating_sub(phase.start_ns)),
        fsync_ns: whole(|_, did| did.fsync_ns),
        pages: median(checkpoints().map(|(.., did)| did.pages as f64).collect()),
        dips: dip_figures(own),
        steadiness: steadiness(own),
        cpu_busy: cpu_busy(own),
        raw: (!raw.is_empty()).then(|| RawFigures {
            per_s: rate(raw, |bin| bin.ops),
            raw_to_file: ratio(&repetitions(raw, own)),
        }),
    }
}

/// What was committed in a phase, in the time of it in which clients committed: the last checkpoint goes
/// on after they have stopped.
fn work(line: &Timeline, phase: &Phase) -> Work {
    let end_ns = phase.end_ns.min(line.elapsed_ns);
    Work {
        amount: phase.ops as f64,
        elapsed_ns: end_ns.saturating_sub(phase.start_ns) as f64,
    }
}

/// The run's end came before the phase's.
fn is_cut_short(line: &Timeline, phase: &Phase) -> bool {
    phase.end_ns > line.elapsed_ns.min(line.duration_ns)
}

/// The same as [`work`], unless it is a scrap: what the end left of a phase, or of the time between two
/// checkpoints the second of which was overdue. The jackknife takes each for as good as the others, and
/// one of a few milliseconds, which moves no total, would make the spread look smaller than it is. A
/// checkpoint that is that short as a whole is none.
fn sample(line: &Timeline, phase: &Phase) -> Option<Work> {
    let work = work(line, phase);
    let is_whole = phase.checkpoint.is_some() && !is_cut_short(line, phase);
    (is_whole || work.elapsed_ns >= line.interval_ns as f64).then_some(work)
}

/// Each checkpoint with the time before it.
fn pairs(own: &[&Timeline]) -> Vec<(Work, Work)> {
    let neighbours = own.iter().flat_map(|&line| {
        let pairs = line.phases.windows(2);
        pairs.map(move |pair| (line, &pair[0], &pair[1]))
    });
    neighbours
        .filter(|(_, one, other)| one.checkpoint.is_none() && other.checkpoint.is_some())
        .filter_map(|(line, outside, inside)| Some((sample(line, inside)?, sample(line, outside)?)))
        .collect()
}

/// The device's work of each repetition with the file's outside checkpoints.
fn repetitions(raw: &[&Timeline], own: &[&Timeline]) -> Vec<(Work, Work)> {
    let outside = |line: &Timeline| {
        let between = line
            .phases
            .iter()
            .filter(|phase| phase.checkpoint.is_none());
        between
            .map(|phase| work(line, phase))
            .fold(Work::default(), |sum, work| Work {
                amount: sum.amount + work.amount,
                elapsed_ns: sum.elapsed_ns + work.elapsed_ns,
            })
    };
    own.iter()
        .filter_map(|file| {
            let raw = raw.iter().find(|raw| raw.repetition == file.repetition)?;
            Some((super::whole_work(raw), outside(file)))
        })
        .collect()
}

fn dip_figures(own: &[&Timeline]) -> Option<DipFigures> {
    let found: Vec<_> = own.iter().filter_map(|line| dips(line)).collect();
    let all: Vec<Dip> = found.iter().flat_map(|found| found.dips.clone()).collect();
    Some(DipFigures {
        bin_ns: found.iter().map(|found| found.bin_ns).max()?,
        depth: median(all.iter().map(|dip| dip.depth).collect())?,
        chance_depth: median(all.iter().filter_map(|dip| dip.chance_depth).collect()),
        deepest: all.iter().map(|dip| dip.depth).fold(0.0, f64::max),
        length_ns: median(all.iter().map(|dip| dip.length_ns as f64).collect())?,
        longest_ns: all.iter().map(|dip| dip.length_ns).max()?,
    })
}

/// The share of all processors' time that was used.
pub(super) fn cpu_busy(timelines: &[&Timeline]) -> Option<f64> {
    let shares = timelines.iter().flat_map(|line| &line.intervals);
    let (mut used, mut all) = (0, 0);
    for cpu in shares.filter_map(|interval| interval.cpu) {
        let busy = cpu.user_ns + cpu.system_ns;
        used += busy;
        all += busy + cpu.idle_ns + cpu.stolen_ns;
    }
    (all > 0).then(|| used as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::timeline::made::{checkpoint, timeline, with_checkpoints};
    use crate::model::timeline::CpuShare;

    /// 100 commits in each tenth of a second, 25 in those of three checkpoints of half a second.
    fn line(repetition: u32) -> Timeline {
        let mut ops = [100; 80];
        for start in [15, 35, 55] {
            ops[start..start + 5].fill(25);
        }
        let line = timeline(checkpoint(), &ops);
        let mut line = with_checkpoints(line, &[(1500, 2000), (3500, 4000), (5500, 6000)]);
        line.repetition = repetition;
        line
    }

    #[test]
    fn known_commits_have_their_known_rates_inside_and_outside() {
        let figures = figures("d0", &[&line(0)], &[]);
        assert_eq!(
            (figures.commits, figures.checkpoints),
            (65 * 100 + 15 * 25, 3)
        );
        assert!((figures.outside_per_s.unwrap().value - 1000.0).abs() < 1e-6);
        assert!((figures.inside_per_s.unwrap().value - 250.0).abs() < 1e-6);
        assert!((figures.inside_to_outside.unwrap().value - 0.25).abs() < 1e-9);
        assert_eq!(figures.checkpoint_ns, Some(500e6));
        let dips = figures.dips.unwrap();
        assert!((dips.depth - 0.75).abs() < 1e-9 && (dips.deepest - 0.75).abs() < 1e-9);
        assert_eq!((dips.length_ns, dips.longest_ns), (500e6, 500_000_000));
        assert_eq!(figures.raw, None);
    }

    /// The same, with a fourth checkpoint half a second before the end that goes on for one second more, as
    /// the record has it: with the commits until then, and its own end.
    fn cut_short() -> Timeline {
        let mut line = line(0);
        for bin in &mut line.intervals[75..] {
            bin.ops = 25;
        }
        let mut line = with_checkpoints(
            line,
            &[(1500, 2000), (3500, 4000), (5500, 6000), (7500, 8000)],
        );
        let [.., last, after] = &mut line.phases[..] else {
            unreachable!("a checkpoint and the time after it");
        };
        last.end_ns += 1_000_000_000;
        last.checkpoint.as_mut().unwrap().fsync_ns *= 3;
        (after.start_ns, after.end_ns) = (last.end_ns, last.end_ns);
        line
    }

    #[test]
    fn what_goes_on_after_the_last_commit_is_no_time_to_commit_in() {
        let figures = figures("d0", &[&cut_short()], &[]);
        let inside = figures.inside_per_s.unwrap();
        assert!((inside.value - 250.0).abs() < 1e-6, "{inside:?}");
        let ratio = figures.inside_to_outside.unwrap();
        assert!((ratio.value - 0.25).abs() < 1e-9, "{ratio:?}");
        // It counts, and tells nothing of how long one takes.
        assert_eq!(figures.checkpoints, 4);
        assert_eq!(figures.checkpoint_ns, Some(500e6));
        assert_eq!(figures.fsync_ns, Some(500e6));
    }

    #[test]
    fn what_the_end_leaves_of_a_phase_is_no_sample_of_it() {
        // It ends at 8 s, and is counted by tenths of a second.
        let line = line(0);
        let counts = |start_ms: u64, end_ms: u64, checkpoint: Option<Writeback>| {
            let phase = Phase {
                start_ns: start_ms * 1_000_000,
                end_ns: end_ms * 1_000_000,
                ops: 1,
                checkpoint,
            };
            sample(&line, &phase).map(|work| work.elapsed_ns)
        };
        let checkpoint = Some(Writeback::default());
        assert_eq!(counts(7950, 8300, checkpoint), None);
        assert_eq!(counts(7900, 8300, checkpoint), Some(100e6));
        assert_eq!(counts(8300, 8300, None), None);
        assert_eq!(counts(1000, 1050, None), None);
        assert_eq!(counts(1000, 1100, None), Some(100e6));
        // That is all that it took.
        assert_eq!(counts(1000, 1050, checkpoint), Some(50e6));
    }

    #[test]
    fn the_device_is_compared_with_the_times_between_checkpoints() {
        let files = [line(0), line(1), line(2)];
        let raws: Vec<Timeline> = (0..3)
            .map(|repetition| {
                let mut raw = timeline(checkpoint(), &[150; 20]);
                raw.role = Role::Raw;
                raw.repetition = repetition;
                raw
            })
            .collect();
        let figures = figures(
            "d0",
            &files.iter().collect::<Vec<_>>(),
            &raws.iter().collect::<Vec<_>>(),
        );
        let raw = figures.raw.unwrap();
        assert!((raw.per_s.unwrap().value - 1500.0).abs() < 1e-6);
        assert!((raw.raw_to_file.unwrap().value - 1.5).abs() < 1e-9);
    }

    #[test]
    fn busy_is_what_is_neither_idle_nor_stolen() {
        let mut line = line(0);
        line.intervals[3].cpu = Some(CpuShare {
            user_ns: 10,
            system_ns: 30,
            idle_ns: 50,
            stolen_ns: 10,
        });
        assert_eq!(cpu_busy(&[&line]), Some(0.4));
        assert_eq!(cpu_busy(&[]), None);
    }
}
