//! What it takes to write again what a device holds: blocks that a pool, a snapshot or an image's filesystem
//! has not given to it yet.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::fstatvfs;

use super::blockmap;
use super::dm::{self, Control};
use super::graph::{Node, Piece};
use super::snapshot::{LoopUse, Snapshot};
use super::sysfs::text;
use crate::model::devid::DevId;
use crate::model::units::SECTOR_BYTES;
use crate::sys::devmapper::DmTarget;
use crate::sys::fiemap;
use crate::sys::root::Root;

/// Where the space comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A pool that gives space to what is written first, or is shared with a snapshot.
    Pool,
    /// A snapshot, which keeps a copy of what is written over.
    Snapshot,
    /// The filesystem of a loop device's image, which has holes.
    Image {
        /// The image.
        path: String,
    },
}

/// What writing a span again may take of one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The pool's, the snapshot's or the loop device's kernel name.
    pub device: String,
    /// What it is.
    pub takes: Takes,
    /// How much, at most.
    pub needed_bytes: u64,
    /// How large it is, and how much of it is free. None where it doesn't tell.
    pub room_bytes: Option<(u64, u64)>,
}

/// What writing again the first `span_bytes` of a device takes space from.
pub fn takes_space(root: &Root, dev: DevId, span_bytes: u64) -> Vec<Need> {
    let snapshot = Snapshot::of_devices(root);
    let graph = blockmap::graph(root, &snapshot);
    let looked = Looked {
        pieces: graph.project_part(&Node::Device(dev), 0..span_bytes),
        control: Control::open(root),
        snapshot: &snapshot,
    };
    let mut needs = looked.of_maps();
    needs.extend(
        snapshot
            .loops
            .iter()
            .filter_map(|found| looked.of_image(found)),
    );
    needs.retain(|need| need.needed_bytes > 0);
    needs
}

struct Looked<'a> {
    snapshot: &'a Snapshot,
    control: Control,
    pieces: Vec<Piece>,
}

impl Looked<'_> {
    /// The pieces of a node.
    fn at(&self, node: &Node) -> impl Iterator<Item = &Range<u64>> {
        let pieces = self.pieces.iter().filter(move |piece| piece.node == *node);
        pieces.map(|piece| &piece.bytes)
    }

    fn of_maps(&self) -> Vec<Need> {
        let maps = self.snapshot.devices.iter().filter(|device| device.is_dm());
        let mut needs = Vec::new();
        for map in maps {
            let node = Node::Device(map.dev);
            let table = self.control.table(map.dev).unwrap_or_default();
            for (at, target) in table.iter().enumerate() {
                let status = || self.control.status(map.dev)?.into_iter().nth(at);
                let words: Vec<&str> = target.words.split_whitespace().collect();
                let lower = words.first().and_then(|word| word.parse::<DevId>().ok());
                let Some(lower) = lower else { continue };
                match target.kind.as_str() {
                    "thin" => {
                        let needed_bytes = length(self.at(&node), &dm::span(target));
                        needs.extend(self.of_pool(needed_bytes, status(), lower));
                    }
                    // What is written to a snapshot or to its origin goes to the copies, by chunks.
                    "snapshot" => {
                        let written = match self.at(&node).next() {
                            Some(_) => node.clone(),
                            None => Node::Device(lower),
                        };
                        let needed_bytes = length(self.at(&written), &dm::span(target));
                        needs.push(Need {
                            device: map.name.clone(),
                            takes: Takes::Snapshot,
                            needed_bytes,
                            room_bytes: status().and_then(|status| snapshot_room(&status.words)),
                        });
                    }
                    _ => {}
                }
            }
            // VDO's own pools, which LVM names so (lv_layer() in lvm2's lib/activate/dev_manager.c).
            let uuid = text(map.dir.join("dm/uuid")).unwrap_or_default();
            if uuid.starts_with("LVM-")
                && uuid.ends_with("-vpool")
                && self.at(&node).next().is_some()
            {
                needs.push(Need {
                    device: map.name.clone(),
                    takes: Takes::Pool,
                    needed_bytes: length(self.at(&node), &(0..map.size_bytes)),
                    room_bytes: None,
                });
            }
        }
        needs
    }

    /// A thin volume's need of its pool. Which of its blocks are its own the kernel doesn't tell: those that
    /// were never written aren't, and in a pool with other volumes, a snapshot may share all others.
    fn of_pool(&self, span_bytes: u64, thin: Option<DmTarget>, pool: DevId) -> Option<Need> {
        let device = self.snapshot.device(pool)?;
        let table = self.control.table(pool).unwrap_or_default();
        let status = self.control.status(pool).unwrap_or_default();
        let room = table.first().zip(status.first());
        let room = room.and_then(|(table, status)| pool_room(&table.words, &status.words));
        let mapped = thin.and_then(|thin| {
            let sectors: u64 = thin.words.split_whitespace().next()?.parse().ok()?;
            let size_bytes = thin.sectors.checked_mul(SECTOR_BYTES)?;
            Some((sectors.checked_mul(SECTOR_BYTES)?, size_bytes))
        });
        let unwritten_bytes = match (mapped, room) {
            (Some((mapped, size)), Some((all, free))) if mapped >= all - free => {
                size.saturating_sub(mapped)
            }
            _ => u64::MAX,
        };
        Some(Need {
            device: device.name.clone(),
            takes: Takes::Pool,
            needed_bytes: span_bytes.min(unwritten_bytes),
            room_bytes: room,
        })
    }

    fn of_image(&self, found: &LoopUse) -> Option<Need> {
        let device = self.snapshot.device(found.dev)?;
        // Of several loop devices on one image, the one that is written through.
        self.at(&Node::Device(found.dev)).next()?;
        let file = found.backing.file?;
        let path = &found.backing.path;
        let needed_bytes = self
            .at(&Node::File(file))
            .map(|span| holes_bytes(Path::new(path), span))
            .sum();
        let room = File::open(path).ok().and_then(|file| fstatvfs(&file).ok());
        Some(Need {
            device: device.name.clone(),
            takes: Takes::Image { path: path.clone() },
            needed_bytes,
            room_bytes: room.map(|room| {
                let unit = room.fragment_size();
                (room.blocks() * unit, room.blocks_available() * unit)
            }),
        })
    }
}

