//! An open block device and who it is.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};

use nix::fcntl::OFlag;

use super::refusal::Refusal;
use super::signature::Unreadable;
use crate::model::devid::DevId;
use crate::sys::ioctl;
use crate::sys::root::Root;

/// An open block device, known by its number and its disk's sequence number.
#[derive(Debug)]
pub(super) struct Node {
    /// The descriptor that claims the device.
    pub(super) file: File,
    /// Its kernel name, for messages.
    pub(super) name: String,
    /// Its number.
    pub(super) dev: DevId,
    /// Its disk's sequence number; none on kernels that have none.
    pub(super) diskseq: Option<u64>,
}

impl Node {
    /// Takes an open descriptor, which must be that of block device `dev`.
    pub(super) fn new(file: File, name: String, dev: DevId) -> Result<Node, Refusal> {
        let node = Node {
            diskseq: ioctl::diskseq(&file),
            file,
            name,
            dev,
        };
        node.verify(&node.file)?;
        Ok(node)
    }

    /// Checks that a descriptor is still of the device that this node was made for.
    pub(super) fn verify(&self, file: &File) -> Result<(), Refusal> {
        let changed = |detail: String| Refusal::DeviceChanged {
            device: self.name.clone(),
            detail,
        };
        let found = file
            .metadata()
            .map_err(|source| self.failure("look at it", source))?;
        if !found.file_type().is_block_device() {
            return Err(changed("it is no block device now".into()));
        }
        let dev = DevId::from_dev(found.rdev());
        let diskseq = ioctl::diskseq(file);
        difference((self.dev, self.diskseq), (dev, diskseq)).map_or(Ok(()), |d| Err(changed(d)))
    }

    /// Opens the device once more, by way of this descriptor and not of a name, and checks that it
    /// is the same.
    pub(super) fn reopen(
        &self,
        root: &Root,
        doing: &'static str,
        flags: OFlag,
    ) -> Result<File, Refusal> {
        let file = reopen(root, &self.file, flags).map_err(|source| self.failure(doing, source))?;
        self.verify(&file)?;
        Ok(file)
    }

    /// A part of it that can't be read.
    pub(super) fn unreadable(&self, what: &'static str, bad: Unreadable) -> Refusal {
        Refusal::Unreadable {
            device: self.name.clone(),
            what,
            offset_bytes: bad.offset_bytes,
            source: bad.source,
        }
    }

    /// A call that should not have failed.
    pub(super) fn failure(&self, doing: &'static str, source: io::Error) -> Refusal {
        Refusal::Io {
            device: self.name.clone(),
            doing,
            source,
        }
    }
}

/// Opens the very file that a descriptor is of, with other flags (the magic links of
/// proc_pid_fd(5)): whatever its name means by now doesn't matter.
pub(super) fn reopen(root: &Root, fd: impl AsFd, flags: OFlag) -> io::Result<File> {
    let link = root
        .proc
        .join(format!("self/fd/{}", fd.as_fd().as_raw_fd()));
    let access = flags & OFlag::O_ACCMODE;
    // The standard library adds O_CLOEXEC, and never O_CREAT unless told to.
    OpenOptions::new()
        .read(access != OFlag::O_WRONLY)
        .write(access != OFlag::O_RDONLY)
        .custom_flags((flags & !OFlag::O_ACCMODE).bits())
        .open(link)
}

/// In which of its two numbers a device is another than it was; none if it is the same.
fn difference(was: (DevId, Option<u64>), is: (DevId, Option<u64>)) -> Option<String> {
    let number = |diskseq: Option<u64>| diskseq.map_or("unknown".into(), |n: u64| n.to_string());
    if was.0 != is.0 {
        return Some(format!("its number was {} and is {}", was.0, is.0));
    }
    (was.1 != is.1).then(|| {
        format!(
            "its disk's sequence number was {} and is {}",
            number(was.1),
            number(is.1)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::is_root;
    use crate::sys::loopdev::LoopDevice;
    use std::io::Read;

    #[test]
    fn another_disk_under_the_same_number_is_noticed() {
        let (sda, sdb) = ("8:0".parse().unwrap(), "8:16".parse().unwrap());
        assert_eq!(difference((sda, Some(4)), (sda, Some(4))), None);
        assert_eq!(difference((sda, None), (sda, None)), None);
        let told = difference((sda, Some(4)), (sda, Some(9))).unwrap();
        assert!(told.contains("was 4 and is 9"), "{told}");
        assert!(difference((sda, Some(4)), (sda, None)).is_some());
        let told = difference((sda, Some(4)), (sdb, Some(4))).unwrap();
        assert!(told.contains("was 8:0 and is 8:16"), "{told}");
    }

    /// The media of a held device changed since the check. No kernel lets a test change that of a
    /// writable loop device under an open descriptor, so what was seen at the check is changed
    /// instead.
    #[test]
    fn a_device_whose_sequence_number_changed_is_not_opened_for_writing() {
        if !is_root() {
            return;
        }
        let mut image = tempfile::tempfile().unwrap();
        image.set_len(1 << 20).unwrap();
        let device = LoopDevice::attach(&Root::host(), image.as_fd(), 0, 1 << 20).unwrap();
        let file = File::open(device.node()).unwrap();
        let dev = DevId::from_dev(file.metadata().unwrap().rdev());
        let mut node = Node::new(file, "loop".into(), dev).unwrap();
        let flags = OFlag::O_WRONLY | OFlag::O_DIRECT;
        node.reopen(&Root::host(), "open it", flags).unwrap();
        node.diskseq = node.diskseq.map(|seq| seq - 1);
        let refusal = node.reopen(&Root::host(), "open it", flags).unwrap_err();
        assert!(
            matches!(refusal, Refusal::DeviceChanged { .. }),
            "{refusal}"
        );
        let mut content = Vec::new();
        image.read_to_end(&mut content).unwrap();
        assert!(content.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_regular_file_is_no_node() {
        let file = tempfile::tempfile().unwrap();
        let dev = "8:0".parse().unwrap();
        let refusal = Node::new(file, "sda".into(), dev).unwrap_err();
        assert!(
            matches!(refusal, Refusal::DeviceChanged { .. }),
            "{refusal}"
        );
    }
}
