//! How much of what is free a run may take.

use crate::model::units::show_amount;

/// The fullest that a run makes a filesystem, in percent.
const FULLEST_PERCENT: u64 = 95;

/// Bytes that may be taken of a filesystem, or of a pool, of `size_bytes` with `free_bytes` to spare:
/// at most half of what is free, and no more than leaves it 95 % full. One that tells a size of 0 tells
/// none (ramfs: simple_statfs() in fs/libfs.c), and has room.
pub fn allowed_bytes(size_bytes: u64, free_bytes: u64) -> u64 {
    if size_bytes == 0 {
        return u64::MAX;
    }
    let reserve_bytes = size_bytes / 100 * (100 - FULLEST_PERCENT);
    (free_bytes / 2).min(free_bytes.saturating_sub(reserve_bytes))
}

/// The rule in words, with its figures, for a message that refuses.
pub fn free_rule(size_bytes: u64, free_bytes: u64) -> String {
    format!(
        "{} of {} is free, and syncprof takes at most half of that and leaves 5 % of the filesystem",
        show_amount(free_bytes),
        show_amount(size_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_of_an_empty_filesystem_is_allowed() {
        assert_eq!(allowed_bytes(1000, 1000), 500);
    }

    #[test]
    fn the_last_twentieth_is_never_touched() {
        assert_eq!(allowed_bytes(1000, 60), 10);
        assert_eq!(allowed_bytes(1000, 50), 0);
        assert_eq!(allowed_bytes(1000, 0), 0);
    }

    #[test]
    fn a_filesystem_without_a_size_has_room() {
        assert_eq!(allowed_bytes(0, 0), u64::MAX);
    }

    proptest! {
        #[test]
        fn never_more_than_half_nor_past_95_percent(size in 1u64..1 << 60, share in 0u64..=100) {
            let free = size / 100 * share;
            let allowed = allowed_bytes(size, free);
            prop_assert!(allowed <= free / 2);
            prop_assert!(allowed == 0 || free - allowed >= size / 100 * 5);
        }
    }
}
