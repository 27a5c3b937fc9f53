//! The process that the shell waits for. It only watches: all that may wait for a device is done by a
//! copy of it.
//!
//! A thread in an uninterruptible wait keeps its whole process from ending, whatever signal it gets, and
//! whoever waits for that process waits too (do_exit() in kernel/exit.c). So the one that talks to the user
//! touches no device: it can say at any time what is waited for, heed a signal, and print what was measured.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::model::devid::DevId;
use crate::model::record::{Ended, Level, Note, Record};
use crate::model::text::shell;
use crate::model::traffic::BlockStat;
use crate::observe::blockstat;
use crate::session::{RecordPath, Saver};
use crate::sys::process;
use crate::sys::pulse::{self, Told, Watched};
use crate::sys::root::Root;

use super::output::Terminal;
use super::{signals, status};

/// How often it looks.
const TICK_MS: u8 = 100;
/// A pause between two looks counts as no more than this: the whole machine may have been asleep, or the
/// terminal have stopped both processes.
const LONGEST_TICK: Duration = Duration::from_millis(500);
/// Nothing was completed for so long: it is told, again and again.
const TELL: Duration = Duration::from_secs(10);
/// A signal is answered if nothing was completed for so long.
const ANSWER: Duration = Duration::from_secs(2);
/// What a process that ended by itself, or was told to, gets for going away.
const GRACE: Duration = Duration::from_secs(1);
/// What saving a record may take before it is given up too.
const SAVING: Duration = Duration::from_secs(5);

/// Does `work` in a copy of this process, and gives the status that it ends with; or that it was given up,
/// because nothing completed for as long as `stall`.
pub(super) fn watched(stall: Duration, terminal: &Terminal, work: impl FnOnce() -> u8) -> u8 {
    let split = pulse::share().and_then(|(told, teller)| Ok((told, teller, process::split()?)));
    match split {
        Ok((told, teller, Some(child))) => {
            drop(teller);
            Watch::new(stall, terminal, told, child).until_its_end()
        }
        Ok((told, teller, None)) => {
            drop(told);
            teller.begin();
            let status = work();
            pulse::ends(status);
            status
        }
        Err(error) => {
            let text =
                format!("nothing watches over this run, which a device may hold up: {error}");
            terminal.say(Level::Warning, &text);
            work()
        }
    }
}

struct Watch<'a> {
    stall: Duration,
    terminal: &'a Terminal,
    told: Watched,
    child: Pid,
    /// The part of a line that was read.
    text: Vec<u8>,
    /// What is done now.
    does: Told,
    /// Where the last record is that was kept.
    kept: Option<usize>,
    paths: Vec<RecordPath>,
    /// It said that it ends, so long ago.
    ends: Option<(u8, Instant)>,
    moved: u64,
    /// Requests that its devices completed.
    completed: Option<u64>,
    /// For how long nothing was completed.
    quiet: Duration,
    /// Of which was told.
    said: Duration,
    is_signaled: bool,
    /// It was said what a signal that came waits for.
    is_answered: bool,
    /// A signal came after that.
    insists: bool,
}

/// Why it was given up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Stalled,
    Signal,
}

