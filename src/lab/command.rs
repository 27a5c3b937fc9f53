//! Runs the programs that make filesystems.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::sys::process::die_with_parent;
use crate::sys::pulse;

/// How often a program that runs is looked at.
const TICK: Duration = Duration::from_millis(10);

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// It is not to be found.
    #[error("there is no {0}")]
    Missing(String),
    /// It could not be started.
    #[error("cannot run {0}: {1}")]
    Start(String, io::Error),
    /// It failed: its last words.
    #[error("{0}: {1}")]
    Failed(String, String),
    /// A signal came.
    #[error("interrupted")]
    Interrupted,
}

/// Runs a program and its arguments to the end. It ends with this process, whatever ends that.
pub(super) fn run(words: &[String], stop: &AtomicBool) -> Result<(), CommandError> {
    let Some(program) = words.first() else {
        return Ok(());
    };
    // A big device takes long, and Ctrl-C ends the program.
    pulse::rests();
    let ended = start(words, stop)?;
    pulse::does("building a filesystem");
    if ended.status.success() {
        return Ok(());
    }
    // Ctrl-C reaches everything that the terminal runs, and may have ended the program first.
    if stop.load(Ordering::Relaxed) {
        return Err(CommandError::Interrupted);
    }
    let last = last_words(&ended.errors).or_else(|| last_words(&ended.output));
    Err(CommandError::Failed(
        program.clone(),
        last.unwrap_or_else(|| ended.status.to_string()),
    ))
}

/// The version that a program tells of itself with `-V`, in one line; none if it tells none.
pub(super) fn version(program: &str, stop: &AtomicBool) -> Option<String> {
    let ended = start(&[program.to_owned(), "-V".to_owned()], stop).ok()?;
    let has_number = |line: &&str| line.contains(|c: char| c.is_ascii_digit());
    let mut lines = ended.output.lines().chain(ended.errors.lines());
    lines
        .find(has_number)
        .map(|line| line.trim().to_owned())
        .filter(|_| ended.status.success())
}

/// How a program ended, and what it said.
struct Outcome {
    status: ExitStatus,
    output: String,
    errors: String,
}

fn start(words: &[String], stop: &AtomicBool) -> Result<Outcome, CommandError> {
    let [program, arguments @ ..] = words else {
        return Err(CommandError::Missing(String::new()));
    };
    let failed = |error| CommandError::Start(program.clone(), error);
    // Into memory and not through pipes: one that is full would stop the program.
    let (mut output, mut errors) = (memory().map_err(failed)?, memory().map_err(failed)?);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(errors.try_clone().map_err(failed)?)
        // Messages are looked at, and shown as they are.
        .env("LC_ALL", "C");
    die_with_parent(&mut command);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CommandError::Missing(program.clone()),
        _ => CommandError::Start(program.clone(), error),
    })?;
    let status = wait(child, stop).map_err(failed)?;
    Ok(Outcome {
        status: status.ok_or(CommandError::Interrupted)?,
        output: text(&mut output).map_err(failed)?,
        errors: text(&mut errors).map_err(failed)?,
    })
}

/// Waits for the child; none if a signal came first, and the child was ended.
fn wait(mut child: Child, stop: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(TICK);
    }
}

fn memory() -> io::Result<File> {
    Ok(memfd_create(c"output", MFdFlags::MFD_CLOEXEC)?.into())
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last line that says something; what a program's usage begins is no news, but that it is all
/// that the program has to say.
fn last_words(said: &str) -> Option<String> {
    let is_usage = |line: &&str| line.to_ascii_lowercase().starts_with("usage");
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let usage = "it takes no such options, and says no more than how it is used";
    let before = lines.clone().take_while(|line| !is_usage(line)).last();
    let only = lines.next().map(|_| usage);
    before.or(only).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(script: &str, stop: bool) -> Result<(), String> {
        let words = ["sh", "-c", script].map(str::to_owned);
        run(&words, &AtomicBool::new(stop)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_failure_tells_the_last_words() {
        assert_eq!(say("true", false), Ok(()));
        let why = say("echo one >&2; echo too small >&2; exit 1", false);
        assert_eq!(why, Err("sh: too small".to_owned()));
        assert!(say("exit 3", false).unwrap_err().contains("exit status: 3"));
        assert_eq!(say("echo full; exit 1", false), Err("sh: full".to_owned()));
        let usage = "echo no such size >&2; echo; echo 'Usage: x' >&2; echo y >&2; exit 1";
        assert_eq!(say(usage, false), Err("sh: no such size".to_owned()));
        let only_usage = "echo 'Usage: x' >&2; echo '-h | --help' >&2; exit 1";
        assert!(
            say(only_usage, false)
                .unwrap_err()
                .contains("no such options")
        );
        let missing = run(&["no-such-mkfs".to_owned()], &AtomicBool::new(false));
        assert!(matches!(missing, Err(CommandError::Missing(_))));
    }

    #[test]
    fn a_signal_ends_it() {
        assert_eq!(say("sleep 600", true), Err("interrupted".to_owned()));
        // The terminal's signal may end the program before anybody looks.
        assert_eq!(say("exit 1", true), Err("interrupted".to_owned()));
    }

    #[test]
    fn a_program_that_says_much_is_not_stopped_by_it() {
        let words = "head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1";
        assert!(say(words, false).unwrap_err().len() > 900_000);
    }
}
