//! `list`: every block device and mounted filesystem.

use std::path::Path;

use anyhow::Context;

use crate::guard::{self, Refusal};
use crate::model::record::Level;
use crate::report::inventory::{self, Device, Inventory};
use crate::sys::root::Root;
use crate::target;

use super::args::List;
use super::output::Terminal;
use super::status;

pub(super) fn run(root: &Root, args: &List, terminal: &Terminal) -> anyhow::Result<u8> {
    let mut facts = target::all_devices(root).context("cannot list block devices")?;
    target::ask_drives(root, &mut facts);
    let devices = facts.into_iter().map(|facts| {
        let reason = guard::writable(root, &facts)
            .err()
            .map(|refusal| refusal.to_string());
        Device {
            facts,
            writable_by_raw: reason.is_none(),
            reason,
        }
    });
    let mounts = target::mounts(root).context("cannot list mounts")?;
    let mut stopped = Vec::new();
    let mounts = mounts
        .into_iter()
        .filter(|mount| mount.block_device.is_some());
    let mounts = mounts.map(|mount| {
        let point = mount.mount_point.clone();
        match target::stopped_below(root, Path::new(&point)) {
            None => target::complete(root, mount),
            Some(found) => {
                stopped.push(Refusal::Stopped {
                    named: point,
                    stopped: found,
                });
                mount
            }
        }
    });
    let inventory = Inventory {
        devices: devices.collect(),
        mounts: mounts.collect(),
    };
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&inventory)?),
        false => inventory::render(&inventory, &terminal.style()),
    };
    terminal.print(&text)?;
    for text in inventory::warnings(&inventory) {
        terminal.say(Level::Warning, &text);
    }
    for refusal in stopped {
        terminal.say(Level::Warning, &refusal.to_string());
    }
    Ok(status::MEASURED)
}
