//! The real slicer: lays the lanes of a cell, drives the engine over them, and reads the counters
//! before and after.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::fcntl::OFlag;

use crate::engine::{self, Data, EngineError, Lane, Limits, To};
use crate::guard::{GrantedFd, WriteGrant};
use crate::model::cell::{CellSpec, EngineKind, FileState, Method, Payload, Role};
use crate::model::facts::DevId;
use crate::model::record::{BaselineKind, Level, Note, Record, Slice};
use crate::model::sample::Sample;
use crate::model::traffic::{BlockStat, DeviceTraffic};
use crate::observe::blockstat;
use crate::observe::workers::Workers;
use crate::scratch::{Scratch, ScratchFile, open_flags};
use crate::sys::clock;
use crate::sys::root::Root;

use super::passes::{self, Left};
use super::rounds::{Ask, Outcome, SliceError, Slicer};

/// Width of the intervals in which a slice's operations are counted.
const INTERVAL_NS: u64 = 10_000_000;

/// Where a target's writes go.
#[derive(Debug)]
pub enum Place {
    /// To a device's span.
    Device(WriteGrant),
    /// To the blocks of scratch files.
    Extents {
        /// The right to.
        grant: WriteGrant,
        /// The length of each file that it covers, in its order.
        file_bytes: Vec<u64>,
    },
    /// To files in a scratch folder.
    Scratch(Scratch),
}

/// Runs the cells of a record on its real targets.
pub struct Bench<'a> {
    root: &'a Root,
    stop: &'a AtomicBool,
    payload: Payload,
    targets: Vec<Target>,
    cells: Vec<Plan>,
    workers: Workers,
    /// Told of a slice that doesn't come to an end, with how long it has gone on past its limit.
    stalled: Box<dyn FnMut(&CellSpec, Duration) + 'a>,
}

struct Target {
    id: String,
    place: Place,
    stack: Vec<DevId>,
    /// Open for the whole run: closing a device that was open for writing makes udev probe it
    /// (systemd/udev: 60-block.rules, OPTIONS+="watch"), in the middle of somebody's slice.
    fds: Vec<(OFlag, GrantedFd)>,
}

struct Plan {
    spec: CellSpec,
    /// Index in `targets`.
    target: usize,
    /// Each lane's offsets.
    offsets: Vec<Vec<u64>>,
}

