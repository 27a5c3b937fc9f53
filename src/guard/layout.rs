//! Which device offsets a lane writes, and which file offsets those are. Pure.

use crate::sys::fiemap::{self, Extent};

/// A run of a file's bytes that are one run on the device too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) file_bytes: u64,
    pub(super) device_bytes: u64,
    pub(super) length_bytes: u64,
}

/// One block of a file, in the file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) file_bytes: u64,
    pub(super) device_bytes: u64,
}

/// Extent flags that leave the bytes on the device the file's own, written and in place.
const HARMLESS: u32 = fiemap::LAST | fiemap::MERGED;

/// What each other flag means, in words that follow "an extent".
const HARMS: &[(u32, &str)] = &[
    (fiemap::UNKNOWN, "whose place is unknown"),
    (fiemap::DELALLOC, "that is not allocated yet"),
    (fiemap::ENCODED, "that is encoded"),
    (fiemap::DATA_ENCRYPTED, "that is encrypted"),
    (fiemap::NOT_ALIGNED, "that is not aligned to blocks"),
    (fiemap::DATA_INLINE, "that lies among metadata"),
    (fiemap::DATA_TAIL, "that shares its block with other files"),
    (fiemap::UNWRITTEN, "that was never written"),
    (fiemap::SHARED, "that other files own too"),
];

/// The runs of a file of `size_bytes` on a device of `device_bytes`, neighbours joined. Extents past
/// the file's end, where XFS reserves room, are left out. Fails with what is wrong, in words, unless
/// the whole file is written, in place and the file's alone.
pub(super) fn runs(
    extents: &[Extent],
    size_bytes: u64,
    device_bytes: u64,
) -> Result<Vec<Run>, String> {
    let mut runs: Vec<Run> = Vec::new();
    let mut covered = 0;
    for extent in extents {
        if extent.logical_bytes >= size_bytes {
            break;
        }
        check_flags(extent.flags)?;
        if extent.logical_bytes != covered {
            return Err(format!("it has a hole or an overlap at byte {covered}"));
        }
        let length_bytes = extent.length_bytes.min(size_bytes - covered);
        let end = extent.physical_bytes.checked_add(length_bytes);
        if extent.physical_bytes == 0 || length_bytes == 0 || end.is_none_or(|e| e > device_bytes) {
            return Err(format!(
                "it has an extent at byte {covered} outside of the device"
            ));
        }
        covered += length_bytes;
        match runs.last_mut() {
            Some(last) if last.device_bytes + last.length_bytes == extent.physical_bytes => {
                last.length_bytes += length_bytes;
            }
            _ => runs.push(Run {
                file_bytes: extent.logical_bytes,
                device_bytes: extent.physical_bytes,
                length_bytes,
            }),
        }
    }
    if covered != size_bytes || size_bytes == 0 {
        return Err(format!(
            "only {covered} of its {size_bytes} bytes have a place on the device"
        ));
    }
    Ok(runs)
}

fn check_flags(flags: u32) -> Result<(), String> {
    if flags & !HARMLESS == 0 {
        return Ok(());
    }
    let known = HARMS.iter().find(|(flag, _)| flags & flag != 0);
    Err(match known {
        Some((_, words)) => format!("it has an extent {words}"),
        None => format!("it has an extent with unknown flags {flags:#x}"),
    })
}

/// The blocks `[i * size, (i + 1) * size)` of a file that lie in one run, in the file's order.
/// Blocks that straddle a run's end are left out.
pub(super) fn blocks(runs: &[Run], size_bytes: u64) -> Vec<Block> {
    if size_bytes == 0 {
        return Vec::new();
    }
    runs.iter()
        .flat_map(|run| {
            let first = run.file_bytes.div_ceil(size_bytes);
            let past = (run.file_bytes + run.length_bytes) / size_bytes;
            (first..past).map(move |i| Block {
                file_bytes: i * size_bytes,
                device_bytes: run.device_bytes + (i * size_bytes - run.file_bytes),
            })
        })
        .collect()
}

