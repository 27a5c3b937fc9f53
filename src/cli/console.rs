//! Where a run's results go: its record to files, its tables and warnings to the terminal.

use std::path::Path;

use crate::model::record::{Ended, Level, Record};
use crate::report;
use crate::scratch;
use crate::session::{RecordPath, Saver};
use crate::sys::limits;
use crate::sys::pulse;
use crate::sys::root::Root;

use super::output::Terminal;
use super::status;

/// What a record grows by with each slice, at least.
const SLICE_BYTES: u64 = 1 << 10;

/// Where a run's results go, from when all is prepared.
pub(super) struct Console<'a> {
    pub(super) root: &'a Root,
    state: Option<&'a Path>,
    pub(super) terminal: &'a Terminal,
    pub(super) saver: Saver,
    /// Warnings that were said before the first write.
    early: Vec<String>,
}

impl<'a> Console<'a> {
    /// Says what is known to be amiss before the time is spent.
    pub(super) fn open(
        root: &'a Root,
        state: Option<&'a Path>,
        json: Option<&Path>,
        record: &Record,
        terminal: &'a Terminal,
    ) -> anyhow::Result<Console<'a>> {
        // That is standard output, which gets it in the end.
        let json = json.filter(|path| *path != Path::new("-"));
        let early = report::warnings(record);
        say_warnings(terminal, early.iter());
        let slices = record.cells.len() as u64 * u64::from(record.run.min_rounds);
        if let Err(error) = limits::allow_file(slices * SLICE_BYTES) {
            let hint = limits::hint(&error);
            let text =
                format!("the record will not be kept, but its tables printed: {error}{hint}");
            terminal.say(Level::Warning, &text);
        }
        Ok(Console {
            root,
            state,
            terminal,
            saver: Saver::new(record_paths(json, state, record), record)?,
            early,
        })
    }

    /// Tells what a run measured, once all that it made is gone.
    pub(super) fn close(
        &self,
        record: &Record,
        measured: anyhow::Result<()>,
        unsaved: Option<anyhow::Error>,
    ) -> anyhow::Result<u8> {
        let terminal = self.terminal;
        // A reader of what is printed may take its time.
        pulse::rests();
        tell_own_leftovers(self.root, self.state, terminal);
        let refused = in_use(record, measured)?;
        // Where nothing can be printed, the record is all the more worth naming.
        let printed = terminal.print_record(record);
        let warnings = report::warnings(record);
        let late = warnings.iter().filter(|text| !self.early.contains(text));
        say_warnings(terminal, late);
        if unsaved.is_none() {
            self.tell_saved();
        }
        match refused.or(unsaved).or(printed.err().map(Into::into)) {
            Some(error) => Err(error),
            None => Ok(status_of(record)),
        }
    }

    fn tell_saved(&self) {
        for path in self.saver.paths() {
            let text = format!("the record is in {}", path.display());
            self.terminal.say(Level::Remark, &text);
        }
    }
}

/// That a device came into use is told last: what was measured before is worth printing.
fn in_use(record: &Record, measured: anyhow::Result<()>) -> anyhow::Result<Option<anyhow::Error>> {
    match measured {
        Err(error) if record.run.ended == Some(Ended::InUse) => Ok(Some(error)),
        other => other.map(|()| None),
    }
}

fn say_warnings<'a>(terminal: &Terminal, texts: impl Iterator<Item = &'a String>) {
    texts.for_each(|text| terminal.say(Level::Warning, text));
}

/// A filesystem that went read-only or away keeps this run's scratch folders, as do whoever renames them.
fn tell_own_leftovers(root: &Root, state: Option<&Path>, terminal: &Terminal) {
    for folder in scratch::own(root, state) {
        let text = format!(
            "cannot remove {}, or it was moved; run `syncprof clean` once it is there and its filesystem can \
             be written",
            folder.display()
        );
        terminal.say(Level::Warning, &text);
    }
}

fn record_paths(json: Option<&Path>, state: Option<&Path>, record: &Record) -> Vec<RecordPath> {
    if let Some(path) = json {
        return vec![RecordPath::Typed(path.to_owned())];
    }
    let when = jiff::Timestamp::now()
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string();
    let name = format!("{}-{when}-{}.json", record.run.verb, std::process::id());
    let own = state.map(|state| RecordPath::Own(state.join(name)));
    own.into_iter().collect()
}

/// What a record's run ends with.
fn status_of(record: &Record) -> u8 {
    let cells = record.cells.iter().any(|cell| cell.failed.is_some());
    let timelines = record.timelines.iter().any(|line| line.failed.is_some());
    let durability = record.durability.as_ref();
    let checked = durability.and_then(|durability| durability.checked.as_ref());
    let broken = checked.is_some_and(|checked| !checked.counts.is_kept());
    match record.run.ended {
        Some(Ended::Interrupted) => status::INTERRUPTED,
        Some(Ended::Changed) => status::FAILED,
        _ if cells || timelines || broken => status::FAILED,
        _ => status::MEASURED,
    }
}
