//! What the witness keeps: for each run a file of lines, to which lines are only ever added, and which
//! is on disk before anything is answered. What a kill or a loss of the witness's own power leaves of a
//! last line counts for nothing. A file that has grown is replaced by a short one that says the same.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::model::durability::{Counts, DeviceKey, Manifest, Tally};
use crate::sys::limits;

/// A file is made short again once so much was added: an hour of reports was 54 MB.
const MOST_ADDED_BYTES: u64 = 1 << 20;

/// Why something could not be kept, or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or the folder.
    #[error("{}: {source}{}", path.display(), limits::hint(source))]
    Io {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another witness keeps its runs there.
    #[error("{}: another witness uses it; name another with --state", .0.display())]
    InUse(PathBuf),
    /// The run is there already, and is another one.
    #[error("run {0} is known already, and was begun otherwise")]
    Known(String),
    /// There is no such run.
    #[error("run {0} is not known")]
    Unknown(String),
}

/// A line of a run's file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first one.
    Begun {
        /// When, by the witness's clock: RFC 3339, in UTC.
        received: String,
        pledge: Manifest,
    },
    /// The records up to this one were acknowledged.
    Wrote(u64),
    /// It said goodbye after this one.
    Ended(u64),
    /// The device was compared with it.
    Checked { boot_id: String, counts: Counts },
}

/// A run, as its file tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    received: jiff::Timestamp,
    pub(super) pledge: Manifest,
    /// The last record that was promised; none is 0.
    pub(super) promised: u64,
    pub(super) ended: bool,
    /// In which boots it was compared, and what came of it.
    checks: Vec<(String, Counts)>,
}

impl Run {
    /// Reads a run's file, a line at a time since a long run's is large; none if its first line is not
    /// that of a run.
    pub fn parse(mut from: impl BufRead) -> io::Result<Option<Run>> {
        let mut line = Vec::new();
        let mut run = None;
        while from.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            let parsed = serde_json::from_slice(&line).ok();
            match &mut run {
                None => match parsed.and_then(Run::begun) {
                    Some(begun) => run = Some(begun),
                    None => return Ok(None),
                },
                Some(run) => run.extend(parsed),
            }
            line.clear();
        }
        Ok(run)
    }

    fn begun(first: Line) -> Option<Run> {
        let Line::Begun { received, pledge } = first else {
            return None;
        };
        (pledge.fault().is_none()).then_some(Run {
            received: received.parse().ok()?,
            pledge,
            promised: 0,
            ended: false,
            checks: Vec::new(),
        })
    }

    fn extend(&mut self, line: Option<Line>) {
        match line {
            None | Some(Line::Begun { .. }) => {}
            Some(Line::Wrote(sequence)) => self.promised = self.promised.max(sequence),
            Some(Line::Ended(sequence)) => {
                self.promised = self.promised.max(sequence);
                self.ended = true;
            }
            Some(Line::Checked { boot_id, counts }) => self.checks.push((boot_id, counts)),
        }
    }

    /// It wrote to its device, as far as can be told: a run whose first record was not reported may have
    /// written it, unless it said that it didn't.
    fn may_have_written(&self) -> bool {
        self.promised > 0 || !self.ended
    }

    /// What was found first in a boot after that in which it was cut off; none if it wasn't.
    fn after_the_cut(&self) -> Option<&Counts> {
        let is_later = |(boot_id, _): &&(String, Counts)| *boot_id != self.pledge.boot_id;
        let check = self.checks.iter().find(is_later)?;
        (!self.ended && self.promised > 0).then_some(&check.1)
    }
}

/// A folder of runs.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    gate: Arc<RwLock<()>>,
    /// Locked, for as long as this lives.
    _lock: File,
}

/// The file of a run that goes on.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    /// Added since it was opened or shortened.
    added_bytes: u64,
    /// Lines are added with it held for reading, so that none is lost while a file is replaced.
    gate: Arc<RwLock<()>>,
}

