//! Standard output, for results alone, and standard error, for everything else.

use std::io::{self, IsTerminal, Write};

use crate::model::record::{Level, Record};
use crate::model::text::plain;
use crate::report::{self, Style};
use crate::sys::limits;

use super::args::Color;

/// How this process may talk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminal {
    color: Color,
    quiet: bool,
    prints_record: bool,
}

impl Terminal {
    pub(super) fn new(color: Color, quiet: bool, prints_record: bool) -> Terminal {
        let choice = match color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        // NO_COLOR and CLICOLOR are honoured by `Auto`.
        choice.write_global();
        Terminal {
            color,
            quiet,
            prints_record,
        }
    }

    /// How results look on standard output.
    pub(super) fn style(&self) -> Style {
        let stdout = io::stdout();
        let choice = anstream::AutoStream::choice(&stdout);
        let color = match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => choice != anstream::ColorChoice::Never,
        };
        Style {
            width: width(),
            color,
        }
    }

    /// Prints what a run measured: its tables, or the record itself.
    pub(super) fn print_record(&self, record: &Record) -> io::Result<()> {
        self.print(&match self.prints_record {
            true => serde_json::to_string(record)? + "\n",
            false => report::render(record, &self.style()),
        })
    }

    /// Prints a result. A reader that went away is no error: it has seen what it wanted.
    pub(super) fn print(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("cannot write to standard output: {error}"),
            )),
            Ok(()) => Ok(()),
        }
    }

    /// Progress may be drawn on standard error.
    pub(super) fn shows_progress(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Says something on standard error; a remark only unless told to be quiet.
    pub(super) fn say(&self, level: Level, text: &str) {
        let label = match level {
            Level::Remark if self.quiet => return,
            Level::Remark => "note",
            Level::Fallback | Level::Warning => "warning",
        };
        line(label, text);
    }

    /// Says on standard error why the program ends, in one line.
    pub(super) fn error(&self, error: &anyhow::Error) {
        line("error", &one_line(error));
    }
}

/// An error and its causes, but for those that it quotes itself, and what raises a limit that it tells of.
pub(super) fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    let said = error.chain().filter_map(|cause| cause.downcast_ref());
    let hint = said.map(limits::hint).find(|hint| !hint.is_empty());
    match hint.filter(|hint| !text.contains(hint)) {
        Some(hint) => text + &hint,
        None => text,
    }
}

/// One line, whatever it is made of.
fn line(label: &str, text: &str) {
    let text = plain(text);
    // Nothing can be done about a standard error that can't be written.
    let code = if label == "error" { "1;31" } else { "33" };
    let label = match label {
        "note" => label.to_owned(),
        _ => format!("\x1b[{code}m{label}\x1b[0m"),
    };
    let _ = writeln!(anstream::stderr(), "syncprof: {label}: {text}");
}

/// The columns of the terminal on standard output; COLUMNS where there is none but somebody knows
/// better.
fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let (_, size) = console_size().unzip();
    size.or(columns).filter(|&columns| columns > 0)
}

fn console_size() -> Option<(usize, usize)> {
    if !io::stdout().is_terminal() {
        return None;
    }
    crate::sys::tty::size(io::stdout()).ok()
}
