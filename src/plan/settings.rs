//! What may be set, by the command line or a profile, and what holds where nothing is set.

use std::time::Duration;

use crate::model::cell::{EngineKind, FileState, Method, Pattern, Payload, RingOptions};

use super::workload::{WorkloadOptions, WorkloadPlan};

/// The precision asked for where nothing else is: ±5 %.
const DEFAULT_PRECISION: f64 = 0.05;
/// The time budget where nothing else is asked for.
const DEFAULT_BUDGET: Duration = Duration::from_secs(60);
/// Rounds that are made whatever the precision and the budget say: fewer give intervals that are
/// wide by Student's t alone, and too few to see drift.
pub const MIN_ROUNDS: u32 = 8;

/// Sizes of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// 512 bytes to 1 MiB in powers of two, those that the target can take.
    Default,
    /// These, in bytes, each rounded up to whole blocks of the target, which may be larger.
    WholeBlocks(Vec<u64>),
    /// Exactly these, in bytes; one that the target cannot take is an error.
    Given(Vec<u64>),
}

/// The values of each axis. Their product is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Bytes of one write.
    pub sizes: Sizes,
    /// What makes a write synchronous.
    pub methods: Vec<Method>,
    /// With O_DIRECT, or not.
    pub direct: Vec<bool>,
    /// Writes in flight for each job.
    pub queue_depths: Vec<u32>,
    /// Threads.
    pub jobs: Vec<u32>,
    /// Orders of offsets.
    pub patterns: Vec<Pattern>,
    /// States of a file's blocks; devices have none.
    pub file_states: Vec<FileState>,
    /// What issues the writes.
    pub engines: Vec<EngineKind>,
    /// Options of the io_uring engine.
    pub ring: RingOptions,
    /// Bytes that the offsets range over; none: chosen by [`crate::plan::cells`].
    pub span_bytes: Option<u64>,
    /// Open-loop arrival rates, operations per second; none: closed loop.
    pub rates_per_s: Vec<Option<f64>>,
}

impl Default for Matrix {
    fn default() -> Matrix {
        Matrix {
            sizes: Sizes::Default,
            methods: vec![Method::ODsync],
            direct: vec![true],
            queue_depths: vec![1],
            jobs: vec![1],
            patterns: vec![Pattern::Seq],
            file_states: vec![FileState::Overwrite],
            engines: vec![EngineKind::Uring],
            ring: RingOptions::default(),
            span_bytes: None,
            rates_per_s: vec![None],
        }
    }
}

/// What one source (the command line, a profile) sets; `None` leaves it to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Bytes of one write.
    pub sizes: Option<Vec<u64>>,
    /// What makes a write synchronous.
    pub method: Option<Vec<Method>>,
    /// With O_DIRECT, or not.
    pub direct: Option<Vec<bool>>,
    /// Writes in flight for each job.
    pub queue_depth: Option<Vec<u32>>,
    /// Threads.
    pub jobs: Option<Vec<u32>>,
    /// Orders of offsets.
    pub pattern: Option<Vec<Pattern>>,
    /// States of a file's blocks.
    pub file_state: Option<Vec<FileState>>,
    /// What issues the writes.
    pub engine: Option<Vec<EngineKind>>,
    /// Bytes that the offsets range over.
    pub span_bytes: Option<u64>,
    /// Open-loop arrival rates, operations per second.
    pub rate_per_s: Option<Vec<f64>>,
    /// What files and overwritten devices are written with.
    pub payload: Option<Payload>,
    /// Half the relative width of a confidence interval at which the run may end.
    pub precision: Option<f64>,
    /// The time after which it ends all the same.
    pub budget: Option<Duration>,
    /// Exactly so many rounds, whatever precision and budget say.
    pub rounds: Option<u32>,
    /// IORING_SETUP_SQPOLL.
    pub sqpoll: Option<bool>,
    /// IORING_SETUP_IOPOLL.
    pub iopoll: Option<bool>,
    /// A workload over time.
    pub workload: WorkloadOptions,
}

