//! `witness`: remembers what other machines' devices promised.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::model::record::Level;
use crate::witness::{Server, Store};

use super::args::parse_address;
use super::config;
use super::output::Terminal;
use super::{signals, status};

#[derive(Debug, Args)]
pub(super) struct Witness {
    /// Where to listen: on loopback only, unless an address is named. Anybody who reaches it can
    /// report, since nobody is asked who they are
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse_address, default_value = "127.0.0.1:7320")]
    pub(super) listen: String,
    /// Where to keep what was promised [default: $XDG_STATE_HOME/syncprof/witness]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
}

pub(super) fn run(args: Witness, terminal: &Terminal) -> anyhow::Result<u8> {
    let stop = signals::watch().context("cannot watch for signals")?;
    let folder = args
        .state
        .or_else(|| config::state_folder().map(|folder| folder.join("witness")))
        .context("neither XDG_STATE_HOME nor HOME is set; name a folder with --state")?;
    let store = Store::open(&folder).context("cannot keep what is promised")?;
    let server = Server::bind(&args.listen, store);
    let server = server.with_context(|| format!("cannot listen at {}", args.listen))?;
    let address = server.address().context("cannot tell where it listens")?;
    terminal.print(&format!(
        "the witness listens at {address} and keeps what is promised in {}\n",
        folder.display()
    ))?;
    if !address.ip().is_loopback() {
        let text = "anybody who reaches this address can report; nobody is asked who they are";
        terminal.say(Level::Warning, text);
    }
    server
        .run(&stop, &|line| terminal.say(Level::Remark, &line))
        .context("cannot go on listening")?;
    Ok(status::MEASURED)
}
