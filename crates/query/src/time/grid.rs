//! Where buckets begin.
//!
//! In a time zone a bucket begins whenever the local clock shows a multiple of its width, and lasts until the next one begins. So buckets
//! follow each other without a gap, and a later time is never in an earlier bucket:
//! - a day is 23 hours long when the clock is put forward and 25 when it is put back, and begins at its first midnight;
//! - of the hour that a clock shows twice, shorter buckets begin twice;
//! - what would begin in the hour that a clock leaves out begins behind it.

use super::civil;
use super::width::Width;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The buckets of one width.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    width: Width,
    /// A time of the local clock that a bucket begins at.
    origin: i64,
    /// `None`: UTC.
    zone: Option<TimeZone>,
}

/// Where buckets are counted from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// A Monday at midnight, or the first of a month.
    Default,
    /// Nanoseconds since the Unix epoch.
    Instant(i64),
    /// What the local clock shows.
    Local(DateTime),
}

/// A bucket as far as it is known: it begins at `start`, and all times from `from` until before `to` are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub start: i64,
    pub from: i64,
    pub to: i64,
}

impl Bucket {
    /// One that has no time.
    pub const NONE: Self = Self { start: 0, from: i64::MAX, to: i64::MIN };

    pub fn has(&self, time: i64) -> bool {
        self.from <= time && time < self.to
    }
}

/// Times between two changes of a clock.
struct Span {
    /// `i64::MIN`: there is no change before.
    start: i64,
    end: i64,
    /// What the clock shows more than UTC.
    offset: i64,
    /// The same before `start`.
    before: i64,
}

impl Grid {
    /// `None`: the origin is before or after all times that there are.
    pub fn new(width: Width, zone: Option<TimeZone>, origin: Origin) -> Option<Self> {
        let zone = zone.filter(|zone| *zone != TimeZone::UTC);
        let mut grid = Self { width, origin: civil::default_origin(width), zone };
        grid.origin = match origin {
            Origin::Default => grid.origin,
            Origin::Local(date) => civil::of_date(date)?,
            Origin::Instant(time) => time.checked_add(grid.span(time).offset)?,
        };
        Some(grid)
    }

    /// The bucket of a time; `None`: it begins before all times that there are.
    pub fn bucket(&self, time: i64) -> Option<Bucket> {
        let span = self.span(time);
        let (start, next) = civil::floor(time.checked_add(span.offset)?, self.width, self.origin)?;
        let to = next.saturating_sub(span.offset).min(span.end);
        let instant = start.checked_sub(span.offset);
        match instant.filter(|instant| *instant >= span.start) {
            Some(from) if span.start > i64::MIN && self.width.is_days() => {
                // The clock may have shown it before it was put back: the first time counts.
                let earlier = start.saturating_sub(span.before);
                let start = if earlier < span.start && earlier < from { earlier } else { from };
                Some(Bucket { start, from, to })
            }
            Some(from) => Some(Bucket { start: from, from, to }),
            None if span.start == i64::MIN => None,
            // The clock did not show it: it was put forward.
            None if start >= span.start.saturating_add(span.before) => {
                Some(Bucket { start: span.start, from: span.start, to })
            }
            None => Some(Bucket { start: self.bucket(span.start - 1)?.start, from: span.start, to }),
        }
    }

    /// When the next bucket begins; `None`: after all times that there are.
    pub fn next(&self, bucket: Bucket) -> Option<Bucket> {
        let mut at = bucket;
        while at.to < i64::MAX {
            at = self.bucket(at.to)?;
            if at.start > bucket.start {
                return Some(at);
            }
        }
        None
    }

    /// At least as many as [`Grid::starts`] finds.
    pub fn starts_most(&self, (from, last): (i64, i64)) -> usize {
        /// Days of the shortest month, in nanoseconds.
        const MONTH: i64 = 28 * 24 * 3_600_000_000_000;
        let width = match self.width {
            Width::Nanos(nanos) => nanos,
            Width::Months(months) => MONTH.saturating_mul(months.into()),
        };
        // Where a clock is changed a bucket is cut: twice a year, and more often long ago.
        let cuts = if self.zone.is_some() { 2 } else { 1 };
        let span = (i128::from(last) - i128::from(from)).max(0);
        usize::try_from(cuts * span / i128::from(width.max(1))).unwrap_or(usize::MAX).saturating_add(2)
    }

    /// The beginnings of the buckets from that of one time until that of another one; `None`: there are more than `most`.
    pub fn starts(&self, (from, last): (i64, i64), most: usize) -> Option<Vec<i64>> {
        let mut starts = Vec::with_capacity(self.starts_most((from, last)).min(most));
        if from > last {
            return Some(starts);
        }
        if let Width::Nanos(nanos) = self.width
            && i128::from(last) - i128::from(from) > i128::from(nanos) * most as i128
        {
            return None;
        }
        let mut bucket = self.bucket(from)?;
        loop {
            starts.push(bucket.start);
            match self.next(bucket) {
                Some(next) if next.start <= last => bucket = next,
                _ => return Some(starts),
            }
            if starts.len() >= most {
                return None;
            }
        }
    }

