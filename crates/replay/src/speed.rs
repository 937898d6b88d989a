//! How fast history passes.

use std::fmt;
use std::str::FromStr;

/// Range of a factor: slower than a day in a second of a million years, or faster than a year in a millisecond, is a mistake.
const FACTORS: std::ops::RangeInclusive<f64> = 1e-6..=1e12;

/// How fast history passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// So many seconds of history in a second: 1.0 is as it happened. Finite, from 1e-6 to 1e12.
    Times(f64),
    /// Without waiting.
    Max,
}

/// A text that is no speed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSpeed(String);

impl fmt::Display for InvalidSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no speed; write 1x, 10x, 0.5x or max", self.0)
    }
}

impl std::error::Error for InvalidSpeed {}

impl FromStr for Speed {
    type Err = InvalidSpeed;

    fn from_str(text: &str) -> Result<Self, InvalidSpeed> {
        if text.eq_ignore_ascii_case("max") {
            return Ok(Self::Max);
        }
        let number = text.strip_suffix(['x', 'X']).unwrap_or(text);
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let factor = number.parse().ok().filter(|factor| is_plain && FACTORS.contains(factor));
        factor.map(Self::Times).ok_or_else(|| InvalidSpeed(text.to_string()))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Times(factor) => write!(f, "{factor}x"),
            Self::Max => f.write_str("max"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_and_shown() {
        for (text, shown) in [("1x", "1x"), ("10", "10x"), ("0.5X", "0.5x"), ("MAX", "max")] {
            assert_eq!(text.parse::<Speed>().unwrap().to_string(), shown);
        }
        for text in ["", "x", "0", "-1x", "nan", "infx", "1e3x", "1xx", "0.0000001x"] {
            assert!(text.parse::<Speed>().unwrap_err().to_string().contains("write 1x"), "{text}");
        }
    }
}
