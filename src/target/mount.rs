//! Mounted filesystems and their facts.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::sys::statvfs::fstatvfs;

use super::beside::btrfs_members;
use super::journal;
use super::mountinfo::{self, MountLine};
use super::sysfs::device_dir;
use crate::fs::Filesystem;
use crate::model::devid::DevId;
use crate::model::facts::MountFacts;
use crate::sys::root::Root;

/// Every mount that this process sees, with the facts that mountinfo holds. Sizes and journals are
/// absent: asking for them may wait on a dead server. Fails if mountinfo can't be read.
pub fn mounts(root: &Root) -> io::Result<Vec<MountFacts>> {
    Ok(lines(root)?
        .into_iter()
        .map(|line| facts_of(root, line))
        .collect())
}

/// The mount that a directory lies on, with all facts. Fails if the directory can't be opened or
/// mountinfo doesn't show its mount.
pub fn mount_of(root: &Root, dir: &Path) -> io::Result<MountFacts> {
    let told =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", dir.display()));
    // O_PATH needs no right on the directory itself and has no side effect.
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(dir)
        .map_err(told)?;
    let line = line_of(root, dir, &place).map_err(told)?;
    let mut facts = facts_of(root, line);
    if let Ok(sizes) = fstatvfs(&place) {
        // Counts are in fragments (statvfs(3)). The block, which is 256 times as large on some network and
        // FUSE filesystems, is the length that they prefer for a transfer.
        let unit_bytes = sizes.fragment_size();
        facts.block_bytes = (unit_bytes > 0).then_some(unit_bytes);
        facts.size_bytes = sizes.blocks().checked_mul(unit_bytes);
        facts.free_bytes = sizes.blocks_available().checked_mul(unit_bytes);
    }
    facts.journal = journal::journal(root, &facts, dir);
    Ok(facts)
}

/// A mount with all facts, where it sits on a block device and nothing is mounted over it; else as it
/// was given.
pub fn complete(root: &Root, mount: MountFacts) -> MountFacts {
    if mount.block_device.is_none() {
        return mount;
    }
    match mount_of(root, Path::new(&mount.mount_point)) {
        Ok(full) if full.dev == mount.dev && full.mount_point == mount.mount_point => full,
        _ => mount,
    }
}

fn lines(root: &Root) -> io::Result<Vec<MountLine>> {
    let path = root.proc.join("self/mountinfo");
    let text = fs::read(&path).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cannot read {}: {error}", path.display()),
        )
    })?;
    Ok(mountinfo::parse(&text))
}

/// The line of the mount that an open directory lies on: by the mount's number where fdinfo gives
/// it (since Linux 3.15), else the longest mount point above it with its device number.
fn line_of(root: &Root, dir: &Path, place: &File) -> io::Result<MountLine> {
    let mut lines = lines(root)?;
    let info = root.proc.join(format!("self/fdinfo/{}", place.as_raw_fd()));
    let id = fs::read_to_string(info)
        .ok()
        .and_then(|info| mount_id(&info));
    if let Some(at) = lines.iter().position(|line| Some(line.id) == id) {
        return Ok(lines.swap_remove(at));
    }
    let path = dir.canonicalize()?;
    let dev = DevId::from_dev(place.metadata()?.dev());
    lines
        .into_iter()
        .filter(|line| line.dev == dev && path.starts_with(&line.mount_point))
        // Of two at the same place, the later one lies on top.
        .max_by_key(|line| line.mount_point.len())
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "its mount is not in mountinfo"))
}

/// The mount's number in a text of /proc/PID/fdinfo (proc_pid_fdinfo(5)).
fn mount_id(fdinfo: &str) -> Option<u64> {
    fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?
        .trim()
        .parse()
        .ok()
}

fn facts_of(root: &Root, line: MountLine) -> MountFacts {
    MountFacts {
        block_device: block_device(root, &line),
        mount_point: line.mount_point,
        source: line.source,
        fs_type: line.fs_type,
        dev: line.dev,
        options: line.options,
        block_bytes: None,
        size_bytes: None,
        free_bytes: None,
        journal: None,
    }
}

