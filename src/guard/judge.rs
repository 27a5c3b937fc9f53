//! The judgement: from the uses of a device to a refusal.

use super::refusal::Refusal;
use crate::model::devid::DevId;
use crate::sys::root::Root;
use crate::target;
use crate::target::usage::{DeviceUser, Relation, Usage, Use};

/// Refuses if a use of the device is known.
pub(super) fn judge_uses(root: &Root, dev: DevId, name: &str) -> Result<(), Refusal> {
    let usage = target::usage::usage(root, dev).map_err(|source| Refusal::Io {
        device: name.to_owned(),
        doing: "find it in sysfs",
        source,
    })?;
    judge(&usage).map_or(Ok(()), Err)
}

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
        DeviceUser::Mount { pid: None, .. } => (0, 0),
        DeviceUser::Swap => (0, 1),
        DeviceUser::Btrfs { .. } => (0, 2),
        DeviceUser::Holder { .. } => (0, 3),
        DeviceUser::Mount { .. } => (0, 4),
        DeviceUser::Export { .. } => (0, 5),
        DeviceUser::Loop { .. } => (1, 0),
        DeviceUser::Writer { .. } => (2, 0),
        DeviceUser::Unresolved => (3, 0),
    };
    (strength, found.relation, order)
}

fn refusal(device: &str, found: &Use) -> Refusal {
    if found.relation == Relation::Itself {
        return own_refusal(device.to_owned(), &found.by);
    }
    let of = &found.of;
    if found.by == DeviceUser::Unresolved {
        return Refusal::Unresolved {
            device: device.to_owned(),
            image: of.clone(),
        };
    }
    let place = found.place.as_ref();
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    let relative = match found.relation {
        Relation::Itself => of.clone(),
        Relation::Partition => format!("its partition {of}{place}"),
        Relation::WholeDisk => format!("its whole disk {of}"),
        Relation::Lower => format!("{of}, which it lies on{place},"),
        Relation::Overlap => format!("{of}, which lies on the same bytes{place},"),
        Relation::OtherPath => format!("{of}, by its identity (wwid) the same drive{place},"),
        Relation::OtherSize => {
            format!("{of}, by its identity (wwid) the same drive, though of another size{place},")
        }
    };
    let remedy = match found.relation {
        Relation::OtherPath => {
            "free that first, or name another drive; if they are two drives that have one identity, as serial \
             numbers tell (lsblk -o NAME,SIZE,SERIAL,WWN), have their maker set it right"
        }
        Relation::OtherSize => {
            "free that first, or name another drive; a path that kept the size of before needs a rescan (echo \
             1 >/sys/block/NAME/device/rescan), and two drives that have one identity differ in their serial \
             numbers (lsblk -o NAME,SIZE,SERIAL,WWN)"
        }
        _ => "free that first, or name another device",
    };
    Refusal::InUse {
        device: device.to_owned(),
        relative,
        usage: words(&found.by),
        remedy,
    }
}

