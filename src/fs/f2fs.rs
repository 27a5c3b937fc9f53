//! F2FS: mkfs.f2fs(8).

use super::*;

pub(super) const F2FS: Filesystem = Filesystem {
    name: "f2fs",
    making: Making::Mkfs(Mkfs {
        package: "f2fs-tools",
        options: &["-q", "-f"],
        external_journal: ExternalJournal::None,
        // Without -c, which names a device.
        flags: "fgimqrV",
        valued: "adEelOoRstTUwz",
        long_flags: &[],
        long_valued: &[],
        device_keys: &[],
    }),
    direct_unit: DirectUnit::Block,
    direct_writes: DirectWrites::Direct,
    addresses: Addresses::Places,
    journal: Journal::None,
    // The inode that it writes behind an append.
    marks_metadata: false,
    threads: &["f2fs_"],
    files: Files::OnDevice,
    extras: NO_EXTRAS,
};
