//! Mounts filesystems by the kernel's newer calls (fsopen(2) and its kin, Linux 5.2), which tell in
//! words what was wrong.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

// include/uapi/linux/mount.h
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_SET_FLAG: libc::c_uint = 0;
const FSCONFIG_SET_STRING: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
/// Options that belong to the mount and not to the filesystem: MOUNT_ATTR_*.
const ATTRIBUTES: [(&str, libc::c_uint); 6] = [
    ("nosuid", 0x2),
    ("nodev", 0x4),
    ("noexec", 0x8),
    ("noatime", 0x10),
    ("strictatime", 0x20),
    ("nodiratime", 0x80),
];

/// Why a filesystem is not mounted.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}{}", said(messages))]
pub struct MountError {
    /// What was tried.
    pub step: String,
    /// What the kernel answered.
    pub source: io::Error,
    /// What the filesystem said of it.
    pub messages: Vec<String>,
}

fn said(messages: &[String]) -> String {
    match messages {
        [] => String::new(),
        lines => format!(" ({})", lines.join("; ")),
    }
}

/// Mounts `source` on the folder `target`. Options are written as mount(8) takes them: `name` or
/// `name=value`.
pub fn mount(
    source: &Path,
    target: &Path,
    fs_type: &str,
    options: &[String],
) -> Result<(), MountError> {
    let failed = |step: &str, source| MountError {
        step: step.to_owned(),
        source,
        messages: Vec::new(),
    };
    let name = text(fs_type.as_bytes()).map_err(|error| failed("fsopen", error))?;
    // SAFETY: the name is a string that lives until the call returns.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), FSOPEN_CLOEXEC) };
    let mut context =
        owned(context).map_err(|error| failed(&format!("fsopen {fs_type}"), error))?;
    let attributes = configure(&mut context, source, options)?;
    // SAFETY: the context is open; the attributes are a number.
    let mounted = unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes,
        )
    };
    let mounted = owned(mounted).map_err(|error| told(&mut context, "fsmount", error))?;
    let place = text(target.as_os_str().as_bytes()).map_err(|error| failed("move_mount", error))?;
    // SAFETY: both paths are strings that live until the call returns; the descriptor is open.
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mounted.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            place.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    if moved < 0 {
        return Err(failed("move_mount", io::Error::last_os_error()));
    }
    Ok(())
}

/// Tells the context its source and options and makes the superblock. Gives the mount's attributes.
fn configure(
    context: &mut File,
    source: &Path,
    options: &[String],
) -> Result<libc::c_uint, MountError> {
    let mut attributes = 0;
    set(context, "source", Some(source.as_os_str().as_bytes()))?;
    for option in options {
        if let Some((_, bit)) = ATTRIBUTES.iter().find(|(name, _)| name == option) {
            attributes |= bit;
            continue;
        }
        match option.split_once('=') {
            Some((key, value)) => set(context, key, Some(value.as_bytes()))?,
            None => set(context, option, None)?,
        }
    }
    config(context, FSCONFIG_CMD_CREATE, None, None)
        .map_err(|error| told(context, "the kernel does not mount it", error))?;
    Ok(attributes)
}

fn set(context: &mut File, key: &str, value: Option<&[u8]>) -> Result<(), MountError> {
    let command = match value {
        Some(_) => FSCONFIG_SET_STRING,
        None => FSCONFIG_SET_FLAG,
    };
    let done = text(key.as_bytes()).and_then(|name| {
        let value = value.map(text).transpose()?;
        config(context, command, Some(&name), value.as_deref())
    });
    done.map_err(|error| told(context, &format!("mount option {key}"), error))
}

fn config(
    context: &File,
    command: libc::c_uint,
    key: Option<&CStr>,
    value: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: key and value are strings that live until the call returns, or null where the command
    // takes none (fsconfig(2)); the context is open.
    let result = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            command,
            pointer(key),
            pointer(value),
            0,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// An error, with what the filesystem left to be read of it: lines such as `e ext4: Unknown
/// parameter`, one a read.
fn told(context: &mut File, step: &str, source: io::Error) -> MountError {
    let mut messages = Vec::new();
    let mut line = [0; 1024];
    while let Ok(len) = context.read(&mut line) {
        let text = String::from_utf8_lossy(&line[..len]).trim().to_owned();
        if len == 0 || messages.len() > 8 {
            break;
        }
        messages.push(text.get(2..).unwrap_or(&text).to_owned());
    }
    MountError {
        step: step.to_owned(),
        source,
        messages,
    }
}

fn text(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn owned(result: libc::c_long) -> io::Result<File> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new descriptor, which nothing else owns.
    Ok(unsafe { File::from_raw_fd(result as RawFd) })
}