impl<'a> Bench<'a> {
    /// A bench for the cells of `record`, with a place for each target that has any.
    pub fn new(
        root: &'a Root,
        record: &mut Record,
        places: Vec<(String, Place)>,
        stop: &'a AtomicBool,
        stalled: Box<dyn FnMut(&CellSpec, Duration) + 'a>,
    ) -> anyhow::Result<Bench<'a>> {
        let stack_of = |id: &str| {
            let target = record.targets.iter().find(|target| target.id == id);
            target
                .map(|t| t.stack.iter().map(|d| d.dev).collect())
                .unwrap_or_default()
        };
        let targets: Vec<Target> = places
            .into_iter()
            .map(|(id, place)| Target {
                stack: stack_of(&id),
                id,
                place,
                fds: Vec::new(),
            })
            .collect();
        let mut cells = Vec::new();
        for cell in &record.cells {
            cells.push(plan(record, &targets, &cell.spec)?);
        }
        let (workers, missing) = Workers::open(root);
        record.notes.extend(missing.map(|text| Note {
            level: Level::Remark,
            target: None,
            text,
        }));
        Ok(Bench {
            root,
            stop,
            payload: record.run.payload,
            targets,
            cells,
            workers,
            stalled,
        })
    }

    fn read_counters(&self, target: usize) -> Counters {
        let stack = &self.targets[target].stack;
        Counters {
            devices: stack
                .iter()
                .map(|&dev| (dev, blockstat::read(self.root, dev)))
                .collect(),
            worker_requests: self.workers.read(),
            other_cpu_ns: clock::process_cpu_ns().saturating_sub(clock::thread_cpu_ns()),
        }
    }

    fn drive(&mut self, index: usize, ask: &Ask) -> Result<Driven, SliceError> {
        let Plan {
            target, ref spec, ..
        } = self.cells[index];
        match spec.role {
            Role::Raw => {
                let flags = open_flags(spec.axes.method, spec.axes.direct);
                self.targets[target].open(flags).map_err(cell_error)?;
                self.drive_device(index, ask)
            }
            Role::File => self.drive_files(index, ask),
        }
    }

    fn drive_device(&mut self, index: usize, ask: &Ask) -> Result<Driven, SliceError> {
        let Bench {
            targets,
            cells,
            stop,
            payload,
            stalled,
            ..
        } = self;
        let Plan {
            spec,
            target,
            offsets,
        } = &cells[index];
        let Target { place, fds, .. } = &targets[*target];
        let Some(grant) = place.grant() else {
            return Err(SliceError::Cell("a device cell has no device".to_owned()));
        };
        let flags = open_flags(spec.axes.method, spec.axes.direct);
        let Some((_, fd)) = fds.iter().find(|(known, _)| *known == flags) else {
            return Err(SliceError::Cell("the device is not open".to_owned()));
        };
        let held = grant.hold().map_err(cell_error)?;
        let data = || match grant.preserved() {
            Some(bytes) => Data::Preserved {
                bytes,
                base_bytes: 0,
            },
            None => Data::Fresh(*payload),
        };
        let to = |_: usize| To::Fd(fd.as_fd());
        let left = Left {
            time_ns: ask.time_ns,
            min_ops: ask.min_ops,
            hard_ns: ask.hard_ns,
        };
        let sample = run_engine(
            spec,
            lanes(offsets, ask.seed, &to, &data),
            left,
            ask,
            stop,
            stalled,
        );
        let sample = sample.and_then(|sample| settle(spec, sample, &[fd.as_fd()]));
        held.release().map_err(cell_error)?;
        Ok(Driven {
            sample: sample?,
            truncating_opens_ns: Vec::new(),
        })
    }

    fn drive_files(&mut self, index: usize, ask: &Ask) -> Result<Driven, SliceError> {
        let Bench {
            targets,
            cells,
            stop,
            payload,
            stalled,
            ..
        } = self;
        let Plan {
            spec,
            target,
            offsets,
        } = &cells[index];
        let Place::Scratch(scratch) = &targets[*target].place else {
            return Err(SliceError::Cell(
                "a file cell has no scratch folder".to_owned(),
            ));
        };
        let files = cell_files(scratch, spec);
        let flags = open_flags(spec.axes.method, spec.axes.direct);
        let payload = *payload;
        let left = Left {
            time_ns: ask.time_ns,
            min_ops: ask.min_ops,
            hard_ns: ask.hard_ns,
        };
        if spec.file_state == Some(FileState::TruncEach) {
            let to = |lane: usize| To::Reopen {
                path: files[lane].path(),
                flags,
            };
            let lanes = lanes(offsets, ask.seed, &to, &|| Data::Fresh(payload));
            let sample = run_engine(spec, lanes, left, ask, stop, stalled)?;
            return Ok(Driven {
                sample,
                truncating_opens_ns: Vec::new(),
            });
        }
        let mut truncating_opens_ns = Vec::new();
        let more = || !stop.load(Ordering::Relaxed);
        let sample = passes::run(left, &more, &mut |left| {
            let mut opened = Vec::new();
            for file in &files {
                let pass = file
                    .open_pass(flags)
                    .map_err(|error| pass_error(file, &error))?;
                truncating_opens_ns.extend(pass.truncating_open_ns);
                opened.push(pass.file);
            }
            let to = |lane: usize| To::Fd(opened[lane].as_fd());
            let lanes = lanes(offsets, ask.seed, &to, &|| Data::Fresh(payload));
            let sample = run_engine(spec, lanes, left, ask, stop, stalled)?;
            let fds: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
            settle(spec, sample, &fds)
        })?;
        Ok(Driven {
            sample,
            truncating_opens_ns,
        })
    }
}

impl Slicer for Bench<'_> {
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn slice(&mut self, index: usize, ask: &Ask) -> Result<Outcome, SliceError> {
        let target = self.cells[index].target;
        let before = self.read_counters(target);
        let driven = self.drive(index, ask)?;
        let after = self.read_counters(target);
        let notes = driven.sample.fallbacks.iter().map(|text| Note {
            level: Level::Fallback,
            target: Some(self.targets[target].id.clone()),
            text: text.clone(),
        });
        Ok(Outcome {
            notes: notes.collect(),
            failed: driven.sample.first_error.as_ref().map(ToString::to_string),
            slice: after.since(&before, &driven),
            histogram: driven.sample.histogram,
        })
    }
}

impl Place {
    fn grant(&self) -> Option<&WriteGrant> {
        match self {
            Place::Device(grant) | Place::Extents { grant, .. } => Some(grant),
            Place::Scratch(_) => None,
        }
    }
}

