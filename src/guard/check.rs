//! Claims a device and judges it.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::{AccessFlags, access};

use super::judge::judge_uses;
use super::node::{Node, reopen};
use super::permit::Permit;
use super::refusal::{Member, Refusal};
use super::signature;
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::sys::ioctl;
use crate::sys::root::Root;
use crate::target;

/// Claims the block device that a path names, and judges it. Nothing is created and nothing is
/// written; what isn't a block device is not even opened.
pub fn check(root: &Root, path: &Path) -> Result<Permit, Refusal> {
    let (_, dev) = find(path)?;
    refuse_stopped(root, dev, &path.display().to_string())?;
    let node = claim(root, path, OFlag::O_RDWR)?;
    // Claimed first and looked at then: who comes later fails on the claim.
    judge_uses(root, node.dev, &node.name)?;
    refuse_read_only(&node)?;
    let size_bytes =
        ioctl::size_bytes(&node.file).map_err(|e| node.failure("ask for its size", e))?;
    let logical_block_bytes = ioctl::logical_block_bytes(&node.file)
        .map_err(|e| node.failure("ask for its block size", e))?;
    if size_bytes < logical_block_bytes.max(1) {
        return Err(Refusal::TooSmall {
            device: node.name,
            size_bytes,
        });
    }
    let facts = target::stack(root, node.dev).map_err(|e| node.failure("find it in sysfs", e))?;
    refuse_zoned(root, &facts)?;
    Permit::new(root, node, facts, size_bytes, logical_block_bytes)
}

/// Whether [`check`] would let a device be written, for a list: the claim is given up at once.
/// Without the right to write it, [`Refusal::NoPermission`], unless its uses alone speak against
/// it. The device is opened for reading only, because udev looks anew at every device that was open
/// for writing.
pub fn writable(root: &Root, device: &DeviceFacts) -> Result<(), Refusal> {
    let path = target::device_node(root, device.dev).map_err(|source| Refusal::Io {
        device: device.name.clone(),
        doing: "find its node under /dev",
        source,
    });
    let path = match path {
        Ok(path) => path,
        Err(lost) => {
            judge_uses(root, device.dev, &device.name)?;
            return Err(lost);
        }
    };
    refuse_stopped(root, device.dev, &device.name)?;
    // Judged before and not under the claim: a mount that starts meanwhile shouldn't fail on a list.
    judge_uses(root, device.dev, &device.name)?;
    refuse_read_only(&claim(root, &path, OFlag::O_RDONLY)?)?;
    let facts = target::stack(root, device.dev).unwrap_or_default();
    refuse_zoned(root, &facts)?;
    access(&path, AccessFlags::W_OK).map_err(|errno| Refusal::NoPermission {
        path: path.display().to_string(),
        source: errno.into(),
    })
}

/// Claims the device that a path names, or finds out why the kernel refuses that.
fn claim(root: &Root, path: &Path, access: OFlag) -> Result<Node, Refusal> {
    let (place, dev) = find(path)?;
    let name = target::stack(root, dev)
        .ok()
        .and_then(|stack| stack.first().map(|device| device.name.clone()))
        .unwrap_or_else(|| path.display().to_string());
    // O_EXCL without O_CREAT claims a block device: it fails if a filesystem, swap, md, dm or
    // another claim has it, whole or by a partition (open(2), block/bdev.c).
    let claimed = reopen(root, &place, access | OFlag::O_EXCL)
        .map_err(|error| explain(root, path, &place, dev, &name, error))?;
    Node::new(claimed, name, dev)
}

/// A device that is set read-only may open for writing and fail later.
fn refuse_read_only(node: &Node) -> Result<(), Refusal> {
    match ioctl::is_read_only(&node.file) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Refusal::ReadOnly {
            device: node.name.clone(),
        }),
        Err(error) => Err(node.failure("ask whether it is read-only", error)),
    }
}

/// A write to a sequential zone moves its write pointer, so not even the bytes that are there can be
/// written back without a change that its user would stumble on. A map that is not zoned itself over a disk
/// that is, as dm-zoned, writes its zones in order; a loop device doesn't, though a filesystem that its image
/// lies on does.
fn refuse_zoned(root: &Root, stack: &[DeviceFacts]) -> Result<(), Refusal> {
    let Some(top) = stack.first() else {
        return Ok(());
    };
    let is_zoned = |device: &DeviceFacts| device.zoned.as_deref() == Some("host-managed");
    let writes_as_told = |upper: &DeviceFacts| upper.kind != DeviceKind::Dm || is_zoned(upper);
    let reached = |device: &DeviceFacts| {
        let mut uppers = stack
            .iter()
            .filter(|upper| upper.lower.contains(&device.dev));
        let is_told = device.dev == top.dev || uppers.any(writes_as_told);
        is_told && target::usage::share_bytes(root, top.dev, device.dev)
    };
    match stack
        .iter()
        .find(|device| is_zoned(device) && reached(device))
    {
        Some(device) => Err(Refusal::Zoned {
            device: top.name.clone(),
            zoned: match device.dev == top.dev {
                true => "it".to_owned(),
                false => format!("{}, which it lies on,", device.name),
            },
        }),
        None => Ok(()),
    }
}

