//! bcachefs: bcachefs(8).

use super::*;

pub(super) const BCACHEFS: Filesystem = Filesystem {
    name: "bcachefs",
    making: Making::Mkfs(Mkfs {
        package: "bcachefs-tools",
        options: &["-q", "-f"],
        external_journal: ExternalJournal::None,
        flags: "fqv",
        valued: "LU",
        long_flags: &["force", "no_passphrase", "quiet", "verbose"],
        #[rustfmt::skip]
        long_valued: &[
            "background_compression", "block_size", "btree_node_size", "bucket", "compression",
            "data_checksum", "data_replicas", "errors", "fs_label", "metadata_checksum",
            "metadata_replicas", "replicas", "str_hash", "uuid",
        ],
        device_keys: &[],
    }),
    direct_unit: DirectUnit::Block,
    direct_writes: DirectWrites::Direct,
    addresses: Addresses::Own,
    journal: Journal::None,
    marks_metadata: true,
    threads: &["bch-"],
    files: Files::Inside,
    extras: NO_EXTRAS,
};
