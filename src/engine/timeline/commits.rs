//! Clients that commit to one log, alone or beside a data file that is checkpointed.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::engine::EngineError;
use crate::engine::spec::Data;
use crate::model::timeline::Phase;
use crate::sys::clock::monotonic_ns;
use crate::workload::log::pieces;

use super::background::{Background, Checkpointed, Dirtied};
use super::conduct::{Actor, Schedule, Stage, Tick, conduct};
use super::counted::Counted;
use super::failure::Failure;
use super::group::Queue;
use super::series::{Op, Series};
use super::writer::{Sink, Write, with_writer};

/// A log, and who commits to it.
#[derive(Clone, Copy, Debug)]
pub struct Log<'a> {
    /// A file or a device, open with O_DSYNC.
    pub fd: BorrowedFd<'a>,
    /// It is a device.
    pub is_device: bool,
    /// Where its records are. Must not be empty.
    pub offsets: &'a [u64],
    /// Bytes of each.
    pub record_bytes: u64,
    /// What they carry.
    pub data: Data<'a>,
    /// Of the payload.
    pub seed: u64,
    /// Clients.
    pub clients: u32,
    /// Records that wait together are written together.
    pub group_commit: bool,
}

/// Has clients commit until the course ends or `stop` is set, while `background` dirties a data file
/// and checkpoints it. Calls `tick` at each interval's end.
pub fn commits(
    course: &Schedule,
    log: &Log<'_>,
    background: Option<&Background<'_>>,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(Tick) -> bool,
) -> Result<Counted, EngineError> {
    if log.offsets.is_empty() {
        return Err(EngineError::Unsupported {
            why: "the log has no room for a record".to_owned(),
        });
    }
    let stage = Stage::new(course, stop);
    let phase = AtomicUsize::new(0);
    let shared = Shared {
        log,
        stage: &stage,
        phase: &phase,
        next: AtomicU64::new(0),
        queue: Queue::default(),
    };
    let phases = background.map_or(1, |background| background.most_phases(course));
    let mut actors: Vec<Actor<'_, Made>> = Vec::new();
    for client in 0..log.clients {
        let series = Series::new(course, stage.origin_ns, phases);
        let shared = &shared;
        actors.push(Box::new(move || {
            Made::Client(Box::new(shared.client(client, series)))
        }));
    }
    if let Some(background) = background {
        let (stage, phase) = (&stage, &phase);
        actors.push(Box::new(move || Made::Dirtied(background.dirty(stage))));
        actors.push(Box::new(move || {
            Made::Checkpointed(background.checkpoint(stage, phase))
        }));
    }
    let made = conduct(&stage, course.interval_ns, actors, tick)?;
    add_up(made, stage.origin_ns)
}

/// What an actor gave.
enum Made {
    Client(Box<Result<Series, EngineError>>),
    Dirtied(Result<Dirtied, EngineError>),
    Checkpointed(Checkpointed),
}

fn add_up(made: Vec<Made>, origin_ns: u64) -> Result<Counted, EngineError> {
    let mut clients = Vec::new();
    let mut dirtied = None;
    let mut checkpointed = None;
    for one in made {
        match one {
            Made::Client(series) => clients.push((*series)?),
            Made::Dirtied(pages) => dirtied = Some(pages?),
            Made::Checkpointed(phases) => checkpointed = Some(phases),
        }
    }
    let mut counted = Counted::of(&clients.iter().collect::<Vec<_>>());
    let failures = [
        dirtied.as_ref().and_then(|dirtied| dirtied.failure),
        checkpointed.as_ref().and_then(|done| done.failure),
    ];
    for failure in failures.into_iter().flatten() {
        counted.errors += 1;
        counted.failure.get_or_insert(failure);
    }
    counted.dirtied_pages = dirtied.map_or(0, |dirtied| dirtied.pages);
    if let Some(checkpointed) = checkpointed {
        let end_ns = origin_ns + counted.elapsed_ns;
        counted.phases = phases(&checkpointed, &clients, origin_ns, end_ns);
    }
    Ok(counted)
}

