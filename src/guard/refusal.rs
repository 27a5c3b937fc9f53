//! Why a device may not be written. Each message is one line: what was refused, the fact it rests
//! on, and what to do about it.

use std::io;

use crate::model::text::shell;
use crate::model::units::show_bytes;
use crate::sys::limits;
use crate::target::Stopped;

/// What a claimed device without a visible user probably is a member of, by what lies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A physical volume.
    Lvm,
    /// A component of an md array.
    Md,
    /// A LUKS container.
    Luks,
    /// A vdev of a pool.
    Zfs,
    /// A backing or cache device.
    Bcache,
}

impl Member {
    fn what(self) -> &'static str {
        match self {
            Member::Lvm => "an LVM physical volume",
            Member::Md => "a component of an md array",
            Member::Luks => "a LUKS container",
            Member::Zfs => "a member of a ZFS pool",
            Member::Bcache => "a bcache device",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Member::Lvm => "deactivate its volume group (vgchange -an VG) or name another device",
            Member::Md => "stop the array (mdadm --stop) or name another device",
            Member::Luks => "close it (cryptsetup close NAME) or name another device",
            Member::Zfs => "export the pool (zpool export POOL) or name another device",
            Member::Bcache => "stop the cache or name another device",
        }
    }
}

/// What helps against EACCES and EPERM. The kernel gives EACCES for the node's mode, and EPERM where a
/// device cgroup forbids what the mode allows (devcgroup_check_permission), to root too.
pub(super) fn access_remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            "a device cgroup forbids it: run outside of the container, or allow the device in it"
        }
        _ => "run as root or get write access to it",
    }
}

/// What helps against an error that says little by itself.
fn io_remedy(error: &io::Error) -> String {
    let remedy = match error.raw_os_error() {
        Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) => {
            "; the device is gone: see `syncprof list` for what is there"
        }
        Some(libc::EMFILE | libc::ENOMEM | libc::EAGAIN) => return limits::hint(error),
        Some(libc::EOPNOTSUPP) => "",
        _ => "; see the kernel's log (dmesg) for more",
    };
    remedy.to_owned()
}

/// A bad sector is ENODATA where it was read directly (BLK_STS_MEDIUM in block/blk-core.c), and EIO by way
/// of the page cache.
fn read_remedy(error: &io::Error, what: &str) -> String {
    let is_bad = matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::ENODATA | libc::EILSEQ)
    );
    if !is_bad {
        return io_remedy(error);
    }
    let smaller = match what {
        SPAN => "end --span before it, ",
        _ => "",
    };
    format!(
        "; the kernel's log (dmesg) has more: {smaller}name a partition or a map without that sector, or have \
         the drive write it anew, which loses what it held (hdparm --repair-sector, or dd)"
    )
}

/// What is read to be written back.
pub(super) const SPAN: &str = "the span";

