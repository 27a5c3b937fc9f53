//! Traced slices: short runs of a cell with the kernel's events recorded, between the slices that
//! are measured. They tell where the bytes and the time of a write went, and feed no other figure.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use crate::fs::Filesystem;
use crate::model::cell::{CellSpec, FileState};
use crate::model::devid::DevId;
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::model::record::{Handed, Level, Note, Record, Target};
use crate::model::sample::{OpTime, Sample};
use crate::model::trace::{Class, ClassTraffic, Traced};
use crate::model::traffic::BlockStat;
use crate::observe::attribute::{self, Attributed, Read, Request, Scope};
use crate::observe::phases;
use crate::observe::tracer::{self, NoTrace, Tracer};
use crate::observe::workers::Workers;
use crate::sys::fiemap;
use crate::sys::root::Root;
use crate::target;

use super::slice::SliceError;
use super::tally::Tally;

/// Writes of a traced slice, at most: enough for a p99 over a few slices, and few enough to keep.
pub(super) const MAX_OPS: usize = 512;

/// Whether to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// Where the kernel lets us; it is told where it doesn't.
    Auto,
    /// Not without.
    On,
    /// Not.
    Off,
}

/// The devices whose events are to be recorded: none where nothing is traced. Where the kernel's
/// events are closed to us, that is a note, unless tracing was asked for.
///
/// A tracer is made for each traced slice and gone with it: the kernel runs a tracepoint's probe for
/// as long as somebody has the event open, even disabled (perf_trace_init() in
/// kernel/trace/trace_event_perf.c), and the measured slices must not pay for that.
pub(super) fn devices(
    root: &Root,
    record: &mut Record,
    tracing: Tracing,
) -> Result<Vec<DevId>, NoTrace> {
    let mut devices: Vec<DevId> = Vec::new();
    for target in &record.targets {
        // Of several devices, a trace of one would show a write waiting for nothing.
        let stack = match target.beside.is_empty() {
            true => &target.stack[..],
            false => &[],
        };
        for dev in traced_devices(stack) {
            if !devices.contains(&dev) {
                devices.push(dev);
            }
        }
    }
    let is_wanted = match tracing {
        Tracing::Off => false,
        Tracing::Auto => !devices.is_empty(),
        Tracing::On => true,
    };
    let untraced = match is_wanted.then(|| Tracer::open(root, &devices)) {
        Some(Err(error)) if tracing == Tracing::On => return Err(error),
        Some(Err(error)) => Some(error),
        Some(Ok(_)) | None => None,
    };
    if !is_wanted || untraced.is_some() {
        devices.clear();
    }
    if is_wanted {
        let several = record.targets.iter().filter(|of| !of.beside.is_empty());
        let several: Vec<Note> = several.map(untraced_several).collect();
        record.notes.extend(several);
    }
    let texts = missing(untraced, Workers::open(root).err());
    record.notes.extend(texts.into_iter().map(|text| Note {
        level: Level::Remark,
        target: None,
        text,
    }));
    Ok(devices)
}

fn untraced_several(target: &Target) -> Note {
    Note {
        level: Level::Remark,
        target: Some(target.id.clone()),
        text: "where the time goes is not traced: the filesystem is on several devices".to_owned(),
    }
}

/// What is not known of the kernel's work, and how to get it: one line where one remedy does for
/// all.
fn missing(untraced: Option<NoTrace>, uncounted: Option<NoTrace>) -> Vec<String> {
    const TRACE: &str = "where the time goes is not traced";
    const WORKERS: &str = "requests handed to io_uring's worker threads are not counted";
    match (untraced, uncounted) {
        (Some(trace), Some(workers)) if trace.remedy == workers.remedy => {
            vec![format!("{TRACE}, and {WORKERS}: {trace}")]
        }
        (trace, workers) => {
            let trace = trace.map(|why| format!("{TRACE}: {why}"));
            let workers = workers.map(|why| format!("{WORKERS}: {why}"));
            trace.into_iter().chain(workers).collect()
        }
    }
}

/// The device on top, and its disk if it is a partition: requests carry the whole disk.
fn traced_devices(stack: &[DeviceFacts]) -> impl Iterator<Item = DevId> {
    let top = stack.first();
    let disk = stack.get(1).filter(|_| top.is_some_and(is_partition));
    top.into_iter().chain(disk).map(|device| device.dev)
}

