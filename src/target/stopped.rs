//! Devices and filesystems that answer nothing for now: who writes there, or reads, waits in the kernel, out
//! of reach of every signal.

use std::path::Path;
use std::time::Duration;

use super::dm::Control;
use super::mount::mounts;
use super::stack::stack;
use super::sysfs::{device_dir, flag, text, value};
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::sys::process::answers;
use crate::sys::root::Root;

/// A filesystem that answers at all does so within this time, unless its device is far too busy to be
/// measured.
const PATIENCE: Duration = Duration::from_secs(5);

/// What doesn't answer, why, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// A device's kernel name, or a directory.
    pub what: String,
    /// In words that follow "is".
    pub why: String,
    /// What to do.
    pub remedy: String,
}

/// What of a device and all that it lies on answers nothing, the filesystem of a loop device's image
/// included; none if all do. No device is touched.
pub fn stopped(root: &Root, dev: DevId) -> Option<Stopped> {
    let control = Control::open(root);
    let stack = stack(root, dev).ok()?;
    let device = stack
        .iter()
        .find_map(|device| stopped_device(root, &control, device));
    device.or_else(|| {
        let images = stack
            .iter()
            .filter(|device| device.kind == DeviceKind::Loop);
        let images = images.filter_map(|device| device.backing_file.as_ref());
        let mut folders = images.filter_map(|image| Path::new(image).parent());
        // Where the path leads to nothing here, nothing is known.
        folders.find_map(|folder| frozen(folder, format!("the filesystem at {}", folder.display())))
    })
}

/// What a directory lies on that answers nothing: its device, by the mounts and without a look at the
/// directory, or the filesystem.
pub fn stopped_below(root: &Root, directory: &Path) -> Option<Stopped> {
    let path = std::path::absolute(directory).ok()?;
    let mounts = mounts(root).ok()?.into_iter();
    let above = mounts.filter(|mount| path.starts_with(&mount.mount_point));
    // Of two at the same place, the later one lies on top.
    let mount = above.max_by_key(|mount| mount.mount_point.len())?;
    let device = mount.block_device.and_then(|dev| stopped(root, dev));
    device.or_else(|| frozen(&path, "its filesystem".to_owned()))
}

fn stopped_device(root: &Root, control: &Control, device: &DeviceFacts) -> Option<Stopped> {
    let dir = device_dir(root, device.dev).ok()?;
    let name = &device.name;
    let state = text(dir.join("device/state"));
    let dm_name = device.dm_name.as_deref().unwrap_or(name);
    let (why, remedy) = if flag(dir.join("dm/suspended")) == Some(true) {
        (
            format!("suspended (device-mapper device {dm_name})"),
            format!("resume it (dmsetup resume {dm_name})"),
        )
    } else if device.kind == DeviceKind::Dm && waits_for_paths(control, device.dev) {
        (
            format!(
                "without a path, and keeps what is written until one is back (multipath device {dm_name})"
            ),
            format!(
                "bring one back (multipath -ll {dm_name} shows them), or let it fail (dmsetup message {dm_name} 0 \
                 fail_if_no_path)"
            ),
        )
    } else if value::<u64>(dir.join("md/suspend_hi")).is_some_and(|sector| sector > 0) {
        // Documentation/admin-guide/md.rst
        (
            "suspended up to a sector (md/suspend_hi)".to_owned(),
            format!("let its reshape go on, or echo 0 >/sys/block/{name}/md/suspend_hi"),
        )
    } else if let Some(state) = state.filter(|state| is_waiting(state)) {
        (
            format!("in state {state:?} at its driver"),
            format!("wait until /sys/block/{name}/device/state is another, or remove the drive"),
        )
    } else {
        return None;
    };
    Some(Stopped {
        what: name.clone(),
        why,
        remedy,
    })
}

/// States in which requests are kept: sdev_states in drivers/scsi/scsi_sysfs.c, nvme_sysfs_show_state() in
/// drivers/nvme/host/sysfs.c.
fn is_waiting(state: &str) -> bool {
    matches!(state, "blocked" | "quiesce" | "resetting" | "connecting")
}

/// Whether a map is multipath's, and would rather wait than fail (Documentation/admin-guide/device-mapper/
/// dm-queue-length.rst shows a status): no path is `A`, active.
fn waits_for_paths(control: &Control, dev: DevId) -> bool {
    let queues = control.table(dev).is_some_and(|table| {
        let mut targets = table.iter();
        targets
            .any(|target| target.kind == "multipath" && target.words.contains("queue_if_no_path"))
    });
    queues
        && control.status(dev).is_some_and(|status| {
            let mut targets = status.iter();
            targets.any(|target| !has_path(&target.words))
        })
}

/// Whether a path, `8:16 A 0`, of multipath's status is active.
fn has_path(status: &str) -> bool {
    let words: Vec<&str> = status.split_whitespace().collect();
    let mut pairs = words.windows(2);
    pairs.any(|pair| pair[0].parse::<DevId>().is_ok() && pair[1] == "A")
}

/// A directory whose filesystem keeps who writes waiting, by one of its own who does: it removes what isn't
/// there, for which the kernel asks to write first (do_unlinkat() in fs/namei.c).
fn frozen(directory: &Path, what: String) -> Option<Stopped> {
    let missing = directory.join(format!(".syncprof-{}-is-not-there", std::process::id()));
    let answers = answers(&missing, PATIENCE).unwrap_or(true);
    (!answers).then(|| Stopped {
        what,
        why: format!("frozen: nothing was written there within {} s", PATIENCE.as_secs()),
        remedy: "thaw its filesystem (fsfreeze --unfreeze MOUNT-POINT), or see why its device doesn't answer"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a 6.12 kernel tells it.
    #[test]
    fn a_multipath_status_tells_whether_a_path_is_left() {
        assert!(has_path("2 0 0 0 1 1 A 0 2 0 7:2 A 0 7:3 F 1"));
        assert!(!has_path("2 1 0 0 1 1 E 0 2 0 7:2 F 1 7:3 F 1"));
        // The group's own state is no path's.
        assert!(!has_path("2 0 0 0 1 1 A 0 1 0 7:2 F 1"));
    }

    #[test]
    fn a_folder_that_can_be_written_or_is_missing_is_not_frozen() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(frozen(folder.path(), String::new()), None);
        assert_eq!(frozen(&folder.path().join("nothing"), String::new()), None);
    }
}
