//! The days of a plant: a stream beside its tables whose messages say where each day begins.
//!
//! A day of a table is the messages from one sequence number to another. So the end of a day is exact however many feeds write
//! at that moment; it is as durable as the tables; and every reader of the calendar gets it once, later and remotely too.

use crate::clock::now;
use crate::date::Date;
use crate::error::{TickError, asked};
use jiff::civil;
use jiff::tz::TimeZone;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Message, Stream};
use tapedb_schema::{Schema, TimeOfDay, Timestamp};

/// Name of the calendar in its plant.
pub const CALENDAR: &str = "calendar";

// The doc comments of these two are part of the schema on the disk, so they do not change.
/// A day of the plant begins, and the one before ends.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
pub(crate) struct Roll {
    /// The date that ended, in days since 1970; null when the plant is new.
    pub ended: Option<i32>,
    /// The date that begins, in days since 1970.
    pub begun: i32,
    /// When that date begins where the plant is: times of day count from here.
    pub midnight: Timestamp,
    /// Where it begins in each table.
    pub tables: Vec<Edge>,
}

/// Where a day begins in a table.
#[derive(Record, Debug, Clone, Default, PartialEq)]
pub(crate) struct Edge {
    /// The table.
    pub table: String,
    /// The sequence number of its first message.
    pub sequence: u64,
}

/// A day of a plant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day {
    /// Its date.
    pub date: Date,
    /// When that date begins in the plant's time zone: times of day count from here.
    pub midnight: Timestamp,
    /// For each table the sequence number of the day's first message.
    pub first: Vec<(String, u64)>,
}

impl Day {
    /// Sequence number of the day's first message of a table: 0 for a table that came later.
    pub fn first_of(&self, table: &str) -> u64 {
        self.first.iter().find(|(name, _)| name == table).map_or(0, |(_, sequence)| *sequence)
    }

    pub(crate) fn of(roll: &Roll) -> Self {
        let first = roll.tables.iter().map(|edge| (edge.table.clone(), edge.sequence)).collect();
        Self { date: Date(roll.begun), midnight: roll.midnight, first }
    }

    /// The message of this day's beginning.
    pub(crate) fn roll(&self, ended: Option<Date>) -> Roll {
        let edge = |(table, sequence): &(String, u64)| Edge { table: table.clone(), sequence: *sequence };
        Roll {
            ended: ended.map(|date| date.0),
            begun: self.date.0,
            midnight: self.midnight,
            tables: self.first.iter().map(edge).collect(),
        }
    }
}

/// The day that a message of a calendar begins.
///
/// # Errors
/// When it is not of a calendar, or damaged.
pub fn day_of(message: &Message<'_>) -> Result<Day, TickError> {
    Ok(Day::of(&message.decode::<Roll>()?))
}

pub(crate) fn schema() -> Schema {
    SchemaBuilder::new().with::<Roll>().finish()
}

/// All days of a calendar, in order; the last one is today.
pub(crate) fn days(calendar: &Stream) -> Result<Vec<Day>, TickError> {
    let mut cursor = calendar.cursor().open()?;
    let mut days = Vec::new();
    while let Some(message) = cursor.next()? {
        days.push(day_of(&message)?);
    }
    Ok(days)
}

/// When days end.
#[derive(Debug, Clone)]
pub struct DayEnd {
    at: TimeOfDay,
    zone: TimeZone,
}

impl Default for DayEnd {
    /// At midnight in UTC.
    fn default() -> Self {
        Self { at: TimeOfDay::MIN, zone: TimeZone::UTC }
    }
}

impl DayEnd {
    /// At this time of the day's date, in this time zone (`UTC`, `America/New_York`); at midnight: of the day after.
    ///
    /// # Errors
    /// For an unknown zone.
    pub fn at(at: TimeOfDay, zone: &str) -> Result<Self, TickError> {
        match TimeZone::get(zone) {
            Ok(zone) => Ok(Self { at, zone }),
            Err(error) => asked(format!("time zone {zone:?}: {error}; write it as America/New_York")),
        }
    }

    /// The date of the plant's day at a time.
    pub fn date_at(&self, time: Timestamp) -> Date {
        let Ok(instant) = jiff::Timestamp::from_nanosecond(time.0.into()) else { return Date::of(time) };
        let local = self.zone.to_datetime(instant);
        let date = Date(days_of(local.date()));
        let since_midnight = local.time().duration_since(civil::Time::midnight()).as_nanos();
        let is_over = self.at != TimeOfDay::MIN && since_midnight >= i128::from(self.at.nanos());
        if is_over { date.next() } else { date }
    }

    /// When a date begins in the plant's time zone.
    pub fn midnight(&self, date: Date) -> Timestamp {
        let zoned = civil_of(date)
            .and_then(|date| self.zone.to_ambiguous_zoned(date.at(0, 0, 0, 0)).compatible().ok());
        let nanos = zoned.and_then(|zoned| i64::try_from(zoned.timestamp().as_nanosecond()).ok());
        nanos.map_or(date.midnight(), Timestamp)
    }
}

/// Writes the message of a day that begins.
pub(crate) fn write_day(
    calendar: &Stream,
    plant: &str,
    day: &Day,
    ended: Option<Date>,
) -> Result<(), TickError> {
    let mut loader = calendar.loader()?;
    loader.append(plant, now(), &day.roll(ended))?;
    loader.close()?;
    Ok(())
}

fn days_of(date: civil::Date) -> i32 {
    let midnight = Timestamp::from_date(date.year().into(), date.month() as u32, date.day() as u32);
    midnight.map_or(0, |midnight| Date::of(midnight).0)
}

fn civil_of(date: Date) -> Option<civil::Date> {
    let (year, month, day) = date.midnight().date();
    civil::Date::new(i16::try_from(year).ok()?, month as i8, day as i8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn days_end_where_the_plant_is() {
        let utc = DayEnd::default();
        assert_eq!(utc.date_at(time("2026-11-21T23:59:59.999999999")).to_string(), "2026-11-21");
        assert_eq!(utc.date_at(time("2026-11-22T00:00:00")).to_string(), "2026-11-22");

        let fx =
            DayEnd::at(TimeOfDay::from_nanos(17 * 3_600_000_000_000).unwrap(), "America/New_York").unwrap();
        assert_eq!(fx.date_at(time("2026-11-20T21:59:59Z")).to_string(), "2026-11-20");
        assert_eq!(fx.date_at(time("2026-11-20T22:00:00Z")).to_string(), "2026-11-21");
        assert_eq!(fx.midnight("2026-11-21".parse().unwrap()), time("2026-11-21T05:00:00Z"));
        assert!(DayEnd::at(TimeOfDay::MIN, "Mars/Olympus").unwrap_err().to_string().contains("Mars"));
    }

    #[test]
    fn a_day_comes_back_from_its_message() {
        let day = Day { date: Date(20_778), midnight: Timestamp(5), first: vec![("trade".into(), 7)] };
        assert_eq!(Day::of(&day.roll(Some(Date(20_777)))), day);
        assert_eq!((day.first_of("trade"), day.first_of("quote")), (7, 0));
    }
}
