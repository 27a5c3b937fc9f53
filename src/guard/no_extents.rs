//! Why a file's blocks can't be had.

/// What helps where these blocks can't be had.
pub(super) const OTHER_BASELINE: &str = "compare with a spare device: --raw DEVICE";

/// Why a file's blocks can't be written through the device below.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {remedy}")]
pub struct NoExtents {
    reason: String,
    remedy: String,
}

impl NoExtents {
    pub(super) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> NoExtents {
        NoExtents {
            reason: reason.into(),
            remedy: remedy.into(),
        }
    }

    /// Why, in one line.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What would help, in one line.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}
