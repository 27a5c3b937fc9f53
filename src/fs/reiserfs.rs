//! ReiserFS: mkfs.reiserfs(8).

use super::*;

pub(super) const REISERFS: Filesystem = Filesystem {
    name: "reiserfs",
    making: Making::Mkfs(Mkfs {
        package: "reiserfsprogs",
        options: &["-q", "-f", "-f"],
        external_journal: ExternalJournal::None,
        // Without -j, which names a device, and -B, which names a file.
        flags: "dfqV",
        valued: "bhlostu",
        long_flags: &["debug", "force", "quiet"],
        #[rustfmt::skip]
        long_valued: &[
            "block-size", "format", "hash", "journal-size", "label", "transaction-max-size", "uuid",
        ],
        device_keys: &["jdev"],
    }),
    direct_unit: DirectUnit::Block,
    direct_writes: DirectWrites::Direct,
    addresses: Addresses::Own,
    journal: Journal::None,
    // write_chunk() in fs/reiserfs/journal.c: the process that commits a write writes the journal itself.
    marks_metadata: false,
    threads: &[],
    files: Files::OnDevice,
    extras: NO_EXTRAS,
};
