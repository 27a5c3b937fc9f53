//! What was found of what is to be measured.

use crate::guard::{Confirmations, Permit};
use crate::model::cell::CellSpec;
use crate::model::facts::MountFacts;
use crate::model::record::{Level, Note, Record};
use crate::model::timeline::Workload;

use super::room::Shares;

/// What will be measured, and what is known of it.
#[derive(Debug)]
pub struct Survey {
    /// The record, with targets and cells, before anything is measured.
    pub record: Record,
    /// The claimed device.
    pub(super) permit: Option<Permit>,
    /// The directories' mounts, by target.
    pub(super) mounts: Vec<(String, MountFacts)>,
    /// What these may take of their filesystems.
    pub(super) shares: Shares,
    /// Directories that fail are told and left out.
    pub(super) all: bool,
    pub(super) overwrite: bool,
    pub(super) insists_on_direct: bool,
    /// The sequential writes that make a drive steady, where a claim asks for them.
    pub(super) fill: Option<CellSpec>,
    /// What confirms that the device may be discarded.
    pub(super) purge: Option<String>,
    /// What runs over time, by target, in the order of `mounts`.
    pub(super) workloads: Vec<(String, Workload)>,
}

impl Survey {
    /// What `--overwrite` of the claimed device must be confirmed with; none if no device was named.
    pub fn confirmations(&self) -> Option<Confirmations> {
        self.permit.as_ref().map(Permit::confirmations)
    }

    pub(super) fn warn(&mut self, target: Option<&str>, text: String) {
        let target = target.map(str::to_owned);
        self.record.notes.push(Note {
            level: Level::Warning,
            target,
            text,
        });
    }

    pub(super) fn remark(&mut self, target: &str, text: String) {
        let target = Some(target.to_owned());
        self.record.notes.push(Note {
            level: Level::Remark,
            target,
            text,
        });
    }
}
