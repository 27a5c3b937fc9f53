//! How far counters advanced that wrap, or begin anew.

/// How far a counter advanced between two readings; none if it began anew in between, as a device's
/// do when it is removed and added again, and a filesystem's when it is mounted again.
///
/// The kernel keeps counts as 64 bits, or as 32: an `unsigned long` of a 32-bit machine, XFS's
/// statistics, and times in ms, which it prints as `unsigned int` (part_stat_show() in
/// block/genhd.c). What went from the upper quarter of such a range to its lower one has wrapped.
/// Sums over processors never go back otherwise, since no processor's own count does.
pub(super) fn advance(after: u64, before: u64) -> Option<u64> {
    if after >= before {
        return Some(after - before);
    }
    [32, 64].into_iter().find_map(|bits| {
        let range = 1u128 << bits;
        let (after, before) = (u128::from(after), u128::from(before));
        let has_wrapped = (range - range / 4..range).contains(&before) && after < range / 4;
        has_wrapped.then(|| u64::try_from(after + range - before).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_went_back_and_did_not_wrap_began_anew() {
        for (after, before) in [(4, 5), (0, 1 << 31), (1 << 30, 0xFFFF_FFFF), (7, 1 << 40)] {
            assert_eq!(advance(after, before), None, "{before} to {after}");
        }
        assert_eq!(advance(3, 0xFFFF_FFFE), Some(5));
        assert_eq!(advance(3, u64::MAX - 1), Some(5));
    }

    proptest! {
        #[test]
        fn a_counter_of_64_bits_advances_by_the_difference_also_past_its_end(
            before: u64, by in 0u64..1 << 62,
        ) {
            prop_assert_eq!(advance(before.wrapping_add(by), before), Some(by));
        }

        #[test]
        fn so_does_one_of_32_bits(before: u32, by in 0u32..1 << 30) {
            let after = before.wrapping_add(by);
            prop_assert_eq!(advance(after.into(), before.into()), Some(by.into()));
        }

        #[test]
        fn any_two_readings_tell_something_that_fits(after: u64, before: u64) {
            if let Some(by) = advance(after, before) {
                prop_assert!(by == after.wrapping_sub(before)
                    || by == after.wrapping_sub(before) & 0xFFFF_FFFF);
            }
        }
    }
}