fn is_partition(device: &DeviceFacts) -> bool {
    device.kind == DeviceKind::Partition
}

/// What attribution must know of a target, but for the blocks of the data; none where the target
/// lies on no block device.
pub(super) fn scope(root: &Root, record: &Record, id: &str) -> Option<Scope> {
    let target = record.targets.iter().find(|target| target.id == id)?;
    let top = target.stack.first().filter(|_| target.beside.is_empty())?;
    let disk = if is_partition(top) {
        target.stack.get(1)?
    } else {
        top
    };
    let start_bytes = top.partition_start_bytes.filter(|_| is_partition(top));
    let start_bytes = start_bytes.unwrap_or(0);
    let mount = target.mount.as_ref();
    let journal = mount.and_then(|mount| target::journal_ranges(root, mount));
    Some(Scope {
        disk: disk.dev,
        target: start_bytes..start_bytes + top.size_bytes,
        data: Vec::new(),
        data_moves: false,
        journal: journal.unwrap_or_default(),
        own_pid: std::process::id(),
        fs_type: mount.map(|mount| mount.fs_type.clone()),
    })
}

/// Records the passes of one slice.
pub(super) struct Recorder<'a> {
    tracer: Tracer,
    scope: &'a Scope,
    passes: Vec<Pass>,
}

/// One pass, attributed.
struct Pass {
    attributed: Attributed,
    op_times: Vec<OpTime>,
    events: u64,
    handed: u64,
    lost: u64,
}

/// What is written by a pass, in bytes of the target.
pub(super) struct Data {
    /// The blocks, as far as they are known.
    pub(super) ranges: Vec<Range<u64>>,
    /// They may be others for each write.
    pub(super) moves: bool,
}

impl Data {
    /// Lanes of blocks of a device.
    pub(super) fn at(lanes: &[Vec<u64>], size_bytes: u64) -> Data {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for &offset in lanes.iter().flatten() {
            match ranges.last_mut().filter(|last| last.end == offset) {
                Some(last) => last.end += size_bytes,
                None => ranges.push(offset..offset + size_bytes),
            }
        }
        Data {
            ranges,
            moves: false,
        }
    }

    /// Blocks that nothing tells.
    pub(super) fn anywhere() -> Data {
        Data {
            ranges: Vec::new(),
            moves: true,
        }
    }

    /// The blocks that the files of a cell have after a pass (ioctl FS_IOC_FIEMAP).
    pub(super) fn of_files(spec: &CellSpec, fds: &[BorrowedFd<'_>]) -> Result<Data, SliceError> {
        let mut data = Data {
            ranges: Vec::new(),
            moves: spec.file_state != Some(FileState::Overwrite),
        };
        for fd in fds {
            match fiemap::extents(*fd) {
                // Extents without an address of their own, or with one that is no place on the
                // device (btrfs gives logical addresses), tell nothing.
                Ok(extents) => data.ranges.extend(
                    extents
                        .iter()
                        .map(|e| e.physical_bytes..e.physical_bytes + e.length_bytes),
                ),
                Err(_) => data.moves = true,
            }
        }
        Ok(data)
    }
}

impl<'a> Recorder<'a> {
    pub(super) fn new(tracer: Tracer, scope: &'a Scope) -> Recorder<'a> {
        Recorder {
            tracer,
            scope,
            passes: Vec::new(),
        }
    }

    pub(super) fn start(&mut self) -> Result<(), SliceError> {
        self.tracer.start().map_err(|e| untraced(&e))
    }

    pub(super) fn stop(
        &mut self,
        op_times: Vec<OpTime>,
        data: &dyn Fn() -> Result<Data, SliceError>,
    ) -> Result<(), SliceError> {
        let trace = self.tracer.stop().map_err(|e| untraced(&e))?;
        let mut data = data()?;
        if !self.tells_places() {
            data = Data::anywhere();
        }
        let scope = Scope {
            data: data.ranges,
            data_moves: data.moves,
            ..self.scope.clone()
        };
        self.passes.push(Pass {
            attributed: attribute::attribute(&trace.events, &scope),
            op_times,
            events: trace.events.len() as u64,
            handed: trace
                .events
                .iter()
                .filter(|event| tracer::is_handover(event))
                .count() as u64,
            lost: trace.lost,
        });
        Ok(())
    }

    /// The extents are places on the device, as a raw device's are.
    fn tells_places(&self) -> bool {
        let fs_type = self.scope.fs_type.as_deref();
        fs_type.is_none_or(|fs_type| Filesystem::of(fs_type).tells_places())
    }

    /// The slice, once its passes are done.
    pub(super) fn slice(self, sample: &Sample, tally: &Tally) -> TracedSlice {
        TracedSlice {
            dev: self.scope.disk,
            ops: sample.ops,
            bytes: sample.bytes,
            elapsed_ns: sample.elapsed_ns,
            worker_cpu_ns: tally.worker_cpu_ns,
            counted: tally.counted(self.scope.disk).unwrap_or_default(),
            passes: self.passes,
        }
    }
}

fn untraced(error: &std::io::Error) -> SliceError {
    SliceError::Cell(format!("cannot record the kernel's events: {error}"))
}

/// One traced slice of a cell.
pub struct TracedSlice {
    dev: DevId,
    ops: u64,
    bytes: u64,
    elapsed_ns: u64,
    worker_cpu_ns: u64,
    counted: BlockStat,
    passes: Vec<Pass>,
}

impl TracedSlice {
    /// What io_uring handed to worker threads; none where events were lost.
    pub(super) fn handed(&self) -> Option<Handed> {
        let whole = self.passes.iter().all(|pass| pass.lost == 0);
        whole.then(|| Handed {
            ops: self.ops,
            requests: self.passes.iter().map(|pass| pass.handed).sum(),
            worker_cpu_ns: self.worker_cpu_ns,
        })
    }
}

/// All traced slices of a cell so far.
#[derive(Default)]
pub(super) struct TracedSlices {
    slices: Vec<TracedSlice>,
}

impl TracedSlices {
    pub(super) fn add(&mut self, slice: TracedSlice) {
        self.slices.push(slice);
    }

