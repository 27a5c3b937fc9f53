//! From a survey to files that a workload can write, and the rights that its other side needs.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use nix::fcntl::OFlag;

use crate::guard::{self, WriteGrant};
use crate::model::facts::MountFacts;
use crate::model::record::{BaselineKind, Record};
use crate::model::timeline::Workload;
use crate::scratch::Scratch;
use crate::session::baseline::{DEVICE, no_baseline};
use crate::session::counters::{self, Counters};
use crate::session::prepare::{cannot_open, direct_lost, take_device};
use crate::session::request::SetupError;
use crate::session::survey::Survey;
use crate::session::write_target::WriteTarget;
use crate::sys::root::Root;

/// What a log's O_DIRECT is tried with.
const PROBE_BYTES: u64 = 8 << 10;

/// Where workloads run.
#[derive(Debug)]
pub struct WorkloadDirs {
    pub(super) grounds: Vec<WorkloadDir>,
    /// The device that was named, which all directories are compared with.
    pub(super) device: Option<WriteGrant>,
}

/// A directory that a workload runs in.
#[derive(Debug)]
pub(super) struct WorkloadDir {
    pub(super) target: String,
    pub(super) workload: Workload,
    /// Of the devices below it.
    pub(super) counters: Counters,
    /// First, so that its files are no longer held when they are removed.
    pub(super) raw: Option<Raw>,
    pub(super) scratch: Scratch,
    /// The files that are committed to: the log, or the segments. Indexes into the scratch files.
    pub(super) logs: Vec<usize>,
    /// The flags that they are opened with.
    pub(super) log_flags: OFlag,
    /// The data file.
    pub(super) data: Option<usize>,
    /// A side failed, so nothing more is measured here.
    pub(super) has_failed: bool,
}

/// The device's side.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) target: String,
    pub(super) counters: Counters,
    /// The blocks of the log; none: the device that was named.
    pub(super) extents: Option<WriteGrant>,
}

/// Lays out the files of a survey's workloads, and takes the grants. As [`crate::session::prepare`]
/// does for cells.
pub fn prepare_workloads(
    root: &Root,
    mut survey: Survey,
    confirmation: Option<(&str, bool)>,
    state: Option<&Path>,
    stop: &AtomicBool,
) -> Result<(Record, WorkloadDirs), SetupError> {
    let workloads = std::mem::take(&mut survey.workloads);
    let span_bytes = workloads
        .iter()
        .map(|(_, workload)| log_bytes(workload))
        .max();
    let is_used = survey.record.targets.iter().any(|target| {
        let baseline = target.baseline.as_ref();
        baseline.is_some_and(|baseline| baseline.kind == BaselineKind::Device)
    });
    let device = match span_bytes.filter(|_| is_used) {
        Some(span_bytes) => take_device(&mut survey, span_bytes, confirmation, stop)?,
        None => None,
    };
    let device = device.and_then(|(_, place)| match place {
        WriteTarget::Device(grant) => Some(grant),
        WriteTarget::Extents(_) | WriteTarget::Scratch(_) => None,
    });
    let mut grounds = Vec::new();
    for ((id, mount), (_, workload)) in std::mem::take(&mut survey.mounts)
        .into_iter()
        .zip(workloads)
    {
        let made = ground(
            root,
            &mut survey.record,
            (&id, &mount),
            workload,
            state,
            stop,
        );
        match made {
            Ok(ground) => grounds.push(ground),
            Err(SetupError::Interrupted) => return Err(SetupError::Interrupted),
            Err(error) if survey.all => {
                survey.warn(None, format!("{} is left out: {error}", mount.mount_point));
                forget(&mut survey.record, &id);
            }
            Err(error) => return Err(error),
        }
    }
    if grounds.is_empty() {
        let text = "no filesystem is left that can be measured".to_owned();
        return Err(SetupError::Cannot(text));
    }
    Ok((survey.record, WorkloadDirs { grounds, device }))
}

