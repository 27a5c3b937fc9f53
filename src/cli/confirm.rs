//! The confirmation that overwriting a device needs.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::session::Survey;

use super::args::Writing;
use super::config::UsageError;

/// What confirms that the survey's device may be overwritten, given or typed at the prompt, and
/// whether a signature may be ignored. None where the device's content is preserved. Whether it is
/// the right word, the guard decides.
pub(super) fn confirmation(
    survey: &Survey,
    writing: Option<&Writing>,
) -> anyhow::Result<Option<(String, bool)>> {
    let Some((writing, (name, serial))) = writing.zip(survey.device_names()) else {
        return Ok(None);
    };
    if !writing.overwrite {
        return Ok(None);
    }
    let word = match &writing.confirm {
        Some(word) => word.clone(),
        None => ask(name, serial)?,
    };
    Ok(Some((word, writing.force)))
}

fn ask(name: &str, serial: Option<&str>) -> anyhow::Result<String> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(UsageError(format!(
            "--overwrite destroys what {name} holds; off a terminal, confirm it with --confirm {}",
            serial.unwrap_or(name),
        ))
        .into());
    }
    let what = match serial {
        Some(serial) => format!("serial number ({serial}) or kernel name ({name})"),
        None => format!("kernel name ({name})"),
    };
    eprint!("This DESTROYS what {name} holds. Type its {what} to go on: ");
    io::stderr().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}
