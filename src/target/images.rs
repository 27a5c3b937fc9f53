//! Which file an image really is. A filesystem over others shows files under numbers of its own: written by
//! one path, and read by the other, they are the same bytes.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use super::loops::FileId;
use super::mountinfo::{self, MountLine};
use super::sysfs::device_dir;
use crate::fs::{Files, Filesystem};
use crate::model::devid::DevId;
use crate::sys::root::Root;

/// Overlays on overlays.
const MOST_LAYERS: u32 = 8;

/// Finds files through the mounts of this mount namespace, which are read when first needed.
pub(super) struct Images<'a> {
    root: &'a Root,
    mounts: OnceCell<Vec<MountLine>>,
}

/// A regular file, as well as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) id: FileId,
    /// Its filesystem may show a file of another one, and doesn't tell which.
    pub(super) is_unresolved: bool,
}

impl Images<'_> {
    pub(super) fn of(root: &Root) -> Images<'_> {
        Images {
            root,
            mounts: OnceCell::new(),
        }
    }

    /// The file that is shown at `path` as `shown`.
    pub(super) fn resolve(&self, path: &str, shown: FileId) -> Image {
        self.below(path, shown, MOST_LAYERS)
    }

    fn below(&self, path: &str, shown: FileId, layers: u32) -> Image {
        let image = |is_unresolved| Image {
            id: shown,
            is_unresolved,
        };
        if device_dir(self.root, shown.dev).is_ok() {
            return image(false);
        }
        let Some(mount) = self.mount(path, shown.dev) else {
            return image(true);
        };
        match Filesystem::of(&mount.fs_type).files {
            Files::Inside => image(false),
            Files::InLayers if layers > 0 => {
                let layer = layers_of(mount, path).into_iter().find_map(|path| {
                    let found = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
                    Some((path.to_str()?.to_owned(), FileId::of(&found)))
                });
                layer.map_or(image(true), |(path, id)| self.below(&path, id, layers - 1))
            }
            Files::OnDevice | Files::InLayers => image(true),
        }
    }

    /// The mount that a path lies on: the one of its number, or, where each subvolume has a number, the
    /// nearest above it.
    fn mount(&self, path: &str, dev: DevId) -> Option<&MountLine> {
        let mounts = self.mounts.get_or_init(|| {
            let text = fs::read(self.root.proc.join("self/mountinfo")).unwrap_or_default();
            mountinfo::parse(&text)
        });
        let above = mounts
            .iter()
            .filter(|mount| Path::new(path).starts_with(&mount.mount_point));
        let nearest = above.max_by_key(|mount| mount.mount_point.len())?;
        let has_members = Filesystem::of(&nearest.fs_type).extras.has_members;
        (nearest.dev == dev || has_members).then_some(nearest)
    }
}

/// Where an overlay may have a file, from the top (Documentation/filesystems/overlayfs.rst): what was opened
/// for writing is in the upper directory.
fn layers_of(mount: &MountLine, path: &str) -> Vec<PathBuf> {
    let below = Path::new(path).strip_prefix(&mount.mount_point);
    let inside = Path::new(&mount.root).join(below.unwrap_or(Path::new("")));
    let inside = inside.strip_prefix("/").unwrap_or(&inside);
    let values = |key: &'static str| {
        let options = mount.options.iter();
        options.filter_map(move |option| option.strip_prefix(key)?.strip_prefix('='))
    };
    let lower = values("lowerdir").flat_map(|all| all.split(':'));
    let lower = lower.chain(values("lowerdir+"));
    let layers = values("upperdir").chain(lower);
    layers.map(|layer| Path::new(layer).join(inside)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_s_file_is_the_one_of_its_highest_layer() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path).to_str().unwrap().to_owned();
        for dir in ["proc/self", "upper", "one/deep", "two", "sys/dev/block"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        for file in ["upper/both", "one/both", "one/deep/below", "two/both"] {
            fs::write(at(file), "").unwrap();
        }
        let real = |path: &str| FileId::of(&fs::metadata(at(path)).unwrap());
        let plain = real("upper/both").dev;
        fs::create_dir_all(at(&format!("sys/dev/block/{plain}"))).unwrap();
        let options = format!(
            "lowerdir={}:{},upperdir={}",
            at("one"),
            at("two"),
            at("upper")
        );
        let line = format!(
            "1 0 0:50 / /merged rw - overlay overlay rw,{options}\n2 0 0:51 / /fuse rw - fuse.x x rw\n\
             3 0 0:52 /deep /bound rw - overlay overlay rw,{options}\n4 0 0:53 / /btr rw - btrfs /dev/x rw\n"
        );
        fs::write(at("proc/self/mountinfo"), line).unwrap();
        let root = Root {
            sys: at("sys").into(),
            proc: at("proc").into(),
            dev: at("dev").into(),
        };
        let images = Images::of(&root);
        let shown = |dev: &str| FileId {
            dev: dev.parse().unwrap(),
            inode: 5,
        };
        let resolved = |id| Image {
            id,
            is_unresolved: false,
        };
        let unresolved = |id| Image {
            id,
            is_unresolved: true,
        };
        let overlaid = shown("0:50");
        for (path, id, image) in [
            ("/merged/both", overlaid, resolved(real("upper/both"))),
            (
                "/merged/deep/below",
                overlaid,
                resolved(real("one/deep/below")),
            ),
            ("/merged/nowhere", overlaid, unresolved(overlaid)),
            (
                "/bound/below",
                shown("0:52"),
                resolved(real("one/deep/below")),
            ),
            ("/fuse/image", shown("0:51"), unresolved(shown("0:51"))),
            ("/elsewhere", shown("0:99"), unresolved(shown("0:99"))),
            ("/btr/sub/image", shown("0:99"), resolved(shown("0:99"))),
            (
                &at("upper/both"),
                real("upper/both"),
                resolved(real("upper/both")),
            ),
        ] {
            assert_eq!(images.resolve(path, id), image, "{path}");
        }
    }
}
