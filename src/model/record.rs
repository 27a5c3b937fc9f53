//! The record: everything that was measured, and no verdict. It is versioned, and written as JSON.
//! Times are nanoseconds, amounts are bytes, and each key ends in its unit.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::cell::{CellSpec, Payload};
use super::claims::Validation;
use super::devid::DevId;
use super::drive::DriveCounts;
use super::durability::Durability;
use super::facts::{DeviceFacts, FsDevice, Host, MountFacts};
use super::histogram::{LatencyNs, encode};
use super::sample::{Sample, latency_histogram};
use super::timeline::Timeline;
use super::trace::Traced;
use super::traffic::{DeviceTraffic, FsCount, Idle, NeighbourTraffic, ProcessCount};
use super::variant::{Lab, Variant};

/// The version of the record's form that this program writes and reads.
pub const SCHEMA: &str = "syncprof.record/1";
/// What every version's [`SCHEMA`] begins with.
const SCHEMA_PREFIX: &str = "syncprof.record/";

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// What wrote it.
    pub tool: Tool,
    /// Where it ran.
    pub host: Host,
    /// How it ran.
    pub run: Run,
    /// What was measured.
    pub targets: Vec<Target>,
    /// The measurements.
    pub cells: Vec<Cell>,
    /// Workloads over time, in the order in which they ran.
    #[serde(default)]
    pub timelines: Vec<Timeline>,
    /// What the reader should know: fallbacks, warnings, remarks.
    pub notes: Vec<Note>,
    /// The claims that were tried, in a run that tries any.
    #[serde(default)]
    pub validation: Option<Validation>,
    /// Of a lab's record: what it asks, and where.
    #[serde(default)]
    pub lab: Option<Lab>,
    /// What the drives below the targets counted of their own, before and after the run; those that
    /// tell.
    #[serde(default)]
    pub drives: Vec<DriveCounts>,
    /// Of an inquiry into durability: what it was told, and what the witness and the device said.
    #[serde(default)]
    pub durability: Option<Durability>,
}

impl Record {
    /// Reads a record from its JSON text.
    pub fn parse(text: &str) -> Result<Record, RecordError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(RecordError::NotJson)?;
        let schema = value
            .get("schema")
            .and_then(serde_json::Value::as_str)
            .filter(|schema| schema.starts_with(SCHEMA_PREFIX))
            .ok_or(RecordError::NotARecord)?;
        if schema != SCHEMA {
            return Err(RecordError::OtherSchema(schema.to_owned()));
        }
        let record: Record = serde_json::from_value(value).map_err(RecordError::Malformed)?;
        let mut circles = record.targets.iter().filter_map(Target::below_itself);
        match circles.next() {
            Some(device) => Err(RecordError::Circle(device.name.clone())),
            None => Ok(record),
        }
    }
}

/// Why a text is no record that this program can read.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Not JSON at all, or cut short.
    #[error("not JSON: {0}")]
    NotJson(serde_json::Error),
    /// JSON of something else.
    #[error("not a syncprof record: no key \"schema\" that begins with \"{SCHEMA_PREFIX}\"")]
    NotARecord,
    /// A version that this program does not know.
    #[error(
        "the record has schema {0}, this syncprof reads {SCHEMA}: use the version that wrote it, or a newer one"
    )]
    OtherSchema(String),
    /// The right version, but a key is missing or has a wrong type.
    #[error("damaged record: {0}")]
    Malformed(serde_json::Error),
    /// Whoever follows such devices down never arrives.
    #[error("damaged record: device {0} lies on itself")]
    Circle(String),
}

