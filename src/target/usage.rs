//! Who uses a device's bytes, under whatever name: by itself, through another device that lies on the same
//! bytes, by another path to the same drive. Facts only: the guard judges.

use std::io;
use std::ops::Range;

use super::blockmap;
use super::graph::{Graph, Node, Piece, meeting};
use super::snapshot::{BlockDevice, Snapshot};
use super::sysfs::{device_dir, name_of, text};
use crate::model::devid::DevId;
use crate::model::units::SECTOR_BYTES;
use crate::sys::root::Root;

/// How what is in use shares bytes with the device asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// It is that device.
    Itself,
    /// It is a partition of it.
    Partition,
    /// It is the whole disk of that partition.
    WholeDisk,
    /// Both lie on the same bytes.
    Overlap,
    /// The device lies on it.
    Lower,
    /// It is another path to the same drive, or lies on one.
    OtherPath,
    /// So its identity says, but it is of another size.
    OtherSize,
}

/// Who uses a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceUser {
    /// A mounted filesystem.
    Mount {
        /// Where.
        mount_point: String,
        /// A process of the mount namespace where it is, if that isn't this process's own.
        pid: Option<u32>,
    },
    /// The kernel, as swap space.
    Swap,
    /// A mounted btrfs.
    Btrfs {
        /// Its UUID.
        uuid: String,
    },
    /// A device built on it.
    Holder {
        /// That device's kernel name.
        name: String,
        /// Its name under /dev/mapper.
        dm_name: Option<String>,
        /// Its device-mapper UUID, whose prefix tells who made it.
        dm_uuid: Option<String>,
    },
    /// A loop device attached to it.
    Loop {
        /// The loop device's kernel name.
        name: String,
    },
    /// Other hosts, to which this one exports it.
    Export {
        /// As what.
        what: String,
    },
    /// Nobody knows: it is a file on a filesystem that may show those of another one.
    Unresolved,
    /// A process that has it open for writing.
    Writer {
        /// Its number.
        pid: u32,
        /// Its name.
        process: String,
    },
}

/// One use of bytes of the device asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// How what is in use shares them.
    pub relation: Relation,
    /// That device's kernel name, or the file's path.
    pub of: String,
    /// Who uses it.
    pub by: DeviceUser,
    /// Which bytes both have: "sectors 2048 to 4095 of sda". None if it is all of the device.
    pub place: Option<String>,
}

/// All uses of a device's bytes that can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The kernel name of the device asked about.
    pub device: String,
    /// Its uses.
    pub uses: Vec<Use>,
}

/// Who uses a device's bytes at this moment. Fails if the device isn't in sysfs.
pub fn usage(root: &Root, dev: DevId) -> io::Result<Usage> {
    let device = name_of(&device_dir(root, dev)?);
    let snapshot = Snapshot::take(root);
    let graph = blockmap::graph(root, &snapshot);
    let view = View::of(&snapshot, &graph, dev);
    let uses = view.named_uses().chain(view.built_uses());
    let uses = uses.chain(view.unresolved()).collect();
    Ok(Usage { device, uses })
}

/// Whether a write to one device may reach a byte of the other.
pub fn share_bytes(root: &Root, one: DevId, other: DevId) -> bool {
    let graph = blockmap::graph(root, &Snapshot::of_devices(root));
    let project = |dev| graph.project(&Node::Device(dev));
    meeting(&project(one), &project(other)).is_some()
}

/// The machine, seen from the device asked about.
struct View<'a> {
    snapshot: &'a Snapshot,
    graph: &'a Graph,
    own: Node,
    /// Its disk, if it is a partition.
    disk: Option<Node>,
    pieces: Vec<Piece>,
}

