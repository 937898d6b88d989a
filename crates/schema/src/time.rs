//! Points in time and times of day, in nanoseconds, and their ISO 8601 texts.
//!
//! Dates are proleptic Gregorian and UTC has no leap seconds here, as in Unix time. The arithmetic between dates and
//! day numbers is Howard Hinnant's `days_from_civil` and `civil_from_days`
//! (<https://howardhinnant.github.io/date_algorithms.html>).

use crate::TEXT_MAX;
use crate::digits::{nine, two};
use std::fmt;
use std::str::FromStr;

pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_DAY: i64 = 86_400 * NANOS_PER_SECOND;

/// Nanoseconds since 1970-01-01T00:00:00Z. Every `i64` is valid: 1677-09-21 to 2262-04-11.
///
/// As text: ISO 8601 in UTC with 0, 3, 6 or 9 digits of the second's fraction, as many as the value needs. Read are
/// also: a date alone, hours and minutes without seconds, a space instead of `T`, one to nine digits of fraction,
/// no zone (UTC), offsets such as `+02:00`; and a **bare integer, which counts nanoseconds**, never seconds or years.
///
/// ```
/// use tapedb_schema::Timestamp;
/// let time: Timestamp = "2013-10-07 16:30:00.123+02:00".parse()?;
/// assert_eq!(time.to_string(), "2013-10-07T14:30:00.123Z");
/// assert_eq!("1381156200123000000".parse(), Ok(time));
/// # Ok::<(), tapedb_schema::TimeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Timestamp(pub i64);

/// Nanoseconds since midnight, 0 to 86,399,999,999,999.
///
/// As text: `14:30:00.123`, with 0, 3, 6 or 9 digits of fraction; seconds may be left out on input, and a bare integer
/// counts nanoseconds. A value outside the day cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct TimeOfDay(i64);

/// Why a text is not a time. Offsets count bytes from the start of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeError {
    /// Something else was found where this was expected.
    Syntax {
        /// Offset of the byte.
        at: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// A part such as the month is outside its range.
    Part {
        /// Which part.
        part: &'static str,
        /// Its value.
        value: i64,
        /// Smallest allowed.
        min: i64,
        /// Largest allowed.
        max: i64,
    },
    /// The instant is before 1677-09-21T00:12:43.145224192Z or after 2262-04-11T23:47:16.854775807Z.
    OutOfRange,
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { at, expected } => write!(f, "not a time: expected {expected} at offset {at}"),
            Self::Part { part, value, min, max } => write!(f, "{part} {value} is outside {min} to {max}"),
            Self::OutOfRange => write!(f, "time is outside {} to {}", Timestamp::MIN, Timestamp::MAX),
        }
    }
}

impl std::error::Error for TimeError {}

impl Timestamp {
    /// The earliest, 1677-09-21T00:12:43.145224192Z.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest, 2262-04-11T23:47:16.854775807Z.
    pub const MAX: Self = Self(i64::MAX);
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// The instant `nanos` nanoseconds after the epoch.
    #[inline]
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    #[inline]
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Midnight UTC of a date; `None` if there is no such date or it is out of range.
    pub fn from_date(year: i32, month: u32, day: u32) -> Option<Self> {
        let exists =
            (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year.into(), month.into()) as u32;
        let days = exists.then(|| days_from_civil(year.into(), month.into(), day.into()))?;
        days.checked_mul(NANOS_PER_DAY).map(Self)
    }

    /// Year, month (1 to 12) and day (1 to 31) in UTC.
    #[inline]
    pub fn date(self) -> (i32, u32, u32) {
        let (year, month, day) = civil_from_days(self.0.div_euclid(NANOS_PER_DAY));
        (year as i32, month, day)
    }

    /// Time of day in UTC.
    pub const fn time_of_day(self) -> TimeOfDay {
        TimeOfDay(self.0.rem_euclid(NANOS_PER_DAY))
    }

    /// Appends what `Display` prints.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut buffer = [0; TEXT_MAX];
        let length = self.format(&mut buffer);
        out.extend_from_slice(&buffer[..length]);
    }

    /// Writes what `Display` prints at the start of the buffer, and returns its length. What follows it in the buffer is of no use.
    pub fn format(self, buffer: &mut [u8; TEXT_MAX]) -> usize {
        let (year, month, day) = self.date();
        put_two(buffer, 0, year as u32 / 100);
        put_two(buffer, 2, year as u32 % 100);
        buffer[4] = b'-';
        put_two(buffer, 5, month);
        buffer[7] = b'-';
        put_two(buffer, 8, day);
        buffer[10] = b'T';
        let end = put_time(buffer, 11, self.time_of_day().0);
        buffer[end] = b'Z';
        end + 1
    }
}

