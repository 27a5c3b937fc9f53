//! A log of segments: each written to its end, synced and followed by the next, which is made anew or
//! is an old one under a new name.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

use crate::engine::EngineError;
use crate::engine::spec::Data;
use crate::model::cell::Payload;
use crate::model::timeline::{Segments, Switch, WalAppend};
use crate::sys::clock::monotonic_ns;
use crate::workload::log::Piece;

use super::conduct::{Actor, Schedule, Stage, Tick, conduct};
use super::counted::Counted;
use super::failure::Failure;
use super::series::{Op, Series};
use super::writer::{Sink, with_writer};

/// The segment that is being made.
const NEW: &CStr = c"new";

/// What to do, and where.
#[derive(Clone, Debug)]
pub struct SegmentsJob<'a> {
    /// The folder of the log. Recycled segments lie in it as `old-0`, `old-1`, ...; nothing in it is
    /// called `new`, `made-0`, `next-0`, ...
    pub folder: BorrowedFd<'a>,
    /// Sizes.
    pub wal: &'a WalAppend,
    /// Where segments come from.
    pub segments: Segments,
    /// Flags that segments are opened with, such as O_DSYNC and O_DIRECT.
    pub flags: OFlag,
    /// What is written.
    pub payload: Payload,
    /// Of the payload.
    pub seed: u64,
}

/// Writes segment after segment until the course ends or `stop` is set. Those that were made are
/// gone then, and recycled ones have their first names. Calls `tick` at each interval's end.
pub fn segments(
    course: &Schedule,
    job: &SegmentsJob<'_>,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(Tick) -> bool,
) -> Result<Counted, EngineError> {
    let stage = Stage::new(course, stop);
    let mut shelf = Shelf::new(job);
    let mut series = Series::new(course, stage.origin_ns, 1);
    let act: Actor<'_, _> = Box::new(|| {
        let mut switches = Vec::new();
        let written = append(&stage, job, &mut shelf, &mut series, &mut switches);
        shelf.tidy();
        written.map(|()| (series, switches))
    });
    let made = conduct(&stage, course.interval_ns, vec![act], tick)?;
    let mut all = Vec::new();
    for one in made {
        all.push(one?);
    }
    let mut counted = Counted::of(&all.iter().map(|(series, _)| series).collect::<Vec<_>>());
    counted.switches = all.into_iter().flat_map(|(_, switches)| switches).collect();
    Ok(counted)
}

fn append(
    stage: &Stage<'_>,
    job: &SegmentsJob<'_>,
    shelf: &mut Shelf<'_>,
    series: &mut Series,
    switches: &mut Vec<Switch>,
) -> Result<(), EngineError> {
    let mut now_ns = stage.begin();
    let mut last: Option<File> = None;
    while stage.goes_on(now_ns) {
        let turned = match shelf.next(last.take()) {
            Ok(file) => file,
            Err(failure) => {
                series.fail(failure);
                stage.quit();
                break;
            }
        };
        let ready_ns = monotonic_ns();
        if shelf.taken > 1 {
            switches.push(Switch {
                at_ns: ready_ns - stage.origin_ns,
                took_ns: ready_ns - now_ns,
            });
        }
        now_ns = one_segment(stage, job, turned.as_fd(), series)?;
        last = Some(turned);
    }
    series.end(now_ns);
    Ok(())
}

/// Writes a segment to its end, and gives the time then.
fn one_segment(
    stage: &Stage<'_>,
    job: &SegmentsJob<'_>,
    fd: BorrowedFd<'_>,
    series: &mut Series,
) -> Result<u64, EngineError> {
    let len_bytes = job.wal.record_bytes;
    let sink = Sink {
        fd,
        is_device: false,
        data: Data::Fresh(job.payload),
        // No two segments are filled alike.
        seed: job.seed ^ (series.ended_ns ^ monotonic_ns()).rotate_left(32),
        record_bytes: len_bytes,
        longest_bytes: len_bytes,
    };
    with_writer(&sink, |writer| {
        let mut now_ns = monotonic_ns();
        for record in 0..job.wal.segment_bytes / len_bytes {
            if !stage.goes_on(now_ns) {
                break;
            }
            writer.prepare(len_bytes);
            let begun_ns = monotonic_ns();
            let piece = Piece {
                offset_bytes: record * len_bytes,
                len_bytes,
            };
            if let Err(failure) = writer.write(piece) {
                series.fail(failure);
                stage.quit();
                break;
            }
            now_ns = monotonic_ns();
            series.complete(Op {
                begun_ns,
                ended_ns: now_ns,
                bytes: len_bytes,
                phases: (0, 0),
            });
        }
        now_ns
    })
}

/// Where segments come from and go to. All names are there from the start.
struct Shelf<'a> {
    job: &'a SegmentsJob<'a>,
    /// What recycled segments are called at first, and made ones at last.
    names: Vec<CString>,
    /// What recycled ones are called every other time.
    others: Vec<CString>,
    /// Segments that were taken.
    taken: u64,
}

