//! How wide a bucket is: an `INTERVAL`, or a text such as `5 minutes` or `1h30m`.

use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// How wide a bucket is; larger than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Months, which differ in length.
    Months(i32),
    /// Nanoseconds of a local clock, on which each day has 24 hours.
    Nanos(i64),
}

/// A unit: its length, and its names; of names of one letter the case counts.
const UNITS: &[(Width, &[&str])] = &[
    (Width::Nanos(1), &["ns", "nanosecond", "nanoseconds"]),
    (Width::Nanos(1_000), &["us", "µs", "U", "microsecond", "microseconds"]),
    (Width::Nanos(1_000_000), &["ms", "T", "millisecond", "milliseconds"]),
    (Width::Nanos(SECOND), &["s", "sec", "secs", "second", "seconds"]),
    (Width::Nanos(60 * SECOND), &["m", "min", "mins", "minute", "minutes"]),
    (Width::Nanos(3_600 * SECOND), &["h", "hr", "hrs", "hour", "hours"]),
    (Width::Nanos(DAY), &["d", "day", "days"]),
    (Width::Nanos(7 * DAY), &["w", "week", "weeks"]),
    (Width::Months(1), &["M", "mo", "mon", "month", "months"]),
    (Width::Months(3), &["quarter", "quarters"]),
    (Width::Months(12), &["y", "yr", "year", "years"]),
];

impl Width {
    /// The width that a constant states; `None`: it is null.
    ///
    /// # Errors
    /// When it states none.
    pub fn of(value: &ScalarValue) -> Result<Option<Self>> {
        if value.is_null() {
            return Ok(None);
        }
        if let Some(Some(text)) = value.try_as_str() {
            return Self::parse(text).map(Some);
        }
        match value {
            ScalarValue::IntervalMonthDayNano(Some(interval)) => Self::of_interval(*interval).map(Some),
            other => {
                plan_err!("the width of a bucket is an interval, such as INTERVAL '5 minutes', not {other}")
            }
        }
    }

    fn of_interval(interval: IntervalMonthDayNano) -> Result<Self> {
        let IntervalMonthDayNano { months, days, nanoseconds } = interval;
        let nanos = i64::from(days).checked_mul(DAY).and_then(|days| days.checked_add(nanoseconds));
        Self::of_sum(i64::from(months), nanos)
    }

    fn of_sum(months: i64, nanos: Option<i64>) -> Result<Self> {
        match (i32::try_from(months), nanos) {
            (Ok(months @ 1..), Some(0)) => Ok(Self::Months(months)),
            (Ok(0), Some(nanos @ 1..)) => Ok(Self::Nanos(nanos)),
            (Ok(1..), Some(1..)) => {
                plan_err!(
                    "a bucket is either some months wide or some days, hours and less: months differ in length"
                )
            }
            (Err(_), _) | (_, None) => {
                plan_err!("the width of a bucket is too large; it is 292 years at most")
            }
            _ => plan_err!("the width of a bucket must be larger than 0"),
        }
    }

    /// The width of a text: numbers with units, such as `1h30m`.
    fn parse(text: &str) -> Result<Self> {
        let mut rest = text.trim();
        let (mut months, mut nanos) = (0i64, Some(0i64));
        while !rest.is_empty() {
            let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            let (number, behind) = rest.split_at(digits);
            let behind = behind.trim_start();
            let letters = behind.find(|letter: char| !letter.is_alphabetic()).unwrap_or(behind.len());
            let (unit, behind) = behind.split_at(letters);
            rest = behind.trim_start_matches([' ', ',']);
            // The unit alone is one of it.
            let number = if number.is_empty() { Ok(1) } else { number.parse::<i64>() };
            let (Ok(number), Some(unit)) = (number, unit_of(unit)) else {
                return plan_err!(
                    "{text:?} is no width of a bucket; write for example '5 minutes', '1h30m', '1d' or '1 month'"
                );
            };
            match unit {
                Self::Months(each) => months = months.saturating_add(number.saturating_mul(each.into())),
                Self::Nanos(each) => {
                    nanos = number.checked_mul(each).and_then(|more| nanos?.checked_add(more));
                }
            }
        }
        Self::of_sum(months, nanos)
    }

    /// Whether it is days, weeks, months or years.
    pub fn is_days(self) -> bool {
        match self {
            Self::Months(_) => true,
            Self::Nanos(nanos) => nanos % DAY == 0,
        }
    }
}

fn unit_of(name: &str) -> Option<Width> {
    let is_named = |known: &str| match known.len() {
        1 => {
            known == name
                || (known.eq_ignore_ascii_case(name) && !matches!(name, "M" | "T" | "U" | "m" | "t" | "u"))
        }
        _ => known.eq_ignore_ascii_case(name),
    };
    UNITS.iter().find(|(_, names)| names.iter().any(|known| is_named(known))).map(|(width, _)| *width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(text: &str) -> Result<Width, String> {
        Width::parse(text).map_err(|error| error.strip_backtrace())
    }

    #[test]
    fn texts_are_widths() {
        for (text, nanos) in [
            ("5 minutes", 300 * SECOND),
            ("1m", 60 * SECOND),
            ("1h30m", 5_400 * SECOND),
            ("hour", 3_600 * SECOND),
            ("2 Days, 1 hour", 2 * DAY + 3_600 * SECOND),
            ("1w", 7 * DAY),
            ("250ms", 250_000_000),
            ("100T", 100_000_000),
            ("7 ns", 7),
            ("1D", DAY),
        ] {
            assert_eq!(width(text), Ok(Width::Nanos(nanos)), "{text}");
        }
        for (text, months) in [("1M", 1), ("1 quarter", 3), ("2 years", 24), ("1y6mo", 18)] {
            assert_eq!(width(text), Ok(Width::Months(months)), "{text}");
        }
        for text in [
            "",
            "0s",
            "5",
            "5 parsecs",
            "-1h",
            "1 month 1 day",
            "1.5h",
            "99999999999999999999s",
            "300 years 1h",
        ] {
            assert!(width(text).is_err(), "{text}");
        }
        assert!(width("9999999999999 days").unwrap_err().contains("too large"));
    }

    #[test]
    fn intervals_are_widths() {
        let interval = |months, days, nanos| {
            let interval = IntervalMonthDayNano::new(months, days, nanos);
            Width::of(&ScalarValue::IntervalMonthDayNano(Some(interval))).ok().flatten()
        };
        assert_eq!(interval(0, 1, 5), Some(Width::Nanos(DAY + 5)));
        assert_eq!(interval(14, 0, 0), Some(Width::Months(14)));
        for (months, days, nanos) in [(0, 0, 0), (1, 1, 0), (-1, 0, 0), (0, -1, 0), (1, -1, 0)] {
            assert_eq!(interval(months, days, nanos), None, "{months} {days} {nanos}");
        }
        assert_eq!(Width::of(&ScalarValue::Null).unwrap(), None);
    }
}
