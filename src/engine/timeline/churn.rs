//! Files that are made, written, closed and removed, one after the other.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, close, unlinkat};

use crate::engine::EngineError;
use crate::model::cell::Payload;
use crate::model::timeline::Churn;
use crate::sys::clock::monotonic_ns;
use crate::sys::pwrite::pwritev2;
use crate::workload::payload::Filler;

use super::conduct::{Actor, Schedule, Stage, Tick, conduct};
use super::counted::Counted;
use super::failure::Failure;
use super::series::{Op, Series};

/// The one name that all the files have.
const NAME: &CStr = c"churn";

/// What to do, and where.
#[derive(Clone, Copy, Debug)]
pub struct ChurnJob<'a> {
    /// The folder that the files are made in, in which nothing is called `churn`.
    pub folder: BorrowedFd<'a>,
    /// Sizes and pauses.
    pub churn: &'a Churn,
    /// What is written.
    pub payload: Payload,
    /// Of the payload.
    pub seed: u64,
}

/// Makes files until the course ends or `stop` is set. None is left. Calls `tick` at each interval's
/// end.
pub fn churn(
    course: &Schedule,
    job: &ChurnJob<'_>,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(Tick) -> bool,
) -> Result<Counted, EngineError> {
    let stage = Stage::new(course, stop);
    let mut filler =
        Filler::new(job.payload, job.seed).ok_or_else(|| EngineError::Unsupported {
            why: "files are written with bytes that are made, not with what is there".to_owned(),
        })?;
    let mut buffer = vec![0; job.churn.write_bytes as usize];
    filler.fill(&mut buffer);
    let mut writer = Writer {
        job,
        stage: &stage,
        filler,
        buffer,
    };
    let mut series = Series::new(course, stage.origin_ns, 1);
    let act: Actor<'_, Series> = Box::new(|| {
        writer.all(&mut series);
        series
    });
    let made = conduct(&stage, course.interval_ns, vec![act], tick)?;
    Ok(Counted::of(&made.iter().collect::<Vec<_>>()))
}

struct Writer<'a> {
    job: &'a ChurnJob<'a>,
    stage: &'a Stage<'a>,
    filler: Filler,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn all(&mut self, series: &mut Series) {
        let mut now_ns = self.stage.begin();
        while self.stage.goes_on(now_ns) {
            let begun_ns = now_ns;
            match self.file() {
                Ok(true) => series.complete(Op {
                    begun_ns,
                    ended_ns: monotonic_ns(),
                    bytes: self.job.churn.file_bytes,
                    phases: (0, 0),
                }),
                Ok(false) => {}
                Err(failure) => {
                    series.fail(failure);
                    self.stage.quit();
                }
            }
            now_ns = self.stage.rest(monotonic_ns() + self.job.churn.pause_ns);
        }
        series.end(now_ns);
    }

    /// One file's life. False if it was cut short by a stop.
    fn file(&mut self) -> Result<bool, Failure> {
        let flags = OFlag::O_WRONLY
            | OFlag::O_CREAT
            | OFlag::O_TRUNC
            | OFlag::O_NOFOLLOW
            | OFlag::O_CLOEXEC;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = openat(self.job.folder, NAME, flags, mode)
            .map_err(|errno| Failure::of("make a file", &errno.into()))?;
        let written = self.write(file.as_fd());
        // Its error counts: close(2) is where some filesystems tell of a failed write.
        let closed =
            close(file).map_err(|errno| Failure::of("close a file", &io::Error::from(errno)));
        let removed = unlinkat(self.job.folder, NAME, UnlinkatFlags::NoRemoveDir)
            .map_err(|errno| Failure::of("remove a file", &io::Error::from(errno)));
        let whole = written?;
        closed?;
        removed?;
        Ok(whole)
    }

    fn write(&mut self, file: BorrowedFd<'_>) -> Result<bool, Failure> {
        let mut at_bytes = 0;
        while at_bytes < self.job.churn.file_bytes {
            if self.stage.is_stopped() {
                return Ok(false);
            }
            let left_bytes = self.job.churn.file_bytes - at_bytes;
            let len = left_bytes.min(self.buffer.len() as u64) as usize;
            let bytes = &mut self.buffer[..len];
            self.filler.stamp(bytes);
            let written = pwritev2(file, bytes, at_bytes, 0)
                .map_err(|error| Failure::of("write a file", &error))?;
            if written == 0 {
                return Err(Failure::short("write a file"));
            }
            at_bytes += written as u64;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    const COURSE: Schedule = Schedule {
        duration_ns: 50_000_000,
        interval_ns: 10_000_000,
    };
    const CHURN: Churn = Churn {
        file_bytes: 10_000,
        write_bytes: 4096,
        pause_ns: 1_000_000,
    };

    fn run(folder: &File, stop: bool) -> Counted {
        let job = ChurnJob {
            folder: folder.as_fd(),
            churn: &CHURN,
            payload: Payload::Random,
            seed: 1,
        };
        churn(&COURSE, &job, &AtomicBool::new(stop), &mut |_| true).unwrap()
    }

    #[test]
    fn whole_files_are_counted_and_none_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let held = File::open(folder.path()).unwrap();
        let ops = |counted: &Counted| -> u64 {
            let intervals = counted.intervals.iter();
            intervals.map(|interval| interval.ops).sum()
        };
        // A file may take longer than a run where the disk is busy.
        let mut runs = (0..100).map(|_| run(&held, false));
        let counted = runs.find(|counted| ops(counted) > 0).unwrap();
        let ops = ops(&counted);
        let bytes: u64 = counted
            .intervals
            .iter()
            .map(|interval| interval.bytes)
            .sum();
        assert_eq!(bytes, ops * CHURN.file_bytes);
        assert_eq!(counted.outside.len(), ops);
        assert_eq!(counted.failure, None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_stop_before_the_begin_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let counted = run(&File::open(folder.path()).unwrap(), true);
        assert!(counted.intervals.is_empty());
        assert!(counted.outside.is_empty());
    }

    #[test]
    fn a_folder_that_takes_no_file_ends_the_run_with_what_the_kernel_said() {
        let folder = tempfile::tempdir().unwrap();
        let held = File::open(folder.path()).unwrap();
        folder.close().unwrap();
        let counted = run(&held, false);
        assert_eq!(counted.errors, 1);
        let text = counted.failure.unwrap().to_string();
        assert!(
            text.starts_with("cannot make a file: No such file"),
            "{text}"
        );
    }
}