fn length<'r>(pieces: impl Iterator<Item = &'r Range<u64>>, within: &Range<u64>) -> u64 {
    let inside = pieces.map(|piece| {
        let end = piece.end.min(within.end);
        end.saturating_sub(piece.start.max(within.start))
    });
    inside.fold(0, u64::saturating_add)
}

/// How large a pool is and what of it is free, by "254:8 254:9 128 0" and "0 113/1024 10/512 - rw": blocks of
/// so many sectors (Documentation/admin-guide/device-mapper/thin-provisioning.rst).
fn pool_room(table: &str, status: &str) -> Option<(u64, u64)> {
    let block: u64 = table.split_whitespace().nth(2)?.parse().ok()?;
    let block_bytes = block.checked_mul(SECTOR_BYTES)?;
    let (used, all) = status.split_whitespace().nth(2)?.split_once('/')?;
    let (used, all): (u64, u64) = (used.parse().ok()?, all.parse().ok()?);
    Some((
        all.checked_mul(block_bytes)?,
        all.saturating_sub(used).checked_mul(block_bytes)?,
    ))
}

/// The same of a snapshot, by "400/4096 16", in sectors (snapshot.rst there).
fn snapshot_room(status: &str) -> Option<(u64, u64)> {
    let (used, all) = status.split_whitespace().next()?.split_once('/')?;
    let (used, all): (u64, u64) = (used.parse().ok()?, all.parse().ok()?);
    let free = all.saturating_sub(used).checked_mul(SECTOR_BYTES)?;
    Some((all.checked_mul(SECTOR_BYTES)?, free))
}

/// How much of a file's span has no blocks of its own. Where a filesystem doesn't tell its extents, all that
/// the file as a whole lacks may be there.
fn holes_bytes(path: &Path, span: &Range<u64>) -> u64 {
    /// stat(2) counts a file's blocks in these.
    const BLOCK_BYTES: u64 = 512;
    let Ok(found) = fs::metadata(path) else {
        return 0;
    };
    let span = span.start..span.end.min(found.len());
    let all_bytes = span.end.saturating_sub(span.start);
    let extents = File::open(path).and_then(fiemap::extents);
    let Ok(extents) = extents else {
        let lacking = found.len().saturating_sub(found.blocks() * BLOCK_BYTES);
        return all_bytes.min(lacking);
    };
    let own = extents
        .iter()
        .filter(|extent| extent.flags & fiemap::SHARED == 0);
    let own = own.map(|extent| extent.logical_bytes..extent.logical_bytes + extent.length_bytes);
    let own: Vec<Range<u64>> = own.collect();
    all_bytes.saturating_sub(length(own.iter(), &span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// As a 6.12 kernel tells them.
    #[test]
    fn pools_and_snapshots_tell_their_room() {
        let room = pool_room(
            "254:8 254:9 128 0 1 skip_block_zeroing",
            "0 113/1024 10/512 - rw - 256",
        );
        assert_eq!(room, Some((512 << 16, 502 << 16)));
        assert_eq!(pool_room("254:8 254:9 128 0", "Fail"), None);
        assert_eq!(snapshot_room("400/4096 16"), Some((4096 * 512, 3696 * 512)));
        assert_eq!(snapshot_room("Invalid"), None);
    }

    #[test]
    fn holes_are_counted_in_the_span_alone() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("image");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        assert_eq!(holes_bytes(&path, &(0..1 << 20)), 1 << 20);
        file.write_all_at(&[1; 256 << 10], 0).unwrap();
        file.sync_all().unwrap();
        assert_eq!(holes_bytes(&path, &(0..256 << 10)), 0);
        assert_eq!(holes_bytes(&path, &(0..512 << 10)), 256 << 10);
        assert_eq!(holes_bytes(&path, &(0..u64::MAX)), 768 << 10);
    }
}
