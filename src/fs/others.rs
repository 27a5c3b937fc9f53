//! Filesystems of which it is only known where their files are, and why the lab doesn't make them.

use super::*;

pub(super) const ZFS: Filesystem = Filesystem {
    making: Making::Pool,
    ..holding("zfs", Files::Inside)
};
pub(super) const OVERLAY: Filesystem = holding("overlay", Files::InLayers);
pub(super) const UBIFS: Filesystem = holding("ubifs", Files::Inside);
pub(super) const TMPFS: Filesystem = holding("tmpfs", Files::Inside);
pub(super) const RAMFS: Filesystem = holding("ramfs", Files::Inside);
pub(super) const ROOTFS: Filesystem = holding("rootfs", Files::Inside);
pub(super) const DEVTMPFS: Filesystem = holding("devtmpfs", Files::Inside);
pub(super) const HUGETLBFS: Filesystem = holding("hugetlbfs", Files::Inside);

const fn holding(name: &'static str, files: Files) -> Filesystem {
    Filesystem {
        name,
        files,
        ..UNKNOWN
    }
}
