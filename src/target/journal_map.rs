//! Where a filesystem's journal lies on its device. ext3 and ext4 keep a copy of the journal inode's
//! block map in the superblock; XFS tells by an ioctl.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::journal::superblock;
use super::stack::device_node;
use crate::fs::{Filesystem, Journal};
use crate::model::facts::MountFacts;
use crate::sys::ioctl;
use crate::sys::root::Root;

/// The bytes of the mount's block device that its journal takes, in the order of the journal.
/// None where it lies on another device, the filesystem has none, or it can't be told.
pub fn journal_ranges(root: &Root, mount: &MountFacts) -> Option<Vec<Range<u64>>> {
    match Filesystem::of(&mount.fs_type).journal {
        Journal::Ext => {
            let node = File::open(device_node(root, mount.block_device?).ok()?).ok()?;
            let read = |at: u64, bytes: &mut [u8]| node.read_exact_at(bytes, at).ok();
            ext_ranges(&superblock(&node)?, &read)
        }
        Journal::Xfs => {
            let log = ioctl::xfs_log(File::open(&mount.mount_point).ok()?).ok()?;
            let start = log.start_bytes?;
            let place = start..start.checked_add(log.size_bytes)?;
            Some(vec![place])
        }
        Journal::None => None,
    }
}

/// Fills a slice from this byte of the device.
pub type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> Option<()>;

/// A map deeper than this is broken: an extent tree holds at most 5 levels
/// (Documentation/filesystems/ext4/ifork.rst), a block map 3.
const MAX_DEPTH: u16 = 5;
/// The most blocks of a journal (mke2fs(8), -J size=).
const MAX_BLOCKS: u64 = 10_240_000;
/// The most blocks of a map that are read: that journal's, in blocks of 4 KiB. The kernel doesn't check this
/// copy of the map, so that it may lead round in circles.
const MAX_NODES: u32 = 16_384;

/// Reads the journal's map out of an ext superblock. Offsets are those of
/// Documentation/filesystems/ext4/super.rst.
pub fn ext_ranges(superblock: &[u8; 1024], read: Read) -> Option<Vec<Range<u64>>> {
    let size_bytes = super::journal::internal_size(superblock)?;
    let block_bytes = 1024_u64.checked_shl(le32(superblock, 0x18)?)?;
    if !(1024..=65536).contains(&block_bytes)
        || size_bytes % block_bytes != 0
        || size_bytes / block_bytes > MAX_BLOCKS
    {
        return None;
    }
    let mut map = Map {
        block_bytes,
        left: size_bytes / block_bytes,
        nodes_left: MAX_NODES,
        ranges: Vec::new(),
        read,
    };
    // `s_jnl_blocks` begins with the inode's 15 words of `i_block`.
    let i_block = &superblock[0x10C..0x10C + 60];
    match extent_header(i_block) {
        Some((_, depth)) => map.extents(i_block, depth)?,
        None => map.block_map(i_block)?,
    }
    (map.left == 0).then_some(map.ranges)
}

struct Map<'a> {
    block_bytes: u64,
    /// Blocks of the journal that are not found yet.
    left: u64,
    /// Blocks of the map that may still be read.
    nodes_left: u32,
    ranges: Vec<Range<u64>>,
    read: Read<'a>,
}

