//! `l2price(size, sizes, prices)`: the average price at which the levels of a book fill an order.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_MATH;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct L2Price {
    signature: Signature,
}

impl Default for L2Price {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for L2Price {
    fn name(&self) -> &'static str {
        "l2price"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_number = |ty: &DataType| ty.is_numeric() || ty.is_null();
        let is_list = |ty: &DataType| match ty {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                is_number(item.data_type())
            }
            other => other.is_null(),
        };
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
        match types {
            [size, sizes, prices] if is_number(size) && is_list(sizes) && is_list(prices) => {
                Ok(vec![DataType::Float64, list.clone(), list])
            }
            numbers if numbers.len() % 2 == 1 && numbers.len() > 1 && numbers.iter().all(is_number) => {
                Ok(vec![DataType::Float64; numbers.len()])
            }
            _ => plan_err!(
                "write l2price(size, sizes, prices) with two lists, or l2price(size, size1, price1, size2, price2, …) with numbers"
            ),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns: Vec<ArrayRef> =
            args.args.iter().map(|value| value.to_array(rows)).collect::<Result<_>>()?;
        let prices = match &columns[..] {
            [sizes, levels @ ..] if levels.iter().all(|level| *level.data_type() == DataType::Float64) => {
                of_numbers(sizes, levels)
            }
            [sizes, levels, prices] => of_lists(sizes, levels, prices)?,
            _ => return datafusion::common::internal_err!("l2price has {} arguments", columns.len()),
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&prices, 0)?),
            false => ColumnarValue::Array(Arc::new(prices)),
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        static PAGE: LazyLock<Documentation> = LazyLock::new(|| {
            let words = "The average price at which the levels of a book fill an order, from the first level on; null where they are too small.";
            Documentation::builder(DOC_SECTION_MATH, words, "l2price(size, sizes, prices)")
                .with_argument("size", "Size of the order.")
                .with_argument("sizes", "Sizes of the levels, a list, from the best one on.")
                .with_argument("prices", "Their prices, a list.")
                .build()
        });
        Some(&PAGE)
    }
}

fn of_numbers(sizes: &ArrayRef, levels: &[ArrayRef]) -> Float64Array {
    let value = |column: &ArrayRef, row: usize| {
        let column = column.as_primitive::<Float64Type>();
        column.is_valid(row).then(|| column.value(row))
    };
    let price = |row: usize| {
        let levels = levels.chunks_exact(2).map(|pair| (value(&pair[0], row), value(&pair[1], row)));
        average(value(sizes, row)?, levels)
    };
    (0..sizes.len()).map(price).collect()
}

fn of_lists(sizes: &ArrayRef, levels: &ArrayRef, prices: &ArrayRef) -> Result<Float64Array> {
    let sizes = sizes.as_primitive::<Float64Type>();
    let (levels, prices) = (levels.as_list::<i32>(), prices.as_list::<i32>());
    let price = |row: usize| {
        if sizes.is_null(row) || levels.is_null(row) || prices.is_null(row) {
            return Ok(None);
        }
        let (levels, prices) = (levels.value(row), prices.value(row));
        if levels.len() != prices.len() {
            return exec_err!("l2price has {} sizes and {} prices", levels.len(), prices.len());
        }
        let pairs = levels.as_primitive::<Float64Type>().iter().zip(prices.as_primitive::<Float64Type>());
        Ok(average(sizes.value(row), pairs))
    };
    (0..sizes.len()).map(price).collect()
}

/// The average price of a size; `None`: the levels are too small, or one that is needed is not known.
fn average(size: f64, levels: impl Iterator<Item = (Option<f64>, Option<f64>)>) -> Option<f64> {
    if !(size > 0.0 && size.is_finite()) {
        return None;
    }
    let (mut left, mut paid) = (size, 0.0);
    for (level, price) in levels {
        let (level, price) = (level.filter(|level| *level >= 0.0)?, price.filter(|price| price.is_finite())?);
        let taken = level.min(left);
        paid += taken * price;
        left -= taken;
        if left <= 0.0 {
            return Some(paid / size);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(size: f64, levels: &[(f64, f64)]) -> Option<f64> {
        average(size, levels.iter().map(|(size, price)| (Some(*size), Some(*price))))
    }

    #[test]
    fn levels_are_taken_from_the_first_on() {
        let levels = [(8.0, 5.0), (23.0, 9.0), (42.0, 22.0)];
        assert_eq!(price(8.0, &levels), Some(5.0));
        assert_eq!(price(35.0, &levels), Some((8.0 * 5.0 + 23.0 * 9.0 + 4.0 * 22.0) / 35.0));
        assert_eq!(price(73.0, &levels).map(f64::round), Some(16.0));
        assert_eq!(price(73.1, &levels), None);
    }

    #[test]
    fn what_is_no_order_or_no_level_has_no_price() {
        let levels = [(8.0, 5.0), (f64::NAN, 9.0)];
        assert_eq!(price(8.0, &levels), Some(5.0));
        assert_eq!(price(9.0, &levels), None);
        for size in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(price(size, &[(f64::INFINITY, 1.0)]), None, "{size}");
        }
        assert_eq!(price(5.0, &[(f64::INFINITY, 1.0)]), Some(1.0));
        assert_eq!(average(1.0, [(None, Some(2.0)), (Some(5.0), Some(3.0))].into_iter()), None);
    }
}
