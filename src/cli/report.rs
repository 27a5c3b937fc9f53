//! `report` and `explain`: saved records, printed again.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use crate::model::record::Record;
use crate::report;

use super::args::{Explain, Format, Report};
use super::config::UsageError;
use super::output::Terminal;
use super::status;

pub(super) fn run(args: &Report, terminal: &Terminal) -> anyhow::Result<u8> {
    for path in &args.records {
        let record = record(path)?;
        let text = match args.format {
            Format::Table => report::render(&record, &terminal.style()),
            Format::Json => format!("{}\n", report::json(&record)?),
        };
        terminal.print(&text)?;
    }
    Ok(status::MEASURED)
}

pub(super) fn explain(args: &Explain, terminal: &Terminal) -> anyhow::Result<u8> {
    for path in &args.records {
        terminal.print(&report::explain(&record(path)?, &terminal.style()))?;
    }
    Ok(status::MEASURED)
}

fn record(path: &Path) -> Result<Record, UsageError> {
    let usage = |why: String| UsageError(format!("{}: {why}", path.display()));
    let text = read(path).map_err(|error| usage(error.to_string()))?;
    Record::parse(&text).map_err(|error| usage(error.to_string()))
}

fn read(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(path)
}