impl Map<'_> {
    /// Adds blocks that follow those found.
    fn add(&mut self, block: u64, count: u64) -> Option<()> {
        self.left = self.left.checked_sub(count).filter(|_| count > 0)?;
        let start = block.checked_mul(self.block_bytes)?;
        let end = block.checked_add(count)?.checked_mul(self.block_bytes)?;
        match self.ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.ranges.push(start..end),
        }
        Some(())
    }

    fn node(&mut self, block: u64) -> Option<Vec<u8>> {
        self.nodes_left = self.nodes_left.checked_sub(1)?;
        let mut node = vec![0; usize::try_from(self.block_bytes).ok()?];
        (self.read)(block.checked_mul(self.block_bytes)?, &mut node)?;
        Some(node)
    }

    /// A node of an extent tree: a header of 12 bytes, then entries of 12 bytes
    /// (Documentation/filesystems/ext4/ifork.rst).
    fn extents(&mut self, node: &[u8], depth: u16) -> Option<()> {
        /// A longer extent is an unwritten one of this much less.
        const MAX_WRITTEN_BLOCKS: u64 = 32768;
        let (entries, found) = extent_header(node)?;
        if found != depth {
            return None;
        }
        for entry in 1..=usize::from(entries) {
            let at = entry * 12;
            if depth == 0 {
                let len = u64::from(le16(node, at + 4)?);
                let high = u64::from(le16(node, at + 6)?);
                let block = high << 32 | u64::from(le32(node, at + 8)?);
                let len = if len > MAX_WRITTEN_BLOCKS {
                    len - MAX_WRITTEN_BLOCKS
                } else {
                    len
                };
                self.add(block, len)?;
            } else {
                let high = u64::from(le16(node, at + 8)?);
                let block = high << 32 | u64::from(le32(node, at + 4)?);
                let below = self.node(block)?;
                self.extents(&below, depth - 1)?;
            }
        }
        Some(())
    }

    /// The older map: 12 blocks, then one each of blocks that list blocks, at one to three removes.
    fn block_map(&mut self, i_block: &[u8]) -> Option<()> {
        for slot in 0..15 {
            let block = u64::from(le32(i_block, slot * 4)?);
            let removes = slot.saturating_sub(11);
            self.listed(block, removes)?;
        }
        Some(())
    }

    fn listed(&mut self, block: u64, removes: usize) -> Option<()> {
        if self.left == 0 {
            return Some(());
        }
        if block == 0 {
            // A hole: a journal has none.
            return None;
        }
        if removes == 0 {
            return self.add(block, 1);
        }
        let list = self.node(block)?;
        for at in (0..list.len()).step_by(4) {
            self.listed(u64::from(le32(&list, at)?), removes - 1)?;
        }
        Some(())
    }
}

