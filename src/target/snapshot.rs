//! Everybody on this machine who uses block devices, read once, device by device.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::exports::{Export, exports};
use super::loops::{self, Backing};
use super::mount::block_device;
use super::mountinfo::{self, unescape};
use super::sysfs::{dev_of, device_dir, is_partition, name_of, names, text, value};
use crate::model::facts::DevId;
use crate::sys::root::Root;

/// A mount, in this or in another mount namespace.
#[derive(Clone, Debug)]
pub(super) struct MountUse {
    pub(super) dev: DevId,
    pub(super) mount_point: String,
    /// A process that sees it, if this one doesn't.
    pub(super) pid: Option<u32>,
}

/// An attached loop device.
#[derive(Clone, Debug)]
pub(super) struct LoopUse {
    pub(super) name: String,
    pub(super) dev: DevId,
    pub(super) size_bytes: u64,
    pub(super) backing: Backing,
}

/// A process with a block device open for writing.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) dev: DevId,
    pub(super) pid: u32,
    pub(super) process: String,
}

/// A whole disk that tells who it is.
#[derive(Clone, Debug)]
pub(super) struct Identified {
    /// Its directory, with links resolved.
    pub(super) dir: PathBuf,
    /// The same for each path to one drive.
    pub(super) wwid: String,
}

/// All users of block devices that can be seen from here.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) mounts: Vec<MountUse>,
    pub(super) swaps: Vec<DevId>,
    /// Members of mounted btrfs filesystems, and their UUIDs.
    pub(super) btrfs: Vec<(DevId, String)>,
    pub(super) loops: Vec<LoopUse>,
    pub(super) writers: Vec<Writer>,
    /// What other hosts may write.
    pub(super) exports: Vec<Export>,
    /// Not users, but by whom devices may be used under another number.
    pub(super) disks: Vec<Identified>,
}

impl Snapshot {
    /// Looks at everything now. What can't be read, as other users' processes without privilege,
    /// is not in it.
    pub(super) fn take(root: &Root) -> Snapshot {
        let pids = pids(root);
        Snapshot {
            mounts: mount_uses(root, &pids),
            swaps: swaps(root),
            btrfs: btrfs_members(root),
            loops: attached_loops(root),
            writers: writers(root, &pids),
            exports: exports(root),
            disks: identified_disks(root),
        }
    }
}

/// Whether this process sees all others: it lives in the PID namespace that the machine started with,
/// whose number is fixed (PROC_PID_INIT_INO in include/linux/proc_ns.h), or the kernel has but one.
pub fn sees_all_processes(root: &Root) -> bool {
    const INITIAL: &str = "pid:[4026531836]";
    let own = fs::read_link(root.proc.join("self/ns/pid"));
    own.map_or(true, |own| own == Path::new(INITIAL))
}

/// The processes of this machine that can be seen, this one left out.
fn pids(root: &Root) -> Vec<u32> {
    let own = fs::read_link(root.proc.join("self")).unwrap_or_default();
    names(&root.proc)
        .iter()
        .filter(|name| Path::new(name) != own)
        .filter_map(|name| name.parse().ok())
        .collect()
}

/// The mounts of this namespace, then those of each other one, by way of a process in it.
fn mount_uses(root: &Root, pids: &[u32]) -> Vec<MountUse> {
    let namespace = |process: &str| fs::read_link(root.proc.join(process).join("ns/mnt")).ok();
    let mut found = mounts_seen_by(root, "self", None);
    let mut seen: HashSet<_> = namespace("self").into_iter().collect();
    for &pid in pids {
        let process = pid.to_string();
        if namespace(&process).is_some_and(|namespace| seen.insert(namespace)) {
            let known: HashSet<(DevId, String)> = found
                .iter()
                .map(|mount| (mount.dev, mount.mount_point.clone()))
                .collect();
            found.extend(
                mounts_seen_by(root, &process, Some(pid))
                    .into_iter()
                    .filter(|mount| !known.contains(&(mount.dev, mount.mount_point.clone()))),
            );
        }
    }
    found
}

fn mounts_seen_by(root: &Root, process: &str, pid: Option<u32>) -> Vec<MountUse> {
    let text = fs::read(root.proc.join(process).join("mountinfo")).unwrap_or_default();
    mountinfo::parse(&text)
        .into_iter()
        .filter_map(|line| {
            Some(MountUse {
                dev: block_device(root, &line)?,
                mount_point: line.mount_point,
                pid,
            })
        })
        .collect()
}

