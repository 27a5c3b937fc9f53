//! Devices on which it takes space, or a copy, to write again what is there.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::sysfs::{device_dir, text};
use crate::model::facts::DeviceFacts;
use crate::sys::root::Root;

/// stat(2) counts a file's blocks in these.
const BLOCK_BYTES: u64 = 512;

/// Where the space comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A pool that gives space to what is written first, or is shared with a snapshot.
    Pool,
    /// Snapshots, which keep a copy of what is written over.
    Snapshot,
    /// The filesystem of a loop device's image, which has holes.
    Image {
        /// The image.
        path: String,
    },
}

/// What the devices of a stack take space from when bytes are written that they hold already, each once,
/// with the device's kernel name. LVM tells by the suffix of a device-mapper UUID which layer of a volume a
/// device is (lv_layer() and its callers in lvm2's lib/activate/dev_manager.c).
pub fn takes_space(root: &Root, stack: &[DeviceFacts]) -> Vec<(String, Takes)> {
    let mut found: Vec<(String, Takes)> = Vec::new();
    for device in stack {
        let dir = device_dir(root, device.dev).ok();
        let uuid = dir.and_then(|dir| text(dir.join("dm/uuid")));
        let uuid = uuid.filter(|uuid| uuid.starts_with("LVM-"));
        let layer = uuid.as_deref().and_then(|uuid| uuid.rsplit('-').next());
        let by_layer = match layer {
            Some("tpool" | "vpool") => Some(Takes::Pool),
            Some("real" | "cow") => Some(Takes::Snapshot),
            _ => None,
        };
        let image = device.backing_file.as_ref().filter(|path| has_holes(path));
        let by_image = image.map(|path| Takes::Image { path: path.clone() });
        for takes in by_layer.into_iter().chain(by_image) {
            if !found.iter().any(|(_, known)| *known == takes) {
                found.push((device.name.clone(), takes));
            }
        }
    }
    found
}

fn has_holes(path: &str) -> bool {
    fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.blocks() * BLOCK_BYTES < found.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::stack;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn device(at: &Path, name: &str, dev: &str, uuid: &str) -> DeviceFacts {
        let dir = at.join("devices").join(name);
        fs::create_dir_all(dir.join("dm")).unwrap();
        fs::write(dir.join("dm/uuid"), uuid).unwrap();
        fs::create_dir_all(at.join("dev/block")).unwrap();
        symlink(&dir, at.join("dev/block").join(dev)).unwrap();
        let mut device = stack().remove(0);
        device.name = name.into();
        device.dev = dev.parse().unwrap();
        device.backing_file = None;
        device
    }

    #[test]
    fn thin_volumes_snapshots_and_images_with_holes_take_space() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root {
            sys: folder.path().to_owned(),
            ..Root::host()
        };
        let of = |name, dev, uuid| device(folder.path(), name, dev, uuid);
        let plain = of("dm-0", "253:0", "LVM-aB1\n");
        let thin = of("dm-1", "253:1", "LVM-aB1cD2-tpool\n");
        let origin = of("dm-2", "253:2", "LVM-aB1cD3-real\n");
        let other = of("dm-3", "253:3", "mpath-real\n");
        let takes = |stack: &[DeviceFacts]| takes_space(&root, stack);
        assert_eq!(takes(&[plain.clone(), other]), []);
        assert_eq!(
            takes(&[plain.clone(), thin.clone(), thin]),
            [("dm-1".into(), Takes::Pool)]
        );
        assert_eq!(
            takes(&[plain.clone(), origin]),
            [("dm-2".into(), Takes::Snapshot)]
        );
        let image = folder.path().join("image");
        fs::write(&image, vec![1; 65_536]).unwrap();
        let mut on_image = plain;
        on_image.backing_file = Some(image.to_str().unwrap().into());
        fs::File::open(&image).unwrap().sync_all().unwrap();
        assert_eq!(takes(std::slice::from_ref(&on_image)), []);
        let grown = fs::OpenOptions::new().write(true).open(&image).unwrap();
        grown.set_len(1 << 20).unwrap();
        let path = image.to_str().unwrap().to_owned();
        assert_eq!(takes(&[on_image]), [("dm-0".into(), Takes::Image { path })]);
    }
}
