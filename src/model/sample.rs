//! What the engine measured in one run of a cell: the working type. The record's own types are in
//! [`super::record`].

use hdrhistogram::Histogram;
use nix::errno::Errno;

use super::traffic::ProcessCount;

/// The shortest latency that a histogram holds.
pub const MIN_NS: u64 = 1;
/// The longest latency that a histogram holds: ten minutes.
pub const MAX_NS: u64 = 600_000_000_000;
/// Significant decimal digits that a histogram keeps.
const DIGITS: u8 = 3;

/// An empty latency histogram of the one shape that all of this program's histograms have, so that
/// any two can be added without loss.
pub fn latency_histogram() -> Histogram<u64> {
    // The bounds are constants that the constructor accepts: `a_histogram_can_be_made` below.
    Histogram::new_with_bounds(MIN_NS, MAX_NS, DIGITS)
        .unwrap_or_else(|error| unreachable!("constant histogram bounds: {error}"))
}

/// What one run of a cell gave.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Operations that completed in full.
    pub ops: u64,
    /// Bytes that they wrote.
    pub bytes: u64,
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// What the job threads used.
    pub jobs: JobUse,
    /// The latency of each operation, in nanoseconds.
    pub histogram: Histogram<u64>,
    /// Latencies outside [`MIN_NS`] to [`MAX_NS`]: counted here and clamped in the histogram.
    pub out_of_range: u64,
    /// Width of an interval of `interval_ops`.
    pub interval_ns: u64,
    /// Operations completed in each interval since the first submission.
    pub interval_ops: Vec<u64>,
    /// Completions past the last interval that there was room for.
    pub interval_overflow: u64,
    /// Each operation, as far as there was room: for traced slices, which match them with the
    /// kernel's events.
    pub op_times: Vec<OpTime>,
    /// Operations that failed. A job stops issuing at its first failure.
    pub errors: u64,
    /// The first failure.
    pub first_error: Option<IoFailure>,
    /// What the engine had to do without, a sentence each.
    pub fallbacks: Vec<String>,
    /// The longest time in which a job had something in flight and nothing completed.
    pub longest_wait_ns: u64,
    /// Operations that the kernel had lost, and that completed once its workers were woken.
    pub rescued: u32,
}

impl Sample {
    /// What failed first, and how much did; none if nothing did.
    pub fn failure(&self) -> Option<String> {
        let first = self.first_error.as_ref()?;
        let all = self.ops + self.errors;
        Some(format!(
            "{first}; {} of {all} operations failed",
            self.errors
        ))
    }
}

/// What threads of jobs used of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobUse {
    /// Processor time, to the nanosecond.
    pub cpu_ns: u64,
    /// All of it: also to make a ring, to register what is written, and to take that down.
    pub took: ProcessCount,
    /// What they used of that from the start to the last completion.
    pub driven: ProcessCount,
}

impl JobUse {
    /// The sum with other threads' or another pass's.
    #[must_use]
    pub fn plus(&self, other: &JobUse) -> JobUse {
        JobUse {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            took: self.took.plus(&other.took),
            driven: self.driven.plus(&other.driven),
        }
    }
}

/// One operation, on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTime {
    /// When its latency began to count.
    pub start_ns: u64,
    /// When its completion was seen.
    pub end_ns: u64,
    /// Where it wrote.
    pub offset_bytes: u64,
    /// What it wrote.
    pub bytes: u64,
}

/// The system call of an operation that its result is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The write itself.
    Write,
    /// The sync behind a write. Its error is that of any write to the same file or device that was written
    /// back since the last sync (errseq_t in Documentation/core-api/errseq.rst).
    Sync,
    /// The open before a write.
    Open,
    /// The close behind a write.
    Close,
    /// A sync without a write.
    Flush,
}

/// One operation that the kernel refused or cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoFailure {
    /// What failed.
    pub call: Call,
    /// Where the write went.
    pub offset_bytes: u64,
    /// What it should have written.
    pub size_bytes: u64,
    /// The error number; none if the write was short.
    pub errno: Option<i32>,
    /// Bytes written before it ended.
    pub written_bytes: u64,
}

impl std::fmt::Display for IoFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let IoFailure {
            call,
            offset_bytes,
            size_bytes,
            errno,
            written_bytes,
        } = self;
        f.write_str(match call {
            Call::Write => "",
            Call::Sync => "sync after the ",
            Call::Open => "open for the ",
            Call::Close => "close after the ",
            Call::Flush => "empty flush",
        })?;
        if *call != Call::Flush {
            write!(f, "write of {size_bytes} bytes at offset {offset_bytes}")?;
        }
        match errno {
            Some(errno) => write!(f, ": {}", Errno::from_raw(*errno)),
            None => write!(f, ": short, {written_bytes} bytes written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_tells_the_call_the_place_and_the_errno() {
        let failure = IoFailure {
            call: Call::Sync,
            offset_bytes: 8192,
            size_bytes: 4096,
            errno: Some(libc::EIO),
            written_bytes: 0,
        };
        let text = failure.to_string();
        assert_eq!(
            text,
            "sync after the write of 4096 bytes at offset 8192: EIO: I/O error"
        );
        let flush = IoFailure {
            call: Call::Flush,
            ..failure
        };
        assert_eq!(flush.to_string(), "empty flush: EIO: I/O error");
    }

    #[test]
    fn a_histogram_can_be_made() {
        let mut histogram = latency_histogram();
        histogram.record(MIN_NS).unwrap();
        histogram.record(MAX_NS).unwrap();
        assert!(histogram.record(2 * MAX_NS).is_err());
    }
}