/// Devices in /proc/swaps (proc_swaps(5)).
fn swaps(root: &Root) -> Vec<DevId> {
    let table = fs::read_to_string(root.proc.join("swaps")).unwrap_or_default();
    table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(|path| unescape(path.as_bytes()))
        .filter_map(|path| device_at(root, &path))
        .collect()
}

/// The block device of a node under /dev, by the node's number, and where there is no such node here, by
/// its name in sysfs.
pub(super) fn device_at(root: &Root, path: &str) -> Option<DevId> {
    let node = root.dev.join(path.strip_prefix("/dev/")?);
    let by_number = fs::metadata(&node)
        .ok()
        .filter(|found| found.file_type().is_block_device())
        .map(|found| DevId::from_dev(found.rdev()));
    let by_name = || dev_of(root.sys.join("class/block").join(node.file_name()?));
    by_number.or_else(by_name)
}

fn btrfs_members(root: &Root) -> Vec<(DevId, String)> {
    let btrfs = root.sys.join("fs/btrfs");
    names(&btrfs)
        .into_iter()
        .flat_map(|uuid| {
            let devices = btrfs.join(&uuid).join("devices");
            names(&devices)
                .into_iter()
                .filter_map(move |name| dev_of(devices.join(name)))
                .map(move |dev| (dev, uuid.clone()))
        })
        .collect()
}

fn attached_loops(root: &Root) -> Vec<LoopUse> {
    let class = root.sys.join("class/block");
    names(&class)
        .iter()
        .filter(|name| class.join(name).join("loop/backing_file").exists())
        .filter_map(|name| dev_of(class.join(name)))
        .filter_map(|dev| {
            let dir = device_dir(root, dev).ok()?;
            Some(LoopUse {
                name: name_of(&dir),
                dev,
                size_bytes: value::<u64>(dir.join("size")).unwrap_or(0) * 512,
                backing: loops::backing(root, dev, &dir)?,
            })
        })
        .collect()
}

/// Disks with a world-wide identity: SCSI's is an attribute of the device (sdev_show_wwid() in
/// drivers/scsi/scsi_sysfs.c), NVMe's of the namespace's disk (wwid_show() in
/// drivers/nvme/host/sysfs.c). The paths below a native multipath disk have no number and no node.
fn identified_disks(root: &Root) -> Vec<Identified> {
    let class = root.sys.join("class/block");
    names(&class)
        .iter()
        .filter_map(|name| class.join(name).canonicalize().ok())
        .filter(|dir| !is_partition(dir) && dev_of(dir).is_some())
        .filter_map(|dir| {
            let wwid = text(dir.join("device/wwid")).or_else(|| text(dir.join("wwid")))?;
            Some(Identified { dir, wwid })
        })
        .collect()
}

/// Processes with a block device open for writing. The kernel's own users, such as mounts, have no
/// descriptors: they are found elsewhere.
fn writers(root: &Root, pids: &[u32]) -> Vec<Writer> {
    let mut found = Vec::new();
    for &pid in pids {
        let process = root.proc.join(pid.to_string());
        let mut devices = HashSet::new();
        for fd in names(process.join("fd")) {
            let info = fs::read_to_string(process.join("fdinfo").join(&fd)).unwrap_or_default();
            // Asked first: a stat of a file on a dead server would wait, and few are open to write.
            if !opened_to_write(&info) {
                continue;
            }
            let link = process.join("fd").join(&fd);
            let is_path = fs::read_link(&link).is_ok_and(|target| target.is_absolute());
            if let Some(file) = is_path.then(|| fs::metadata(&link).ok()).flatten()
                && file.file_type().is_block_device()
                && devices.insert(file.rdev())
            {
                found.push(Writer {
                    dev: DevId::from_dev(file.rdev()),
                    pid,
                    process: text(process.join("comm")).unwrap_or_default(),
                });
            }
        }
    }
    found
}

/// Whether an fdinfo's octal `flags:` say that the file is open for writing (proc_pid_fdinfo(5)).
fn opened_to_write(fdinfo: &str) -> bool {
    fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & libc::O_PATH == 0 && flags & libc::O_ACCMODE != libc::O_RDONLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_octal_flags_of_fdinfo_tell_who_may_write() {
        assert!(opened_to_write("pos:\t0\nflags:\t0100002\nmnt_id:\t1\n"));
        assert!(opened_to_write("flags:\t01\n"));
        assert!(!opened_to_write("flags:\t0100000\n"));
        assert!(!opened_to_write("flags:\t010000002\n"), "O_PATH");
        assert!(!opened_to_write(""));
    }
}
