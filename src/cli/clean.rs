//! `clean`: removes what killed runs left.

use crate::model::text::plain;
use crate::scratch;
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
    if found.is_empty() {
        terminal.print("nothing is left of killed runs\n")?;
    }
    Ok(status)
}