    fn span(&self, time: i64) -> Span {
        let whole = Span { start: i64::MIN, end: i64::MAX, offset: 0, before: 0 };
        let Some(zone) = &self.zone else { return whole };
        let nanos = |seconds: i32| i64::from(seconds) * 1_000_000_000;
        let instant = |time: i64| Timestamp::from_nanosecond(time.into()).unwrap_or_default();
        let at = instant(time);
        let clamp = |time: Timestamp| {
            i64::try_from(time.as_nanosecond()).unwrap_or(if time < Timestamp::UNIX_EPOCH {
                i64::MIN
            } else {
                i64::MAX
            })
        };
        let offset = nanos(zone.to_offset(at).seconds());
        // Behind the time itself, which may be that of a change.
        let behind = instant(time.saturating_add(1));
        let start = zone.preceding(behind).next().map_or(i64::MIN, |change| clamp(change.timestamp()));
        let end = zone.following(at).next().map_or(i64::MAX, |change| clamp(change.timestamp()));
        let before = match start {
            i64::MIN => offset,
            start => nanos(zone.to_offset(instant(start - 1)).seconds()),
        };
        Span { start, end, offset, before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const QUARTER: i64 = 900_000_000_000;
    const HOUR: i64 = 4 * QUARTER;
    const DAY: i64 = 24 * HOUR;

    fn grid(width: Width, zone: &str) -> Grid {
        Grid::new(width, Some(TimeZone::get(zone).unwrap()), Origin::Default).unwrap()
    }

    fn ns(text: &str) -> i64 {
        i64::try_from(text.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap()
    }

    /// Where buckets begin between two times: looked up every quarter of an hour on the clock.
    fn starts(zone: &TimeZone, width: Width, (from, to): (i64, i64)) -> BTreeSet<i64> {
        let clock = |time: i64| {
            let at = Timestamp::from_nanosecond(time.into()).unwrap();
            time + i64::from(zone.to_offset(at).seconds()) * 1_000_000_000
        };
        let origin = civil::default_origin(width);
        let start_of = |civil: i64| civil::floor(civil, width, origin).unwrap().0;
        let mut found = BTreeSet::new();
        let mut days_seen = BTreeSet::new();
        for time in (from..to).step_by(QUARTER as usize) {
            let (before, now) = (clock(time - QUARTER), clock(time));
            // The clock shows a multiple, or one was left out since it was looked at.
            let is_start = start_of(now) == now || (now > before + QUARTER && start_of(now) > before);
            if is_start && (!width.is_days() || days_seen.insert(start_of(now))) {
                found.insert(time);
            }
        }
        found
    }

    #[test]
    fn buckets_begin_where_the_clock_shows_a_multiple() {
        let zones = [
            ("America/New_York", "2024-03-10T00:00:00Z"),
            ("America/New_York", "2024-11-03T00:00:00Z"),
            // Midnight is left out, and comes twice.
            ("America/Sao_Paulo", "2018-11-03T12:00:00Z"),
            ("America/Sao_Paulo", "2018-02-17T12:00:00Z"),
            ("America/Havana", "2024-11-03T00:00:00Z"),
            ("America/Havana", "2024-03-10T00:00:00Z"),
            // Half an hour.
            ("Australia/Lord_Howe", "2024-04-06T00:00:00Z"),
            ("Australia/Lord_Howe", "2024-10-05T00:00:00Z"),
            // A whole day is left out.
            ("Pacific/Apia", "2011-12-29T12:00:00Z"),
            ("Asia/Kolkata", "2024-01-01T00:00:00Z"),
        ];
        let widths = [QUARTER, 3 * QUARTER, HOUR, 4 * HOUR, 7 * HOUR, DAY, 2 * DAY, 7 * DAY];
        for (name, near) in zones {
            let zone = TimeZone::get(name).unwrap();
            let (from, to) = (ns(near) - 9 * DAY, ns(near) + 4 * DAY);
            for width in widths.map(Width::Nanos).into_iter().chain([Width::Months(1)]) {
                let grid = grid(width, name);
                let starts = starts(&zone, width, (from, to));
                let mut last = None;
                for time in (from..to).step_by(QUARTER as usize) {
                    let bucket = grid.bucket(time).unwrap();
                    assert!(bucket.has(time), "{name} {width:?} {time} {bucket:?}");
                    if let Some(expected) = starts.range(..=time).next_back() {
                        assert_eq!(bucket.start, *expected, "{name} {width:?} {time}");
                    }
                    if let Some(last) = last.filter(|last: &Bucket| last.start != bucket.start) {
                        let next = grid.next(last).map(|next| next.start);
                        assert_eq!(next, Some(bucket.start), "{name} {width:?} {time}");
                    }
                    last = Some(bucket);
                }
            }
        }
    }

    #[test]
    fn days_have_23_and_25_hours() {
        let days = grid(Width::Nanos(DAY), "America/New_York");
        let length = |text| {
            let bucket = days.bucket(ns(text)).unwrap();
            (days.next(bucket).unwrap().start - bucket.start) / HOUR
        };
        assert_eq!(length("2024-03-10T12:00:00Z"), 23);
        assert_eq!(length("2024-03-11T12:00:00Z"), 24);
        assert_eq!(length("2024-11-03T12:00:00Z"), 25);
    }

    #[test]
    fn origins_are_instants_or_what_a_clock_shows() {
        let zone = TimeZone::get("America/New_York").unwrap();
        let local = Origin::Local("2024-01-02T09:30:00".parse().unwrap());
        let instant = Origin::Instant(ns("2024-01-02T14:30:00Z"));
        for origin in [local, instant] {
            let grid = Grid::new(Width::Nanos(DAY), Some(zone.clone()), origin).unwrap();
            assert_eq!(grid.bucket(ns("2024-07-03T13:29:59Z")).unwrap().start, ns("2024-07-02T13:30:00Z"));
            assert_eq!(grid.bucket(ns("2024-07-03T13:30:00Z")).unwrap().start, ns("2024-07-03T13:30:00Z"));
        }
        let grid = Grid::new(Width::Nanos(DAY), None, Origin::Default).unwrap();
        assert_eq!(grid.bucket(i64::MIN), None);
        assert_eq!(grid.next(grid.bucket(i64::MAX).unwrap()), None);
    }
}
