//! The axes of a measurement, and a cell: one combination of them at one target.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Declares an axis whose values have one fixed spelling on the command line, in a profile and in
/// a record.
macro_rules! axis {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every value, in the order in which reports show them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The value's one spelling.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    other => Err(format!(
                        concat!("unknown ", $what, " '{}': one of {}"),
                        other,
                        [$($text),+].join(", "),
                    )),
                }
            }
        }
    };
}

pub(super) use axis;

axis! {
    /// Which side of a gap a cell measures.
    Role, "role" {
        /// Writes to a block device.
        Raw = "raw",
        /// Writes to a file through its filesystem.
        File = "file",
    }
}

axis! {
    /// What makes a write synchronous.
    Method, "method" {
        /// The file is open with O_DSYNC (open(2)).
        ODsync = "o_dsync",
        /// The file is open with O_SYNC (open(2)).
        OSync = "o_sync",
        /// Each write carries RWF_DSYNC (pwritev2(2)).
        RwfDsync = "rwf_dsync",
        /// Each write is followed by fdatasync(2).
        Fdatasync = "fdatasync",
        /// Each write is followed by fsync(2).
        Fsync = "fsync",
        /// Nothing: the write is not synchronous.
        None = "none",
        /// Nothing is written: each operation is an fdatasync(2) alone. For devices.
        EmptyFlush = "empty_flush",
    }
}

axis! {
    /// The order of offsets within the span.
    Pattern, "pattern" {
        /// One block after the other, again from the start at the end of the span.
        Seq = "seq",
        /// Uniformly random blocks of the span.
        Rand = "rand",
        /// The same block over and over, as a log's tail or a superblock.
        Same = "same",
    }
}

axis! {
    /// What the file's blocks are like when a write reaches them.
    FileState, "file state" {
        /// Extents that were written before.
        Overwrite = "overwrite",
        /// Extents that fallocate(2) reserved and nothing wrote yet.
        Unwritten = "unwritten",
        /// Past the end of the file, which grows with each write.
        Append = "append",
        /// As `append`, after an open with O_TRUNC dropped what the last pass wrote.
        Trunc = "trunc",
        /// Open with O_TRUNC, write, close: all three are one operation.
        TruncEach = "trunc-each",
    }
}

axis! {
    /// What issues the writes.
    EngineKind, "engine" {
        /// io_uring, one ring for each job.
        Uring = "uring",
        /// pwritev2(2), one write at a time for each job.
        Sync = "sync",
        /// Nothing is issued: measures the harness itself.
        Null = "null",
    }
}

axis! {
    /// What a run does over time, in place of cells.
    WorkloadKind, "workload" {
        /// Clients commit while a data file is dirtied, and written back at times.
        Checkpoint = "checkpoint",
        /// Files that don't live long.
        Churn = "churn",
        /// Log segments made anew, against recycled ones.
        WalAppend = "wal-append",
    }
}

/// What the written bytes are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Incompressible, and different in every write.
    Random,
    /// All zero.
    Zero,
    /// This share of each 4 KiB, in percent (1 to 99), is zero; the rest as `Random`.
    Compressible(u8),
    /// The bytes that the device already holds at that offset.
    Preserve,
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Payload::Random => f.pad("random"),
            Payload::Zero => f.pad("zero"),
            Payload::Compressible(percent) => f.pad(&format!("{percent}%")),
            Payload::Preserve => f.pad("preserve"),
        }
    }
}

impl FromStr for Payload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "random" => return Ok(Payload::Random),
            "zero" => return Ok(Payload::Zero),
            _ => {}
        }
        text.strip_suffix('%')
            .and_then(|n| n.parse::<u8>().ok())
            .filter(|n| (1..=99).contains(n))
            .map(Payload::Compressible)
            .ok_or_else(|| {
                format!("unknown payload '{text}': one of random, zero, or 1% to 99% compressible")
            })
    }
}

/// Options of the io_uring engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RingOptions {
    /// A kernel thread polls the submission queue (IORING_SETUP_SQPOLL).
    pub sqpoll: bool,
    /// Completions are polled for (IORING_SETUP_IOPOLL); the device needs poll queues.
    pub iopoll: bool,
}

/// Everything about a cell but its target and its side: a raw and a file cell with equal axes can
/// be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axes {
    /// Bytes of one write.
    pub size_bytes: u64,
    /// What makes it synchronous.
    pub method: Method,
    /// O_DIRECT was asked for.
    pub direct: bool,
    /// Writes in flight for each job.
    pub queue_depth: u32,
    /// Threads, each with a ring, a file or a region of its own.
    pub jobs: u32,
    /// Order of offsets.
    pub pattern: Pattern,
    /// What issues the writes.
    pub engine: EngineKind,
    /// Options of the io_uring engine.
    pub ring: RingOptions,
    /// Bytes that all jobs' offsets range over together.
    pub span_bytes: u64,
    /// Open-loop arrival rate of all jobs together; none: as fast as completions allow.
    pub rate_per_s: Option<f64>,
}

/// One combination of target and axes that is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSpec {
    /// Unique in a record, and the same in every run of the same matrix.
    pub id: String,
    /// The `id` of the target.
    pub target: String,
    /// Device or file.
    pub role: Role,
    /// The state of the file's blocks; none on a device.
    pub file_state: Option<FileState>,
    /// The rest.
    #[serde(flatten)]
    pub axes: Axes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_axis_value_parses_from_its_own_spelling() {
        for method in Method::ALL {
            assert_eq!(method.as_str().parse::<Method>().as_ref(), Ok(method));
        }
        for state in FileState::ALL {
            assert_eq!(state.as_str().parse::<FileState>().as_ref(), Ok(state));
        }
    }

    #[test]
    fn an_unknown_value_is_answered_with_the_known_ones() {
        let error = "odsync".parse::<Method>().unwrap_err();
        assert!(error.contains("o_dsync, o_sync, rwf_dsync"), "{error}");
    }

    #[test]
    fn a_stored_cell_loads_and_is_written_as_it_was() {
        let text = "{\"id\":\"c\",\"target\":\"t0\",\"role\":\"file\",\"file_state\":\"trunc-each\",\
                    \"size_bytes\":4096,\"method\":\"o_dsync\",\"direct\":true,\"queue_depth\":1,\
                    \"jobs\":2,\"pattern\":\"seq\",\"engine\":\"sync\",\
                    \"ring\":{\"sqpoll\":false,\"iopoll\":false},\"span_bytes\":67108864,\
                    \"rate_per_s\":null}";
        let cell: CellSpec = serde_json::from_str(text).unwrap();
        assert_eq!(cell.file_state, Some(FileState::TruncEach));
        assert_eq!(serde_json::to_string(&cell).unwrap(), text);
        let without_rate = text.replace(",\"rate_per_s\":null", "");
        assert_eq!(
            serde_json::from_str::<CellSpec>(&without_rate).unwrap(),
            cell
        );
    }

    #[test]
    fn payload_spellings_round_trip() {
        for payload in [Payload::Random, Payload::Zero, Payload::Compressible(50)] {
            assert_eq!(payload.to_string().parse(), Ok(payload));
        }
        assert!("100%".parse::<Payload>().is_err());
        assert!("0%".parse::<Payload>().is_err());
    }
}
