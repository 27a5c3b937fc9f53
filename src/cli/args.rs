//! What was typed. What it means is in [`super::config`].

mod validate;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::model::cell::{EngineKind, FileState, Method, Pattern, Payload, WorkloadKind};
use crate::model::units::{parse_bytes, parse_duration, parse_pause, parse_percent, parse_spread};
use crate::plan::{MAX_JOBS, MAX_QUEUE_DEPTH};

pub(super) use validate::{TrialControl, Validate};

/// The shortest time after which a run may be said to stall.
const LEAST_STALL: Duration = Duration::from_secs(5);
/// And where nobody says how long.
const STALL: Duration = Duration::from_secs(60);

/// What does a synchronous write cost on the bare device, what through the filesystem, and how big
/// is the gap?
#[derive(Debug, Parser)]
#[command(
    name = "syncprof",
    version,
    max_term_width = 100,
    subcommand_required = true
)]
#[command(after_help = "\
Exit status: 0 measured; 1 measured, but a cell, a filesystem of a lab or a claim failed, or \
acknowledged records are missing; 2 usage; 3 the guard refused to write, or a device came into use; 4 this host \
cannot (no privilege, io_uring blocked, no space); 5 stalled: nothing completed for as long as --stall; 130 interrupted, with what was measured saved.")]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) verb: Verb,

    /// Colour in tables and messages
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(super) color: Color,

    /// Neither progress nor remarks; warnings and errors stay
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    /// Profile synchronous writes at a block device
    ///
    /// Harmless by default: the device's own bytes are read first and written back unchanged, so
    /// its content is the same at every instant.
    Raw(Raw),
    /// Profile a scratch file on the filesystem of each directory
    File(File),
    /// Profile both sides in one run, and the gap between them
    ///
    /// The raw side writes the scratch file's own blocks through the device that the filesystem is
    /// mounted on (ext2, ext3, ext4, XFS; as root), or a spare device named with --raw.
    Gap(Gap),
    /// Try what is claimed of a drive under the claim's own conditions, and judge
    ///
    /// Each claim runs beside the same writes made durable. Harmless by default, as `raw` is; claims
    /// on a steady or fresh drive need --overwrite or --purge, which destroy what it holds.
    Validate(Validate),
    /// Build filesystems with chosen options on scratch space, and compare them
    ///
    /// Each variant of the profile is made, mounted, measured against the raw scratch space in the
    /// same rounds, and taken down. The scratch space is an image, or a device that is named.
    Lab(Lab),
    /// Does a device keep what it acknowledged? What speaks for it, and power cuts that tell
    Durability(super::durability::Durability),
    /// Remember what another machine's device promised, while that machine loses its power
    Witness(super::witness::Witness),
    /// Every block device and mounted filesystem: may it be written, and if not, why
    List(List),
    /// Print saved records again
    Report(Report),
    /// Why a saved record's figures are what they are, and where its writes' bytes and time went
    Explain(Explain),
    /// The built-in profiles and claims, or the text of one
    Profiles(Profiles),
    /// Remove what killed runs left
    Clean(Clean),
}

impl Verb {
    /// How long what touches devices may wait for them; none for a verb that touches none.
    pub(super) fn stall(&self) -> Option<Duration> {
        match self {
            Verb::Raw(args) => Some(args.measure.control.patience.stall),
            Verb::File(args) => Some(args.measure.control.patience.stall),
            Verb::Gap(args) => Some(args.measure.control.patience.stall),
            Verb::Lab(args) => Some(args.measure.control.patience.stall),
            Verb::Durability(args) => Some(args.control.patience.stall),
            Verb::Validate(args) => Some(args.control.patience.stall),
            Verb::List(_) | Verb::Clean(_) => Some(STALL),
            Verb::Witness(_) | Verb::Report(_) | Verb::Explain(_) | Verb::Profiles(_) => None,
        }
    }

    /// Standard output is to have the record, and no tables.
    pub(super) fn prints_record(&self) -> bool {
        let output = match self {
            Verb::Raw(args) => &args.measure.output,
            Verb::File(args) => &args.measure.output,
            Verb::Gap(args) => &args.measure.output,
            Verb::Lab(args) => &args.measure.output,
            Verb::Durability(args) => &args.output,
            Verb::Validate(args) => &args.output,
            _ => return false,
        };
        output.json.as_deref() == Some(Path::new("-"))
    }
}

