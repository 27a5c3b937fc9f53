//! A lab: the filesystems that it builds, and the question that they answer.

use serde::{Deserialize, Serialize};

use super::cell::FileState;

/// What is built, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name in the profile.
    pub name: String,
    /// The filesystem's type.
    pub fs_type: String,
    /// Options of its mkfs.
    pub mkfs: Vec<String>,
    /// Options of its mount, as mount(8) takes them.
    pub mount: Vec<String>,
    /// Its journal, or log, lies on a device of its own.
    #[serde(default)]
    pub external_journal: bool,
    /// The commands that made it, as they ran.
    #[serde(default)]
    pub commands: Vec<String>,
    /// What its mkfs tells of itself.
    #[serde(default)]
    pub mkfs_version: Option<String>,
    /// Why it was not measured, or not to the end: what was tried, and what was said.
    #[serde(default)]
    pub failed: Option<String>,
}

/// What a lab's record says of the whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lab {
    /// The profile.
    pub profile: String,
    /// What it wants to know.
    pub question: String,
    /// Where the filesystems are built.
    pub scratch: String,
    /// It is an image on another filesystem, whose cost is in every absolute figure.
    pub is_image: bool,
    /// Changes whose gain is to be told.
    #[serde(default)]
    pub remedies: Vec<Remedy>,
}

/// A change that somebody recommends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// What is changed.
    pub name: String,
    /// The gain in throughput that is claimed, in percent.
    pub claimed_percent: f64,
    /// Without it.
    pub from: Side,
    /// With it.
    pub to: Side,
}

/// One side of a change: a variant, and the state of its file's blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// The variant's name.
    pub variant: String,
    /// The state.
    pub state: FileState,
}
