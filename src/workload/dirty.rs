//! Which pages of a file are dirty, and when a checkpoint writes each.

use std::sync::atomic::{AtomicU64, Ordering};

/// Neighbouring pages are written in one piece of at most this (checkpoint_flush_after of
/// PostgreSQL: 256 KiB).
const LONGEST_BYTES: u64 = 256 << 10;

/// The dirty pages of a file: a bit for each, which one thread may set while another takes them all.
#[derive(Debug)]
pub struct Dirty {
    words: Vec<AtomicU64>,
}

impl Dirty {
    /// None of `pages` is dirty.
    pub fn new(pages: u64) -> Dirty {
        let words = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0));
        Dirty {
            words: words.collect(),
        }
    }

    /// A page is dirty from now on.
    #[inline]
    pub fn mark(&self, page: u64) {
        if let Some(word) = self.words.get((page / 64) as usize) {
            word.fetch_or(1 << (page % 64), Ordering::Relaxed);
        }
    }

    /// The dirty pages, ascending; none is any more.
    pub fn take(&self) -> Vec<u64> {
        let mut pages = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::Relaxed);
            while bits != 0 {
                pages.push(at as u64 * 64 + u64::from(bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        pages
    }
}

/// A stretch of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it begins.
    pub offset_bytes: u64,
    /// How long it is.
    pub len_bytes: u64,
    /// Pages before it, of those that are written with it.
    pub pages_before: u64,
}

/// The stretches that ascending `pages` make.
pub fn runs(pages: &[u64], page_bytes: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (before, &page) in pages.iter().enumerate() {
        let offset_bytes = page * page_bytes;
        match runs.last_mut() {
            Some(last)
                if last.offset_bytes + last.len_bytes == offset_bytes
                    && last.len_bytes + page_bytes <= LONGEST_BYTES =>
            {
                last.len_bytes += page_bytes;
            }
            _ => runs.push(Run {
                offset_bytes,
                len_bytes: page_bytes,
                pages_before: before as u64,
            }),
        }
    }
    runs
}

/// When a run is due, after its checkpoint's begin: pages spread evenly over `spread_ns`.
pub fn due_ns(run: &Run, pages: u64, spread_ns: u64) -> u64 {
    let share = u128::from(spread_ns) * u128::from(run.pages_before) / u128::from(pages.max(1));
    // A share of a u64.
    share as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_are_taken_once_in_order() {
        let dirty = Dirty::new(200);
        for page in [199, 0, 64, 63, 64, 1000] {
            dirty.mark(page);
        }
        assert_eq!(dirty.take(), [0, 63, 64, 199]);
        assert!(dirty.take().is_empty());
    }

    #[test]
    fn neighbours_are_written_together_up_to_a_length() {
        let lengths = |pages: &[u64]| {
            let runs = runs(pages, 8192);
            runs.iter()
                .map(|run| (run.offset_bytes / 8192, run.len_bytes / 8192))
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[1, 2, 3, 7]), [(1, 3), (7, 1)]);
        let many: Vec<u64> = (0..40).collect();
        assert_eq!(lengths(&many), [(0, 32), (32, 8)]);
        assert_eq!(lengths(&[]), []);
    }

    #[test]
    fn writes_are_spread_evenly_by_pages_and_at_once_without_a_spread() {
        let pages = [0, 1, 2, 3, 10, 20, 30, 40];
        let due = |spread_ns| {
            runs(&pages, 8192)
                .iter()
                .map(|run| due_ns(run, pages.len() as u64, spread_ns))
                .collect::<Vec<_>>()
        };
        assert_eq!(due(800), [0, 400, 500, 600, 700]);
        assert_eq!(due(0), [0; 5]);
    }

    proptest! {
        #[test]
        fn runs_cover_just_the_pages(pages in proptest::collection::btree_set(0..5000u64, 0..300)) {
            let pages: Vec<u64> = pages.into_iter().collect();
            let mut covered = Vec::new();
            for run in runs(&pages, 4096) {
                let first = run.offset_bytes / 4096;
                covered.extend(first..first + run.len_bytes / 4096);
                prop_assert!(run.len_bytes <= LONGEST_BYTES);
                prop_assert!(due_ns(&run, pages.len() as u64, 1000) < 1000);
            }
            prop_assert_eq!(covered, pages);
        }
    }
}
