//! What a directory's cells are compared with.

use crate::guard::{MAX_PRESERVED_BYTES, Permit};
use crate::model::cell::{CellSpec, Role};
use crate::model::facts::{DeviceFacts, MountFacts};
use crate::model::record::{Baseline, BaselineKind, Cell, Target, TargetKind};
use crate::model::units::show_bytes;
use crate::plan::{self, TargetPlan};

use super::request::RunRequest;
use super::survey::Survey;

/// The `id` of a device that was named.
pub(super) const DEVICE: &str = "raw";

/// Why writes through the page cache have no baseline at the file's own blocks, and what to do.
const CACHED: (&str, &str) = (
    "the device of a mounted filesystem is written past the page cache only",
    "use --direct on, or name a spare device with --raw DEVICE",
);

impl Survey {
    /// Plans the raw side for a directory's cells: at the device that was named, or through the
    /// filesystem's own device at the scratch file's blocks.
    pub(super) fn add_baseline(
        &mut self,
        directory: &Target,
        mount: &MountFacts,
        file_cells: &[CellSpec],
        request: &RunRequest,
    ) -> Baseline {
        let direct: Vec<CellSpec> = file_cells
            .iter()
            .filter(|spec| spec.axes.direct)
            .cloned()
            .collect();
        let (kind, plan, compared) = if request.device.is_some() {
            let stack = self.permit.as_ref().map_or(&[][..], Permit::facts);
            (
                BaselineKind::Device,
                device_plan(DEVICE, stack, request.overwrite),
                file_cells,
            )
        } else if mount.block_device.is_none() || directory.stack.is_empty() {
            let reason = format!("{} is not on one block device", mount.fs_type);
            return no_baseline(reason, "name a spare device with --raw DEVICE".to_owned());
        } else if direct.is_empty() {
            return no_baseline(CACHED.0.to_owned(), CACHED.1.to_owned());
        } else {
            if direct.len() < file_cells.len() {
                let text = format!("cells with --direct off: {}; {}", CACHED.0, CACHED.1);
                self.warn(Some(&directory.id), text);
            }
            let id = format!("{}.raw", directory.id);
            let plan = device_plan(&id, &directory.stack, true);
            let path = format!("/dev/{}", directory.stack[0].name);
            let target = device_target(&id, path, directory.stack.clone());
            self.record.targets.push(target);
            (BaselineKind::Extents, plan, &direct[..])
        };
        let counterparts = plan::raw_counterparts(compared, &plan);
        for skip in counterparts.skipped {
            self.warn(
                Some(&directory.id),
                format!("{}: {}", show_bytes(skip.size_bytes), skip.reason),
            );
        }
        for spec in counterparts.cells {
            if !self.record.cells.iter().any(|cell| cell.spec.id == spec.id) {
                self.record.cells.push(Cell::new(spec));
            }
        }
        Baseline {
            kind,
            target: Some(plan.id),
            reason: None,
            remedy: None,
        }
    }
}

pub(super) fn no_baseline(reason: String, remedy: String) -> Baseline {
    Baseline {
        kind: BaselineKind::None,
        target: None,
        reason: Some(reason),
        remedy: Some(remedy),
    }
}

pub(super) fn device_target(id: &str, path: String, stack: Vec<DeviceFacts>) -> Target {
    Target {
        id: id.to_owned(),
        path,
        kind: TargetKind::Device,
        stack,
        mount: None,
        beside: Vec::new(),
        idle: None,
        buffered: None,
        nocow: None,
        content: None,
        baseline: None,
        variant: None,
    }
}

pub(super) fn device_plan(id: &str, stack: &[DeviceFacts], overwrite: bool) -> TargetPlan {
    let device = stack.first();
    let size_bytes = device.map_or(0, |device| device.size_bytes);
    TargetPlan {
        id: id.to_owned(),
        role: Role::Raw,
        logical_block_bytes: device.and_then(|d| d.logical_block_bytes).unwrap_or(512),
        span_limit_bytes: match overwrite {
            true => size_bytes,
            false => size_bytes.min(MAX_PRESERVED_BYTES),
        },
    }
}
