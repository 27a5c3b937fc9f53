//! What drives say of themselves: NVMe by admin commands, SCSI and ATA drives by SCSI ones. All of it
//! reads; `sys::nvme` and `sys::sg` can send nothing else.

pub mod nvme;
pub mod scsi;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::stack::device_node;
use super::sysfs::{device_dir, disk_dir, name_of, names};
use crate::model::devid::DevId;
use crate::model::drive::{DriveFacts, Health};
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::sys::root::Root;

/// Asks the drives among `devices` for their own facts, each once. The kernel's facts are gathered
/// often, these only when somebody shows or records them: a question keeps a drive busy for a moment.
pub fn ask_drives<'a>(root: &Root, devices: impl IntoIterator<Item = &'a mut DeviceFacts>) {
    let mut asked = HashMap::new();
    for device in devices {
        if device.kind == DeviceKind::Disk {
            let facts = asked
                .entry(device.dev)
                .or_insert_with(|| drive(root, device.dev));
            device.drive.clone_from(facts);
        }
    }
}

/// The wear and temperature of a drive that `known` is of; none where it can't be had.
pub fn health(root: &Root, dev: DevId, known: &Health) -> Option<Health> {
    let node = open(root, dev).ok()?;
    nvme::health(&node, known.media_written_bytes.is_some())
}

fn drive(root: &Root, dev: DevId) -> Option<DriveFacts> {
    let dir = device_dir(root, dev).ok()?;
    let device = disk_dir(&dir).join("device");
    if is_nvme(&device) {
        return Some(nvme::facts(open(root, dev)));
    }
    let driver = device.join("scsi_disk");
    let first = names(&driver).into_iter().next()?;
    Some(scsi::facts(&device, &driver.join(first), || {
        open(root, dev)
    }))
}

/// A disk hangs at its controller, or with several paths at its subsystem
/// (drivers/nvme/host/multipath.c).
fn is_nvme(device: &Path) -> bool {
    let class = device.join("subsystem").canonicalize();
    class.is_ok_and(|class| ["nvme", "nvme-subsystem"].contains(&name_of(&class).as_str()))
}

/// Opens a drive's node to ask it; an error says what could not be opened.
fn open(root: &Root, dev: DevId) -> Result<File, String> {
    let path = device_node(root, dev).map_err(|error| error.to_string())?;
    OpenOptions::new()
        .read(true)
        // So that a SCSI host that is recovering from errors answers EAGAIN and keeps nobody waiting.
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .map_err(|error| format!("cannot open {}: {error}", path.display()))
}

/// Little-endian integers, as NVMe and ATA have them. None beyond the end.
fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at + N)?.try_into().ok()
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    bytes(data, at).map(u16::from_le_bytes)
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    bytes(data, at).map(u32::from_le_bytes)
}
