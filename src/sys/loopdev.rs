//! Attaches loop devices (loop(4), include/uapi/linux/loop.h).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::ioctl::{LoopInfo64, loop_status};
use super::root::Root;

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
/// Linux 5.8.
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// Others may take the free device first; so often is another asked for.
const TRIES: u32 = 16;

/// `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// A loop device of this process's own. The kernel detaches it once nobody has it open or mounted,
/// however this process ends.
#[derive(Debug)]
pub struct LoopDevice {
    node: PathBuf,
    held: File,
}

impl LoopDevice {
    /// Attaches a part of `file`, with direct I/O. `file` may have no name any more.
    pub fn attach(
        root: &Root,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> io::Result<LoopDevice> {
        let control = OpenOptions::new()
            .read(true)
            .write(true)
            .open(root.dev.join("loop-control"))?;
        let mut tries = 0;
        loop {
            // SAFETY: LOOP_CTL_GET_FREE takes no argument; the descriptor is open.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let node = root.dev.join(format!("loop{number}"));
            // Nobody else's: a claim that another program holds makes this one fail.
            let held = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_CLOEXEC)
                .open(&node)?;
            match configure(held.as_fd(), file, offset_bytes, size_bytes) {
                Ok(()) => return Ok(LoopDevice { node, held }),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && tries < TRIES => {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether it goes past the page cache of the filesystem below. The kernel leaves that out,
    /// without an error, where the file can't be read and written so (drivers/block/loop.c).
    pub fn is_direct(&self) -> io::Result<bool> {
        Ok(loop_status(&self.held)?.flags & LO_FLAGS_DIRECT_IO != 0)
    }

    /// Its node.
    pub fn node(&self) -> &PathBuf {
        &self.node
    }
}

fn configure(
    device: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset_bytes: u64,
    size_bytes: u64,
) -> io::Result<()> {
    let mut info = LoopInfo64::default();
    info.offset = offset_bytes;
    info.sizelimit = size_bytes;
    info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    let mut config = Config {
        fd: file.as_raw_fd() as u32,
        block_size: 0,
        info,
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config` at the pointer and keeps none; both
    // descriptors are open while they are borrowed.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw mut config) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
