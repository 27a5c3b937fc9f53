//! `report`: saved records, printed again.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use crate::model::record::{Level, Record};
use crate::report;

use super::args::{Format, Report};
use super::config::UsageError;
use super::output::Terminal;
use super::status;

pub(super) fn run(args: &Report, terminal: &Terminal) -> anyhow::Result<u8> {
    // All are read before any is printed, so that a wrong name in the middle leaves no half answer.
    let records: Vec<Record> = args
        .records
        .iter()
        .map(|path| load(path).map_err(|why| UsageError(format!("{}: {why}", path.display()))))
        .collect::<Result<_, _>>()?;
    for (index, (record, path)) in records.iter().zip(&args.records).enumerate() {
        match args.format {
            Format::Json => terminal.print(&format!("{}\n", report::json(record)?))?,
            Format::Table => {
                if records.len() > 1 {
                    let gap = if index > 0 { "\n" } else { "" };
                    terminal.print(&format!("{gap}{}:\n\n", path.display()))?;
                }
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
    fs::read_to_string(path)
}
