//! What goes on beside the commits: pages of a data file are dirtied, and written back at times.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::unistd::fdatasync;

use crate::engine::EngineError;
use crate::engine::pace::Arrivals;
use crate::model::cell::Payload;
use crate::model::timeline::Writeback;
use crate::sys::clock::monotonic_ns;
use crate::sys::pwrite::pwritev2;
use crate::sys::writeback;
use crate::workload::dirty::{Dirty, due_ns, runs};
use crate::workload::payload::Filler;

use super::conduct::{Schedule, Stage};
use super::failure::Failure;

/// A data file, and what happens to it.
#[derive(Debug)]
pub struct Background<'a> {
    fd: BorrowedFd<'a>,
    pages: u64,
    page_bytes: u64,
    pace: Pace,
    payload: Payload,
    seed: u64,
    dirty: Dirty,
}

/// What was dirtied.
pub(super) struct Dirtied {
    pub(super) pages: u64,
    pub(super) failure: Option<Failure>,
}

/// What was checkpointed.
pub(super) struct Checkpointed {
    pub(super) checkpoints: Vec<Done>,
    pub(super) failure: Option<Failure>,
}

/// One checkpoint.
pub(super) struct Done {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) writeback: Writeback,
}

/// What is done to a data file, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Random pages that are written to the page cache in a second.
    pub dirty_pages_per_s: f64,
    /// From one checkpoint's begin to the next one's. Must not be zero.
    pub interval_ns: u64,
    /// What a checkpoint's writes are spread over; 0: they are left to the fsync.
    pub spread_ns: u64,
}

impl<'a> Background<'a> {
    /// For a file of `pages` pages of `page_bytes`, none of them dirty, open as `fd` for writing
    /// through the page cache. `seed` decides the order of pages, and with `payload` what they hold.
    pub fn new(
        fd: BorrowedFd<'a>,
        (pages, page_bytes): (u64, u64),
        pace: &Pace,
        payload: Payload,
        seed: u64,
    ) -> Background<'a> {
        Background {
            fd,
            pages,
            page_bytes,
            pace: *pace,
            payload,
            seed,
            dirty: Dirty::new(pages),
        }
    }

    /// No more phases than this end within a course.
    pub(super) fn most_phases(&self, course: &Schedule) -> usize {
        2 * (course.duration_ns / self.pace.interval_ns.max(1)) as usize + 3
    }

    /// Dirties pages until the run ends.
    pub(super) fn dirty(&self, stage: &Stage<'_>) -> Result<Dirtied, EngineError> {
        let mut filler = Filler::new(self.payload, self.seed).ok_or_else(|| {
            stage.quit();
            EngineError::Unsupported {
                why: "a data file is written with bytes that are made".to_owned(),
            }
        })?;
        let mut page = vec![0; self.page_bytes as usize];
        filler.fill(&mut page);
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut dirtied = Dirtied {
            pages: 0,
            failure: None,
        };
        if self.pace.dirty_pages_per_s <= 0.0 || self.pages == 0 {
            return Ok(dirtied);
        }
        let arrivals = Arrivals::new(self.pace.dirty_pages_per_s, 1, 0);
        let mut now_ns = stage.begin();
        while stage.goes_on(now_ns) {
            let number = random.u64(..self.pages);
            filler.stamp(&mut page);
            if let Err(failure) = self.write(number, &page) {
                dirtied.failure = Some(failure);
                stage.quit();
                break;
            }
            self.dirty.mark(number);
            dirtied.pages += 1;
            now_ns = stage.rest(stage.origin_ns + arrivals.due_ns(dirtied.pages));
        }
        Ok(dirtied)
    }

    fn write(&self, number: u64, page: &[u8]) -> Result<(), Failure> {
        const WHAT: &str = "write a page of the data file";
        match pwritev2(self.fd, page, number * self.page_bytes, 0) {
            Ok(written) if written == page.len() => Ok(()),
            Ok(_) => Err(Failure::short(WHAT)),
            Err(error) => Err(Failure::of(WHAT, &error)),
        }
    }

    /// Checkpoints at each interval until the run ends. `phase` is odd while one runs.
    pub(super) fn checkpoint(&self, stage: &Stage<'_>, phase: &AtomicUsize) -> Checkpointed {
        let mut done = Checkpointed {
            checkpoints: Vec::new(),
            failure: None,
        };
        let mut due_ns = stage.origin_ns + self.pace.interval_ns;
        loop {
            let start_ns = stage.rest(due_ns);
            if !stage.goes_on(start_ns) {
                return done;
            }
            phase.fetch_add(1, Ordering::Relaxed);
            let written = self.write_back(stage, start_ns);
            let end_ns = monotonic_ns();
            phase.fetch_add(1, Ordering::Relaxed);
            match written {
                Ok(writeback) => done.checkpoints.push(Done {
                    start_ns,
                    end_ns,
                    writeback,
                }),
                Err(failure) => {
                    done.failure = Some(failure);
                    stage.quit();
                    return done;
                }
            }
            due_ns = next_due_ns(due_ns, self.pace.interval_ns, end_ns);
        }
    }

    /// Writes back what is dirty. A run that ends meanwhile leaves the rest to the fsync.
    fn write_back(&self, stage: &Stage<'_>, start_ns: u64) -> Result<Writeback, Failure> {
        let pages = self.dirty.take();
        let count = pages.len() as u64;
        if self.pace.spread_ns > 0 {
            for run in runs(&pages, self.page_bytes) {
                let due_ns = start_ns + due_ns(&run, count, self.pace.spread_ns);
                if !stage.goes_on(stage.rest(due_ns)) {
                    break;
                }
                writeback::begin(self.fd, run.offset_bytes, run.len_bytes).map_err(|error| {
                    Failure::of(
                        "begin to write pages of the data file (sync_file_range; \
                         --checkpoint-spread 0% does without)",
                        &error,
                    )
                })?;
            }
        }
        let begun_ns = monotonic_ns();
        fdatasync(self.fd).map_err(|errno| Failure::of("sync the data file", &errno.into()))?;
        Ok(Writeback {
            pages: count,
            fsync_ns: monotonic_ns() - begun_ns,
        })
    }
}

/// When the next checkpoint begins, after one that was due at `due_ns` and ended at `end_ns`: at a
/// whole number of intervals, or right away if that is past.
fn next_due_ns(due_ns: u64, interval_ns: u64, end_ns: u64) -> u64 {
    let late = end_ns.saturating_sub(due_ns) / interval_ns.max(1);
    due_ns + interval_ns * late.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_begin_at_whole_intervals_or_right_after_a_long_one() {
        assert_eq!(next_due_ns(100, 100, 130), 200);
        assert_eq!(next_due_ns(100, 100, 199), 200);
        // Ended past the next one's time: that one is due at once.
        assert_eq!(next_due_ns(100, 100, 230), 200);
        // Ended past two: of those, the later.
        assert_eq!(next_due_ns(100, 100, 330), 300);
    }
}
