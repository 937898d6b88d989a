//! Dates of days.

use crate::kind::{KDB_EPOCH_DAYS, NANOS_PER_DAY};
use std::fmt;
use std::str::FromStr;
use tapedb_schema::Timestamp;

/// A date, as days since 1970-01-01. As text `2026-11-21`; kdb+'s `2026.11.21` is read too, and so is the number in the messages
/// of `PLANT/days` and of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub i32);

impl Date {
    /// The date in UTC of a time.
    pub fn of(time: Timestamp) -> Self {
        Self(time.0.div_euclid(NANOS_PER_DAY) as i32)
    }

    /// Midnight UTC.
    pub fn midnight(self) -> Timestamp {
        Timestamp(i64::from(self.0).saturating_mul(NANOS_PER_DAY))
    }

    /// The day after.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// kdb+'s number: days since 2000-01-01.
    pub fn to_kdb(self) -> i32 {
        self.0.saturating_sub(KDB_EPOCH_DAYS)
    }

    /// Reverse of [`Date::to_kdb`].
    pub fn of_kdb(days: i32) -> Self {
        Self(days.saturating_add(KDB_EPOCH_DAYS))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.midnight().date();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl FromStr for Date {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a date; write it as 2026-11-21");
        if text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self).map_err(|_| wrong());
        }
        let mut fields = text.split(['-', '.']);
        let mut field = || fields.next().and_then(|field| field.parse::<u32>().ok());
        let (Some(year), Some(month), Some(day)) = (field(), field(), field()) else { return Err(wrong()) };
        let midnight = Timestamp::from_date(year as i32, month, day).ok_or_else(wrong)?;
        if fields.next().is_some() { Err(wrong()) } else { Ok(Self::of(midnight)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_back() {
        for text in ["1970-01-01", "2000-02-29", "2026-11-21", "1969-12-31"] {
            assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
        }
        let date: Date = "2026.11.21".parse().unwrap();
        assert_eq!(date.to_kdb(), 9_821);
        assert_eq!(Date::of_kdb(date.to_kdb()), date);
        assert_eq!(date.0.to_string().parse(), Ok(date));
        for text in ["", "99999999999", "2026-11", "2026-13-01", "2026-11-21-1", "x"] {
            assert!(text.parse::<Date>().is_err(), "{text}");
        }
    }
}
