//! Units in which others count time since 1970, and which of them a bare number can be in.

use crate::Timestamp;
use std::fmt;
use std::str::FromStr;

/// First and last second, from 1973-03-03 to 2262, in which a number is a time in one unit only.
const SECONDS_PLAUSIBLE: std::ops::RangeInclusive<i64> = 100_000_000..=9_223_372_036;

/// What a number of time since 1970-01-01T00:00:00Z counts. As text: `s`, `ms`, `us`, `ns`.
///
/// ```
/// use tapedb_schema::TimeUnit;
/// let time = TimeUnit::Seconds.timestamp(1_381_156_202).unwrap();
/// assert_eq!(time.to_string(), "2013-10-07T14:30:02Z");
/// assert_eq!(TimeUnit::of(1_381_156_202), Some(TimeUnit::Seconds));
/// assert_eq!(TimeUnit::Millis.parse("1381156202000.5").unwrap().to_string(), "2013-10-07T14:30:02.000500Z");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl TimeUnit {
    /// All units, the longest first.
    pub const ALL: [Self; 4] = [Self::Seconds, Self::Millis, Self::Micros, Self::Nanos];

    /// Its nanoseconds.
    pub const fn nanos(self) -> i64 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Millis => 1_000_000,
            Self::Micros => 1_000,
            Self::Nanos => 1,
        }
    }

    /// `s`, `ms`, `us` or `ns`.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
        }
    }

    /// `seconds`, `milliseconds`, `microseconds` or `nanoseconds`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Millis => "milliseconds",
            Self::Micros => "microseconds",
            Self::Nanos => "nanoseconds",
        }
    }

    /// The unit in which a number is a time from March 1973 to April 2262; `None` if there is none. There is never more than
    /// one, for the ranges of the units do not meet.
    pub fn of(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.is_plausible(number))
    }

    /// Whether a number of this unit is a time from March 1973 to April 2262.
    pub fn is_plausible(self, number: i64) -> bool {
        let seconds = number / (Self::Seconds.nanos() / self.nanos());
        SECONDS_PLAUSIBLE.contains(&seconds) && self.timestamp(number).is_some()
    }

    /// The time so many units after 1970; `None` outside the range of a timestamp.
    pub const fn timestamp(self, number: i64) -> Option<Timestamp> {
        match number.checked_mul(self.nanos()) {
            Some(nanos) => Some(Timestamp(nanos)),
            None => None,
        }
    }

    /// The time of a number with or without a sign and a fraction, exactly; `None` for other texts, for what is finer than a
    /// nanosecond, and outside the range of a timestamp.
    pub fn parse(self, text: &str) -> Option<Timestamp> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let plain =
            |part: &str| (1..=20).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(whole) || !plain(fraction) {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let scaled = fraction.parse::<i128>().unwrap_or(0) * i128::from(self.nanos());
        let power = 10i128.pow(fraction.len() as u32);
        let nanos = whole.parse::<i128>().ok()? * i128::from(self.nanos()) + scaled / power;
        (scaled % power == 0).then(|| i64::try_from(sign * nanos).ok().map(Timestamp))?
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|unit| unit.symbol() == text);
        found.ok_or_else(|| format!("{text:?} is no unit of time; there are s, ms, us and ns"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_range_ends_where_none_begins() {
        for unit in TimeUnit::ALL {
            let per_second = TimeUnit::Seconds.nanos() / unit.nanos();
            let (first, last) = (100_000_000 * per_second, (9_223_372_037 - 1) * per_second);
            assert_eq!([first, last].map(TimeUnit::of), [Some(unit); 2], "{unit}");
            assert_eq!(TimeUnit::of(first - 1), None, "{unit}");
            assert!(unit.timestamp(first).is_some() && unit.timestamp(last).is_some(), "{unit}");
        }
        let none = [0, -1, 99_999_999, 9_223_372_037, 10_000_000_000, i64::MIN, -1_381_156_202];
        assert_eq!(none.map(TimeUnit::of), [None; 7]);
        assert_eq!(TimeUnit::of(i64::MAX), Some(TimeUnit::Nanos));
        assert_eq!(TimeUnit::of(9_223_372_036_999), None, "beyond the last timestamp");
    }

    #[test]
    fn texts_are_read_exactly() {
        let shown = |unit: TimeUnit, text| unit.parse(text).map(|time| time.to_string());
        assert_eq!(
            shown(TimeUnit::Seconds, "1381156202.123456789").unwrap(),
            "2013-10-07T14:30:02.123456789Z"
        );
        assert_eq!(
            shown(TimeUnit::Micros, "1381156202000001.500").unwrap(),
            "2013-10-07T14:30:02.000001500Z"
        );
        assert_eq!(shown(TimeUnit::Seconds, "-1.5").unwrap(), "1969-12-31T23:59:58.500Z");
        assert_eq!(shown(TimeUnit::Nanos, "-9223372036854775808").unwrap(), Timestamp::MIN.to_string());
        for text in ["", "-", ".5", "1.", "1e9", "+1", " 1", "1.0000000001", "9223372037", "1_0", "--1"] {
            assert_eq!(TimeUnit::Seconds.parse(text), None, "{text}");
        }
        assert_eq!(TimeUnit::Nanos.parse("0.5"), None);
        assert_eq!("us".parse(), Ok(TimeUnit::Micros));
        assert!("h".parse::<TimeUnit>().unwrap_err().contains("s, ms, us and ns"));
    }

    proptest! {
        #[test]
        fn a_found_unit_is_never_ambiguous(number in any::<i64>()) {
            let found: Vec<_> = TimeUnit::ALL.into_iter().filter(|unit| unit.is_plausible(number)).collect();
            prop_assert!(found.len() <= 1);
            if let Some(unit) = found.first() {
                prop_assert!(unit.timestamp(number).unwrap().date().0 >= 1973);
            }
        }
    }
}
