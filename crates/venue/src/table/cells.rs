//! Cells as values of fields: exactly, or refused.

use super::times::Times;
use tapedb_codec::dynamic::{FieldLayout, Layouts, TypeLayout, Value};
use tapedb_schema::{Ascii, Decimal64, Scalar};

/// Whether a field can be one cell.
pub(super) fn is_of_one_cell(ty: &TypeLayout) -> bool {
    !matches!(ty, TypeLayout::Array(_) | TypeLayout::Record(_) | TypeLayout::Binary)
}

/// The value of a cell; the error is what was expected. An empty cell is null where the field may be, and an empty text where it is one.
pub(super) fn value(
    layouts: &Layouts,
    field: &FieldLayout,
    text: &str,
    times: &mut Times,
) -> Result<Value, String> {
    if text.is_empty() && field.null_bit.is_some() {
        return Ok(Value::Null);
    }
    let needed = |what: &str| format!("{what} for the field {:?}", field.name);
    match &field.ty {
        TypeLayout::String => Ok(Value::Text(text.into())),
        TypeLayout::Enum { index, .. } => {
            let found = &layouts.schema().enums[*index];
            let value = found.ordinal(text).map(Value::Enum);
            value.ok_or_else(|| needed(&format!("a symbol of {}", found.name)))
        }
        TypeLayout::Scalar(Scalar::Timestamp) => {
            times.parse(text).map(Value::Timestamp).map_err(|what| needed(&what))
        }
        TypeLayout::Scalar(ty) => {
            scalar(*ty, text.trim_ascii()).ok_or_else(|| needed(&format!("a value of type {ty}")))
        }
        _ => Err(needed("a value of one cell")),
    }
}

fn scalar(ty: Scalar, text: &str) -> Option<Value> {
    Some(match ty {
        Scalar::Bool => Value::Bool(match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => true,
            "false" | "f" | "0" => false,
            _ => return None,
        }),
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => Value::Int(text.parse().ok()?),
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => Value::UInt(text.parse().ok()?),
        Scalar::F32 => {
            let value: f32 = text.parse().ok()?;
            Value::F32(holds(text, f64::from(value), 9).then_some(value)?)
        }
        Scalar::F64 => {
            let value: f64 = text.parse().ok()?;
            Value::F64(holds(text, value, 17).then_some(value)?)
        }
        Scalar::Decimal64 => Value::Decimal(text.parse().ok()?),
        Scalar::Decimal(scale) => {
            let decimal: Decimal64 = text.parse().ok()?;
            Value::Scaled(decimal.to_scaled(scale).ok()?, scale)
        }
        Scalar::TimeOfDay => Value::TimeOfDay(text.parse().ok().filter(|_| text.contains(':'))?),
        Scalar::Char => {
            let mut letters = text.chars();
            let letter = letters.next()?;
            letters.next().is_none().then_some(Value::Char(letter))?
        }
        Scalar::Ascii(_) => Value::Ascii(Ascii::new(text).ok()?),
        Scalar::Timestamp => return None,
    })
}

/// Whether a floating-point number of so many significant digits holds a text: it is the nearest one, and a whole number is that very number.
fn holds(text: &str, value: f64, digits_max: usize) -> bool {
    if let Ok(whole) = text.parse::<i128>() {
        return value.is_finite() && value as i128 == whole;
    }
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    value.is_finite() && digits.trim_matches('0').len() <= digits_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_numbers_lose_no_digits() {
        for (ty, text) in [
            ("f64", "0.10000000000000001"),
            ("f64", "-1.5E-7"),
            ("f64", "9007199254740992"),
            ("f64", "0.00000000000000000000125"),
            ("f32", "16777216"),
            ("f32", "0.100000001"),
        ] {
            assert!(read(ty, text).is_ok(), "{text}");
        }
        for (ty, text) in [
            ("f64", "0.123456789012345678"),
            ("f64", "9007199254740993"),
            ("f32", "16777217"),
            ("f32", "1e39"),
        ] {
            assert!(read(ty, text).unwrap_err().contains(ty), "{text}");
        }
    }

    fn read(ty: &str, text: &str) -> Result<Value, String> {
        let layouts = Layouts::new(format!("message Row {{ x: {ty} }}").parse().unwrap()).unwrap();
        value(&layouts, &layouts.records()[0].fields[0], text, &mut Times::default())
    }

    #[test]
    fn numbers_are_exact_or_refused() {
        let decimal = |text: &str| text.parse().map(Value::Decimal).unwrap();
        assert_eq!(read("decimal64", "1.28E7"), Ok(decimal("1.28E7")));
        assert_eq!(read("decimal64", "0.1234567890123456"), Ok(decimal("0.1234567890123456")));
        assert!(read("decimal64", "1.2345678901234567").unwrap_err().contains("field \"x\""));
        assert_eq!(read("decimal(18,2)", "12.5"), Ok(Value::Scaled(1_250, 2)));
        assert!(read("decimal(18,2)", "0.125").is_err() && read("i32", "1.0").is_err());
        assert!(read("f64", "NaN").is_err() && read("f64", "1e999").is_err());
    }

    #[test]
    fn empty_cells_are_null_where_they_may_be() {
        assert_eq!((read("i64?", ""), read("string", "")), (Ok(Value::Null), Ok(Value::Text(String::new()))));
        assert!(read("i64", "").is_err() && read("timestamp", "34200").is_err());
        assert_eq!((read("bool", "F"), read("char", "é")), (Ok(Value::Bool(false)), Ok(Value::Char('é'))));
        assert!(read("time_of_day", "34200").is_err() && read("ascii(4)?", "\u{e9}").is_err());
    }
}