fn own_refusal(device: String, by: &DeviceUser) -> Refusal {
    match by.clone() {
        DeviceUser::Mount {
            mount_point,
            pid: None,
        } => Refusal::MountedHere {
            device,
            mount_point,
        },
        DeviceUser::Mount {
            mount_point,
            pid: Some(pid),
        } => Refusal::MountedElsewhere {
            device,
            mount_point,
            pid,
        },
        DeviceUser::Swap => Refusal::Swap { device },
        DeviceUser::Btrfs { uuid } => Refusal::BtrfsMember { device, uuid },
        DeviceUser::Holder {
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
        DeviceUser::Export { what } => Refusal::Exported { device, what },
        DeviceUser::Writer { pid, process } => Refusal::OpenForWriting {
            device,
            process,
            pid,
        },
        DeviceUser::Unresolved => Refusal::Unresolved {
            image: device.clone(),
            device,
        },
        DeviceUser::Loop { name } => Refusal::LoopBacking {
            device,
            loop_name: name,
        },
    }
}

/// A use in words that follow "is".
fn words(by: &DeviceUser) -> String {
    match by {
        DeviceUser::Mount {
            mount_point,
            pid: None,
        } => format!("mounted at {mount_point}"),
        DeviceUser::Mount {
            mount_point,
            pid: Some(pid),
        } => format!("mounted at {mount_point} in the mount namespace of process {pid}"),
        DeviceUser::Swap => "active swap space".into(),
        DeviceUser::Btrfs { uuid } => format!("a member of the mounted btrfs {uuid}"),
        DeviceUser::Holder {
            name,
            dm_name,
            dm_uuid,
        } => {
            let (what, _) = maker(name, dm_name.as_deref(), dm_uuid.as_deref());
            format!("held by {name} ({what})")
        }
        DeviceUser::Unresolved => "a file that others may know under another name".into(),
        DeviceUser::Export { what } => format!("exported to other hosts as {what}"),
        DeviceUser::Writer { pid, process } => {
            format!("open for writing in {process} (process {pid})")
        }
        DeviceUser::Loop { name } => {
            format!("the backing of {name} (losetup -d /dev/{name} detaches it)")
        }
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

    fn verdict(uses: &[(Relation, &str, DeviceUser)]) -> Option<Refusal> {
        judge(&Usage {
            device: "sda".into(),
            uses: uses
                .iter()
                .map(|(relation, of, by)| Use {
                    relation: *relation,
                    of: (*of).into(),
                    by: by.clone(),
                    place: Some("sectors 8 to 15 of sda".into()),
                })
                .collect(),
        })
    }

    fn mount(pid: Option<u32>) -> DeviceUser {
        DeviceUser::Mount {
            mount_point: "/data".into(),
            pid,
        }
    }

    fn holder(uuid: &str) -> DeviceUser {
        DeviceUser::Holder {
            name: "dm-3".into(),
            dm_name: Some("vg-root".into()),
            dm_uuid: Some(uuid.into()),
        }
    }

    fn loop7() -> DeviceUser {
        DeviceUser::Loop {
            name: "loop7".into(),
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
        assert!(matches!(by(DeviceUser::Swap), Refusal::Swap { .. }));
        assert!(matches!(
            by(DeviceUser::Btrfs { uuid: "u".into() }),
            Refusal::BtrfsMember { .. }
        ));
        assert!(matches!(by(loop7()), Refusal::LoopBacking { .. }));
        let export = DeviceUser::Export {
            what: "namespace 1".into(),
        };
        assert!(matches!(by(export), Refusal::Exported { .. }));
        let writer = DeviceUser::Writer {
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
        let md = DeviceUser::Holder {
            name: "md0".into(),
            dm_name: None,
            dm_uuid: None,
        };
        let refusal = verdict(&[(Relation::Itself, "sda", md)]).unwrap();
        assert!(refusal.to_string().contains("mdadm --stop"), "{refusal}");
    }

    #[test]
    fn uses_of_relatives_name_the_relative_the_use_and_the_place() {
        for (relation, of, by, text) in [
            (
                Relation::Partition,
                "sda2",
                DeviceUser::Swap,
                "its partition sda2 (sectors 8 to 15 of sda) is active swap space",
            ),
            (
                Relation::WholeDisk,
                "sda",
                holder("LVM-x"),
                "its whole disk sda is held by dm-3 (LVM volume vg-root)",
            ),
            (
                Relation::Lower,
                "loop3",
                mount(None),
                "loop3, which it lies on (sectors 8 to 15 of sda), is mounted at /data",
            ),
            (
                Relation::Overlap,
                "dm-1",
                mount(None),
                "dm-1, which lies on the same bytes (sectors 8 to 15 of sda), is mounted",
            ),
            (
                Relation::Partition,
                "sda1",
                loop7(),
                "is the backing of loop7 (losetup -d /dev/loop7",
            ),
            (
                Relation::Lower,
                "/x.img",
                loop7(),
                "/x.img, which it lies on (sectors 8 to 15 of sda), is the backing of loop7",
            ),
        ] {
            let refusal = verdict(&[(relation, of, by)]).unwrap();
            assert!(matches!(refusal, Refusal::InUse { .. }));
            assert!(refusal.to_string().contains(text), "{refusal}");
        }
    }

    #[test]
    fn an_identity_that_two_drives_may_share_is_told_and_how_to_tell_them_apart() {
        let path = verdict(&[(Relation::OtherPath, "sdb1", mount(None))]).unwrap();
        let path = path.to_string();
        assert!(
            path.contains("the same drive (sectors 8 to 15 of sda), is mounted at /data"),
            "{path}"
        );
        assert!(path.contains("lsblk -o NAME,SIZE,SERIAL,WWN"), "{path}");
        let other_size = verdict(&[(Relation::OtherSize, "sdb", DeviceUser::Swap)]).unwrap();
        let other_size = other_size.to_string();
        assert!(
            other_size.contains("though of another size"),
            "{other_size}"
        );
        assert!(other_size.contains("device/rescan"), "{other_size}");
    }

    #[test]
    fn of_several_uses_the_most_telling_one_is_given() {
        let uses = [
            (Relation::Itself, "sda", loop7()),
            (Relation::Lower, "loop7", mount(None)),
        ];
        assert!(matches!(verdict(&uses).unwrap(), Refusal::InUse { .. }));
        let uses = [
            (Relation::Partition, "sda1", mount(None)),
            (Relation::Itself, "sda", mount(Some(7))),
            (
                Relation::Itself,
                "sda",
                DeviceUser::Btrfs { uuid: "u".into() },
            ),
            (Relation::Itself, "sda", mount(None)),
        ];
        assert!(matches!(
            verdict(&uses).unwrap(),
            Refusal::MountedHere { .. }
        ));
    }
}
