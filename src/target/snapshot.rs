//! Everybody on this machine who uses block devices, read once, device by device.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::exports::{Export, exports};
use super::graph::Node;
use super::images::Images;
use super::loops::{self, Backing, FileId};
use super::mount::block_device;
use super::mountinfo::{self, unescape};
use super::sysfs::{dev_of, disk_dir, is_partition, names, text, value};
use super::usage::DeviceUser;
use crate::model::devid::DevId;
use crate::model::units::SECTOR_BYTES;
use crate::sys::process::share_descriptors;
use crate::sys::root::Root;

/// A mount, in this or in another mount namespace.
#[derive(Clone, Debug)]
pub(super) struct MountUse {
    pub(super) dev: DevId,
    pub(super) mount_point: String,
    /// A process that sees it, if this one doesn't.
    pub(super) pid: Option<u32>,
}

/// A block device.
#[derive(Clone, Debug)]
pub(super) struct BlockDevice {
    pub(super) name: String,
    pub(super) dev: DevId,
    pub(super) size_bytes: u64,
    /// Its directory, with links resolved.
    pub(super) dir: PathBuf,
    /// The disk that it is a partition of.
    pub(super) disk: Option<DevId>,
    /// Of a whole disk: the same for each path to one drive.
    pub(super) wwid: Option<String>,
}

impl BlockDevice {
    pub(super) fn is_dm(&self) -> bool {
        self.dir.join("dm").is_dir()
    }
}

/// An attached loop device.
#[derive(Clone, Debug)]
pub(super) struct LoopUse {
    pub(super) dev: DevId,
    pub(super) backing: Backing,
}

/// A process with a block device, or a file that one lies on, open for writing.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) node: Node,
    pub(super) pid: u32,
    pub(super) process: String,
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
    /// All devices, users or not.
    pub(super) devices: Vec<BlockDevice>,
}

impl Snapshot {
    /// Looks at everything now. What can't be read, as other users' processes without privilege,
    /// is not in it.
    pub(super) fn take(root: &Root) -> Snapshot {
        let pids = pids(root);
        let images = Images::of(root);
        let devices = Snapshot::of_devices(root);
        Snapshot {
            mounts: mount_uses(root, &pids),
            swaps: swaps(root),
            btrfs: btrfs_members(root),
            writers: writers(root, &pids, &images, &devices.loops),
            exports: exports(root, &images),
            ..devices
        }
    }

    /// The devices alone, without their users.
    pub(super) fn of_devices(root: &Root) -> Snapshot {
        let devices = block_devices(root);
        Snapshot {
            loops: attached_loops(root, &Images::of(root), &devices),
            devices,
            ..Snapshot::default()
        }
    }

    pub(super) fn device(&self, dev: DevId) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| device.dev == dev)
    }

    /// The device that a node is.
    pub(super) fn at(&self, node: &Node) -> Option<&BlockDevice> {
        match node {
            Node::Device(dev) => self.device(*dev),
            Node::File(_) | Node::Drive(_) => None,
        }
    }

    pub(super) fn attached(&self, dev: DevId) -> Option<&LoopUse> {
        self.loops.iter().find(|found| found.dev == dev)
    }

    /// What a node is called.
    pub(super) fn name(&self, node: &Node) -> String {
        let on_it = |found: &&LoopUse| found.backing.node().as_ref() == Some(node);
        match node {
            Node::Device(dev) => self
                .device(*dev)
                .map_or_else(|| dev.to_string(), |device| device.name.clone()),
            Node::File(file) => self.loops.iter().find(on_it).map_or_else(
                || format!("inode {} of {}", file.inode, file.dev),
                |found| found.backing.path.clone(),
            ),
            Node::Drive(wwid) => wwid.clone(),
        }
    }

    /// All users, but for devices that are built on others.
    pub(super) fn named_users(&self) -> Vec<(Node, DeviceUser)> {
        let mounts = self.mounts.iter().map(|mount| {
            let by = DeviceUser::Mount {
                mount_point: mount.mount_point.clone(),
                pid: mount.pid,
            };
            (Node::Device(mount.dev), by)
        });
        let swaps = self.swaps.iter();
        let swaps = swaps.map(|&dev| (Node::Device(dev), DeviceUser::Swap));
        let btrfs = self.btrfs.iter().map(|(dev, uuid)| {
            let uuid = uuid.clone();
            (Node::Device(*dev), DeviceUser::Btrfs { uuid })
        });
        let exports = self.exports.iter().map(|export| {
            let what = export.what.clone();
            (export.node.clone(), DeviceUser::Export { what })
        });
        let writers = self.writers.iter().map(|writer| {
            let by = DeviceUser::Writer {
                pid: writer.pid,
                process: writer.process.clone(),
            };
            (writer.node.clone(), by)
        });
        let all = mounts.chain(swaps).chain(btrfs);
        all.chain(exports).chain(writers).collect()
    }
}

/// Whether this process sees all others: it lives in the PID namespace that the machine started with,
/// whose number is fixed (PROC_PID_INIT_INO in include/linux/proc_ns.h), or the kernel has but one.
pub fn sees_all_processes(root: &Root) -> bool {
    const INITIAL: &str = "pid:[4026531836]";
    let own = fs::read_link(root.proc.join("self/ns/pid"));
    own.map_or(true, |own| own == Path::new(INITIAL))
}

