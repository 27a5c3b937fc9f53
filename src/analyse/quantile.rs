//! Differences of latency quantiles from paired rounds.

use hdrhistogram::Histogram;

use super::interval::{Interval, MIN_ROUNDS, mean_and_error, reach};

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
/// So many operations are enough for their quantile at `share`: in a figure that has no interval, as in
/// one that has.
pub fn is_known(ops: u64, share: f64) -> bool {
    ops as f64 * share.min(1.0 - share) >= MIN_TAIL_OPS
}

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
/// `pooled_delta`, unless the rounds differ so much that the slowest decide the pooled quantile
/// alone; then drift is a worse enemy than bias, and the rounds' own differences are taken as long
/// as each round has an operation beyond the quantile.
///
/// None with fewer than three rounds, with fewer than 12 operations beyond the quantile, or
/// where the interval would reach past the longest latency seen. `super::tests` measure how often
/// the interval covers the truth.
pub fn quantile_delta(raw: &[Latencies], file: &[Latencies], share: f64) -> Option<Interval> {
    let tail = share.min(1.0 - share);
    let total = |rounds: &[Latencies]| rounds.iter().map(|round| round.count).sum::<u64>();
    let ops = total(raw).min(total(file));
    if raw.len() < MIN_ROUNDS || !is_known(ops, share) {
        return None;
    }
    let ops = ops as f64;
    let blocks = raw.len().min((ops * tail).sqrt() as usize);
    if blocks >= MIN_BLOCKS && ops / blocks as f64 >= MIN_BLOCK_OPS {
        return own_delta(&merged(raw, blocks), &merged(file, blocks), share);
    }
    let (raw_side, file_side) = (Side::new(raw, share)?, Side::new(file, share)?);
    if raw_side.drifts(share) && file_side.drifts(share) {
        let fewest = raw.iter().chain(file).map(|round| round.count).min()?;
        return (fewest as f64 * tail >= 1.0).then(|| own_delta(raw, file, share))?;
    }
    pooled_delta(&raw_side, &file_side, share)
}

/// Quantile at `share` of one cell's latencies, in nanoseconds, from rounds; none where
/// [`quantile_delta`] gives none. The same two estimates serve: the mean of blocks of rounds, or the
/// pooled quantile.
pub fn quantile(rounds: &[Latencies], share: f64) -> Option<Interval> {
    let tail = share.min(1.0 - share);
    let ops = rounds.iter().map(|round| round.count).sum::<u64>();
    if rounds.len() < MIN_ROUNDS || !is_known(ops, share) {
        return None;
    }
    let ops = ops as f64;
    let blocks = rounds.len().min((ops * tail).sqrt() as usize);
    if blocks >= MIN_BLOCKS && ops / blocks as f64 >= MIN_BLOCK_OPS {
        return own(&merged(rounds, blocks), share);
    }
    let side = Side::new(rounds, share)?;
    if side.drifts(share) {
        let fewest = rounds.iter().map(|round| round.count).min()?;
        return (fewest as f64 * tail >= 1.0).then(|| own(rounds, share))?;
    }
    let (down, up) = side.reaches(share)?;
    let blur = side.pooled.blur(share, side.value);
    Interval::new(side.value, side.value - down - blur, side.value + up + blur)
}

/// The mean of the rounds' own quantiles.
fn own(rounds: &[Latencies], share: f64) -> Option<Interval> {
    let values: Option<Vec<f64>> = rounds.iter().map(|round| round.quantile(share)).collect();
    let values = values?;
    let blurs = rounds.iter().zip(&values);
    let blurs: Vec<f64> = blurs
        .map(|(round, &value)| round.blur(share, value))
        .collect();
    let (mean, error) = mean_and_error(&values)?;
    let (blur, _) = mean_and_error(&blurs)?;
    let reach = reach(values.len(), error) + blur;
    Interval::new(mean, mean - reach, mean + reach)
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
    let reach = reach(deltas.len(), error) + blur;
    Interval::new(mean, mean - reach, mean + reach)
}

/// One side's rounds put together.
struct Side {
    pooled: Latencies,
    /// Its quantile.
    value: f64,
    /// How far each round moves the share of all operations that lies below `value`; their sum is
    /// zero.
    influence: Vec<f64>,
}

impl Side {
    fn new(rounds: &[Latencies], share: f64) -> Option<Side> {
        let pooled = Latencies::merge(rounds);
        let value = pooled.quantile(share)?;
        let influence = rounds
            .iter()
            .map(|round| (round.below(value) - share * round.count as f64) / pooled.count as f64)
            .collect();
        Some(Side {
            pooled,
            value,
            influence,
        })
    }

    /// The variance of the share below the quantile, from the differences between rounds.
    fn variance(&self) -> f64 {
        let n = self.influence.len() as f64;
        self.influence.iter().map(|part| part * part).sum::<f64>() * n / (n - 1.0)
    }

    /// The rounds differ by far more than chance.
    fn drifts(&self, share: f64) -> bool {
        self.variance() > DRIFT * share * (1.0 - share) / self.pooled.count as f64
    }

    /// How far the quantile's interval reaches down and up.
    fn reaches(&self, share: f64) -> Option<(f64, f64)> {
        let reach = reach(self.influence.len(), self.variance().sqrt());
        // Beyond the first and the last operation nothing is known.
        let total = self.pooled.count as f64;
        if (share - reach) * total < 1.0 || (1.0 - share - reach) * total < 1.0 {
            return None;
        }
        let low = self.pooled.quantile(share - reach)?;
        let high = self.pooled.quantile(share + reach)?;
        Some((self.value - low, high - self.value))
    }
}

