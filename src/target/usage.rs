//! Who uses a device's bytes: by itself, through its partitions or its whole disk, by another path to
//! the same drive, and for a loop device through what it lies on. Facts only: the guard judges.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::Path;

use super::loops::Backing;
use super::snapshot::{LoopUse, Snapshot};
use super::sysfs::{
    dev_of, device_dir, disk_dir, is_partition, name_of, names, partitions, text, value,
};
use crate::model::facts::DevId;
use crate::sys::root::Root;

/// How the device in use shares bytes with the device asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// It is that device.
    Itself,
    /// It is a partition of it.
    Partition,
    /// It is the whole disk of that partition.
    WholeDisk,
    /// It is another path to the same drive, or a partition of that.
    OtherPath,
    /// It lies below that loop device, or on the same file.
    Lower,
}

/// Who uses a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
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
    /// A loop device attached to it, or to the same file.
    Loop {
        /// The loop device's kernel name.
        name: String,
        /// The path of the file that both lie on; none where the device itself is the backing.
        file: Option<String>,
    },
    /// Other hosts, to which this one exports it.
    Export {
        /// As what.
        what: String,
    },
    /// A process that has it open for writing.
    Writer {
        /// Its number.
        pid: u32,
        /// Its name.
        process: String,
    },
}

/// One use of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// How the device shares bytes with the one asked about.
    pub relation: Relation,
    /// The device's kernel name.
    pub of: String,
    /// Who uses it.
    pub by: By,
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
    let mut walk = Walk {
        root,
        snapshot: &Snapshot::take(root),
        seen: HashSet::new(),
        waiting: VecDeque::from([Place {
            dev,
            relation: Relation::Itself,
            with_partitions: true,
            upper_loop: None,
        }]),
        uses: Vec::new(),
    };
    let device = name_of(&device_dir(root, dev)?);
    while let Some(place) = walk.waiting.pop_front() {
        walk.visit(place);
    }
    Ok(Usage {
        device,
        uses: walk.uses,
    })
}

/// A device that shares bytes with the one asked about.
#[derive(Clone, Copy)]
struct Place {
    dev: DevId,
    relation: Relation,
    /// Its partitions share bytes too: it wasn't reached from one of them.
    with_partitions: bool,
    /// The loop device that was followed down to here.
    upper_loop: Option<DevId>,
}

struct Walk<'a> {
    root: &'a Root,
    snapshot: &'a Snapshot,
    seen: HashSet<DevId>,
    waiting: VecDeque<Place>,
    uses: Vec<Use>,
}