impl TimeOfDay {
    /// Midnight.
    pub const MIN: Self = Self(0);
    /// The last nanosecond of the day, 23:59:59.999999999.
    pub const MAX: Self = Self(NANOS_PER_DAY - 1);

    /// The time `nanos` nanoseconds after midnight; `None` outside the day.
    #[inline]
    pub const fn from_nanos(nanos: i64) -> Option<Self> {
        let time = Self(nanos);
        if time.is_valid() { Some(time) } else { None }
    }

    /// Nanoseconds since midnight.
    #[inline]
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Whether the value is within a day.
    #[inline]
    pub const fn is_valid(self) -> bool {
        (self.0 as u64) < NANOS_PER_DAY as u64
    }

    /// Appends what `Display` prints.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        if !self.is_valid() {
            return out.extend_from_slice(self.0.to_string().as_bytes());
        }
        let mut buffer = [0; TEXT_MAX];
        let end = self.format(&mut buffer);
        out.extend_from_slice(&buffer[..end]);
    }

    /// Writes the text at the start of the buffer, and returns its length. What follows it in the buffer is of no use. A value
    /// outside the day, which only bytes that were not validated can hold, is midnight.
    pub fn format(self, buffer: &mut [u8; TEXT_MAX]) -> usize {
        put_time(buffer, 0, if self.is_valid() { self.0 } else { 0 })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; TEXT_MAX];
        let length = self.format(&mut buffer);
        f.pad(std::str::from_utf8(&buffer[..length]).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_valid() {
            return fmt::Display::fmt(&self.0, f);
        }
        let mut buffer = [0; TEXT_MAX];
        let end = put_time(&mut buffer, 0, self.0);
        f.pad(std::str::from_utf8(&buffer[..end]).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        if let Some(nanos) = bare_integer(text)? {
            return Ok(Self(nanos));
        }
        let mut input = Input { bytes: text.as_bytes(), at: 0 };
        let days = input.date()?;
        let mut nanos = 0;
        if input.take(b'T') || input.take(b't') || input.take(b' ') {
            nanos = input.time()?;
            nanos -= input.offset()?;
        }
        input.end("end of the time")?;
        let total = i128::from(days) * i128::from(NANOS_PER_DAY) + i128::from(nanos);
        i64::try_from(total).map(Self).map_err(|_| TimeError::OutOfRange)
    }
}

impl FromStr for TimeOfDay {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        if let Some(value) = bare_integer(text)? {
            let out_of_day =
                TimeError::Part { part: "time of day in ns", value, min: 0, max: NANOS_PER_DAY - 1 };
            return Self::from_nanos(value).ok_or(out_of_day);
        }
        let mut input = Input { bytes: text.as_bytes(), at: 0 };
        let nanos = input.time()?;
        input.end("end of the time")?;
        Ok(Self(nanos))
    }
}

/// Days from 1970-01-01 to a date (Hinnant's `days_from_civil`).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years start in March, so that the leap day is the last of the year; eras have 400 years.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day from days since 1970-01-01 (Hinnant's `civil_from_days`). The days of an `i64` of nanoseconds are all after
/// 0000-03-01, from where it counts: 32 bits without a sign are enough.
#[inline]
fn civil_from_days(days: i64) -> (u32, u32, u32) {
    let days = (days + 719_468) as u32;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + u32::from(month <= 2), month, day)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `Some` if the text is only digits after an optional minus.
fn bare_integer(text: &str) -> Result<Option<i64>, TimeError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| TimeError::OutOfRange)
}

