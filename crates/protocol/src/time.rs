//! Time as it is written in the log: timestamps as RFC 3339 text in UTC, durations as whole milliseconds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The sequence number of a fact in its session's log, starting at 1 and without gaps. 0 means "before the first fact".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The next sequence number.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A duration in whole milliseconds, the unit of the log and the deciders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Converts whole seconds.
    pub fn from_secs(secs: u64) -> Self {
        Self(secs * 1000)
    }

    /// Converts to a standard duration.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// Subtracts another duration, saturating at zero.
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Millis {
    /// Writes the duration with two units at most: `850ms`, `4.2s`, `4m12s`, `1h05m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0 / 1000;
        match self.0 {
            0..1000 => write!(f, "{}ms", self.0),
            1000..60_000 => write!(f, "{}.{}s", secs, self.0 % 1000 / 100),
            60_000..3_600_000 => write!(f, "{}m{:02}s", secs / 60, secs % 60),
            _ => write!(f, "{}h{:02}m", secs / 3600, secs / 60 % 60),
        }
    }
}

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The time since `earlier`; zero if `earlier` is later, because a wall clock may step back.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z", ms % 1000)
    }
}

/// The error for a text that is not a timestamp in the log's format.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a timestamp of the form 2026-01-31T23:59:59.000Z")]
pub struct TimestampParseError(String);

impl FromStr for Timestamp {
    type Err = TimestampParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| TimestampParseError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    if !text.is_ascii() || text.len() != 24 {
        return None;
    }
    for (at, separator) in [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":"), (19, "."), (23, "Z")] {
        if text.get(at..=at)? != separator {
            return None;
        }
    }
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (h, m, s, ms) = (number(11..13)?, number(14..16)?, number(17..19)?, number(20..23)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || h > 23 || m > 59 || s > 60 {
        return None;
    }
    Some(Timestamp(
        days_from_civil(year, month, day) * 86_400_000 + h * 3_600_000 + m * 60_000 + s * 1000 + ms,
    ))
}

/// Days from 1970-01-01 to a Gregorian date (Howard Hinnant's algorithm: years start in March, so that the leap day is
/// the last day of a year).
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let y = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * y + y / 4 - y / 100 + y / 400 + day_of_year - 719_468
}

fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_survives_a_round_trip_across_leap_years_and_month_ends() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_794_736_572_123, "2026-11-15T09:56:12.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp(ms)));
        }
    }

    #[test]
    fn a_text_that_is_not_a_timestamp_is_rejected() {
        for text in
            ["", "now", "2026-13-01T00:00:00.000Z", "2026-11-15 09:56:12.123Z", "2026-11-15T09:56:12Z"]
        {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_displayed_in_a_short_form() {
        let shown = [850, 4_200, 252_000, 3_900_000].map(|ms| Millis(ms).to_string());
        assert_eq!(shown, ["850ms", "4.2s", "4m12s", "1h05m"]);
    }
}
