//! The real slicer: lays the lanes of a cell, drives the engine over them, and reads the counters
//! before and after.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};

use crate::engine::{self, Crew, Data, EngineError, Lane, Limits, To};
use crate::guard::{Lookout, Refusal, WriteGrant};
use crate::model::cell::{CellSpec, EngineKind, FileState, Method, Payload, Role};
use crate::model::devid::DevId;
use crate::model::record::{Handed, Level, Note, Record, Slice};
use crate::model::sample::Sample;
use crate::observe::tracer::Tracer;
use crate::observe::workers::Workers;
use crate::scratch::{ScratchFile, open_flags};
use crate::sys::clock;
use crate::sys::pulse;
use crate::sys::root::Root;
use crate::target;

use super::counters;
use super::drives;
use super::idle;
use super::lanes::{Plan, cell_files, is_one_pass, lanes, plan};
use super::passes::{self, Left};
use super::remedy::remedy;
use super::request::SetupError;
use super::rounds::Slicer;
use super::settings;
use super::slice::{Outcome, SliceError, SliceParams};
use super::tally::{Observed, Tally};
use super::traced::{self, Recorder, TracedSlice, Tracing};
use super::write_target::{Target, WriteTarget};

/// Width of the intervals in which a slice's operations are counted.
const INTERVAL_NS: u64 = 10_000_000;

/// Runs the cells of a record on its real targets.
pub struct Bench<'a> {
    root: &'a Root,
    stop: &'a AtomicBool,
    payload: Payload,
    targets: Vec<Target>,
    lookout: Lookout,
    cells: Vec<Plan>,
    /// Devices whose events traced slices record; none where nothing is traced.
    traced_devices: Vec<DevId>,
    /// Gives each pass a payload of its own: cells that are compared write the same blocks, and would
    /// else write them with what they hold already.
    payloads: fastrand::Rng,
    crew: Crew,
}

