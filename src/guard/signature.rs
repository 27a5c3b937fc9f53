//! What lies on a device, by magic numbers. Offsets and values are those of util-linux
//! (libblkid/src/superblocks and libblkid/src/partitions), which in turn cite each format's own
//! source; formats that it lacks name theirs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::refusal::Member;

/// What lies on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// In words, with an article: "an ext4 filesystem".
    pub what: &'static str,
    /// The kind of membership, if it is a part of something larger.
    pub member: Option<Member>,
}

/// What other hosts may use at the same time, seen by none of their uses here.
const SHARED: [&str; 7] = [
    ASM,
    "a VMFS volume member",
    "a VMFS filesystem",
    GFS2,
    OCFS2,
    "an OCFS filesystem",
    "a ScoutFS device",
];

impl Signature {
    /// Whether other hosts may use it at the same time.
    pub(super) fn is_shared(&self) -> bool {
        SHARED.contains(&self.what)
    }
}

/// A part of a device that could not be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Where, from the device's start.
    pub(super) offset_bytes: u64,
    /// What the kernel said.
    pub(super) source: io::Error,
}

/// Where a magic number is.
#[derive(Clone, Copy)]
enum At {
    /// So far from the start.
    Start(u64),
    /// So far from the end.
    End(u64),
    /// So far from the end after that was rounded down to a multiple, and then so far up again.
    EndOf { unit: u64, back: u64, up: u64 },
}

struct Magic {
    what: &'static str,
    member: Option<Member>,
    at: At,
    bytes: &'static [u8],
}

const fn magic(what: &'static str, at: u64, bytes: &'static [u8]) -> Magic {
    Magic {
        what,
        member: None,
        at: At::Start(at),
        bytes,
    }
}

const fn part(member: Member, what: &'static str, at: At, bytes: &'static [u8]) -> Magic {
    Magic {
        what,
        member: Some(member),
        at,
        bytes,
    }
}

const ASM: &str = "an Oracle ASM disk";
const GFS2: &str = "a GFS2 filesystem";
const OCFS2: &str = "an OCFS2 filesystem";
const LVM: &str = "an LVM physical volume";
const MD: &str = "an md array's superblock";
const LUKS: &str = "a LUKS container";
const BCACHE_MAGIC: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const STRATIS_MAGIC: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
const MD_MAGIC: &[u8] = b"\xfc\x4e\x2b\xa9";
const KIB: u64 = 1024;