impl Target {
    /// Opens the device with `flags`, if it isn't yet.
    fn open(&mut self, flags: OFlag) -> Result<(), crate::guard::Refusal> {
        if let Some(grant) = self.place.grant()
            && !self.fds.iter().any(|(known, _)| *known == flags)
        {
            self.fds.push((flags, grant.open(flags)?));
        }
        Ok(())
    }
}

/// What the engine gave for a slice.
struct Driven {
    sample: Sample,
    truncating_opens_ns: Vec<u64>,
}

/// What is counted before and after a slice.
struct Counters {
    devices: Vec<(DevId, Option<BlockStat>)>,
    worker_requests: Option<u64>,
    /// Processor time of all threads but the calling one.
    other_cpu_ns: u64,
}

impl Counters {
    fn since(&self, before: &Counters, driven: &Driven) -> Slice {
        let sample = &driven.sample;
        let devices = self.devices.iter().zip(&before.devices);
        let devices = devices.filter_map(|(&(dev, after), &(_, before))| {
            Some(DeviceTraffic {
                dev,
                counted: blockstat::since(&after?, &before?),
            })
        });
        let workers = self.worker_requests.zip(before.worker_requests);
        let threads_cpu_ns = self.other_cpu_ns.saturating_sub(before.other_cpu_ns);
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
            truncating_opens_ns: driven.truncating_opens_ns.clone(),
            worker_requests: workers.map(|(after, before)| after.saturating_sub(before)),
            worker_cpu_ns: Some(threads_cpu_ns.saturating_sub(sample.cpu_ns)),
            devices: devices.collect(),
        }
    }
}

/// Lays out what a cell writes where.
fn plan(record: &Record, targets: &[Target], spec: &CellSpec) -> anyhow::Result<Plan> {
    let find = |id: &str| targets.iter().position(|target| target.id == id);
    let Some(target) = find(&spec.target) else {
        anyhow::bail!("cell {} has no target {}", spec.id, spec.target);
    };
    let size_bytes = spec.axes.size_bytes;
    let jobs = spec.axes.jobs as usize;
    let offsets: Vec<Vec<u64>> = match &targets[target].place {
        Place::Device(grant) => {
            let lane = |job| grant.offsets(job, jobs, size_bytes);
            (0..jobs)
                .map(lane)
                .map(|lane| first_bytes(lane, spec))
                .collect()
        }
        Place::Extents { grant, file_bytes } => {
            let files = granted_files(file_bytes, spec);
            files
                .map(|file| grant.offsets(file, jobs, size_bytes))
                .collect()
        }
        Place::Scratch(scratch) => match extents_of(record, targets, spec) {
            Some((grant, file_bytes)) => {
                let files = granted_files(file_bytes, spec);
                files
                    .map(|file| grant.file_offsets(file, size_bytes))
                    .collect()
            }
            None => {
                let files = cell_files(scratch, spec);
                files
                    .iter()
                    .map(|file| all_offsets(file, size_bytes))
                    .collect()
            }
        },
    };
    anyhow::ensure!(
        offsets.len() == jobs,
        "cell {} lacks a file for each job",
        spec.id
    );
    anyhow::ensure!(
        offsets.iter().all(|lane| !lane.is_empty()),
        "cell {} has no block to write: all extents are shorter than {size_bytes} bytes",
        spec.id
    );
    Ok(Plan {
        spec: spec.clone(),
        target,
        offsets,
    })
}

/// The files of a grant that a cell's lanes write: as many of the cell's length as it has jobs.
fn granted_files(granted_bytes: &[u64], spec: &CellSpec) -> impl Iterator<Item = usize> {
    let wanted_bytes = file_bytes(spec);
    let files = granted_bytes
        .iter()
        .enumerate()
        .filter(move |(_, bytes)| **bytes == wanted_bytes);
    files.take(spec.axes.jobs as usize).map(|(file, _)| file)
}

/// As much of a lane as the cell's span gives a job: the grant covers the largest span of all cells.
fn first_bytes(mut lane: Vec<u64>, spec: &CellSpec) -> Vec<u64> {
    lane.truncate((file_bytes(spec) / spec.axes.size_bytes) as usize);
    lane
}

/// The grant over the very blocks that an overwriting file cell writes, if its baseline is that:
/// both sides then write the same blocks in the same order.
fn extents_of<'t>(
    record: &Record,
    targets: &'t [Target],
    spec: &CellSpec,
) -> Option<(&'t WriteGrant, &'t [u64])> {
    if spec.file_state != Some(FileState::Overwrite) {
        return None;
    }
    let target = record
        .targets
        .iter()
        .find(|target| target.id == spec.target)?;
    let baseline = target
        .baseline
        .as_ref()
        .filter(|b| b.kind == BaselineKind::Extents)?;
    let raw = baseline.target.as_ref()?;
    match &targets.iter().find(|target| target.id == *raw)?.place {
        Place::Extents { grant, file_bytes } => Some((grant, file_bytes)),
        Place::Device(_) | Place::Scratch(_) => None,
    }
}

