//! Values of fields that a message does not have.

use super::error::{EncodeError, need};
use super::layouts::{Layouts, TypeLayout};
use super::value::Value;
use tapedb_schema::{Ascii, Literal, Scalar, Timestamp};

impl Layouts {
    /// The value of a field that is left out: its default, or null.
    ///
    /// # Errors
    /// For a field that has no default and cannot be null.
    pub(crate) fn default_of(&self, type_id: u16, index: usize) -> Result<Value, EncodeError> {
        let field = &self.schema().records[usize::from(type_id)].fields[index];
        let ty = &self.records()[usize::from(type_id)].fields[index].ty;
        match &field.default {
            None | Some(Literal::Null) if field.nullable => Ok(Value::Null),
            None => Err(EncodeError::new(need(ty), "nothing")),
            // A valid schema's defaults fit their fields.
            Some(literal) => {
                self.value_of(ty, literal).ok_or_else(|| EncodeError::new(need(ty), literal.to_string()))
            }
        }
    }

    fn value_of(&self, ty: &TypeLayout, literal: &Literal) -> Option<Value> {
        use TypeLayout as T;
        Some(match (ty, literal) {
            (T::Scalar(scalar), literal) => scalar_of(*scalar, literal)?,
            (T::String, Literal::Text(x)) => Value::Text(x.clone()),
            (T::Enum { index, .. }, Literal::Symbol(x)) => {
                Value::Enum(self.schema().enums[*index].ordinal(x)?)
            }
            _ => return None,
        })
    }
}

fn scalar_of(ty: Scalar, literal: &Literal) -> Option<Value> {
    use Scalar as T;
    Some(match (ty, literal) {
        (T::Bool, Literal::Bool(x)) => Value::Bool(*x),
        (integer, number) if integer.is_integer() && integer.is_signed() => {
            Value::Int(number.integer()?.try_into().ok()?)
        }
        (integer, number) if integer.is_integer() => Value::UInt(number.integer()?.try_into().ok()?),
        // By way of the text: a decimal rounded to f64 and then to f32 may be rounded twice.
        (T::F32, number) => Value::F32(number.to_string().parse().ok()?),
        (T::F64, number) => Value::F64(number.float()?),
        (T::Decimal64, Literal::Number(x)) => Value::Decimal(*x),
        (T::Decimal64, Literal::Integer(x)) => Value::Decimal(x.to_string().parse().ok()?),
        (T::Decimal(scale), number) => Value::Scaled(number.scaled(scale).ok()?, scale),
        (T::Timestamp, Literal::Text(x)) => Value::Timestamp(x.parse().ok()?),
        (T::Timestamp, number) => Value::Timestamp(Timestamp(number.integer()?.try_into().ok()?)),
        (T::TimeOfDay, Literal::Text(x)) => Value::TimeOfDay(x.parse().ok()?),
        (T::TimeOfDay, number) => Value::TimeOfDay(number.integer()?.to_string().parse().ok()?),
        (T::Char, Literal::Text(x)) => Value::Char(x.chars().next()?),
        (T::Ascii(_), Literal::Text(x)) => Value::Ascii(Ascii::new(x).ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_schema::Schema;

    #[test]
    fn defaults_in_every_spelling() {
        let text = "enum Side { BID, ASK } message M { a: u8 = 255.0, b: decimal(18,0) = 1E3, c: timestamp = 1E18, \
                    d: f32 = 0.1, e: decimal64 = 1.50, f: ascii(4) = \"AB\", g: Side = ASK, h: i64 = -9223372036854775808, \
                    i: time_of_day = \"09:30\", j: decimal(18,2) = 1.5, k: char = \"x\", l: string = \"\", m: bool = true }";
        let layouts = Layouts::new(text.parse::<Schema>().unwrap()).unwrap();
        let record = layouts.from_json("{}").unwrap();
        let mut body = Vec::new();
        layouts.encode(&record, &mut body).unwrap();
        let mut json = Vec::new();
        layouts.view(0, &body).unwrap().write_json(&mut json);
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"$type":"M","a":255,"b":"1000","c":"2001-09-09T01:46:40Z","d":0.1,"e":"1.50","f":"AB","g":"ASK","h":-9223372036854775808,"i":"09:30:00","j":"1.50","k":"x","l":"","m":true}"#
        );
    }
}
