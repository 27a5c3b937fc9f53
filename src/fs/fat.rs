//! FAT, with long names and without.

use super::*;

pub(super) const VFAT: Filesystem = Filesystem {
    name: "vfat",
    // The block that it tells is its cluster, of up to 32 KiB.
    direct_unit: DirectUnit::DeviceBlock,
    ..MSDOS
};

pub(super) const MSDOS: Filesystem = Filesystem {
    name: "msdos",
    // fat_direct_IO() in fs/fat/inode.c
    direct_writes: DirectWrites::Inside,
    ..UNKNOWN
};