/// A text being read.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    /// `YYYY-MM-DD` as days since the epoch.
    fn date(&mut self) -> Result<i64, TimeError> {
        let year = self.digits(4, "a year of four digits")?;
        self.expect(b'-', "'-' after the year")?;
        let month = self.part(1, 12, "month")?;
        self.expect(b'-', "'-' after the month")?;
        let day = self.part(1, days_in_month(year, month), "day")?;
        Ok(days_from_civil(year, month, day))
    }

    /// `HH:MM[:SS[.fraction]]` as nanoseconds.
    fn time(&mut self) -> Result<i64, TimeError> {
        let hours = self.part(0, 23, "hour")?;
        self.expect(b':', "':' after the hour")?;
        let minutes = self.part(0, 59, "minute")?;
        let (mut seconds, mut fraction) = (0, 0);
        if self.take(b':') {
            seconds = self.part(0, 59, "second")?;
            if self.take(b'.') {
                fraction = self.fraction()?;
            }
        }
        Ok(((hours * 60 + minutes) * 60 + seconds) * NANOS_PER_SECOND + fraction)
    }

    /// `Z`, `+HH:MM`, `-HH:MM` or nothing, as nanoseconds east of UTC.
    fn offset(&mut self) -> Result<i64, TimeError> {
        let sign = match self.bytes.get(self.at) {
            None => return Ok(0),
            Some(b'Z' | b'z') => 0,
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return Err(self.syntax("a fraction, 'Z', an offset such as '+02:00' or the end")),
        };
        self.at += 1;
        if sign == 0 {
            return Ok(0);
        }
        let hours = self.part(0, 23, "offset hour")?;
        self.expect(b':', "':' in the offset")?;
        let minutes = self.part(0, 59, "offset minute")?;
        Ok(sign * (hours * 60 + minutes) * 60 * NANOS_PER_SECOND)
    }

    /// One to nine digits, as nanoseconds.
    fn fraction(&mut self) -> Result<i64, TimeError> {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&count) {
            self.at += count.min(9);
            return Err(self.syntax("one to nine digits of fraction"));
        }
        let digits = self.digits(count, "a digit")?;
        Ok(digits * 10i64.pow(9 - count as u32))
    }

    fn part(&mut self, min: i64, max: i64, part: &'static str) -> Result<i64, TimeError> {
        let value = self.digits(2, "two digits")?;
        if (min..=max).contains(&value) { Ok(value) } else { Err(TimeError::Part { part, value, min, max }) }
    }

    fn digits(&mut self, count: usize, expected: &'static str) -> Result<i64, TimeError> {
        let mut value = 0;
        for _ in 0..count {
            match self.bytes.get(self.at) {
                Some(byte) if byte.is_ascii_digit() => value = value * 10 + i64::from(byte - b'0'),
                _ => return Err(self.syntax(expected)),
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), TimeError> {
        if self.take(byte) { Ok(()) } else { Err(self.syntax(expected)) }
    }

    fn end(&self, expected: &'static str) -> Result<(), TimeError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.syntax(expected)) }
    }

    fn syntax(&self, expected: &'static str) -> TimeError {
        TimeError::Syntax { at: self.at, expected }
    }
}

fn put_two(buffer: &mut [u8; TEXT_MAX], at: usize, value: u32) {
    buffer[at..at + 2].copy_from_slice(&two(value));
}

/// `nanos` is within a day; returns the end.
#[inline]
fn put_time(buffer: &mut [u8; TEXT_MAX], at: usize, nanos: i64) -> usize {
    let nanos = nanos as u64;
    let seconds = (nanos / NANOS_PER_SECOND as u64) as u32;
    put_two(buffer, at, seconds / 3600);
    buffer[at + 2] = b':';
    put_two(buffer, at + 3, seconds / 60 % 60);
    buffer[at + 5] = b':';
    put_two(buffer, at + 6, seconds % 60);
    put_fraction(buffer, at + 8, (nanos % NANOS_PER_SECOND as u64) as u32)
}

/// Groups of three digits up to the last that is not zero.
#[inline]
pub(crate) fn put_fraction(buffer: &mut [u8; TEXT_MAX], at: usize, nanos: u32) -> usize {
    if nanos == 0 {
        return at;
    }
    buffer[at] = b'.';
    buffer[at + 1..at + 10].copy_from_slice(&nine(nanos));
    at + match nanos {
        _ if !nanos.is_multiple_of(1000) => 10,
        _ if !nanos.is_multiple_of(1_000_000) => 7,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn timestamp(text: &str) -> Timestamp {
        text.parse().expect(text)
    }

    #[test]
    fn reads_many_forms() {
        for (text, nanos) in [
            ("1970-01-01", 0),
            ("2013-10-07T14:30", 1_381_156_200_000_000_000),
            ("2013-10-07 14:30:00", 1_381_156_200_000_000_000),
            ("2013-10-07T14:30:00.123456789Z", 1_381_156_200_123_456_789),
            ("2013-10-07t16:30:00.1+02:00", 1_381_156_200_100_000_000),
            ("2013-10-07T11:00-03:30", 1_381_156_200_000_000_000),
            ("2000-02-29T00:00:00z", 951_782_400_000_000_000),
            ("1969-12-31T23:59:59.999999999Z", -1),
            ("-5", -5),
            ("2013", 2013),
            ("1677-09-21T00:12:43.145224192Z", i64::MIN),
            ("2262-04-11T23:47:16.854775807Z", i64::MAX),
            ("2262-04-12T01:47:16.854775807+02:00", i64::MAX),
        ] {
            assert_eq!(timestamp(text), Timestamp(nanos), "{text}");
        }
    }

    #[test]
    fn prints_as_many_digits_as_needed() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (120_000_000, "1970-01-01T00:00:00.120Z"),
            (1000, "1970-01-01T00:00:00.000001Z"),
            (1, "1970-01-01T00:00:00.000000001Z"),
            (i64::MIN, "1677-09-21T00:12:43.145224192Z"),
            (i64::MAX, "2262-04-11T23:47:16.854775807Z"),
        ] {
            assert_eq!(Timestamp(nanos).to_string(), text);
        }
        assert_eq!(TimeOfDay(52_200_000_000_000).to_string(), "14:30:00");
        assert_eq!(TimeOfDay::MAX.to_string(), "23:59:59.999999999");
        assert_eq!((TimeOfDay::from_nanos(-1), TimeOfDay::from_nanos(NANOS_PER_DAY)), (None, None));
    }

    #[test]
    fn refuses_what_is_no_time() {
        for text in [
            "",
            "x",
            "2013-10",
            "2013-10-07T",
            "2013-10-07T14",
            "2013-10-07T14:30:",
            "2013-10-07T14:30:00.",
            "2013-10-07T14:30:00.1234567890",
            "2013-10-07T14:30Zx",
            "2013-10-07x",
            "2013-10-07T14:30+02",
            "--5",
            "12:00",
            "2013-10-07T14:30:00 Z",
            "2013-1-07",
            "+2013-01-01",
            "２013-01-01",
        ] {
            assert!(matches!(text.parse::<Timestamp>(), Err(TimeError::Syntax { .. })), "{text}");
        }
        for text in [
            "2013-13-01",
            "2013-00-01",
            "2013-02-29",
            "1900-02-29",
            "2013-04-31",
            "2013-01-00",
            "2013-10-07T24:00",
            "2013-10-07T14:60",
            "2013-10-07T14:30:60",
            "2013-10-07T14:30+24:00",
        ] {
            assert!(matches!(text.parse::<Timestamp>(), Err(TimeError::Part { .. })), "{text}");
        }
        for text in [
            "1677-09-21T00:12:43.145224191Z",
            "2262-04-11T23:47:16.854775808Z",
            "9999-12-31",
            "9223372036854775808",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimeError::OutOfRange), "{text}");
        }
        let message = |text: &str| text.parse::<Timestamp>().unwrap_err().to_string();
        assert_eq!(message("2013-02-29"), "day 29 is outside 1 to 28");
        assert_eq!(message("2013-10-07x"), "not a time: expected end of the time at offset 10");
        assert!("86400000000000".parse::<TimeOfDay>().is_err());
        assert!("9:30".parse::<TimeOfDay>().is_err());
        assert_eq!("09:30:00.5".parse(), Ok(TimeOfDay(34_200_500_000_000)));
        assert_eq!("5".parse(), Ok(TimeOfDay(5)));
    }

    #[test]
    fn dates_follow_one_another() {
        let mut expected = (1677, 9, 22);
        let first = days_from_civil(1677, 9, 22);
        let last = days_from_civil(2262, 4, 11);
        for day in first..=last {
            let (year, month, day_of_month) = civil_from_days(day);
            assert_eq!((year.into(), month.into(), day_of_month.into()), expected);
            assert_eq!(days_from_civil(expected.0, expected.1, expected.2), day);
            let (year, month, day) = expected;
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                _ if day == days_in_month(year, month) => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
        assert_eq!(Timestamp::from_date(2024, 2, 29).unwrap().date(), (2024, 2, 29));
        assert_eq!(Timestamp::from_date(2023, 2, 29), None);
        assert_eq!(Timestamp::from_date(2300, 1, 1), None);
        assert_eq!(Timestamp::from_date(i32::MIN, 1, u32::MAX), None);
    }

    proptest! {
        #[test]
        fn timestamps_read_back(nanos: i64, unit in prop_oneof![Just(1i64), Just(1000), Just(1_000_000), Just(NANOS_PER_SECOND)]) {
            let time = Timestamp(nanos / unit * unit);
            prop_assert_eq!(timestamp(&time.to_string()), time);
            prop_assert_eq!(timestamp(&time.0.to_string()), time);
            let mut bytes = Vec::new();
            time.write_to(&mut bytes);
            prop_assert_eq!(bytes, time.to_string().into_bytes());
        }

        #[test]
        fn times_of_day_read_back(nanos in 0..NANOS_PER_DAY) {
            let mut bytes = Vec::new();
            TimeOfDay(nanos).write_to(&mut bytes);
            prop_assert_eq!(String::from_utf8(bytes).unwrap().parse(), Ok(TimeOfDay(nanos)));
        }

        #[test]
        fn no_text_panics(text in "[-0-9:.TZ+ x]{0,36}") {
            let _ = text.parse::<Timestamp>();
            let _ = text.parse::<TimeOfDay>();
        }
    }
}
