//! `decimal(x, s)`: a number as a decimal with `s` digits behind the point, exactly or not at all.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_MATH;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// Digits of the result: those of a product of two are not more than a decimal may have.
const DIGITS: u8 = 18;

/// Doubles hold every integer up to this one.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exact {
    signature: Signature,
}

impl Default for Exact {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Exact {
    fn name(&self) -> &'static str {
        "decimal"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, digits] = types else {
            return plan_err!("write decimal(x, s), with the number of digits behind the point");
        };
        let value = match value {
            DataType::Null | DataType::Float16 | DataType::Float32 => DataType::Float64,
            number if number.is_numeric() => number.clone(),
            text if text.is_string() => DataType::Utf8,
            other => return plan_err!("decimal(x, s) is of a number, not {other}"),
        };
        match digits {
            digits if digits.is_integer() => Ok(vec![value, DataType::Int64]),
            other => plan_err!(
                "the second argument of decimal is the number of digits behind the point, not {other}"
            ),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        datafusion::common::internal_err!("the type depends on the digits")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let digits = match args.scalar_arguments.get(1) {
            Some(Some(ScalarValue::Int64(Some(digits)))) => *digits,
            _ => {
                return plan_err!(
                    "the second argument of decimal is a constant number of digits, 0 to {DIGITS}"
                );
            }
        };
        match i8::try_from(digits) {
            Ok(scale @ 0..=18) => {
                Ok(Arc::new(Field::new(self.name(), DataType::Decimal128(DIGITS, scale), true)))
            }
            _ => plan_err!("decimal has 0 to {DIGITS} digits behind the point, not {digits}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ty = args.return_field.data_type();
        match &args.args[0] {
            ColumnarValue::Array(values) => Ok(ColumnarValue::Array(exact(values, ty)?)),
            ColumnarValue::Scalar(value) => {
                let one = exact(&value.to_array()?, ty)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?))
            }
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        static PAGE: LazyLock<Documentation> = LazyLock::new(|| {
            let words = "The number as a decimal; one that is not exact with so many digits is an error.";
            Documentation::builder(DOC_SECTION_MATH, words, "decimal(x, s)")
                .with_argument("x", "A number or a text.")
                .with_argument("s", "Digits behind the point, a constant from 0 to 18.")
                .build()
        });
        Some(&PAGE)
    }
}

/// The values as decimals of a type.
fn exact(values: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(_, scale) = ty else {
        return datafusion::common::internal_err!("decimal returns decimals, not {ty}");
    };
    if *values.data_type() == DataType::Float64 {
        let floats = values.as_primitive::<Float64Type>();
        let factor = 10f64.powi((*scale).into());
        let units = floats.iter().map(|float| float.map(|float| of_float(float, factor, *scale)).transpose());
        let units = units.collect::<Result<Decimal128Array>>()?;
        return Ok(Arc::new(units.with_data_type(ty.clone())));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let decimals = cast_with_options(values, ty, &strict)?;
    // A cast rounds: what is not the same any more was not exact.
    let back = cast_with_options(&decimals, values.data_type(), &strict)?;
    let is_same = |row: usize| values.is_null(row) || texts_agree(values, &back, row);
    match (0..values.len()).find(|row| !is_same(*row)) {
        Some(row) => {
            let value = ScalarValue::try_from_array(values, row)?;
            exec_err!("{value} is not exact with scale {scale}; ask for more digits behind the point")
        }
        None => Ok(decimals),
    }
}

/// Whether a value is the same after a cast and back: texts as numbers.
fn texts_agree(values: &ArrayRef, back: &ArrayRef, row: usize) -> bool {
    match (values.as_string_opt::<i32>(), back.as_string_opt::<i32>()) {
        (Some(before), Some(after)) => normal(before.value(row)) == normal(after.value(row)),
        _ => values.slice(row, 1).to_data() == back.slice(row, 1).to_data(),
    }
}

/// A number's text without signs and zeros that change nothing.
fn normal(text: &str) -> String {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, rest) = (whole.trim_start_matches('0'), rest.trim_end_matches('0'));
    let sign = if whole.is_empty() && rest.is_empty() { "" } else { sign };
    format!("{sign}{whole}.{rest}")
}

/// The units of the decimal that a double is the nearest one of.
fn of_float(float: f64, factor: f64, scale: i8) -> Result<i128> {
    let units = (float * factor).round();
    // Both are exact, so their quotient is the nearest double of the decimal.
    if units.abs() <= INTEGER_MAX && units / factor == float {
        return Ok(units as i128);
    }
    if float.is_finite() && units.abs() > INTEGER_MAX {
        return exec_err!(
            "{float} has too many digits for a double with scale {scale}; ask for fewer digits behind the point"
        );
    }
    exec_err!("{float} is not exact with scale {scale}; ask for more digits behind the point")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_the_decimals_that_they_are_nearest_to() {
        for units in [0i64, 1, -1, 7, 12_345, -99_999_999, 1 << 52] {
            for scale in [0i8, 2, 4, 9] {
                let factor = 10f64.powi(scale.into());
                let float = format!("{units}e-{scale}").parse::<f64>().unwrap();
                assert_eq!(of_float(float, factor, scale).unwrap(), i128::from(units), "{units} {scale}");
            }
        }
        for float in [0.125, 1.0 / 3.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(of_float(float, 100.0, 2).is_err(), "{float}");
        }
    }

    #[test]
    fn numbers_agree_whatever_their_zeros() {
        for (a, b) in [("1.50", "+01.5"), ("-0", "0.00"), (".5", "0.5"), ("-2", "-2.0")] {
            assert_eq!(normal(a), normal(b), "{a} {b}");
        }
        assert_ne!(normal("1.5"), normal("-1.5"));
    }
}