    /// What they tell together; none if there is no slice.
    pub(super) fn traced(&self, spec: &CellSpec) -> Option<Traced> {
        let dev = self.slices.first()?.dev;
        let sum = |of: fn(&TracedSlice) -> u64| self.slices.iter().map(of).sum();
        let passes = || self.slices.iter().flat_map(|slice| &slice.passes);
        let anatomy = if one_at_a_time(spec) {
            // Where events were lost, a write would seem to wait for nothing.
            let whole = || passes().filter(|pass| pass.lost == 0);
            let requests: Vec<Request> = whole()
                .flat_map(|pass| pass.attributed.requests.iter().copied())
                .collect();
            let reads: Vec<Read> = whole()
                .flat_map(|pass| pass.attributed.reads.iter().copied())
                .collect();
            let ops: Vec<OpTime> = whole()
                .flat_map(|pass| pass.op_times.iter().copied())
                .collect();
            phases::phases(&requests, &reads, &ops)
        } else {
            phases::Anatomy::default()
        };
        let mut counted = BlockStat::default();
        for slice in &self.slices {
            counted = counted.plus(&slice.counted);
        }
        Some(Traced {
            dev,
            slices: self.slices.len() as u32,
            ops: sum(|slice| slice.ops),
            bytes: sum(|slice| slice.bytes),
            elapsed_ns: sum(|slice| slice.elapsed_ns),
            events: passes().map(|pass| pass.events).sum(),
            lost_events: passes().map(|pass| pass.lost).sum(),
            classes: classes(passes().map(|pass| &pass.attributed)),
            counted,
            phase_ops: anatomy.ops,
            phases: anatomy.phases,
            phase_latency_ns: anatomy.latency_ns,
            typical: anatomy.typical,
        })
    }
}

/// A write's time can be told from its neighbours' only where there is one at a time.
fn one_at_a_time(spec: &CellSpec) -> bool {
    spec.axes.queue_depth == 1 && spec.axes.jobs == 1 && spec.axes.rate_per_s.is_none()
}

fn classes<'p>(parts: impl Iterator<Item = &'p Attributed>) -> Vec<ClassTraffic> {
    let none = |class| ClassTraffic {
        class,
        requests: 0,
        fua_requests: 0,
        bytes: 0,
    };
    let mut sums = Class::ALL.map(none);
    for traffic in parts.flat_map(|part| &part.classes) {
        for sum in sums.iter_mut().filter(|sum| sum.class == traffic.class) {
            sum.requests += traffic.requests;
            sum.fua_requests += traffic.fua_requests;
            sum.bytes += traffic.bytes;
        }
    }
    sums.to_vec()
}
