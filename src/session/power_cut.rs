//! A device's promises, before a witness: records are written, and reported once they were acknowledged.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine;
use crate::guard::{self, Confirmations, Lookout, Permit};
use crate::model::cell::{EngineKind, Method};
use crate::model::durability::{DeviceKey, Manifest};
use crate::model::facts::{DeviceFacts, DeviceKind};
use crate::scratch::open_flags;
use crate::sys::root::Root;
use crate::target;
use crate::witness::{PeerError, Reports};
use crate::workload::stamp::{self, Stamp};

use super::request::SetupError;

/// The most reports that may be unanswered: what a cut leaves unpromised.
const WINDOW: u64 = 64;

/// How records are written.
#[derive(Clone, Copy, Debug)]
pub struct PowerCutConfig {
    /// What is written of the device, from its start: at most.
    pub span_bytes: u64,
    /// Bytes of a record.
    pub record_bytes: u64,
    /// What makes a write durable.
    pub method: Method,
    /// What issues the writes.
    pub engine: EngineKind,
    /// Writing ends after this; none is until a signal, or the power's end.
    pub duration: Option<Duration>,
    /// Or after so many records.
    pub records: Option<u64>,
}

/// A claimed device whose promises are to be witnessed.
#[derive(Debug)]
pub struct PowerCutWriter {
    permit: Permit,
    vow: PowerCutConfig,
    /// What the witness is told.
    pub pledge: Manifest,
}

impl From<PeerError> for SetupError {
    fn from(error: PeerError) -> SetupError {
        match error {
            PeerError::Interrupted => SetupError::Interrupted,
            other => SetupError::Cannot(other.to_string()),
        }
    }
}

/// Claims a device and judges it; nothing is written.
pub fn promiser(
    root: &Root,
    path: &Path,
    vow: PowerCutConfig,
) -> Result<PowerCutWriter, SetupError> {
    if !matches!(
        vow.method,
        Method::ODsync | Method::OSync | Method::RwfDsync | Method::Fdatasync | Method::Fsync
    ) {
        let text = format!(
            "with method {}, nothing is promised that a witness could hold a device \
                            to; use o_dsync, o_sync, rwf_dsync, fdatasync or fsync",
            vow.method
        );
        return Err(SetupError::Usage(text));
    }
    if vow.engine == EngineKind::Null {
        let text = "the null engine writes nothing that a device could keep; use uring or sync";
        return Err(SetupError::Usage(text.to_owned()));
    }
    let permit = guard::check(root, path)?;
    let device = key(root, permit.facts());
    let block_bytes = permit.facts().first().and_then(|d| d.logical_block_bytes);
    let block_bytes = block_bytes.unwrap_or(512).max(1);
    if !vow.record_bytes.is_multiple_of(block_bytes) {
        let text = format!(
            "--record-size {}: the device writes whole blocks of {block_bytes} bytes",
            vow.record_bytes
        );
        return Err(SetupError::Usage(text));
    }
    let span_bytes = vow.span_bytes.min(device.size_bytes);
    let places = span_bytes / vow.record_bytes.max(1);
    let pledge = Manifest {
        id: format!("{:032x}", fastrand::u128(..)),
        span_bytes: span_bytes - span_bytes % vow.record_bytes.max(1),
        record_bytes: vow.record_bytes,
        method: vow.method,
        engine: vow.engine,
        window: WINDOW.min(places.saturating_sub(1) / 2),
        boot_id: boot_id(root)?,
        started: jiff::Timestamp::now().to_string(),
        device,
    };
    if let Some(fault) = pledge.fault() {
        return Err(SetupError::Usage(fault));
    }
    Ok(PowerCutWriter {
        permit,
        vow,
        pledge,
    })
}

impl PowerCutWriter {
    /// What the guard can't rule out.
    pub fn doubts(&self) -> Vec<String> {
        self.permit.doubts(false)
    }

    /// What overwriting the device must be confirmed with.
    pub fn confirmations(&self) -> Confirmations {
        self.permit.confirmations()
    }

