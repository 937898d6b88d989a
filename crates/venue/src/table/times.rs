//! Times of tables: texts with or without a zone, and numbers since 1970 whose unit is stated or shows in their size.

use jiff::tz::{AmbiguousOffset, TimeZone};
use tapedb_schema::{TimeOfDay, TimeUnit, Timestamp};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// How times are read. A unit that shows in the size of the first number holds for all of the column.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    pub(super) unit: Option<TimeUnit>,
    /// The zone of texts that have none.
    pub(super) zone: Option<TimeZone>,
    /// The unit was not stated.
    pub(super) guessed: bool,
}

impl Times {
    /// The time of a text or number; the error is what was expected.
    pub(super) fn parse(&mut self, text: &str) -> Result<Timestamp, String> {
        let text = text.trim_ascii();
        if is_number(text) {
            return self.number(text);
        }
        let text = with_dashes(text);
        let is_zoned = text.get(11..).is_some_and(|time| time.contains(['Z', 'z', '+', '-']));
        let wall: Timestamp = text.parse().map_err(|_| TEXT_NEEDED.to_string())?;
        if is_zoned { Ok(wall) } else { self.in_zone(wall) }
    }

    /// The time of a date and a time of day.
    pub(super) fn parse_parts(&mut self, date: &str, time: &str) -> Result<Timestamp, String> {
        let (date, time) = (with_dashes(date.trim_ascii()), time.trim_ascii());
        let needed = || "a date such as 2024-01-31 and a time of day such as 09:30:00.123".to_string();
        let midnight: Timestamp = date.parse().map_err(|_| needed())?;
        let of_day = match (is_number(time), self.unit) {
            (false, _) => time.parse::<TimeOfDay>().map_err(|_| needed())?.nanos(),
            (true, Some(unit)) => {
                let of_day = unit.parse(time).and_then(|time| TimeOfDay::from_nanos(time.nanos()));
                of_day.ok_or_else(|| format!("a number of {} of a day", unit.name()))?.nanos()
            }
            (true, None) => return Err("a time of day; name the unit of numbers with --time-unit".into()),
        };
        if date.len() != 10 {
            return Err(needed());
        }
        self.in_zone(Timestamp(midnight.nanos().checked_add(of_day).ok_or_else(needed)?))
    }

    fn number(&mut self, text: &str) -> Result<Timestamp, String> {
        if let Some(unit) = self.unit {
            let needed = || format!("a number of {} since 1970, no finer than a nanosecond", unit.name());
            let time = unit.parse(text).ok_or_else(needed)?;
            let whole = time.nanos() / unit.nanos();
            if self.guessed && !unit.is_plausible(whole) {
                let found = TimeUnit::of(whole).map_or("none", TimeUnit::name);
                return Err(format!(
                    "a number of {} since 1970, as those before it; its size is that of {found}; name the unit with --time-unit",
                    unit.name()
                ));
            }
            return Ok(time);
        }
        let whole = text.split('.').next().unwrap_or_default();
        if is_calendar(whole) {
            return Err("a number since 1970; its digits are those of a date and time too: write it with separators, or name \
                        the unit with --time-unit"
                .into());
        }
        let Some(unit) = whole.parse().ok().and_then(TimeUnit::of) else {
            return Err(
                "a number since 1970 whose size shows its unit; name the unit with --time-unit".into()
            );
        };
        (self.unit, self.guessed) = (Some(unit), true);
        self.number(text)
    }

    /// The time at which the zone's clocks showed this, if they did so once.
    fn in_zone(&self, wall: Timestamp) -> Result<Timestamp, String> {
        let Some(zone) = &self.zone else {
            return Err(
                "a time with its zone; name the zone of the file with --zone, for instance --zone UTC".into(),
            );
        };
        let shown = |what: &str| Err(format!("a time that the clocks of the zone showed{what}"));
        let Ok(instant) = jiff::Timestamp::from_nanosecond(wall.nanos().into()) else { return shown("") };
        let civil = TimeZone::UTC.to_datetime(instant);
        let offset = match zone.to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { .. } => return shown(""),
            // Nothing in the row says which; a guess would be an hour wrong.
            AmbiguousOffset::Fold { .. } => {
                return shown(" once; they were set back here: write times with their offset from UTC");
            }
        };
        let nanos = wall.nanos().checked_sub(i64::from(offset.seconds()) * NANOS_PER_SECOND);
        nanos.map_or_else(|| shown(""), |nanos| Ok(Timestamp(nanos)))
    }
}

const TEXT_NEEDED: &str =
    "a time such as 2024-01-31T09:30:00.123Z, from 1677 to 2262, or a number since 1970";

pub(super) fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // Eight digits are a date rather than a number of anything.
    digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Whether digits may be those of a date and a time of day, as in `202401310930` or `240131093000`: a count since 1970 of that size is