impl<'a> View<'a> {
    fn of(snapshot: &'a Snapshot, graph: &'a Graph, dev: DevId) -> View<'a> {
        let own = Node::Device(dev);
        View {
            snapshot,
            graph,
            disk: snapshot
                .device(dev)
                .and_then(|own| own.disk)
                .map(Node::Device),
            pieces: graph.project(&own),
            own,
        }
    }

    /// The uses of what can be told by a number: devices, and files that devices lie on.
    fn named_uses(&self) -> impl Iterator<Item = Use> {
        let uses = self.snapshot.named_users().into_iter();
        uses.filter_map(|(node, by)| {
            let pieces = self.graph.project(&node);
            let is_above = node != self.own && reaches(&pieces, &self.own);
            // Of what lies on it, the device that is built on it directly is told.
            if is_above && !self.is_partition(&node) {
                return None;
            }
            self.use_of(&node, &pieces, by)
        })
    }

    /// The devices that are built on the same bytes, used or not, but for those that it lies on itself.
    fn built_uses(&self) -> impl Iterator<Item = Use> {
        let devices = self.snapshot.devices.iter();
        // What has no size can't be written: a container of arrays, for one.
        let built = devices.filter(|device| device.disk.is_none() && device.size_bytes > 0);
        built.filter_map(|device| {
            let node = Node::Device(device.dev);
            (!reaches(&self.pieces, &node)).then(|| self.built_use(device, &node))?
        })
    }

    fn built_use(&self, device: &BlockDevice, node: &Node) -> Option<Use> {
        let pieces = self.graph.project(node);
        let met = meeting(&self.pieces, &pieces)?;
        let lower = self.graph.lower(node).map(|map| &map.lower);
        let lower = lower.filter(|lower| !matches!(lower, Node::Drive(_)));
        let on: Vec<(Relation, &Node)> = lower
            .filter(|lower| meeting(&self.pieces, &self.graph.project(lower)).is_some())
            .map(|lower| (self.relation(lower, &met.0), lower))
            .collect();
        let (relation, lower) = on.iter().min_by_key(|(relation, _)| *relation)?;
        let is_told = match reaches(&pieces, &self.own) {
            // Of several above each other, the lowest is.
            true => matches!(relation, Relation::Itself | Relation::Partition),
            // Maps over one map have one owner, who may keep one for himself: LVM has one over each pool.
            // Such a one matters if somebody uses it.
            false => !device.is_dm() || !on.iter().all(|(_, lower)| self.is_lower_map(lower)),
        };
        is_told.then(|| Use {
            relation: *relation,
            of: self.snapshot.name(lower),
            by: self.builder(device),
            place: self.place(&met),
        })
    }

    /// The image files that it lies on and that others may know under another name. One that was removed has
    /// none, so nobody can come to it any more.
    fn unresolved(&self) -> impl Iterator<Item = Use> {
        let loops = self.snapshot.loops.iter().map(|found| &found.backing);
        let loops =
            loops.filter(|backing| backing.is_unresolved && !backing.path.ends_with(" (deleted)"));
        let below = loops.filter(|backing| {
            let node = backing.node();
            node.is_some_and(|node| reaches(&self.pieces, &node))
        });
        below.map(|backing| Use {
            relation: Relation::Lower,
            of: backing.path.clone(),
            by: DeviceUser::Unresolved,
            place: None,
        })
    }

    /// A device-mapper device that it lies on.
    fn is_lower_map(&self, node: &Node) -> bool {
        let found = self.snapshot.at(node);
        found.is_some_and(BlockDevice::is_dm) && reaches(&self.pieces, node)
    }

    fn builder(&self, device: &BlockDevice) -> DeviceUser {
        let name = device.name.clone();
        match self.snapshot.attached(device.dev) {
            Some(_) => DeviceUser::Loop { name },
            // Documentation/ABI/testing/sysfs-block-dm
            None => DeviceUser::Holder {
                name,
                dm_name: text(device.dir.join("dm/name")),
                dm_uuid: text(device.dir.join("dm/uuid")),
            },
        }
    }

    fn use_of(&self, node: &Node, pieces: &[Piece], by: DeviceUser) -> Option<Use> {
        let met = meeting(&self.pieces, pieces)?;
        Some(Use {
            relation: self.relation(node, &met.0),
            of: self.snapshot.name(node),
            by,
            place: self.place(&met),
        })
    }

    fn is_partition(&self, node: &Node) -> bool {
        let disk = self.snapshot.at(node).and_then(|device| device.disk);
        disk.map(Node::Device).as_ref() == Some(&self.own)
    }

    /// How a node that has bytes of the device, which are at `met`, is related to it.
    fn relation(&self, node: &Node, met: &Node) -> Relation {
        if *node == self.own {
            Relation::Itself
        } else if self.is_partition(node) {
            Relation::Partition
        } else if self.disk.as_ref() == Some(node) {
            Relation::WholeDisk
        } else if let Node::Drive(wwid) = met {
            let disks = self.snapshot.devices.iter();
            let sizes = disks.filter(|disk| disk.wwid.as_ref() == Some(wwid));
            let mut sizes = sizes.map(|disk| disk.size_bytes);
            let first = sizes.next();
            match sizes.all(|size| Some(size) == first) {
                true => Relation::OtherPath,
                false => Relation::OtherSize,
            }
        } else if reaches(&self.pieces, node) {
            Relation::Lower
        } else {
            Relation::Overlap
        }
    }

    /// Where they meet, in words.
    fn place(&self, (node, bytes): &(Node, Range<u64>)) -> Option<String> {
        let size = self
            .snapshot
            .at(node)
            .map_or(u64::MAX, |found| found.size_bytes);
        let end = bytes.end.min(size.max(1));
        if bytes.start == 0 && (*node == self.own || end == u64::MAX) {
            return None;
        }
        let (first, last) = (bytes.start / SECTOR_BYTES, (end - 1) / SECTOR_BYTES);
        let name = self.snapshot.name(node);
        Some(format!("sectors {first} to {last} of {name}"))
    }
}

fn reaches(pieces: &[Piece], node: &Node) -> bool {
    pieces.iter().any(|piece| piece.node == *node)
}

#[cfg(test)]
mod tests;
