//! Records what the kernel does with the devices' requests, for a stretch of time.
//!
//! By perf_event_open(2) and not by an instance of tracefs, because the kernel takes it down with
//! the process, whatever ends that, and because its clock can be the engine's.

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use super::decode::{Decoder, KNOWN, Known, kernel_dev};
use super::event::{Event, Kind};
use super::format::{Format, FormatError};
use super::refused;
pub use super::refused::NoTrace;
use super::tracefs::{self, Unreadable};
use crate::model::devid::DevId;
use crate::sys::perf::{Group, Records, Tracepoint};
use crate::sys::root::Root;

/// Memory for all rings together, at most: what a processor gets is its share.
const ALL_RINGS_BYTES: usize = 256 << 20;
/// A synchronous write through a filesystem makes up to 30 events of about 100 bytes, so this holds
/// a tenth of a second of 30,000 writes a second on one processor.
const RING_BYTES: usize = 8 << 20;

/// Switching off may interrupt a processor in the middle of a record, which it has counted and not
/// yet shown; it goes on within microseconds, or when it is next scheduled where it is virtual.
/// What is still missing after so many looks was dropped.
const TAKES: u32 = 10;
const UNDERWAY: Duration = Duration::from_micros(200);

/// What was recorded between a start and a stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order of time.
    pub events: Vec<Event>,
    /// Events of the devices that happened and are not here: there was no room for them. Handovers
    /// that were dropped are not counted, because nothing tells whose they were.
    pub lost: u64,
}

/// Records events of some devices. While stopped, it costs nothing but memory.
#[derive(Debug)]
pub struct Tracer {
    groups: Vec<Group>,
    /// For each tracepoint: are its hits those of the devices alone?
    filtered: Vec<bool>,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl Tracer {
    /// Gets ready to record the events of these devices, by whatever process. Requests and bios
    /// carry the whole disk and its sectors, the steps of a journal's commit the partition: to
    /// trace a partition, name both.
    pub fn open(root: &Root, devices: &[DevId]) -> Result<Tracer, NoTrace> {
        let cpus = online(root)?;
        let share = (ALL_RINGS_BYTES / cpus.len().max(1)).min(RING_BYTES);
        Tracer::with_rings(root, devices, share)
    }

    /// As [`Tracer::open`], with a ring of at least this many bytes on each processor.
    pub fn with_rings(
        root: &Root,
        devices: &[DevId],
        ring_bytes: usize,
    ) -> Result<Tracer, NoTrace> {
        // No filter would let all devices through.
        let filter = (!devices.is_empty()).then(|| CString::new(filter(devices)));
        let Some(Ok(filter)) = filter else {
            return Err(NoTrace::new(
                "there is no block device to trace",
                "trace a target that lies on one",
            ));
        };
        let (decoder, known) = learn_all(root)?;
        let tracepoints: Vec<Tracepoint<'_>> = known
            .into_iter()
            .map(|(id, names_device)| Tracepoint {
                id,
                filter: names_device.then_some(filter.as_c_str()),
            })
            .collect();
        let cpus = online(root)?;
        let all_bytes = ring_bytes.saturating_mul(cpus.len());
        let groups = cpus
            .into_iter()
            .map(|cpu| Group::open(cpu, &tracepoints, ring_bytes))
            .collect::<Result<_, _>>()
            .map_err(|error| refused::unrecorded(root, &error, all_bytes))?;
        Ok(Tracer {
            groups,
            filtered: tracepoints
                .iter()
                .map(|point| point.filter.is_some())
                .collect(),
            decoder,
            buffer: Vec::new(),
        })
    }

    /// Records from now on, until [`Tracer::stop`].
    pub fn start(&mut self) -> io::Result<()> {
        self.groups.iter().try_for_each(Group::enable)
    }

    /// Records no more, and gives what was recorded. Of io_uring's handovers, those of this process
    /// alone.
    pub fn stop(&mut self) -> io::Result<Trace> {
        self.groups.iter().try_for_each(Group::disable)?;
        let mut trace = Trace::default();
        for group in &mut self.groups {
            let mut missing = 0;
            for _ in 0..TAKES {
                self.buffer.clear();
                let hits = group.take(&mut self.buffer)?;
                let hits = hits
                    .iter()
                    .zip(&self.filtered)
                    .filter(|(_, by_device)| **by_device);
                let hits: u64 = hits.map(|(hits, _)| hits).sum();
                let recorded = read(&self.decoder, &self.buffer, &mut trace.events);
                missing = (missing + hits).saturating_sub(recorded);
                if missing == 0 {
                    break;
                }
                thread::sleep(UNDERWAY);
            }
            trace.lost += missing;
        }
        let own = std::process::id();
        trace
            .events
            .retain(|event| event.pid == own || !is_handover(event));
        trace.events.sort_by_key(|event| event.time_ns);
        Ok(trace)
    }
}

/// Learns the layouts of the events that this kernel has, and gives each one's number and whether it
/// names a device.
fn learn_all(root: &Root) -> Result<(Decoder, Vec<(u64, bool)>), NoTrace> {
    let mut decoder = Decoder::default();
    let mut found = Vec::new();
    for known in &KNOWN {
        let path = format!("events/{}/format", known.path);
        let text = match tracefs::read(root, &path) {
            Ok(text) => text,
            Err(Unreadable::Absent) if !known.needed => continue,
            Err(why) => {
                return Err(refused::unreadable(
                    root,
                    &path,
                    "CONFIG_BLK_DEV_IO_TRACE",
                    why,
                ));
            }
        };
        let format = match learn(&mut decoder, known, &text) {
            Ok(format) => format,
            Err(_) if !known.needed => continue,
            Err(error) => {
                return Err(NoTrace::new(
                    format!("tracefs: {path}: {error}"),
                    "this kernel's events cannot be read; report its version",
                ));
            }
        };
        found.push((format.id.into(), known.names_device()));
    }
    Ok((decoder, found))
}

fn learn(decoder: &mut Decoder, known: &Known, text: &str) -> Result<Format, FormatError> {
    let format = Format::parse(text)?;
    decoder.learn(known, &format)?;
    Ok(format)
}

/// Decodes a ring's records to the end of `events`, and tells how many of them were the devices'.
fn read(decoder: &Decoder, bytes: &[u8], events: &mut Vec<Event>) -> u64 {
    let before = events.len();
    events.extend(Records::new(bytes).filter_map(|sample| {
        Some(Event {
            time_ns: sample.time_ns,
            cpu: sample.cpu,
            pid: sample.pid,
            tid: sample.tid,
            kind: decoder.decode(sample.raw)?,
        })
    }));
    let devices = events[before..].iter().filter(|event| !is_handover(event));
    devices.count() as u64
}

/// The event tells that io_uring handed a request to a worker thread.
pub fn is_handover(event: &Event) -> bool {
    matches!(event.kind, Kind::AsyncWork(_))
}

/// `dev == N || dev == M` (Documentation/trace/events.rst, "Event filtering").
fn filter(devices: &[DevId]) -> String {
    let mut text = String::new();
    for dev in devices {
        let joint = if text.is_empty() { "" } else { " || " };
        // Writing to a String cannot fail.
        let _ = write!(text, "{joint}dev == {}", kernel_dev(*dev));
    }
    text
}

/// The processors that run, by number.
fn online(root: &Root) -> Result<Vec<u32>, NoTrace> {
    let path = root.sys.join("devices/system/cpu/online");
    let failed = |why: String| NoTrace::new(format!("{}: {why}", path.display()), "mount sysfs");
    let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    cpu_list(text.trim()).ok_or_else(|| failed(format!("cannot read '{}'", text.trim())))
}

/// Reads a list such as `0-3,8` (Documentation/admin-guide/cputopology.rst).
fn cpu_list(text: &str) -> Option<Vec<u32>> {
    /// More than any kernel runs on (NR_CPUS).
    const MOST: u32 = 1 << 16;
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.parse().ok()?;
        let last = last.parse().ok().filter(|last| *last < MOST)?;
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Root) {
        let tree = tempfile::tempdir().unwrap();
        let root = Root {
            sys: tree.path().into(),
            ..Root::host()
        };
        let online = tree.path().join("devices/system/cpu/online");
        fs::create_dir_all(online.parent().unwrap()).unwrap();
        fs::write(online, "0\n").unwrap();
        (tree, root)
    }