/// Whether this process may see what those of other users have open, which takes CAP_SYS_PTRACE, and one
/// capability more for the folder (proc_pid_fd(5)).
pub fn sees_open_files(root: &Root) -> bool {
    const SYS_PTRACE: u64 = 1 << 19;
    const DAC_OVERRIDE_OR_READ_SEARCH: u64 = 1 << 1 | 1 << 2;
    let status = fs::read_to_string(root.proc.join("self/status")).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_none_or(|set| set & SYS_PTRACE != 0 && set & DAC_OVERRIDE_OR_READ_SEARCH != 0)
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

/// All devices that have a number. A disk's world-wide identity is with SCSI an attribute of the device
/// (sdev_show_wwid() in drivers/scsi/scsi_sysfs.c), with NVMe of the namespace's disk (wwid_show() in
/// drivers/nvme/host/sysfs.c). The paths below a native multipath disk have no number and no node.
fn block_devices(root: &Root) -> Vec<BlockDevice> {
    let class = root.sys.join("class/block");
    let found = names(&class).into_iter().filter_map(|name| {
        let dir = class.join(&name).canonicalize().ok()?;
        let disk = is_partition(&dir).then(|| dev_of(disk_dir(&dir)));
        let wwid = || text(dir.join("device/wwid")).or_else(|| text(dir.join("wwid")));
        Some(BlockDevice {
            dev: dev_of(&dir)?,
            size_bytes: value::<u64>(dir.join("size")).unwrap_or(0) * SECTOR_BYTES,
            wwid: disk.is_none().then(wwid).flatten(),
            disk: disk.flatten(),
            name,
            dir,
        })
    });
    found.collect()
}

fn attached_loops(root: &Root, images: &Images, devices: &[BlockDevice]) -> Vec<LoopUse> {
    let loops = devices
        .iter()
        .filter(|device| device.dir.join("loop/backing_file").exists());
    loops
        .filter_map(|device| {
            Some(LoopUse {
                dev: device.dev,
                backing: loops::backing(images, root, device.dev, &device.dir)?,
            })
        })
        .collect()
}

/// Processes with a block device, or a file that a loop device lies on, open for writing. The kernel's own
/// users, such as mounts, have no descriptors: they are found elsewhere.
fn writers(root: &Root, pids: &[u32], images: &Images, loops: &[LoopUse]) -> Vec<Writer> {
    let files: HashSet<FileId> = loops
        .iter()
        .filter_map(|found| found.backing.file)
        .collect();
    let mut found = Vec::new();
    for &pid in pids {
        let process = root.proc.join(pid.to_string());
        let tables = descriptor_tables(&process, pid);
        let nodes: HashSet<Node> = tables
            .iter()
            .flat_map(|table| opened_to_write(table, images, &files))
            .collect();
        found.extend(nodes.into_iter().map(|node| Writer {
            node,
            pid,
            process: text(process.join("comm")).unwrap_or_default(),
        }));
    }
    found
}

/// The directories of a process, and of its threads that have descriptors of their own (CLONE_FILES
/// in clone(2)), which hold `fd` and `fdinfo`.
fn descriptor_tables(process: &Path, pid: u32) -> Vec<PathBuf> {
    let tasks = process.join("task");
    let threads = names(&tasks).into_iter();
    let apart = threads.filter(|name| {
        let thread = name.parse().ok().filter(|&thread| thread != pid);
        thread.is_some_and(|thread| share_descriptors(pid, thread) != Some(true))
    });
    let apart = apart.map(|thread| tasks.join(thread));
    [process.to_owned()].into_iter().chain(apart).collect()
}

fn opened_to_write(table: &Path, images: &Images, files: &HashSet<FileId>) -> Vec<Node> {
    let mut found = Vec::new();
    for fd in names(table.join("fd")) {
        let info = fs::read_to_string(table.join("fdinfo").join(&fd)).unwrap_or_default();
        // Asked first: a stat of a file on a dead server would wait, and few are open to write.
        if !may_write(&info) {
            continue;
        }
        let link = table.join("fd").join(&fd);
        let path = fs::read_link(&link).ok().filter(|path| path.is_absolute());
        let Some((path, file)) = path.and_then(|path| Some((path, fs::metadata(&link).ok()?)))
        else {
            continue;
        };
        if file.file_type().is_block_device() {
            found.push(Node::Device(DevId::from_dev(file.rdev())));
        } else if file.is_file() && !files.is_empty() {
            let image = images
                .resolve(&path.to_string_lossy(), FileId::of(&file))
                .id;
            found.extend(files.contains(&image).then_some(Node::File(image)));
        }
    }
    found
}

/// Whether an fdinfo's octal `flags:` say that the file is open for writing (proc_pid_fdinfo(5)).
fn may_write(fdinfo: &str) -> bool {
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
        assert!(may_write("pos:\t0\nflags:\t0100002\nmnt_id:\t1\n"));
        assert!(may_write("flags:\t01\n"));
        assert!(!may_write("flags:\t0100000\n"));
        assert!(!may_write("flags:\t010000002\n"), "O_PATH");
        assert!(!may_write(""));
    }
}
