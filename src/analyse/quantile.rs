//! Differences of latency quantiles from paired rounds.

use hdrhistogram::Histogram;

use super::interval::{Interval, MIN_ROUNDS, mean_and_error, student_t};

/// One round's latencies of one cell, as a histogram keeps them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Ascending, without gaps in meaning: latencies within [`Bucket::low_ns`] to
    /// [`Bucket::high_ns`] are not told apart.
    buckets: Vec<Bucket>,
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    low_ns: u64,
    /// The first latency of the next bucket.
    high_ns: u64,
    count: u64,
}

impl Bucket {
    fn width(&self) -> f64 {
        (self.high_ns - self.low_ns) as f64
    }
}

impl Latencies {
    /// What a histogram holds.
    pub fn of(histogram: &Histogram<u64>) -> Latencies {
        let buckets: Vec<Bucket> = histogram
            .iter_recorded()
            .map(|step| {
                let value = step.value_iterated_to();
                Bucket {
                    low_ns: histogram.lowest_equivalent(value),
                    high_ns: histogram.next_non_equivalent(value),
                    count: step.count_at_value(),
                }
            })
            .collect();
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        Latencies { buckets, count }
    }

    /// TEMP
    pub fn from_values(values: &mut Vec<u64>, like: &Histogram<u64>) -> Latencies {
        values.sort_unstable();
        let mut buckets: Vec<Bucket> = Vec::new();
        for &v in values.iter() {
            match buckets.last_mut() {
                Some(b) if v < b.high_ns => b.count += 1,
                _ => buckets.push(Bucket {
                    low_ns: like.lowest_equivalent(v),
                    high_ns: like.next_non_equivalent(v),
                    count: 1,
                }),
            }
        }
        Latencies {
            buckets,
            count: values.len() as u64,
        }
    }

    /// Both together.
    pub fn merge<'a>(parts: impl IntoIterator<Item = &'a Latencies>) -> Latencies {
        let mut buckets: Vec<Bucket> = parts
            .into_iter()
            .flat_map(|part| part.buckets.clone())
            .collect();
        buckets.sort_by_key(|bucket| bucket.low_ns);
        buckets.dedup_by(|next, kept| {
            let same = next.low_ns == kept.low_ns;
            if same {
                kept.count += next.count;
            }
            same
        });
        let count = buckets.iter().map(|bucket| bucket.count).sum();
        Latencies { buckets, count }
    }

    /// The latency below which `share` of the operations lie. Operations of one bucket are taken
    /// as spread evenly within it, and each as the middle of its step of the distribution (Hazen's
    /// definition, R's type 5), which has next to no bias in a tail that falls exponentially.
    /// None where there is no operation.
    fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let rank = (share * self.count as f64 - 0.5).clamp(0.0, last as f64);
        let (low, high) = (
            self.ranked(rank.floor() as u64)?,
            self.ranked(rank.ceil() as u64)?,
        );
        Some(low + rank.fract() * (high - low))
    }

    /// The operation with so many faster ones.
    fn ranked(&self, rank: u64) -> Option<f64> {
        let mut below = 0;
        self.buckets.iter().find_map(|bucket| {
            below += bucket.count;
            (rank < below).then(|| {
                let within = (rank + bucket.count - below) as f64 + 0.5;
                bucket.low_ns as f64 + within / bucket.count as f64 * bucket.width()
            })
        })
    }

    /// How far the true quantile may be from [`Latencies::quantile`] because a bucket does not tell
    /// its latencies apart: all of the bucket where it holds one side of the quantile alone, and
    /// next to nothing where the latencies spread over many buckets.
    fn blur(&self, share: f64, quantile: f64) -> f64 {
        let at = self
            .buckets
            .partition_point(|bucket| (bucket.high_ns as f64) <= quantile);
        self.buckets.get(at).map_or(0.0, |bucket| {
            let held = bucket.count as f64 / self.count as f64;
            bucket.width() * (held / (2.0 * share.min(1.0 - share))).min(1.0)
        })
    }

    /// Operations below `latency_ns`, spread evenly within a bucket.
    fn below(&self, latency_ns: f64) -> f64 {
        let end = self
            .buckets
            .partition_point(|bucket| (bucket.high_ns as f64) <= latency_ns);
        let whole: u64 = self.buckets[..end].iter().map(|bucket| bucket.count).sum();
        let part = self.buckets.get(end).map_or(0.0, |bucket| {
            let within = (latency_ns - bucket.low_ns as f64) / bucket.width();
            within.clamp(0.0, 1.0) * bucket.count as f64
        });
        whole as f64 + part
    }
}