/// Takes a directory and the device below it out of the record.
fn forget(record: &mut Record, id: &str) {
    let raw = format!("{id}.raw");
    record
        .targets
        .retain(|target| target.id != id && target.id != raw);
}

/// Bytes of what is committed to.
fn log_bytes(workload: &Workload) -> u64 {
    match workload {
        Workload::Checkpoint(checkpoint) => checkpoint.log_bytes,
        Workload::Churn(_) => 0,
        Workload::WalAppend(wal) => wal.segment_bytes,
    }
}

fn ground(
    root: &Root,
    record: &mut Record,
    (id, mount): (&str, &MountFacts),
    workload: Workload,
    state: Option<&Path>,
    stop: &AtomicBool,
) -> Result<WorkloadDir, SetupError> {
    let Some(index) = record.targets.iter().position(|target| target.id == id) else {
        return Err(SetupError::Cannot(format!("there is no target {id}")));
    };
    let seed = record.run.seed;
    let mut scratch = Scratch::create(root, Path::new(&record.targets[index].path), state)?;
    let mut logs = Vec::new();
    let mut data = None;
    match &workload {
        Workload::Churn(_) => {}
        Workload::Checkpoint(checkpoint) => {
            logs.push(scratch.lay_out_named("log", checkpoint.log_bytes, seed, stop)?);
            let data_seed = seed.wrapping_add(1);
            data = Some(scratch.lay_out_named("data", checkpoint.data_bytes, data_seed, stop)?);
        }
        Workload::WalAppend(wal) => {
            for segment in 0..wal.kept_segments {
                let seed = seed.wrapping_add(u64::from(segment));
                let name = format!("old-{segment}");
                logs.push(scratch.lay_out_named(&name, wal.segment_bytes, seed, stop)?);
            }
        }
    }
    let mut log_flags = OFlag::O_DSYNC | OFlag::O_DIRECT;
    if let Some(&log) = logs.first() {
        let file = &scratch.all()[log];
        let target = &record.targets[index];
        let lost = direct_lost(root, target, &record.host.kernel, file, PROBE_BYTES)?;
        if lost.as_ref().is_some_and(|lost| lost.is_refused) {
            log_flags = OFlag::O_DSYNC;
        }
        record.targets[index].buffered = lost.map(|lost| lost.reason);
    }
    let raw = raw_side(root, record, index, &scratch, &logs, mount)?;
    Ok(WorkloadDir {
        target: id.to_owned(),
        workload,
        counters: counters::of(root, record, id),
        raw,
        scratch,
        logs,
        log_flags,
        data,
        has_failed: false,
    })
}

/// The device's side, where the survey planned one and it can be had.
fn raw_side(
    root: &Root,
    record: &mut Record,
    index: usize,
    scratch: &Scratch,
    logs: &[usize],
    mount: &MountFacts,
) -> Result<Option<Raw>, SetupError> {
    let Some(baseline) = &record.targets[index].baseline else {
        return Ok(None);
    };
    let Some(target) = baseline.target.clone() else {
        return Ok(None);
    };
    let counters = counters::of(root, record, &target);
    if target == DEVICE {
        return Ok(Some(Raw {
            target,
            counters,
            extents: None,
        }));
    }
    let mut files = Vec::new();
    for &log in logs {
        let file = &scratch.all()[log];
        files.push(
            file.open_as_is()
                .map_err(|error| cannot_open(file, &error))?,
        );
    }
    match guard::extents(root, mount, &files.iter().collect::<Vec<_>>()) {
        Ok(grant) => Ok(Some(Raw {
            target,
            counters,
            extents: Some(grant),
        })),
        Err(error) => {
            let none = no_baseline(error.reason().to_owned(), error.remedy().to_owned());
            record.targets[index].baseline = Some(none);
            record.targets.retain(|other| other.id != target);
            Ok(None)
        }
    }
}
