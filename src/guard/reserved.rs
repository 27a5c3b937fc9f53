//! A device that other programs are to write: mkfs and the mount claim it for themselves, so no claim
//! can be kept meanwhile, only who the device is.

use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::check::{check, find};
use super::node::{Node, reopen};
use super::permit::Permit;
use super::refusal::Refusal;
use crate::sys::root::Root;
use crate::target;

/// A device that was judged and confirmed, held open without a claim: while it is, the kernel gives its
/// number to no other (put_disk() in block/genhd.c frees it with the last user).
#[derive(Debug)]
pub struct ReservedDevice {
    root: Root,
    node: Node,
    path: PathBuf,
}

impl ReservedDevice {
    /// The node that the kernel names for it: what was typed may be a link, which may lead elsewhere by
    /// now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is written to one may change the other.
    pub fn shares_bytes_with(&self, other: &ReservedDevice) -> bool {
        target::usage::share_bytes(&self.root, self.node.dev, other.node.dev)
    }

    /// Checks that the node still leads to the device.
    pub fn verify(&self) -> Result<(), Refusal> {
        let (place, _) = find(&self.path)?;
        let file = reopen(&self.root, &place, OFlag::O_RDONLY)
            .map_err(|source| self.node.failure("look whether it is still there", source))?;
        self.node.verify(&file)
    }

    /// Judges it anew: nobody has come to use it, and it is still the one that was confirmed.
    pub fn judge_again(&self) -> Result<(), Refusal> {
        let permit: Permit = check(&self.root, &self.path)?;
        self.node.verify(permit.file())
    }
}

impl Permit {
    /// The device for other programs to overwrite, under the conditions of [`Permit::overwrite`]. The
    /// claim is given back, since they make their own.
    pub fn keep(self, confirmation: &str, force: bool) -> Result<ReservedDevice, Refusal> {
        self.confirm_overwriting(confirmation, force)?;
        let path = target::device_node(&self.root, self.node.dev)
            .map_err(|source| self.node.failure("find its node under /dev", source))?;
        let file = self.node.reopen(&self.root, "hold it", OFlag::O_RDONLY)?;
        let node = Node::new(file, self.node.name, self.node.dev)?;
        let kept = ReservedDevice {
            root: self.root,
            node,
            path,
        };
        kept.verify()?;
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::devid::DevId;
    use crate::sys::is_root;
    use crate::sys::loopdev::LoopDevice;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_node_that_leads_to_another_device_is_noticed() {
        if !is_root() {
            return;
        }
        let root = Root::host();
        let attached = || {
            let image = tempfile::tempfile().unwrap();
            image.set_len(1 << 20).unwrap();
            LoopDevice::attach(&root, image.as_fd(), 0, 1 << 20).unwrap()
        };
        let (device, other) = (attached(), attached());
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        let lay = |to: &Path| {
            let _ = fs::remove_file(&link);
            symlink(to, &link).unwrap();
        };
        let kept = |path: &Path| {
            let file = File::open(path).unwrap();
            let dev = DevId::from_dev(file.metadata().unwrap().rdev());
            let node = Node::new(file, "loop".into(), dev).unwrap();
            ReservedDevice {
                root: root.clone(),
                node,
                path: link.clone(),
            }
        };
        let first = kept(device.node());
        lay(device.node());
        first.verify().unwrap();
        first.judge_again().unwrap();
        lay(other.node());
        for refusal in [first.verify(), first.judge_again()] {
            let refusal = refusal.unwrap_err();
            assert!(
                matches!(refusal, Refusal::DeviceChanged { .. }),
                "{refusal}"
            );
        }
        assert!(first.shares_bytes_with(&kept(device.node())));
        assert!(!first.shares_bytes_with(&kept(other.node())));
    }
}
