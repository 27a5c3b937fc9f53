//! One job's thread: makes its port ready, waits for the others, measures.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;

use super::error::{EngineError, from_setup};
use super::gate::Seat;
use super::issue_loop::{LaneWork, drive};
use super::meter::{Measured, Meter};
use super::null::{Instant, Virtual};
use super::pace::Arrivals;
use super::port::Port;
use super::spec::{Data, Lane, Spec, To};
use super::sync::{self, Calls, Sink};
use super::uring::{self, Uring};
use crate::model::cell::{EngineKind, Method, Payload};
use crate::model::sample::JobUse;
use crate::model::traffic::ProcessCount;
use crate::sys::buffer::Aligned;
use crate::sys::clock::thread_cpu_ns;
use crate::sys::pulse;
use crate::sys::ring::{self, Config, Durability, Memory, SetupError};
use crate::sys::root::Root;
use crate::sys::usage;
use crate::workload::pattern::Cursor;
use crate::workload::payload::Filler;

/// What makes a ring's writes durable by `method`.
pub(super) fn durability(method: Method) -> Durability {
    match method {
        Method::RwfDsync => Durability::Dsync,
        Method::Fdatasync => Durability::Fdatasync,
        Method::Fsync => Durability::Fsync,
        // An empty flush is refused for a ring: see `super::check`.
        Method::ODsync | Method::OSync | Method::None | Method::EmptyFlush => {
            Durability::Descriptor
        }
    }
}

/// What this thread took since `begun`; nothing where the kernel doesn't say.
fn took(begun: Option<ProcessCount>) -> ProcessCount {
    let both = usage::of_thread().zip(begun);
    both.map_or_else(ProcessCount::default, |(now, begun)| now.since(&begun))
}

/// What a job's thread works from.
pub(super) struct Job<'a> {
    pub(super) lane: Lane<'a>,
    pub(super) spec: &'a Spec,
    /// Which of `jobs` this is, from 0.
    pub(super) index: u64,
    pub(super) jobs: u64,
    pub(super) seat: Seat<'a>,
    pub(super) stop: &'a AtomicBool,
}