impl<'a> Watch<'a> {
    fn new(stall: Duration, terminal: &'a Terminal, told: Watched, child: Pid) -> Watch<'a> {
        Watch {
            stall,
            terminal,
            told,
            child,
            text: Vec::new(),
            does: Told::Does("looking at what there is".to_owned()),
            kept: None,
            paths: Vec::new(),
            ends: None,
            moved: 0,
            completed: None,
            quiet: Duration::ZERO,
            said: Duration::ZERO,
            is_signaled: false,
            is_answered: false,
            insists: false,
        }
    }

    fn until_its_end(mut self) -> u8 {
        let signal = signals::watch().unwrap_or_else(|error| {
            let text = format!("cannot watch for signals: {error}");
            self.terminal.say(Level::Warning, &text);
            Arc::new(AtomicBool::new(false))
        });
        loop {
            let begun = Instant::now();
            self.listen();
            if let Some(status) = self.has_ended() {
                return status;
            }
            self.count(begun.elapsed().min(LONGEST_TICK));
            if signal.swap(false, Ordering::Relaxed) {
                // The terminal's reach both, and once more does no harm.
                let _ = kill(self.child, Signal::SIGINT);
                self.insists = self.is_answered;
                self.is_signaled = true;
            }
            self.answer();
            if let Some(why) = self.is_given_up() {
                return self.give_up(why);
            }
        }
    }

    /// Waits for what is told, for a tick at most.
    fn listen(&mut self) {
        let mut waiting = [PollFd::new(self.told.lines.as_fd(), PollFlags::POLLIN)];
        // A signal ends it early, and a child that is gone has closed its end.
        let ready = poll(&mut waiting, PollTimeout::from(TICK_MS));
        if ready == Ok(0) {
            return;
        }
        let mut bytes = [0; 4096];
        match self.told.lines.read(&mut bytes) {
            Ok(0) => std::thread::sleep(Duration::from_millis(1)),
            Ok(len) => self.text.extend(&bytes[..len]),
            Err(_) => return,
        }
        while let Some(end) = self.text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            if let Some(told) = Told::read(String::from_utf8_lossy(&line).trim_end_matches('\n')) {
                self.heed(told);
            }
        }
    }

    fn heed(&mut self, told: Told) {
        match told {
            Told::Kept(place) => self.kept = Some(place),
            Told::Typed(path) => self.paths.push(RecordPath::Typed(PathBuf::from(path))),
            Told::Own(path) => self.paths.push(RecordPath::Own(PathBuf::from(path))),
            Told::Ends(status) => self.ends = Some((status, Instant::now())),
            does => self.does = does,
        }
        self.quiet = Duration::ZERO;
        self.said = Duration::ZERO;
    }

