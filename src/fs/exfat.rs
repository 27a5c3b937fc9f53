//! exFAT: mkfs.exfat(8).

use super::*;

pub(super) const EXFAT: Filesystem = Filesystem {
    name: "exfat",
    making: Making::Mkfs(Mkfs {
        package: "exfatprogs",
        // It has none to be quiet.
        options: &[],
        external_journal: ExternalJournal::None,
        flags: "fqVv",
        valued: "bcLnsU",
        long_flags: &["full-format", "pack-bitmap", "quiet", "verbose"],
        #[rustfmt::skip]
        long_valued: &[
            "boundary-align", "cluster-size", "sector-size", "volume-guid", "volume-label",
        ],
        device_keys: &[],
    }),
    // The block that it tells is its cluster, of 32 KiB and more.
    direct_unit: DirectUnit::DeviceBlock,
    // exfat_direct_IO() in fs/exfat/inode.c
    direct_writes: DirectWrites::Inside,
    addresses: Addresses::Own,
    journal: Journal::None,
    marks_metadata: true,
    threads: &[],
    files: Files::OnDevice,
    extras: NO_EXTRAS,
};
