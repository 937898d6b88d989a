//! Files of a table, as its manifests name them.

use crate::bounds::Metrics;
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
        let Metrics { column_sizes, value_counts, null_counts, lower, upper, split_offsets } =
            self.metrics.clone();
        let bucket = with_buckets.then_some(self.partition.bucket);
        DataFile {
            path: self.url.clone(),
            partition: std::iter::once(self.partition.day).chain(bucket).collect(),
            rows: self.rows,
            bytes: self.bytes,
            column_sizes,
            value_counts,
            null_counts,
            lower,
            upper,
            split_offsets,
            sort_order,
        }
    }
}

/// The folder of a partition, as engines name it.
pub(crate) fn folder(partition: Partition, with_buckets: bool) -> String {
    let day = date(partition.day);
    if with_buckets {
        format!("time_day={day}/symbol_bucket={}", partition.bucket)
    } else {
        format!("time_day={day}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (day, text) in
            [(0, "1970-01-01"), (-1, "1969-12-31"), (19_782, "2024-02-29"), (20_089, "2025-01-01")]
        {
            assert_eq!(date(day), text);
        }
        let partition = Partition { day: 0, bucket: 3 };
        assert_eq!(folder(partition, true), "time_day=1970-01-01/symbol_bucket=3");
    }
}