/// of another century's part or of years to come.
fn is_calendar(digits: &str) -> bool {
    let Some(digits) = digits.is_ascii().then_some(digits) else { return false };
    let part = |at: usize, length: usize| digits.get(at..at + length).map(|part| part.parse::<u32>().ok());
    let is_from = |at: usize| {
        let whole = [(at, 1..=12), (at + 2, 1..=31), (at + 4, 0..=23), (at + 6, 0..=59), (at + 8, 0..=59)];
        whole
            .iter()
            .all(|(at, range)| part(*at, 2).is_none_or(|part| part.is_some_and(|part| range.contains(&part))))
    };
    let has_century = part(0, 2).flatten().is_some_and(|century| [19, 20].contains(&century));
    match digits.len() {
        10 | 16 | 18 => has_century && is_from(4),
        12 => (has_century && is_from(4)) || is_from(2),
        _ => false,
    }
}

/// A date of eight digits, or with slashes, as one with dashes.
fn with_dashes(text: &str) -> String {
    let bytes = text.as_bytes();
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match digits {
        8 => format!("{}-{}-{}{}", &text[..4], &text[4..6], &text[6..8], &text[8..]),
        4 if bytes.get(4) == Some(&b'/') && bytes.get(7) == Some(&b'/') => {
            format!("{}-{}-{}", &text[..4], &text[5..7], &text[8..])
        }
        _ => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(times: &mut Times, text: &str) -> String {
        times.parse(text).map_or_else(|needed| needed, |time| time.to_string())
    }

    fn in_zone(name: &str) -> Times {
        Times { zone: TimeZone::get(name).ok(), ..Times::default() }
    }

    #[test]
    fn texts_are_read_with_their_zone_or_that_of_the_file() {
        let mut utc = in_zone("UTC");
        for text in
            ["2024-01-31T09:30:00.1234567Z", "2024-01-31 09:30:00.1234567", "20240131 09:30:00.1234567"]
        {
            assert_eq!(read(&mut utc, text), "2024-01-31T09:30:00.123456700Z", "{text}");
        }
        assert_eq!(read(&mut utc, "2024/01/31 10:30:00+01:00"), "2024-01-31T09:30:00Z");
        let mut new_york = in_zone("America/New_York");
        assert_eq!(read(&mut new_york, "2024-01-31 09:30:00"), "2024-01-31T14:30:00Z");
        assert_eq!(read(&mut new_york, "2024-03-10 02:30:00"), "a time that the clocks of the zone showed");
        assert!(read(&mut new_york, "2024-11-03 01:30:00").contains("showed once; they were set back"));
        assert_eq!(read(&mut new_york, "2024-11-03 01:30:00-04:00"), "2024-11-03T05:30:00Z");
        assert!(read(&mut Times::default(), "2024-01-31 09:30:00").contains("--zone"));
        assert!(read(&mut utc, "31.01.2024 09:30").starts_with("a time such as"));
    }

    #[test]
    fn units_show_in_the_size_of_the_first_number_and_hold_for_all() {
        for (text, unit) in [("1706693400", "s"), ("1706693400000", "ms"), ("1706693400000000", "us")] {
            let mut times = Times::default();
            assert_eq!(read(&mut times, text), "2024-01-31T09:30:00Z", "{text}");
            assert_eq!(times.unit.unwrap().symbol(), unit);
        }
        let mut times = Times::default();
        assert_eq!(read(&mut times, "1706693400000.2042"), "2024-01-31T09:30:00.000204200Z");
        assert!(read(&mut times, "1706693400").contains("its size is that of seconds"));
        assert!(read(&mut times, "1706693400000.1234567").contains("no finer than a nanosecond"));
        assert!(read(&mut Times::default(), "20240131").contains("--time-unit"));
        assert!(read(&mut Times::default(), "34200000").contains("--time-unit"));
        for digits in ["2024013109", "202401310930", "240131093000", "2024013109300012", "202401310930001234"]
        {
            assert!(read(&mut Times::default(), digits).contains("those of a date"), "{digits}");
        }
        for digits in ["1999999999", "2024133109", "946684800000", "1706693400123456", "1706693400123456789"]
        {
            assert!(read(&mut Times::default(), digits).ends_with('Z'), "{digits}");
        }
        let mut millis = Times { unit: Some(TimeUnit::Millis), ..Times::default() };
        assert_eq!(read(&mut millis, "202401310930"), "1976-05-31T14:35:10.930Z");
    }

    #[test]
    fn dates_and_times_of_day_may_stand_in_columns_of_their_own() {
        let mut times = in_zone("UTC");
        let mut read = |date: &str, time: &str| times.parse_parts(date, time).map(|time| time.to_string());
        assert_eq!(read("20240131", "09:30:00.5").unwrap(), "2024-01-31T09:30:00.500Z");
        assert!(read("2024-01-31", "34200000").unwrap_err().contains("--time-unit"));
        assert!(read("2024-01-31T10:00", "09:30").is_err() && read("yesterday", "09:30").is_err());
        let mut millis = Times { unit: Some(TimeUnit::Millis), ..in_zone("UTC") };
        assert_eq!(
            millis.parse_parts("2024/01/31", "34200000.25").unwrap().to_string(),
            "2024-01-31T09:30:00.000250Z"
        );
        assert!(millis.parse_parts("2024/01/31", "86400000").is_err());
    }
}
