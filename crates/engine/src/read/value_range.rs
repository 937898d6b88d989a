//! Ranges of values, with which blocks are skipped by the smallest and largest values in their heads.

use crate::error::{Error, Invalid};
use tapedb_schema::Decimal64;
use tapedb_segment::{ColumnKind, Head};

/// A number that values of a column are compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// For integers, times (nanoseconds), counts, and scaled decimals in their units; for other numbers too.
    Int(i64),
    /// For `u64` above the largest `i64`.
    Unsigned(u64),
    /// For `f32` and `f64`; for integers too.
    Float(f64),
    /// For `decimal64`.
    Decimal(Decimal64),
}

/// The least and the largest of some numbers, both included; `None`: no bound.
pub type NumberRange = (Option<Number>, Option<Number>);

/// Values of a column from one number to another, by their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueRange {
    column: u16,
    kind: ColumnKind,
    least: Option<i64>,
    most: Option<i64>,
}

impl ValueRange {
    /// The values from `least` to `most`, as far as they are given, of the column of that number.
    ///
    /// # Errors
    /// [`Invalid::Cursor`] where they are not numbers as the column has them.
    pub fn new(
        (field, column, kind): (&str, u16, ColumnKind),
        (least, most): NumberRange,
    ) -> Result<Self, Error> {
        let bits = |number: Number, is_least: bool| {
            bits_of(number, kind, is_least).ok_or_else(|| {
                let what =
                    format!("{number:?} cannot be compared with values of {field}, which are {kind:?}");
                Error::Invalid(Invalid::Cursor { what })
            })
        };
        let least = least.map(|number| bits(number, true)).transpose()?;
        let most = most.map(|number| bits(number, false)).transpose()?;
        Ok(Self { column, kind, least, most })
    }

    /// Whether a block may have such values in a record type.
    pub fn may_be_in(&self, head: &Head, type_id: u16) -> bool {
        head.may_have((type_id, self.column), self.kind, (self.least, self.most))
    }
}

/// The bits of the number that a column's values are compared with instead. Where it has no such number, a bound that lets more
/// through.
fn bits_of(number: Number, kind: ColumnKind, is_least: bool) -> Option<i64> {
    match (kind, number) {
        (_, Number::Float(float)) if float.is_nan() => None,
        (ColumnKind::F64, Number::Float(float)) => Some(float.to_bits() as i64),
        (ColumnKind::F64, Number::Int(int)) => {
            let near = int as f64;
            let float = if is_least { near.next_down() } else { near.next_up() };
            Some(float.to_bits() as i64)
        }
        (ColumnKind::F32, Number::Float(float)) => Some(wide_f32(float as f32, is_least)),
        (ColumnKind::F32, Number::Int(int)) => Some(wide_f32(int as f32, is_least)),
        (ColumnKind::Decimal64, Number::Decimal(decimal)) => Some(decimal.to_bits() as i64),
        (ColumnKind::Decimal64, Number::Int(int)) => {
            Some(Decimal64::from_parts(int, 0).ok()?.to_bits() as i64)
        }
        (ColumnKind::Int { width: 8, signed: false }, Number::Unsigned(number)) => Some(number as i64),
        (ColumnKind::Int { width: 8, signed: false }, Number::Int(int)) => {
            // A negative bound is below all values; as the larger one it lets zeros through, which is too many.
            Some(int.max(0))
        }
        (ColumnKind::Int { width: 8, signed: false }, Number::Float(float)) => {
            Some((if is_least { float.floor() } else { float.ceil() }) as u64 as i64)
        }
        (ColumnKind::Int { .. } | ColumnKind::Count, Number::Int(int)) => Some(int),
        (ColumnKind::Int { .. } | ColumnKind::Count, Number::Unsigned(number)) => {
            Some(i64::try_from(number).unwrap_or(i64::MAX))
        }
        (ColumnKind::Int { .. } | ColumnKind::Count, Number::Float(float)) => {
            Some((if is_least { float.floor() } else { float.ceil() }) as i64)
        }
        _ => None,
    }
}

/// A bound next to a rounded number.
fn wide_f32(near: f32, is_least: bool) -> i64 {
    let float = if is_least { near.next_down() } else { near.next_up() };
    i64::from(float.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_are_rounded_let_more_through() {
        let f64_of =
            |number, is_least| f64::from_bits(bits_of(number, ColumnKind::F64, is_least).unwrap() as u64);
        let large = (1i64 << 53) + 1;
        assert!(
            f64_of(Number::Int(large), true) < large as f64
                && f64_of(Number::Int(large), false) > large as f64
        );
        assert_eq!(f64_of(Number::Float(0.1), true), 0.1);
        let f32_of =
            |number, is_least| f32::from_bits(bits_of(number, ColumnKind::F32, is_least).unwrap() as u32);
        assert!(f64::from(f32_of(Number::Float(0.1), true)) < 0.1);
        assert!(f64::from(f32_of(Number::Float(0.1), false)) > 0.1);
        let int = ColumnKind::Int { width: 4, signed: true };
        assert_eq!(bits_of(Number::Float(1.5), int, true), Some(1));
        assert_eq!(bits_of(Number::Float(1.5), int, false), Some(2));
        assert_eq!(bits_of(Number::Float(f64::NAN), int, false), None);
        let unsigned = ColumnKind::Int { width: 8, signed: false };
        assert_eq!(bits_of(Number::Int(-5), unsigned, true), Some(0));
        assert_eq!(bits_of(Number::Unsigned(u64::MAX), unsigned, true), Some(-1));
        assert_eq!(bits_of(Number::Float(1e30), unsigned, false), Some(-1));
        assert_eq!(bits_of(Number::Unsigned(u64::MAX), int, false), Some(i64::MAX));
        assert_eq!(bits_of(Number::Int(1), ColumnKind::Bytes, true), None);
        assert_eq!(bits_of(Number::Float(1.0), ColumnKind::Decimal64, true), None);
    }
}
