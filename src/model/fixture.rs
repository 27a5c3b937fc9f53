//! Small made-up records for tests.

use super::cell::{
    Axes, CellSpec, EngineKind, FileState, Method, Pattern, Payload, RingOptions, Role,
};
use super::devid::DevId;
use super::durability::{DeviceKey, Manifest};
use super::facts::{DeviceFacts, DeviceKind, Host, JournalFacts, MountFacts};
use super::histogram::LatencyNs;
use super::histogram::encode;
use super::record::{
    Baseline, BaselineKind, Cell, Ended, Record, Run, SCHEMA, Slice, Target, TargetKind, Tool,
};
use super::sample::latency_histogram;
use super::trace::{Class, ClassTraffic, Phase, PhaseTime, Stretch, Traced};
use super::traffic::{BlockStat, DeviceTraffic};

/// The disk of every target.
pub(crate) const DISK: DevId = DevId {
    major: 259,
    minor: 0,
};
/// The partition on it.
pub(crate) const PARTITION: DevId = DevId {
    major: 259,
    minor: 2,
};

/// What a device counts, per write of a cell.
#[derive(Clone, Copy, Default)]
pub(crate) struct PerWrite {
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    pub(crate) merges: u64,
    pub(crate) flushes: u64,
}

/// A record that a run could have made, with latencies from a seeded generator.
pub(crate) struct Builder {
    pub(crate) record: Record,
    rng: fastrand::Rng,
}

impl Builder {
    pub(crate) fn new(verb: &str) -> Builder {
        let record = Record {
            schema: SCHEMA.to_owned(),
            tool: Tool {
                name: "syncprof".to_owned(),
                version: "0.1.0".to_owned(),
            },
            host: Host {
                hostname: "db1".to_owned(),
                kernel: "6.18.0".to_owned(),
                arch: "x86_64".to_owned(),
                cpus: 8,
                ..Host::default()
            },
            run: Run {
                verb: verb.to_owned(),
                command: vec!["syncprof".to_owned(), verb.to_owned()],
                started: "2026-01-02T03:04:05+00:00".to_owned(),
                elapsed_ns: 42_000_000_000,
                seed: 7,
                precision: 0.05,
                budget_ns: 60_000_000_000,
                min_rounds: 8,
                rounds: 10,
                ended: Some(Ended::Precise),
                payload: Payload::Random,
            },
            targets: Vec::new(),
            cells: Vec::new(),
            timelines: Vec::new(),
            notes: Vec::new(),
            validation: None,
            lab: None,
            drives: Vec::new(),
            durability: None,
        };
        Builder {
            record,
            rng: fastrand::Rng::with_seed(1),
        }
    }

    pub(crate) fn device(mut self, id: &str) -> Builder {
        self.record.targets.push(Target {
            id: id.to_owned(),
            path: "/dev/nvme0n1p2".to_owned(),
            kind: TargetKind::Device,
            stack: stack(),
            mount: None,
            beside: Vec::new(),
            idle: None,
            buffered: None,
            nocow: None,
            content: None,
            baseline: None,
            variant: None,
        });
        self
    }

    pub(crate) fn directory(
        mut self,
        id: &str,
        path: &str,
        kind: BaselineKind,
        raw: Option<&str>,
    ) -> Builder {
        self.record.targets.push(Target {
            id: id.to_owned(),
            path: path.to_owned(),
            kind: TargetKind::Directory,
            stack: stack(),
            mount: Some(mount(path)),
            beside: Vec::new(),
            idle: None,
            buffered: None,
            nocow: None,
            content: None,
            baseline: Some(Baseline {
                kind,
                target: raw.map(str::to_owned),
                reason: (kind == BaselineKind::None)
                    .then(|| "btrfs moves what is written".to_owned()),
                remedy: (kind == BaselineKind::None)
                    .then(|| "give a spare one: --raw DEVICE".to_owned()),
            }),
            variant: None,
        });
        self
    }