/// Why the guard gives no grant.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is nothing under that name.
    #[error("{path}: no such device, and none was created; see `syncprof list` for devices")]
    NotFound {
        /// As it was named.
        path: String,
    },
    /// It is something else.
    #[error(
        "{path}: is {what}, not a block device; to measure a filesystem, use `syncprof file DIR`"
    )]
    NotBlockDevice {
        /// As it was named.
        path: String,
        /// What it is, with an article.
        what: &'static str,
    },
    /// The user has no right to write it. Not a judgement on the device: see
    /// [`Refusal::is_privilege`].
    #[error("{path}: cannot open for writing: {source}; {}", access_remedy(source))]
    NoPermission {
        /// As it was named.
        path: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is mounted.
    #[error(
        "{device}: mounted at {mount_point}; to compare it with its filesystem, \
         use `syncprof gap {}`",
        shell(mount_point)
    )]
    MountedHere {
        /// Its kernel name.
        device: String,
        /// Where.
        mount_point: String,
    },
    /// It is mounted where this process does not see it.
    #[error(
        "{device}: mounted at {mount_point} in the mount namespace of process {pid}; \
         unmount it there first"
    )]
    MountedElsewhere {
        /// Its kernel name.
        device: String,
        /// Where, in that namespace.
        mount_point: String,
        /// A process that lives there.
        pid: u32,
    },
    /// Other bytes than its own, under another name, are the same bytes, and are in use.
    #[error("{device}: {relative} is {usage}; {remedy}")]
    InUse {
        /// Its kernel name.
        device: String,
        /// What is in use, and where: "its partition sda1", "loop3, which it lies on,".
        relative: String,
        /// By what, as in "is mounted at /".
        usage: String,
        /// What to do.
        remedy: &'static str,
    },
    /// It is active swap space.
    #[error("{device}: is active swap space; run `swapoff` on it first, or name another device")]
    Swap {
        /// Its kernel name.
        device: String,
    },
    /// Another device is built on it.
    #[error("{device}: is held by {holder} ({what}); {remedy}")]
    Holder {
        /// Its kernel name.
        device: String,
        /// The kernel name of the device above.
        holder: String,
        /// What that is: "LVM volume vg-root".
        what: String,
        /// How to take it apart.
        remedy: &'static str,
    },
    /// It is a member of a mounted btrfs.
    #[error(
        "{device}: is a member of the mounted btrfs {uuid}; unmount it, or measure that with \
         `syncprof file DIR`"
    )]
    BtrfsMember {
        /// Its kernel name.
        device: String,
        /// The filesystem's UUID.
        uuid: String,
    },
    /// The kernel says that it is in use, and its signature says as what.
    #[error("{device}: is in use as {}; {}", member.what(), member.remedy())]
    MemberInUse {
        /// Its kernel name.
        device: String,
        /// As what.
        member: Member,
    },
    /// A loop device is attached to it.
    #[error("{device}: it backs {loop_name}; detach that (losetup -d /dev/{loop_name}) first")]
    LoopBacking {
        /// Its kernel name.
        device: String,
        /// The loop device that would change under its users.
        loop_name: String,
    },
    /// It lies on a file that may be another filesystem's, where others may use it unseen.
    #[error(
        "{device}: lies on {image}, whose filesystem may show files of another one (overlay, FUSE, NFS), where \
         somebody may be using it unseen; use an image on a filesystem that has a disk of its own"
    )]
    Unresolved {
        /// Its kernel name.
        device: String,
        /// The file's path.
        image: String,
    },
    /// Other hosts may write it.
    #[error(
        "{device}: is exported to other hosts as {what}; take it out there first (nvmetcli, targetcli), or \
         name another device"
    )]
    Exported {
        /// Its kernel name.
        device: String,
        /// As what.
        what: String,
    },
    /// A process has it open for writing.
    #[error("{device}: is open for writing in {process} (process {pid}); stop that first")]
    OpenForWriting {
        /// Its kernel name.
        device: String,
        /// The process's name.
        process: String,
        /// Its number.
        pid: u32,
    },
    /// It is set read-only.
    #[error(
        "{device}: is read-only; if that is not meant so, run `blockdev --setrw` or flip its lock"
    )]
    ReadOnly {
        /// Its kernel name.
        device: String,
    },
    /// It, or what it lies on, has zones that are written in order only.
    #[error(
        "{device}: {zoned} is a zoned device, whose write pointers any write would move; measure a \
         filesystem on it with `syncprof file DIR`"
    )]
    Zoned {
        /// Its kernel name.
        device: String,
        /// "it", or the device below.
        zoned: String,
    },
    /// It, or what it lies on, answers nothing for now: who reads or writes there waits, and can't be killed.
    #[error("{named}: {} is {}; {}", .stopped.what, .stopped.why, .stopped.remedy)]
    Stopped {
        /// The device or directory, as it was named.
        named: String,
        /// What doesn't answer.
        stopped: Stopped,
    },
    /// Another device took its place.
    #[error(
        "{device}: is no longer the device that was checked ({detail}), so nothing more is written: \
         look what it is now and start again"
    )]
    DeviceChanged {
        /// Its kernel name.
        device: String,
        /// What differs.
        detail: String,
    },
    /// Somebody came to use it while it was written.
    #[error(
        "the run ends, because its device came into use: {0}; what that wrote since may be overwritten: \
         check it"
    )]
    CameIntoUse(Box<Refusal>),
    /// The kernel says that it is in use; by what can't be seen.
    #[error(
        "{device}: the kernel says that it is in use, and by what cannot be seen from here; \
         look with `lsblk` and `fuser -v` outside of containers"
    )]
    Busy {
        /// Its kernel name.
        device: String,
    },
    /// Overwriting would destroy what is on it.
    #[error(
        "{device}: holds {signature}, which --overwrite would destroy; leave --overwrite out to \
         keep its content, or add --force"
    )]
    SignaturePresent {
        /// Its kernel name.
        device: String,
        /// What is on it.
        signature: &'static str,
    },
    /// Other hosts may have it mounted, so what was read is not theirs to write back.
    #[error(
        "{device}: holds {signature}, which other hosts may be using: what they write would be undone by \
         what was read before; name a device that is this host's alone"
    )]
    Shared {
        /// Its kernel name.
        device: String,
        /// What is on it.
        signature: &'static str,
    },
    /// What was typed to confirm is neither its serial nor its name.
    #[error("{device}: '{given}' does not confirm {what} it; confirm with {accepted}")]
    WrongConfirmation {
        /// Its kernel name.
        device: String,
        /// What was to be done to it: "overwriting", "purging".
        what: &'static str,
        /// What was typed.
        given: String,
        /// What would have done.
        accepted: String,
    },
    /// It has no room for a write.
    #[error("{device}: has {size_bytes} bytes, too few to measure; name another device")]
    TooSmall {
        /// Its kernel name.
        device: String,
        /// Its capacity.
        size_bytes: u64,
    },
    /// It can't forget what it holds.
    #[error(
        "{device}: cannot discard its content: {source}{}; leave out --purge",
        io_remedy(source)
    )]
    NoDiscard {
        /// Its kernel name.
        device: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The span can't be kept as it is, or isn't one.
    #[error("{device}: bad span of {span_bytes} bytes: {why}", span_bytes = show_bytes(*span_bytes))]
    BadSpan {
        /// Its kernel name.
        device: String,
        /// What was asked for.
        span_bytes: u64,
        /// What is wrong with it and what would do.
        why: String,
    },
    /// Writing back what was never written would fill what it takes its space from.
    #[error(
        "{device}: writing back its span may take {} from {from}, of which {rule}; use a smaller --span, or \
         give it more room", show_bytes(*needed_bytes)
    )]
    NoRoom {
        /// Its kernel name.
        device: String,
        /// "the pool dm-3".
        from: String,
        /// How much, at most.
        needed_bytes: u64,
        /// What may be taken.
        rule: String,
    },
    /// Writes through the page cache to a device that a filesystem is mounted on.
    #[error(
        "{device}: a mounted filesystem's blocks are written with O_DIRECT only, because the page \
         cache may hold others' blocks beside them; leave out --direct off"
    )]
    NeedsDirect {
        /// Its kernel name.
        device: String,
    },
    /// There is no memory for what the span holds.
    #[error(
        "{device}: to write back what the first {} hold, as much memory is needed: {source}; use a \
         smaller --span{}", show_bytes(*span_bytes), limits::hint(source)
    )]
    NoMemory {
        /// Its kernel name.
        device: String,
        /// What was to be kept.
        span_bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// A call failed that should not. Not a judgement on the device: see
    /// [`Refusal::is_failure`].
    #[error("{device}: cannot {doing}: {source}{}", io_remedy(source))]
    Io {
        /// Its kernel name, or as it was named.
        device: String,
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A part of it cannot be read. Not a judgement on the device either.
    #[error(
        "{device}: cannot read {what} at offset {offset_bytes}: {source}{}",
        read_remedy(source, what)
    )]
    Unreadable {
        /// Its kernel name.
        device: String,
        /// What is read there: "its signature", "the span".
        what: &'static str,
        /// Where it failed.
        offset_bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Refusal {
    /// The user lacks a right: nothing is known against the device itself.
    pub fn is_privilege(&self) -> bool {
        matches!(self, Refusal::NoPermission { .. })
    }

    /// The machine failed: nothing is known against the device itself.
    pub fn is_failure(&self) -> bool {
        matches!(
            self,
            Refusal::Io { .. }
                | Refusal::NoDiscard { .. }
                | Refusal::NoMemory { .. }
                | Refusal::Unreadable { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_device_is_told_of_the_gap_command() {
        let refusal = Refusal::MountedHere {
            device: "sda1".into(),
            mount_point: "/data".into(),
        };
        let text = refusal.to_string();
        assert!(text.contains("syncprof gap /data"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        assert!(!refusal.is_privilege());
    }

    #[test]
    fn a_command_in_a_remedy_can_be_pasted() {
        let refusal = Refusal::MountedHere {
            device: "sda1".into(),
            mount_point: "/mnt/a b".into(),
        };
        assert!(
            refusal.to_string().contains("`syncprof gap '/mnt/a b'`"),
            "{refusal}"
        );
    }

    #[test]
    fn a_device_that_is_gone_and_a_bad_sector_are_told_from_other_errors() {
        let io = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            let (device, doing) = ("sda".to_owned(), "open it");
            Refusal::Io {
                device,
                doing,
                source,
            }
            .to_string()
        };
        assert!(io(libc::ENXIO).contains("is gone"));
        assert!(io(libc::EMFILE).contains("ulimit -n"));
        assert!(io(libc::EIO).contains("dmesg"));
        let unreadable = |errno, what| {
            let refusal = Refusal::Unreadable {
                device: "sda".into(),
                what,
                offset_bytes: 65_536,
                source: io::Error::from_raw_os_error(errno),
            };
            assert!(refusal.is_failure());
            refusal.to_string()
        };
        let bad = unreadable(libc::ENODATA, "its signature");
        assert!(
            bad.contains("at offset 65536") && !bad.contains("--span"),
            "{bad}"
        );
        assert!(unreadable(libc::EIO, SPAN).contains("end --span before it"));
        assert!(unreadable(libc::ENODEV, SPAN).contains("is gone"));
    }

    #[test]
    fn a_missing_right_is_not_held_against_the_device() {
        let refusal = Refusal::NoPermission {
            path: "/dev/sda".into(),
            source: io::Error::from_raw_os_error(libc::EACCES),
        };
        assert!(refusal.is_privilege());
        assert!(!refusal.is_failure());
        assert!(refusal.to_string().contains("run as root"), "{refusal}");
        let refusal = Refusal::NoPermission {
            path: "/dev/sda".into(),
            source: io::Error::from_raw_os_error(libc::EPERM),
        };
        assert!(refusal.to_string().contains("cgroup"), "{refusal}");
    }
}