/// The block device that a mount sits on: that of its files' device number, or for btrfs, whose
/// number is anonymous, the one member of the filesystem.
pub(super) fn block_device(root: &Root, line: &MountLine) -> Option<DevId> {
    if device_dir(root, line.dev).is_ok() {
        return Some(line.dev);
    }
    if !Filesystem::of(&line.fs_type).extras.has_members {
        return None;
    }
    match btrfs_members(root, &line.source)[..] {
        [only] => Some(only),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with these mounts, block device 8:1 and the btrfs member loop0 (7:0).
    fn root(dir: &Path, mountinfo: &str, members: &[&str]) -> Root {
        let root = Root {
            sys: dir.join("sys"),
            proc: dir.join("proc"),
            dev: dir.join("dev"),
        };
        fs::create_dir_all(root.proc.join("self")).unwrap();
        fs::create_dir_all(&root.dev).unwrap();
        fs::write(root.proc.join("self/mountinfo"), mountinfo).unwrap();
        fs::create_dir_all(root.sys.join("dev/block/8:1")).unwrap();
        for (minor, member) in members.iter().enumerate() {
            let devices = root.sys.join("fs/btrfs/1234-uuid/devices").join(member);
            fs::create_dir_all(&devices).unwrap();
            fs::write(devices.join("dev"), format!("7:{minor}\n")).unwrap();
            fs::write(root.dev.join(member), "").unwrap();
        }
        root
    }

    const BTRFS: &str = "1 0 0:40 / /b rw - btrfs /dev/loop0 rw\n";

    #[test]
    fn a_mount_sits_on_the_block_device_of_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let text = "1 0 8:1 / / ro - ext4 /dev/root rw\n2 1 0:5 / /run rw - tmpfs tmpfs rw\n";
        let mounts = mounts(&root(dir.path(), text, &[])).unwrap();
        assert_eq!(mounts[0].block_device, Some("8:1".parse().unwrap()));
        assert!(mounts[0].is_read_only());
        assert_eq!(mounts[1].block_device, None);
    }

    #[test]
    fn a_btrfs_of_one_device_sits_on_it() {
        let dir = tempfile::tempdir().unwrap();
        let mounts = mounts(&root(dir.path(), BTRFS, &["loop0"])).unwrap();
        assert_eq!(mounts[0].block_device, Some("7:0".parse().unwrap()));
    }

    #[test]
    fn a_btrfs_of_two_devices_sits_on_no_single_one() {
        let dir = tempfile::tempdir().unwrap();
        let mounts = mounts(&root(dir.path(), BTRFS, &["loop0", "loop1"])).unwrap();
        assert_eq!(mounts[0].block_device, None);
    }

    #[test]
    fn without_mount_numbers_the_longest_mount_point_wins() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        let dev = DevId::from_dev(fs::metadata(&place).unwrap().dev());
        let deep = place.display();
        let text = format!("1 0 {dev} / / rw - ext4 a rw\n2 1 {dev} / {deep} rw - ext4 b rw\n");
        let facts = mount_of(&root(dir.path(), &text, &[]), &place).unwrap();
        assert_eq!(facts.source, "b");
        assert!(facts.size_bytes.is_some());
    }

    #[test]
    fn a_mount_on_a_block_device_gets_its_sizes_and_one_under_another_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().canonicalize().unwrap();
        let dev = DevId::from_dev(fs::metadata(&place).unwrap().dev());
        let here = place.display();
        let text = format!("1 0 {dev} / {here} rw - ext4 a rw\n2 1 8:1 / {here} rw - ext4 b rw\n");
        let root = root(dir.path(), &text, &[]);
        fs::create_dir_all(root.sys.join("dev/block").join(dev.to_string())).unwrap();
        let mounts = mounts(&root).unwrap();
        assert!(complete(&root, mounts[0].clone()).free_bytes.is_some());
        assert_eq!(complete(&root, mounts[1].clone()), mounts[1]);
    }

    #[test]
    fn a_missing_directory_is_named_in_the_error() {
        let error = mount_of(&Root::host(), Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }

    #[test]
    fn fdinfo_gives_the_mount_number() {
        assert_eq!(
            mount_id("pos:\t0\nflags:\t02\nmnt_id:\t27\nino:\t5\n"),
            Some(27)
        );
        assert_eq!(mount_id("pos:\t0\n"), None);
    }
}
