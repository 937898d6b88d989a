//! One element as q shows it.

use crate::atom::Atom;
use crate::kind::Type;
use std::fmt::{self, Display, Formatter};

const DAY_NS: i64 = 86_400_000_000_000;
const DAY_MS: i64 = 86_400_000;
/// Days from 0000-03-01 to 2000-01-01.
const DAYS_TO_2000: i64 = 730_425;

impl Display for Atom {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{}b", u8::from(*value)),
            Self::Byte(value) => write!(f, "0x{value:02x}"),
            Self::Char(letter) => Letters(&[*letter]).fmt(f),
            Self::Float(float) if !looks_whole(*float) => self.bare(f),
            other => {
                other.bare(f)?;
                f.write_str(suffix(other.ty()))
            }
        }
    }
}

impl Atom {
    /// Without its type suffix, as in a vector.
    pub(super) fn bare(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{}", u8::from(*value)),
            Self::Guid(bytes) => guid(bytes, f),
            Self::Byte(value) => write!(f, "{value:02x}"),
            Self::Char(letter) => Letters(&[*letter]).fmt(f),
            Self::Symbol(symbol) => write!(f, "`{}", symbol.text()),
            Self::Real(real) => float(f64::from(*real), real, f),
            Self::Float(value) => float(*value, value, f),
            Self::Datetime(days) if days.is_finite() => datetime(*days, f),
            Self::Datetime(days) => f.write_str(special(*days)),
            Self::Short(value) => integer(i64::from(*value), i64::from(i16::MAX), f, number),
            Self::Int(value) => integer(i64::from(*value), i64::from(i32::MAX), f, number),
            Self::Long(value) => integer(*value, i64::MAX, f, number),
            Self::Timestamp(value) => integer(*value, i64::MAX, f, timestamp),
            Self::Timespan(value) => integer(*value, i64::MAX, f, timespan),
            Self::Month(value) => integer(i64::from(*value), i64::from(i32::MAX), f, month),
            Self::Date(value) => integer(i64::from(*value), i64::from(i32::MAX), f, date),
            Self::Minute(value) => integer(i64::from(*value), i64::from(i32::MAX), f, minute),
            Self::Second(value) => integer(i64::from(*value), i64::from(i32::MAX), f, second),
            Self::Time(value) => integer(i64::from(*value), i64::from(i32::MAX), f, time),
        }?;
        self.mark(f)
    }

    /// Nulls and infinities of times have the suffix of their type.
    fn mark(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let letter = match self {
            Self::Datetime(days) if !days.is_finite() => 'z',
            Self::Timestamp(_) | Self::Timespan(_) if self.is_special(i64::MAX) => self.ty().letter(),
            Self::Date(_) | Self::Minute(_) | Self::Second(_) | Self::Time(_)
                if self.is_special(i64::from(i32::MAX)) =>
            {
                self.ty().letter()
            }
            _ => return Ok(()),
        };
        write!(f, "{letter}")
    }

    fn is_special(&self, max: i64) -> bool {
        self.as_integer().is_some_and(|value| value == max || value <= -max)
    }
}

/// The suffix of a number that could be of another type.
pub(super) fn suffix(ty: Type) -> &'static str {
    match ty {
        Type::Short => "h",
        Type::Int => "i",
        Type::Real => "e",
        Type::Float => "f",
        Type::Month => "m",
        _ => "",
    }
}

/// A text in quotes.
pub(super) struct Letters<'a>(pub &'a [u8]);