/// Fewest operations beyond a quantile, over all rounds, for which it is given at all. With 12, the
/// interval ends before the last operation nearly always, so that being given says little about how
/// lucky the estimate is.
const MIN_TAIL_OPS: f64 = 12.0;
/// Fewest blocks for which a block's own quantile is used without need.
const MIN_BLOCKS: usize = 8;
/// Fewest operations in a block for the same.
const MIN_BLOCK_OPS: f64 = 200.0;
/// The rounds differ by more than chance alone would have it if the variance between them is so many
/// times what independent operations would give. With 8 rounds, chance does that once in 5000 times.
const DRIFT: f64 = 4.0;

/// Quantile at `share` of the file side's latencies minus that of the raw side's, in nanoseconds,
/// from paired rounds.
///
/// Two estimates, each good where the other is not. With many operations: the mean of the rounds'
/// own differences with Student's t, in which drift that is common to both sides of a round
/// cancels. A round's own quantile has a bias that falls with its operations n as 1/n while the
/// mean's error falls as the root of all operations, so neighbouring rounds are put together to
/// blocks until there are no more blocks than operations beyond the quantile in each. Where that
/// leaves too few blocks or operations: the difference of the pooled quantiles, see
/// [`pooled_delta`], unless the rounds differ so much that the slowest decide the pooled quantile
/// alone; then drift is a worse enemy than bias, and the rounds' own differences are taken as long
/// as each round has an operation beyond the quantile.
///
/// None with fewer than three rounds, with fewer than 12 operations beyond the quantile, or
/// where the interval would reach past the longest latency seen. `super::tests` measure how often
/// the interval covers the truth.
pub fn quantile_delta(raw: &[Latencies], file: &[Latencies], share: f64) -> Option<Interval> {
    let tail = share.min(1.0 - share);
    let total = |rounds: &[Latencies]| rounds.iter().map(|round| round.count).sum::<u64>() as f64;
    let ops = total(raw).min(total(file));
    if raw.len() < MIN_ROUNDS || ops * tail < MIN_TAIL_OPS {
        return None;
    }
    let blocks = raw.len().min((ops * tail).sqrt() as usize);
    if blocks >= MIN_BLOCKS && ops / blocks as f64 >= MIN_BLOCK_OPS {
        return own_delta(&merged(raw, blocks), &merged(file, blocks), share);
    }
    if drifts(raw, share)? && drifts(file, share)? {
        let fewest = raw.iter().chain(file).map(|round| round.count).min()?;
        return (fewest as f64 * tail >= 1.0).then(|| own_delta(raw, file, share))?;
    }
    pooled_delta(raw, file, share)
}

/// Neighbouring rounds put together to so many blocks of nearly equal length.
fn merged(rounds: &[Latencies], blocks: usize) -> Vec<Latencies> {
    (0..blocks)
        .map(|block| {
            let start = block * rounds.len() / blocks;
            let end = (block + 1) * rounds.len() / blocks;
            Latencies::merge(&rounds[start..end])
        })
        .collect()
}

/// The rounds' shares below the pooled quantile differ by far more than chance.
fn drifts(rounds: &[Latencies], share: f64) -> Option<bool> {
    let pooled = Latencies::merge(rounds);
    let influence = influence(rounds, &pooled, pooled.quantile(share)?, share);
    let by_chance = share * (1.0 - share) / pooled.count as f64;
    Some(variance(&influence) > DRIFT * by_chance)
}