impl<'a> Shelf<'a> {
    fn new(job: &'a SegmentsJob<'a>) -> Shelf<'a> {
        let (own, other) = match job.segments {
            Segments::Created => ("made", "unused"),
            Segments::Recycled => ("old", "next"),
        };
        let names = |stem: &str| {
            let all = (0..job.wal.kept_segments.max(1)).map(|at| format!("{stem}-{at}"));
            // None of them holds a zero byte.
            all.filter_map(|name| CString::new(name).ok()).collect()
        };
        Shelf {
            job,
            names: names(own),
            others: names(other),
            taken: 0,
        }
    }

    /// Brings `last` to disk for good and gives the next segment, open.
    fn next(&mut self, last: Option<File>) -> Result<File, Failure> {
        if let Some(file) = last {
            fsync(&file).map_err(|errno| Failure::of("sync a segment", &errno.into()))?;
            if self.job.segments == Segments::Created {
                let at = (self.taken - 1) as usize % self.names.len();
                self.rename(NEW, &self.names[at])?;
            }
        }
        let file = match self.job.segments {
            Segments::Created => self.open(NEW, OFlag::O_CREAT | OFlag::O_EXCL)?,
            Segments::Recycled => {
                let (from, to) = self.turn();
                self.rename(from, to)?;
                self.open(to, OFlag::empty())?
            }
        };
        self.taken += 1;
        Ok(file)
    }

    /// The name of the recycled segment that is next, and the one that it gets.
    fn turn(&self) -> (&CStr, &CStr) {
        let kept = self.names.len() as u64;
        let at = (self.taken % kept) as usize;
        match (self.taken / kept).is_multiple_of(2) {
            true => (&self.names[at], &self.others[at]),
            false => (&self.others[at], &self.names[at]),
        }
    }

    /// Renames a segment, for good: PostgreSQL's durable_rename (src/backend/storage/file/fd.c)
    /// syncs the directory too.
    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), Failure> {
        let folder = self.job.folder;
        renameat(folder, from, folder, to)
            .map_err(|errno| Failure::of("rename a segment", &errno.into()))?;
        fsync(folder).map_err(|errno| Failure::of("sync the log's folder", &errno.into()))
    }

    fn open(&self, name: &CStr, more: OFlag) -> Result<File, Failure> {
        let flags = self.job.flags | more | OFlag::O_WRONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let opened = openat(self.job.folder, name, flags, mode);
        let opened = opened.map_err(|errno| Failure::of("open a segment", &errno.into()))?;
        Ok(opened.into())
    }

    /// Leaves the folder as it was. What can't be put right here is gone with the folder.
    fn tidy(&self) {
        let folder = self.job.folder;
        match self.job.segments {
            Segments::Created => {
                let made = self.names.iter().map(CString::as_c_str);
                for name in made.chain([NEW]) {
                    let _: Result<(), Errno> = unlinkat(folder, name, UnlinkatFlags::NoRemoveDir);
                }
            }
            Segments::Recycled => {
                for (name, other) in self.names.iter().zip(&self.others) {
                    let _: Result<(), Errno> =
                        renameat(folder, other.as_c_str(), folder, name.as_c_str());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const WAL: WalAppend = WalAppend {
        record_bytes: 4096,
        segment_bytes: 3 * 4096,
        kept_segments: 2,
    };

    /// Runs for as long as it takes to write something.
    fn run(folder: &Path, segments: Segments) -> Counted {
        let held = File::open(folder).unwrap();
        let job = SegmentsJob {
            folder: held.as_fd(),
            wal: &WAL,
            segments,
            flags: OFlag::empty(),
            payload: Payload::Random,
            seed: 1,
        };
        let lasting = |duration_ns| {
            let schedule = Schedule {
                duration_ns,
                interval_ns: 10_000_000,
            };
            super::segments(&schedule, &job, &AtomicBool::new(false), &mut |_| true).unwrap()
        };
        let mut counted = (0..10).map(|doubled| lasting(40_000_000 << doubled));
        let is_whole = |counted: &Counted| counted.failure.is_some() || ops(counted) > 0;
        counted.find(is_whole).unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn ops(counted: &Counted) -> u64 {
        counted.intervals.iter().map(|interval| interval.ops).sum()
    }

    #[test]
    fn made_segments_are_gone_in_the_end_and_switches_are_one_fewer_than_segments() {
        let folder = tempfile::tempdir().unwrap();
        let counted = run(folder.path(), Segments::Created);
        assert_eq!(counted.failure, None);
        let ops = ops(&counted);
        assert!(ops > 0);
        // A switch follows each whole segment but for one at the very end.
        let whole = ops / 3;
        let switches = counted.switches.len() as u64;
        assert!(
            switches == whole || switches + 1 == whole,
            "{ops} {switches}"
        );
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn recycled_segments_keep_their_length_and_have_their_names_again() {
        let folder = tempfile::tempdir().unwrap();
        for at in 0..2 {
            fs::write(folder.path().join(format!("old-{at}")), [0; 3 * 4096]).unwrap();
        }
        let counted = run(folder.path(), Segments::Recycled);
        assert_eq!(counted.failure, None);
        assert!(ops(&counted) > 0);
        assert_eq!(names(folder.path()), ["old-0", "old-1"]);
        let len = |at: u32| {
            let path = folder.path().join(format!("old-{at}"));
            fs::metadata(path).unwrap().len()
        };
        assert_eq!((len(0), len(1)), (3 * 4096, 3 * 4096));
    }

    #[test]
    fn a_missing_segment_ends_the_run_with_what_the_kernel_said() {
        let folder = tempfile::tempdir().unwrap();
        let counted = run(folder.path(), Segments::Recycled);
        let text = counted.failure.unwrap().to_string();
        assert!(
            text.starts_with("cannot rename a segment: No such"),
            "{text}"
        );
    }
}