impl Display for Letters<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for letter in String::from_utf8_lossy(self.0).chars() {
            match letter {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                letter if letter.is_control() => write!(f, "\\{:03o}", letter as u32)?,
                letter => write!(f, "{letter}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A whole number, or its null or infinities.
fn integer(
    value: i64,
    max: i64,
    f: &mut Formatter<'_>,
    show: fn(i64, &mut Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    match value {
        value if value == max => f.write_str("0W"),
        value if value == -max => f.write_str("-0W"),
        value if value < -max => f.write_str("0N"),
        value => show(value, f),
    }
}

fn number(value: i64, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{value}")
}

/// What a datetime shows that is no time.
fn special(days: f64) -> &'static str {
    match days {
        f64::INFINITY => "0W",
        f64::NEG_INFINITY => "-0W",
        _ => "0N",
    }
}

/// `digits` is the number as it is, so that a real shows no digits of a float.
fn float(value: f64, digits: &(impl Display + fmt::LowerExp), f: &mut Formatter<'_>) -> fmt::Result {
    if value.is_nan() {
        f.write_str("0n")
    } else if value.is_infinite() {
        f.write_str(if value > 0.0 { "0w" } else { "-0w" })
    } else if exponent(value.abs()) {
        write!(f, "{digits:e}")
    } else {
        write!(f, "{digits}")
    }
}

/// Whether a float shows as a whole number would: only then it needs a letter.
pub(super) fn looks_whole(float: f64) -> bool {
    float.is_finite() && float.fract() == 0.0 && !exponent(float.abs())
}

fn exponent(size: f64) -> bool {
    size >= 1e15 || (size > 0.0 && size < 1e-5)
}

fn guid(bytes: &[u8; 16], f: &mut Formatter<'_>) -> fmt::Result {
    for (index, byte) in bytes.iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(f, "{dash}{byte:02x}")?;
    }
    Ok(())
}

fn timestamp(value: i64, f: &mut Formatter<'_>) -> fmt::Result {
    date(value.div_euclid(DAY_NS), f)?;
    f.write_str("D")?;
    clock_ns(value.rem_euclid(DAY_NS), f)
}

fn timespan(value: i64, f: &mut Formatter<'_>) -> fmt::Result {
    let sign = if value < 0 { "-" } else { "" };
    let value = value.abs();
    write!(f, "{sign}{}D", value / DAY_NS)?;
    clock_ns(value % DAY_NS, f)
}

fn clock_ns(value: i64, f: &mut Formatter<'_>) -> fmt::Result {
    second(value / 1_000_000_000, f)?;
    write!(f, ".{:09}", value % 1_000_000_000)
}

fn datetime(days: f64, f: &mut Formatter<'_>) -> fmt::Result {
    // Beyond these no year has four digits.
    let ms = (days.clamp(-1e7, 1e7) * DAY_MS as f64).round() as i64;
    date(ms.div_euclid(DAY_MS), f)?;
    f.write_str("T")?;
    time(ms.rem_euclid(DAY_MS), f)
}

/// Days since 2000-01-01, in the Gregorian calendar.
fn date(days: i64, f: &mut Formatter<'_>) -> fmt::Result {
    let (year, month, day) = civil(days);
    write!(f, "{year:04}.{month:02}.{day:02}")
}

/// Year, month and day of a number of days since 2000-01-01: years begin in March, so that the leap day is their last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_2000;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let is_next_year = month >= 10;
    let month = if is_next_year { month - 9 } else { month + 3 };
    (era * 400 + year + i64::from(is_next_year), month, day)
}

fn month(months: i64, f: &mut Formatter<'_>) -> fmt::Result {
    write!(f, "{:04}.{:02}", 2000 + months.div_euclid(12), months.rem_euclid(12) + 1)
}

fn minute(minutes: i64, f: &mut Formatter<'_>) -> fmt::Result {
    let sign = if minutes < 0 { "-" } else { "" };
    write!(f, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

fn second(seconds: i64, f: &mut Formatter<'_>) -> fmt::Result {
    let sign = if seconds < 0 { "-" } else { "" };
    let minutes = seconds.abs() / 60;
    write!(f, "{sign}{:02}:{:02}:{:02}", minutes / 60, minutes % 60, seconds.abs() % 60)
}

fn time(ms: i64, f: &mut Formatter<'_>) -> fmt::Result {
    let sign = if ms < 0 { "-" } else { "" };
    f.write_str(sign)?;
    second(ms.abs() / 1000, f)?;
    write!(f, ".{:03}", ms.abs() % 1000)
}