    /// A cell of 10 rounds with `ops` writes each, of about `latency_ns`.
    pub(crate) fn cell(
        mut self,
        target: &str,
        state: Option<FileState>,
        size_bytes: u64,
        latency_ns: f64,
        ops: u64,
    ) -> Builder {
        let role = if state.is_some() {
            Role::File
        } else {
            Role::Raw
        };
        let mut all = latency_histogram();
        let slices: Vec<Slice> = (0..10)
            .map(|round| {
                let mut own = latency_histogram();
                let mut elapsed_ns = 0;
                for _ in 0..ops {
                    let tail = if self.rng.u32(0..200) == 0 { 8.0 } else { 1.0 };
                    let drawn = (latency_ns * tail * (0.8 + 0.4 * self.rng.f64())) as u64;
                    own.record(drawn).unwrap();
                    elapsed_ns += drawn;
                }
                all.add(&own).unwrap();
                slice(round, ops, size_bytes, elapsed_ns, encode(&own), state)
            })
            .collect();
        let elapsed_ns: u64 = slices.iter().map(|slice| slice.elapsed_ns).sum();
        let ops = ops * 10;
        let state_text = state.map(|state| format!("/{state}")).unwrap_or_default();
        self.record.cells.push(Cell {
            spec: CellSpec {
                id: format!("{target}/{role}{state_text}/{size_bytes}"),
                target: target.to_owned(),
                role,
                file_state: state,
                axes: axes(size_bytes),
            },
            ops,
            bytes: ops * size_bytes,
            elapsed_ns,
            throughput_bytes_per_s: Some((ops * size_bytes) as f64 / elapsed_ns as f64 * 1e9),
            iops: Some(ops as f64 / elapsed_ns as f64 * 1e9),
            latency_ns: LatencyNs::of(&all),
            histogram_v2: encode(&all),
            out_of_range: 0,
            failed: None,
            buffered: None,
            slices,
            stalled: Vec::new(),
            handed: None,
            traced: None,
        });
        self
    }

    /// The last cell, as the kernel counted it: the partition its writes, the disk its flushes too.
    /// A request takes 10 µs, a flush 50 µs.
    pub(crate) fn counted(mut self, each: PerWrite) -> Builder {
        let cell = self.record.cells.last_mut().unwrap();
        for slice in &mut cell.slices {
            let of = |count: u64| count * slice.ops;
            let partition = BlockStat {
                writes: of(each.requests),
                writes_merged: of(each.merges),
                write_sectors: of(each.bytes) / 512,
                write_ms: of(each.requests) / 100,
                ..BlockStat::default()
            };
            let disk = BlockStat {
                flushes: of(each.flushes),
                flush_ms: of(each.flushes) / 20,
                ..partition
            };
            slice.devices = [(PARTITION, partition), (DISK, disk)]
                .map(|(dev, counted)| DeviceTraffic { dev, counted })
                .into();
        }
        self
    }

    /// The last cell, as a trace of 100 ext4 writes after O_TRUNC tells of it: 4 KiB of data, 20 KiB
    /// of journal, a flush, a commit block, a flush.
    pub(crate) fn traced(mut self) -> Builder {
        let cell = self.record.cells.last_mut().unwrap();
        cell.traced = Some(traced());
        self
    }
}

fn traced() -> Traced {
    let classes = [
        (Class::Data, 1, 4096),
        (Class::Journal, 2, 24 << 10),
        (Class::Flush, 2, 0),
    ];
    let phases = [
        (Phase::Submit, 5),
        (Phase::DataWrite, 30),
        (Phase::Waiting, 15),
        (Phase::JournalWrite, 40),
        (Phase::PreFlush, 25),
        (Phase::CommitBlock, 30),
        (Phase::PostFlush, 45),
        (Phase::Return, 10),
    ];
    let mut start_ns = 0;
    let typical: Vec<Stretch> = phases
        .iter()
        .map(|&(phase, us)| {
            let stretch = Stretch {
                phase,
                start_ns,
                end_ns: start_ns + us * 1000,
                bytes: match phase {
                    Phase::DataWrite | Phase::CommitBlock => 4096,
                    Phase::JournalWrite => 20 << 10,
                    _ => 0,
                },
            };
            start_ns = stretch.end_ns;
            stretch
        })
        .collect();
    Traced {
        dev: PARTITION,
        slices: 2,
        ops: 100,
        bytes: 100 * 4096,
        elapsed_ns: 100 * start_ns,
        events: 1000,
        lost_events: 0,
        classes: classes
            .map(|(class, requests, bytes)| ClassTraffic {
                class,
                requests: requests * 100,
                fua_requests: 0,
                bytes: bytes * 100,
            })
            .into(),
        counted: BlockStat {
            writes: 300,
            write_sectors: 100 * (28 << 10) / 512,
            flushes: 200,
            ..BlockStat::default()
        },
        phase_ops: 100,
        phases: phases
            .map(|(phase, us)| PhaseTime {
                phase,
                mean_ns: us as f64 * 1e3,
                p99_ns: us * 2000,
            })
            .into(),
        phase_latency_ns: start_ns as f64,
        typical,
    }
}

