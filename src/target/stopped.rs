//! Devices and filesystems that answer nothing for now: who writes there, or reads, waits in the kernel, out
//! of reach of every signal.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::dm::Control;
use super::mount::mounts;
use super::stack::stack;
use super::sysfs::{device_dir, flag, text, value};
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::sys::process::answers;
use crate::sys::root::Root;

/// How long a filesystem may say nothing while its device completes no write.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one may that is only busy: its device completes writes all the while.
const BUSY: Duration = Duration::from_secs(30);

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
        let named = |folder: &Path| format!("the filesystem at {}", folder.display());
        folders.find_map(|folder| frozen(root, None, folder, named(folder)))
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
    device.or_else(|| frozen(root, mount.block_device, &path, "its filesystem".to_owned()))
}

/// Tells a device that is only busy from one that hangs: it goes on completing writes.
pub struct Progress {
    stat: Option<PathBuf>,
    writes: Option<u64>,
    begun: Instant,
}

impl Progress {
    /// Of a device from now on; without one, none will be seen.
    pub fn of(root: &Root, dev: Option<DevId>) -> Progress {
        let dir = dev.and_then(|dev| device_dir(root, dev).ok());
        let stat = dir.map(|dir| dir.join("stat"));
        Progress {
            writes: stat.as_deref().and_then(writes),
            stat,
            begun: Instant::now(),
        }
    }

    /// Whether to wait on: writes were completed since the last look, and not for too long.
    pub fn is_made(&mut self) -> bool {
        let now = self.stat.as_deref().and_then(writes);
        let is_made = now != self.writes && self.begun.elapsed() < BUSY;
        self.writes = now;
        is_made
    }
}

/// The fifth number (Documentation/block/stat.rst).
fn writes(stat: &Path) -> Option<u64> {
    text(stat)?.split_whitespace().nth(4)?.parse().ok()
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
fn frozen(root: &Root, dev: Option<DevId>, directory: &Path, what: String) -> Option<Stopped> {
    let missing = directory.join(format!(".syncprof-{}-is-not-there", std::process::id()));
    let mut progress = Progress::of(root, dev);
    let answers = answers(&missing, PATIENCE, || progress.is_made()).unwrap_or(true);
    (!answers).then(|| Stopped {
        what,
        why: format!(
            "frozen, or waits for its device: a file's removal didn't return in {} s",
            progress.begun.elapsed().as_secs()
        ),
        remedy: "thaw its filesystem (fsfreeze --unfreeze MOUNT-POINT), or see why its device doesn't answer \
                 or what else keeps it busy"
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
        let look = |path: &Path| frozen(&Root::host(), None, path, String::new());
        assert_eq!(look(folder.path()), None);
        assert_eq!(look(&folder.path().join("nothing")), None);
    }

    #[test]
    fn a_busy_device_completes_writes_and_one_that_hangs_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let stat = folder.path().join("stat");
        let counts = |writes: u64| {
            // As a 6.18 kernel prints them: reads go on in a frozen filesystem too.
            let line = format!("{writes} 0 8 1 {writes} 0 64 3 1 4 4 0 0 0 0 0 0\n");
            std::fs::write(&stat, line).unwrap();
        };
        counts(7);
        let mut progress = Progress {
            writes: writes(&stat),
            stat: Some(stat.clone()),
            begun: Instant::now(),
        };
        assert!(!progress.is_made());
        counts(8);
        assert!(progress.is_made());
        std::fs::write(&stat, "99 0 8 1 8 0 64 3 1 4 4 0 0 0 0 0 0\n").unwrap();
        assert!(!progress.is_made());
        assert!(!Progress::of(&Root::host(), None).is_made());
    }
}
