//! Has the engine run a side.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use nix::fcntl::OFlag;

use crate::engine::Data;
use crate::engine::timeline::{
    Background, ChurnJob, Counted, Log, Pace, Schedule, SegmentsJob, Tick, churn, commits, segments,
};
use crate::guard::WriteGrant;
use crate::model::cell::Payload;
use crate::model::timeline::{Checkpoint, Segments, WalAppend, Workload};
use crate::scratch::ScratchFile;
use crate::sys::root::Root;

use super::dirs::{WorkloadDir, WorkloadDirs};
use super::sides::Side;

/// What a stretch needs to know of its run.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) root: &'a Root,
    /// When the run began.
    pub(super) begun_ns: u64,
    pub(super) repetition: u32,
    /// Of the payload and of random offsets.
    pub(super) seed: u64,
    pub(super) payload: Payload,
    pub(super) stop: &'a AtomicBool,
}

/// One run of a side.
pub(super) struct Drive<'a> {
    pub(super) ground: &'a WorkloadDir,
    pub(super) course: &'a Schedule,
    pub(super) context: &'a Context<'a>,
    pub(super) tick: &'a mut dyn FnMut(Tick) -> bool,
}

/// Runs `side`.
pub(super) fn drive(
    grounds: &WorkloadDirs,
    side: Side,
    drive: Drive<'_>,
) -> anyhow::Result<Counted> {
    match (&drive.ground.workload, side) {
        (_, Side::Raw) => {
            let extents = drive
                .ground
                .raw
                .as_ref()
                .and_then(|raw| raw.extents.as_ref());
            let grant = extents.or(grounds.device.as_ref());
            drive.raw(grant.context("the device's side has no device")?)
        }
        (Workload::Churn(shape), _) => {
            let job = ChurnJob {
                folder: drive.ground.scratch.folder(),
                churn: shape,
                payload: drive.context.payload,
                seed: drive.context.seed,
            };
            Ok(churn(drive.course, &job, drive.context.stop, drive.tick)?)
        }
        (Workload::Checkpoint(shape), _) => drive.checkpoint(shape),
        (Workload::WalAppend(shape), Side::Segments(kind)) => drive.segments(shape, kind),
        (Workload::WalAppend(_), Side::File) => anyhow::bail!("segments come from somewhere"),
    }
}

impl Drive<'_> {
    fn raw(self, grant: &WriteGrant) -> anyhow::Result<Counted> {
        let (record_bytes, clients, group_commit) = committing(&self.ground.workload);
        let lanes = grant.file_bytes().count().max(1);
        // All segments of a log, one behind the other; a device that was named has one lane.
        let offsets: Vec<u64> = (0..lanes)
            .flat_map(|lane| grant.offsets(lane, lanes, record_bytes))
            .collect();
        let flags = OFlag::O_DSYNC | OFlag::O_DIRECT;
        let device = grant.open(flags)?;
        let data = match grant.preserved() {
            Some(bytes) => Data::Preserved {
                bytes,
                base_bytes: 0,
            },
            None => Data::Fresh(self.context.payload),
        };
        let log = Log {
            fd: device.as_fd(),
            is_device: true,
            offsets: &offsets,
            record_bytes,
            data,
            seed: self.context.seed,
            clients,
            group_commit,
        };
        let held = grant.hold()?;
        let counted = commits(self.course, &log, None, self.context.stop, self.tick);
        held.release()?;
        Ok(counted?)
    }

    fn checkpoint(self, shape: &Checkpoint) -> anyhow::Result<Counted> {
        let ground = self.ground;
        let files = ground.scratch.all();
        let log_file = ground.logs.first().and_then(|&log| files.get(log));
        let log_file = log_file.context("the workload has no log")?;
        let data_file = ground.data.and_then(|data| files.get(data));
        let data_file = data_file.context("the workload has no data file")?;
        let opened = open(log_file, ground.log_flags)?;
        let data = open(data_file, OFlag::empty())?;
        // Both sides write the same blocks: those that the device has in one piece.
        let extents = ground.raw.as_ref().and_then(|raw| raw.extents.as_ref());
        let offsets = match extents {
            Some(grant) => grant.file_offsets(0, shape.record_bytes),
            None => (0..shape.log_bytes / shape.record_bytes)
                .map(|record| record * shape.record_bytes)
                .collect(),
        };
        let log = Log {
            fd: opened.as_fd(),
            is_device: false,
            offsets: &offsets,
            record_bytes: shape.record_bytes,
            data: Data::Fresh(self.context.payload),
            seed: self.context.seed,
            clients: shape.clients,
            group_commit: shape.group_commit,
        };
        let pages = (shape.data_bytes / shape.page_bytes, shape.page_bytes);
        let pace = Pace {
            dirty_pages_per_s: shape.dirty_pages_per_s,
            interval_ns: shape.interval_ns,
            spread_ns: (shape.interval_ns as f64 * shape.spread_share) as u64,
        };
        let (payload, seed) = (self.context.payload, !self.context.seed);
        let background = Background::new(data.as_fd(), pages, &pace, payload, seed);
        let stop = self.context.stop;
        Ok(commits(
            self.course,
            &log,
            Some(&background),
            stop,
            self.tick,
        )?)
    }

    fn segments(self, shape: &WalAppend, kind: Segments) -> anyhow::Result<Counted> {
        let job = SegmentsJob {
            folder: self.ground.scratch.folder(),
            wal: shape,
            segments: kind,
            flags: self.ground.log_flags,
            payload: self.context.payload,
            seed: self.context.seed,
        };
        Ok(segments(self.course, &job, self.context.stop, self.tick)?)
    }
}

/// What the device's side commits: bytes of a record, clients, and whether in groups.
fn committing(workload: &Workload) -> (u64, u32, bool) {
    match workload {
        Workload::Checkpoint(shape) => (shape.record_bytes, shape.clients, shape.group_commit),
        Workload::WalAppend(shape) => (shape.record_bytes, 1, false),
        Workload::Churn(shape) => (shape.write_bytes, 1, false),
    }
}

fn open(file: &ScratchFile, flags: OFlag) -> anyhow::Result<File> {
    let opened: io::Result<_> = file.open_pass(flags);
    let opened = opened.with_context(|| format!("cannot open {}", file.path().display()))?;
    Ok(opened.file)
}