impl Walk<'_> {
    fn visit(&mut self, place: Place) {
        if !self.seen.insert(place.dev) {
            return;
        }
        // One that vanished meanwhile is used by nobody.
        let Ok(dir) = device_dir(self.root, place.dev) else {
            return;
        };
        let name = name_of(&dir);
        let direct = self
            .named_users(place.dev)
            .into_iter()
            .chain(holders(&dir))
            .chain(self.loops_on(place));
        let direct: Vec<Use> = direct
            .map(|by| Use {
                relation: place.relation,
                of: name.clone(),
                by,
            })
            .collect();
        self.uses.extend(direct);
        self.follow_partitions(place, &dir);
        self.follow_other_paths(place, &dir);
        self.follow_loop(place, &name);
    }

    fn named_users(&self, dev: DevId) -> Vec<By> {
        let Snapshot {
            mounts,
            swaps,
            btrfs,
            writers,
            exports,
            ..
        } = self.snapshot;
        let image = self.attached(Some(dev)).and_then(|own| own.backing.file);
        let exports = exports
            .iter()
            .filter(|export| export.dev == Some(dev) || image.is_some() && export.file == image);
        let mounts = mounts.iter().filter(|mount| mount.dev == dev);
        let swaps = swaps.iter().filter(|&&swap| swap == dev);
        let btrfs = btrfs.iter().filter(|(member, _)| *member == dev);
        let writers = writers.iter().filter(|writer| writer.dev == dev);
        mounts
            .map(|mount| By::Mount {
                mount_point: mount.mount_point.clone(),
                pid: mount.pid,
            })
            .chain(swaps.map(|_| By::Swap))
            .chain(btrfs.map(|(_, uuid)| By::Btrfs { uuid: uuid.clone() }))
            .chain(exports.map(|export| By::Export {
                what: export.what.clone(),
            }))
            .chain(writers.map(|writer| By::Writer {
                pid: writer.pid,
                process: writer.process.clone(),
            }))
            .collect()
    }

    /// Loop devices that are attached to this device, but for the one that was followed down to
    /// here, and others on parts of the device that it doesn't reach.
    fn loops_on(&self, place: Place) -> Vec<By> {
        let upper = self.attached(place.upper_loop);
        let apart = |found: &LoopUse| {
            upper.is_some_and(|upper| {
                upper.backing.block_device == Some(place.dev) && !overlap(found, upper)
            })
        };
        self.snapshot
            .loops
            .iter()
            .filter(|found| found.backing.block_device == Some(place.dev))
            .filter(|found| Some(found.dev) != place.upper_loop && !apart(found))
            .map(|found| By::Loop {
                name: found.name.clone(),
                file: None,
            })
            .collect()
    }

    fn attached(&self, dev: Option<DevId>) -> Option<&LoopUse> {
        self.snapshot
            .loops
            .iter()
            .find(|found| Some(found.dev) == dev)
    }

    fn follow_partitions(&mut self, place: Place, dir: &Path) {
        if place.with_partitions {
            for dev in partitions(dir) {
                self.waiting.push_back(Place {
                    dev,
                    relation: match place.relation {
                        Relation::Itself => Relation::Partition,
                        other => other,
                    },
                    ..place
                });
            }
        }
        if is_partition(dir)
            && let Some(dev) = dev_of(disk_dir(dir))
        {
            self.waiting.push_back(Place {
                dev,
                relation: match place.relation {
                    Relation::Itself => Relation::WholeDisk,
                    other => other,
                },
                with_partitions: false,
                upper_loop: place.upper_loop,
            });
        }
    }

    /// Goes from a disk across to others that are the same drive: the LUNs of a SAN by each path, a
    /// dual-port NVMe drive without multipath. From a partition, to their partitions in its place.
    fn follow_other_paths(&mut self, place: Place, dir: &Path) {
        let disk = disk_dir(dir);
        let disks = &self.snapshot.disks;
        let Some(own) = disks.iter().find(|found| found.dir == disk) else {
            return;
        };
        let others = disks.iter();
        let others = others.filter(|other| other.wwid == own.wwid && other.dir != own.dir);
        for other in others {
            let devices = match is_partition(dir) {
                true => partitions_in_place_of(self.root, &other.dir, dir),
                false => dev_of(&other.dir).into_iter().collect(),
            };
            self.waiting.extend(devices.into_iter().map(|dev| Place {
                dev,
                relation: match place.relation {
                    Relation::Lower => Relation::Lower,
                    _ => Relation::OtherPath,
                },
                ..place
            }));
        }
    }

    /// Goes from a loop device down to the block device that it lies on, or across to the other
    /// loop devices on the same file. What else uses the filesystem that the file lies on is no
    /// matter: writes reach it through that filesystem.
    fn follow_loop(&mut self, place: Place, name: &str) {
        let Some(own) = self.attached(Some(place.dev)).cloned() else {
            return;
        };
        let lower = |dev, upper_loop| Place {
            dev,
            relation: Relation::Lower,
            with_partitions: true,
            upper_loop,
        };
        if let Some(block_device) = own.backing.block_device {
            self.waiting.push_back(lower(block_device, Some(own.dev)));
        }
        let Backing {
            file: Some(file), ..
        } = own.backing
        else {
            return;
        };
        for other in &self.snapshot.loops {
            let same = other.backing.file == Some(file) && other.dev != own.dev;
            if same && overlap(other, &own) && !self.seen.contains(&other.dev) {
                self.uses.push(Use {
                    relation: place.relation,
                    of: name.to_owned(),
                    by: By::Loop {
                        name: other.name.clone(),
                        file: Some(own.backing.path.clone()),
                    },
                });
                self.waiting.push_back(lower(other.dev, None));
            }
        }
    }
}

/// The partitions of a disk that share bytes with a partition of the same drive by another path.
fn partitions_in_place_of(root: &Root, disk: &Path, partition: &Path) -> Vec<DevId> {
    let range = |dir: &Path| {
        let start: u64 = value(dir.join("start"))?;
        let sectors: u64 = value(dir.join("size"))?;
        Some((start, start.saturating_add(sectors)))
    };
    let own = range(partition);
    let shares = |dev: &DevId| {
        let other = device_dir(root, *dev).ok().and_then(|dir| range(&dir));
        // Where either place is unknown, it may be the same.
        own.zip(other)
            .is_none_or(|(own, other)| own.0 < other.1 && other.0 < own.1)
    };
    partitions(disk).into_iter().filter(shares).collect()
}

/// Whether two loop devices on the same backing share bytes of it.
fn overlap(one: &LoopUse, other: &LoopUse) -> bool {
    let end = |found: &LoopUse| found.backing.offset_bytes.saturating_add(found.size_bytes);
    one.backing.offset_bytes < end(other) && other.backing.offset_bytes < end(one)
}

/// The devices built on a device, and who made them (Documentation/ABI/testing/sysfs-block-dm).
fn holders(dir: &Path) -> Vec<By> {
    let holders = dir.join("holders");
    names(&holders)
        .into_iter()
        .map(|name| By::Holder {
            dm_name: text(holders.join(&name).join("dm/name")),
            dm_uuid: text(holders.join(&name).join("dm/uuid")),
            name,
        })
        .collect()
}

#[cfg(test)]
mod tests;
