//! A filesystem that a lab builds.

use serde::{Deserialize, Serialize};

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
    /// Why it was not measured, or not to the end: what was tried, and what was said.
    #[serde(default)]
    pub failed: Option<String>,
}
