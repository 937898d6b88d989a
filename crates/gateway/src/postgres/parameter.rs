//! Values of parameters, in PostgreSQL's texts and bytes.

use crate::postgres::array;
use crate::postgres::failure::Failure;
use crate::postgres::numeric;
use crate::postgres::times::{DAYS_TO_2000, MICROS_TO_2000};
use crate::postgres::types::Type;
use datafusion::common::ScalarValue;
use tapedb_query::arrow::datatypes::DataType;
use tapedb_query::arrow::datatypes::TimeUnit;

/// The type of a parameter without one: `oid` is what the client states, `inferred` what the query does.
pub(crate) fn oid_of(oid: u32, inferred: Option<&DataType>) -> u32 {
    match inferred {
        _ if !is_unstated(oid) => oid,
        Some(inferred) => Type::of_data(inferred).oid(),
        None => Type::Text.oid(),
    }
}

/// Whether a client leaves the type of a parameter to the query.
pub(crate) fn is_unstated(oid: u32) -> bool {
    matches!(oid, 0 | 705)
}

/// A value of a type.
///
/// # Errors
/// When the bytes are none.
pub(crate) fn value(oid: u32, is_binary: bool, bytes: Option<&[u8]>) -> Result<ScalarValue, Failure> {
    let ty = Type::of_oid(oid);
    let Some(bytes) = bytes else {
        return Ok(ty.and_then(|ty| null(&ty)).unwrap_or(ScalarValue::Utf8(None)));
    };
    match (ty, is_binary) {
        (None, true) => Err(Failure::unsupported(format!(
            "binary parameters of type {oid} are not supported; send a text"
        ))),
        (ty, false) => text(&ty.unwrap_or(Type::Text), bytes),
        (Some(ty), true) => binary(&ty, bytes).ok_or_else(|| match ty {
            Type::Timestamp | Type::Timestamptz if bytes.len() == 8 => far_time(),
            _ => Failure::new(
                "22P03",
                format!("a binary parameter of type {oid} with {} bytes is none", bytes.len()),
            ),
        }),
    }
}

/// A time that PostgreSQL has, and nanoseconds do not: people write the end of time so.
fn far_time() -> Failure {
    let what = "a time is before 1677-09-22 or after 2262-04-11, the range of nanoseconds of 64 bits; leave the bound out, or take one \
                of the range";
    Failure::new("22008", what)
}

/// Whether a text is a time outside of that range, by its year.
fn is_far(text: &str) -> bool {
    let digits =
        text.trim_start_matches('-').split(|byte: char| !byte.is_ascii_digit()).next().unwrap_or_default();
    let is_infinite = text.trim_start_matches('-').eq_ignore_ascii_case("infinity");
    is_infinite || digits.len() >= 4 && digits.parse::<u64>().is_ok_and(|year| !(1678..=2261).contains(&year))
}

fn null(ty: &Type) -> Option<ScalarValue> {
    ScalarValue::try_from(&data_type(ty)).ok()
}

/// The type of values of a parameter; of decimals, what they have in common depends on them.
pub(crate) fn data_type(ty: &Type) -> DataType {
    match ty {
        Type::Array(item) => DataType::new_list(data_type(item), true),
        Type::Bool => DataType::Boolean,
        Type::Int2 => DataType::Int16,
        Type::Int4 => DataType::Int32,
        Type::Int8 | Type::Oid => DataType::Int64,
        Type::Float4 => DataType::Float32,
        Type::Float8 => DataType::Float64,
        Type::Bytea => DataType::Binary,
        Type::Date => DataType::Date32,
        Type::Time => DataType::Time64(TimeUnit::Nanosecond),
        Type::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
        Type::Timestamptz => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        _ => DataType::Utf8,
    }
}

pub(crate) fn text(ty: &Type, bytes: &[u8]) -> Result<ScalarValue, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| Failure::new("22021", "a parameter is not UTF-8"))?;
    let wrong = || Failure::new("22P02", format!("{text:?} is no value of the type of its parameter"));
    match ty {
        Type::Text | Type::Name | Type::Char | Type::Json | Type::Interval => {
            Ok(ScalarValue::Utf8(Some(text.into())))
        }
        Type::Array(item) => array::of_text(item, text)?.ok_or_else(wrong),
        Type::Bool => match text.trim().to_ascii_lowercase().as_str() {
            "t" | "true" | "1" | "on" | "yes" | "y" => Ok(ScalarValue::Boolean(Some(true))),
            "f" | "false" | "0" | "off" | "no" | "n" => Ok(ScalarValue::Boolean(Some(false))),
            _ => Err(wrong()),
        },
        Type::Numeric(_) => decimal(text.trim()).ok_or_else(wrong),
        Type::Bytea => {
            let digits = text.strip_prefix("\\x").ok_or_else(wrong)?;
            let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
            let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
                [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
                _ => None,
            });
            pairs.collect::<Option<Vec<u8>>>().map(|bytes| ScalarValue::Binary(Some(bytes))).ok_or_else(wrong)
        }
        Type::Float4 | Type::Float8 => {
            let value: f64 = text.trim().parse().map_err(|_| wrong())?;
            Ok(match ty {
                Type::Float4 => ScalarValue::Float32(Some(value as f32)),
                _ => ScalarValue::Float64(Some(value)),
            })
        }
        other => {
            let parsed = ScalarValue::try_from_string(text.trim().into(), &data_type(other));
            parsed.map_err(|_| match other {
                Type::Timestamp | Type::Timestamptz if is_far(text.trim()) => far_time(),
                _ => wrong(),
            })
        }
    }
}

