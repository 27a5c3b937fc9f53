//! The judgement: from the uses of a device to a refusal. Pure.

use super::refusal::Refusal;
use crate::target::usage::{By, Relation, Usage, Use};

/// Why a device with these uses may not be written; none if it has none. Of several reasons, the
/// one that tells the user most.
pub fn judge(usage: &Usage) -> Option<Refusal> {
    usage
        .uses
        .iter()
        .min_by_key(|found| weight(found))
        .map(|found| refusal(&usage.device, found))
}

/// Orders reasons: what a device is used for comes before the bare fact that somebody holds it, and
/// the device itself before its relatives.
fn weight(found: &Use) -> (u8, Relation, u8) {
    let (strength, order) = match found.by {
        By::Mount { pid: None, .. } => (0, 0),
        By::Swap => (0, 1),
        By::Btrfs { .. } => (0, 2),
        By::Holder { .. } => (0, 3),
        By::Mount { .. } => (0, 4),
        By::Export { .. } => (0, 5),
        By::Loop { .. } => (1, 0),
        By::Writer { .. } => (2, 0),
    };
    (strength, found.relation, order)
}

fn refusal(device: &str, found: &Use) -> Refusal {
    let device = device.to_owned();
    let of = found.of.clone();
    if let By::Loop { name, file } = &found.by {
        let through = match (file, found.relation) {
            (Some(path), _) => format!("its backing file {path}"),
            (None, Relation::Itself) => "it".into(),
            (None, Relation::Partition) => format!("its partition {of}"),
            (None, Relation::WholeDisk) => format!("its whole disk {of}"),
            (None, Relation::OtherPath) => format!("{of}, which is the same drive,"),
            (None, Relation::Lower) => format!("{of}, which it lies on,"),
        };
        return Refusal::LoopBacking {
            device,
            loop_name: name.clone(),
            through,
        };
    }
    match found.relation {
        Relation::Itself => own_refusal(device, &found.by),
        Relation::Partition => Refusal::PartitionInUse {
            device,
            partition: of,
            usage: words(&found.by),
        },
        Relation::WholeDisk => Refusal::WholeDiskInUse {
            device,
            disk: of,
            usage: words(&found.by),
        },
        Relation::OtherPath => Refusal::OtherPathInUse {
            device,
            other: of,
            usage: words(&found.by),
        },
        Relation::Lower => Refusal::LowerInUse {
            device,
            lower: of,
            usage: words(&found.by),
        },
    }
}

fn own_refusal(device: String, by: &By) -> Refusal {
    match by.clone() {
        By::Mount {
            mount_point,
            pid: None,
        } => Refusal::MountedHere {
            device,
            mount_point,
        },
        By::Mount {
            mount_point,
            pid: Some(pid),
        } => Refusal::MountedElsewhere {
            device,
            mount_point,
            pid,
        },
        By::Swap => Refusal::Swap { device },
        By::Btrfs { uuid } => Refusal::BtrfsMember { device, uuid },
        By::Holder {
            name,
            dm_name,
            dm_uuid,
        } => {
            let (what, remedy) = maker(&name, dm_name.as_deref(), dm_uuid.as_deref());
            Refusal::Holder {
                device,
                holder: name,
                what,
                remedy,
            }
        }
        By::Export { what } => Refusal::Exported { device, what },
        By::Writer { pid, process } => Refusal::OpenForWriting {
            device,
            process,
            pid,
        },
        By::Loop { name, .. } => Refusal::LoopBacking {
            device,
            loop_name: name,
            through: "it".into(),
        },
    }
}

/// A use in words that follow "is".
fn words(by: &By) -> String {
    match by {
        By::Mount {
            mount_point,
            pid: None,
        } => format!("mounted at {mount_point}"),
        By::Mount {
            mount_point,
            pid: Some(pid),
        } => format!("mounted at {mount_point} in the mount namespace of process {pid}"),
        By::Swap => "active swap space".into(),
        By::Btrfs { uuid } => format!("a member of the mounted btrfs {uuid}"),
        By::Holder {
            name,
            dm_name,
            dm_uuid,
        } => {
            let (what, _) = maker(name, dm_name.as_deref(), dm_uuid.as_deref());
            format!("held by {name} ({what})")
        }
        By::Export { what } => format!("exported to other hosts as {what}"),
        By::Writer { pid, process } => {
            format!("open for writing in {process} (process {pid})")
        }
        By::Loop { name, .. } => format!("the backing of {name}"),
    }
}

