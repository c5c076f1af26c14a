//! Statistics for comparing teams: confidence intervals, and whether a difference can be chance.

/// The normal quantile for a two-sided level of 5 %.
const Z95: f64 = 1.96;

/// The normal quantile for a power of 80 %.
const Z80: f64 = 0.84;

/// A share of right answers with its 95 % Wilson interval, all between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The share.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The share of `right` among `all`; None if `all` is 0.
pub fn share(right: u64, all: u64) -> Option<Share> {
    if all == 0 {
        return None;
    }
    let (n, p) = (all as f64, right as f64 / all as f64);
    let z2 = Z95 * Z95;
    let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z95 / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    Some(Share { value: p, low: (middle - half).max(0.0), high: (middle + half).min(1.0) })
}

/// How two ways of answering the same tasks compare.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The number of pairs that only the first got right.
    pub only_first: u64,
    /// The number of pairs that only the second got right.
    pub only_second: u64,
    /// The number of all pairs.
    pub pairs: u64,
}

impl Comparison {
    /// Adds one pair.
    pub fn add(&mut self, first: bool, second: bool) {
        self.pairs += 1;
        self.only_first += u64::from(first && !second);
        self.only_second += u64::from(second && !first);
    }

    /// The p-value of `McNemar`'s exact two-sided test.
    pub fn p_value(&self) -> f64 {
        let n = self.only_first + self.only_second;
        let fewer = self.only_first.min(self.only_second);
        if n == 0 {
            return 1.0;
        }
        // Logarithms are used so that large numbers do not overflow.
        let half = -(n as f64) * std::f64::consts::LN_2;
        let (mut log_choose, mut sum) = (0.0, 0.0);
        for k in 0..=fewer {
            sum += (log_choose + half).exp();
            log_choose += ((n - k) as f64).ln() - ((k + 1) as f64).ln();
        }
        (2.0 * sum).min(1.0)
    }

    /// How many tasks show a difference of this size with a power of 80 %; None if there is no difference.
    pub fn tasks_needed(&self) -> Option<u64> {
        let pairs = self.pairs as f64;
        let discordant = (self.only_first + self.only_second) as f64 / pairs;
        let difference = (self.only_first as f64 - self.only_second as f64).abs() / pairs;
        (self.pairs > 0 && difference > 0.0).then(|| tasks_needed(discordant, difference))
    }
}

/// How many tasks show this difference with a power of 80 % at a level of 5 %, if the share `discordant` of them is
/// answered differently.
pub fn tasks_needed(discordant: f64, difference: f64) -> u64 {
    let spread = (discordant - difference * difference).max(0.0).sqrt();
    let root = Z95 * discordant.sqrt() + Z80 * spread;
    ((root / difference).powi(2)).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_share_is_wilsons() {
        let eight = share(8, 10).unwrap();
        assert!((eight.low - 0.490).abs() < 0.001 && (eight.high - 0.943).abs() < 0.001, "{eight:?}");
        let all = share(10, 10).unwrap();
        assert!((all.low - 0.722).abs() < 0.001 && all.high > 0.999, "{all:?}");
        assert_eq!(share(0, 0), None);
    }

    #[test]
    fn mcnemars_test_is_exact() {
        let compared = |only_first, only_second| Comparison { only_first, only_second, pairs: 100 }.p_value();
        assert!((compared(0, 0) - 1.0).abs() < 1e-12);
        assert!((compared(5, 5) - 1.0).abs() < 1e-12);
        // 2 · (1 + 8) / 256
        assert!((compared(1, 7) - 0.070_312_5).abs() < 1e-9);
        assert!((compared(0, 6) - 0.031_25).abs() < 1e-9);
        assert!(compared(1000, 1400) < 1e-10);
    }

    #[test]
    fn two_points_at_eight_percent_of_discordant_pairs_need_about_1600_tasks() {
        assert!((1500..1650).contains(&tasks_needed(0.08, 0.02)), "{}", tasks_needed(0.08, 0.02));
        let mut compared = Comparison::default();
        for pair in 0..100 {
            compared.add(pair % 25 != 0, pair % 10 != 0);
        }
        assert_eq!((compared.only_first, compared.only_second), (8, 2));
        assert!(compared.tasks_needed().is_some_and(|tasks| tasks > 100));
    }
}
