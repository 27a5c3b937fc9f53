//! Runs the programs that make filesystems.

use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::sys::process::die_with_parent;

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
    let [program, arguments @ ..] = words else {
        return Ok(());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Messages are looked at, and shown as they are.
        .env("LC_ALL", "C");
    die_with_parent(&mut command);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CommandError::Missing(program.clone()),
        _ => CommandError::Start(program.clone(), error),
    })?;
    let failed = |error| CommandError::Start(program.clone(), error);
    let Some(output) = wait(child, stop).map_err(failed)? else {
        return Err(CommandError::Interrupted);
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut words = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let last = words
        .next_back()
        .map_or_else(|| output.status.to_string(), str::to_owned);
    Err(CommandError::Failed(program.clone(), last))
}

/// Waits for the child; none if a signal came first, and the child was ended.
fn wait(mut child: Child, stop: &AtomicBool) -> io::Result<Option<std::process::Output>> {
    // What makes filesystems says little: its words fit the pipe until it has ended.
    while child.try_wait()?.is_none() {
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(TICK);
    }
    child.wait_with_output().map(Some)
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
        let missing = run(&["no-such-mkfs".to_owned()], &AtomicBool::new(false));
        assert!(matches!(missing, Err(CommandError::Missing(_))));
    }

    #[test]
    fn a_signal_ends_it() {
        assert_eq!(say("sleep 600", true), Err("interrupted".to_owned()));
    }
}
