//! Files of a table, and the entries of manifests that name them.

use crate::bounds::{Bound, Metrics};
use crate::rows::Partition;
use crate::spec::manifest::DataFile;

/// A file that has been written, and is named nowhere yet.
#[derive(Debug, Clone)]
pub(crate) struct NewFile {
    pub url: String,
    pub partition: Partition,
    pub rows: u64,
    pub bytes: u64,
    pub metrics: Metrics,
}

impl NewFile {
    /// The entry of a manifest.
    pub fn entry(&self, with_buckets: bool, sort_order: i64) -> DataFile {
        let Metrics { column_sizes, value_counts, null_counts, bounds, split_offsets } = self.metrics.clone();
        let bytes = |upper: bool| {
            let of = |(least, most): &(Bound, Bound)| if upper { most.bytes() } else { least.bytes() };
            bounds.iter().map(|(id, pair)| (*id, of(pair))).collect()
        };
        let bucket = with_buckets.then_some(self.partition.bucket);
        DataFile {
            path: self.url.clone(),
            partition: std::iter::once(self.partition.day).chain(bucket).collect(),
            rows: self.rows,
            bytes: self.bytes,
            column_sizes,
            value_counts,
            null_counts,
            lower: bytes(false),
            upper: bytes(true),
            split_offsets,
            sort_order,
        }
    }
}

/// The name of the partition by day.
pub(crate) const DAY_PARTITION: &str = "time_day";

/// The folder of a partition, as engines name it.
pub(crate) fn folder(partition: Partition, with_buckets: bool) -> String {
    let day = date(partition.day);
    if with_buckets {
        format!("{DAY_PARTITION}={day}/symbol_bucket={}", partition.bucket)
    } else {
        format!("{DAY_PARTITION}={day}")
    }
}

/// A day since 1970 as a date.
pub(crate) fn date(day: i32) -> String {
    // Days from civil dates, backwards: eras of 400 years that begin in March.
    let days = i64::from(day) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The day of a date; `None`: it is no date.
pub(crate) fn day_of(date: &str) -> Option<i32> {
    let mut parts = date.rsplitn(3, '-');
    let (day, month) = (parts.next()?.parse::<i64>().ok()?, parts.next()?.parse::<i64>().ok()?);
    let year = parts.next()?.parse::<i64>().ok().filter(|year| year.abs() < 1_000_000)?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let days = of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1;
    i32::try_from(era * 146_097 + days - 719_468).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (day, text) in
            [(0, "1970-01-01"), (-1, "1969-12-31"), (19_782, "2024-02-29"), (20_089, "2025-01-01")]
        {
            assert_eq!((date(day), day_of(text)), (text.into(), Some(day)));
        }
        for text in ["", "2024", "2024-13-01", "2024-00-01", "x-01-01", "99999999999-01-01"] {
            assert_eq!(day_of(text), None, "{text}");
        }
        let partition = Partition { day: 0, bucket: 3 };
        assert_eq!(folder(partition, true), "time_day=1970-01-01/symbol_bucket=3");
    }
}