#[derive(Debug, Args)]
pub(super) struct Raw {
    /// The block device
    pub(super) device: PathBuf,
    #[command(flatten)]
    pub(super) writing: Writing,
    #[command(flatten)]
    pub(super) measure: Measure,
}

#[derive(Debug, Args)]
pub(super) struct File {
    /// Directories, each on the filesystem to profile
    #[arg(required = true, value_name = "DIR")]
    pub(super) directories: Vec<PathBuf>,
    /// Measure without and with O_TRUNC, side by side
    #[arg(long)]
    pub(super) trunc: bool,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
    #[command(flatten)]
    pub(super) measure: Measure,
}

#[derive(Debug, Args)]
pub(super) struct Gap {
    /// Directories, each on the filesystem to profile; without one, the current directory
    #[arg(value_name = "DIR")]
    pub(super) directories: Vec<PathBuf>,
    /// Every mounted filesystem that sits on a block device
    #[arg(long, conflicts_with = "directories")]
    pub(super) all: bool,
    /// A spare device to compare with, instead of the scratch file's own blocks
    #[arg(long, value_name = "DEVICE")]
    pub(super) raw: Option<PathBuf>,
    /// Measure without and with O_TRUNC, side by side
    #[arg(long)]
    pub(super) trunc: bool,
    #[command(flatten)]
    pub(super) writing: Writing,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
    #[command(flatten)]
    pub(super) measure: Measure,
}

#[derive(Debug, Args)]
pub(super) struct Lab {
    /// A built-in lab profile (see `syncprof profiles`) or a TOML file
    #[arg(value_name = "PROFILE", default_value = "fs-tour")]
    pub(super) lab: String,
    /// Size of the image that filesystems are made in [default: 1g]
    #[arg(long, value_parser = parse_bytes, value_name = "BYTES", conflicts_with = "device")]
    pub(super) image: Option<u64>,
    /// Directory that the image is made in [default: $XDG_STATE_HOME/syncprof, or /var/tmp if only
    /// that has room]
    #[arg(long = "in", value_name = "DIR", conflicts_with = "device")]
    pub(super) folder: Option<PathBuf>,
    /// Make the filesystems on this device instead, which needs --overwrite
    #[arg(long, value_name = "DEVICE")]
    pub(super) device: Option<PathBuf>,
    /// With --device: put the journals of variants that want one elsewhere on this device, which
    /// destroys what it holds too
    #[arg(long, value_name = "DEVICE", requires = "device")]
    pub(super) journal_device: Option<PathBuf>,
    /// With --journal-device: its serial number or kernel name, instead of typing it at the prompt
    #[arg(long, value_name = "SERIAL|NAME", requires = "journal_device")]
    pub(super) confirm_journal: Option<String>,
    #[command(flatten)]
    pub(super) writing: Writing,
    #[command(flatten)]
    pub(super) workload: WorkloadArgs,
    #[command(flatten)]
    pub(super) measure: Measure,
}

/// How a device is written.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Writing a device")]
pub(super) struct Writing {
    /// Write fresh data: DESTROYS what the device holds in the span. Asks for the device's serial
    /// number or kernel name; for a partition's kernel name
    #[arg(long)]
    pub(super) overwrite: bool,
    /// With --overwrite: even if the device carries a filesystem or another known signature
    #[arg(long, requires = "overwrite")]
    pub(super) force: bool,
    /// With --overwrite: the device's serial number or kernel name, instead of typing it at the
    /// prompt
    #[arg(long, requires = "overwrite", value_name = "SERIAL|NAME")]
    pub(super) confirm: Option<String>,
}