/// Bytes of each file of a cell: a job's share of the span; only one write where each write
/// truncates the file.
pub(super) fn file_bytes(spec: &CellSpec) -> u64 {
    match spec.file_state {
        Some(FileState::TruncEach) => spec.axes.size_bytes,
        _ => spec.axes.span_bytes / u64::from(spec.axes.jobs),
    }
}

fn cell_files<'s>(scratch: &'s Scratch, spec: &CellSpec) -> Vec<&'s ScratchFile> {
    let state = spec.file_state.unwrap_or(FileState::Overwrite);
    scratch.files(state, file_bytes(spec), spec.axes.jobs)
}

fn all_offsets(file: &ScratchFile, size_bytes: u64) -> Vec<u64> {
    (0..file.span_bytes() / size_bytes)
        .map(|block| block * size_bytes)
        .collect()
}

/// States in which the order of blocks is given and their end is the file's end.
fn is_one_pass(spec: &CellSpec) -> bool {
    matches!(
        spec.file_state,
        Some(FileState::Unwritten | FileState::Append | FileState::Trunc)
    )
}

fn lanes<'l>(
    offsets: &'l [Vec<u64>],
    seed: u64,
    to: &dyn Fn(usize) -> To<'l>,
    data: &dyn Fn() -> Data<'l>,
) -> Vec<Lane<'l>> {
    let lane = |(lane, offsets): (usize, &'l Vec<u64>)| Lane {
        to: to(lane),
        offsets,
        start: (seed % offsets.len() as u64) as usize,
        data: data(),
    };
    offsets.iter().enumerate().map(lane).collect()
}

fn run_engine(
    spec: &CellSpec,
    mut lanes: Vec<Lane<'_>>,
    left: Left,
    ask: &Ask,
    stop: &AtomicBool,
    stalled: &mut dyn FnMut(&CellSpec, Duration),
) -> Result<Sample, SliceError> {
    let one_pass = is_one_pass(spec);
    for lane in &mut lanes {
        if one_pass {
            lane.start = 0;
        }
        if spec.axes.engine == EngineKind::Null {
            lane.to = To::Nothing;
        }
    }
    let limits = Limits {
        time_ns: left.time_ns,
        min_ops: left.min_ops,
        max_ops: u64::MAX,
        hard_ns: left.hard_ns,
    };
    let engine = engine::Spec {
        size_bytes: spec.axes.size_bytes,
        method: spec.axes.method,
        queue_depth: spec.axes.queue_depth,
        pattern: spec.axes.pattern,
        kind: spec.axes.engine,
        ring: spec.axes.ring,
        rate_per_s: spec.axes.rate_per_s,
        one_pass,
        seed: ask.seed,
        limits,
        interval_ns: INTERVAL_NS,
        null: None,
    };
    let limit = Duration::from_nanos(left.hard_ns);
    engine::run(lanes, &engine, stop, &mut |since| {
        if let Some(over) = since.checked_sub(limit) {
            stalled(spec, over);
        }
    })
    .map_err(engine_error)
}

/// Brings to disk what a method without a sync left in caches, so that the next slice of another
/// cell doesn't pay for it.
fn settle(spec: &CellSpec, sample: Sample, fds: &[BorrowedFd<'_>]) -> Result<Sample, SliceError> {
    if spec.axes.method == Method::None && spec.axes.engine != EngineKind::Null {
        for fd in fds {
            nix::unistd::fsync(fd).map_err(|errno| {
                SliceError::Cell(format!(
                    "fsync after unsynchronised writes: {}",
                    errno.desc()
                ))
            })?;
        }
    }
    Ok(sample)
}

fn cell_error(error: impl std::fmt::Display) -> SliceError {
    SliceError::Cell(error.to_string())
}

fn pass_error(file: &ScratchFile, error: &std::io::Error) -> SliceError {
    SliceError::Cell(format!(
        "cannot open a scratch file in state {}: {error}",
        file.state()
    ))
}

/// io_uring that is blocked stays so for every cell; anything else is this cell's.
fn engine_error(error: EngineError) -> SliceError {
    match error {
        EngineError::Blocked { .. } => SliceError::Fatal(error.into()),
        other => SliceError::Cell(other.to_string()),
    }
}