impl Options {
    /// These options, and `under` where these leave one open.
    #[must_use]
    pub fn over(self, under: Options) -> Options {
        Options {
            sizes: self.sizes.or(under.sizes),
            method: self.method.or(under.method),
            direct: self.direct.or(under.direct),
            queue_depth: self.queue_depth.or(under.queue_depth),
            jobs: self.jobs.or(under.jobs),
            pattern: self.pattern.or(under.pattern),
            file_state: self.file_state.or(under.file_state),
            engine: self.engine.or(under.engine),
            span_bytes: self.span_bytes.or(under.span_bytes),
            rate_per_s: self.rate_per_s.or(under.rate_per_s),
            payload: self.payload.or(under.payload),
            precision: self.precision.or(under.precision),
            budget: self.budget.or(under.budget),
            rounds: self.rounds.or(under.rounds),
            sqpoll: self.sqpoll.or(under.sqpoll),
            iopoll: self.iopoll.or(under.iopoll),
            workload: self.workload.over(under.workload),
        }
    }

    /// What these options and the defaults under them mean.
    pub fn settings(self) -> Settings {
        let default = Matrix::default();
        let matrix = Matrix {
            sizes: self.sizes.map_or(Sizes::Default, Sizes::Given),
            methods: self.method.unwrap_or(default.methods),
            direct: self.direct.unwrap_or(default.direct),
            queue_depths: self.queue_depth.unwrap_or(default.queue_depths),
            jobs: self.jobs.unwrap_or(default.jobs),
            patterns: self.pattern.unwrap_or(default.patterns),
            file_states: self.file_state.unwrap_or(default.file_states),
            engines: self.engine.unwrap_or(default.engines),
            ring: RingOptions {
                sqpoll: self.sqpoll.unwrap_or(default.ring.sqpoll),
                iopoll: self.iopoll.unwrap_or(default.ring.iopoll),
            },
            span_bytes: self.span_bytes,
            rates_per_s: match self.rate_per_s {
                Some(rates) => rates.into_iter().map(Some).collect(),
                None => default.rates_per_s,
            },
        };
        Settings {
            matrix,
            payload: self.payload.unwrap_or(Payload::Random),
            precision: self.precision.unwrap_or(DEFAULT_PRECISION),
            budget: self.budget.unwrap_or(DEFAULT_BUDGET),
            rounds: self.rounds,
            min_rounds: self.rounds.unwrap_or(MIN_ROUNDS),
            insists_on_direct: false,
            workload: None,
        }
    }
}

/// All that a run needs to know beside its targets.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The axes.
    pub matrix: Matrix,
    /// What files and overwritten devices are written with.
    pub payload: Payload,
    /// Half the relative width of a confidence interval at which the run may end.
    pub precision: f64,
    /// The time after which it ends all the same.
    pub budget: Duration,
    /// Exactly so many rounds, if given.
    pub rounds: Option<u32>,
    /// Rounds that are made whatever precision and budget say.
    pub min_rounds: u32,
    /// A cell whose direct writes the filesystem refuses fails, rather than to be measured without
    /// O_DIRECT.
    pub insists_on_direct: bool,
    /// What runs over time, in place of the axes.
    pub workload: Option<WorkloadPlan>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_source_wins_and_the_lower_fills_what_is_open() {
        let typed = Options {
            jobs: Some(vec![4]),
            ..Options::default()
        };
        let profile = Options {
            jobs: Some(vec![2]),
            sizes: Some(vec![4096]),
            ..Options::default()
        };
        let settings = typed.over(profile).settings();
        assert_eq!(settings.matrix.jobs, [4]);
        assert_eq!(settings.matrix.sizes, Sizes::Given(vec![4096]));
        assert_eq!(settings.matrix.methods, [Method::ODsync]);
        assert_eq!(settings.budget, DEFAULT_BUDGET);
    }

    #[test]
    fn a_given_number_of_rounds_is_also_the_least() {
        let settings = Options {
            rounds: Some(3),
            ..Options::default()
        }
        .settings();
        assert_eq!((settings.rounds, settings.min_rounds), (Some(3), 3));
    }
}
