//! Which counters are read for a target, and what is told of those that can't be.

use std::path::PathBuf;

use crate::model::devid::DevId;
use crate::model::facts::DeviceKind;
use crate::model::record::{Level, Note, Record, Target};
use crate::observe::blockstat;
use crate::observe::fsstat::FsStat;
use crate::sys::root::Root;
use crate::target;

/// Whose counters are read for a target.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Its devices that count, those below others among them.
    pub(super) devices: Vec<DevId>,
    /// Those that its bytes go to directly; none where one of them isn't known or doesn't count.
    pub(super) tops: Vec<DevId>,
    /// The other partitions of the disks below it, by name.
    pub(super) neighbours: Vec<(String, DevId)>,
    /// The filesystem of a directory.
    pub(super) filesystem: Option<FsStat>,
}

/// The counters of the target `id`.
pub(super) fn of(root: &Root, record: &Record, id: &str) -> Counters {
    let Some(target) = record.targets.iter().find(|target| target.id == id) else {
        return Counters::default();
    };
    let counts = |dev: &DevId| blockstat::switched_off(root, *dev).is_none();
    let mut devices: Vec<DevId> = Vec::new();
    for dev in target.devices().map(|device| device.dev).filter(counts) {
        if !devices.contains(&dev) {
            devices.push(dev);
        }
    }
    let tops = target.tops().unwrap_or_default();
    let all_count = tops.iter().all(|top| devices.contains(top));
    Counters {
        tops: if all_count { tops } else { Vec::new() },
        devices,
        neighbours: neighbours(root, target),
        filesystem: target.mount.as_ref().map(|mount| FsStat::of(root, mount)),
    }
}

/// Only partitions can be held against their disk: what other devices of a stack pass on, as a loop
/// device does to its file, becomes other bytes below.
fn neighbours(root: &Root, target: &Target) -> Vec<(String, DevId)> {
    let partitions = target
        .devices()
        .filter(|device| device.kind == DeviceKind::Partition);
    let mut found = Vec::new();
    for neighbour in partitions.flat_map(|device| target::neighbours(root, device.dev)) {
        let is_own = target.devices().any(|own| own.dev == neighbour.1);
        if !is_own && !found.contains(&neighbour) {
            found.push(neighbour);
        }
    }
    found
}

/// A warning for each target whose devices count nothing.
pub(super) fn uncounted(root: &Root, record: &Record) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for target in &record.targets {
        let mut told: Vec<PathBuf> = Vec::new();
        let unknown = target.beside.iter().find(|more| more.stack.is_empty());
        notes.extend(unknown.map(|more| Note {
            level: Level::Warning,
            target: Some(target.id.clone()),
            text: format!(
                "no device is known that holds its {}, so amplification and flushes are unknown; run as \
                 root, and give the mount the device by its path below /dev",
                more.holds
            ),
        }));
        for device in target.devices() {
            let off = blockstat::switched_off(root, device.dev);
            // A partition's switch is its disk's.
            let Some(switch) = off.filter(|switch| !told.contains(switch)) else {
                continue;
            };
            notes.push(Note {
                level: Level::Warning,
                target: Some(target.id.clone()),
                text: format!(
                    "the kernel does not count what {} does, so amplification and flushes are unknown \
                     there; switch it on: echo 1 > {}",
                    device.name,
                    switch.display(),
                ),
            });
            told.push(switch);
        }
    }
    notes
}

/// What is told of a device whose counters could not be used in a slice.
pub(super) fn lost(target: &str, dev: DevId) -> Note {
    Note {
        level: Level::Warning,
        target: Some(target.to_owned()),
        text: format!(
            "the counters of block device {dev} vanished or began anew during a slice, which is left \
             out of that device's figures; look in the kernel's log for a device that was removed"
        ),
    }
}