/// The difference of the pooled rounds' quantiles. Each side's interval is Woodruff's (Journal of
/// the American Statistical Association 47, 1952): the share of operations below the quantile has
/// an error that is found from its differences between rounds, and the quantiles at both ends of
/// that share's interval are the ends of the quantile's. The two sides are put together by the
/// method of variance estimates recovery (Zou and Donner, Statistics in Medicine 27, 2008), with
/// the correlation that the rounds show, which is what common drift leaves.
fn pooled_delta(raw: &Side, file: &Side, share: f64) -> Option<Interval> {
    let (raw_down, raw_up) = raw.reaches(share)?;
    let (file_down, file_up) = file.reaches(share)?;
    let correlation = correlation(&raw.influence, &file.influence);
    // What drives one side down drives the other down as well, as far as they are correlated, and
    // up as far as they are not.
    let shared = correlation.max(0.0);
    let reach = |one: f64, against: f64, along: f64| {
        let other = against + shared * (along - against);
        let squares = one * one + other * other - 2.0 * correlation * one * other;
        squares.max(0.0).sqrt()
    };
    let delta = file.value - raw.value;
    let blur = f64::midpoint(
        raw.pooled.blur(share, raw.value),
        file.pooled.blur(share, file.value),
    );
    Interval::new(
        delta,
        delta - reach(file_down, raw_up, raw_down) - blur,
        delta + reach(file_up, raw_down, raw_up) + blur,
    )
}

fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let product: f64 = one.iter().zip(other).map(|(a, b)| a * b).sum();
    let squares = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>();
    let norm = (squares(one) * squares(other)).sqrt();
    if norm > 0.0 { product / norm } else { 0.0 }
}

#[cfg(test)]
impl Latencies {
    /// What a histogram of the shape of `like` would hold, without the cost of making one.
    pub(super) fn from_values(mut values: Vec<u64>, like: &Histogram<u64>) -> Latencies {
        values.sort_unstable();
        let mut buckets: Vec<Bucket> = Vec::new();
        for value in &values {
            match buckets.last_mut() {
                Some(bucket) if *value < bucket.high_ns => bucket.count += 1,
                _ => buckets.push(Bucket {
                    low_ns: like.lowest_equivalent(*value),
                    high_ns: like.next_non_equivalent(*value),
                    count: 1,
                }),
            }
        }
        Latencies {
            buckets,
            count: values.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample::latency_histogram;

    fn of(values: &[u64]) -> Latencies {
        Latencies::from_values(values.to_vec(), &latency_histogram())
    }

    #[test]
    fn a_histogram_and_its_values_give_the_same_latencies() {
        let values = [5, 70, 70, 2_000, 123_456, 123_457, 9_999_999];
        let mut histogram = latency_histogram();
        for value in values {
            histogram.record(value).unwrap();
        }
        assert_eq!(Latencies::of(&histogram), of(&values));
    }

    #[test]
    fn quantiles_of_known_values_are_exact_within_a_bucket() {
        let latencies = of(&(1..=1000).collect::<Vec<u64>>());
        for (share, expected) in [(0.5, 501.0), (0.99, 991.0), (0.999, 1000.0)] {
            let quantile = latencies.quantile(share).unwrap();
            assert!((quantile - expected).abs() <= 1.0, "{share}: {quantile}");
        }
        assert_eq!(Latencies::default().quantile(0.5), None);
    }

    #[test]
    fn counting_below_a_quantile_gives_back_its_share() {
        let latencies = of(&(0..500).map(|i| 10_000 + i * 37).collect::<Vec<u64>>());
        for share in [0.1, 0.5, 0.9] {
            let below = latencies.below(latencies.quantile(share).unwrap());
            assert!((below / 500.0 - share).abs() < 0.003, "{share}: {below}");
        }
    }

    #[test]
    fn one_bucket_gives_an_interval_of_its_width_and_no_narrower() {
        let rounds: Vec<Latencies> = (0..8).map(|_| of(&[1_000_000; 400])).collect();
        let interval = quantile_delta(&rounds, &rounds, 0.5).unwrap();
        let bucket = latency_histogram().equivalent_range(1_000_000) as f64;
        assert!(interval.value.abs() < 1e-9);
        assert!((interval.high - bucket).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn a_quantile_is_known_from_12_operations_beyond_it() {
        for (share, fewest) in [(0.5, 24), (0.99, 1200), (0.999, 12_000), (0.01, 1200)] {
            assert!(is_known(fewest, share), "{share}");
            assert!(!is_known(fewest - 1, share), "{share}");
        }
    }

    #[test]
    fn too_few_rounds_or_operations_give_nothing() {
        let many = of(&(1000..3000).collect::<Vec<u64>>());
        let two = vec![many.clone(); 2];
        assert_eq!(quantile_delta(&two, &two, 0.5), None);
        let five = vec![many; 5];
        assert!(quantile_delta(&five, &five, 0.99).is_some());
        assert_eq!(quantile_delta(&five, &five, 0.999), None, "10 beyond it");
        let empty = vec![Latencies::default(); 8];
        assert_eq!(quantile_delta(&empty, &empty, 0.5), None);
        assert_eq!(quantile_delta(&[], &[], 0.5), None);
    }
}