/// The program that wrote a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// `syncprof`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// How a run was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The verb: `raw`, `file`, `gap` or `validate`.
    pub verb: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it began: RFC 3339, in UTC.
    pub started: String,
    /// How long it took so far, preparation left out.
    pub elapsed_ns: u64,
    /// Decides the order of cells, the random offsets and the payload.
    pub seed: u64,
    /// Half the relative width of a confidence interval at which the run may end.
    pub precision: f64,
    /// The time after which it ends all the same.
    pub budget_ns: u64,
    /// Rounds that are made whatever the budget.
    pub min_rounds: u32,
    /// Whole rounds that were measured.
    pub rounds: u32,
    /// Why it ended; none while it runs, and in the record of a run that was killed.
    pub ended: Option<Ended>,
    /// What files and, without preserve, devices were written with.
    pub payload: Payload,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every interval is narrower than the precision asked for.
    Precise,
    /// The time budget is used up.
    Budget,
    /// The number of rounds asked for is reached.
    Rounds,
    /// A signal.
    Interrupted,
    /// A device that was written came into use.
    InUse,
    /// Nothing completed for as long as was to be waited.
    Stalled,
    /// A setting of a device or a mount changed.
    Changed,
    /// No cell is left that works.
    Failed,
}

/// A device or a directory that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Unique in the record.
    pub id: String,
    /// As it was named, made absolute.
    pub path: String,
    /// What it is.
    pub kind: TargetKind,
    /// The device, or the one below the directory's filesystem, and all devices below that; empty
    /// where there is none.
    pub stack: Vec<DeviceFacts>,
    /// The directory's filesystem.
    pub mount: Option<MountFacts>,
    /// Its further devices: all of them where there is no single one that it is mounted from, as for
    /// a btrfs on several. Empty in a record that is older than this.
    #[serde(default)]
    pub beside: Vec<FsDevice>,
    /// Of a directory: what its devices counted while the run did nothing. None in a record that is older
    /// than this.
    #[serde(default)]
    pub idle: Option<Idle>,
    /// The writes of a directory's workload went through the page cache although O_DIRECT was asked for:
    /// why. In a record that is older than [`Cell::buffered`], those of its cells.
    pub buffered: Option<String>,
    /// A directory's scratch files are overwritten in place, where the filesystem copies others on write
    /// (`chattr +C`). None where no file told, and in a record that is older than this.
    #[serde(default)]
    pub nocow: Option<bool>,
    /// What a preserved device held, and so was written with.
    pub content: Option<Content>,
    /// What a directory's cells are compared with, in a run that compares.
    pub baseline: Option<Baseline>,
    /// The filesystem that a lab built for it.
    #[serde(default)]
    pub variant: Option<Variant>,
}

impl Target {
    /// All of its devices, those below others among them.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceFacts> {
        let beside = self.beside.iter().flat_map(|more| &more.stack);
        self.stack.iter().chain(beside)
    }

    /// The same, to be changed.
    pub fn devices_mut(&mut self) -> impl Iterator<Item = &mut DeviceFacts> {
        let beside = self.beside.iter_mut().flat_map(|more| &mut more.stack);
        self.stack.iter_mut().chain(beside)
    }

    /// A device that lies on itself, which no kernel has: what is left once all are taken away that lie on
    /// nothing that is left.
    fn below_itself(&self) -> Option<&DeviceFacts> {
        let mut left: Vec<&DeviceFacts> = self.devices().collect();
        loop {
            let before = left.clone();
            left.retain(|device| before.iter().any(|below| device.lower.contains(&below.dev)));
            if left.len() == before.len() {
                return left.first().copied();
            }
        }
    }

    /// The devices that are written to directly, each once. None where one of them isn't known.
    pub fn tops(&self) -> Option<Vec<DevId>> {
        let mut tops: Vec<DevId> = self.stack.first().iter().map(|top| top.dev).collect();
        for more in &self.beside {
            let top = more.stack.first()?.dev;
            if !tops.contains(&top) {
                tops.push(top);
            }
        }
        Some(tops)
    }
}

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A block device.
    Device,
    /// A directory on a filesystem.
    Directory,
}

/// What a span of a device holds, in shares of its 4 KiB pieces that add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// Bytes looked at.
    pub span_bytes: u64,
    /// Pieces of zeros only.
    pub zero_share: f64,
    /// Pieces whose bytes are far from equally frequent.
    pub compressible_share: f64,
    /// The rest.
    pub random_share: f64,
}

/// The raw side of a gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// What it is.
    pub kind: BaselineKind,
    /// The `id` of the target that holds its cells.
    pub target: Option<String>,
    /// Why there is none, or not a better one.
    pub reason: Option<String>,
    /// What would give one.
    pub remedy: Option<String>,
}

