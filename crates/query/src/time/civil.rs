//! Times of a local clock: nanoseconds since 1970-01-01 00:00:00 on it, every day with 24 hours.

use super::width::Width;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// Monday 2000-01-03 00:00:00, where buckets of fixed width are counted from.
const MONDAY: i64 = 946_857_600_000_000_000;

/// 2000-01-01 00:00:00, where months are counted from.
const FIRST_OF_MONTH: i64 = 946_684_800_000_000_000;

/// Where buckets are counted from, unless another time is asked for.
pub(super) fn default_origin(width: Width) -> i64 {
    match width {
        Width::Months(_) => FIRST_OF_MONTH,
        Width::Nanos(_) => MONDAY,
    }
}

/// The bucket of a time: when it begins, and when the next one does. `None`: that is before or after all times that there are.
pub(super) fn floor(civil: i64, width: Width, origin: i64) -> Option<(i64, i64)> {
    match width {
        Width::Nanos(nanos) => {
            let within = i128::from(civil) - i128::from(origin);
            let within = within.rem_euclid(i128::from(nanos)) as i64;
            let start = civil.checked_sub(within)?;
            Some((start, start.saturating_add(nanos)))
        }
        Width::Months(months) => {
            let (from, at) = (date_of(origin)?, date_of(civil)?);
            let month = |date: DateTime| i64::from(date.year()) * 12 + i64::from(date.month());
            let mut steps = (month(at) - month(from)).div_euclid(months.into());
            let mut start = add_months(from, steps, months)?;
            if start > civil {
                // The origin is not on the first of its month.
                steps -= 1;
                start = add_months(from, steps, months)?;
            }
            Some((start, add_months(from, steps + 1, months).unwrap_or(i64::MAX)))
        }
    }
}

fn date_of(civil: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(Timestamp::from_nanosecond(civil.into()).ok()?))
}

/// A day that a month does not have is its last one.
fn add_months(from: DateTime, steps: i64, months: i32) -> Option<i64> {
    let span = jiff::Span::new().try_months(steps.checked_mul(months.into())?).ok()?;
    of_date(from.checked_add(span).ok()?)
}

/// The time that a local clock shows, in nanoseconds.
pub(super) fn of_date(date: DateTime) -> Option<i64> {
    i64::try_from(Offset::UTC.to_timestamp(date).ok()?.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> i64 {
        of_date(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn times_are_floored_before_and_after_the_origin() {
        assert_eq!(default_origin(Width::Nanos(1)), ns("2000-01-03T00:00:00"));
        assert_eq!(default_origin(Width::Months(1)), ns("2000-01-01T00:00:00"));
        assert_eq!(floor(-1, Width::Nanos(10), 3), Some((-7, 3)));
        assert_eq!(floor(3, Width::Nanos(10), 3), Some((3, 13)));
        assert_eq!(floor(i64::MIN, Width::Nanos(10), 3), None);
        assert_eq!(floor(i64::MAX, Width::Nanos(i64::MAX), i64::MIN).unwrap().1, i64::MAX);
        let months =
            |at: &str, months, origin: &str| floor(ns(at), Width::Months(months), ns(origin)).unwrap();
        let all = |from: &str, to: &str| (ns(from), ns(to));
        let (from, first) = ("2000-01-01T00:00:00", "2000-01-01T00:00:00");
        assert_eq!(months("2024-02-29T23:59:59", 1, from), all("2024-02-01T00:00:00", "2024-03-01T00:00:00"));
        assert_eq!(
            months("1999-12-31T23:59:59", 3, first),
            all("1999-10-01T00:00:00", "2000-01-01T00:00:00")
        );
        let (from, to) = ("2024-01-31T09:30:00", "2024-02-29T09:30:00");
        assert_eq!(months("2024-02-29T09:29:59", 1, from), all(from, to));
        assert_eq!(months("2024-02-29T09:30:00", 1, from), all(to, "2024-03-31T09:30:00"));
    }
}