/// A decimal with as many digits behind the point as it has; `None`: it is none, or has too many.
fn decimal(text: &str) -> Option<ScalarValue> {
    if text.contains(['e', 'E']) || text.eq_ignore_ascii_case("nan") {
        return text.parse().ok().map(|value| ScalarValue::Float64(Some(value)));
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 37 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let units: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some(ScalarValue::Decimal128(Some(units), 38, fraction.len() as i8))
}

pub(crate) fn binary(ty: &Type, bytes: &[u8]) -> Option<ScalarValue> {
    let integer = || Some(i64::from_be_bytes(bytes.try_into().ok()?));
    let utc = || Some("UTC".into());
    let nanos = |micros: i64| micros.checked_add(MICROS_TO_2000)?.checked_mul(1000);
    Some(match ty {
        Type::Bool => match bytes {
            [0] => ScalarValue::Boolean(Some(false)),
            [1] => ScalarValue::Boolean(Some(true)),
            _ => return None,
        },
        Type::Int2 => ScalarValue::Int16(Some(i16::from_be_bytes(bytes.try_into().ok()?))),
        Type::Int4 => ScalarValue::Int32(Some(i32::from_be_bytes(bytes.try_into().ok()?))),
        Type::Int8 => ScalarValue::Int64(Some(integer()?)),
        Type::Oid => ScalarValue::Int64(Some(u32::from_be_bytes(bytes.try_into().ok()?).into())),
        Type::Float4 => ScalarValue::Float32(Some(f32::from_be_bytes(bytes.try_into().ok()?))),
        Type::Float8 => ScalarValue::Float64(Some(f64::from_be_bytes(bytes.try_into().ok()?))),
        Type::Text | Type::Name | Type::Char | Type::Json => {
            ScalarValue::Utf8(Some(std::str::from_utf8(bytes).ok()?.into()))
        }
        Type::Bytea => ScalarValue::Binary(Some(bytes.into())),
        Type::Date => {
            ScalarValue::Date32(Some(i32::from_be_bytes(bytes.try_into().ok()?).checked_add(DAYS_TO_2000)?))
        }
        Type::Time => ScalarValue::Time64Nanosecond(Some(integer()?.checked_mul(1000)?)),
        Type::Timestamp => ScalarValue::TimestampNanosecond(Some(nanos(integer()?)?), None),
        Type::Timestamptz => ScalarValue::TimestampNanosecond(Some(nanos(integer()?)?), utc()),
        Type::Numeric(_) => {
            let (units, scale) = numeric::read(bytes)?;
            ScalarValue::Decimal128(Some(units), 38, scale as i8)
        }
        Type::Interval => {
            let (micros, rest) = bytes.split_first_chunk::<8>()?;
            let (days, months) = rest.split_first_chunk::<4>()?;
            let nanos = i64::from_be_bytes(*micros).checked_mul(1000)?;
            let (days, months) = (i32::from_be_bytes(*days), i32::from_be_bytes(months.try_into().ok()?));
            ScalarValue::new_interval_mdn(months, days, nanos)
        }
        Type::Array(item) => array::of_bytes(item, bytes)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_both_forms() {
        for (oid, bytes, expected) in [
            (20, &7i64.to_be_bytes()[..], ScalarValue::Int64(Some(7))),
            (701, &0.5f64.to_be_bytes(), ScalarValue::Float64(Some(0.5))),
            (
                1184,
                &0i64.to_be_bytes(),
                ScalarValue::TimestampNanosecond(Some(946_684_800_000_000_000), Some("UTC".into())),
            ),
            (25, b"A", ScalarValue::Utf8(Some("A".into()))),
        ] {
            assert_eq!(value(oid, true, Some(bytes)), Ok(expected));
        }
        assert_eq!(value(1700, false, Some(b"-1.50")), Ok(ScalarValue::Decimal128(Some(-150), 38, 2)));
        assert_eq!(value(16, false, Some(b"t")), Ok(ScalarValue::Boolean(Some(true))));
        assert_eq!(value(20, false, None), Ok(ScalarValue::Int64(None)));
        assert_eq!(value(17, false, Some(b"\\x0aff")), Ok(ScalarValue::Binary(Some(vec![10, 255]))));
    }

    #[test]
    fn times_that_nanoseconds_do_not_have_are_named() {
        let far = 252_455_616_000_000_000i64.to_be_bytes();
        for (is_binary, bytes) in [
            (true, &far[..]),
            (true, &i64::MAX.to_be_bytes()),
            (false, b"9999-12-31 00:00:00+00"),
            (false, b"-infinity"),
        ] {
            let failure = value(1184, is_binary, Some(bytes)).unwrap_err();
            assert!(failure.state == "22008" && failure.text.contains("2262"), "{failure:?}");
        }
        assert!(value(1184, false, Some(b"2024-13-01")).is_err_and(|failure| failure.state == "22P02"));
    }

    #[test]
    fn what_is_no_value_is_an_error() {
        for (oid, is_binary, bytes) in [
            (20, true, &b"1234"[..]),
            (1184, true, &i64::MAX.to_be_bytes()),
            (20, false, b"x"),
            (17, false, b"\\x0"),
            (1700, false, b"1.-5"),
            (25, false, b"\xff"),
            (25, true, b"\xff"),
            (1186, true, b"123456789"),
            (600, true, b""),
        ] {
            assert!(value(oid, is_binary, Some(bytes)).is_err(), "{oid} {bytes:?}");
        }
    }
}