/// How far each round moves the share of all operations that lies below `value`.
fn influence(rounds: &[Latencies], pooled: &Latencies, value: f64, share: f64) -> Vec<f64> {
    rounds
        .iter()
        .map(|round| (round.below(value) - share * round.count as f64) / pooled.count as f64)
        .collect()
}

/// The variance of the sum of the rounds' influences, whose mean is zero by definition.
fn variance(influence: &[f64]) -> f64 {
    let n = influence.len() as f64;
    influence.iter().map(|part| part * part).sum::<f64>() * n / (n - 1.0)
}

fn own_delta(raw: &[Latencies], file: &[Latencies], share: f64) -> Option<Interval> {
    let mut deltas = Vec::new();
    let mut blurs = Vec::new();
    for (raw, file) in raw.iter().zip(file) {
        let (raw_ns, file_ns) = (raw.quantile(share)?, file.quantile(share)?);
        deltas.push(file_ns - raw_ns);
        blurs.push(f64::midpoint(
            raw.blur(share, raw_ns),
            file.blur(share, file_ns),
        ));
    }
    let (mean, error) = mean_and_error(&deltas)?;
    let (blur, _) = mean_and_error(&blurs)?;
    let reach = student_t(deltas.len() - 1) * error + blur;
    Interval::new(mean, mean - reach, mean + reach)
}

/// One side's pooled quantile, how far its interval reaches down and up, and what each round
/// contributes to its error.
struct Side {
    value: f64,
    down: f64,
    up: f64,
    influence: Vec<f64>,
    blur: f64,
}

/// The difference of the pooled rounds' quantiles. Each side's interval is Woodruff's (Journal of
/// the American Statistical Association 47, 1952): the share of operations below the quantile has
/// an error that is found from its differences between rounds, and the quantiles at both ends of
/// that share's interval are the ends of the quantile's. The two sides are put together by the
/// method of variance estimates recovery (Zou and Donner, Statistics in Medicine 27, 2008), with
/// the correlation that the rounds show, which is what common drift leaves.
fn pooled_delta(raw: &[Latencies], file: &[Latencies], share: f64) -> Option<Interval> {
    let (raw, file) = (side(raw, share)?, side(file, share)?);
    let correlation = correlation(&raw.influence, &file.influence);
    // What drives one side down drives the other down as well, as far as they are correlated, and
    // up as far as they are not.
    let shared = correlation.max(0.0);
    let reach = |one: f64, against: f64, along: f64| {
        let other = against + shared * (along - against);
        (one * one + other * other - 2.0 * correlation * one * other)
            .max(0.0)
            .sqrt()
    };
    let delta = file.value - raw.value;
    let blur = f64::midpoint(raw.blur, file.blur);
    Interval::new(
        delta,
        delta - reach(file.down, raw.up, raw.down) - blur,
        delta + reach(file.up, raw.down, raw.up) + blur,
    )
}

fn side(rounds: &[Latencies], share: f64) -> Option<Side> {
    let pooled = Latencies::merge(rounds);
    let value = pooled.quantile(share)?;
    let total = pooled.count as f64;
    let influence = influence(rounds, &pooled, value, share);
    let reach = student_t(rounds.len() - 1) * variance(&influence).sqrt();
    // Beyond the first and the last operation nothing is known.
    if (share - reach) * total < 1.0 || (1.0 - share - reach) * total < 1.0 {
        return None;
    }
    Some(Side {
        value,
        down: value - pooled.quantile(share - reach)?,
        up: pooled.quantile(share + reach)? - value,
        influence,
        blur: pooled.blur(share, value),
    })
}

fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let product: f64 = one.iter().zip(other).map(|(a, b)| a * b).sum();
    let squares = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>();
    let norm = (squares(one) * squares(other)).sqrt();
    if norm > 0.0 { product / norm } else { 0.0 }
}
