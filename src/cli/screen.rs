//! What is seen and saved while a run goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::analyse::stop;
use crate::model::record::{Level, Note, Record};
use crate::model::units::show_bytes;
use crate::session::{Hooks, Progress, Saver};

use super::output::Terminal;

/// The hooks of a run at the command line.
pub(super) struct Screen<'a> {
    terminal: &'a Terminal,
    saver: &'a Saver,
    stop: &'a AtomicBool,
    bar: ProgressBar,
    /// Notes that were said already.
    said: usize,
    /// Why the record is not saved as it is now.
    unsaved: Option<anyhow::Error>,
}

impl<'a> Screen<'a> {
    pub(super) fn new(
        terminal: &'a Terminal,
        saver: &'a Saver,
        stop: &'a AtomicBool,
        record: &Record,
    ) -> Screen<'a> {
        let bar = match terminal.shows_progress() {
            true => ProgressBar::new(record.run.budget_ns / 1_000_000),
            false => ProgressBar::hidden(),
        };
        // The template is a constant; a fault in it would show as the default style.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        let mut screen = Screen {
            terminal,
            saver,
            stop,
            bar,
            said: 0,
            unsaved: None,
        };
        screen.say(&record.notes);
        screen
    }

    /// Why the record could not be saved in the end.
    pub(super) fn unsaved(self) -> Option<anyhow::Error> {
        self.unsaved
    }

    fn say(&mut self, notes: &[Note]) {
        let new = notes.get(self.said..).unwrap_or_default();
        self.bar.suspend(|| {
            new.iter()
                .for_each(|note| self.terminal.say(note.level, &note.text))
        });
        self.said = notes.len();
    }
}

impl Hooks for Screen<'_> {
    fn before_slice(&mut self, progress: &Progress, record: &Record) {
        let spec = &record.cells[progress.cell].spec;
        let round = match progress.round {
            Some(round) => format!("round {}", round + 1),
            None => "warm-up".to_owned(),
        };
        let budget_s = record.run.budget_ns / 1_000_000_000;
        let left_s = budget_s.saturating_sub(progress.elapsed.as_secs());
        self.bar.set_position(progress.elapsed.as_millis() as u64);
        self.bar.set_message(format!(
            "{round}, at most {left_s} s left: {} {}",
            spec.role,
            show_bytes(spec.axes.size_bytes),
        ));
    }

    fn after_round(&mut self, record: &Record) -> anyhow::Result<()> {
        self.say(&record.notes);
        if record.run.ended.is_some() {
            self.bar.finish_and_clear();
        }
        // A full disk is no reason to throw away what was measured: it is printed all the same.
        let before = self.unsaved.take();
        self.unsaved = self.saver.save(record).err();
        if let (None, Some(error)) = (before, &self.unsaved) {
            let text = format!("{error:#}; measuring goes on");
            self.bar
                .suspend(|| self.terminal.say(Level::Warning, &text));
        }
        Ok(())
    }

    fn precise(&self, record: &Record) -> bool {
        stop::precise_enough(record, record.run.precision, record.run.min_rounds)
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
