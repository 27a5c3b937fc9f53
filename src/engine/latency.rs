//! Known latency distributions, so that tests can hold what was measured against the truth.

/// What the null engine pretends to be: a device whose service times are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NullModel {
    /// How long one operation is served.
    pub latency: Distribution,
    /// How many operations of a lane are served at once; the others wait in the order of their
    /// submission. At least 1.
    pub servers: u32,
}

/// A distribution of times, all in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Uniform from `low` to `high`.
    Uniform {
        /// The least.
        low: f64,
        /// The most.
        high: f64,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// The exponential of a normal distribution.
    LogNormal {
        /// Its median.
        median: f64,
        /// Standard deviation of its natural logarithm.
        sigma: f64,
    },
}

impl Distribution {
    /// The time that a share `p` of all draws stays below, for `p` from 0 to 1.
    pub fn quantile(self, p: f64) -> f64 {
        match self {
            Distribution::Constant(ns) => ns,
            Distribution::Uniform { low, high } => low + p * (high - low),
            Distribution::Exponential { mean } => -mean * (-p).ln_1p(),
            Distribution::LogNormal { median, sigma } => {
                median * (sigma * normal_quantile(p)).exp()
            }
        }
    }

    /// The mean of all draws.
    pub fn mean(self) -> f64 {
        match self {
            Distribution::Constant(ns) => ns,
            Distribution::Uniform { low, high } => low.midpoint(high),
            Distribution::Exponential { mean } => mean,
            Distribution::LogNormal { median, sigma } => median * (sigma * sigma / 2.0).exp(),
        }
    }

    /// One draw, at least 1 ns so that a virtual clock always moves on.
    pub(super) fn draw_ns(self, rng: &mut fastrand::Rng) -> u64 {
        (self.quantile(rng.f64()).round() as u64).max(1)
    }
}

/// The quantile of the standard normal distribution, to about 1e-9 relative: P. J. Acklam's
/// rational approximation, "An algorithm for computing the inverse normal cumulative distribution
/// function" (2003).
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.38357751867269e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 5] = [
        7.784695709041462e-3,
        3.224671290700398e-1,
        2.445134137142996,
        3.754408661907416,
        1.0,
    ];
    const TAIL: f64 = 0.02425;
    let polynomial = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    if p <= 0.0 {
        f64::NEG_INFINITY
    } else if p >= 1.0 {
        f64::INFINITY
    } else if p < TAIL {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    } else if p > 1.0 - TAIL {
        let q = (-2.0 * (1.0 - p).ln()).sqrt();
        -polynomial(&C, q) / polynomial(&D, q)
    } else {
        let q = p - 0.5;
        polynomial(&A, q * q) * q / polynomial(&B, q * q)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_agree_with_tables() {
        for (p, z) in [
            (0.5, 0.0),
            (0.841_344_746_068_542_9, 1.0),
            (0.975, 1.959_963_984_540_054),
            (0.999, 3.090_232_306_167_813),
            (0.01, -2.326_347_874_040_841),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-8, "{p}");
        }
    }

    #[test]
    fn draws_have_the_stated_mean_and_quantiles() {
        for distribution in [
            Distribution::Constant(5e4),
            Distribution::Uniform {
                low: 1e4,
                high: 9e4,
            },
            Distribution::Exponential { mean: 5e4 },
            Distribution::LogNormal {
                median: 5e4,
                sigma: 0.5,
            },
        ] {
            let mut rng = fastrand::Rng::with_seed(1);
            let mut draws: Vec<u64> = (0..200_000)
                .map(|_| distribution.draw_ns(&mut rng))
                .collect();
            let mean = draws.iter().sum::<u64>() as f64 / draws.len() as f64;
            assert!(
                (mean / distribution.mean() - 1.0).abs() < 0.01,
                "{distribution:?}"
            );
            draws.sort_unstable();
            for p in [0.1, 0.5, 0.9, 0.99] {
                let drawn = draws[(p * draws.len() as f64) as usize] as f64;
                let stated = distribution.quantile(p);
                assert!(
                    (drawn / stated - 1.0).abs() < 0.03,
                    "{distribution:?} {p}: {drawn}"
                );
            }
        }
    }
}
