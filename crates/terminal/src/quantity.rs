//! Counts, sizes, durations and times as they are written on command lines.

use std::time::Duration;
use tapedb_schema::{TimeUnit, Timestamp};

/// A count such as `250`, `500k`, `10M`, `1.5G` or `1_000_000`.
pub fn count(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is not a count; write for example 250, 500k, 10M or 1_000_000");
    let plain = text.replace('_', "");
    let digits = plain.trim_end_matches(['k', 'K', 'm', 'M', 'g', 'G']);
    let unit = match &plain[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        _ => return Err(bad()),
    };
    scaled(digits, unit).ok_or_else(bad)
}

/// A size such as `4096`, `64MiB`, `1.5GiB` or `500GB`, in bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is not a size; write for example 64MiB, 1.5GiB or 500GB");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(bad()),
    };
    scaled(digits, unit).ok_or_else(bad)
}

/// A duration such as `250ms`, `10s`, `5m`, `2h` or `1d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration; write for example 250ms, 10s, 5m, 2h or 1d");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let nanos = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(bad()),
    };
    scaled(digits, nanos).map(Duration::from_nanos).ok_or_else(bad)
}

/// A time as [`Timestamp`] parses it, and numbers with a unit, such as `1381156202s` and `1381156202123.5ms`. Refuses bare
/// numbers that are too small to be nanoseconds.
pub fn time(text: &str) -> Result<Timestamp, String> {
    const FORMS: &str = "write 2024-01-02, 2024-01-02T14:30:00.5Z (UTC unless it names an offset), nanoseconds since 1970, or a number with its \
         unit, such as 1704205800s or 1704205800000ms";
    if let Ok(number) = text.parse::<i64>()
        && !TimeUnit::Nanos.is_plausible(number)
    {
        let guess = TimeUnit::of(number)
            .map(|unit| format!("; for {}, write {text}{unit}", unit.name()))
            .unwrap_or_default();
        let in_nanos = Timestamp(number);
        return Err(format!(
            "a bare number counts nanoseconds since 1970, so this is {in_nanos}{guess}; or {FORMS}"
        ));
    }
    if let Some(time) = with_unit(text) {
        return time
            .ok_or_else(|| format!("{text:?} is out of the range of times, or finer than a nanosecond"));
    }
    text.parse().map_err(|error| format!("{error}; {FORMS}"))
}

/// The time of a number with a unit; `None` if the text has another form.
fn with_unit(text: &str) -> Option<Option<Timestamp>> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit: TimeUnit = text[number.len()..].parse().ok()?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte));
    is_number.then(|| unit.parse(number))
}

/// `digits`, with or without a fraction, times `unit`, exactly.
fn scaled(digits: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || fraction.len() > 18 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let power = 10u128.pow(fraction.len() as u32);
    let part = fraction.parse::<u128>().unwrap_or(0) * u128::from(unit);
    (part.is_multiple_of(power)).then_some(())?;
    whole.checked_add(u64::try_from(part / power).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let good = [("0", 0), ("250", 250), ("500k", 500_000), ("10M", 10_000_000), ("1.5G", 1_500_000_000)];
        for (text, value) in good.into_iter().chain([("1_000_000", 1_000_000)]) {
            assert_eq!(count(text), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "1.5", "1kk", "10 M", "99999999999G", "1.0000001M", "ten"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes() {
        let good =
            [("0", 0), ("4096", 4096), ("64MiB", 64 << 20), ("1.5GiB", 3 << 29), ("2TB", 2_000_000_000_000)];
        for (text, value) in good {
            assert_eq!(size(text), Ok(value), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5", "64 MiB", "64M", "99999999TiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        for text in ["2024-01-02", "2024-01-02T14:30", "1704205805000000000", "-1704205805000000000ns"] {
            assert!(time(text).is_ok(), "{text}");
        }
        for text in
            ["20240102", "1704205805", "1704205805000", "2024", "0", "-5", "-1704205805000000000", "noon"]
        {
            assert!(time(text).unwrap_err().contains("write 2024-01-02"), "{text}");
        }
    }

    #[test]
    fn numbers_need_a_unit() {
        let at = |text: &str| time(text).map(|time| time.to_string());
        for text in ["1381156202s", "1381156202000ms", "1381156202000000us", "1381156202000000000ns"] {
            assert_eq!(at(text).unwrap(), "2013-10-07T14:30:02Z", "{text}");
        }
        assert_eq!(at("1381156202.25s").unwrap(), "2013-10-07T14:30:02.250Z");
        assert_eq!(at("-1s").unwrap(), "1969-12-31T23:59:59Z");
        assert!(at("1381156202").unwrap_err().contains("for seconds, write 1381156202s"));
        assert!(at("1381156202000").unwrap_err().contains("for milliseconds, write 1381156202000ms"));
        for text in ["99999999999s", "1.5ns", "1.2.3s", "s", "1m", "1h", "1381156202 s"] {
            assert!(at(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for text in ["", "10", "s", "-1s", "5 m", "1y", "1000000d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
