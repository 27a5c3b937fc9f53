//! A filesystem from mkfs to mount, and back.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sched::{CloneFlags, unshare};

use super::command::{self, CommandError};
use super::recipe;
use crate::fs::{ExternalJournal, Filesystem, Making};
use crate::model::variant::Variant;
use crate::sys::mount::{MountError, mount};
use crate::sys::root::Root;

/// What the name of every folder to mount on begins with.
const PREFIX: &str = "lab-";
/// Something that looks at a new filesystem may keep it busy for a moment: so often is it asked.
const UNMOUNTS: u32 = 50;
/// And after so long each time.
const BUSY: Duration = Duration::from_millis(100);

/// Why a variant could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no way to make such a filesystem.
    #[error("no recipe for {0}; there is one for {1}")]
    Unknown(String, String),
    /// It is no filesystem on one device.
    #[error(
        "ZFS is made and mounted by its own tools as a pool, which the lab does not do; mount one \
             and compare with `syncprof gap`"
    )]
    Pool,
    /// Its mkfs is not there.
    #[error("{tool} is missing: install {package}")]
    NoTool {
        /// The program.
        tool: String,
        /// Debian's package that has it.
        package: String,
    },
    /// The kernel doesn't know it.
    #[error("this kernel has no {0}: it is not in /proc/filesystems, also after `modprobe {0}`")]
    NoKernel(String),
    /// It wants a journal on another device.
    #[error("{0}")]
    Journal(String),
    /// Its mkfs failed.
    #[error("{0}")]
    Make(String),
    /// The device is not the one that was meant.
    #[error("{0}")]
    Moved(String),
    /// The kernel did not mount it.
    #[error("mount: {0}")]
    Mount(#[from] MountError),
    /// A signal came.
    #[error("interrupted")]
    Interrupted,
}

/// Gives this process mounts of its own: what it mounts from now on is seen by nobody else, and goes
/// with it. What others mount and unmount still reaches it, so their filesystems can be unmounted
/// (mount_namespaces(7)). To be called before there are other threads.
pub fn private_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    let none = None::<&str>;
    nix::mount::mount(none, "/", none, flags, none)?;
    Ok(())
}

/// A folder to mount on, locked while its process lives, and removed with its value.
#[derive(Debug)]
pub struct MountPoint {
    path: PathBuf,
    _lock: Flock<File>,
}

impl MountPoint {
    /// Makes one in `folder`.
    pub fn make(folder: &Path) -> io::Result<MountPoint> {
        loop {
            let path = folder.join(format!(
                "{PREFIX}{}-{:08x}",
                std::process::id(),
                fastrand::u32(..)
            ));
            fs::DirBuilder::new().mode(0o700).create(&path)?;
            // `syncprof clean` may come before the lock, and take it for a leftover.
            let lock = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => Flock::lock(opened?, FlockArg::LockExclusive),
            };
            let lock = lock.map_err(|(_, errno)| errno)?;
            if is_still_at(&lock, &path)? {
                return Ok(MountPoint { path, _lock: lock });
            }
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // Empty, unless an unmount failed, which is told where it does.
        let _ = fs::remove_dir(&self.path);
    }
}

fn is_still_at(folder: &File, path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(there) => Ok(there.ino() == folder.metadata()?.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A folder to mount on whose process is gone. Nobody else takes it while this lives.
#[derive(Debug)]
pub struct OldMountPoint {
    path: PathBuf,
    _lock: Flock<File>,
}

impl OldMountPoint {
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it; it is empty, since the mount was its process's own.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }
}

/// Folders to mount on whose processes are gone.
pub fn leftovers(folder: &Path) -> Vec<OldMountPoint> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let old = |path: PathBuf| {
        let name = path.file_name()?.to_string_lossy();
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        if !is_folder || !name.starts_with(PREFIX) {
            return None;
        }
        let lock = Flock::lock(File::open(&path).ok()?, FlockArg::LockExclusiveNonblock).ok()?;
        Some(OldMountPoint { path, _lock: lock })
    };
    entries.filter_map(|entry| old(entry.path())).collect()
}

/// A mounted filesystem. Its value's end unmounts it.
#[derive(Debug)]
pub struct Stack<'a> {
    place: &'a MountPoint,
    /// What was run to make it.
    pub commands: Vec<String>,
    /// The version of its mkfs, as that tells it.
    pub mkfs_version: Option<String>,
    mounted: bool,
}