impl<'a> Bench<'a> {
    /// A bench for the cells of `record`, with a place for each target that has any.
    pub fn new(
        root: &'a Root,
        record: &mut Record,
        places: Vec<(String, WriteTarget)>,
        stop: &'a AtomicBool,
        tracing: Tracing,
    ) -> anyhow::Result<Bench<'a>> {
        let uncounted = counters::uncounted(root, record);
        let targets: Vec<Target> = places
            .into_iter()
            .map(|(id, place)| Target {
                device: top_device(record, &id),
                counters: counters::of(root, record, &id),
                scope: traced::scope(root, record, &id),
                id,
                place,
                fds: Vec::new(),
            })
            .collect();
        let mut cells = Vec::new();
        for cell in &record.cells {
            let mut plan = plan(record, &targets, &cell.spec)?;
            if cell
                .buffered
                .as_ref()
                .is_some_and(|buffered| buffered.is_refused)
            {
                plan.spec.axes.direct = false;
            }
            cells.push(plan);
        }
        record.notes.extend(uncounted);
        let traced_devices = traced::devices(root, record, tracing).context("cannot trace")?;
        drives::begin(root, record);
        Ok(Bench {
            root,
            stop,
            payload: record.run.payload,
            targets,
            lookout: Lookout::default(),
            cells,
            traced_devices,
            payloads: fastrand::Rng::with_seed(!record.run.seed),
            crew: Crew::default(),
        })
    }

    fn drive(
        &mut self,
        index: usize,
        ask: &SliceParams,
        tracer: Option<Tracer>,
    ) -> Result<Driven, SliceError> {
        if self.cells[index].spec.role == Role::File {
            return self.drive_files(index, ask, tracer);
        }
        let driven = self.drive_raw(index, ask, tracer);
        if driven
            .as_ref()
            .map_or(true, |driven| driven.sample.errors > 0)
        {
            self.forget_errors();
        }
        driven
    }

    /// A device's descriptors share its page cache, and each is told once of a write-back that failed: so
    /// that no other cell's sync is told of this one's, they are asked now, and the pages that are no
    /// longer what the device holds are dropped.
    fn forget_errors(&self) {
        for (_, fd) in self.targets.iter().flat_map(|target| &target.fds) {
            let _ = nix::unistd::fsync(fd);
            let _ = posix_fadvise(fd, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        }
    }

    fn drive_raw(
        &mut self,
        index: usize,
        ask: &SliceParams,
        tracer: Option<Tracer>,
    ) -> Result<Driven, SliceError> {
        let Plan {
            target, ref spec, ..
        } = self.cells[index];
        let flags = open_flags(spec.axes.method, spec.axes.direct);
        self.targets[target].open(flags).map_err(cell_error)?;
        let first = self.cells[index].start(ask.seed, ask.goes_on);
        let driven = self.drive_device(index, flags, ask, tracer, first)?;
        self.cells[index].advance(driven.sample.ops);
        Ok(driven)
    }

    fn drive_device(
        &mut self,
        index: usize,
        flags: OFlag,
        ask: &SliceParams,
        tracer: Option<Tracer>,
        first: u64,
    ) -> Result<Driven, SliceError> {
        let (mut driver, plan, target) = self.driver(index, ask, tracer);
        let opened = target.fds.iter().find(|(known, _)| *known == flags);
        let Some((grant, (_, fd))) = target.place.grant().zip(opened) else {
            return Err(SliceError::Cell("there is no device to write".to_owned()));
        };
        let payload = driver.payload;
        let data = || match grant.preserved() {
            Some(bytes) => Data::Preserved {
                bytes,
                base_bytes: 0,
            },
            None => Data::Fresh(payload),
        };
        let held = grant.hold().map_err(cell_error)?;
        let lanes = lanes(&plan.offsets, first, &|_| To::Fd(fd.as_fd()), &data);
        let data = || Ok(traced::Data::at(&plan.offsets, plan.spec.axes.size_bytes));
        let sample = driver.pass(lanes, Left::of(ask), &[fd.as_fd()], &data);
        held.release().map_err(cell_error)?;
        Ok(driver.driven(sample?, Vec::new()))
    }

    fn drive_files(
        &mut self,
        index: usize,
        ask: &SliceParams,
        tracer: Option<Tracer>,
    ) -> Result<Driven, SliceError> {
        let (mut driver, plan, target) = self.driver(index, ask, tracer);
        let WriteTarget::Scratch(scratch) = &target.place else {
            return Err(SliceError::Cell("there is no scratch folder".to_owned()));
        };
        let (spec, offsets) = (&plan.spec, &plan.offsets);
        let files = cell_files(scratch, spec);
        let flags = open_flags(spec.axes.method, spec.axes.direct);
        let payload = driver.payload;
        if spec.file_state == Some(FileState::TruncEach) {
            let to = |lane: usize| To::Reopen {
                folder: files[lane].folder(),
                name: files[lane].name(),
                flags: flags | OFlag::O_WRONLY | OFlag::O_TRUNC,
            };
            let lanes = lanes(offsets, ask.seed, &to, &|| Data::Fresh(payload));
            let data = || Ok(traced::Data::anywhere());
            let sample = driver.pass(lanes, Left::of(ask), &[], &data)?;
            return Ok(driver.driven(sample, Vec::new()));
        }
        let mut truncating_opens_ns = Vec::new();
        let stop = driver.stop;
        let more = || !stop.load(Ordering::Relaxed);
        let root = driver.observed.root;
        let about = |error: &io::Error| remedy(root, target.device, spec, error.raw_os_error());
        let sample = passes::run(Left::of(ask), &more, &mut |left| {
            let mut opened = Vec::new();
            for file in &files {
                let pass = file
                    .open_pass(flags)
                    .map_err(|error| pass_error(file, &error, &about(&error)))?;
                truncating_opens_ns.extend(pass.truncating_open_ns);
                opened.push(pass.file);
            }
            let to = |lane: usize| To::Fd(opened[lane].as_fd());
            let lanes = lanes(offsets, ask.seed, &to, &|| Data::Fresh(payload));
            let fds: Vec<_> = opened.iter().map(AsFd::as_fd).collect();
            driver.pass(lanes, left, &fds, &|| traced::Data::of_files(spec, &fds))
        })?;
        Ok(driver.driven(sample, truncating_opens_ns))
    }

    /// What failed of a slice of the cell at `index`, and what to do about it; none if nothing did.
    fn failed(&self, index: usize, sample: &Sample) -> Option<String> {
        let Plan {
            target, ref spec, ..
        } = self.cells[index];
        let device = self.targets[target].device;
        let errno = sample.first_error.as_ref()?.errno;
        let remedy = remedy(self.root, device, spec, errno);
        Some(format!("{}{remedy}", sample.failure()?))
    }

    /// What drives the cell at `index`, and the cell and its target, which it doesn't hold.
    fn driver(
        &mut self,
        index: usize,
        ask: &SliceParams,
        tracer: Option<Tracer>,
    ) -> (Driver<'_>, &Plan, &Target) {
        let plan = &self.cells[index];
        let target = &self.targets[plan.target];
        let recorder = tracer.zip(target.scope.as_ref());
        let driver = Driver {
            spec: &plan.spec,
            seed: ask.seed,
            crew: &mut self.crew,
            payloads: &mut self.payloads,
            max_ops: ask.max_ops,
            payload: self.payload,
            stop: self.stop,
            observed: Observed {
                root: self.root,
                counters: &target.counters,
            },
            workers: ask
                .count_handed
                .then(|| Workers::open(self.root).ok())
                .flatten(),
            lookout: &mut self.lookout,
            grants: self
                .targets
                .iter()
                .filter_map(|target| target.place.grant())
                .collect(),
            refused: None,
            tally: Tally::default(),
            recorder: recorder.map(|(tracer, scope)| Recorder::new(tracer, scope)),
        };
        (driver, plan, target)
    }
}