/// Whoever reads or writes what answers nothing can't be stopped any more.
fn refuse_stopped(root: &Root, dev: DevId, named: &str) -> Result<(), Refusal> {
    match target::stopped(root, dev) {
        Some(stopped) => Err(Refusal::Stopped {
            named: named.to_owned(),
            stopped,
        }),
        None => Ok(()),
    }
}

/// What a path names, if that is a block device. O_PATH opens nothing: it has no effect on what the
/// path names, whatever that is (open(2)).
pub(super) fn find(path: &Path) -> Result<(File, DevId), Refusal> {
    let shown = path.display().to_string();
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path);
    let found = place.and_then(|place| place.metadata().map(|found| (place, found)));
    let (place, found) = found.map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => Refusal::NotFound {
            path: shown.clone(),
        },
        Some(libc::EACCES | libc::EPERM) => Refusal::NoPermission {
            path: shown.clone(),
            source,
        },
        _ => Refusal::Io {
            device: shown.clone(),
            doing: "look at it",
            source,
        },
    })?;
    if !found.file_type().is_block_device() {
        return Err(Refusal::NotBlockDevice {
            path: shown,
            what: sort_of(&found),
        });
    }
    Ok((place, DevId::from_dev(found.rdev())))
}

fn sort_of(found: &Metadata) -> &'static str {
    let sort = found.file_type();
    if sort.is_dir() {
        "a directory"
    } else if sort.is_file() {
        "a regular file"
    } else if sort.is_char_device() {
        "a character device"
    } else {
        "a pipe or socket"
    }
}

/// Why the kernel refused the claim.
fn explain(
    root: &Root,
    path: &Path,
    place: &File,
    dev: DevId,
    name: &str,
    source: io::Error,
) -> Refusal {
    let device = name.to_owned();
    let shown = path.display().to_string();
    // Without a driver or a medium behind the node, there is nothing to judge.
    if let Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) = source.raw_os_error() {
        return Refusal::NotFound { path: shown };
    }
    if let Err(refusal) = judge_uses(root, dev, name) {
        return refusal;
    }
    match source.raw_os_error() {
        Some(libc::EBUSY) => match member_by_signature(root, place) {
            Some(member) => Refusal::MemberInUse { device, member },
            None => Refusal::Busy { device },
        },
        // Kernels differ in which of these a read-only device gives.
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            let read_only = target::stack(root, dev)
                .ok()
                .and_then(|stack| stack.first()?.read_only);
            match read_only {
                Some(true) => Refusal::ReadOnly { device },
                _ => Refusal::NoPermission {
                    path: shown,
                    source,
                },
            }
        }
        _ => Refusal::Io {
            device,
            doing: "open it for writing",
            source,
        },
    }
}

/// What a claimed device is a member of, by its signature; none if that tells nothing.
fn member_by_signature(root: &Root, place: &File) -> Option<Member> {
    let device = reopen(root, place, OFlag::O_RDONLY).ok()?;
    let size_bytes = ioctl::size_bytes(&device).ok()?;
    signature::find(&device, 0, size_bytes).ok()??.member
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::stack;
    use std::os::unix::fs::symlink;

    #[test]
    fn zones_that_are_written_in_order_are_not_written() {
        let mut stack = stack();
        let refuse = |stack: &[DeviceFacts]| refuse_zoned(&Root::host(), stack);
        assert!(refuse(&stack).is_ok());
        stack[0].zoned = Some("host-managed".into());
        let refusal = refuse(&stack).unwrap_err();
        assert!(matches!(refusal, Refusal::Zoned { .. }), "{refusal}");
    }

    #[test]
    fn a_missing_device_is_refused_and_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sdz");
        let refusal = check(&Root::host(), &path).unwrap_err();
        assert!(matches!(refusal, Refusal::NotFound { .. }), "{refusal}");
        assert!(!path.exists());
        let below_a_file = dir.path().join("file/sdz");
        std::fs::write(dir.path().join("file"), "").unwrap();
        let refusal = check(&Root::host(), &below_a_file).unwrap_err();
        assert!(matches!(refusal, Refusal::NotFound { .. }), "{refusal}");
    }

    #[test]
    fn what_is_no_block_device_is_refused_by_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "keep").unwrap();
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        for (path, what) in [
            (dir.path(), "a directory"),
            (&file, "a regular file"),
            (&link, "a regular file"),
            (Path::new("/dev/null"), "a character device"),
        ] {
            let refusal = check(&Root::host(), path).unwrap_err();
            assert!(
                matches!(refusal, Refusal::NotBlockDevice { .. }),
                "{refusal}"
            );
            assert!(refusal.to_string().contains(what), "{refusal}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"keep");
    }
}
