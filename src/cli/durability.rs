//! `durability`: does a device keep what it acknowledged?

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use crate::model::cell::{EngineKind, Method};
use crate::model::durability::{Durability as Told, Manifest};
use crate::model::record::Level;
use crate::model::text::shell;
use crate::model::units::{parse_bytes, parse_duration, show_bytes};
use crate::plan;
use crate::session::{self, PowerCutConfig};
use crate::sys::pulse;
use crate::sys::root::Root;

use super::args::{AxesArgs, Control, Measure, Output, Writing, parse_address};
use super::config::{self, Beside, UsageError};
use super::confirm::confirmation;
use super::output::Terminal;
use super::{measure, signals, status};

#[derive(Debug, Args)]
pub(super) struct Durability {
    /// The block device
    pub(super) device: PathBuf,
    /// Bytes that the offsets range over [default: 64m, or what there is room for]
    #[arg(long, value_parser = parse_bytes, value_name = "BYTES")]
    pub(super) span: Option<u64>,
    #[command(flatten)]
    pub(super) told: DeviceHints,
    #[command(flatten)]
    pub(super) power: PowerArgs,
    #[command(flatten)]
    pub(super) writing: Writing,
    #[command(flatten)]
    pub(super) control: Control,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What the user knows of the device.
#[derive(Debug, Args)]
#[command(next_help_heading = "What you know of the device")]
pub(super) struct DeviceHints {
    /// It turns so many times a minute [default: 7200 where the kernel says that it turns]
    #[arg(long, value_name = "RPM", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rpm: Option<u32>,
    /// It is flash, and programs a page in no less [default: 200us where the kernel says that it
    /// doesn't turn]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "rpm")]
    pub(super) program_time: Option<Duration>,
    /// Its vendor says that its cache survives a loss of power
    #[arg(long)]
    pub(super) protected: bool,
}

/// What has no meaning beside `--witness`, which measures nothing.
const MEASURING: [&str; 12] = [
    "profile",
    "precision",
    "budget",
    "rounds",
    "seed",
    "fallback",
    "trace",
    "stall",
    "dry_run",
    "rpm",
    "program_time",
    "protected",
];

/// What is written for a witness, while somebody cuts the power.
#[derive(Debug, Args)]
#[command(next_help_heading = "Power cuts (docs/durability.md)")]
pub(super) struct PowerArgs {
    /// Write records and report each that the device acknowledged to the `syncprof witness` there,
    /// until the power is cut. Needs --overwrite
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address, conflicts_with_all = MEASURING)]
    pub(super) witness: Option<String>,
    /// After the power came back: read the device and compare it with what the witness was promised
    #[arg(long, requires = "witness", conflicts_with_all = ["overwrite", "span"])]
    pub(super) verify: bool,
    /// With --verify: this run, instead of the device's newest one
    #[arg(long, requires = "verify", value_name = "ID")]
    pub(super) run: Option<String>,
    /// What makes each record durable: o_dsync, o_sync, rwf_dsync, fdatasync or fsync
    #[arg(
        long,
        requires = "witness",
        conflicts_with = "verify",
        default_value = "o_dsync"
    )]
    pub(super) method: Method,
    /// What writes them: uring, or sync for plain system calls, behind which Linux flushes once more
    #[arg(
        long,
        requires = "witness",
        conflicts_with = "verify",
        default_value = "uring"
    )]
    pub(super) engine: EngineKind,
    /// Bytes of a record, whole blocks of the device
    #[arg(long, requires = "witness", conflicts_with = "verify", value_parser = parse_bytes,
          value_name = "BYTES", default_value = "4k")]
    pub(super) record_size: u64,
    /// End after this time, with a goodbye [default: write until a signal, or the power's end]
    #[arg(long, requires = "witness", conflicts_with = "verify", value_parser = parse_duration,
          value_name = "TIME")]
    pub(super) duration: Option<Duration>,
    /// End after so many records, with a goodbye
    #[arg(long, requires = "witness", conflicts_with = "verify", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) records: Option<u64>,
}

pub(super) fn run(root: &Root, args: Durability, terminal: &Terminal) -> anyhow::Result<u8> {
    if let Some(address) = &args.power.witness
        && !args.power.verify
    {
        return promise(root, &args, address, terminal);
    }
    if args.control.profile.is_some() {
        let text = "durability measures cells of its own, and takes no --profile";
        return Err(UsageError(text.to_owned()).into());
    }
    let measure = Measure {
        axes: AxesArgs::default(),
        control: args.control,
        output: args.output,
    };
    let settings = config::settings(&measure, Beside::default())?;
    let mut request = measure::request("durability", &measure, settings)?;
    request.durability = Some(args.told.told());
    if let Some(address) = &args.power.witness {
        pulse::rests();
        let record = session::verify(root, request, &args.device, address, args.power.run)?;
        return measure::tell(root, &measure, &record, terminal);
    }
    request.device = Some(args.device);
    let mut matrices = plan::ablation(args.span).into_iter();
    if let Some(first) = matrices.next() {
        request.settings.matrix = first;
    }
    request.also = matrices.collect();
    measure::run(root, request, &measure, Some(&args.writing), terminal)
}

/// Writes records for a witness.
fn promise(
    root: &Root,
    args: &Durability,
    address: &str,
    terminal: &Terminal,
) -> anyhow::Result<u8> {
    if !args.writing.overwrite {
        let text = "--witness writes records of its own, which destroys what the device holds in the span: \
                    allow that with --overwrite; after a power cut, compare with --verify";
        return Err(UsageError(text.to_owned()).into());
    }
    if args.output.json.is_some() {
        let text = "--json: the witness keeps what is promised; a record is made by --verify";
        return Err(UsageError(text.to_owned()).into());
    }
    let stop = signals::watch().context("cannot watch for signals")?;
    let power = &args.power;
    let vow = PowerCutConfig {
        span_bytes: args.span.unwrap_or(plan::DEFAULT_SPAN_BYTES),
        record_bytes: power.record_size,
        method: power.method,
        engine: power.engine,
        duration: power.duration,
        records: power.records,
    };
    let promiser = session::promiser(root, &args.device, vow)?;
    for doubt in promiser.doubts() {
        terminal.say(Level::Warning, &doubt);
    }
    let accepted = Some(promiser.confirmations());
    let confirmed = confirmation(accepted, Some(&args.writing), &stop)?;
    let (word, force) = confirmed.unwrap_or_default();
    let device = shell(&args.device.display().to_string());
    let peer = shell(address);
    let mut begun = |pledge: &Manifest| {
        terminal.print(&format!(
            "run {}: writes {} records with {} to the first {} of {device}, one after the other, and the \
             witness has the first. Cut the power whenever you like; then compare:\n  \
             syncprof durability {device} --witness {peer} --verify\n",
            pledge.id,
            show_bytes(pledge.record_bytes),
            pledge.method,
            show_bytes(pledge.span_bytes),
        ))?;
        Ok(())
    };
    // The witness takes its time, and the power may be cut at any.
    pulse::rests();
    let acknowledged = promiser.promise(address, (&word, force), &stop, &mut begun)?;
    terminal.print(&format!(
        "{acknowledged} records were acknowledged and promised; no power was cut\n"
    ))?;
    Ok(match stop.load(Ordering::Relaxed) {
        true => status::INTERRUPTED,
        false => status::MEASURED,
    })
}

impl DeviceHints {
    fn told(&self) -> Told {
        let program_ns = self.program_time.map(|time| time.as_nanos() as u64);
        Told {
            rpm: self.rpm,
            program_ns,
            protected: self.protected,
            checked: None,
        }
    }
}
