//! Dates and times as PostgreSQL's texts. Its timestamps have microseconds.

use tapedb_query::arrow::datatypes::IntervalMonthDayNano;

/// Days from 1970 to 2000, from which PostgreSQL counts.
pub(crate) const DAYS_TO_2000: i32 = 10_957;
/// The same in microseconds.
pub(crate) const MICROS_TO_2000: i64 = DAYS_TO_2000 as i64 * DAY;
const DAY: i64 = 86_400_000_000;

/// Year, month and day of a day since 1970.
fn civil(day: i64) -> (i64, u32, u32) {
    // Years begin in March, so that the day that is not always there is the last one; an era has 400 years.
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    (era * 400 + year + i64::from(month <= 2), month, day)
}

fn two(value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
}

/// Writes a day since 1970.
pub(crate) fn date(day: i64, out: &mut Vec<u8>) {
    let (year, month, of_month) = civil(day);
    match u32::try_from(year) {
        Ok(year @ 1..=9999) => {
            two(year / 100, out);
            two(year % 100, out);
        }
        _ => out.extend(format!("{year:04}").bytes()),
    }
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(of_month, out);
}

/// Writes microseconds since midnight.
pub(crate) fn time(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros.div_euclid(1_000_000);
    let fraction = micros.rem_euclid(1_000_000) as u32;
    two((seconds / 3600) as u32, out);
    out.push(b':');
    two((seconds / 60 % 60) as u32, out);
    out.push(b':');
    two((seconds % 60) as u32, out);
    if fraction > 0 {
        out.push(b'.');
        let at = out.len();
        two(fraction / 10_000, out);
        two(fraction / 100 % 100, out);
        two(fraction % 100, out);
        while out.len() > at && out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Writes microseconds since 1970.
pub(crate) fn timestamp(micros: i64, is_utc: bool, out: &mut Vec<u8>) {
    date(micros.div_euclid(DAY), out);
    out.push(b' ');
    time(micros.rem_euclid(DAY), out);
    if is_utc {
        out.extend_from_slice(b"+00");
    }
}

/// Writes an interval.
pub(crate) fn interval(value: &IntervalMonthDayNano, out: &mut Vec<u8>) {
    if value.months != 0 {
        out.extend(format!("{} mons ", value.months).bytes());
    }
    if value.days != 0 {
        out.extend(format!("{} days ", value.days).bytes());
    }
    if value.nanoseconds < 0 {
        out.push(b'-');
    }
    let micros = (value.nanoseconds.unsigned_abs() / 1000) as i64;
    match micros / 3_600_000_000 {
        // `time` writes two digits of hours.
        0..100 => time(micros, out),
        hours => {
            out.extend(format!("{hours}").bytes());
            let mut rest = Vec::new();
            time(micros % 3_600_000_000, &mut rest);
            out.extend(&rest[2..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_texts() {
        assert_eq!(text(|out| timestamp(0, true, out)), "1970-01-01 00:00:00+00");
        assert_eq!(text(|out| timestamp(-1, true, out)), "1969-12-31 23:59:59.999999+00");
        assert_eq!(text(|out| timestamp(1_704_205_800_120_000, false, out)), "2024-01-02 14:30:00.12");
        assert_eq!(text(|out| date(11_016, out)), "2000-02-29");
        assert_eq!(text(|out| date(i64::from(DAYS_TO_2000), out)), "2000-01-01");
        let value = IntervalMonthDayNano { months: 1, days: -2, nanoseconds: 360_001_000_000_000 };
        assert_eq!(text(|out| interval(&value, out)), "1 mons -2 days 100:00:01");
    }
}
