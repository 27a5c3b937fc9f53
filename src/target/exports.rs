//! Devices and files that this host exports to others. The kernel's NVMe target opens a device without a
//! claim (nvmet_bdev_ns_enable() in drivers/nvme/target/io-cmd-bdev.c), its SCSI target claims one but for
//! fileio (fd_configure_device() in drivers/target/target_core_file.c), and neither shows up as a holder
//! or as a process: what tells is configfs.

use std::fs;
use std::path::Path;

use super::graph::Node;
use super::images::Images;
use super::loops::FileId;
use super::snapshot::device_at;
use super::sysfs::{flag, names, text};
use crate::model::devid::DevId;
use crate::sys::root::Root;

/// What is exported, and as what.
#[derive(Clone, Debug)]
pub(super) struct Export {
    /// In words that follow "as".
    pub(super) what: String,
    /// The block device or regular file that it is.
    pub(super) node: Node,
}

/// All exports that are configured; none where configfs is not mounted.
pub(super) fn exports(root: &Root, images: &Images) -> Vec<Export> {
    let config = root.sys.join("kernel/config");
    let mut found = nvme(root, images, &config.join("nvmet/subsystems"));
    found.extend(scsi(root, images, &config.join("target/core")));
    found
}

/// Namespaces of the NVMe target that are enabled: others are not open
/// (drivers/nvme/target/configfs.c).
fn nvme(root: &Root, images: &Images, subsystems: &Path) -> Vec<Export> {
    let mut found = Vec::new();
    for subsystem in names(subsystems) {
        let namespaces = subsystems.join(&subsystem).join("namespaces");
        for namespace in names(&namespaces) {
            let dir = namespaces.join(&namespace);
            if flag(dir.join("enable")) == Some(false) {
                continue;
            }
            let what = format!("namespace {namespace} of the NVMe subsystem {subsystem}");
            let path = text(dir.join("device_path"));
            found.extend(path.and_then(|path| at(root, images, &path, what)));
        }
    }
    found
}

/// Backstores of the SCSI target, which are open whether exported already or not
/// (drivers/target/target_core_configfs.c).
fn scsi(root: &Root, images: &Images, core: &Path) -> Vec<Export> {
    let mut found = Vec::new();
    for adapter in names(core) {
        for device in names(core.join(&adapter)) {
            let dir = core.join(&adapter).join(&device);
            let info = text(dir.join("info")).unwrap_or_default();
            let what = format!("backstore {adapter}/{device} of the SCSI target");
            // What whoever configured it wrote there, and what the driver opened.
            let paths = [text(dir.join("udev_path")), path_in(&info)];
            found.extend(
                paths
                    .into_iter()
                    .flatten()
                    .filter_map(|path| at(root, images, &path, what.clone())),
            );
            found.extend(number_in(&info).map(|dev| Export {
                what,
                node: Node::Device(dev),
            }));
        }
    }
    found
}

fn at(root: &Root, images: &Images, path: &str, what: String) -> Option<Export> {
    let device = device_at(root, path).map(Node::Device);
    let file = || {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Node::File(images.resolve(path, FileId::of(&found)).id))
    };
    let node = device.or_else(file)?;
    Some(Export { what, node })
}

/// The number in "Major: 8 Minor: 16  CLAIMED: IBLOCK" (iblock_show_configfs_dev_params() in
/// drivers/target/target_core_iblock.c); 0:0 is none.
fn number_in(info: &str) -> Option<DevId> {
    let after = |mark: &str| info.split_once(mark)?.1.split_whitespace().next();
    let (major, minor) = (after("Major: ")?, after("Minor: ")?);
    let dev: DevId = format!("{major}:{minor}").parse().ok()?;
    (dev.major > 0).then_some(dev)
}

/// The path in "File: /x.img  Size: 1048576  Mode: O_DSYNC" (fd_show_configfs_dev_params() in
/// drivers/target/target_core_file.c), which may hold single blanks.
fn path_in(info: &str) -> Option<String> {
    let path = info.split_once("File: ")?.1.split("  ").next()?;
    Some(path.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backstore_s_words_tell_its_device_or_file() {
        let iblock = "Status: ACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 1024\n        \
                      iBlock device: sdb  UDEV PATH: /dev/sdb  readonly: 0\n        Major: 8 Minor: 16  \
                      CLAIMED: IBLOCK\n";
        assert_eq!(number_in(iblock), Some("8:16".parse().unwrap()));
        assert_eq!(path_in(iblock), None);
        assert_eq!(number_in("        Major: 0 Minor: 0\n"), None);
        let fileio =
            "TCM FILEIO ID: 0        File: /a disk.img  Size: 1048576  Mode: O_DSYNC Async: 0\n";
        assert_eq!(path_in(fileio).as_deref(), Some("/a disk.img"));
        assert_eq!(number_in(fileio), None);
    }
}
