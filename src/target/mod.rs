//! What is measured: facts of devices, mounts and the host, read through an injectable root. A fact
//! that isn't there is absent, not an error.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::facts::{DevId, DeviceFacts, Host, MountFacts};
use crate::sys::root::Root;

/// A device, then every device below it, each once.
pub fn stack(_root: &Root, _dev: DevId) -> io::Result<Vec<DeviceFacts>> {
    Err(io::ErrorKind::Unsupported.into())
}
/// Every disk and partition that has a size.
pub fn all_devices(_root: &Root) -> io::Result<Vec<DeviceFacts>> {
    Err(io::ErrorKind::Unsupported.into())
}
/// The node under /dev.
pub fn device_node(_root: &Root, _dev: DevId) -> io::Result<PathBuf> {
    Err(io::ErrorKind::Unsupported.into())
}
/// Every mount, with the facts that cost nothing.
pub fn mounts(_root: &Root) -> io::Result<Vec<MountFacts>> {
    Err(io::ErrorKind::Unsupported.into())
}
/// The mount that a directory lies on, with all facts.
pub fn mount_of(_root: &Root, _dir: &Path) -> io::Result<MountFacts> {
    Err(io::ErrorKind::Unsupported.into())
}
/// This machine.
pub fn host(_root: &Root) -> Host {
    Host::default()
}
