//! What drives count of their own, before and after a run.

use crate::model::drive::DriveCounts;
use crate::model::record::{Record, Target};
use crate::sys::root::Root;
use crate::target;

/// Reads the counts of every drive below the targets that tells any, right before the first slice.
pub(super) fn begin(root: &Root, record: &mut Record) {
    let devices = record.targets.iter().flat_map(Target::devices);
    let mut drives: Vec<DriveCounts> = Vec::new();
    for device in devices {
        let Some(known) = device
            .drive
            .as_ref()
            .and_then(|drive| drive.health.as_ref())
        else {
            continue;
        };
        if drives.iter().any(|drive| drive.dev == device.dev) {
            continue;
        }
        drives.extend(
            target::health(root, device.dev, known).map(|before| DriveCounts {
                dev: device.dev,
                before,
                after: None,
            }),
        );
    }
    record.drives = drives;
}

/// Reads them again, right after the last slice.
pub(super) fn end(root: &Root, record: &mut Record) {
    for drive in &mut record.drives {
        drive.after = target::health(root, drive.dev, &drive.before);
    }
}
