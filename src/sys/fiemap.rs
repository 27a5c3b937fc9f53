//! Where a file's bytes lie on its filesystem's device: the FIEMAP ioctl
//! (Documentation/filesystems/fiemap.rst).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The last extent of the file.
pub const LAST: u32 = 0x1;
/// Where the data lies isn't known.
pub const UNKNOWN: u32 = 0x2;
/// Not allocated yet: the data waits in memory.
pub const DELALLOC: u32 = 0x4;
/// The bytes on the device aren't the file's bytes: compressed, say.
pub const ENCODED: u32 = 0x8;
/// The bytes on the device are encrypted.
pub const DATA_ENCRYPTED: u32 = 0x80;
/// Offsets aren't multiples of the block.
pub const NOT_ALIGNED: u32 = 0x100;
/// The data lies among metadata.
pub const DATA_INLINE: u32 = 0x200;
/// The data shares its block with other files' tails.
pub const DATA_TAIL: u32 = 0x400;
/// Allocated and never written.
pub const UNWRITTEN: u32 = 0x800;
/// The filesystem maps blocks, not extents, and neighbours were merged for the answer.
pub const MERGED: u32 = 0x1000;
/// Other files own the blocks too.
pub const SHARED: u32 = 0x2000;

/// One run of a file's bytes on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it starts in the file.
    pub logical_bytes: u64,
    /// Where it starts on the filesystem's device.
    pub physical_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// The constants of this module, or-ed.
    pub flags: u32,
}

/// `_IOWR('f', 11, struct fiemap)` of include/uapi/linux/fs.h.
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B;
/// Write the file's dirty pages out first (include/uapi/linux/fiemap.h).
const FIEMAP_FLAG_SYNC: u32 = 0x1;
/// Extents that one call asks for.
const BATCH: usize = 128;

/// `struct fiemap_extent` of include/uapi/linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` of the same file, with room for a batch of extents behind it.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// All extents of a file, in the file's order, after its dirty pages were written out. Fails as
/// ioctl(2) does, with EOPNOTSUPP where the filesystem knows no extents.
pub fn extents(fd: impl AsFd) -> io::Result<Vec<Extent>> {
    let fd = fd.as_fd();
    let mut found: Vec<Extent> = Vec::new();
    let mut start = 0;
    loop {
        let mut request = Request {
            start,
            length: u64::MAX - start,
            flags: FIEMAP_FLAG_SYNC,
            mapped_extents: 0,
            extent_count: BATCH as u32,
            reserved: 0,
            extents: [RawExtent::default(); BATCH],
        };
        // SAFETY: the descriptor is open for as long as `fd` borrows it. The request is a live,
        // writable `struct fiemap` followed by `extent_count` extents, as both are laid out in
        // the kernel's header; the kernel writes no more than that many and keeps no pointer.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let batch = &request.extents[..(request.mapped_extents as usize).min(BATCH)];
        found.extend(batch.iter().map(|raw| Extent {
            logical_bytes: raw.logical,
            physical_bytes: raw.physical,
            length_bytes: raw.length,
            flags: raw.flags,
        }));
        let Some(last) = batch.last() else {
            return Ok(found);
        };
        let next = last.logical.saturating_add(last.length);
        // An extent of no length would ask for the same place for ever.
        if last.flags & LAST != 0 || next <= start {
            return Ok(found);
        }
        start = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_request_is_laid_out_as_the_kernel_expects() {
        assert_eq!(size_of::<RawExtent>(), 56);
        assert_eq!(size_of::<Request>(), 32 + 56 * BATCH);
    }

    #[test]
    fn extents_cover_a_written_file_where_the_filesystem_tells() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&[7; 65_536]).unwrap();
        match extents(&file) {
            Ok(extents) => {
                assert_eq!(extents.iter().map(|e| e.length_bytes).sum::<u64>(), 65_536);
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        }
    }

    #[test]
    fn a_pipe_has_no_extents() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(extents(&reader).is_err());
    }
}