/// A workload over time, in place of the axes.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Workload over time (in place of the axes)")]
pub(super) struct WorkloadArgs {
    /// checkpoint: clients commit 8K records to a log while pages of a data file are dirtied, and
    /// written back at times; churn: files that are made, written and removed again; wal-append: log
    /// segments made anew against recycled ones
    #[arg(long, value_name = "KIND")]
    pub(super) workload: Option<WorkloadKind>,
    /// How long it runs at a time [default: what the budget allows]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) duration: Option<Duration>,
    /// How often each side runs [default: 1; where sides are compared 5, or with --duration as often as
    /// the budget allows, 3 times at least]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) repeat: Option<u32>,
    /// checkpoint: clients, each of which commits as soon as its last commit is on disk [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_JOBS)))]
    pub(super) clients: Option<u32>,
    /// checkpoint: records that wait together are written together
    #[arg(long)]
    pub(super) group_commit: bool,
    /// checkpoint: from one checkpoint's begin to the next one's [default: a quarter of the
    /// duration, at most 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) checkpoint_interval: Option<Duration>,
    /// checkpoint: the share of the interval that it spreads its writes over; 0% writes at once
    /// [default: 0%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_spread)]
    pub(super) checkpoint_spread: Option<f64>,
    /// checkpoint: bytes of the data file [default: 256m, or what there is room for]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) data: Option<u64>,
    /// checkpoint: random 8K pages of the data file that are dirtied in a second [default: 2000]
    #[arg(long, value_name = "RATE")]
    pub(super) dirty: Option<f64>,
    /// churn: bytes of each file [default: 20m]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) file_size: Option<u64>,
    /// churn: from a file's removal to the next file [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = parse_pause)]
    pub(super) pause: Option<Duration>,
    /// wal-append: bytes of each segment [default: 16m]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) segment_size: Option<u64>,
}

#[derive(Debug, Args)]
pub(super) struct Measure {
    #[command(flatten)]
    pub(super) axes: AxesArgs,
    #[command(flatten)]
    pub(super) control: Control,
    #[command(flatten)]
    pub(super) output: Output,
}

/// The axes; each list makes a cell of every combination.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Axes (each takes a list, separated by commas)")]
pub(super) struct AxesArgs {
    /// Bytes of a write [default: 512,1k,2k,...,1m, those that the device can take]
    #[arg(long, value_delimiter = ',', value_parser = parse_bytes, value_name = "LIST")]
    pub(super) sizes: Vec<u64>,
    /// What makes a write synchronous: o_dsync, o_sync, rwf_dsync, fdatasync, fsync, none; on devices
    /// also empty_flush, which writes nothing [default: o_dsync]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) method: Vec<Method>,
    /// O_DIRECT: on or off [default: on, and off for the cells where a filesystem refuses it]
    #[arg(long, value_delimiter = ',', value_parser = parse_switch, value_name = "LIST")]
    pub(super) direct: Vec<bool>,
    /// Writes in flight for each job [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_QUEUE_DEPTH)))]
    pub(super) queue_depth: Vec<u32>,
    /// Threads, each with a ring and a file or region of its own [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_JOBS)))]
    pub(super) jobs: Vec<u32>,
    /// Order of offsets: seq, rand, same [default: seq]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) pattern: Vec<Pattern>,
    /// A file's blocks: overwrite, unwritten, append, trunc, trunc-each; devices have no such state
    /// [default: overwrite]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) file_state: Vec<FileState>,
    /// What issues the writes: uring, sync, null [default: uring]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) engine: Vec<EngineKind>,
    /// Writes per second of all jobs together, due whether or not earlier ones are done; latencies
    /// count from when a write was due [default: each as soon as the one before is done]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(super) rate: Vec<f64>,
    /// Bytes that the offsets range over [default: 64m, or what there is room for]
    #[arg(long, value_parser = parse_bytes, value_name = "BYTES")]
    pub(super) span: Option<u64>,
    /// What files, and devices with --overwrite, are written with: random, zero, or 1% to 99%
    /// compressible [default: random]
    #[arg(long, value_name = "KIND")]
    pub(super) payload: Option<Payload>,
    /// io_uring: a kernel thread polls for submissions
    #[arg(long)]
    pub(super) sqpoll: bool,
    /// io_uring: poll for completions (the device needs poll queues)
    #[arg(long)]
    pub(super) iopoll: bool,
}

