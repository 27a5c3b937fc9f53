//! ext2, ext3 and ext4, which one driver mounts: ext4(5), mke2fs(8).

use super::*;

/// Options left out: -d, -l and -z name a file.
const MKFS: Mkfs = Mkfs {
    package: "e2fsprogs",
    // Nothing is left to be initialised in the background of the measurement.
    options: &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    external_journal: ExternalJournal::Ext,
    flags: "cDFjKnqSvV",
    valued: "bCEeGgIiJLmNOorTtU",
    long_flags: &[],
    long_valued: &[],
    device_keys: &["device", "journal_dev", "journal_path"],
};

pub(super) const EXT4: Filesystem = Filesystem {
    name: "ext4",
    making: Making::Mkfs(MKFS),
    direct_unit: DirectUnit::DeviceBlock,
    direct_writes: DirectWrites::Direct,
    addresses: Addresses::Fixed,
    journal: Journal::Ext,
    marks_metadata: true,
    threads: &[],
    files: Files::OnDevice,
    extras: NO_EXTRAS,
};

pub(super) const EXT3: Filesystem = Filesystem {
    name: "ext3",
    ..EXT4
};

pub(super) const EXT2: Filesystem = Filesystem {
    name: "ext2",
    making: Making::Mkfs(Mkfs {
        external_journal: ExternalJournal::None,
        ..MKFS
    }),
    ..EXT4
};