/// What a baseline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// The scratch file's own blocks, through the device that the filesystem is mounted on.
    Extents,
    /// Another device.
    Device,
    /// There is none.
    None,
}

/// One cell and all that it measured. Totals are sums over its slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What it is.
    #[serde(flatten)]
    pub spec: CellSpec,
    /// Operations completed.
    pub ops: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Time in slices.
    pub elapsed_ns: u64,
    /// `bytes` over `elapsed_ns`; none without an operation.
    pub throughput_bytes_per_s: Option<f64>,
    /// `ops` over `elapsed_ns`; none without an operation.
    pub iops: Option<f64>,
    /// Of all slices together; none without an operation.
    pub latency_ns: Option<LatencyNs>,
    /// Latencies of all slices: HdrHistogram V2 with DEFLATE, base64, nanoseconds.
    pub histogram_v2: String,
    /// Latencies that fell outside the histogram and are clamped in it.
    pub out_of_range: u64,
    /// Why it stopped being measured before the run's end.
    pub failed: Option<String>,
    /// Its writes went through the page cache although O_DIRECT was asked for.
    #[serde(default)]
    pub buffered: Option<Buffered>,
    /// Each slice.
    pub slices: Vec<Slice>,
    /// Slices in which the device, or the kernel, stood still: none of `slices`, nor of the totals. See
    /// `session::rounds` for the rule.
    #[serde(default)]
    pub stalled: Vec<Slice>,
    /// What io_uring handed to worker threads in the slices in which that was counted, which are none
    /// of `slices`: counting slows the writes. None where it can't be counted.
    #[serde(default)]
    pub handed: Option<Handed>,
    /// What its traced slices told, which are none of `slices`; none without tracing.
    #[serde(default)]
    pub traced: Option<Traced>,
}

impl Cell {
    /// A cell that nothing was measured of yet.
    pub fn new(spec: CellSpec) -> Cell {
        Cell {
            spec,
            ops: 0,
            bytes: 0,
            elapsed_ns: 0,
            throughput_bytes_per_s: None,
            iops: None,
            latency_ns: None,
            histogram_v2: encode(&latency_histogram()),
            out_of_range: 0,
            failed: None,
            buffered: None,
            slices: Vec::new(),
            stalled: Vec::new(),
            handed: None,
            traced: None,
        }
    }
}

/// What became of O_DIRECT where writes went through the page cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffered {
    /// Why.
    pub reason: String,
    /// The filesystem refused it, so that they were made without; else it took the flag and cached the
    /// bytes all the same.
    pub is_refused: bool,
}

/// Requests that io_uring handed to worker threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Operations completed while they were counted.
    pub ops: u64,
    /// Requests handed over, those of operations that failed among them.
    pub requests: u64,
    /// Processor time of the worker threads.
    pub worker_cpu_ns: u64,
}

impl Handed {
    /// The sum of two countings.
    #[must_use]
    pub fn plus(&self, other: &Handed) -> Handed {
        Handed {
            ops: self.ops + other.ops,
            requests: self.requests + other.requests,
            worker_cpu_ns: self.worker_cpu_ns + other.worker_cpu_ns,
        }
    }

    /// The share of the operations that went through a worker thread; none without an operation. An
    /// operation that failed was handed over too, and is not among `ops`.
    pub fn share(&self) -> Option<f64> {
        (self.ops > 0).then(|| self.requests.min(self.ops) as f64 / self.ops as f64)
    }
}

