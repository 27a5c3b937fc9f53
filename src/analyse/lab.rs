//! The variants of a lab beside each other.

use serde::{Deserialize, Serialize};

use super::explain::{Kind, explanations};
use super::gap::{Gap, gaps};
use super::interval::Interval;
use crate::model::cell::{EngineKind, FileState, Method, Pattern, RingOptions};
use crate::model::record::{Cell, Record, Target};
use crate::model::variant::Side;

/// All variants under equal conditions but the size: one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// The conditions.
    #[serde(flatten)]
    pub question: Question,
    /// Bytes of a write, rising.
    pub sizes_bytes: Vec<u64>,
    /// The variants, the best first; those that were not measured last.
    pub rows: Vec<Row>,
}

/// All that decides a cell of a variant but its size, and its span, which is whole writes of that size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The state of the files' blocks.
    pub file_state: FileState,
    /// What makes a write synchronous.
    pub method: Method,
    /// O_DIRECT was asked for.
    pub direct: bool,
    /// Writes in flight for each job.
    pub queue_depth: u32,
    /// Threads.
    pub jobs: u32,
    /// Order of offsets.
    pub pattern: Pattern,
    /// What issues the writes.
    pub engine: EngineKind,
    /// Options of the io_uring engine.
    pub ring: RingOptions,
    /// Open-loop arrival rate of all jobs together; none: as fast as completions allow.
    pub rate_per_s: Option<f64>,
}

impl Question {
    /// What a cell answers; none of a device's.
    fn of(cell: &Cell) -> Option<Question> {
        let axes = &cell.spec.axes;
        Some(Question {
            file_state: cell.spec.file_state?,
            method: axes.method,
            direct: axes.direct,
            queue_depth: axes.queue_depth,
            jobs: axes.jobs,
            pattern: axes.pattern,
            engine: axes.engine,
            ring: axes.ring,
            rate_per_s: axes.rate_per_s,
        })
    }
}

/// One variant's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name.
    pub variant: String,
    /// The `id` of its target.
    pub target: String,
    /// Why it has no figures, or not all.
    pub failed: Option<String>,
    /// One for each size.
    pub figures: Vec<Figure>,
    /// Raw throughput over its own, a geometric mean over the sizes: what it is ranked by. None
    /// where a size is missing.
    pub ratio: Option<Interval>,
    /// Its interval and the best one's overlap: this run could see no difference.
    pub is_best: bool,
    /// Some of its writes were not made durable (an explanation says so that is a
    /// [`Kind::Danger`]), so that they are not what the others' are: it is no candidate for the best.
    pub is_undurable: bool,
}

/// What a variant did at one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Bytes per second through the filesystem.
    pub throughput_bytes_per_s: Option<f64>,
    /// Raw throughput over it, from paired rounds.
    pub throughput_ratio: Option<Interval>,
}

/// The rankings of a lab's record: one for each question that was measured, in their order.
pub fn rankings(record: &Record) -> Vec<Ranking> {
    let gaps = gaps(record);
    let dangers: Vec<String> = explanations(record)
        .into_iter()
        .filter(|explanation| explanation.kind == Kind::Danger)
        .flat_map(|explanation| explanation.cells)
        .collect();
    let mut questions: Vec<Question> = Vec::new();
    for question in record.cells.iter().filter_map(Question::of) {
        if !questions.contains(&question) {
            questions.push(question);
        }
    }
    let rank = |question| ranking(record, &gaps, &dangers, question);
    questions.into_iter().map(rank).collect()
}

fn ranking(record: &Record, gaps: &[Gap], dangers: &[String], question: Question) -> Ranking {
    let cells = || {
        let cells = record.cells.iter();
        cells.filter(move |cell| Question::of(cell) == Some(question))
    };
    let mut sizes_bytes: Vec<u64> = cells().map(|cell| cell.spec.axes.size_bytes).collect();
    sizes_bytes.sort_unstable();
    sizes_bytes.dedup();
    let figure = |target: &Target, size_bytes: u64| {
        let mut own = cells().filter(|cell| cell.spec.target == target.id);
        let cell = own.find(|cell| cell.spec.axes.size_bytes == size_bytes);
        cell.map_or_else(Figure::default, |cell| Figure {
            throughput_bytes_per_s: cell.throughput_bytes_per_s,
            throughput_ratio: gaps
                .iter()
                .find(|gap| gap.file_cell == cell.spec.id)
                .and_then(|gap| gap.throughput_ratio),
        })
    };
    let variants = record
        .targets
        .iter()
        .filter_map(|target| Some((target, target.variant.as_ref()?)));
    let mut rows: Vec<Row> = variants
        .map(|(target, variant)| {
            let figures: Vec<Figure> = sizes_bytes
                .iter()
                .map(|&size| figure(target, size))
                .collect();
            let failed_cell = || {
                cells()
                    .filter(|c| c.spec.target == target.id)
                    .find_map(|c| c.failed.clone())
            };
            Row {
                variant: variant.name.clone(),
                target: target.id.clone(),
                failed: variant.failed.clone().or_else(failed_cell),
                ratio: mean_ratio(&figures),
                figures,
                is_best: false,
                is_undurable: cells()
                    .filter(|cell| cell.spec.target == target.id)
                    .any(|cell| dangers.contains(&cell.spec.id)),
            }
        })
        .collect();
    let key = |row: &Row| row.ratio.map_or(f64::INFINITY, |ratio| ratio.value);
    rows.sort_by(|one, other| key(one).total_cmp(&key(other)));
    let best = rows.iter().find(|row| !row.is_undurable);
    if let Some(best) = best.and_then(|row| row.ratio) {
        for row in rows.iter_mut().filter(|row| !row.is_undurable) {
            row.is_best = row.ratio.is_some_and(|ratio| ratio.low <= best.high);
        }
    }
    Ranking {
        question,
        sizes_bytes,
        rows,
    }
}

