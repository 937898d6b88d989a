//! Scalars of JSON as they are written: every digit of a number, in quotes or not.

use serde::de::{self, Deserialize, Deserializer};
use serde_json::value::RawValue;
use tapedb_schema::{Decimal64, DecimalError};

/// Digits of a decimal.
const DIGITS_MAX: usize = 16;

/// A number, a string without escapes, or `true` and `false`, as written and without quotes; `null` is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Scalar<'a>(pub(crate) &'a str);

impl<'a> Scalar<'a> {
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u64(self) -> Option<u64> {
        self.0.parse().ok().filter(|_| self.0.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// `None` for an empty one.
    pub(crate) fn some(self) -> Option<&'a str> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &'a RawValue = Deserialize::deserialize(deserializer)?;
        of_raw(raw).ok_or_else(|| de::Error::custom("a number or a string without escapes was expected"))
    }
}

/// `None` for arrays, objects and strings with escapes.
pub(crate) fn of_raw(raw: &RawValue) -> Option<Scalar<'_>> {
    let text = raw.get();
    match text.as_bytes().first()? {
        b'"' => text.get(1..text.len() - 1).filter(|text| !text.contains('\\')).map(Scalar),
        b'{' | b'[' => None,
        b'n' => Some(Scalar("")),
        _ => Some(Scalar(text)),
    }
}

/// A decimal, and whether it was rounded.
///
/// # Errors
/// Those of [`Decimal64::parse_bytes`]; with `round`, never [`DecimalError::Digits`].
pub(crate) fn decimal(text: &str, round: bool) -> Result<(Decimal64, bool), DecimalError> {
    match Decimal64::parse_bytes(text.as_bytes()) {
        Ok(number) if number.is_finite() => Ok((number, false)),
        Ok(_) => Err(DecimalError::Syntax { at: 0 }),
        Err(DecimalError::Digits { .. }) if round => rounded(text).map(|number| (number, true)),
        Err(error) => Err(error),
    }
}

/// A text of JSON whose numbers in quotes, if they have too many digits, are rounded, and how many were; `None`: none has, or there are
/// escapes.
pub(crate) fn round_quoted(json: &str) -> Option<(String, u64)> {
    if json.contains('\\') {
        return None;
    }
    let (mut text, mut count) = (String::new(), 0);
    for (at, part) in json.split('"').enumerate() {
        if at > 0 {
            text.push('"');
        }
        let is_number = at % 2 == 1
            && part.len() > DIGITS_MAX
            && part.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        match decimal(part, true) {
            Ok((number, true)) if is_number => {
                text.push_str(&number.to_string());
                count += 1;
            }
            _ => text.push_str(part),
        }
    }
    (count > 0).then_some((text, count))
}

/// The nearest decimal of 16 digits, the even one of two that are as near. The text is a number with more digits.
fn rounded(text: &str) -> Result<Decimal64, DecimalError> {
    let (mantissa, written) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let written: i64 = written.parse().map_err(|_| DecimalError::Syntax { at: mantissa.len() })?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = whole.chars().chain(fraction.chars()).filter(char::is_ascii_digit).collect();
    let digits = digits.trim_start_matches('0');
    let (kept, rest) = digits.split_at(digits.len().min(DIGITS_MAX));
    let number = kept.parse::<i64>().map_err(|_| DecimalError::Syntax { at: 0 })?;
    let up = match rest.as_bytes() {
        [] | [b'0'..=b'4', ..] => false,
        [b'5', after @ ..] if after.iter().all(|&digit| digit == b'0') => number % 2 == 1,
        _ => true,
    };
    let number = number + i64::from(up);
    let exponent = written + rest.len() as i64 - fraction.len() as i64;
    let exponent = exponent.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    Decimal64::from_parts(if text.starts_with('-') { -number } else { number }, exponent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_str;

    #[test]
    fn scalars_are_as_written() {
        for (json, text) in
            [("1.50", "1.50"), ("\"1.50\"", "1.50"), ("null", ""), ("true", "true"), ("1.28E7", "1.28E7")]
        {
            assert_eq!(from_str::<Scalar<'_>>(json).unwrap().0, text);
        }
        for json in ["[]", "{}", r#""a\"b""#] {
            assert!(from_str::<Scalar<'_>>(json).is_err(), "{json}");
        }
        assert_eq!(Scalar("12").u64(), Some(12));
        assert_eq!((Scalar("-1").u64(), Scalar("+1").u64(), Scalar("").u64()), (None, None, None));
    }

    #[test]
    fn only_numbers_in_quotes_are_rounded_in_a_text() {
        let text =
            r#"{"s":"A12345678901234567890","u":123456789012345678901,"p":["1.00000000000000051","2"]}"#;
        let rounded =
            r#"{"s":"A12345678901234567890","u":123456789012345678901,"p":["1.000000000000001","2"]}"#;
        assert_eq!(round_quoted(text), Some((rounded.into(), 1)));
        assert_eq!(round_quoted(r#"{"p":"1.5","q":"1.0000000000000000000"}"#), None);
        assert_eq!(round_quoted(r#"{"s":"\"","p":"1.00000000000000051"}"#), None);
    }

    #[test]
    fn long_numbers_are_refused_or_rounded_but_never_silently() {
        assert!(matches!(decimal("3307.9982700421942", false), Err(DecimalError::Digits { .. })));
        let round =
            |text| decimal(text, true).map(|(number, rounded)| (number.to_string(), rounded)).unwrap();
        assert_eq!(round("3307.9982700421942"), ("3307.998270042194".into(), true));
        assert_eq!(round("-1.00000000000000051"), ("-1.000000000000001".into(), true));
        assert_eq!(round("1.0000000000000005"), ("1.000000000000000".into(), true));
        assert_eq!(round("1.0000000000000015"), ("1.000000000000002".into(), true));
        assert_eq!(round("9999999999999999.6").0.parse::<Decimal64>().unwrap().to_f64(), 1e16);
        let (number, rounded) = decimal("1.7711743735802036E7", true).unwrap();
        assert!(rounded && number.to_f64() == 17_711_743.735_802_04, "{number}");
        assert_eq!(decimal("1.28E7", false).unwrap().0.to_f64(), 1.28e7);
        assert!(decimal("nan", true).is_err() && decimal("", true).is_err());
    }
}
