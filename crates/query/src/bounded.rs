//! Functions that make much of little, such as `repeat('x', 1000000000)`: what they make of a batch is bounded, for it is not in the memory
//! that operators account for.

use crate::error::{Error, Reason, wrapped};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNanoType};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry as _;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Bytes of a batch.
const BYTES_MAX: u128 = 256 << 20;
/// Bytes of an element of a list, at least.
const ELEMENT_BYTES: u128 = 8;
const DAY_NS: i128 = 86_400_000_000_000;

/// How large the results are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// The first argument as often as the second one states.
    Times,
    /// As many characters, or elements, as the second argument states.
    Length,
    /// Elements from the first argument to the second one, in steps of the third one.
    Steps,
}

/// The functions.
const FUNCTIONS: [(&str, Growth); 7] = [
    ("repeat", Growth::Times),
    ("array_repeat", Growth::Times),
    ("lpad", Growth::Length),
    ("rpad", Growth::Length),
    ("array_resize", Growth::Length),
    ("range", Growth::Steps),
    ("generate_series", Growth::Steps),
];

/// Puts bounds around the functions of a session.
pub(crate) fn bound(context: &SessionContext) {
    for (name, growth) in FUNCTIONS {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::new_from_impl(Bounded { inner, growth }));
        }
    }
}

/// A function of DataFusion, within bounds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = bytes(self.growth, &args)?;
        if bytes > BYTES_MAX {
            let what = format!(
                "{} makes {bytes} bytes or more of one batch of rows, where {BYTES_MAX} are allowed",
                self.name()
            );
            return Err(wrapped(Error::new(Reason::Limit, what)));
        }
        self.inner.invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Bytes of the results, at least.
fn bytes(growth: Growth, args: &ScalarFunctionArgs) -> Result<u128> {
    let columns =
        args.args.iter().map(|value| value.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
    let Some(first) = columns.first() else { return Ok(0) };
    let positive = |number: Option<i64>| number.map_or(0, |number| number.max(0) as u128);
    Ok(match (growth, columns.get(1)) {
        (Growth::Times, Some(times)) => {
            let (_, times) = integers(times)?;
            let each = |row: usize| size_of_value(first, row) * positive(times[row]);
            (0..times.len()).map(each).sum()
        }
        (Growth::Length, Some(length)) => {
            let element = if first.data_type().is_nested() { ELEMENT_BYTES } else { 1 };
            integers(length)?.1.into_iter().map(positive).sum::<u128>() * element
        }
        (Growth::Steps, _) => {
            let (starts, ends) = if columns.len() == 1 { (None, first) } else { (Some(first), &columns[1]) };
            let (unit, ends) = integers(ends)?;
            let starts =
                starts.map(integers).transpose()?.map_or(vec![Some(0); ends.len()], |(_, starts)| starts);
            let steps = steps(columns.get(2), unit, ends.len())?;
            let count = |row: usize| {
                let (start, end) = (i128::from(starts[row]?), i128::from(ends[row]?));
                Some((end - start).unsigned_abs() / steps[row].unsigned_abs().max(1))
            };
            (0..ends.len()).filter_map(count).sum::<u128>() * ELEMENT_BYTES
        }
        (_, None) => 0,
    })
}

/// Bytes of a value: of texts exactly, of others at least.
fn size_of_value(values: &ArrayRef, row: usize) -> u128 {
    match values.data_type() {
        _ if values.is_null(row) => 0,
        DataType::Utf8 => values.as_string::<i32>().value_length(row).max(0) as u128,
        DataType::LargeUtf8 => values.as_string::<i64>().value_length(row).max(0) as u128,
        DataType::Utf8View => values.as_string_view().value(row).len() as u128,
        DataType::List(_) => values.as_list::<i32>().value_length(row).max(1) as u128 * ELEMENT_BYTES,
        _ => ELEMENT_BYTES,
    }
}

/// Numbers, days or times as integers, and how many nanoseconds their unit is.
fn integers(values: &ArrayRef) -> Result<(i128, Vec<Option<i64>>)> {
    let unit = match values.data_type() {
        DataType::Date32 => DAY_NS,
        DataType::Date64 => 1_000_000,
        _ => 1,
    };
    let values = match values.data_type() {
        DataType::Date32 => cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?,
        number if number.is_numeric() || number.is_temporal() || number.is_null() => {
            cast(values, &DataType::Int64)?
        }
        _ => return Ok((1, vec![None; values.len()])),
    };
    Ok((unit, values.as_primitive::<Int64Type>().iter().collect()))
}

/// The steps, in the unit.
fn steps(values: Option<&ArrayRef>, unit: i128, rows: usize) -> Result<Vec<i128>> {
    let Some(values) = values else { return Ok(vec![1; rows]) };
    if let Some(intervals) = values.as_primitive_opt::<IntervalMonthDayNanoType>() {
        let of = |row: usize| {
            let interval = intervals.value(row);
            let days = i128::from(interval.months) * 28 + i128::from(interval.days);
            (days * DAY_NS + i128::from(interval.nanoseconds)) / unit
        };
        return Ok((0..rows).map(of).collect());
    }
    let (_, steps) = integers(values)?;
    Ok(steps.into_iter().map(|step| step.unwrap_or(1).into()).collect())
}