/// The geometric mean of independent ratios. On the logarithm's scale their errors add as squares.
fn mean_ratio(figures: &[Figure]) -> Option<Interval> {
    let ratios: Vec<Interval> = figures
        .iter()
        .map(|figure| figure.throughput_ratio)
        .collect::<Option<_>>()?;
    let count = ratios.len() as f64;
    let mean = ratios.iter().map(|ratio| ratio.value.ln()).sum::<f64>() / count;
    let squares = |end: fn(&Interval) -> f64| {
        let square = |ratio: &Interval| (end(ratio).ln() - ratio.value.ln()).powi(2);
        ratios.iter().map(square).sum::<f64>().sqrt() / count
    };
    let (down, up) = (squares(|ratio| ratio.low), squares(|ratio| ratio.high));
    Interval::new(mean.exp(), (mean - down).exp(), (mean + up).exp())
}

/// A change that somebody recommends, as it turned out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// What is changed.
    pub name: String,
    /// Under which conditions: those without the change.
    pub question: Question,
    /// Bytes of a write.
    pub size_bytes: u64,
    /// The gain that is claimed, in percent of the throughput without the change.
    pub claimed_percent: f64,
    /// The gain in this run. Between variants, each is taken relative to the raw device in its own
    /// rounds, so that what drifts between them cancels.
    pub measured_percent: Option<Interval>,
}

/// What became of the remedies of a lab's profile, under all conditions that it was measured in, at each
/// size.
pub fn gains(record: &Record) -> Vec<Gain> {
    let rankings = rankings(record);
    let remedies = record.lab.iter().flat_map(|lab| &lab.remedies);
    let mut gains = Vec::new();
    for remedy in remedies {
        let is_from = |ranking: &&Ranking| ranking.question.file_state == remedy.from.state;
        for from in rankings.iter().filter(is_from) {
            // Nothing else differs between the two sides.
            let question = Question {
                file_state: remedy.to.state,
                ..from.question
            };
            let to = rankings.iter().find(|to| to.question == question);
            for &size_bytes in &from.sizes_bytes {
                let before = ratio_of(from, &remedy.from, size_bytes);
                let after = to.and_then(|to| ratio_of(to, &remedy.to, size_bytes));
                gains.push(Gain {
                    name: remedy.name.clone(),
                    question: from.question,
                    size_bytes,
                    claimed_percent: remedy.claimed_percent,
                    measured_percent: before
                        .zip(after)
                        .and_then(|(from, to)| gain_percent(from, to)),
                });
            }
        }
    }
    gains
}

fn ratio_of(ranking: &Ranking, side: &Side, size_bytes: u64) -> Option<Interval> {
    let mut sizes = ranking.sizes_bytes.iter();
    let at = sizes.position(|&size| size == size_bytes)?;
    let mut rows = ranking.rows.iter();
    let row = rows.find(|row| row.variant == side.variant)?;
    row.figures.get(at)?.throughput_ratio
}

/// From raw/without and raw/with to the gain of with over without.
fn gain_percent(from: Interval, to: Interval) -> Option<Interval> {
    let log = from.value.ln() - to.value.ln();
    let apart = |one: f64, other: f64| one.hypot(other);
    let down = apart(
        from.value.ln() - from.low.ln(),
        to.high.ln() - to.value.ln(),
    );
    let up = apart(
        from.high.ln() - from.value.ln(),
        to.value.ln() - to.low.ln(),
    );
    let percent = |log: f64| (log.exp() - 1.0) * 100.0;
    Interval::new(percent(log), percent(log - down), percent(log + up))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(value: f64, low: f64, high: f64) -> Interval {
        Interval { value, low, high }
    }

    fn figure(value: f64, spread: f64) -> Figure {
        Figure {
            throughput_bytes_per_s: None,
            throughput_ratio: Some(interval(value, value / spread, value * spread)),
        }
    }

    #[test]
    fn ratios_are_averaged_as_ratios_and_their_errors_shrink() {
        let mean = mean_ratio(&[figure(2.0, 1.1), figure(8.0, 1.1)]).unwrap();
        assert!((mean.value - 4.0).abs() < 1e-9);
        // Two equal errors give one by the square root of two smaller.
        let expected = 4.0 * (1.1_f64.ln() / 2.0_f64.sqrt()).exp();
        assert!((mean.high - expected).abs() < 1e-9, "{mean:?}");
        assert_eq!(mean_ratio(&[figure(2.0, 1.1), Figure::default()]), None);
    }

    #[test]
    fn a_gain_is_what_the_gap_shrinks_by() {
        let gain = gain_percent(interval(3.6, 3.4, 3.8), interval(2.0, 1.9, 2.1)).unwrap();
        assert!((gain.value - 80.0).abs() < 1e-9);
        assert!(
            gain.low > 65.0 && gain.low < 75.0 && gain.high > 85.0,
            "{gain:?}"
        );
    }
}