/// What a holder is and how to take it apart. Makers of device-mapper devices put their name before
/// the UUID (libdm's and cryptsetup's DM_UUID prefixes).
fn maker(name: &str, dm_name: Option<&str>, dm_uuid: Option<&str>) -> (String, &'static str) {
    let uuid = dm_uuid.unwrap_or_default();
    let (what, remedy) = match uuid.split('-').next().unwrap_or_default() {
        "LVM" => (
            "LVM volume",
            "deactivate its volume group (vgchange -an VG) or name another device",
        ),
        "CRYPT" => (
            "encrypted volume",
            "close it (cryptsetup close NAME) or name another device",
        ),
        "mpath" => (
            "multipath device",
            "name the multipath device instead of one of its paths",
        ),
        _ if dm_name.is_some() || name.starts_with("dm-") => (
            "device-mapper device",
            "remove it (dmsetup remove NAME) or name another device",
        ),
        _ if name.starts_with("md") => (
            "md array",
            "stop the array (mdadm --stop) or name another device",
        ),
        _ if name.starts_with("bcache") => {
            ("bcache device", "stop the cache or name another device")
        }
        _ => (
            "device built on it",
            "take that apart first or name another device",
        ),
    };
    match dm_name {
        Some(dm_name) => (format!("{what} {dm_name}"), remedy),
        None => (what.into(), remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(uses: &[(Relation, &str, By)]) -> Option<Refusal> {
        judge(&Usage {
            device: "sda".into(),
            uses: uses
                .iter()
                .map(|(relation, of, by)| Use {
                    relation: *relation,
                    of: (*of).into(),
                    by: by.clone(),
                })
                .collect(),
        })
    }

    fn mount(pid: Option<u32>) -> By {
        By::Mount {
            mount_point: "/data".into(),
            pid,
        }
    }

    fn holder(uuid: &str) -> By {
        By::Holder {
            name: "dm-3".into(),
            dm_name: Some("vg-root".into()),
            dm_uuid: Some(uuid.into()),
        }
    }

    fn loop_on(file: Option<&str>) -> By {
        By::Loop {
            name: "loop7".into(),
            file: file.map(str::to_owned),
        }
    }

    #[test]
    fn an_unused_device_is_not_refused() {
        assert!(verdict(&[]).is_none());
    }

    #[test]
    fn each_use_of_the_device_itself_has_its_own_refusal() {
        let by = |by| verdict(&[(Relation::Itself, "sda", by)]).unwrap();
        assert!(matches!(by(mount(None)), Refusal::MountedHere { .. }));
        assert!(matches!(
            by(mount(Some(7))),
            Refusal::MountedElsewhere { pid: 7, .. }
        ));
        assert!(matches!(by(By::Swap), Refusal::Swap { .. }));
        assert!(matches!(
            by(By::Btrfs { uuid: "u".into() }),
            Refusal::BtrfsMember { .. }
        ));
        assert!(matches!(by(loop_on(None)), Refusal::LoopBacking { .. }));
        let export = By::Export {
            what: "namespace 1".into(),
        };
        assert!(matches!(by(export), Refusal::Exported { .. }));
        let writer = By::Writer {
            pid: 9,
            process: "dd".into(),
        };
        assert!(matches!(by(writer), Refusal::OpenForWriting { pid: 9, .. }));
    }

    #[test]
    fn a_holder_is_named_by_its_maker() {
        for (uuid, what) in [
            ("LVM-abc", "LVM volume vg-root"),
            ("CRYPT-LUKS2-abc", "encrypted volume vg-root"),
            ("mpath-3600", "multipath device vg-root"),
            ("", "device-mapper device vg-root"),
        ] {
            let refusal = verdict(&[(Relation::Itself, "sda", holder(uuid))]).unwrap();
            assert!(refusal.to_string().contains(what), "{refusal}");
        }
        let md = By::Holder {
            name: "md0".into(),
            dm_name: None,
            dm_uuid: None,
        };
        let refusal = verdict(&[(Relation::Itself, "sda", md)]).unwrap();
        assert!(refusal.to_string().contains("mdadm --stop"), "{refusal}");
    }

    #[test]
    fn uses_of_relatives_name_the_relative_and_the_use() {
        let partition = verdict(&[(Relation::Partition, "sda2", By::Swap)]).unwrap();
        assert!(matches!(partition, Refusal::PartitionInUse { .. }));
        assert!(
            partition.to_string().contains("sda2 is active swap space"),
            "{partition}"
        );
        let disk = verdict(&[(Relation::WholeDisk, "sda", holder("LVM-x"))]).unwrap();
        assert!(matches!(disk, Refusal::WholeDiskInUse { .. }));
        let path = verdict(&[(Relation::OtherPath, "sdb1", mount(None))]).unwrap();
        assert!(matches!(path, Refusal::OtherPathInUse { .. }));
        assert!(
            path.to_string().contains("sdb1, which is mounted at /data"),
            "{path}"
        );
        let lower = verdict(&[(Relation::Lower, "loop3", mount(None))]).unwrap();
        assert!(matches!(lower, Refusal::LowerInUse { .. }));
        assert!(
            lower
                .to_string()
                .contains("loop3, which is mounted at /data"),
            "{lower}"
        );
        let backing = verdict(&[(Relation::Partition, "sda1", loop_on(None))]).unwrap();
        assert!(
            backing
                .to_string()
                .contains("its partition sda1 backs loop7"),
            "{backing}"
        );
        let file = verdict(&[(Relation::Itself, "sda", loop_on(Some("/x.img")))]).unwrap();
        assert!(
            file.to_string()
                .contains("its backing file /x.img backs loop7"),
            "{file}"
        );
    }

    #[test]
    fn of_several_uses_the_most_telling_one_is_given() {
        let uses = [
            (Relation::Itself, "sda", loop_on(Some("/x.img"))),
            (Relation::Lower, "loop7", mount(None)),
        ];
        assert!(matches!(
            verdict(&uses).unwrap(),
            Refusal::LowerInUse { .. }
        ));
        let uses = [
            (Relation::Partition, "sda1", mount(None)),
            (Relation::Itself, "sda", mount(Some(7))),
            (Relation::Itself, "sda", By::Btrfs { uuid: "u".into() }),
            (Relation::Itself, "sda", mount(None)),
        ];
        assert!(matches!(
            verdict(&uses).unwrap(),
            Refusal::MountedHere { .. }
        ));
    }
}