impl Slicer for Bench<'_> {
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    fn slice(&mut self, index: usize, ask: &SliceParams) -> Result<Outcome, SliceError> {
        if ask.count_handed {
            // Only threads that begin from now on are counted in.
            self.crew = Crew::default();
        }
        let driven = self.drive(index, ask, None)?;
        if ask.count_handed {
            // The counter leaves its traces in a thread.
            self.crew = Crew::default();
        }
        let target = &self.targets[self.cells[index].target];
        let note = |text: &String| Note {
            level: Level::Fallback,
            target: Some(target.id.clone()),
            text: text.clone(),
        };
        let sample = driven.sample;
        let lost = driven
            .tally
            .lost()
            .map(|dev| counters::lost(&target.id, dev));
        Ok(Outcome {
            notes: sample.fallbacks.iter().map(note).chain(lost).collect(),
            failed: self.failed(index, &sample),
            handed: driven.tally.worker_requests.map(|requests| Handed {
                ops: sample.ops,
                requests,
                worker_cpu_ns: driven.tally.worker_cpu_ns,
            }),
            slice: Slice {
                truncating_opens_ns: driven.truncating_opens_ns,
                worker_cpu_ns: Some(driven.tally.worker_cpu_ns),
                devices: driven.tally.devices(&target.counters),
                neighbours: driven.tally.neighbours(&target.counters),
                process: driven.tally.process,
                filesystem: driven.tally.filesystem,
                ..Slice::of(&sample)
            },
            histogram: sample.histogram,
        })
    }

    fn temperature_c(&self, index: usize) -> Option<f64> {
        let device = self.targets[self.cells[index].target].device;
        target::temperature_c(self.root, device?)
    }

    fn traced(
        &mut self,
        index: usize,
        ask: &SliceParams,
    ) -> Result<Option<TracedSlice>, SliceError> {
        let target = &self.targets[self.cells[index].target];
        let engine = self.cells[index].spec.axes.engine;
        let devices = &self.traced_devices;
        let is_empty = self.cells[index].spec.axes.method == Method::EmptyFlush;
        if devices.is_empty() || target.scope.is_none() || engine == EngineKind::Null || is_empty {
            return Ok(None);
        }
        let tracer = Tracer::open(self.root, devices).map_err(cell_error)?;
        let driven = self.drive(index, ask, Some(tracer))?;
        if let Some(failure) = self.failed(index, &driven.sample) {
            return Err(SliceError::Cell(failure));
        }
        Ok(driven.traced)
    }

    fn look(&mut self, is_over: bool) -> anyhow::Result<()> {
        let places = self.targets.iter().map(|target| &target.place);
        let grants = places.filter_map(WriteTarget::grant);
        let looked = match is_over {
            true => self.lookout.look_now(grants),
            false => self.lookout.look(grants),
        };
        Ok(looked.map_err(SetupError::from)?)
    }

    fn changed(&mut self, record: &Record, elapsed_ns: u64) -> Vec<Note> {
        settings::changed(self.root, record, elapsed_ns)
    }

    fn idle(&mut self, record: &mut Record, round_ns: u64) {
        idle::moment(self.root, &self.targets, record, round_ns);
    }

    fn end(&mut self, record: &mut Record) {
        drives::end(self.root, record);
    }
}

/// The block device that a target is or lies on.
fn top_device(record: &Record, id: &str) -> Option<DevId> {
    let target = record.targets.iter().find(|target| target.id == id)?;
    Some(target.stack.first()?.dev)
}

/// What a slice gave.
struct Driven {
    sample: Sample,
    tally: Tally,
    truncating_opens_ns: Vec<u64>,
    /// Of a slice that was traced.
    traced: Option<TracedSlice>,
}

/// Runs the passes of one slice, and counts.
struct Driver<'a> {
    spec: &'a CellSpec,
    seed: u64,
    crew: &'a mut Crew,
    payloads: &'a mut fastrand::Rng,
    max_ops: u64,
    payload: Payload,
    stop: &'a AtomicBool,
    observed: Observed<'a>,
    /// Where the requests that are handed to worker threads are counted.
    workers: Option<Workers>,
    lookout: &'a mut Lookout,
    /// What it looks at while a slice runs.
    grants: Vec<&'a WriteGrant>,
    /// Somebody uses one of them by now.
    refused: Option<Refusal>,
    tally: Tally,
    recorder: Option<Recorder<'a>>,
}