/// The offsets of one lane's blocks in a span that starts at 0 and is split evenly, in order. Empty
/// if a lane has no room for a block.
pub(super) fn lane_of_span(
    span_bytes: u64,
    lane: usize,
    lanes: usize,
    size_bytes: u64,
) -> Vec<u64> {
    if size_bytes == 0 || lane >= lanes {
        return Vec::new();
    }
    let blocks_each = span_bytes / lanes as u64 / size_bytes;
    let first = lane as u64 * blocks_each;
    (first..first + blocks_each)
        .map(|i| i * size_bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(logical: u64, physical: u64, length: u64, flags: u32) -> Extent {
        Extent {
            logical_bytes: logical,
            physical_bytes: physical,
            length_bytes: length,
            flags,
        }
    }

    const DEVICE: u64 = 1 << 30;

    #[test]
    fn neighbouring_extents_are_one_run() {
        let extents = [
            extent(0, 8192, 4096, 0),
            extent(4096, 12_288, 4096, fiemap::MERGED),
            extent(8192, 65_536, 4096, fiemap::LAST),
        ];
        let runs = runs(&extents, 12_288, DEVICE).unwrap();
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0].length_bytes, 8192);
        assert_eq!(
            blocks(&runs, 8192),
            [Block {
                file_bytes: 0,
                device_bytes: 8192
            }]
        );
        assert_eq!(blocks(&runs, 4096).len(), 3);
    }

    #[test]
    fn each_doubtful_flag_is_refused_in_words() {
        for (flag, words) in HARMS {
            let error = runs(&[extent(0, 4096, 4096, *flag)], 4096, DEVICE).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(runs(&[extent(0, 4096, 4096, 1 << 30)], 4096, DEVICE).is_err());
    }

    #[test]
    fn holes_short_cover_and_places_off_the_device_are_refused() {
        for extents in [
            vec![extent(4096, 4096, 4096, 0)],
            vec![extent(0, 4096, 4096, 0), extent(12_288, 16_384, 4096, 0)],
            vec![extent(0, 4096, 4096, 0)],
            vec![extent(0, 0, 8192, 0)],
            vec![extent(0, DEVICE - 4096, 8192, 0)],
            vec![extent(0, u64::MAX - 10, 8192, 0)],
            vec![],
        ] {
            assert!(runs(&extents, 8192, DEVICE).is_err(), "{extents:?}");
        }
        assert!(runs(&[], 0, DEVICE).is_err());
    }

    #[test]
    fn room_past_the_end_of_the_file_is_left_out() {
        let extents = [
            extent(0, 4096, 16_384, 0),
            extent(16_384, 65_536, 4096, fiemap::UNWRITTEN | fiemap::LAST),
        ];
        let runs = runs(&extents, 8192, DEVICE).unwrap();
        assert_eq!(runs[0].length_bytes, 8192);
    }

    #[test]
    fn lanes_share_a_span_evenly() {
        assert_eq!(lane_of_span(16_384, 0, 2, 4096), [0, 4096]);
        assert_eq!(lane_of_span(16_384, 1, 2, 4096), [8192, 12_288]);
        assert!(lane_of_span(16_384, 2, 2, 4096).is_empty());
        assert!(lane_of_span(16_384, 0, 2, 16_384).is_empty());
        assert!(lane_of_span(16_384, 0, 0, 4096).is_empty());
        assert!(lane_of_span(16_384, 0, 1, 0).is_empty());
    }

    proptest! {
        #[test]
        fn lanes_never_meet_nor_leave_the_span(
            span in 1_u64..1 << 20, lanes in 1_usize..9, size in 1_u64..70_000,
        ) {
            let mut all: Vec<u64> =
                (0..lanes).flat_map(|lane| lane_of_span(span, lane, lanes, size)).collect();
            prop_assert!(all.iter().all(|at| at + size <= span));
            let count = all.len();
            all.dedup();
            prop_assert_eq!(all.len(), count);
            prop_assert!(all.is_sorted());
        }

        #[test]
        fn every_block_lies_in_one_extent(
            lengths in proptest::collection::vec(1_u64..40, 1..12), shift in 0_u32..7,
        ) {
            let mut logical = 0;
            let extents: Vec<Extent> = lengths
                .iter()
                .enumerate()
                .map(|(i, blocks)| {
                    // Far apart and out of order, so that no two are neighbours.
                    let physical = ((lengths.len() - i) as u64) << 20;
                    let extent = extent(logical, physical, blocks * 4096, 0);
                    logical += extent.length_bytes;
                    extent
                })
                .collect();
            let runs = runs(&extents, logical, DEVICE).unwrap();
            let size = 512 << shift;
            for block in blocks(&runs, size) {
                prop_assert!(block.file_bytes.is_multiple_of(size));
                let whole_in_one = extents.iter().any(|extent| {
                    block.file_bytes >= extent.logical_bytes
                        && block.file_bytes + size <= extent.logical_bytes + extent.length_bytes
                        && block.device_bytes - extent.physical_bytes
                            == block.file_bytes - extent.logical_bytes
                });
                prop_assert!(whole_in_one);
            }
        }
    }
}