/// How long to measure.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run control")]
pub(super) struct Control {
    /// A built-in profile (see `syncprof profiles`) or a TOML file that sets any of the axes; what
    /// is typed beside it wins
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) profile: Option<String>,
    /// End when every 95 % confidence interval is within ± this [default: 5%]
    #[arg(long, value_parser = parse_percent, value_name = "PERCENT")]
    pub(super) precision: Option<f64>,
    /// End after this time in any case, but not before 8 rounds; how long a workload runs [default:
    /// 60s]
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub(super) budget: Option<Duration>,
    /// Just so many rounds, whatever the precision and the budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rounds: Option<u32>,
    /// Decides the order of cells, random offsets and the payload [default: a new one]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Go on with the sync engine where io_uring is blocked
    #[arg(long)]
    pub(super) fallback: bool,
    /// Record the kernel's events in slices of their own, to tell where the time goes: auto (where
    /// the kernel lets us), on (not without), off
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(super) trace: Trace,
    #[command(flatten)]
    pub(super) patience: Patience,
    /// Print the cells and write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// How long to wait for what doesn't answer.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Patience {
    /// End once nothing completed for this time, with what was measured: 5s at least
    #[arg(long, value_parser = parse_stall, value_name = "TIME", default_value = "60s")]
    pub(super) stall: Duration,
}

/// When to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Trace {
    /// Where the kernel lets us
    Auto,
    /// Not without
    On,
    /// Not
    Off,
}

/// Where results go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// Keep the record in this file, instead of below $XDG_STATE_HOME/syncprof; - prints it to standard
    /// output in place of the tables
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Print JSON instead of tables
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Report {
    /// Records, as every verb that measures saves them; - for standard input
    #[arg(required = true, value_name = "RECORD")]
    pub(super) records: Vec<PathBuf>,
    /// Form of the output
    #[arg(long, default_value = "table", value_name = "FORM")]
    pub(super) format: Format,
}

/// `explain`.
#[derive(Debug, Args)]
pub(super) struct Explain {
    /// Records, as every verb that measures saves them; - for standard input
    #[arg(required = true, value_name = "RECORD")]
    pub(super) records: Vec<PathBuf>,
}

/// Form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The tables that the run printed
    Table,
    /// Each record on a line, with the gaps, the O_TRUNC penalties, the verdicts and the warnings
    Json,
}

#[derive(Debug, Args)]
pub(super) struct Profiles {
    /// Print the text of this profile, or of these claims (claims/NAME)
    pub(super) name: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Clean {
    /// Look in these directories too, not just where this user's runs say they were
    #[arg(value_name = "DIR")]
    pub(super) directories: Vec<PathBuf>,
    /// Say what there is, and leave it
    #[arg(long)]
    pub(super) dry_run: bool,
}

/// Short of [`LEAST_STALL`], a slow device would be taken for one that hangs, and nobody would see a request
/// that the kernel lost come back.
fn parse_stall(text: &str) -> Result<Duration, String> {
    let stall = parse_duration(text)?;
    match stall < LEAST_STALL {
        true => Err("a device may take so long for one write; 5s at least".to_owned()),
        false => Ok(stall),
    }
}

/// A host and a port, which are looked up later.
pub(super) fn parse_address(text: &str) -> Result<String, String> {
    let parts = text.rsplit_once(':');
    match parts.filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
        Some(_) => Ok(text.to_owned()),
        None => Err("a host and a port, as in 192.0.2.10:7320".to_owned()),
    }
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("'{other}' is neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_list_is_split_at_commas() {
        let cli = Cli::parse_from([
            "syncprof",
            "gap",
            "/data",
            "--sizes",
            "4k,1m",
            "--direct=off",
        ]);
        let Verb::Gap(gap) = cli.verb else {
            panic!("not gap")
        };
        assert_eq!(gap.measure.axes.sizes, [4096, 1 << 20]);
        assert_eq!(gap.measure.axes.direct, [false]);
    }

    #[test]
    fn force_and_confirm_need_overwrite() {
        for extra in [&["--force"][..], &["--confirm", "x"]] {
            let args = ["syncprof", "raw", "/dev/x"].iter().chain(extra);
            assert!(Cli::try_parse_from(args).is_err());
        }
    }
}
