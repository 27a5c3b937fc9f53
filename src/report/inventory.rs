//! What `syncprof list` shows: block devices and mounts, and whether `raw` may write them.

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::model::facts::{DeviceFacts, MountFacts};
use crate::model::text::plain;
use crate::model::units::show_amount;

use super::Style;

/// Every device and mount.
#[derive(Debug, Serialize)]
pub struct Inventory {
    /// Devices, each with the guard's word on it.
    pub devices: Vec<Device>,
    /// Mounted filesystems on block devices.
    pub mounts: Vec<MountFacts>,
}

/// A device, and whether `raw` may write it.
#[derive(Debug, Serialize)]
pub struct Device {
    /// What it is.
    #[serde(flatten)]
    pub facts: DeviceFacts,
    /// `raw` may write it.
    pub writable_by_raw: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// The inventory as two tables.
pub fn render(inventory: &Inventory, style: &Style) -> String {
    let mut devices = table(
        style,
        &[
            "device",
            "kind",
            "size",
            "model",
            "blocks",
            "cache",
            "FUA",
            "writable by raw?",
        ],
    );
    for device in &inventory.devices {
        devices.add_row(device_row(device).iter().map(|text| plain(text)));
    }
    let mut mounts = table(
        style,
        &["mount point", "type", "source", "size", "free", "options"],
    );
    for mount in &inventory.mounts {
        mounts.add_row(mount_row(mount).iter().map(|text| plain(text)));
    }
    format!("{devices}\n\n{mounts}\n")
}

fn table(style: &Style, header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_header(header.to_vec());
    table.set_content_arrangement(ContentArrangement::Dynamic);
    match style.width {
        Some(width) => table.set_width(u16::try_from(width).unwrap_or(u16::MAX)),
        None => table.set_content_arrangement(ContentArrangement::Disabled),
    };
    table
}

fn device_row(device: &Device) -> Vec<String> {
    let facts = &device.facts;
    let blocks = [facts.logical_block_bytes, facts.physical_block_bytes].map(|bytes| text(&bytes));
    let kind = format!("{:?}", facts.kind).to_lowercase();
    vec![
        facts.name.clone(),
        kind,
        show_amount(facts.size_bytes),
        text(&facts.model),
        blocks.join("/"),
        text(&facts.write_cache),
        match facts.fua {
            Some(true) => "yes".to_owned(),
            Some(false) => "no".to_owned(),
            None => text::<String>(&None),
        },
        match &device.reason {
            None => "yes".to_owned(),
            Some(reason) => format!("no: {reason}"),
        },
    ]
}

fn mount_row(mount: &MountFacts) -> Vec<String> {
    vec![
        mount.mount_point.clone(),
        mount.fs_type.clone(),
        mount.source.clone(),
        text(&mount.size_bytes.map(show_amount)),
        text(&mount.free_bytes.map(show_amount)),
        mount.options.join(","),
    ]
}

fn text<T: ToString>(fact: &Option<T>) -> String {
    fact.as_ref()
        .map_or_else(|| "-".to_owned(), ToString::to_string)
}
