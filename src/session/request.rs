//! What is to be measured, and why it can't be.

use std::path::PathBuf;

use crate::engine::EngineError;
use crate::guard::Refusal;
use crate::model::durability::Durability;
use crate::model::record::Ended;
use crate::plan::{Matrix, Settings};
use crate::scratch::ScratchError;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The verb: `raw`, `file`, `gap` or `validate`.
    pub verb: &'static str,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// Directories to measure, each on its filesystem.
    pub directories: Vec<PathBuf>,
    /// Every mounted filesystem on a block device; one that can't be measured is told and left out.
    pub all: bool,
    /// A device to measure: the only target, or what directories are compared with.
    pub device: Option<PathBuf>,
    /// The device is written with fresh data.
    pub overwrite: bool,
    /// Compare directories with a baseline.
    pub compare: bool,
    /// The engine `sync` may stand in where io_uring is blocked.
    pub fallback: bool,
    /// The axes and the run control.
    pub settings: Settings,
    /// Axes whose cells are measured beside those of `settings`.
    pub also: Vec<Matrix>,
    /// What an inquiry into durability is told.
    pub durability: Option<Durability>,
    /// Decides the order of cells, random offsets and the payload.
    pub seed: u64,
}

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The guard gives no right to write.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// This host can't do it.
    #[error("{0}")]
    Cannot(String),
    /// A signal came while everything was prepared.
    #[error("interrupted before anything was measured; nothing is left behind")]
    Interrupted,
}

/// Why a run ended, as its record is to say, and what remains to be told once the record is kept: that
/// its device came into use. Any other error says nothing of what was measured.
pub(super) fn or_in_use(
    all: anyhow::Result<Ended>,
) -> anyhow::Result<(Ended, Option<anyhow::Error>)> {
    match all {
        Ok(ended) => Ok((ended, None)),
        Err(error) => match error.downcast_ref() {
            Some(SetupError::Refused(_)) => Ok((Ended::InUse, Some(error))),
            _ => Err(error),
        },
    }
}

impl From<EngineError> for SetupError {
    fn from(error: EngineError) -> SetupError {
        SetupError::Cannot(error.to_string())
    }
}

impl From<ScratchError> for SetupError {
    fn from(error: ScratchError) -> SetupError {
        match error {
            ScratchError::Interrupted => SetupError::Interrupted,
            other => SetupError::Cannot(other.to_string()),
        }
    }
}
