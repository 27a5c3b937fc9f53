//! What to do about a write that failed: the end of its message.

use std::io;

use crate::model::cell::{CellSpec, Role};
use crate::model::devid::DevId;
use crate::sys::limits;
use crate::sys::root::Root;
use crate::target;

/// What more is known of an error of the cell `spec`, on `device` or on a filesystem there.
pub(super) fn remedy(
    root: &Root,
    device: Option<DevId>,
    spec: &CellSpec,
    errno: Option<i32>,
) -> String {
    // A write to a device of no length is ENOSPC, EIO or ENODEV, by who notices first.
    if let Some(dev) = device.filter(|&dev| target::is_gone(root, dev)) {
        return format!(
            "; the device {dev} is gone: taken out, detached or given up by its driver; the kernel's log (dmesg) \
             says which"
        );
    }
    let is_file = spec.role == Role::File;
    let remedy = match errno {
        Some(libc::EOPNOTSUPP) if spec.axes.ring.iopoll => {
            "; the device has no queue to poll: give its driver some (for NVMe the module option \
             nvme.poll_queues=N), or leave out --iopoll"
        }
        Some(libc::EIO) if is_file => {
            "; the filesystem was shut down, or its device failed: the kernel's log (dmesg) says which"
        }
        Some(libc::EROFS) if is_file => {
            "; the filesystem went read-only: the kernel's log (dmesg) says why"
        }
        Some(libc::ENOSPC | libc::EDQUOT) if is_file => {
            "; free some space, or ask for less with --span"
        }
        // From the end of the device (blkdev_write_iter() in block/fops.c), or from a thin pool below.
        Some(libc::ENOSPC) => {
            "; the device ends before that by now, taken out or made smaller, or the pool below it is full: the \
             kernel's log (dmesg) says which"
        }
        Some(libc::EIO | libc::ENODATA | libc::EILSEQ | libc::ETIMEDOUT | libc::ENOLINK) => {
            "; the kernel's log (dmesg) has more"
        }
        Some(errno) => return limits::hint(&io::Error::from_raw_os_error(errno)),
        None => "",
    };
    remedy.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cell::FileState;
    use crate::model::fixture::Builder;
    use std::fs;

    #[test]
    fn each_error_has_a_way_on() {
        let of = |state| {
            let record = Builder::new("gap").cell("t", state, 4096, 1e3, 1).record;
            record.cells[0].spec.clone()
        };
        let (raw, file) = (of(None), of(Some(FileState::Overwrite)));
        let mut polled = raw.clone();
        polled.axes.ring.iopoll = true;
        let host = Root::host();
        let remedy = |spec, errno| remedy(&host, None, spec, Some(errno));
        assert_eq!(remedy(&raw, libc::EOPNOTSUPP), "");
        assert!(remedy(&polled, libc::EOPNOTSUPP).contains("nvme.poll_queues"));
        assert!(remedy(&file, libc::EIO).contains("shut down"));
        assert!(!remedy(&raw, libc::EIO).contains("shut down"));
        assert!(remedy(&file, libc::ENOSPC).contains("space"));
        assert!(remedy(&raw, libc::ENOSPC).contains("made smaller"));
    }

    #[test]
    fn a_device_without_a_length_or_without_a_place_in_sysfs_is_gone() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root {
            sys: tree.path().to_owned(),
            ..Root::host()
        };
        let record = Builder::new("raw").cell("raw", None, 4096, 1e3, 1).record;
        let spec = &record.cells[0].spec;
        let dev: DevId = "8:0".parse().unwrap();
        let remedy = || remedy(&root, Some(dev), spec, Some(libc::EINVAL));
        assert!(remedy().contains("8:0 is gone"));
        let device = tree.path().join("dev/block/8:0");
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("size"), "2048\n").unwrap();
        assert_eq!(remedy(), "");
        fs::write(device.join("size"), "0\n").unwrap();
        assert!(remedy().contains("is gone"));
    }
}
