//! Tracepoints of one processor, recorded together into one ring.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

use thiserror::Error;

use super::record::SAMPLE_TYPE;
use super::ring::Ring;
use super::{ANY_PROCESS, Attributes, DISABLED, NO_GROUP, PERF_TYPE_TRACEPOINT, USE_CLOCKID, open};

/// The group's events are read together: their number, then each one's count.
const PERF_FORMAT_GROUP: u64 = 1 << 3;

/// A tracepoint to count or record.
#[derive(Clone, Copy, Debug)]
pub struct Tracepoint<'a> {
    /// From its `format` file in tracefs.
    pub id: u64,
    /// Which hits, in the words of Documentation/trace/events.rst, "Event filtering"; all if none.
    pub filter: Option<&'a CStr>,
}

/// Why a group can't be opened.
#[derive(Debug, Error)]
pub enum GroupError {
    /// perf_event_open(2): EACCES or EPERM without CAP_PERFMON where `kernel.perf_event_paranoid` is
    /// above -1; EMFILE past RLIMIT_NOFILE; ENODEV for a processor that is off; ENOSYS.
    #[error("perf_event_open")]
    Event(#[source] io::Error),
    /// EINVAL for a filter that the event does not take.
    #[error("the filter of an event")]
    Filter(#[source] io::Error),
    /// A ring's memory: EPERM past what may be locked, for those without CAP_IPC_LOCK; ENOMEM.
    #[error("mmap of the events' ring")]
    Ring(#[source] io::Error),
}

/// Tracepoints of one processor, by whatever process. They are switched on and off together.
#[derive(Debug)]
pub struct Group {
    /// Before the events: what is mapped goes before what it was mapped from.
    ring: Ring,
    /// The first leads: the others are on only while it is.
    events: Vec<File>,
    /// Each one's hits at the last [`Group::take`].
    counted: Vec<u64>,
}

impl Group {
    /// Prepares the tracepoints on the processor, off for now, with a ring of at least `ring_len`
    /// bytes. [`GroupError::Event`] with EINVAL for no tracepoint.
    pub fn open(
        cpu: u32,
        tracepoints: &[Tracepoint],
        ring_len: usize,
    ) -> Result<Group, GroupError> {
        let mut events: Vec<File> = Vec::with_capacity(tracepoints.len());
        for tracepoint in tracepoints {
            let leader = events.first().map(AsRawFd::as_raw_fd);
            let attributes = Attributes {
                kind: PERF_TYPE_TRACEPOINT,
                config: tracepoint.id,
                sample_period: 1,
                sample_type: SAMPLE_TYPE,
                read_format: PERF_FORMAT_GROUP,
                flags: USE_CLOCKID | if leader.is_none() { DISABLED } else { 0 },
                clockid: libc::CLOCK_MONOTONIC,
                ..Attributes::default()
            };
            let cpu = i32::try_from(cpu).map_err(|e| GroupError::Event(io::Error::other(e)))?;
            let event = open(attributes, ANY_PROCESS, cpu, leader.unwrap_or(NO_GROUP))
                .map_err(GroupError::Event)?;
            if let Some(filter) = tracepoint.filter {
                set_filter(&event, filter).map_err(GroupError::Filter)?;
            }
            events.push(event);
        }
        let leader = events
            .first()
            .ok_or_else(|| GroupError::Event(io::Error::from_raw_os_error(libc::EINVAL)))?;
        let ring = Ring::map(leader, ring_len).map_err(GroupError::Ring)?;
        for event in &events[1..] {
            set_output(event, leader).map_err(GroupError::Ring)?;
        }
        Ok(Group {
            ring,
            counted: vec![0; events.len()],
            events,
        })
    }

    /// Records from now on.
    pub fn enable(&self) -> io::Result<()> {
        switch(&self.events[0], IOC_ENABLE)
    }

    /// Records no more. When this returns, what was hit before is in the ring.
    pub fn disable(&self) -> io::Result<()> {
        switch(&self.events[0], IOC_DISABLE)
    }

    /// Moves the records in the ring to the end of `to`, and tells how many hits of each tracepoint
    /// the kernel counted since the last call, in the order of [`Group::open`]. It counts a hit
    /// whether or not the ring has room for it, so samples missing to these numbers were dropped.
    pub fn take(&mut self, to: &mut Vec<u8>) -> io::Result<Vec<u64>> {
        self.ring.take(to)?;
        let mut values = vec![0; 8 * (1 + self.events.len())];
        (&self.events[0]).read_exact(&mut values)?;
        let (words, _) = values.as_chunks::<8>();
        let totals = words[1..].iter().map(|word| u64::from_ne_bytes(*word));
        let hits = totals
            .zip(&mut self.counted)
            .map(|(total, counted)| total.wrapping_sub(std::mem::replace(counted, total)))
            .collect();
        Ok(hits)
    }
}

// include/uapi/linux/perf_event.h
const IOC_ENABLE: libc::Ioctl = nix::request_code_none!(b'$', 0) as libc::Ioctl;
const IOC_DISABLE: libc::Ioctl = nix::request_code_none!(b'$', 1) as libc::Ioctl;
const IOC_SET_OUTPUT: libc::Ioctl = nix::request_code_none!(b'$', 5) as libc::Ioctl;
const IOC_SET_FILTER: libc::Ioctl =
    nix::request_code_write!(b'$', 6, size_of::<*const libc::c_char>()) as libc::Ioctl;

fn switch(leader: &File, request: libc::Ioctl) -> io::Result<()> {
    // SAFETY: ENABLE and DISABLE take flags, 0 for this event alone, and no pointer.
    done(unsafe { libc::ioctl(leader.as_raw_fd(), request, 0) })
}

fn set_output(event: &File, leader: &File) -> io::Result<()> {
    // SAFETY: SET_OUTPUT takes a descriptor, which is open while `leader` is borrowed. The kernel
    // holds the ring itself, so that neither's end harms the other.
    done(unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT, leader.as_raw_fd()) })
}

pub(super) fn set_filter(event: &File, filter: &CStr) -> io::Result<()> {
    // SAFETY: SET_FILTER reads a string up to its zero, which a CStr has, and keeps a copy.
    done(unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER, filter.as_ptr()) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
