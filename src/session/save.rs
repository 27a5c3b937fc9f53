//! Keeps the record on disk, whole at every moment.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::fstat;

use crate::model::record::Record;
use crate::sys::pulse;
use crate::sys::root::Root;

/// Where a record is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordPath {
    /// A path that was typed: a link there leads to the file that is meant, as with every program.
    Typed(PathBuf),
    /// A name of the program's own choice, which anybody may guess: a link there is none of its, and
    /// gives way to the record.
    Own(PathBuf),
}

impl RecordPath {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            RecordPath::Typed(path) | RecordPath::Own(path) => path,
        }
    }

    /// Replaces what is there.
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        match self {
            RecordPath::Typed(path) => replace(path, text),
            RecordPath::Own(path) => rename_over(path, text),
        }
    }
}

/// Writes a run's record to the same places again and again.
#[derive(Debug)]
pub struct Saver {
    paths: Vec<RecordPath>,
}

impl Saver {
    /// A saver to each of `paths`. Each is tried at once, with the record as it is before the first
    /// round, so that a place that can't be written is told before time is spent on measuring.
    pub fn new(paths: Vec<RecordPath>, record: &Record) -> anyhow::Result<Saver> {
        for path in &paths {
            pulse::path(path.path(), matches!(path, RecordPath::Own(_)));
        }
        let saver = Saver { paths };
        saver.save(record)?;
        Ok(saver)
    }

    /// Where the record is kept.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(RecordPath::path)
    }

    /// Replaces what was saved before. A reader, or a kill, sees either the old or the new record.
    pub fn save(&self, record: &Record) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(record).context("cannot encode the record")?;
        text.push(b'\n');
        pulse::keep(&text);
        for path in &self.paths {
            path.replace(&text)
                .with_context(|| format!("cannot save the record to {}", path.path().display()))?;
        }
        Ok(())
    }
}

/// Writes to what a path leads to: a regular file is replaced.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return write_as_it_is(path, &meta, text),
        Ok(meta) => {
            refuse_standard_output(&meta)?;
            // The file is replaced and not a link to it, as /dev/stdout and many a "latest" are.
            &path.canonicalize()?
        }
        Err(_) => path,
    };
    rename_over(path, text)
}

/// Writes a new file beside `path`, on disk, and renames it. The fsync is there for the
/// measurement too: what is written here must not reach the disk while the next slice runs.
fn rename_over(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = path.with_file_name(name);
    // New, so that no link that somebody laid there is followed; of a killed run, one may be left.
    let _ = fs::remove_file(&beside);
    let written = File::create_new(&beside).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&beside, path))
        .inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
}

/// Writes to what is no regular file, such as /dev/stdout. Never to a block device, which only a
/// grant may write; and without waiting for somebody to read from a pipe.
fn write_as_it_is(path: &Path, meta: &Metadata, text: &[u8]) -> io::Result<()> {
    refuse_block_device(meta)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    // What was opened is what is written, whatever the path means by now.
    refuse_block_device(&file.metadata()?)?;
    // A pipe is opened that way only to learn whether anybody reads; then it may wait.
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    file.write_all(text)
}

/// Replacing the file that standard output goes to would lose what is printed there.
fn refuse_standard_output(meta: &Metadata) -> io::Result<()> {
    // It may be closed: then nothing goes there.
    let Ok(stdout) = fstat(io::stdout()) else {
        return Ok(());
    };
    if (stdout.st_dev, stdout.st_ino) == (meta.dev(), meta.ino()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is where standard output goes, which the tables are printed to",
        ));
    }
    Ok(())
}

fn refuse_block_device(meta: &Metadata) -> io::Result<()> {
    if meta.file_type().is_block_device() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is a block device, and a record is kept in a file",
        ));
    }
    Ok(())
}

/// What killed runs left in `folder` of records that they were about to save: each beside the whole
/// record of the round before.
pub fn half_saved(root: &Root, folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let pid = name
            .strip_suffix(".tmp")
            .and_then(|name| name.rsplit_once(".json."));
        pid.and_then(|(_, pid)| pid.parse::<u32>().ok())
            .is_some_and(|pid| !root.proc.join(pid.to_string()).exists())
    };
    entries.map(|entry| entry.path()).filter(is_left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_runs_left_half_saved_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let name = |pid: u32| folder.path().join(format!("gap-1.json.{pid}.tmp"));
        let (dead, alive) = (name(u32::MAX), name(std::process::id()));
        for path in [&dead, &alive, &folder.path().join("gap-1.json")] {
            fs::write(path, "x").unwrap();
        }
        assert_eq!(half_saved(&Root::host(), folder.path()), [dead]);
    }

    #[test]
    fn a_replaced_file_holds_the_new_text_and_nothing_is_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        replace(&path, b"old").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    /// Whoever owns the state folder knows the name of the record by its first save.
    #[test]
    fn a_link_at_a_name_of_our_own_gives_way_to_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "precious").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        RecordPath::Own(link.clone()).replace(b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        RecordPath::Typed(link.clone()).replace(b"newer").unwrap();
        assert_eq!(fs::read(&link).unwrap(), b"newer");
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = replace(&path, b"text").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
    }

    #[test]
    fn a_link_beside_the_record_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let beside = format!("record.json.{}.tmp", std::process::id());
        std::os::unix::fs::symlink(&precious, folder.path().join(beside)).unwrap();
        let path = folder.path().join("record.json");
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("inside")).unwrap();
        assert!(replace(&taken, b"text").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