impl Job<'_> {
    /// Does the job, in the thread that calls this. None if another job could not be made ready,
    /// so that none started.
    pub(super) fn work(self) -> Result<Option<Measured>, EngineError> {
        let (begun_ns, begun) = (thread_cpu_ns(), usage::of_thread());
        pulse::beat();
        let mut measured = self.measured()?;
        if let Some(measured) = &mut measured {
            // Taken last: what it takes to tear the ring down is this thread's work too.
            measured.used.cpu_ns = thread_cpu_ns() - begun_ns;
            measured.used.took = took(begun);
        }
        pulse::beat();
        Ok(measured)
    }

    fn measured(&self) -> Result<Option<Measured>, EngineError> {
        match (self.spec.kind, self.lane.to) {
            (EngineKind::Null, _) => self.work_null(),
            (
                _,
                To::Reopen {
                    folder,
                    name,
                    flags,
                },
            ) => {
                let name = CString::new(name).map_err(|_| {
                    self.setup("its file's name", io::ErrorKind::InvalidInput.into())
                })?;
                let fallbacks = match self.spec.kind {
                    EngineKind::Uring => vec![
                        "trunc-each opens, writes and closes by plain system calls, not by \
                         io_uring"
                            .to_owned(),
                    ],
                    _ => Vec::new(),
                };
                self.work_calls(Sink::Reopen(folder, name, flags), fallbacks)
            }
            (EngineKind::Uring, To::Fd(fd)) => self.work_uring(fd),
            (EngineKind::Sync, To::Fd(fd)) => self.work_calls(Sink::Fd(fd), Vec::new()),
            (_, To::Nothing) => Err(EngineError::Unsupported {
                why: "only the null engine writes to nothing".into(),
            }),
        }
    }

    fn work_uring(&self, fd: BorrowedFd<'_>) -> Result<Option<Measured>, EngineError> {
        let size_bytes = self.size_bytes();
        let (memory, source) = match self.lane.data {
            Data::Fresh(payload) => {
                let source = uring::Source::Slots(self.filler(payload)?);
                (Memory::Slots(size_bytes), source)
            }
            Data::Preserved { bytes, base_bytes } => {
                let (from, to) = self.covered(base_bytes);
                let memory = Memory::Span {
                    bytes: &bytes[from..to],
                    unit_bytes: size_bytes,
                };
                let base_bytes = base_bytes + from as u64;
                (memory, uring::Source::Span { base_bytes })
            }
        };
        let config = Config {
            fd,
            memory,
            slots: self.spec.queue_depth,
            durability: durability(self.spec.method),
            sqpoll: self.spec.ring.sqpoll,
            iopoll: self.spec.ring.iopoll,
        };
        ring::with_ring(&config, |ring| {
            let mut fallbacks = ring.fallbacks().to_vec();
            if self.spec.rate_per_s.is_some() && !ring.has_timed_waits() {
                fallbacks.push(
                    "io_uring: no timed waits here (kernels from 5.11 have them, polled rings \
                     never): the rate is kept by spinning, which takes processor time"
                        .into(),
                );
            }
            let slots = self.spec.queue_depth;
            let mut port = Uring::new(ring, source, size_bytes as u32, slots);
            self.measure(&mut port, fallbacks)
        })
        .map_err(|error| match error {
            SetupError::Memory(error) => self.setup("memory for its writes", error),
            SetupError::Ring(error) => from_setup(error, &Root::host()),
        })?
    }

    fn work_calls(
        &self,
        sink: Sink<'_>,
        fallbacks: Vec<String>,
    ) -> Result<Option<Measured>, EngineError> {
        let size_bytes = self.size_bytes();
        let source = match self.lane.data {
            Data::Fresh(payload) => {
                let (buffer, filler) = self.filled(payload, size_bytes)?;
                sync::Source::Buffer(buffer, filler)
            }
            Data::Preserved { bytes, base_bytes } => sync::Source::Span { bytes, base_bytes },
        };
        let mut port = Calls {
            sink,
            source,
            method: self.spec.method,
            size_bytes,
            pushed: None,
        };
        self.measure(&mut port, fallbacks)
    }

    fn work_null(&self) -> Result<Option<Measured>, EngineError> {
        let size_bytes = self.size_bytes();
        let queue_depth = self.spec.queue_depth;
        if let Some(model) = self.spec.null {
            let mut port = Virtual::new(model, self.seed(), size_bytes as u32, queue_depth);
            return self.measure(&mut port, Vec::new());
        }
        let payload = match self.lane.data {
            Data::Fresh(payload) => Some(self.filled(payload, size_bytes * queue_depth as usize)?),
            Data::Preserved { .. } => None,
        };
        let mut port = Instant {
            payload,
            size_bytes,
            pushed: Vec::with_capacity(queue_depth as usize),
        };
        self.measure(&mut port, Vec::new())
    }

    fn measure<P: Port>(
        &self,
        port: &mut P,
        mut fallbacks: Vec<String>,
    ) -> Result<Option<Measured>, EngineError> {
        let spec = self.spec;
        let mut meter = Meter::new(spec.interval_ns, spec.limits.hard_ns, spec.op_times);
        let cursor = Cursor::new(
            spec.pattern,
            self.lane.offsets.len(),
            self.lane.start,
            self.seed(),
            spec.one_pass,
        );
        let Some(go_ns) = self.seat.ready() else {
            return Ok(None);
        };
        let begun = usage::of_thread();
        let origin_ns = if spec.null.is_some() { 0 } else { go_ns };
        meter.start(origin_ns);
        let course = LaneWork {
            offsets: self.lane.offsets,
            cursor,
            size_bytes: self.size_bytes() as u32,
            queue_depth: spec.queue_depth,
            limits: spec.limits.share(self.jobs, self.index),
            arrivals: spec
                .rate_per_s
                .map(|rate| Arrivals::new(rate, self.jobs, self.index)),
            is_over: self.seat.is_over(),
            origin_ns,
        };
        let ending =
            drive(port, course, self.stop, &mut meter).map_err(|source| EngineError::Broken {
                what: format!("job {}: io_uring_enter", self.index),
                source,
            })?;
        if ending.left_arrivals {
            // Without figures, which would make it another note in every slice.
            fallbacks.push(
                "the rate is more than the target takes: writes that were due before a slice's end \
                 were not started in twice its time, so their latencies are missing"
                    .into(),
            );
        }
        Ok(Some(Measured {
            meter,
            used: JobUse {
                driven: took(begun),
                ..JobUse::default()
            },
            fallbacks,
            longest_wait_ns: ending.longest_wait_ns,
            rescued: port.rescued(),
        }))
    }

    /// At most 1 GiB: checked before the run.
    fn size_bytes(&self) -> usize {
        self.spec.size_bytes as usize
    }

    /// Differs from job to job, so that no two write the same bytes or the same random offsets.
    fn seed(&self) -> u64 {
        self.mixed(self.spec.seed)
    }

    /// A seed of this lane's own.
    fn mixed(&self, seed: u64) -> u64 {
        fastrand::Rng::with_seed(seed ^ self.index.rotate_left(32)).u64(..)
    }

    fn filler(&self, payload: Payload) -> Result<Filler, EngineError> {
        Filler::new(payload, self.mixed(self.spec.payload_seed)).ok_or_else(|| {
            EngineError::Unsupported {
                why: "preserved content has to be read first, it can't be made".into(),
            }
        })
    }

    fn filled(&self, payload: Payload, len: usize) -> Result<(Aligned, Filler), EngineError> {
        let mut filler = self.filler(payload)?;
        let mut buffer =
            Aligned::new(len).map_err(|error| self.setup("memory for its writes", error))?;
        filler.fill(&mut buffer);
        Ok((buffer, filler))
    }

    /// The part of the preserved bytes that this lane's blocks cover: only that is registered.
    fn covered(&self, base_bytes: u64) -> (usize, usize) {
        let offsets = self.lane.offsets.iter();
        let first = offsets
            .clone()
            .min()
            .map_or(0, |&offset| offset - base_bytes);
        let last = offsets.max().map_or(0, |&offset| offset - base_bytes);
        (first as usize, last as usize + self.size_bytes())
    }

    fn setup(&self, what: &str, source: io::Error) -> EngineError {
        EngineError::Setup {
            what: format!("job {}: {what}", self.index),
            source,
        }
    }
}