/// Checkpoints and the times between them, with what was committed in each. Phases are numbered:
/// even ones lie between checkpoints.
fn phases(done: &Checkpointed, clients: &[Series], origin_ns: u64, end_ns: u64) -> Vec<Phase> {
    let mut phases = Vec::new();
    let mut from_ns = origin_ns;
    let mut add = |start_ns: u64, end_ns: u64, checkpoint| {
        let number = phases.len();
        let ops = clients
            .iter()
            .filter_map(|series| series.phase_ops.get(number));
        phases.push(Phase {
            start_ns: start_ns - origin_ns,
            end_ns: end_ns.max(start_ns) - origin_ns,
            ops: ops.sum(),
            checkpoint,
        });
    };
    for checkpoint in &done.checkpoints {
        add(from_ns, checkpoint.start_ns, None);
        add(
            checkpoint.start_ns,
            checkpoint.end_ns,
            Some(checkpoint.writeback),
        );
        from_ns = checkpoint.end_ns;
    }
    add(from_ns, end_ns, None);
    phases
}

/// What all clients know.
struct Shared<'a> {
    log: &'a Log<'a>,
    stage: &'a Stage<'a>,
    /// The number of the phase; odd while a checkpoint runs.
    phase: &'a AtomicUsize,
    /// The number of the next record.
    next: AtomicU64,
    queue: Queue,
}

impl Shared<'_> {
    fn client(&self, client: u32, mut series: Series) -> Result<Series, EngineError> {
        let log = self.log;
        let together = if log.group_commit { log.clients } else { 1 };
        let sink = Sink {
            fd: log.fd,
            is_device: log.is_device,
            data: log.data,
            // No two clients write the same bytes.
            seed: log.seed ^ u64::from(client).rotate_left(32),
            record_bytes: log.record_bytes,
            longest_bytes: log.record_bytes * u64::from(together),
        };
        let made = with_writer(&sink, |writer| {
            self.stage.begin();
            match log.group_commit {
                true => self.commit_on(writer, &mut series, Shared::together),
                false => self.commit_on(writer, &mut series, Shared::alone),
            }
        });
        // The others don't go on without this one.
        made.inspect_err(|_| self.stage.quit())?;
        Ok(series)
    }

    /// Commits one record after the other.
    fn commit_on(
        &self,
        writer: &mut dyn Write,
        series: &mut Series,
        commit: fn(&Self, &mut dyn Write) -> Result<u64, Failure>,
    ) {
        let mut now_ns = monotonic_ns();
        while self.stage.goes_on(now_ns) {
            let phase = self.phase.load(Ordering::Relaxed);
            match commit(self, writer) {
                Ok(begun_ns) => {
                    now_ns = monotonic_ns();
                    series.complete(Op {
                        begun_ns,
                        ended_ns: now_ns,
                        bytes: self.log.record_bytes,
                        phases: (phase, self.phase.load(Ordering::Relaxed)),
                    });
                }
                Err(failure) => {
                    series.fail(failure);
                    self.stage.quit();
                }
            }
        }
        series.end(now_ns);
    }

    /// Commits a record by itself, and gives when it was begun.
    fn alone(&self, writer: &mut dyn Write) -> Result<u64, Failure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        writer.prepare(self.log.record_bytes);
        let begun_ns = monotonic_ns();
        for piece in pieces(self.log.offsets, number, 1, self.log.record_bytes) {
            writer.write(piece)?;
        }
        Ok(begun_ns)
    }

    /// Commits a record with those that wait, and gives when it was handed in.
    fn together(&self, writer: &mut dyn Write) -> Result<u64, Failure> {
        let begun_ns = monotonic_ns();
        let log = self.log;
        self.queue.commit(log.offsets, log.record_bytes, writer)?;
        Ok(begun_ns)
    }
}
