//! `durability`: does a device keep what it acknowledged?

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::model::durability::Durability as Told;
use crate::model::units::{parse_bytes, parse_duration};
use crate::plan;
use crate::sys::root::Root;

use super::args::{AxesArgs, Control, Measure, Output, Writing};
use super::config::{self, Beside, UsageError};
use super::measure;
use super::output::Terminal;

#[derive(Debug, Args)]
pub(super) struct Durability {
    /// The block device
    pub(super) device: PathBuf,
    /// Bytes that the offsets range over [default: 64m, or what there is room for]
    #[arg(long, value_parser = parse_bytes, value_name = "BYTES")]
    pub(super) span: Option<u64>,
    #[command(flatten)]
    pub(super) told: ToldArgs,
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
pub(super) struct ToldArgs {
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

pub(super) fn run(root: &Root, args: Durability, terminal: &Terminal) -> anyhow::Result<u8> {
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
    let mut wish = measure::wish("durability", &measure, settings)?;
    wish.device = Some(args.device);
    wish.durability = Some(args.told.told());
    let mut matrices = plan::ablation(args.span).into_iter();
    if let Some(first) = matrices.next() {
        wish.settings.matrix = first;
    }
    wish.also = matrices.collect();
    measure::run(root, wish, &measure, Some(&args.writing), terminal)
}

impl ToldArgs {
    fn told(&self) -> Told {
        let program_ns = self.program_time.map(|time| time.as_nanos() as u64);
        Told {
            rpm: self.rpm,
            program_ns,
            protected: self.protected,
        }
    }
}