    /// Writes records and reports each to the witness at `address`, until the time is over or `stop` is
    /// set, and says goodbye. `promised` is called once the first one is promised. Gives how many were
    /// acknowledged.
    pub fn promise(
        self,
        address: &str,
        confirmation: (&str, bool),
        stop: &AtomicBool,
        promised: &mut dyn FnMut(&Manifest) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let PowerCutWriter {
            permit,
            vow,
            pledge,
        } = self;
        let (typed, force) = confirmation;
        let grant = permit.overwrite(pledge.span_bytes, typed, force);
        let grant = grant.map_err(SetupError::from)?;
        let fd = grant.open(open_flags(pledge.method, true));
        let fd = fd.map_err(SetupError::from)?;
        let mut reports = Reports::begin(address, &pledge, stop).map_err(SetupError::from)?;
        let begun = Instant::now();
        let mut lookout = Lookout::default();
        let mut more = |written: u64| {
            lookout.look([&grant]).map_err(SetupError::from)?;
            Ok(!stop.load(Ordering::Relaxed)
                && vow.duration.is_none_or(|time| begun.elapsed() < time)
                && vow.records.is_none_or(|records| written < records))
        };
        let acknowledged = write(fd.as_fd(), &pledge, &mut reports, &mut more, promised)?;
        reports.end().map_err(SetupError::from)?;
        Ok(acknowledged)
    }
}

/// Writes records one after the other and reports each, while `more` says so. Gives how many were
/// acknowledged.
fn write(
    fd: BorrowedFd<'_>,
    pledge: &Manifest,
    reports: &mut Reports<'_>,
    more: &mut dyn FnMut(u64) -> Result<bool, SetupError>,
    promised: &mut dyn FnMut(&Manifest) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let run = pledge.run().unwrap_or_default();
    let mut sequence = 0;
    let mut failed = None;
    let mut next = |bytes: &mut [u8]| -> anyhow::Result<Option<u64>> {
        if sequence > 0 {
            reports.wrote(sequence).map_err(SetupError::from)?;
        }
        if sequence == 1 {
            reports.settle().map_err(SetupError::from)?;
            promised(pledge)?;
        }
        if !more(sequence)? {
            return Ok(None);
        }
        reports.room_for(sequence + 1).map_err(SetupError::from)?;
        sequence += 1;
        let stamp = Stamp {
            run,
            sequence,
            offset_bytes: pledge.offset_bytes(sequence),
            length_bytes: pledge.record_bytes as u32,
        };
        stamp::write(&stamp, bytes);
        Ok(Some(stamp.offset_bytes))
    };
    engine::one_by_one(
        fd,
        pledge.engine,
        pledge.method,
        pledge.record_bytes as usize,
        &mut |bytes| {
            next(bytes).unwrap_or_else(|error| {
                failed = Some(error);
                None
            })
        },
    )
    .map_err(SetupError::from)?;
    match failed {
        // A signal while the witness was waited for ends a run as one between two records does.
        Some(error) if !is_interruption(&error) => Err(error),
        _ => Ok(sequence),
    }
}

fn is_interruption(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(SetupError::Interrupted))
}

/// What tells a device from others: a serial number is its own drive's.
pub(super) fn key(root: &Root, stack: &[DeviceFacts]) -> DeviceKey {
    let drive = match stack {
        [partition, disk, ..] if partition.kind == DeviceKind::Partition => Some(disk),
        stack => stack.first(),
    };
    let first = stack.first();
    DeviceKey {
        hostname: target::host(root).hostname,
        name: first.map(|device| device.name.clone()).unwrap_or_default(),
        serial: drive.and_then(|drive| drive.serial.clone()),
        model: drive.and_then(|drive| drive.model.clone()),
        start_bytes: first.and_then(|d| d.partition_start_bytes).unwrap_or(0),
        size_bytes: first.map_or(0, |device| device.size_bytes),
    }
}

pub(super) fn boot_id(root: &Root) -> Result<String, SetupError> {
    target::boot_id(root)
        .map_err(|error| SetupError::Cannot(format!("cannot read this boot's id: {error}")))
}
