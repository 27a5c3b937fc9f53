//! JFS: mkfs.jfs(8).

use super::*;

pub(super) const JFS: Filesystem = Filesystem {
    name: "jfs",
    making: Making::Mkfs(Mkfs {
        package: "jfsutils",
        options: &["-q"],
        external_journal: ExternalJournal::None,
        // Without -j and -J, which name a device.
        flags: "cOqV",
        valued: "Ls",
        long_flags: &[],
        long_valued: &[],
        device_keys: &[],
    }),
    direct_unit: DirectUnit::Block,
    direct_writes: DirectWrites::Direct,
    addresses: Addresses::Places,
    journal: Journal::None,
    // lbmStartIO() in fs/jfs/jfs_logmgr.c: the process that commits a write writes the log itself.
    marks_metadata: false,
    threads: &["jfs"],
    files: Files::OnDevice,
    extras: NO_EXTRAS,
};
