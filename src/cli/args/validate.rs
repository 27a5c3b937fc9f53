//! What was typed for `validate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Output, Patience, Writing};
use crate::model::cell::Payload;
use crate::model::units::{parse_bytes, parse_duration, parse_percent};
use crate::plan::MAX_QUEUE_DEPTH;

/// `validate`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Validate {
    /// The block device
    pub(in crate::cli) device: PathBuf,
    /// Built-in claims (see `syncprof profiles`) or a TOML file of claims
    #[arg(long, value_name = "NAME|FILE")]
    pub(in crate::cli) claims: String,
    /// Try and judge also where model, capacity, state or other conditions differ from the claim's;
    /// such verdicts are marked
    #[arg(long)]
    pub(in crate::cli) as_if: bool,
    #[command(flatten)]
    pub(in crate::cli) writing: Writing,
    #[command(flatten)]
    pub(in crate::cli) state: State,
    #[command(flatten)]
    pub(in crate::cli) control: TrialControl,
    #[command(flatten)]
    pub(in crate::cli) output: Output,
}

/// What is written before a claim is tried.
#[derive(Debug, Args)]
#[command(next_help_heading = "State of the drive")]
pub(in crate::cli) struct State {
    /// DISCARD all that the device holds before the first claim. Asks for the device's serial number
    /// or kernel name once more
    #[arg(long, requires = "overwrite", conflicts_with = "span")]
    pub(in crate::cli) purge: bool,
    /// With --purge: the device's serial number or kernel name, instead of typing it at the prompt
    #[arg(long, requires = "purge", value_name = "SERIAL|NAME")]
    pub(in crate::cli) confirm_purge: Option<String>,
    /// Write the device twice over before a claim on its steady state [default with --overwrite]
    #[arg(long, requires = "overwrite", overrides_with = "no_precondition")]
    pub(in crate::cli) precondition: bool,
    /// Only write the claim's own workload until the state is steady
    #[arg(long, requires = "overwrite")]
    pub(in crate::cli) no_precondition: bool,
    /// Length of a round on the way to the steady state; at most 25 are made
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "1m")]
    pub(in crate::cli) steady_round: Duration,
}

/// How to try claims.
#[derive(Debug, Args)]
#[command(next_help_heading = "Run control")]
pub(in crate::cli) struct TrialControl {
    /// This queue depth for all claims; one that states another is not comparable
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_QUEUE_DEPTH)))]
    pub(in crate::cli) queue_depth: Option<u32>,
    /// Bytes from the device's start that are written [default: what the claim says, else all; 1g at
    /// most without --overwrite]
    #[arg(long, value_parser = parse_bytes, value_name = "BYTES")]
    pub(in crate::cli) span: Option<u64>,
    /// End a claim's measurement when every 95 % confidence interval is within ± this
    #[arg(long, value_parser = parse_percent, value_name = "PERCENT", default_value = "5%")]
    pub(in crate::cli) precision: f64,
    /// End it after this time in any case, but not before 8 rounds
    #[arg(long, value_parser = parse_duration, value_name = "TIME", default_value = "60s")]
    pub(in crate::cli) budget: Duration,
    /// Just so many rounds, whatever the precision and the budget
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(in crate::cli) rounds: Option<u32>,
    /// What the device is written with, with --overwrite: random, zero, or 1% to 99% compressible
    /// [default: random]
    #[arg(long, value_name = "KIND", requires = "overwrite")]
    pub(in crate::cli) payload: Option<Payload>,
    /// Decides the order of cells, random offsets and the payload [default: a new one]
    #[arg(long, value_name = "N")]
    pub(in crate::cli) seed: Option<u64>,
    #[command(flatten)]
    pub(in crate::cli) patience: Patience,
    /// Print the cells and write nothing
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
}