/// Where a filesystem is built.
pub struct Site<'a, 'p> {
    /// What it is made on.
    pub device: &'a Path,
    /// What its journal is made on, if it wants one elsewhere.
    pub journal: Option<&'a Path>,
    /// Where it is mounted.
    pub place: &'p MountPoint,
    /// Whether both paths still lead to the devices that are meant, and if not, what is wrong: programs
    /// know a device by its path alone, so it is asked right before each of them.
    pub verify: &'a dyn Fn() -> Result<(), String>,
}

/// Makes `variant` on a site, and mounts it.
pub fn build<'p>(
    root: &Root,
    variant: &Variant,
    site: &Site<'_, 'p>,
    stop: &AtomicBool,
) -> Result<Stack<'p>, BuildError> {
    let fs_type = &variant.fs_type;
    let mkfs = match &Filesystem::of(fs_type).making {
        Making::Mkfs(mkfs) => mkfs,
        Making::Pool => return Err(BuildError::Pool),
        Making::Unknown => return Err(BuildError::Unknown(fs_type.clone(), recipe::known())),
    };
    let journal = match variant.external_journal {
        false => None,
        true if mkfs.external_journal == ExternalJournal::None => {
            let text = format!("{fs_type} keeps no journal on another device");
            return Err(BuildError::Journal(text));
        }
        true => Some(site.journal.ok_or_else(|| {
            let text = "there is no second device for its journal: name one with --journal-device";
            BuildError::Journal(text.to_owned())
        })?),
    };
    let commands = recipe::commands(mkfs, variant, site.device, journal);
    for words in &commands {
        (site.verify)().map_err(BuildError::Moved)?;
        command::run(words, stop).map_err(|error| match error {
            CommandError::Missing(tool) => BuildError::NoTool {
                tool,
                package: mkfs.package.to_owned(),
            },
            CommandError::Interrupted => BuildError::Interrupted,
            other => BuildError::Make(other.to_string()),
        })?;
    }
    // Asked after mkfs, so that the cheaper thing to mend is told first.
    if !knows(root, fs_type, stop) {
        return Err(BuildError::NoKernel(fs_type.clone()));
    }
    let options = recipe::mount_options(mkfs, variant, journal);
    (site.verify)().map_err(BuildError::Moved)?;
    mount(site.device, site.place.path(), fs_type, &options)?;
    let mut lines: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
    lines.push(mount_line(fs_type, &options, site.device));
    Ok(Stack {
        place: site.place,
        commands: lines,
        mkfs_version: command::version(&recipe::tool(variant), stop),
        mounted: true,
    })
}

/// What would be run for `variant`, for those who only want to see.
pub fn commands(variant: &Variant, device: &Path, journal: Option<&Path>) -> Vec<String> {
    let Some(mkfs) = recipe::of(variant) else {
        return Vec::new();
    };
    let journal = journal.filter(|_| variant.external_journal);
    let commands = recipe::commands(mkfs, variant, device, journal);
    let mut lines: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
    let options = recipe::mount_options(mkfs, variant, journal);
    lines.push(mount_line(&variant.fs_type, &options, device));
    lines
}

/// The mount as one would type it.
fn mount_line(fs_type: &str, options: &[String], device: &Path) -> String {
    let options = match options {
        [] => String::new(),
        options => format!(" -o {}", options.join(",")),
    };
    format!("mount -t {fs_type}{options} {}", device.display())
}

