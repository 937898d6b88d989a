//! From the time of day in a file to nanoseconds since the epoch.

use super::fields;
use jiff::civil;
use jiff::tz::{AmbiguousOffset, TimeZone};
use tapedb_schema::Timestamp;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_DAY: i64 = 86_400 * NANOS_PER_SECOND;

/// Turns the time on a wall clock on one day into UTC.
///
/// "Milliseconds since midnight" in these files is what the clock on the wall showed, not time elapsed: on the two days
/// a year when New York's clocks change, 09:30 is 34,200,000 as on any other. A time that the clock showed twice is
/// taken as the first; one that it skipped as if it had not been changed yet.
#[derive(Debug, Clone)]
pub(super) struct DayClock {
    /// Midnight as if the zone were UTC.
    midnight_ns: i64,
    date: civil::Date,
    zone: Zone,
}

#[derive(Debug, Clone)]
enum Zone {
    /// UTC minus local time, the whole day.
    Fixed(i64),
    /// Clocks change on this day.
    Changing(TimeZone),
}

impl DayClock {
    /// A day in New York; `None` if the bundled zones lack it, or the date is out of the range of a timestamp.
    pub(super) fn new_york(date: civil::Date) -> Option<Self> {
        let zone = TimeZone::get("America/New_York").ok()?;
        let first = offset_ns(&zone, date.at(0, 0, 0, 0));
        let last = offset_ns(&zone, date.at(23, 59, 59, 999_999_999));
        let zone = if first == last { Zone::Fixed(-first) } else { Zone::Changing(zone) };
        Some(Self { midnight_ns: midnight_ns(date)?, date, zone })
    }

    /// A day at a fixed offset east of UTC; `None` if the date is out of the range of a timestamp.
    pub(super) fn fixed(date: civil::Date, utc_offset_seconds: i32) -> Option<Self> {
        let zone = Zone::Fixed(-i64::from(utc_offset_seconds) * NANOS_PER_SECOND);
        Some(Self { midnight_ns: midnight_ns(date)?, date, zone })
    }

    /// The time at this many nanoseconds of the wall clock after midnight; `None` if they are not in a day.
    #[inline]
    pub(super) fn at(&self, wall_ns: i64) -> Option<Timestamp> {
        if !(0..NANOS_PER_DAY).contains(&wall_ns) {
            return None;
        }
        let to_utc = match &self.zone {
            Zone::Fixed(to_utc) => *to_utc,
            Zone::Changing(zone) => -offset_ns(zone, wall_time(self.date, wall_ns)),
        };
        self.midnight_ns.checked_add(wall_ns)?.checked_add(to_utc).map(Timestamp)
    }

    /// The first time of the day.
    pub(super) fn start(&self) -> Timestamp {
        self.at(0).unwrap_or(Timestamp::MIN)
    }
}

/// Nanoseconds of a number of milliseconds with at most six decimals, exactly.
pub(super) fn milliseconds(text: &[u8]) -> Option<i64> {
    let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let whole = fields::integer(&text[..point])?.checked_mul(1_000_000)?;
    let part = match text.get(point + 1..) {
        None => 0,
        Some(decimals) if (1..=6).contains(&decimals.len()) => {
            fields::integer(decimals)? * 10i64.pow(6 - decimals.len() as u32)
        }
        Some(_) => return None,
    };
    whole.checked_add(part)
}

/// The date of eight digits, `YYYYMMDD`.
pub(super) fn date(text: &[u8]) -> Option<civil::Date> {
    if text.len() != 8 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        |range: std::ops::Range<usize>| text[range].iter().fold(0i16, |n, d| n * 10 + i16::from(d - b'0'));
    civil::Date::new(number(0..4), number(4..6) as i8, number(6..8) as i8).ok()
}

fn midnight_ns(date: civil::Date) -> Option<i64> {
    Timestamp::from_date(i32::from(date.year()), date.month() as u32, date.day() as u32).map(Timestamp::nanos)
}

fn wall_time(date: civil::Date, wall_ns: i64) -> civil::DateTime {
    let seconds = wall_ns / NANOS_PER_SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    date.at(hour as i8, minute as i8, second as i8, (wall_ns % NANOS_PER_SECOND) as i32)
}

/// Local time minus UTC.
fn offset_ns(zone: &TimeZone, wall: civil::DateTime) -> i64 {
    let offset = match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
    };
    i64::from(offset.seconds()) * NANOS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600 * NANOS_PER_SECOND;

    fn new_york(day: &[u8], wall_ns: i64) -> String {
        DayClock::new_york(date(day).unwrap()).unwrap().at(wall_ns).unwrap().to_string()
    }

    #[test]
    fn new_york_in_summer_and_winter() {
        assert_eq!(new_york(b"20131007", 9 * HOUR + HOUR / 2), "2013-10-07T13:30:00Z");
        assert_eq!(new_york(b"20131223", 9 * HOUR + HOUR / 2), "2013-12-23T14:30:00Z");
    }

    #[test]
    fn the_days_when_clocks_change() {
        assert_eq!(new_york(b"20130310", HOUR), "2013-03-10T06:00:00Z");
        assert_eq!(new_york(b"20130310", 2 * HOUR + HOUR / 2), "2013-03-10T07:30:00Z");
        assert_eq!(new_york(b"20130310", 9 * HOUR + HOUR / 2), "2013-03-10T13:30:00Z");
        assert_eq!(new_york(b"20131103", HOUR + HOUR / 2), "2013-11-03T05:30:00Z");
        assert_eq!(new_york(b"20131103", 9 * HOUR + HOUR / 2), "2013-11-03T14:30:00Z");
    }

    #[test]
    fn outside_of_a_day_there_is_no_time() {
        let clock = DayClock::fixed(date(b"20140501").unwrap(), -5 * 3600).unwrap();
        assert_eq!(clock.start().to_string(), "2014-05-01T05:00:00Z");
        assert_eq!(clock.at(NANOS_PER_DAY), None);
        assert_eq!(clock.at(-1), None);
    }

    #[test]
    fn dates_are_eight_digits_of_a_real_day() {
        assert_eq!(date(b"20130229"), None);
        assert_eq!(date(b"2013022"), None);
        assert_eq!(date(b"2013-2-2"), None);
        assert_eq!(date(b"20120229"), civil::Date::new(2012, 2, 29).ok());
    }
}
