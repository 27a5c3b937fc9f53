//! What is seen and saved while claims are tried.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::analyse::steady::{last_window, tracked};
use crate::analyse::{stop, verdict};
use crate::model::claims::SteadyRound;
use crate::model::record::Record;
use crate::model::units::show_amount;
use crate::session::{Hooks, MAX_ROUNDS, Progress, Saver, Stage, Watch};

use super::output::Terminal;
use super::screen::Screen;

/// The watch of a run at the command line.
pub(super) struct Trying<'a> {
    screen: Screen<'a>,
    steady_round: Duration,
}

impl<'a> Trying<'a> {
    pub(super) fn new(
        terminal: &'a Terminal,
        saver: &'a Saver,
        stop: &'a AtomicBool,
        record: &Record,
        steady_round: Duration,
        rounds: Option<u32>,
    ) -> Trying<'a> {
        Trying {
            screen: Screen::new(terminal, saver, stop, record, rounds),
            steady_round,
        }
    }

    /// Why the record could not be saved in the end.
    pub(super) fn unsaved(self) -> Option<anyhow::Error> {
        self.screen.unsaved()
    }

    /// Shows that the device is being discarded.
    pub(super) fn purging(&self, done_bytes: u64) {
        let text = format!("purge: {} discarded", show_amount(done_bytes));
        self.screen.show(0.0, text);
    }
}

/// How much of a stage is done, and what it is with the time that is left.
fn words(stage: &Stage, steady_round: Duration) -> (f64, String) {
    match *stage {
        Stage::Fill {
            done_bytes,
            total_bytes,
            elapsed,
        } => {
            let share = done_bytes as f64 / total_bytes.max(1) as f64;
            let left = match done_bytes {
                0 => String::new(),
                _ => format!(", about {}", minutes(elapsed.div_f64(share) - elapsed)),
            };
            let done = show_amount(done_bytes);
            let text = format!(
                "preconditioning: {done} of {} written in order{left}",
                show_amount(total_bytes)
            );
            (share, text)
        }
        Stage::Steady {
            round,
            round_ns,
            done_ns,
        } => {
            let done = round as f64 + done_ns as f64 / round_ns.max(1) as f64;
            let left = steady_round.mul_f64((MAX_ROUNDS as f64 - done).max(0.0));
            let text = format!(
                "round {} of {MAX_ROUNDS} at most, until steady, at most {}",
                round + 1,
                minutes(left)
            );
            (done / MAX_ROUNDS as f64, text)
        }
    }
}

fn minutes(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..120 => format!("{seconds} s left"),
        seconds => format!("{} min left", seconds.div_ceil(60)),
    }
}

impl Watch for Trying<'_> {
    fn stage(&mut self, claims: &[usize], stage: &Stage) {
        let (share, text) = words(stage, self.steady_round);
        self.screen.show(share, format!("{}{text}", which(claims)));
    }

    fn before_slice(&mut self, _claims: &[usize], progress: &Progress, part: &Record) {
        self.screen.before_slice(progress, part);
    }

    fn save(&mut self, record: &Record) -> anyhow::Result<()> {
        self.screen.after_round(record)
    }

    fn precise(&self, claims: &[usize], part: &Record) -> bool {
        stop::precise_enough(part, part.run.precision, part.run.min_rounds)
            && verdict::are_known(part, claims, part.run.precision)
    }

    fn steady(&self, claims: &[usize], record: &Record, rounds: &[SteadyRound]) -> bool {
        let Some(validation) = &record.validation else {
            return false;
        };
        let claimed = claims
            .iter()
            .filter_map(|&at| validation.claims.claims.get(at));
        claimed
            .map(|claim| tracked(rounds, claim.bound.map(|bound| bound.figure)))
            .all(|values| last_window(&values).is_some_and(|window| window.is_steady))
    }

    fn interrupted(&self) -> bool {
        self.screen.interrupted()
    }
}

fn which(claims: &[usize]) -> String {
    let numbers: Vec<String> = claims.iter().map(|claim| (claim + 1).to_string()).collect();
    format!("claim {}: ", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_what_is_done() {
        let fill = |done_bytes, elapsed_s| Stage::Fill {
            done_bytes,
            total_bytes: 400 << 20,
            elapsed: Duration::from_secs(elapsed_s),
        };
        let minute = Duration::from_secs(60);
        let (share, text) = words(&fill(100 << 20, 30), minute);
        assert!((share - 0.25).abs() < 1e-9);
        assert!(text.ends_with("about 90 s left"), "{text}");
        let (_, text) = words(&fill(100 << 20, 300), minute);
        assert!(text.ends_with("about 15 min left"), "{text}");
        let (_, text) = words(&fill(0, 0), minute);
        assert!(!text.contains("left"), "{text}");
        let round = Stage::Steady {
            round: 5,
            round_ns: 60_000_000_000,
            done_ns: 0,
        };
        let (share, text) = words(&round, minute);
        assert!((share - 0.2).abs() < 1e-9);
        assert!(
            text.contains("round 6 of 25") && text.ends_with("20 min left"),
            "{text}"
        );
    }
}
