//! Questions to block devices, loop devices and filesystems that only ioctl(2) answers, and the
//! few switches that it turns. Request numbers are those of 64-bit machines with the generic encoding
//! (include/uapi/asm-generic/ioctl.h), which x86-64, arm64 and riscv64 share.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::model::devid::DevId;

// include/uapi/linux/fs.h
const BLKROGET: libc::Ioctl = 0x125E;
const BLKSSZGET: libc::Ioctl = 0x1268;
const BLKDISCARD: libc::Ioctl = 0x1277;
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272;
const BLKGETDISKSEQ: libc::Ioctl = 0x8008_1280;
const FS_IOC_GETFLAGS: libc::Ioctl = 0x8008_6601;
const FS_IOC_SETFLAGS: libc::Ioctl = 0x4008_6602;
const FS_IOC_FSGETXATTR: libc::Ioctl = 0x801C_581F;
const FS_IMMUTABLE_FL: u32 = 0x10;
const FS_ENCRYPT_FL: u32 = 0x800;
const FS_NOCOW_FL: u32 = 0x80_0000;
const FS_XFLAG_REALTIME: u32 = 0x1;
// include/uapi/linux/loop.h
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
// fs/ext4/ext4.h
const EXT4_IOC_CHECKPOINT: libc::Ioctl = 0x4004_662B;
// fs/xfs/libxfs/xfs_fs.h: the form that every kernel since 2.6 answers.
const XFS_IOC_FSGEOMETRY_V4: libc::Ioctl = 0x8070_587C;

/// Issues `request` with a pointer to `argument`.
///
/// # Safety
///
/// `request` must be one for which the kernel reads and writes no more than a `T` at the pointer,
/// and every bit pattern that it may leave there must be a valid `T`.
unsafe fn call<T>(fd: impl AsFd, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: the descriptor is open while `fd` is borrowed, and `argument` is a live, unshared
    // `T`, which the caller vouches is what the request takes. The kernel keeps no pointer.
    let result = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request, &raw mut *argument) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Capacity of a block device.
pub fn size_bytes(fd: impl AsFd) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: BLKGETSIZE64 writes a u64.
    unsafe { call(fd, BLKGETSIZE64, &mut bytes) }?;
    Ok(bytes)
}