impl Driver<'_> {
    fn driven(self, sample: Sample, truncating_opens_ns: Vec<u64>) -> Driven {
        let recorder = self.recorder;
        Driven {
            traced: recorder.map(|recorder| recorder.slice(&sample, &self.tally)),
            sample,
            tally: self.tally,
            truncating_opens_ns,
        }
    }

    /// Runs the engine over `lanes`. What a method without a sync, or a buffered write that failed, leaves in
    /// caches is then brought to disk through `fds`, so that the next slice of another cell neither pays
    /// for it nor is told of its errors. `data` tells
    /// which blocks were written, if that is traced.
    fn pass(
        &mut self,
        mut lanes: Vec<Lane<'_>>,
        left: Left,
        fds: &[BorrowedFd<'_>],
        data: &dyn Fn() -> Result<traced::Data, SliceError>,
    ) -> Result<Sample, SliceError> {
        for lane in &mut lanes {
            if is_one_pass(self.spec) {
                lane.start = 0;
            }
            if self.spec.axes.engine == EngineKind::Null {
                lane.to = To::Nothing;
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.start()?;
        }
        let before = self.observed.before(self.workers.as_ref());
        let mut sample = self.engine(lanes, left)?;
        let after = self.observed.after(self.workers.as_ref());
        self.tally.add(&before, &after, &sample.jobs);
        if let Some(recorder) = &mut self.recorder {
            recorder.stop(std::mem::take(&mut sample.op_times), data)?;
        }
        let axes = &self.spec.axes;
        let is_synced = axes.direct && axes.method != Method::None;
        if is_synced || axes.engine == EngineKind::Null {
            return Ok(sample);
        }
        // Each of them, so that none keeps an error.
        let synced = fds.iter().map(nix::unistd::fsync).fold(Ok(()), Result::and);
        match synced {
            // The sample tells of the first failure, and where it was.
            Err(errno) if sample.errors == 0 => Err(SliceError::Cell(format!(
                "fsync after the slice: {errno}; of its {} writes, some could not be written back",
                sample.ops
            ))),
            _ => Ok(sample),
        }
    }

    fn engine(&mut self, lanes: Vec<Lane<'_>>, left: Left) -> Result<Sample, SliceError> {
        let axes = &self.spec.axes;
        let spec = engine::Spec {
            size_bytes: axes.size_bytes,
            method: axes.method,
            queue_depth: axes.queue_depth,
            pattern: axes.pattern,
            kind: axes.engine,
            ring: axes.ring,
            rate_per_s: axes.rate_per_s,
            one_pass: is_one_pass(self.spec),
            seed: self.seed,
            payload_seed: self.payloads.u64(..),
            limits: Limits {
                time_ns: left.time_ns,
                min_ops: left.min_ops,
                max_ops: self.max_ops,
                hard_ns: left.hard_ns,
            },
            interval_ns: INTERVAL_NS,
            op_times: self.recorder.as_ref().map_or(0, |_| traced::MAX_OPS),
            null: None,
        };
        let (lookout, grants, refused) = (&mut *self.lookout, &self.grants, &mut self.refused);
        let mut look = || {
            if refused.is_none() {
                *refused = lookout.look(grants.iter().copied()).err();
            }
            refused.is_none()
        };
        pulse::measures(&self.spec.id);
        let sample = engine::run(self.crew, lanes, &spec, self.stop, &mut look);
        pulse::does(&self.spec.id);
        match self.refused.take() {
            Some(refusal) => Err(SliceError::Fatal(SetupError::from(refusal).into())),
            None => sample.map_err(engine_error),
        }
    }
}

fn cell_error(error: impl std::fmt::Display) -> SliceError {
    SliceError::Cell(error.to_string())
}

fn pass_error(file: &ScratchFile, error: &io::Error, remedy: &str) -> SliceError {
    let errno = error.raw_os_error().map(Errno::from_raw);
    SliceError::Cell(format!(
        "cannot open a scratch file in state {}: {}{remedy}",
        file.state(),
        errno.map_or_else(|| error.to_string(), |errno| errno.to_string()),
    ))
}

/// io_uring that is blocked stays so for every cell; anything else is this cell's.
fn engine_error(error: EngineError) -> SliceError {
    match error {
        EngineError::Blocked { .. } => SliceError::Fatal(error.into()),
        other => SliceError::Cell(other.to_string()),
    }
}
