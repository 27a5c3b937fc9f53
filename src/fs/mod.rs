//! What is known of filesystems: plain data, a file for each. A new one is its file and its line in [`ALL`];
//! no other module compares a filesystem's type (tests/layers.rs).

mod bcachefs;
mod btrfs;
mod exfat;
mod ext;
mod f2fs;
mod fat;
mod jfs;
mod nilfs2;
mod others;
mod reiserfs;
mod xfs;

/// One filesystem. Its file states every field, so that a part that is forgotten fails to compile; only
/// those that the lab can't make take the rest from [`OTHER`].
#[derive(Debug)]
pub struct Filesystem {
    /// Its type, as mount(8) and /proc/self/mountinfo name it.
    pub name: &'static str,
    /// How it is made.
    pub making: Making,
    /// What direct writes must be multiples of.
    pub direct_unit: DirectUnit,
    /// What becomes of direct writes.
    pub direct_writes: DirectWrites,
    /// What the addresses are that FIEMAP gives.
    pub addresses: Addresses,
    /// Its journal: where it lies, and how it is found.
    pub journal: Journal,
    /// Its requests for metadata bear the `M` flag.
    pub marks_metadata: bool,
    /// What the names of its kernel threads begin with.
    pub threads: &'static [&'static str],
    /// Where its files' bytes are.
    pub files: Files,
    /// What few others have.
    pub extras: Extras,
}

/// How a filesystem is made.
#[derive(Debug)]
pub enum Making {
    /// By `mkfs.NAME`, on one device.
    Mkfs(Mkfs),
    /// By tools of its own, as a pool.
    Pool,
    /// Not by the lab.
    Unknown,
}

/// The making by `mkfs.NAME`. Its options are as getopt_long(3) takes them, and only those that name no
/// device and no file, and need their value if they take one: what stands behind may be a device.
#[derive(Debug)]
pub struct Mkfs {
    /// The package that has it, on Debian.
    pub package: &'static str,
    /// Options that keep it from asking, and from putting work off until it is mounted.
    pub options: &'static [&'static str],
    /// How its journal is put on another device.
    pub external_journal: ExternalJournal,
    /// Letters without a value.
    pub flags: &'static str,
    /// Letters with a value.
    pub valued: &'static str,
    /// Words without a value.
    pub long_flags: &'static [&'static str],
    /// Words with a value.
    pub long_valued: &'static [&'static str],
    /// Keys of suboptions and of mount options whose value names a device or a file.
    pub device_keys: &'static [&'static str],
}

/// How a journal on another device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalJournal {
    /// It can't be.
    None,
    /// The device is made a journal first, then named: mke2fs(8).
    Ext,
    /// The device is named to mkfs.xfs(8) and to the mount (xfs(5)).
    Xfs,
}

/// What direct writes must be multiples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectUnit {
    /// The device's logical block.
    DeviceBlock,
    /// The filesystem's block, as where whole blocks are checksummed or copied.
    Block,
}

/// What becomes of direct writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectWrites {
    /// They are, as far as can be known without a try.
    Direct,
    /// They go through the page cache where a file grows, and empty it behind.
    Inside,
    /// They always go through the page cache, and empty it behind.
    Buffered,
    /// They go through the page cache in files with checksums.
    BufferedWithChecksums {
        /// Since this kernel.
        since: (u32, u32),
        /// Mount options without checksums.
        without: &'static [&'static str],
    },
}

/// What the addresses are that FIEMAP gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Places on the one device, which a file's blocks keep: they may be written through the device.
    Fixed,
    /// Places on the device, as they are now.
    Places,
    /// The filesystem's own, or nobody knows.
    Own,
}

/// A filesystem's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journal {
    /// None, or none that can be found.
    None,
    /// jbd2's: the superblock has its map.
    Ext,
    /// XFS's log: an ioctl tells its place.
    Xfs,
}

/// Where a filesystem's files have their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// On the block device that has the files' device number; where there is none, nobody knows.
    OnDevice,
    /// In itself, though under no block device's number.
    Inside,
    /// In a file of another filesystem, as its mount's layers tell.
    InLayers,
}

/// What few filesystems have.
#[derive(Debug)]
pub struct Extras {
    /// It may lie on several devices, lists them in /sys/fs/btrfs, and has an anonymous device number for
    /// each subvolume.
    pub has_members: bool,
    /// A mount option names a realtime device.
    pub has_realtime: bool,
    /// Each write takes new blocks, unless this mount option is set.
    pub copies_unless: Option<&'static str>,
    /// Each commit ends with a write of the superblock at this byte.
    pub commit_superblock_bytes: Option<u64>,
    /// It counts what programs write to it.
    pub counts_programs: bool,
}

const NO_EXTRAS: Extras = Extras {
    has_members: false,
    has_realtime: false,
    copies_unless: None,
    commit_superblock_bytes: None,
    counts_programs: false,
};

/// What holds of a filesystem that nothing is known of.
static OTHER: Filesystem = UNKNOWN;

const UNKNOWN: Filesystem = Filesystem {
    name: "",
    making: Making::Unknown,
    direct_unit: DirectUnit::Block,
    direct_writes: DirectWrites::Direct,
    addresses: Addresses::Own,
    journal: Journal::None,
    marks_metadata: true,
    threads: &[],
    files: Files::OnDevice,
    extras: NO_EXTRAS,
};

/// Every filesystem that something is known of.
pub static ALL: &[Filesystem] = &[
    ext::EXT2,
    ext::EXT3,
    ext::EXT4,
    xfs::XFS,
    btrfs::BTRFS,
    jfs::JFS,
    nilfs2::NILFS2,
    f2fs::F2FS,
    reiserfs::REISERFS,
    bcachefs::BCACHEFS,
    exfat::EXFAT,
    fat::VFAT,
    fat::MSDOS,
    others::ZFS,
    others::OVERLAY,
    others::UBIFS,
    others::TMPFS,
    others::RAMFS,
    others::ROOTFS,
    others::DEVTMPFS,
    others::HUGETLBFS,
];

impl Filesystem {
    /// What is known of a type of filesystem.
    pub fn of(fs_type: &str) -> &'static Filesystem {
        let known = ALL.iter().find(|known| known.name == fs_type);
        known.unwrap_or(&OTHER)
    }

    /// How it is made by `mkfs.NAME`; none if not so.
    pub fn mkfs(&self) -> Option<&Mkfs> {
        match &self.making {
            Making::Mkfs(mkfs) => Some(mkfs),
            Making::Pool | Making::Unknown => None,
        }
    }

    /// FIEMAP gives places on the device.
    pub fn tells_places(&self) -> bool {
        self.addresses != Addresses::Own
    }
}