/// Logical block of a block device.
pub fn logical_block_bytes(fd: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes an int.
    unsafe { call(fd, BLKSSZGET, &mut bytes) }?;
    u64::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Whether a block device is set read-only.
pub fn is_read_only(fd: impl AsFd) -> io::Result<bool> {
    let mut set: libc::c_int = 0;
    // SAFETY: BLKROGET writes an int.
    unsafe { call(fd, BLKROGET, &mut set) }?;
    Ok(set != 0)
}

/// The disk's sequence number, which another disk under the same name does not share; none on
/// kernels before 5.15, which don't know the request.
pub fn diskseq(fd: impl AsFd) -> Option<u64> {
    let mut number = 0_u64;
    // SAFETY: BLKGETDISKSEQ writes a u64.
    unsafe { call(fd, BLKGETDISKSEQ, &mut number) }.ok()?;
    Some(number)
}

/// Tells a block device that it may forget these bytes, which must be whole logical blocks: what they
/// read as afterwards is up to the device. Fails with EOPNOTSUPP where it can't.
pub fn discard(fd: impl AsFd, start_bytes: u64, length_bytes: u64) -> io::Result<()> {
    let mut range = [start_bytes, length_bytes];
    // SAFETY: BLKDISCARD reads two u64 (blk_ioctl_discard in block/ioctl.c).
    unsafe { call(fd, BLKDISCARD, &mut range) }
}

/// `struct loop_info64` of include/uapi/linux/loop.h.
#[repr(C)]
pub(super) struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    pub(super) offset: u64,
    pub(super) sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    pub(super) flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl Default for LoopInfo64 {
    fn default() -> LoopInfo64 {
        LoopInfo64 {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            sizelimit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// What a loop device is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopStatus {
    /// The filesystem that the backing file lies on: its `st_dev`.
    pub file_dev: DevId,
    /// The backing file's inode number.
    pub inode: u64,
    /// The backing block device; none if the backing is a regular file.
    pub block_device: Option<DevId>,
    /// Where in the backing the loop device starts.
    pub offset_bytes: u64,
    /// `LO_FLAGS_*` of include/uapi/linux/loop.h.
    pub flags: u32,
}

/// What a loop device is attached to. Fails with ENXIO on one that isn't.
pub fn loop_status(fd: impl AsFd) -> io::Result<LoopStatus> {
    let mut info = LoopInfo64::default();
    // SAFETY: LOOP_GET_STATUS64 writes a `struct loop_info64`, which is integers only.
    unsafe { call(fd, LOOP_GET_STATUS64, &mut info) }?;
    Ok(LoopStatus {
        file_dev: DevId::from_dev(info.device),
        inode: info.inode,
        block_device: (info.rdevice != 0).then(|| DevId::from_dev(info.rdevice)),
        offset_bytes: info.offset,
        flags: info.flags,
    })
}

/// The attribute flags of chattr(1). The kernel reads and writes an int, whatever the request
/// number says (ioctl_iflags(2)); a long has room for either.
fn inode_flags(fd: impl AsFd) -> io::Result<u32> {
    let mut flags: libc::c_long = 0;
    // SAFETY: FS_IOC_GETFLAGS writes an int, or on odd filesystems a long.
    unsafe { call(fd, FS_IOC_GETFLAGS, &mut flags) }?;
    Ok(flags as u32)
}

/// Whether a file carries the immutable flag of chattr(1).
pub fn is_immutable(fd: impl AsFd) -> io::Result<bool> {
    Ok(inode_flags(fd)? & FS_IMMUTABLE_FL != 0)
}

/// Whether a file's content is encrypted by its filesystem (fs/crypto).
pub fn is_encrypted(fd: impl AsFd) -> io::Result<bool> {
    Ok(inode_flags(fd)? & FS_ENCRYPT_FL != 0)
}

/// Whether a file is overwritten in place on a filesystem that copies others on write: by the `C` of
/// chattr(1), or by a mount option, which btrfs notes in each file (btrfs_inode_flags_to_fsflags() in
/// fs/btrfs/ioctl.c).
pub fn is_nocow(fd: impl AsFd) -> io::Result<bool> {
    Ok(inode_flags(fd)? & FS_NOCOW_FL != 0)
}

/// Sets or clears the immutable flag, which needs CAP_LINUX_IMMUTABLE. While it is set, nobody may
/// open the file for writing, truncate it by path, rename, link or remove it. What was open for writing
/// before is another matter: XFS obeys such descriptors in all; ext4 refuses writes and truncation
/// through them, but moves the file's blocks, since EXT4_IOC_MOVE_EXT looks for the flag at the donor
/// alone (fs/ext4/move_extent.c). `sys::lease` tells whether there are any.
pub fn set_immutable(fd: impl AsFd, immutable: bool) -> io::Result<()> {
    let fd = fd.as_fd();
    let before = inode_flags(fd)?;
    let after = if immutable {
        before | FS_IMMUTABLE_FL
    } else {
        before & !FS_IMMUTABLE_FL
    };
    let mut flags = libc::c_long::from(after);
    // SAFETY: FS_IOC_SETFLAGS reads an int, or on odd filesystems a long.
    unsafe { call(fd, FS_IOC_SETFLAGS, &mut flags) }
}

/// `struct fsxattr` of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct FsXattr {
    xflags: u32,
    extsize: u32,
    nextents: u32,
    projid: u32,
    cowextsize: u32,
    pad: [u8; 8],
}

/// Whether a file's data lies on an XFS realtime device.
pub fn is_realtime(fd: impl AsFd) -> io::Result<bool> {
    let mut attributes = FsXattr::default();
    // SAFETY: FS_IOC_FSGETXATTR writes a `struct fsxattr`, which is integers only.
    unsafe { call(fd, FS_IOC_FSGETXATTR, &mut attributes) }?;
    Ok(attributes.xflags & FS_XFLAG_REALTIME != 0)
}

/// Writes all that an ext4 journal holds to its place on the device
/// (Documentation/filesystems/ext4/journal.rst). Needs CAP_SYS_ADMIN and kernel 5.14.
pub fn ext4_checkpoint(fd: impl AsFd) -> io::Result<()> {
    let mut flags = 0_u32;
    // SAFETY: EXT4_IOC_CHECKPOINT reads a u32.
    unsafe { call(fd, EXT4_IOC_CHECKPOINT, &mut flags) }
}

/// `struct xfs_fsop_geom_v4` of fs/xfs/libxfs/xfs_fs.h.
#[repr(C)]
#[derive(Default)]
struct XfsGeometryV4 {
    blocksize: u32,
    rtextsize: u32,
    agblocks: u32,
    agcount: u32,
    logblocks: u32,
    sectsize: u32,
    inodesize: u32,
    imaxpct: u32,
    datablocks: u64,
    rtblocks: u64,
    rtextents: u64,
    logstart: u64,
    uuid: [u8; 16],
    sunit: u32,
    swidth: u32,
    version: i32,
    flags: u32,
    logsectsize: u32,
    rtsectsize: u32,
    dirblocksize: u32,
}

/// The log of an XFS filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XfsLog {
    /// Its size.
    pub size_bytes: u64,
    /// It lies on a device of its own.
    pub external: bool,
    /// Where it begins on the filesystem's device; none if it is external.
    pub start_bytes: Option<u64>,
}

/// The log of the XFS filesystem that a file or directory lies on. Fails with ENOTTY elsewhere.
pub fn xfs_log(fd: impl AsFd) -> io::Result<XfsLog> {
    let mut geometry = XfsGeometryV4::default();
    // SAFETY: XFS_IOC_FSGEOMETRY_V4 writes a `struct xfs_fsop_geom_v4`, which is integers only.
    unsafe { call(fd, XFS_IOC_FSGEOMETRY_V4, &mut geometry) }?;
    Ok(XfsLog {
        size_bytes: u64::from(geometry.logblocks) * u64::from(geometry.blocksize),
        external: geometry.logstart == 0,
        start_bytes: geometry.log_start_bytes(),
    })
}

impl XfsGeometryV4 {
    /// `logstart` is the number of the allocation group, then the block in it in as many bits as
    /// its size needs (XFS_FSB_TO_DADDR in fs/xfs/libxfs/xfs_format.h). 0 is an external log.
    fn log_start_bytes(&self) -> Option<u64> {
        let block_bits = u64::from(self.agblocks)
            .checked_next_power_of_two()?
            .ilog2();
        let group = self.logstart >> block_bits;
        let block = self.logstart & ((1 << block_bits) - 1);
        let blocks = group
            .checked_mul(u64::from(self.agblocks))?
            .checked_add(block)?;
        let bytes = blocks.checked_mul(u64::from(self.blocksize))?;
        (self.logstart != 0).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_their_request_numbers_say() {
        assert_eq!(size_of::<LoopInfo64>(), 232);
        assert_eq!(
            size_of::<FsXattr>(),
            (FS_IOC_FSGETXATTR >> 16) as usize & 0x3FFF
        );
        assert_eq!(
            size_of::<XfsGeometryV4>(),
            (XFS_IOC_FSGEOMETRY_V4 >> 16) as usize & 0x3FFF
        );
    }

    #[test]
    fn an_xfs_log_begins_in_its_allocation_group() {
        let geometry = |logstart| XfsGeometryV4 {
            blocksize: 4096,
            agblocks: 19_200,
            logstart,
            ..XfsGeometryV4::default()
        };
        // 19,200 blocks need 15 bits.
        let within = (2 << 15) + 7;
        assert_eq!(
            geometry(within).log_start_bytes(),
            Some((2 * 19_200 + 7) * 4096)
        );
        assert_eq!(geometry(0).log_start_bytes(), None);
    }

    #[test]
    fn a_regular_file_answers_no_question_for_block_devices() {
        let file = tempfile::tempfile().unwrap();
        assert!(size_bytes(&file).is_err());
        assert!(logical_block_bytes(&file).is_err());
        assert!(is_read_only(&file).is_err());
        assert!(discard(&file, 0, 4096).is_err());
        assert_eq!(diskseq(&file), None);
        assert!(loop_status(&file).is_err());
    }
}
