//! NILFS2: mkfs.nilfs2(8).

use super::*;

pub(super) const NILFS2: Filesystem = Filesystem {
    name: "nilfs2",
    making: Making::Mkfs(Mkfs {
        package: "nilfs-tools",
        options: &["-q", "-f", "-K"],
        external_journal: ExternalJournal::None,
        flags: "cfhKnqvV",
        valued: "BbLmO",
        long_flags: &[],
        long_valued: &[],
        device_keys: &[],
    }),
    direct_unit: DirectUnit::Block,
    // nilfs_direct_IO() in fs/nilfs2/inode.c
    direct_writes: DirectWrites::Buffered,
    addresses: Addresses::Places,
    journal: Journal::None,
    marks_metadata: false,
    threads: &["segctord"],
    files: Files::OnDevice,
    extras: NO_EXTRAS,
};
