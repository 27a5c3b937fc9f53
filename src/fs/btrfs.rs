//! btrfs: btrfs(5), mkfs.btrfs(8).

use super::*;

pub(super) const BTRFS: Filesystem = Filesystem {
    name: "btrfs",
    making: Making::Mkfs(Mkfs {
        package: "btrfs-progs",
        options: &["-q", "-f", "-K"],
        external_journal: ExternalJournal::None,
        // Without --rootdir, which names a folder.
        flags: "fKMqVv",
        valued: "bdLmnORsU",
        long_flags: &["force", "mixed", "nodiscard", "quiet", "verbose"],
        #[rustfmt::skip]
        long_valued: &[
            "byte-count", "checksum", "csum", "data", "features", "label", "metadata", "nodesize",
            "runtime-features", "sectorsize", "uuid",
        ],
        device_keys: &["device"],
    }),
    direct_unit: DirectUnit::Block,
    // btrfs_direct_write() in fs/btrfs/direct-io.c
    direct_writes: DirectWrites::BufferedWithChecksums {
        since: (6, 15),
        without: &["nodatacow", "nodatasum"],
    },
    addresses: Addresses::Own,
    // Its log trees lie anywhere.
    journal: Journal::None,
    marks_metadata: true,
    threads: &["btrfs-"],
    files: Files::Inside,
    extras: Extras {
        has_members: true,
        copies_unless: Some("nodatacow"),
        // BTRFS_SUPER_INFO_OFFSET in fs/btrfs/fs.h: an fsync that writes a log tree ends with it too.
        commit_superblock_bytes: Some(64 << 10),
        ..NO_EXTRAS
    },
};
