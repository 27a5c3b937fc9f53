//! XFS: xfs(5), mkfs.xfs(8).

use super::*;

pub(super) const XFS: Filesystem = Filesystem {
    name: "xfs",
    making: Making::Mkfs(Mkfs {
        package: "xfsprogs",
        options: &["-q", "-f", "-K"],
        external_journal: ExternalJournal::Xfs,
        // Without -c and -p, which name a file.
        flags: "CfKNqV",
        valued: "bdiLlmnrs",
        long_flags: &[],
        long_valued: &[],
        device_keys: &["file", "logdev", "name", "rtdev"],
    }),
    direct_unit: DirectUnit::DeviceBlock,
    direct_writes: DirectWrites::Direct,
    addresses: Addresses::Fixed,
    journal: Journal::Xfs,
    marks_metadata: true,
    threads: &["xfsaild/", "xfs-"],
    files: Files::OnDevice,
    extras: Extras {
        has_realtime: true,
        counts_programs: true,
        ..NO_EXTRAS
    },
};