/// The number of entries and the depth that the header of an extent node tells; none if it isn't
/// one.
fn extent_header(node: &[u8]) -> Option<(u16, u16)> {
    const MAGIC: u16 = 0xF30A;
    let (magic, entries) = (le16(node, 0)?, le16(node, 2)?);
    let (max, depth) = (le16(node, 4)?, le16(node, 6)?);
    let is_one = magic == MAGIC
        && entries <= max
        && depth <= MAX_DEPTH
        && (usize::from(max) + 1) * 12 <= node.len();
    is_one.then_some((entries, depth))
}

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    let half = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_le_bytes(half))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: u64 = 1024;

    /// A superblock of a filesystem of 1 KiB blocks with a journal of so many blocks.
    fn with_journal(blocks: u32, i_block: &[u8]) -> [u8; 1024] {
        let mut bytes = [0; 1024];
        bytes[0x38..0x3A].copy_from_slice(&[0x53, 0xEF]);
        bytes[0x5C] = 0x4;
        bytes[0xE0] = 8;
        bytes[0xFD] = 1;
        bytes[0x10C..0x10C + i_block.len()].copy_from_slice(i_block);
        bytes[0x14C..0x150].copy_from_slice(&(blocks * BLOCK as u32).to_le_bytes());
        bytes
    }

    fn header(entries: u16, max: u16, depth: u16) -> Vec<u8> {
        [0xF30A, entries, max, depth, 0, 0]
            .iter()
            .flat_map(|half| half.to_le_bytes())
            .collect()
    }

    fn leaf(len: u16, block: u64) -> Vec<u8> {
        let mut entry = vec![0; 4];
        entry.extend(len.to_le_bytes());
        entry.extend(((block >> 32) as u16).to_le_bytes());
        entry.extend((block as u32).to_le_bytes());
        entry
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn bytes(blocks: Range<u64>) -> Range<u64> {
        blocks.start * BLOCK..blocks.end * BLOCK
    }

    fn no_read(_: u64, _: &mut [u8]) -> Option<()> {
        None
    }

    #[test]
    fn extents_in_the_superblock_are_the_journal_and_join_where_they_touch() {
        let far = 1 << 33;
        let i_block = [header(3, 4, 0), leaf(8, 100), leaf(4, 108), leaf(4, far)].concat();
        assert_eq!(
            ext_ranges(&with_journal(16, &i_block), &no_read),
            Some(vec![bytes(100..112), bytes(far..far + 4)])
        );
    }

    #[test]
    fn a_deeper_extent_tree_is_read_from_the_device() {
        let index = [words(&[0, 50]), vec![0; 4]].concat();
        let i_block = [header(1, 4, 1), index].concat();
        let read = |at: u64, node: &mut [u8]| {
            assert_eq!(at, 50 * BLOCK);
            let text = [header(1, 84, 0), leaf(16, 200)].concat();
            node[..text.len()].copy_from_slice(&text);
            Some(())
        };
        let superblock = with_journal(16, &i_block);
        assert_eq!(ext_ranges(&superblock, &read), Some(vec![bytes(200..216)]));
        assert_eq!(ext_ranges(&superblock, &no_read), None);
    }

    #[test]
    fn a_block_map_is_followed_through_its_lists() {
        let i_block = words(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 40, 41, 0]);
        let read = |at: u64, node: &mut [u8]| {
            let list: Vec<u32> = match at / BLOCK {
                40 => (1000..1256).collect(),
                41 => vec![42],
                42 => vec![5000, 5001],
                other => panic!("block {other} is no list"),
            };
            let list = words(&list);
            node[..list.len()].copy_from_slice(&list);
            Some(())
        };
        assert_eq!(
            ext_ranges(&with_journal(12 + 256 + 2, &i_block), &read),
            Some(vec![bytes(1..13), bytes(1000..1256), bytes(5000..5002)])
        );
    }

    #[test]
    fn a_map_that_is_not_as_long_as_the_journal_tells_nothing() {
        let i_block = [header(1, 4, 0), leaf(8, 100)].concat();
        assert_eq!(ext_ranges(&with_journal(9, &i_block), &no_read), None);
        assert_eq!(ext_ranges(&with_journal(7, &i_block), &no_read), None);
        assert_eq!(ext_ranges(&[0; 1024], &no_read), None);
    }

    #[test]
    fn a_map_that_leads_round_in_circles_tells_nothing() {
        let index = |block| [words(&[0, block]), vec![0; 4]].concat();
        let reads = std::cell::Cell::new(0);
        let read = |at: u64, node: &mut [u8]| {
            reads.set(reads.get() + 1);
            assert!(reads.get() <= MAX_NODES, "it goes on and on");
            // Block 1 is an empty leaf, and each after it as full of the one before as can be.
            let depth = (at / BLOCK - 1) as u16;
            let entries = if depth == 0 { 0 } else { 84 };
            let text = [
                header(entries, 84, depth),
                index(u32::from(depth)).repeat(84),
            ]
            .concat();
            node[..text.len()].copy_from_slice(&text);
            Some(())
        };
        let i_block = [header(4, 4, 5), index(5).repeat(4)].concat();
        assert_eq!(ext_ranges(&with_journal(16, &i_block), &read), None);
        let i_block = [header(1, 4, 0), leaf(0, 100)].concat();
        assert_eq!(ext_ranges(&with_journal(16, &i_block), &no_read), None);
        let mut endless = with_journal(0, &words(&[1; 15]));
        endless[0x148] = 1;
        assert_eq!(ext_ranges(&endless, &no_read), None);
    }

    proptest! {
        #[test]
        fn no_map_panics(
            i_block in prop::collection::vec(any::<u8>(), 60),
            is_tree: bool,
            blocks in 0u32..3000,
            noise: u8,
        ) {
            let mut i_block = i_block;
            if is_tree {
                i_block[..8].copy_from_slice(&header(4, 4, u16::from(noise % 6))[..8]);
            }
            let read = |_: u64, node: &mut [u8]| { node.fill(noise); Some(()) };
            if let Some(ranges) = ext_ranges(&with_journal(blocks, &i_block), &read) {
                let sum: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                prop_assert_eq!(sum, u64::from(blocks) * BLOCK);
            }
        }
    }
}