impl Store {
    /// Opens the folder, and makes it if it isn't there.
    pub fn open(folder: &Path) -> Result<Store, StoreError> {
        let failed = |source| failure(folder, source);
        make(folder).map_err(failed)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            // Else a link that somebody laid there would have a file made where it leads.
            .custom_flags(libc::O_NOFOLLOW)
            .open(folder.join("lock"))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(StoreError::InUse(folder.to_owned()));
            }
            Err(fs::TryLockError::Error(source)) => return Err(failure(folder, source)),
        }
        Ok(Store {
            folder: folder.to_owned(),
            gate: Arc::default(),
            _lock: lock,
        })
    }

    /// Begins a run, whose pledge has no fault, or goes on with one that was begun with the same pledge;
    /// none if that is over. Gives the last record that it reported, too, which is on disk.
    pub(super) fn begin(&self, pledge: &Manifest) -> Result<Option<(Log, u64)>, StoreError> {
        let path = self.path(&pledge.id);
        let mut append = OpenOptions::new();
        append.append(true);
        match append.clone().create_new(true).open(&path) {
            Ok(file) => {
                let mut log = self.log(path, file);
                log.add(&Line::Begun {
                    received: jiff::Timestamp::now().to_string(),
                    pledge: pledge.clone(),
                })?;
                // The file's name is on disk once its folder is (fsync(2)).
                let folder = File::open(&self.folder).and_then(|folder| folder.sync_all());
                folder.map_err(|source| failure(&self.folder, source))?;
                Ok(Some((log, 0)))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let known = self.read(&path)?;
                let known = known.filter(|run| run.pledge == *pledge);
                let run = known.ok_or_else(|| StoreError::Known(pledge.id.clone()))?;
                if run.ended {
                    return Ok(None);
                }
                Ok(Some((self.reopen(path)?, run.promised)))
            }
            Err(source) => Err(failure(&path, source)),
        }
    }

    /// The run with this id.
    pub(super) fn find(&self, id: &str) -> Result<Option<Run>, StoreError> {
        // An id comes from outside, and must not name another file.
        match id.chars().all(|c| c.is_ascii_hexdigit()) {
            true => self.read(&self.path(id)),
            false => Ok(None),
        }
    }

    /// The newest run that wrote to a device.
    pub(super) fn newest(&self, device: &DeviceKey) -> Result<Option<Run>, StoreError> {
        let mut runs = self.runs()?;
        runs.retain(|run| run.pledge.device.is_same(device) && run.may_have_written());
        Ok(runs.into_iter().max_by_key(|run| run.received))
    }

    /// The newest run that wrote to `run`'s device after it.
    pub(super) fn later(&self, run: &Run) -> Result<Option<String>, StoreError> {
        let newest = self.newest(&run.pledge.device)?;
        let later = newest.filter(|newest| newest.received > run.received);
        Ok(later.map(|later| later.pledge.id))
    }

    /// Keeps what came of a comparison, and tells what is known of the run's device and method by then.
    pub(super) fn checked(
        &self,
        id: &str,
        boot_id: String,
        counts: Counts,
    ) -> Result<Tally, StoreError> {
        let run = self.find(id)?;
        let run = run.ok_or_else(|| StoreError::Unknown(id.to_owned()))?;
        let mut log = self.reopen(self.path(id))?;
        log.add(&Line::Checked { boot_id, counts })?;
        self.tally(&run.pledge)
    }

    /// A drive may keep what it acknowledged of a write with FUA and break its flushes, so each method
    /// counts for itself.
    fn tally(&self, pledge: &Manifest) -> Result<Tally, StoreError> {
        let mut tally = Tally::default();
        for run in self.runs()? {
            let is_alike = run.pledge.device.is_same(&pledge.device)
                && run.pledge.method == pledge.method
                && run.pledge.engine == pledge.engine;
            if !is_alike || run.promised == 0 {
                continue;
            }
            tally.runs += 1;
            if let Some(counts) = run.after_the_cut() {
                tally.cuts += 1;
                tally.survived += u64::from(counts.is_kept());
            }
        }
        Ok(tally)
    }

    fn runs(&self) -> Result<Vec<Run>, StoreError> {
        let failed = |source| failure(&self.folder, source);
        let mut runs = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                runs.extend(self.read(&path)?);
            }
        }
        Ok(runs)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.jsonl"))
    }

    fn read(&self, path: &Path) -> Result<Option<Run>, StoreError> {
        match File::open(path).and_then(|file| Run::parse(BufReader::new(file))) {
            Ok(run) => Ok(run),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failure(path, source)),
        }
    }

    /// Opens a run's file to add to it. A last line that was cut off is ended first, so that the next
    /// one is a line of its own. What is there is on disk then: who was killed between writing a line and
    /// its sync left it in the page cache alone.
    fn reopen(&self, path: PathBuf) -> Result<Log, StoreError> {
        let open = || {
            let mut options = OpenOptions::new();
            // An id comes from outside: a link by that name leads to no run of this folder.
            options.custom_flags(libc::O_NOFOLLOW);
            let mut file = options.read(true).append(true).open(&path)?;
            let mut last = [b'\n'];
            if file.metadata()?.len() > 0 {
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut last)?;
            }
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
            file.sync_data()?;
            Ok(file)
        };
        let file = open().map_err(|source| failure(&path, source))?;
        Ok(self.log(path, file))
    }

    fn log(&self, path: PathBuf, file: File) -> Log {
        Log {
            path,
            file,
            added_bytes: 0,
            gate: Arc::clone(&self.gate),
        }
    }
}

