//! `clean`: removes what killed runs left.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context;

use crate::lab;
use crate::model::record::Level;
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
    let left_alone = scratch::left_alone(root, state.as_deref(), &args.directories, &found);
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
                terminal.error(&anyhow::anyhow!("cannot remove {folder}: {error}"));
            }
        }
    }
    let places = state.as_deref().map_or_else(Vec::new, lab::leftovers);
    let images = state.as_deref().map_or_else(Vec::new, lab::old_images);
    let is_clean = found.is_empty() && places.is_empty() && images.is_empty();
    for place in places {
        let path = place.path().to_owned();
        remove_or_tell(&path, || place.remove(), args.dry_run, terminal)?;
    }
    for image in images {
        let path = image.path().to_owned();
        remove_or_tell(&path, || image.remove(), args.dry_run, terminal)?;
    }
    let half = state
        .as_deref()
        .map_or_else(Vec::new, |folder| half_saved(root, folder));
    for path in &half {
        remove_or_tell(path, || fs::remove_file(path), args.dry_run, terminal)?;
    }
    for (folder, why) in &left_alone {
        let text = format!("{} stays: it {why}", folder.display());
        terminal.say(Level::Warning, &text);
    }
    if is_clean && half.is_empty() && left_alone.is_empty() {
        terminal.print("nothing is left of killed runs\n")?;
    }
    Ok(status)
}

fn remove_or_tell(
    path: &Path,
    remove: impl FnOnce() -> io::Result<()>,
    dry_run: bool,
    terminal: &Terminal,
) -> anyhow::Result<()> {
    let name = plain(&path.display().to_string());
    if dry_run {
        return Ok(terminal.print(&format!("{name}: would be removed\n"))?);
    }
    remove().with_context(|| format!("cannot remove {name}"))?;
    Ok(terminal.print(&format!("{name}: removed\n"))?)
}