pub(crate) fn slice(
    round: u32,
    ops: u64,
    size_bytes: u64,
    elapsed_ns: u64,
    histogram_v2: String,
    state: Option<FileState>,
) -> Slice {
    Slice {
        round,
        position: 0,
        started_ns: 0,
        ops,
        bytes: ops * size_bytes,
        elapsed_ns,
        errors: 0,
        histogram_v2,
        out_of_range: 0,
        interval_ns: 0,
        interval_ops: Vec::new(),
        truncating_opens_ns: if state == Some(FileState::Trunc) {
            vec![900_000; 3]
        } else {
            Vec::new()
        },
        worker_cpu_ns: None,
        devices: Vec::new(),
        neighbours: Vec::new(),
        process: None,
        filesystem: None,
        longest_wait_ns: None,
        rescued: 0,
    }
}

fn axes(size_bytes: u64) -> Axes {
    Axes {
        size_bytes,
        method: Method::ODsync,
        direct: true,
        queue_depth: 1,
        jobs: 1,
        pattern: Pattern::Seq,
        engine: EngineKind::Uring,
        ring: RingOptions::default(),
        span_bytes: 64 << 20,
        rate_per_s: None,
    }
}

pub(crate) fn stack() -> Vec<DeviceFacts> {
    let disk = DeviceFacts {
        name: "nvme0n1".to_owned(),
        dev: DISK,
        kind: DeviceKind::Disk,
        size_bytes: 1_920_383_410_176,
        diskseq: Some(1),
        model: Some("ACME DC-3".to_owned()),
        serial: Some("S1".to_owned()),
        firmware: Some("1.0".to_owned()),
        logical_block_bytes: Some(512),
        physical_block_bytes: Some(4096),
        rotational: Some(false),
        read_only: Some(false),
        write_cache: Some("write back".to_owned()),
        fua: Some(true),
        request_queues: Some(true),
        scheduler: Some("none".to_owned()),
        zoned: Some("none".into()),
        dma_alignment_bytes: Some(4),
        max_request_bytes: Some(128 << 10),
        pcie: None,
        partition_start_bytes: None,
        target_start_bytes: None,
        file_start_bytes: None,
        alignment_offset_bytes: None,
        backing_file: None,
        dm_name: None,
        lower: Vec::new(),
        drive: None,
    };
    let partition = DeviceFacts {
        name: "nvme0n1p2".to_owned(),
        dev: PARTITION,
        kind: DeviceKind::Partition,
        model: None,
        firmware: None,
        size_bytes: 500 << 30,
        lower: vec![disk.dev],
        ..disk.clone()
    };
    vec![partition, disk]
}

pub(crate) fn mount(path: &str) -> MountFacts {
    MountFacts {
        mount_point: path.to_owned(),
        source: "/dev/nvme0n1p2".to_owned(),
        fs_type: "ext4".to_owned(),
        dev: PARTITION,
        block_device: None,
        options: vec!["rw".to_owned(), "relatime".to_owned()],
        block_bytes: Some(4096),
        size_bytes: None,
        free_bytes: None,
        journal: Some(JournalFacts {
            mode: Some("ordered".to_owned()),
            size_bytes: Some(128 << 20),
            external: Some(false),
            device: None,
        }),
    }
}

/// The pledge of a run with this number, of a device that is the same for all.
pub(crate) fn pledge(number: u32) -> Manifest {
    Manifest {
        id: format!("{number:032x}"),
        device: DeviceKey {
            hostname: "db1".to_owned(),
            name: "sdx".to_owned(),
            serial: None,
            model: None,
            start_bytes: 0,
            size_bytes: 1 << 30,
        },
        span_bytes: 1 << 20,
        record_bytes: 4096,
        method: Method::ODsync,
        engine: EngineKind::Sync,
        window: 16,
        boot_id: "first".to_owned(),
        started: "2026-01-02T03:04:05Z".to_owned(),
    }
}