/// One cell running once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Which round, from 0.
    pub round: u32,
    /// Which slice of the round, from 0.
    pub position: u32,
    /// When it began, since the run's begin.
    pub started_ns: u64,
    /// Operations completed.
    pub ops: u64,
    /// Bytes written.
    pub bytes: u64,
    /// From the first submission to the last completion, pauses between passes left out.
    pub elapsed_ns: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Its latencies, in the form of [`Cell::histogram_v2`].
    pub histogram_v2: String,
    /// Latencies that fell outside the histogram.
    pub out_of_range: u64,
    /// Width of an interval.
    pub interval_ns: u64,
    /// Operations completed in each interval; empty for a slice of several passes.
    pub interval_ops: Vec<u64>,
    /// Opens with O_TRUNC, one a pass, each timed apart from the writes.
    pub truncating_opens_ns: Vec<u64>,
    /// Processor time of io_uring worker threads; none where it can't be known.
    pub worker_cpu_ns: Option<u64>,
    /// What each device of the stack counted, pauses between passes left out. None of a device whose
    /// counters could not be read before and after each pass.
    pub devices: Vec<DeviceTraffic>,
    /// What other partitions counted meanwhile that share a disk with one of the stack's; none of
    /// those that were idle.
    #[serde(default)]
    pub neighbours: Vec<NeighbourTraffic>,
    /// What the process took of the machine, pauses between passes left out.
    #[serde(default)]
    pub process: Option<ProcessCount>,
    /// What the directory's filesystem counted, pauses between passes left out.
    #[serde(default)]
    pub filesystem: Option<FsCount>,
    /// The longest time in which a job had something in flight and nothing completed; none in a record
    /// that is older than this.
    #[serde(default)]
    pub longest_wait_ns: Option<u64>,
    /// Operations that the kernel had lost, and that completed once its io_uring workers were woken.
    #[serde(default)]
    pub rescued: u32,
}

impl Slice {
    /// What the engine measured; `round`, `position`, `started_ns`, the histogram and the counters
    /// are still to be filled in.
    pub fn of(sample: &Sample) -> Slice {
        Slice {
            round: 0,
            position: 0,
            started_ns: 0,
            ops: sample.ops,
            bytes: sample.bytes,
            elapsed_ns: sample.elapsed_ns,
            errors: sample.errors,
            histogram_v2: String::new(),
            out_of_range: sample.out_of_range,
            interval_ns: sample.interval_ns,
            interval_ops: sample.interval_ops.clone(),
            truncating_opens_ns: Vec::new(),
            worker_cpu_ns: None,
            devices: Vec::new(),
            neighbours: Vec::new(),
            process: None,
            filesystem: None,
            longest_wait_ns: Some(sample.longest_wait_ns),
            rescued: sample.rescued,
        }
    }
}

/// Something that the reader should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// How much it matters.
    pub level: Level,
    /// The `id` of the target that it is about.
    pub target: Option<String>,
    /// One line: what, and what to do about it.
    pub text: String,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Good to know.
    Remark,
    /// Something was done in another way than asked for.
    Fallback,
    /// A figure may mislead.
    Warning,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::Builder;

    #[test]
    fn what_is_no_record_is_told_apart() {
        let parse = |text: &str| Record::parse(text).unwrap_err();
        assert!(matches!(parse("{"), RecordError::NotJson(_)));
        assert!(matches!(parse("[]"), RecordError::NotARecord));
        assert!(matches!(
            parse(r#"{"schema": "fio/3"}"#),
            RecordError::NotARecord
        ));
        assert!(matches!(parse(r#"{"schema": 1}"#), RecordError::NotARecord));
        let newer = parse(r#"{"schema": "syncprof.record/2"}"#);
        assert!(newer.to_string().contains("syncprof.record/2"), "{newer}");
        let damaged = parse(r#"{"schema": "syncprof.record/1"}"#);
        assert!(damaged.to_string().contains("`tool`"), "{damaged}");
    }

    #[test]
    fn a_device_that_lies_on_itself_is_no_device() {
        let parsed = |lower: &[DevId]| {
            let mut record = Builder::new("file")
                .directory("t0", "/data", BaselineKind::None, None)
                .record;
            let stack = &mut record.targets[0].stack;
            let mut below = stack[0].clone();
            stack[0].lower = vec![DevId { major: 8, minor: 9 }];
            (below.dev, below.lower) = (stack[0].lower[0], lower.to_vec());
            stack.push(below);
            Record::parse(&serde_json::to_string(&record).unwrap())
        };
        assert!(parsed(&[]).is_ok());
        // What the record doesn't hold is no way on.
        assert!(parsed(&[DevId { major: 9, minor: 9 }]).is_ok());
        let top = parsed(&[]).unwrap().targets[0].stack[0].dev;
        let circle = parsed(&[top]).unwrap_err().to_string();
        assert!(circle.ends_with("lies on itself"), "{circle}");
    }
}
