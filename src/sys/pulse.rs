//! What this process does just now, told to the one that watches over it: a device that doesn't answer
//! may hold up any of its threads for good, and then only another process can still speak.
//!
//! Where nobody watches, all of this does nothing.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::clock::monotonic_ns;

/// That something was done is noted no more often: threads that write would fight over the line of
/// cache.
const APART_NS: u64 = 50_000_000;

static MOVED: OnceLock<&'static AtomicU64> = OnceLock::new();
static LINE: OnceLock<Line> = OnceLock::new();

/// The end that tells.
struct Line {
    pipe: PipeWriter,
    records: [File; 2],
    kept: AtomicU64,
}

/// The end that is told.
#[derive(Debug)]
pub struct Watched {
    /// Lines of text: `read` says what they are. Reading it doesn't wait.
    pub lines: PipeReader,
    records: [File; 2],
}

/// What a line tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Writes are measured: nothing else counts as progress.
    Measures(String),
    /// Something else is done, in which all that a device completes is progress.
    Does(String),
    /// What was made is taken down; it is not left for being asked to end.
    Undoes(String),
    /// It waits for a person or another machine.
    Rests,
    /// The record was kept, in this one of the two places.
    Kept(usize),
    /// A file of the record's, as it was typed.
    Typed(String),
    /// A file of the record's whose name nobody typed.
    Own(String),
    /// It ends, with this status.
    Ends(u8),
}

impl Told {
    /// What a line says; none of what is no line of ours.
    pub fn read(line: &str) -> Option<Told> {
        let (word, rest) = line.split_once(' ')?;
        let text = || rest.to_owned();
        Some(match word {
            "measures" => Told::Measures(text()),
            "does" => Told::Does(text()),
            "undoes" => Told::Undoes(text()),
            "rests" => Told::Rests,
            "kept" => Told::Kept(rest.parse().ok().filter(|&place| place < 2)?),
            "typed" => Told::Typed(text()),
            "own" => Told::Own(text()),
            "ends" => Told::Ends(rest.parse().ok()?),
            _ => return None,
        })
    }
}

impl Watched {
    /// The record that was kept in `place`, as JSON.
    pub fn record(&self, place: usize) -> io::Result<Vec<u8>> {
        let file = &self.records[place];
        let mut text = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut text, 0)?;
        Ok(text)
    }
}

/// Begins to be watched. Called before the process that is watched is made: both then have what is
/// shared. Gives the end for the one that watches; this one's is dropped there.
pub fn share() -> io::Result<(Watched, Teller)> {
    let (lines, pipe) = io::pipe()?;
    fcntl(&lines, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let place = || memfd_create("syncprof-record", MFdFlags::MFD_CLOEXEC).map(File::from);
    let records = [place()?, place()?];
    let clone = [records[0].try_clone()?, records[1].try_clone()?];
    let _ = MOVED.set(shared_number()?);
    let watched = Watched {
        lines,
        records: clone,
    };
    Ok((
        watched,
        Teller(Line {
            pipe,
            records,
            kept: AtomicU64::new(0),
        }),
    ))
}

/// The end that tells, before it is known in which process it is used.
pub struct Teller(Line);

impl Teller {
    /// From now on, this process tells.
    pub fn begin(self) {
        let _ = LINE.set(self.0);
    }
}

/// A number in memory that processes share that are made of this one.
fn shared_number() -> io::Result<&'static AtomicU64> {
    // SAFETY: a new mapping at a place of the kernel's choice (mmap(2)).
    let place = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<AtomicU64>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if place == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is a page of zeros, aligned to a page, and is never unmapped. All who reach it
    // do so by this type.
    Ok(unsafe { &*place.cast::<AtomicU64>() })
}

/// An operation was completed at `now_ns`.
#[inline]
pub fn progress(now_ns: u64) {
    if let Some(moved) = MOVED.get()
        && now_ns.abs_diff(moved.load(Ordering::Relaxed)) > APART_NS
    {
        moved.store(now_ns, Ordering::Relaxed);
    }
}

/// Something was done that may have waited for a device.
pub fn beat() {
    progress(monotonic_ns());
}

/// Changes as long as something is done.
pub fn moved() -> u64 {
    MOVED.get().map_or(0, |moved| moved.load(Ordering::Relaxed))
}

/// Writes are about to be measured.
pub fn measures(what: &str) {
    tell("measures", what);
}

/// Something else is about to be done.
pub fn does(what: &str) {
    tell("does", what);
}

/// Something that was made is about to be taken down.
pub fn undoes(what: &str) {
    tell("undoes", what);
}

/// A person or another machine is waited for.
pub fn rests() {
    tell("rests", "");
}

/// The record is kept in this file, whose name was typed or not.
pub fn path(path: &Path, is_own: bool) {
    // What can't be told as text can't be saved by the one that is told.
    if let Some(path) = path.to_str() {
        tell(if is_own { "own" } else { "typed" }, path);
    }
}

/// This process is about to end.
pub fn ends(status: u8) {
    tell("ends", &status.to_string());
}

/// This is the record by now. The one before is whole until this one is.
pub fn keep(record: &[u8]) {
    let Some(line) = LINE.get() else { return };
    let place = (line.kept.fetch_add(1, Ordering::Relaxed) % 2) as usize;
    let file = &line.records[place];
    let kept = file.set_len(0).and_then(|()| file.write_all_at(record, 0));
    if kept.is_ok() {
        tell("kept", &place.to_string());
    }
}

/// What can't be told, the next line may: nothing is waited for here.
fn tell(word: &str, rest: &str) {
    beat();
    if let Some(line) = LINE.get() {
        // One write of no more than PIPE_BUF bytes, so that lines of threads don't mix (pipe(7)).
        let mut text: String = format!("{word} {rest}")
            .replace('\n', " ")
            .chars()
            .take(1000)
            .collect();
        text.push('\n');
        let _ = (&line.pipe).write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_told() {
        let read = |line| Told::read(line);
        assert_eq!(
            read("does look at /a b"),
            Some(Told::Does("look at /a b".to_owned()))
        );
        assert_eq!(read("rests "), Some(Told::Rests));
        assert_eq!(read("kept 1"), Some(Told::Kept(1)));
        assert_eq!(read("kept 2"), None);
        assert_eq!(read("ends 130"), Some(Told::Ends(130)));
        assert_eq!(read("noise"), None);
    }
}
