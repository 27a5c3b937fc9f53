//! The order in which a job visits its blocks.

use crate::model::cell::Pattern;

/// Walks over the blocks of a span.
#[derive(Clone, Debug)]
pub struct Cursor {
    pattern: Pattern,
    blocks: usize,
    next: usize,
    /// Blocks that are left, where the walk ends after the last.
    left: Option<usize>,
    rng: fastrand::Rng,
}

impl Cursor {
    /// Starts at block `start` of `blocks` (beyond the end: at the first). With `one_pass` the
    /// sequential pattern ends after the last block; the others, which have no last, never end.
    /// `seed` decides the random pattern.
    pub fn new(pattern: Pattern, blocks: usize, start: usize, seed: u64, one_pass: bool) -> Cursor {
        let next = if start < blocks { start } else { 0 };
        let left = if blocks == 0 {
            Some(0)
        } else {
            (one_pass && pattern == Pattern::Seq).then_some(blocks - next)
        };
        Cursor {
            pattern,
            blocks,
            next,
            left,
            rng: fastrand::Rng::with_seed(seed),
        }
    }
}

impl Iterator for Cursor {
    type Item = usize;

    /// The next block's index; none after the end.
    #[inline]
    fn next(&mut self) -> Option<usize> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        match self.pattern {
            Pattern::Seq => {
                let block = self.next;
                self.next += 1;
                if self.next == self.blocks {
                    self.next = 0;
                }
                Some(block)
            }
            Pattern::Rand => Some(self.rng.usize(..self.blocks)),
            Pattern::Same => Some(self.next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_wraps_at_the_end() {
        let cursor = Cursor::new(Pattern::Seq, 4, 2, 0, false);
        assert_eq!(cursor.take(7).collect::<Vec<_>>(), [2, 3, 0, 1, 2, 3, 0]);
    }

    #[test]
    fn one_pass_ends_after_the_last_block_and_stays_ended() {
        let mut cursor = Cursor::new(Pattern::Seq, 4, 1, 0, true);
        assert_eq!(cursor.by_ref().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(cursor.next(), None);
    }

    #[test]
    fn same_stays_where_it_starts() {
        let cursor = Cursor::new(Pattern::Same, 4, 3, 0, true);
        assert_eq!(cursor.take(3).collect::<Vec<_>>(), [3, 3, 3]);
    }

    #[test]
    fn random_is_uniform_and_repeats_with_its_seed() {
        let walk = |seed| Cursor::new(Pattern::Rand, 16, 0, seed, false).take(16_000);
        let mut counts = [0i32; 16];
        walk(7).for_each(|block| counts[block] += 1);
        // Standard deviation of each count is 31: a bound of five of them.
        assert!(
            counts.iter().all(|count| (count - 1000).abs() < 155),
            "{counts:?}"
        );
        assert!(walk(7).eq(walk(7)));
        assert!(!walk(7).eq(walk(8)));
    }

    #[test]
    fn no_blocks_and_a_start_beyond_the_end_are_harmless() {
        for pattern in [Pattern::Seq, Pattern::Rand, Pattern::Same] {
            assert_eq!(Cursor::new(pattern, 0, 5, 0, false).next(), None);
        }
        assert_eq!(Cursor::new(Pattern::Seq, 4, 9, 0, false).next(), Some(0));
    }
}