    const LOOP: DevId = DevId { major: 7, minor: 2 };

    fn refusal(root: &Root, devices: &[DevId]) -> String {
        let why = Tracer::open(root, devices).unwrap_err().to_string();
        assert!(!why.contains('\n'), "{why}");
        why
    }

    #[test]
    fn the_filter_names_devices_as_the_kernel_numbers_them() {
        let other = DevId {
            major: 259,
            minor: 0,
        };
        assert_eq!(filter(&[LOOP]), "dev == 7340034");
        assert_eq!(filter(&[LOOP, other]), "dev == 7340034 || dev == 271581184");
    }

    #[test]
    fn without_a_device_nothing_is_traced() {
        let why = refusal(&Root::host(), &[]);
        assert!(why.contains("no block device"), "{why}");
    }

    #[test]
    fn without_tracefs_the_mount_is_named() {
        let (tree, root) = tree();
        fs::create_dir_all(tree.path().join("kernel/tracing")).unwrap();
        let why = refusal(&root, &[LOOP]);
        assert!(why.contains("mount -t tracefs tracefs"), "{why}");
    }

    #[test]
    fn a_kernel_without_block_events_is_told() {
        let (tree, root) = tree();
        fs::create_dir_all(tree.path().join("kernel/tracing/events")).unwrap();
        let why = refusal(&root, &[LOOP]);
        assert!(why.contains("CONFIG_BLK_DEV_IO_TRACE"), "{why}");
    }

    #[test]
    fn a_format_that_cannot_be_read_is_told() {
        let (tree, root) = tree();
        let event = tree
            .path()
            .join("kernel/tracing/events/block/block_rq_issue");
        fs::create_dir_all(&event).unwrap();
        fs::write(event.join("format"), "name: block_rq_issue\nID: 7\n").unwrap();
        let why = refusal(&root, &[LOOP]);
        assert!(why.contains("block_rq_issue has no field 'dev'"), "{why}");
    }

    #[test]
    fn a_list_of_processors_is_read_as_the_kernel_writes_it() {
        assert_eq!(cpu_list("0"), Some(vec![0]));
        assert_eq!(cpu_list("0-2,8,10-11"), Some(vec![0, 1, 2, 8, 10, 11]));
        for bad in ["", "a", "1-", "0-4294967295"] {
            assert_eq!(cpu_list(bad), None, "{bad}");
        }
    }
}