    /// The status that it ended with; none while it lives. One that said so may not get away, because one
    /// of its threads waits for a device: it is not waited for.
    fn has_ended(&mut self) -> Option<u8> {
        let late = self.ends.filter(|(_, since)| since.elapsed() > GRACE);
        match waitpid(self.child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, status)) => Some(status as u8),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                if !matches!(signal, Signal::SIGINT | Signal::SIGTERM) {
                    let text = format!("the process that measured was ended by {signal}");
                    self.say(&text);
                }
                Some(128 + signal as u8)
            }
            Err(_) => Some(status::CANNOT),
            Ok(_) => late.map(|(status, _)| {
                self.say(&self.held());
                status
            }),
        }
    }

    /// Counts on, or from nothing where something was done.
    fn count(&mut self, tick: Duration) {
        let moved = pulse::moved();
        let has_moved = std::mem::replace(&mut self.moved, moved) != moved;
        // Looked at only where it may decide.
        let completed = match self.does {
            Told::Does(_) | Told::Undoes(_) if self.quiet > GRACE => self.completed_now(),
            _ => None,
        };
        let before = std::mem::replace(&mut self.completed, completed);
        if has_moved || completed.is_some_and(|now| before.is_some_and(|before| now != before)) {
            self.quiet = Duration::ZERO;
            self.said = Duration::ZERO;
            return;
        }
        self.quiet += tick;
        let is_due = self.quiet >= self.said + TELL && !matches!(self.does, Told::Rests);
        if is_due {
            self.said += TELL;
            self.say(&format!(
                "{}: nothing completed for {} s; the device may hang, see the kernel's log",
                self.doing(),
                self.said.as_secs()
            ));
        }
    }

    /// Requests that the devices of the record completed so far.
    fn completed_now(&self) -> Option<u64> {
        let record = self.record()?;
        let stacks = record.targets.iter().flat_map(|target| &target.stack);
        let devices: Vec<DevId> = stacks.map(|device| device.dev).collect();
        let root = Root::host();
        let counts = devices
            .iter()
            .filter_map(|&dev| blockstat::read(&root, dev));
        let of = |stat: BlockStat| stat.reads + stat.writes + stat.flushes + stat.discards;
        Some(counts.map(of).fold(0, u64::wrapping_add))
    }

    fn record(&self) -> Option<Record> {
        let text = self.told.record(self.kept?).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn doing(&self) -> &str {
        match &self.does {
            Told::Measures(what) | Told::Does(what) | Told::Undoes(what) => what,
            _ => "waiting",
        }
    }

    /// Says what a signal that came waits for, once, if it does.
    fn answer(&mut self) {
        if self.is_signaled && !self.is_answered && self.quiet >= ANSWER {
            self.is_answered = true;
            let seconds = self.quiet.as_secs();
            let left = self.patience().saturating_sub(self.quiet).as_secs();
            self.say(&format!(
                "interrupted; {}: nothing completed for {seconds} s, given up in {left} s if that stays so, \
                 or at the next signal",
                self.doing(),
            ));
        }
    }

    /// For how long nothing may be completed once a signal came.
    fn patience(&self) -> Duration {
        match self.does {
            Told::Undoes(_) => self.stall,
            _ => self.stall.min(TELL),
        }
    }

    fn is_given_up(&self) -> Option<Why> {
        let is_resting = matches!(self.does, Told::Rests);
        if self.is_signaled {
            let is_over = self.insists || self.quiet >= self.patience();
            return is_over.then_some(Why::Signal);
        }
        (self.quiet >= self.stall && !is_resting).then_some(Why::Stalled)
    }

    /// Prints what was measured, and leaves. Unwinding would wait for writes in flight, and remove a file
    /// whose blocks they still reach: the scratch files stay as they are, for `syncprof clean`.
    fn give_up(&mut self, why: Why) -> u8 {
        let text = format!(
            "given up: {}: nothing completed for {} s",
            self.doing(),
            self.quiet.as_secs()
        );
        self.say(&text);
        let record = self.record();
        let _ = kill(self.child, Signal::SIGKILL);
        if let Some(mut record) = record {
            record.run.ended = Some(match why {
                Why::Stalled => Ended::Stalled,
                Why::Signal => Ended::Interrupted,
            });
            record.notes.push(Note {
                level: Level::Warning,
                target: None,
                text,
            });
            self.tell(&record);
        }
        let since = Instant::now();
        let is_left = || {
            let state = waitpid(self.child, Some(WaitPidFlag::WNOHANG));
            state == Ok(WaitStatus::StillAlive)
        };
        while is_left() {
            if since.elapsed() > GRACE {
                self.say(&self.held());
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.say("writes may be in flight, and scratch files left: run `syncprof clean` once the device answers");
        match why {
            Why::Stalled => status::STALLED,
            Why::Signal => status::INTERRUPTED,
        }
    }

    /// Prints the record's tables if it has any, and saves it.
    fn tell(&self, record: &Record) {
        let is_empty = record.cells.iter().all(|cell| cell.slices.is_empty());
        if (!is_empty || !record.timelines.is_empty())
            && let Err(error) = self.terminal.print_record(record)
        {
            self.say(&error.to_string());
        }
        if self.paths.is_empty() {
            return;
        }
        let names: Vec<_> = self.paths.iter().map(RecordPath::path).collect();
        let names: Vec<_> = names
            .iter()
            .map(|path| shell(&path.display().to_string()))
            .collect();
        let names = names.join(" ");
        let text = match save(&self.paths, record) {
            true => format!("`syncprof report {names}` prints what was measured again"),
            false => format!("the end of the run could not be saved; whole rounds are in {names}"),
        };
        self.say(&text);
    }

    fn held(&self) -> String {
        format!(
            "process {} is held in the kernel until the device answers, and ends then",
            self.child
        )
    }

    fn say(&self, text: &str) {
        if self.terminal.shows_progress() {
            // Over the bar that the other process draws.
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
        self.terminal.say(Level::Warning, text);
    }
}

/// Saves the record, in a process that is not waited for either: the folder may lie on the device that
/// doesn't answer.
fn save(paths: &[RecordPath], record: &Record) -> bool {
    match process::split() {
        Ok(None) => {
            let saved = Saver::new(paths.to_vec(), record);
            std::process::exit(i32::from(saved.is_err()));
        }
        Ok(Some(child)) => {
            let since = Instant::now();
            while since.elapsed() < SAVING {
                match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
                    Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(5)),
                    ended => return ended == Ok(WaitStatus::Exited(child, 0)),
                }
            }
            false
        }
        Err(_) => false,
    }
}
