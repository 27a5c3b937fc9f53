//! The sides of a workload that are compared.

use std::time::Duration;

use crate::model::cell::Role;
use crate::model::timeline::{Segments, Workload};
use crate::plan::WorkloadPlan;

use super::dirs::WorkloadDir;
use crate::session::survey::Survey;

/// One side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Through the filesystem.
    File,
    /// Through the filesystem, to segments of this kind.
    Segments(Segments),
    /// The device.
    Raw,
}

impl Side {
    pub(super) fn role(self) -> Role {
        match self {
            Side::File | Side::Segments(_) => Role::File,
            Side::Raw => Role::Raw,
        }
    }

    pub(super) fn segments(self) -> Option<Segments> {
        match self {
            Side::Segments(segments) => Some(segments),
            Side::File | Side::Raw => None,
        }
    }

    pub(super) fn duration(self, plan: &WorkloadPlan) -> Duration {
        match self {
            Side::Raw => plan.raw_duration,
            Side::File | Side::Segments(_) => plan.duration,
        }
    }
}

/// All sides of a workload, with the device's if it has one.
pub(super) fn sides(workload: &Workload, has_raw: bool) -> Vec<Side> {
    let mut sides = match workload {
        Workload::WalAppend(_) => vec![
            Side::Segments(Segments::Created),
            Side::Segments(Segments::Recycled),
        ],
        Workload::Checkpoint(_) | Workload::Churn(_) => vec![Side::File],
    };
    if has_raw {
        sides.push(Side::Raw);
    }
    sides
}

/// A side in words: what is measured where.
pub(super) fn name(target: &str, workload: &Workload, side: Side) -> String {
    let of = match side {
        Side::File => "file",
        Side::Segments(Segments::Created) => "file, segments created",
        Side::Segments(Segments::Recycled) => "file, segments recycled",
        Side::Raw => "raw",
    };
    format!("{target} {}: {of}", workload.kind())
}

impl WorkloadDir {
    /// All sides of its workload.
    pub(super) fn sides(&self) -> Vec<Side> {
        sides(&self.workload, self.raw.is_some())
    }
}

impl Survey {
    /// The sides of all workloads, in words.
    pub fn workload_names(&self) -> Vec<String> {
        let of = |(id, workload): &(String, Workload)| {
            let target = self.record.targets.iter().find(|target| target.id == *id);
            let baseline = target.and_then(|target| target.baseline.as_ref());
            let has_raw = baseline.is_some_and(|baseline| baseline.target.is_some());
            let sides = sides(workload, has_raw).into_iter();
            sides
                .map(|side| name(id, workload, side))
                .collect::<Vec<_>>()
        };
        self.workloads.iter().flat_map(of).collect()
    }
}