/// Members come first: a mirror's half also looks like the filesystem in it.
#[rustfmt::skip]
const MAGICS: &[Magic] = &[
    // LVM's label may be in any of the first four sectors; the type follows 24 bytes later.
    part(Member::Lvm, LVM, At::Start(0x18), b"LVM2 001"),
    part(Member::Lvm, LVM, At::Start(0x218), b"LVM2 001"),
    part(Member::Lvm, LVM, At::Start(0x418), b"LVM2 001"),
    part(Member::Lvm, LVM, At::Start(0x618), b"LVM2 001"),
    part(Member::Luks, LUKS, At::Start(0), b"LUKS\xba\xbe"),
    // LUKS2's second header, at any of its places.
    part(Member::Luks, LUKS, At::Start(16 * KIB), b"SKUL\xba\xbe"),
    part(Member::Luks, LUKS, At::Start(32 * KIB), b"SKUL\xba\xbe"),
    part(Member::Luks, LUKS, At::Start(64 * KIB), b"SKUL\xba\xbe"),
    part(Member::Luks, LUKS, At::Start(128 * KIB), b"SKUL\xba\xbe"),
    part(Member::Luks, LUKS, At::Start(256 * KIB), b"SKUL\xba\xbe"),
    part(Member::Luks, LUKS, At::Start(512 * KIB), b"SKUL\xba\xbe"),
    part(Member::Luks, LUKS, At::Start(1024 * KIB), b"SKUL\xba\xbe"),
    part(Member::Luks, LUKS, At::Start(2048 * KIB), b"SKUL\xba\xbe"),
    part(Member::Luks, LUKS, At::Start(4096 * KIB), b"SKUL\xba\xbe"),
    // md 1.1, 1.2, 1.0 and 0.90 (include/uapi/linux/raid/md_p.h).
    part(Member::Md, MD, At::Start(0), MD_MAGIC),
    part(Member::Md, MD, At::Start(4 * KIB), MD_MAGIC),
    part(Member::Md, MD, At::EndOf { unit: 4 * KIB, back: 8 * KIB, up: 0 }, MD_MAGIC),
    part(Member::Md, MD, At::EndOf { unit: 64 * KIB, back: 64 * KIB, up: 0 }, MD_MAGIC),
    // 0.90 keeps its magic in the byte order of the machine that made it.
    part(Member::Md, MD, At::EndOf { unit: 64 * KIB, back: 64 * KIB, up: 0 }, b"\xa9\x2b\x4e\xfc"),
    part(Member::Bcache, "a bcache device", At::Start(4 * KIB + 0x18), BCACHE_MAGIC),
    magic("a bcachefs filesystem", 4 * KIB + 0x18,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    Magic { what: "DRBD metadata", member: None,
        at: At::EndOf { unit: 4 * KIB, back: 4 * KIB, up: 60 }, bytes: b"\x83\x74\x02\x6b" },
    Magic { what: "DRBD metadata", member: None,
        at: At::EndOf { unit: 4 * KIB, back: 4 * KIB, up: 60 }, bytes: b"\x83\x74\x02\x6c" },
    Magic { what: "DRBD metadata", member: None,
        at: At::EndOf { unit: 4 * KIB, back: 4 * KIB, up: 60 }, bytes: b"\x83\x74\x02\x6d" },
    Magic { what: "Intel RAID metadata", member: None,
        at: At::End(1024), bytes: b"Intel Raid ISM Cfg Sig. " },
    Magic { what: "DDF RAID metadata", member: None, at: At::End(512), bytes: b"\xde\x11\xde\x11" },
    // ceph: src/os/bluestore/BlueStore.cc, the label's preamble.
    magic("a Ceph BlueStore device", 0, b"bluestore block device"),
    magic(ASM, 32, b"ORCLDISK"),
    magic("a VMFS volume member", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    magic("a VMFS filesystem", 0x20_0000, b"\x5e\xf1\xab\x2f"),
    magic("a Stratis pool's member", 512 + 4, STRATIS_MAGIC),
    magic("a Stratis pool's member", 9 * 512 + 4, STRATIS_MAGIC),
    magic("a VDO volume", 0, b"dmvdo001"),
    magic("a dm-verity hash tree", 0, b"verity\0\0"),
    magic("a dm-integrity device", 0, b"integrt\0"),
    magic("a BitLocker volume", 3, b"-FVE-FS-"),
    magic("an XFS filesystem", 0, b"XFSB"),
    magic("a btrfs filesystem", 0x1_0040, b"_BHRfS_M"),
    magic("an F2FS filesystem", 1024, b"\x10\x20\xf5\xf2"),
    magic("an EROFS filesystem", 1024, b"\xe2\xe1\xf5\xe0"),
    magic("a NILFS2 filesystem", 1024 + 6, b"\x34\x34"),
    magic("a JFS filesystem", 0x8000, b"JFS1"),
    magic("a ReiserFS filesystem", 0x1_0034, b"ReIsEr"),
    magic("a ReiserFS filesystem", 0x2034, b"ReIsEr"),
    magic("a Reiser4 filesystem", 0x1_0000, b"ReIsEr4"),
    // GFS has the same (libblkid/src/superblocks/gfs.c).
    magic(GFS2, 0x1_0000, b"\x01\x16\x19\x70"),
    magic(OCFS2, 512, b"OCFSV2"),
    magic(OCFS2, 1024, b"OCFSV2"),
    magic(OCFS2, 2048, b"OCFSV2"),
    magic(OCFS2, 4096, b"OCFSV2"),
    magic(OCFS2, 8192, b"OCFSV2"),
    magic("an OCFS filesystem", 8192, b"OracleCFS"),
    magic("a ScoutFS device", 0x1_0004, b"\x8b\x42\x3c\x10"),
    magic("an APFS container", 32, b"NXSB"),
    magic("an HFS+ filesystem", 1024, b"H+"),
    magic("an HFS+ filesystem", 1024, b"HX"),
    magic("an HFS filesystem", 1024, b"BD"),
    magic("an NTFS filesystem", 3, b"NTFS    "),
    magic("an exFAT filesystem", 3, b"EXFAT   "),
    magic("a FAT filesystem", 0x52, b"FAT32   "),
    magic("a FAT filesystem", 0x36, b"FAT16   "),
    magic("a FAT filesystem", 0x36, b"FAT12   "),
    magic("a FAT filesystem", 0x36, b"FAT     "),
    magic("an ISO 9660 filesystem", 0x8001, b"CD001"),
    magic("a UDF filesystem", 0x8001, b"BEA01"),
    magic("a SquashFS filesystem", 0, b"hsqs"),
    magic("a SquashFS filesystem", 0, b"sqsh"),
    magic("a cramfs filesystem", 0, b"\x45\x3d\xcd\x28"),
    magic("a ROMFS filesystem", 0, b"-rom1fs-"),
    magic("a zonefs filesystem", 0, b"SFOZ"),
    // The last ten bytes of the first page, whose size is that of the machine that made it.
    magic("swap space", 0x1000 - 10, b"SWAPSPACE2"),
    magic("swap space", 0x1000 - 10, b"SWAP-SPACE"),
    magic("swap space", 0x2000 - 10, b"SWAPSPACE2"),
    magic("swap space", 0x4000 - 10, b"SWAPSPACE2"),
    magic("swap space", 0x1_0000 - 10, b"SWAPSPACE2"),
    magic("a suspended system", 0x1000 - 10, b"S1SUSPEND"),
    magic("a suspended system", 0x1000 - 10, b"S2SUSPEND"),
    magic("a suspended system", 0x1000 - 10, b"ULSUSPEND"),
    magic("a suspended system", 0x1000 - 10, b"LINHIB0001"),
    magic("a GPT partition table", 512, b"EFI PART"),
    magic("a GPT partition table", 4096, b"EFI PART"),
    // The backup header is in the last logical block.
    Magic { what: "a GPT partition table", member: None, at: At::End(512), bytes: b"EFI PART" },
    Magic { what: "a GPT partition table", member: None, at: At::End(4096), bytes: b"EFI PART" },
    magic("a BSD disk label", 512, b"\x57\x45\x56\x82"),
    magic("a Sun disk label", 508, b"\xda\xbe"),
];

/// What lies on a part of a device, as on a device of that size; none if nothing is recognised. Fails if it
/// can't be read.
pub fn find(
    device: &File,
    start_bytes: u64,
    size_bytes: u64,
) -> Result<Option<Signature>, Unreadable> {
    let reader = Reader {
        device,
        start_bytes,
        size_bytes,
    };
    let (members, others): (Vec<&Magic>, Vec<&Magic>) =
        MAGICS.iter().partition(|magic| magic.member.is_some());
    if let Some(found) = first(&reader, &members)? {
        return Ok(Some(found));
    }
    if has_zfs_label(&reader)? {
        return Ok(Some(Signature {
            what: "a ZFS label",
            member: Some(Member::Zfs),
        }));
    }
    let what = match first(&reader, &others)? {
        Some(found) => return Ok(Some(found)),
        None => match ext(&reader)? {
            Some(what) => Some(what),
            None => has_mbr(&reader)?.then_some("an MBR partition table"),
        },
    };
    Ok(what.map(|what| Signature { what, member: None }))
}

fn first(reader: &Reader, magics: &[&Magic]) -> Result<Option<Signature>, Unreadable> {
    for magic in magics {
        let Some(at) = place(magic.at, reader.size_bytes) else {
            continue;
        };
        if reader.read(at, magic.bytes.len())?.as_deref() == Some(magic.bytes) {
            return Ok(Some(Signature {
                what: magic.what,
                member: magic.member,
            }));
        }
    }
    Ok(None)
}

fn place(at: At, size_bytes: u64) -> Option<u64> {
    match at {
        At::Start(offset) => Some(offset),
        At::End(back) => size_bytes.checked_sub(back),
        At::EndOf { unit, back, up } => (size_bytes / unit * unit)
            .checked_sub(back)
            .map(|at| at + up),
    }
}

struct Reader<'a> {
    device: &'a File,
    start_bytes: u64,
    size_bytes: u64,
}

impl Reader<'_> {
    /// Bytes at an offset; none if the device ends before.
    fn read(&self, at: u64, len: usize) -> Result<Option<Vec<u8>>, Unreadable> {
        if at.saturating_add(len as u64) > self.size_bytes {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        let offset_bytes = self.start_bytes + at;
        let read = self.device.read_exact_at(&mut bytes, offset_bytes);
        read.map_err(|source| Unreadable {
            offset_bytes,
            source,
        })?;
        Ok(Some(bytes))
    }
}

/// ZFS writes four labels of 256 KiB, two at each end, whose upper half is a ring of uberblocks
/// (OpenZFS, include/sys/vdev_impl.h), each beginning with a magic number in either byte order
/// (include/sys/uberblock_impl.h).
fn has_zfs_label(reader: &Reader) -> Result<bool, Unreadable> {
    const LABEL: u64 = 256 * KIB;
    const MAGICS: [[u8; 8]; 2] = [0x00BA_B10C_u64.to_le_bytes(), 0x00BA_B10C_u64.to_be_bytes()];
    let end = reader.size_bytes / LABEL * LABEL;
    let labels = [
        Some(0),
        Some(LABEL),
        end.checked_sub(2 * LABEL),
        end.checked_sub(LABEL),
    ];
    for label in labels.into_iter().flatten() {
        let half = LABEL as usize / 2;
        if let Some(ring) = reader.read(label + LABEL / 2, half)?
            && ring
                .chunks(KIB as usize)
                .any(|uberblock| MAGICS.iter().any(|magic| uberblock.starts_with(magic)))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells ext2, ext3 and ext4 by their features (Documentation/filesystems/ext4/super.rst), as
/// libblkid does.
fn ext(reader: &Reader) -> Result<Option<&'static str>, Unreadable> {
    const COMPAT_HAS_JOURNAL: u32 = 0x4;
    const INCOMPAT_JOURNAL_DEV: u32 = 0x8;
    /// What ext3 knows: filetype, recover, meta_bg; and sparse_super, large_file, btree_dir.
    const EXT3_INCOMPAT: u32 = 0x2 | 0x4 | 0x10;
    const EXT3_RO_COMPAT: u32 = 0x1 | 0x2 | 0x4;
    let Some(superblock) = reader.read(1024, 0x68)? else {
        return Ok(None);
    };
    let word = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&superblock[at..at + 4]);
        u32::from_le_bytes(bytes)
    };
    if superblock[0x38..0x3A] != [0x53, 0xEF] {
        return Ok(None);
    }
    let (compat, incompat, ro_compat) = (word(0x5C), word(0x60), word(0x64));
    Ok(Some(if incompat & INCOMPAT_JOURNAL_DEV != 0 {
        "an ext journal device"
    } else if incompat & !EXT3_INCOMPAT != 0 || ro_compat & !EXT3_RO_COMPAT != 0 {
        "an ext4 filesystem"
    } else if compat & COMPAT_HAS_JOURNAL != 0 {
        "an ext3 filesystem"
    } else {
        "an ext2 filesystem"
    }))
}

