//! The command line: one file for each verb, which wires the layers below together.

mod args;
mod clean;
mod config;
mod confirm;
mod console;
mod durability;
mod lab;
mod lab_storage;
mod list;
mod measure;
mod output;
mod profiles;
mod report;
mod screen;
mod signals;
mod trial;
mod validate;
mod watch;
mod witness;

use std::process::ExitCode;

use clap::Parser;

use crate::guard::Refusal;
use crate::session::SetupError;
use crate::sys::limits;
use crate::sys::root::Root;

use args::{Cli, Verb};
use output::Terminal;

/// What the program's exit status says, as `--help` lists it.
mod status {
    /// Measured.
    pub(super) const MEASURED: u8 = 0;
    /// Measured, but something failed: a cell, a lab's filesystem, a claim, a promise before a witness.
    pub(super) const FAILED: u8 = 1;
    /// What was asked for makes no sense.
    pub(super) const USAGE: u8 = 2;
    /// The guard gave no right to write.
    pub(super) const REFUSED: u8 = 3;
    /// This host can't do it.
    pub(super) const CANNOT: u8 = 4;
    /// Nothing completed for as long as was to be waited.
    pub(super) const STALLED: u8 = 5;
    /// A signal ended it.
    pub(super) const INTERRUPTED: u8 = 130;
}

/// Runs the program.
pub fn main() -> ExitCode {
    limits::settle();
    let cli = Cli::parse();
    let terminal = Terminal::new(cli.color, cli.quiet, cli.verb.prints_record());
    let stall = cli.verb.stall();
    let work = || {
        dispatch(cli.verb, &terminal).unwrap_or_else(|error| {
            terminal.error(&error);
            status_of(&error)
        })
    };
    ExitCode::from(match stall {
        Some(stall) => watch::watched(stall, &terminal, work),
        None => work(),
    })
}

fn dispatch(verb: Verb, terminal: &Terminal) -> anyhow::Result<u8> {
    let root = Root::host();
    match verb {
        Verb::Raw(args) => measure::raw(&root, args, terminal),
        Verb::File(args) => measure::file(&root, args, terminal),
        Verb::Gap(args) => measure::gap(&root, args, terminal),
        Verb::Validate(args) => validate::run(&root, args, terminal),
        Verb::Lab(args) => lab::run(&root, args, terminal),
        Verb::Durability(args) => durability::run(&root, args, terminal),
        Verb::Witness(args) => witness::run(args, terminal),
        Verb::List(args) => list::run(&root, &args, terminal),
        Verb::Report(args) => report::run(&args, terminal),
        Verb::Explain(args) => report::explain(&args, terminal),
        Verb::Profiles(args) => profiles::run(&args, terminal),
        Verb::Clean(args) => clean::run(&root, &args, terminal),
    }
}

fn status_of(error: &anyhow::Error) -> u8 {
    if error.is::<config::UsageError>() {
        return status::USAGE;
    }
    match error.downcast_ref::<SetupError>() {
        Some(SetupError::Usage(_)) => status::USAGE,
        Some(SetupError::Refused(refusal)) => status_of_refusal(refusal),
        Some(SetupError::Interrupted) => status::INTERRUPTED,
        Some(SetupError::Cannot(_)) | None => status::CANNOT,
    }
}

fn status_of_refusal(refusal: &Refusal) -> u8 {
    if refusal.is_privilege() || refusal.is_failure() {
        status::CANNOT
    } else {
        status::REFUSED
    }
}