impl Log {
    /// The records up to this one were acknowledged.
    pub(super) fn wrote(&mut self, sequence: u64) -> Result<(), StoreError> {
        self.add(&Line::Wrote(sequence))
    }

    /// The run is over.
    pub(super) fn ended(&mut self, sequence: u64) -> Result<(), StoreError> {
        self.add(&Line::Ended(sequence))
    }

    fn add(&mut self, line: &Line) -> Result<(), StoreError> {
        self.put(line)
            .map_err(|source| failure(&self.path, source))?;
        if self.added_bytes > MOST_ADDED_BYTES {
            self.added_bytes = 0;
            let shortened = self.shorten();
            shortened.map_err(|source| failure(&self.path, source))?;
        }
        Ok(())
    }

    fn put(&mut self, line: &Line) -> io::Result<()> {
        let _shared = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let line = super::codec::line(line)?;
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.added_bytes += line.len() as u64;
        // What nobody finds again is no promise.
        match self.file.metadata()?.nlink() {
            0 => Err(io::Error::other(
                "it was removed; start the witness and the run anew",
            )),
            _ => Ok(()),
        }
    }

    /// Replaces the file by one without reports that later ones make needless. Where there is no room for
    /// that one, the long file stays as good as it was.
    fn shorten(&mut self) -> io::Result<()> {
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        // Another connection of the same run may have replaced it.
        let (held, there) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        if (held.dev(), held.ino()) != (there.dev(), there.ino()) {
            return Ok(());
        }
        let beside = self.path.with_extension("tmp");
        let Ok(file) = short(&self.path, &beside) else {
            let _ = fs::remove_file(&beside);
            return Ok(());
        };
        fs::rename(&beside, &self.path)?;
        self.file = file;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}

/// Writes a new file, on disk, with the lines of a run's file and of all its reports but the highest.
fn short(path: &Path, beside: &Path) -> io::Result<File> {
    let mut from = BufReader::new(File::open(path)?);
    let (mut text, mut line, mut highest) = (Vec::new(), Vec::new(), None);
    while from.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        match serde_json::from_slice(&line) {
            Ok(Line::Wrote(sequence)) => highest = highest.max(Some(sequence)),
            _ => text.extend_from_slice(&line),
        }
        line.clear();
    }
    if let Some(sequence) = highest {
        text.extend(super::codec::line(&Line::Wrote(sequence))?);
    }
    // A kill may have left one.
    let _ = fs::remove_file(beside);
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create_new(true).open(beside)?;
    file.write_all(&text)?;
    file.sync_all()?;
    Ok(file)
}

/// Makes a folder and those above it, each of whose names is on disk once the one above it is (fsync(2)).
fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = match folder.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    make(above)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(above)?.sync_all()
}

fn failure(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