/// A partition table of the old sort: four entries of 16 bytes from byte 446, of which one at least
/// has a type and a size, each marked bootable or not, and the closing mark.
fn has_mbr(reader: &Reader) -> Result<bool, Unreadable> {
    let Some(sector) = reader.read(0, 512)? else {
        return Ok(false);
    };
    let entries = || sector[446..510].chunks(16);
    Ok(sector[510..] == [0x55, 0xAA]
        && entries().all(|entry| entry[0] & 0x7F == 0)
        && entries().any(|entry| entry[4] != 0 && entry[12..16] != [0; 4]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 8 << 20;

    fn found(parts: &[(u64, &[u8])]) -> Option<Signature> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        for (at, bytes) in parts {
            file.write_all_at(bytes, *at).unwrap();
        }
        find(&file, 0, SIZE).unwrap()
    }

    #[test]
    fn nothing_is_found_on_zeros() {
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn every_magic_of_the_table_is_found_where_it_belongs() {
        for magic in MAGICS {
            let at = place(magic.at, SIZE).unwrap();
            let signature = found(&[(at, magic.bytes)]).unwrap();
            assert_eq!(signature.what, magic.what);
            assert_eq!(signature.member, magic.member);
        }
    }

    #[test]
    fn all_that_hosts_share_is_in_the_table() {
        for what in SHARED {
            assert!(MAGICS.iter().any(|magic| magic.what == what), "{what}");
        }
        let shared = |parts| found(parts).unwrap().is_shared();
        assert!(shared(&[(0x20_0000, b"\x5e\xf1\xab\x2f")]));
        assert!(!shared(&[(0, b"XFSB")]));
    }

    #[test]
    fn a_part_of_a_device_is_looked_at_from_its_own_start() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(SIZE).unwrap();
        file.write_all_at(b"OCFSV2", 4096 + 1024).unwrap();
        let what = |start, size| find(&file, start, size).unwrap().map(|found| found.what);
        assert_eq!(what(4096, 65_536), Some(OCFS2));
        assert_eq!(what(65_536, 65_536), None);
    }

    #[test]
    fn a_mirror_s_half_is_a_member_before_it_is_a_filesystem() {
        let signature = found(&[(0, b"XFSB"), (SIZE - 64 * KIB, MD_MAGIC)]).unwrap();
        assert_eq!(signature.member, Some(Member::Md));
    }

    #[test]
    fn zfs_is_found_by_an_uberblock_at_either_end() {
        for at in [128 * KIB + 3 * KIB, SIZE - 128 * KIB] {
            let signature = found(&[(at, &0x00BA_B10C_u64.to_be_bytes())]).unwrap();
            assert_eq!(signature.member, Some(Member::Zfs));
        }
    }

    #[test]
    fn the_ext_family_is_told_apart_by_features() {
        let mark: (u64, &[u8]) = (1024 + 0x38, &[0x53, 0xEF]);
        let what = |features: &[u8]| found(&[mark, (1024 + 0x5C, features)]).unwrap().what;
        assert_eq!(what(&[0; 12]), "an ext2 filesystem");
        assert_eq!(
            what(&[4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]),
            "an ext3 filesystem"
        );
        assert_eq!(
            what(&[4, 0, 0, 0, 0x42, 2, 0, 0, 3, 0, 0, 0]),
            "an ext4 filesystem"
        );
        assert_eq!(
            what(&[0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]),
            "an ext journal device"
        );
    }

    #[test]
    fn a_boot_sector_without_partitions_is_no_partition_table() {
        assert_eq!(found(&[(510, &[0x55, 0xAA])]), None);
        let mut entry = [0; 16];
        entry[4] = 0x83;
        entry[12] = 1;
        let table = found(&[(446, &entry), (510, &[0x55, 0xAA])]).unwrap();
        assert_eq!(table.what, "an MBR partition table");
    }

    #[test]
    fn a_device_too_small_for_a_magic_is_read_no_further_than_its_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(512).unwrap();
        assert_eq!(find(&file, 0, 512).unwrap(), None);
    }
}
