//! What `syncprof list` shows: block devices and mounts, and whether `raw` may write them.

use serde::Serialize;

use crate::model::facts::{DeviceFacts, DeviceKind, MountFacts};
use crate::model::units::show_amount;

use super::table::lay_out;
use super::view::{Column, Table};
use super::{Style, describe, drives};

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

/// What stands where nothing is known.
pub(super) const UNKNOWN: &str = "-";

/// Why one may doubt figures of these devices, a line each: for standard error.
pub fn warnings(inventory: &Inventory) -> Vec<String> {
    let devices = inventory.devices.iter();
    devices
        .flat_map(|device| drives::warnings(&device.facts))
        .collect()
}

/// The inventory as tables. Facts that no device has, have no column.
pub fn render(inventory: &Inventory, style: &Style) -> String {
    let devices = Table {
        caption: "Block devices".to_owned(),
        columns: vec![
            Column::text("device", 0),
            Column::text("kind", 2),
            Column::number("size", 0),
            Column::text("model", 3),
            Column::text("serial", 4),
            Column::text("firmware", 6),
            Column::text("PCIe", 5),
            Column::text("blocks", 4),
            Column::text("cache", 2),
            Column::text("FUA", 3),
            Column::wrapping("writable by raw?"),
        ],
        rows: inventory.devices.iter().map(device_row).collect(),
    };
    let own = drives::table(inventory.devices.iter().map(|device| &device.facts));
    let mounts = Table {
        caption: "Filesystems on block devices".to_owned(),
        columns: vec![
            Column::wrapping("mount point"),
            Column::text("type", 0),
            Column::text("source", 2),
            Column::number("size", 1),
            Column::number("free", 1),
            Column::text("journal", 3),
            Column::wrapping("options"),
        ],
        rows: inventory.mounts.iter().map(mount_row).collect(),
    };
    let mut out = Vec::new();
    for mut table in [Some(devices), own, Some(mounts)].into_iter().flatten() {
        table.drop_blank(UNKNOWN);
        if !out.is_empty() {
            out.push(String::new());
        }
        out.extend(lay_out(&table, style.width));
    }
    out.join("\n") + "\n"
}

fn device_row(device: &Device) -> Vec<String> {
    let facts = &device.facts;
    let is_partition = facts.kind == DeviceKind::Partition;
    let blocks = [facts.logical_block_bytes, facts.physical_block_bytes].map(known);
    // A partition's link is that of its disk, above it.
    let pcie = facts.pcie.as_ref().filter(|_| !is_partition);
    vec![
        format!("{}{}", if is_partition { "└ " } else { "" }, facts.name),
        format!("{:?}", facts.kind).to_lowercase(),
        show_amount(facts.size_bytes),
        known(facts.model.as_ref()),
        known(facts.serial.as_ref()),
        known(facts.firmware.as_ref()),
        known(pcie.and_then(describe::link)),
        blocks.join("/"),
        known(facts.write_cache.as_ref()),
        known(facts.fua.map(|fua| if fua { "yes" } else { "no" })),
        match &device.reason {
            None => "yes".to_owned(),
            Some(reason) => {
                let own = format!("{}: ", facts.name);
                format!("no: {}", reason.strip_prefix(&own).unwrap_or(reason))
            }
        },
    ]
}

fn mount_row(mount: &MountFacts) -> Vec<String> {
    vec![
        mount.mount_point.clone(),
        mount.fs_type.clone(),
        mount.source.clone(),
        known(mount.size_bytes.map(show_amount)),
        known(mount.free_bytes.map(show_amount)),
        known(mount.journal.as_ref().and_then(describe::journal)),
        mount.options.join(", "),
    ]
}

fn known<T: ToString>(fact: Option<T>) -> String {
    fact.map_or_else(|| UNKNOWN.to_owned(), |fact| fact.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::PcieLink;
    use crate::model::fixture::Builder;

    fn inventory() -> Inventory {
        let record = Builder::new("raw").device("t0").record;
        let mut stack = record.targets[0].stack.clone();
        stack.reverse();
        stack[0].pcie = Some(PcieLink {
            speed: Some("8.0 GT/s PCIe".to_owned()),
            width: Some(2),
            max_speed: Some("16.0 GT/s PCIe".to_owned()),
            max_width: Some(4),
        });
        let reason = "mounted at /var/lib/postgresql/17/main; to compare it with its filesystem, \
                      use `syncprof gap /var/lib/postgresql/17/main`";
        let devices = stack.into_iter().map(|facts| Device {
            reason: Some(format!("{}: {reason}", facts.name)),
            facts,
            writable_by_raw: false,
        });
        let options = "rw,relatime,inode64,logbufs=8,logbsize=32k,noquota,discard,attr2";
        let directory = Builder::new("file").directory(
            "t0",
            "/var/lib/postgresql/17/main",
            crate::model::record::BaselineKind::None,
            None,
        );
        let mount = directory.record.targets[0].mount.clone().unwrap();
        let mount = MountFacts {
            options: options.split(',').map(str::to_owned).collect(),
            size_bytes: Some(500 << 30),
            free_bytes: Some(200 << 30),
            ..mount
        };
        Inventory {
            devices: devices.collect(),
            mounts: vec![mount],
        }
    }

    fn text(width: usize) -> String {
        let style = Style {
            width: Some(width),
            color: false,
        };
        render(&inventory(), &style)
    }

    #[test]
    fn everything_known_is_shown_where_there_is_room() {
        let text = text(300);
        for part in [
            "└ nvme0n1p2",
            "ACME DC-3",
            "S1",
            "8.0 GT/s x2 (of 16.0 GT/s x4)",
            "512/4096",
            "no: mounted at /var",
            "500 GiB",
            "200 GiB",
            "128 MiB ordered",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        assert_eq!(text.lines().count(), 8, "one line a row:\n{text}");
    }

    #[test]
    fn long_reasons_and_options_wrap_in_narrow_terminals() {
        for width in [60, 80, 100, 120] {
            let text = text(width);
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}:\n{text}");
            }
            assert!(text.contains("writable by raw?") && text.contains("options"));
        }
        let text = text(80);
        assert!(
            text.contains("500 GiB") && text.contains("write back"),
            "{text}"
        );
    }
}
