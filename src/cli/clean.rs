//! `clean`: removes what killed runs left.

use anyhow::Context;

use crate::lab;
use crate::model::text::plain;
use crate::scratch;
use crate::session::half_saved;
use crate::sys::root::Root;

use super::args::Clean;
use super::output::Terminal;
use super::{config, status};

pub(super) fn run(root: &Root, args: &Clean, terminal: &Terminal) -> anyhow::Result<u8> {
    let state = config::state_folder();
    let found = scratch::find(root, state.as_deref(), &args.directories);
    let mut status = status::MEASURED;
    for leftover in &found {
        let folder = plain(&leftover.folder().display().to_string());
        if args.dry_run {
            terminal.print(&format!("{folder}: would be removed\n"))?;
            continue;
        }
        match scratch::remove(leftover) {
            Ok(()) => terminal.print(&format!("{folder}: removed\n"))?,
            Err(error) => {
                status = status::FAILED;
                terminal.error(&anyhow::anyhow!(
                    "cannot remove {folder}: {error}; look at what is in it"
                ));
            }
        }
    }
    let folders = state.as_deref().map_or_else(Vec::new, lab::leftovers);
    for path in &folders {
        let name = plain(&path.display().to_string());
        if args.dry_run {
            terminal.print(&format!("{name}: would be removed\n"))?;
            continue;
        }
        std::fs::remove_dir(path).with_context(|| format!("cannot remove {name}"))?;
        terminal.print(&format!("{name}: removed\n"))?;
    }
    let half = state
        .as_deref()
        .map_or_else(Vec::new, |folder| half_saved(root, folder));
    for path in &half {
        let name = plain(&path.display().to_string());
        if !args.dry_run {
            std::fs::remove_file(path).with_context(|| format!("cannot remove {name}"))?;
        }
        let done = if args.dry_run {
            "would be removed"
        } else {
            "removed"
        };
        terminal.print(&format!("{name}: {done}\n"))?;
    }
    if found.is_empty() && half.is_empty() && folders.is_empty() {
        terminal.print("nothing is left of killed runs\n")?;
    }
    Ok(status)
}
