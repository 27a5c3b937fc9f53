//! `report` and `explain`: saved records, printed again.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::model::record::{Level, Record};
use crate::report;
use crate::sys::text;

use super::args::{Explain, Format, Report};
use super::config::UsageError;
use super::output::Terminal;
use super::status;

pub(super) fn run(args: &Report, terminal: &Terminal) -> anyhow::Result<u8> {
    let records = load_all(&args.records)?;
    for (index, (record, path)) in records.iter().zip(&args.records).enumerate() {
        match args.format {
            Format::Json => terminal.print(&format!("{}\n", report::json(record)?))?,
            Format::Table => {
                head(index, &args.records, path, terminal)?;
                terminal.print(&report::render(record, &terminal.style()))?;
                for note in record
                    .notes
                    .iter()
                    .filter(|note| note.level != Level::Remark)
                {
                    terminal.say(note.level, &report::note_text(record, note));
                }
                for text in report::warnings(record) {
                    terminal.say(Level::Warning, &text);
                }
            }
        }
    }
    Ok(status::MEASURED)
}

pub(super) fn explain(args: &Explain, terminal: &Terminal) -> anyhow::Result<u8> {
    let records = load_all(&args.records)?;
    for (index, (record, path)) in records.iter().zip(&args.records).enumerate() {
        head(index, &args.records, path, terminal)?;
        terminal.print(&report::explain(record, &terminal.style()))?;
    }
    Ok(status::MEASURED)
}

/// Tells several records apart.
fn head(index: usize, all: &[PathBuf], path: &Path, terminal: &Terminal) -> io::Result<()> {
    if all.len() == 1 {
        return Ok(());
    }
    let gap = if index > 0 { "\n" } else { "" };
    terminal.print(&format!("{gap}{}:\n\n", path.display()))
}

/// All are read before any is printed, so that a wrong name in the middle leaves no half answer.
fn load_all(paths: &[PathBuf]) -> Result<Vec<Record>, UsageError> {
    paths
        .iter()
        .map(|path| load(path).map_err(|why| UsageError(format!("{}: {why}", path.display()))))
        .collect()
}

/// More than the longest run saves.
const MOST_BYTES: u64 = 1 << 30;

fn load(path: &Path) -> Result<Record, String> {
    let text = read(path).map_err(|error| error.to_string())?;
    Record::parse(&text).map_err(|error| error.to_string())
}

fn read(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    text::read(path, MOST_BYTES)
}
