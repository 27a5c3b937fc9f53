//! Reads how the machine's block devices lie on each other.

use std::path::Path;

use super::dm::{self, Control};
use super::graph::{ALL, Graph, Map, Node};
use super::snapshot::{BlockDevice, Snapshot};
use super::sysfs::{dev_of, names, text, value};
use crate::model::devid::DevId;
use crate::model::units::SECTOR_BYTES;
use crate::sys::root::Root;

/// The maps of all devices. Where the place of a device's bytes can't be read, it is all that the kernel
/// says lies below.
pub(super) fn graph(root: &Root, snapshot: &Snapshot) -> Graph {
    let control = Control::open(root);
    let mut graph = Graph::default();
    for device in &snapshot.devices {
        let mut maps = own_maps(&control, snapshot, device);
        for slave in slaves(&device.dir).map(Node::Device) {
            if !maps.iter().any(|map| map.lower == slave) {
                maps.push(Map::anywhere(ALL, slave, ALL));
            }
        }
        let drive = device.wwid.clone().map(Node::Drive);
        maps.extend(drive.map(|drive| Map::run(0, u64::MAX, drive, 0)));
        for map in maps {
            graph.add(Node::Device(device.dev), map);
        }
    }
    add_unresolved(snapshot, &mut graph);
    graph
}

/// An image that can't be told from others may be any of its size.
fn add_unresolved(snapshot: &Snapshot, graph: &mut Graph) {
    let images: Vec<(Node, Option<u64>, bool)> = snapshot
        .loops
        .iter()
        .filter_map(|found| {
            let device = snapshot.device(found.dev)?;
            // The whole file but for its start, unless the device was told to end before.
            let is_whole = value(device.dir.join("loop/sizelimit")) == Some(0_u64);
            let size = is_whole.then_some(found.backing.offset_bytes + device.size_bytes);
            let file = Node::File(found.backing.file?);
            Some((file, size, found.backing.is_unresolved))
        })
        .collect();
    for (unresolved, size, _) in images.iter().filter(|(_, _, is_unresolved)| *is_unresolved) {
        let same_size = |other: &&(Node, Option<u64>, bool)| {
            other.0 != *unresolved
                && other
                    .1
                    .is_none_or(|other| size.is_none_or(|own| own == other))
        };
        for (other, _, _) in images.iter().filter(same_size) {
            graph.add(unresolved.clone(), Map::run(0, u64::MAX, other.clone(), 0));
        }
    }
}

fn own_maps(control: &Control, snapshot: &Snapshot, device: &BlockDevice) -> Vec<Map> {
    if let Some(disk) = device.disk {
        return vec![partition(device, disk)];
    }
    if let Some(found) = snapshot.attached(device.dev) {
        let lower = found.backing.node().into_iter();
        let run = |lower| Map::run(0, device.size_bytes, lower, found.backing.offset_bytes);
        return lower.map(run).collect();
    }
    if device.is_dm() {
        let table = control.table(device.dev).unwrap_or_default();
        let maps = table.iter().flat_map(|target| dm::maps(device.dev, target));
        return maps.collect();
    }
    array_members(&device.dir)
}

fn partition(device: &BlockDevice, disk: DevId) -> Map {
    let disk = Node::Device(disk);
    match value::<u64>(device.dir.join("start")) {
        Some(start) => Map::run(
            0,
            device.size_bytes,
            disk,
            start.saturating_mul(SECTOR_BYTES),
        ),
        None => Map::anywhere(ALL, disk, ALL),
    }
}

/// The arrays of a container share its members; they, and no others, have a part of each
/// (Documentation/admin-guide/md.rst: `metadata_version`, `dev-XXX/offset` in sectors, `size` in KiB).
fn array_members(dir: &Path) -> Vec<Map> {
    let md = dir.join("md");
    let in_container =
        text(md.join("metadata_version")).is_some_and(|version| version.starts_with("external:/"));
    if !in_container {
        return Vec::new();
    }
    let member = |name: String| {
        let member = md.join(name);
        let start = value::<u64>(member.join("offset"))?.checked_mul(SECTOR_BYTES)?;
        let length = value::<u64>(member.join("size"))?.checked_mul(1024)?;
        let lower = Node::Device(dev_of(member.join("block"))?);
        Some(Map::anywhere(ALL, lower, start..start.checked_add(length)?))
    };
    let members = names(&md).into_iter();
    let members = members.filter(|name| name.starts_with("dev-"));
    members.filter_map(member).collect()
}

fn slaves(dir: &Path) -> impl Iterator<Item = DevId> {
    let slaves = dir.join("slaves");
    names(&slaves)
        .into_iter()
        .filter_map(move |name| dev_of(slaves.join(name)))
}
