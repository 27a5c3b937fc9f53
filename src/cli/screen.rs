//! What is seen and saved while a run goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::analyse::stop;
use crate::model::record::{Level, Record, Run};
use crate::model::units::show_bytes;
use crate::report;
use crate::session::{Hooks, Progress, Saver, TimelineProgress, TimelineWatch};

use super::output::{Terminal, one_line};

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// The hooks of a run at the command line.
pub(super) struct Screen<'a> {
    terminal: &'a Terminal,
    saver: &'a Saver,
    stop: &'a AtomicBool,
    bar: ProgressBar,
    /// Just so many rounds are made, whatever the budget.
    rounds: Option<u32>,
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
        rounds: Option<u32>,
    ) -> Screen<'a> {
        let bar = match terminal.shows_progress() {
            true => ProgressBar::new(STEPS),
            false => ProgressBar::hidden(),
        };
        // Also where the run ends by an error.
        let bar = bar.with_finish(ProgressFinish::AndClear);
        // The template is a constant; a fault in it would show as the default style.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        let mut screen = Screen {
            terminal,
            saver,
            stop,
            bar,
            rounds,
            said: 0,
            unsaved: None,
        };
        screen.say(record);
        screen
    }

    /// Why the record could not be saved in the end.
    pub(super) fn unsaved(self) -> Option<anyhow::Error> {
        self.unsaved
    }

    /// Shows how much of something is done, and what.
    pub(super) fn show(&self, share: f64, text: String) {
        self.bar.set_position((share * STEPS as f64) as u64);
        self.bar.set_message(text);
    }

    /// Says what is new in the record, and saves it.
    fn publish(&mut self, record: &Record) {
        self.say(record);
        if record.run.ended.is_some() {
            self.bar.finish_and_clear();
        }
        // A full disk is no reason to throw away what was measured: it is printed all the same.
        let before = self.unsaved.take();
        self.unsaved = self.saver.save(record).err();
        if let (None, Some(error)) = (before, &self.unsaved) {
            let text = format!("{}; measuring goes on", one_line(error));
            self.bar
                .suspend(|| self.terminal.say(Level::Warning, &text));
        }
    }

    fn say(&mut self, record: &Record) {
        let new = record.notes.get(self.said..).unwrap_or_default();
        self.bar.suspend(|| {
            for note in new {
                self.terminal
                    .say(note.level, &report::note_text(record, note));
            }
        });
        self.said = record.notes.len();
    }
}

/// How much of a run is done, at least, and the time that is left, at most: by the time that rounds
/// took where their number decides, else by the budget.
fn left(progress: &Progress, run: &Run, rounds: Option<u32>) -> (f64, Option<Duration>) {
    let done = progress.round.unwrap_or(0);
    let by_rounds = |wanted: u32| {
        let share = f64::from(done) / f64::from(wanted.max(1));
        let total = (done > 0).then(|| progress.elapsed.div_f64(share));
        (
            share,
            total.map(|total| total.saturating_sub(progress.elapsed)),
        )
    };
    let budget = Duration::from_nanos(run.budget_ns);
    match rounds {
        Some(wanted) => by_rounds(wanted),
        None if progress.elapsed >= budget => by_rounds(run.min_rounds.max(done + 1)),
        None => {
            let share = progress.elapsed.as_secs_f64() / budget.as_secs_f64();
            (share, Some(budget - progress.elapsed))
        }
    }
}

impl Hooks for Screen<'_> {
    fn before_slice(&mut self, progress: &Progress, record: &Record) {
        let spec = &record.cells[progress.cell].spec;
        let round = match progress.round {
            Some(round) => format!("round {}", round + 1),
            None => "warm-up".to_owned(),
        };
        let (share, left) = left(progress, &record.run, self.rounds);
        let left = left.map_or_else(String::new, |left| match self.rounds {
            Some(_) => format!(", about {} s left", left.as_secs()),
            None => format!(", at most {} s left", left.as_secs()),
        });
        let size = show_bytes(spec.axes.size_bytes);
        self.show(share, format!("{round}{left}: {} {size}", spec.role));
    }

    fn after_round(&mut self, record: &Record) -> anyhow::Result<()> {
        self.publish(record);
        Ok(())
    }

    fn precise(&self, record: &Record) -> bool {
        stop::precise_enough(record, record.run.precision, record.run.min_rounds)
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl TimelineWatch for Screen<'_> {
    fn tick(&mut self, progress: &TimelineProgress<'_>) {
        self.bar
            .set_position((progress.share * STEPS as f64) as u64);
        self.bar.set_message(format!(
            "about {} s left: {}",
            progress.left.as_secs(),
            progress.what
        ));
    }

    fn after_stretch(&mut self, record: &Record) -> anyhow::Result<()> {
        self.publish(record);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::Builder;

    fn at(round: Option<u32>, elapsed_s: u64, rounds: Option<u32>) -> (f64, Option<u64>) {
        let progress = Progress {
            round,
            cell: 0,
            elapsed: Duration::from_secs(elapsed_s),
        };
        // A budget of 60 s and at least 8 rounds.
        let record = Builder::new("raw").record;
        let (share, left) = left(&progress, &record.run, rounds);
        (share, left.map(|left| left.as_secs()))
    }

    #[test]
    fn the_time_left_is_that_of_what_ends_the_run() {
        assert_eq!(at(Some(3), 15, None), (0.25, Some(45)));
        assert_eq!(at(Some(5), 10, Some(20)), (0.25, Some(30)));
        assert_eq!(at(None, 1, Some(20)), (0.0, None));
        assert_eq!(at(Some(6), 90, None), (0.75, Some(30)), "8 rounds are made");
        assert_eq!(at(Some(9), 90, None), (0.9, Some(10)), "one more is due");
    }
}