/// The kernel has the filesystem, perhaps after its module is loaded.
fn knows(root: &Root, fs_type: &str, stop: &AtomicBool) -> bool {
    let has = || {
        let text = fs::read_to_string(root.proc.join("filesystems")).unwrap_or_default();
        text.split_ascii_whitespace().any(|word| word == fs_type)
    };
    if has() {
        return true;
    }
    let words = ["modprobe", "-q", fs_type].map(str::to_owned);
    // What came of it, the list tells.
    let _ = command::run(&words, stop);
    has()
}

impl Stack<'_> {
    /// Unmounts it. An error says that somebody keeps it busy; it is then detached, and goes when
    /// they are done.
    pub fn unmount(mut self) -> io::Result<()> {
        self.take_down()
    }

    fn take_down(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.mounted) {
            return Ok(());
        }
        let path = self.place.path();
        for _ in 0..UNMOUNTS {
            match umount2(path, MntFlags::empty()) {
                Err(Errno::EBUSY) => thread::sleep(BUSY),
                other => return other.map_err(io::Error::from),
            }
        }
        umount2(path, MntFlags::MNT_DETACH)?;
        Err(Errno::EBUSY.into())
    }
}

impl Drop for Stack<'_> {
    fn drop(&mut self) {
        // On the way out of an error, whose message says more than this one's would.
        let _ = self.take_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_left_over_once_its_process_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let place = MountPoint::make(folder.path()).unwrap();
        assert!(leftovers(folder.path()).is_empty());
        let path = place.path().to_owned();
        drop(place);
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        fs::create_dir(folder.path().join("other")).unwrap();
        let left = leftovers(folder.path());
        assert_eq!(
            left.iter().map(OldMountPoint::path).collect::<Vec<_>>(),
            [path]
        );
        for old in left {
            old.remove().unwrap();
        }
        assert!(leftovers(folder.path()).is_empty());
    }

    #[test]
    fn what_cannot_be_built_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let place = MountPoint::make(folder.path()).unwrap();
        let why = |fs_type: &str, external_journal| {
            let variant = Variant {
                fs_type: fs_type.to_owned(),
                external_journal,
                ..Variant::default()
            };
            let device = folder.path().join("none");
            let site = Site {
                device: &device,
                journal: None,
                place: &place,
                verify: &|| Ok(()),
            };
            let stop = AtomicBool::new(false);
            let built = build(&Root::host(), &variant, &site, &stop);
            built.unwrap_err().to_string()
        };
        assert!(why("ntfs", false).contains("there is one for ext2"));
        assert!(why("btrfs", true).contains("no journal on another device"));
        assert!(why("ext4", true).contains("no second device"));
        assert!(why("ext4", false).starts_with("mkfs.ext4: "));
    }

    #[test]
    fn nothing_is_run_on_a_device_that_another_took_the_place_of() {
        let folder = tempfile::tempdir().unwrap();
        let place = MountPoint::make(folder.path()).unwrap();
        let (image, stop) = (folder.path().join("image"), AtomicBool::new(false));
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        let variant = Variant {
            fs_type: "ext4".to_owned(),
            external_journal: true,
            ..Variant::default()
        };
        let asked = std::cell::Cell::new(0);
        let site = Site {
            device: &image,
            journal: Some(&folder.path().join("journal")),
            place: &place,
            verify: &|| {
                asked.set(asked.get() + 1);
                Err("sda: is no longer the device that was checked".to_owned())
            },
        };
        let error = build(&Root::host(), &variant, &site, &stop).unwrap_err();
        assert!(matches!(error, BuildError::Moved(_)), "{error}");
        assert_eq!(asked.get(), 1);
        assert!(fs::read(&image).unwrap().iter().all(|&byte| byte == 0));
    }

    #[test]
    fn commands_are_shown_as_they_would_be_typed() {
        let variant = Variant {
            fs_type: "ext4".to_owned(),
            mount: vec!["data=journal".to_owned(), "noatime".to_owned()],
            ..Variant::default()
        };
        let lines = commands(&variant, Path::new("/dev/a"), None);
        assert_eq!(lines[1], "mount -t ext4 -o data=journal,noatime /dev/a");
    }
}
