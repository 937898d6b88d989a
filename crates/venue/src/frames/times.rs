//! Times as venues write them.

use jiff::civil;
use tapedb_schema::{TimeUnit, Timestamp};

/// A whole number of the unit that its size tells, one of these; the ranges of units do not meet.
pub(crate) fn whole(text: &str, units: &[TimeUnit]) -> Option<Timestamp> {
    let number = text.parse().ok()?;
    TimeUnit::of(number).filter(|unit| units.contains(unit))?.timestamp(number)
}

/// Milliseconds, microseconds or nanoseconds, as the size tells, with or without a fraction, exactly.
pub(crate) fn instant(text: &str) -> Option<Timestamp> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole).parse().ok()?;
    TimeUnit::of(whole).filter(|unit| *unit != TimeUnit::Seconds)?.parse(text)
}

/// Seconds with or without a fraction, exactly.
pub(crate) fn seconds(text: &str) -> Option<Timestamp> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole).parse().ok()?;
    TimeUnit::Seconds.parse(text).filter(|_| TimeUnit::Seconds.is_plausible(whole))
}

/// `2021-04-17T16:43:30.244075Z`, with at most nine digits of a second.
pub(crate) fn iso(text: &str) -> Option<Timestamp> {
    let text = text.strip_suffix('Z')?;
    let (date, clock) = text.split_once(['T', ' '])?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let part = |text: &str, length| (text.len() == length).then(|| digits(text)).flatten();
    let mut date = date.split('-');
    let (year, month, day) = (part(date.next()?, 4)?, part(date.next()?, 2)?, part(date.next()?, 2)?);
    let mut clock = clock.split(':');
    let (hour, minute, second) = (part(clock.next()?, 2)?, part(clock.next()?, 2)?, part(clock.next()?, 2)?);
    if date.next().is_some() || clock.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let day = civil::Date::new(year as i16, month as i8, day as i8).ok()?;
    let midnight = Timestamp::from_date(i32::from(day.year()), day.month() as u32, day.day() as u32)?;
    let nanos = digits(fraction).filter(|_| fraction.len() <= 9)? * 10i64.pow(9 - fraction.len() as u32);
    let in_day = (hour * 3600 + minute * 60 + second) * 1_000_000_000 + nanos;
    midnight.nanos().checked_add(in_day).map(Timestamp)
}

fn digits(text: &str) -> Option<i64> {
    crate::fields::integer(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_or_none() {
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let iso = |time| text(iso(time));
        assert_eq!(iso("2021-04-17T16:43:30.244075Z").unwrap(), "2021-04-17T16:43:30.244075Z");
        assert_eq!(iso("2026-08-07T20:04:08Z").unwrap(), "2026-08-07T20:04:08Z");
        for none in [
            "2021-02-29T00:00:00Z",
            "2021-04-17T24:00:00Z",
            "2021-04-17T16:43:30.2440751234Z",
            "2021-04-17T16:43:30+02:00",
            "2021-04-17T16:43Z",
            "",
        ] {
            assert_eq!(iso(none), None, "{none}");
        }
        assert_eq!(text(seconds("1618677543.8298671")).unwrap(), "2021-04-17T16:39:03.829867100Z");
        assert_eq!((seconds("16186775438298"), seconds("7")), (None, None));
        assert_eq!(text(instant("1606292218213.4578")).unwrap(), "2020-11-25T08:16:58.213457800Z");
        assert_eq!(text(instant("1545913818099033203")).unwrap(), "2018-12-27T12:30:18.099033203Z");
        assert_eq!(
            (instant("1606292218"), instant("1606292218213.1234567"), instant("")),
            (None, None, None)
        );
        let units = [TimeUnit::Millis, TimeUnit::Micros];
        assert_eq!(text(whole("1618677543829", &units)).unwrap(), "2021-04-17T16:39:03.829Z");
        assert_eq!((whole("1618677543", &units), whole("x", &units)), (None, None));
    }
}
