//! The confirmation that overwriting a device needs.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::guard::Confirmations;
use crate::model::text::plain;
use crate::session::SetupError;
use crate::sys::pulse;

use super::args::Writing;
use super::config::UsageError;

/// How often the prompt looks whether a signal came, in milliseconds.
const LOOK_MS: u8 = 100;
/// A longer line confirms nothing.
const MAX_LINE_BYTES: usize = 4096;

/// What confirms that a device may be overwritten, given or typed at the prompt, and
/// whether a signature may be ignored. None where the device's content is preserved. Whether it is
/// the right word, the guard decides.
pub(super) fn confirmation(
    accepted: Option<Confirmations>,
    writing: Option<&Writing>,
    stop: &AtomicBool,
) -> anyhow::Result<Option<(String, bool)>> {
    let writing = writing.filter(|writing| writing.overwrite);
    let Some((writing, accepted)) = writing.zip(accepted) else {
        return Ok(None);
    };
    let word = match &writing.confirm {
        Some(word) => word.clone(),
        None => ask(&accepted, "--overwrite DESTROYS what", "", stop)?,
    };
    Ok(Some((word, writing.force)))
}

/// What confirms that the device may be discarded, which `accepted` names, given or typed at the prompt.
pub(super) fn purge(
    accepted: Option<Confirmations>,
    given: Option<String>,
    stop: &AtomicBool,
) -> anyhow::Result<String> {
    match (given, accepted) {
        (Some(word), _) => Ok(word),
        (None, Some(accepted)) => ask(&accepted, "--purge DISCARDS all that", "purge", stop),
        (None, None) => Ok(String::new()),
    }
}

/// Asks for one of `accepted`. `act` says what will be done, as in "--overwrite DESTROYS what"
/// something holds; `suffix` is what the option that confirms it ends in.
fn ask(
    accepted: &Confirmations,
    act: &str,
    suffix: &str,
    stop: &AtomicBool,
) -> anyhow::Result<String> {
    let Confirmations { name, serial } = accepted;
    let option = match suffix {
        "" => "--confirm".to_owned(),
        suffix => format!("--confirm-{suffix}"),
    };
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(UsageError(format!(
            "{act} {name} holds; off a terminal, confirm it with {option} {}",
            serial.as_ref().unwrap_or(name),
        ))
        .into());
    }
    let what = match serial {
        Some(serial) => format!("serial number ({serial}) or kernel name ({name})"),
        None => format!("kernel name ({name})"),
    };
    let prompt = format!("{act} {name} holds. Type its {what} to go on: ");
    // Not eprint!, which panics where a terminal hung up.
    write!(io::stderr(), "{}", plain(&prompt))?;
    pulse::rests();
    let answer = read_line(io::stdin(), stop);
    pulse::does("looking at the device again");
    if answer.is_err() {
        // What comes next begins a line of its own.
        let _ = writeln!(io::stderr());
    }
    answer
}

/// A line, as [`io::Stdin::read_line`] gives it, but left when a signal comes.
fn read_line(input: impl AsFd, stop: &AtomicBool) -> anyhow::Result<String> {
    let mut line = Vec::new();
    while !line.contains(&b'\n') && line.len() < MAX_LINE_BYTES {
        let mut waiting = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        let ready = match poll(&mut waiting, PollTimeout::from(LOOK_MS)) {
            Err(Errno::EINTR) => 0,
            other => other?,
        };
        if stop.load(Ordering::Relaxed) {
            return Err(SetupError::Interrupted.into());
        }
        if ready == 0 {
            continue;
        }
        let mut bytes = [0; 256];
        match nix::unistd::read(input.as_fd(), &mut bytes)? {
            0 => break,
            count => line.extend_from_slice(&bytes[..count]),
        }
    }
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    fn read(text: &[u8]) -> String {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(text).unwrap();
        drop(writer);
        read_line(reader, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn a_line_ends_at_its_end_or_with_the_input() {
        assert_eq!(read(b" sda\nmore"), "sda");
        assert_eq!(read(b"sda"), "sda");
        assert_eq!(read(b""), "");
        assert_eq!(read(b"\xff\n"), "\u{fffd}");
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_line() {
        let (reader, _writer) = pipe().unwrap();
        let error = read_line(reader, &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(
            error.downcast_ref(),
            Some(SetupError::Interrupted)
        ));
    }
}
