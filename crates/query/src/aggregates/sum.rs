//! `sum`, where a sum that does not fit its type is an error. DataFusion's wraps around.

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray,
};
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef, Int64Type, UInt64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature,
};
use std::sync::Arc;

/// The function; types and floats are DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CheckedSum {
    inner: Arc<AggregateUDF>,
}

impl Default for CheckedSum {
    fn default() -> Self {
        Self { inner: sum_udaf() }
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let ty = args.return_field.data_type().clone();
        let is_distinct = args.is_distinct;
        match ty {
            DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..) if is_distinct => {
                Ok(Box::new(DistinctTotal { inner: self.inner.accumulator(args)?, total: Total::new(ty) }))
            }
            DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..) => Ok(Box::new(Total::new(ty))),
            _ => self.inner.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..) if !args.is_distinct => {
                Ok(Box::new(Total::new(args.return_field.data_type().clone())))
            }
            _ => self.inner.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let ty = args.return_field.data_type().clone();
        Ok(match ty {
            DataType::Int64 => Box::new(Groups::<Int64Type>::new(ty)),
            DataType::UInt64 => Box::new(Groups::<UInt64Type>::new(ty)),
            DataType::Decimal128(..) => Box::new(Groups::<Decimal128Type>::new(ty)),
            _ => return self.inner.create_groups_accumulator(args),
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(ty)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The error of a sum that does not fit.
pub(super) fn overflow<T>(ty: &DataType) -> Result<T> {
    exec_err!(
        "a sum does not fit its type, {ty}; sum up a wider type, such as sum(CAST(x AS DECIMAL(38, 0))) or sum(CAST(x AS DOUBLE))"
    )
}

/// A sum in 128 bits; integers cannot overflow it.
#[derive(Debug)]
struct Total {
    ty: DataType,
    sum: i128,
    /// Values that are not null.
    count: u64,
}

impl Total {
    fn new(ty: DataType) -> Self {
        Self { ty, sum: 0, count: 0 }
    }

    /// Sum and number of the values of an array.
    fn of(&self, values: &ArrayRef) -> Result<(i128, u64)> {
        let count = (values.len() - values.null_count()) as u64;
        let sum = match self.ty {
            DataType::Int64 => {
                let values = values.as_primitive::<Int64Type>();
                match values.nulls() {
                    None => wide_sum(values.values()),
                    Some(_) => values.iter().flatten().map(i128::from).sum(),
                }
            }
            DataType::UInt64 => values.as_primitive::<UInt64Type>().iter().flatten().map(i128::from).sum(),
            _ => {
                let mut values = values.as_primitive::<Decimal128Type>().iter().flatten();
                match values.try_fold(0i128, i128::checked_add) {
                    Some(sum) => sum,
                    None => return overflow(&self.ty),
                }
            }
        };
        Ok((sum, count))
    }

    fn set(&mut self, sum: Option<i128>, count: u64) -> Result<()> {
        let Some(sum) = sum else { return overflow(&self.ty) };
        (self.sum, self.count) = (sum, count);
        Ok(())
    }
}

/// The sum of integers: of their upper and lower halves, which compile to vector instructions and cannot overflow.
fn wide_sum(values: &[i64]) -> i128 {
    let halves = values.chunks(1 << 20).map(|values| {
        let upper: i64 = values.iter().map(|value| value >> 32).sum();
        let lower: u64 = values.iter().map(|value| u64::from(*value as u32)).sum();
        (i128::from(upper) << 32) + i128::from(lower)
    });
    halves.sum()
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.of(&values[0])?;
        self.set(self.sum.checked_add(sum), self.count + count)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.of(&values[0])?;
        self.set(self.sum.checked_sub(sum), self.count.saturating_sub(count))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_new_null(&self.ty);
        }
        match self.ty {
            DataType::Int64 => match i64::try_from(self.sum) {
                Ok(sum) => Ok(ScalarValue::Int64(Some(sum))),
                Err(_) => overflow(&self.ty),
            },
            DataType::UInt64 => match u64::try_from(self.sum) {
                Ok(sum) => Ok(ScalarValue::UInt64(Some(sum))),
                Err(_) => overflow(&self.ty),
            },
            DataType::Decimal128(precision, scale) if fits(self.sum, precision) => {
                Ok(ScalarValue::Decimal128(Some(self.sum), precision, scale))
            }
            _ => overflow(&self.ty),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Whether a decimal has at most so many digits.
pub(super) fn fits(units: i128, precision: u8) -> bool {
    units.unsigned_abs() < 10u128.pow(u32::from(precision).min(38))
}

/// The sum of distinct values: DataFusion collects them.
#[derive(Debug)]
struct DistinctTotal {
    inner: Box<dyn Accumulator>,
    total: Total,
}

impl Accumulator for DistinctTotal {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut total = Total::new(self.total.ty.clone());
        for state in self.inner.state()? {
            if let ScalarValue::List(list) = state {
                total.update_batch(&[list.values().clone()])?;
            }
        }
        total.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// Sums of groups.
#[derive(Debug)]
struct Groups<T: ArrowPrimitiveType> {
    ty: DataType,
    sums: Vec<T::Native>,
    /// Whether a group has a value.
    are_there: Vec<bool>,
}

impl<T: ArrowPrimitiveType> Groups<T>
where
    T::Native: ArrowNativeTypeOp,
{
    fn new(ty: DataType) -> Self {
        Self { ty, sums: Vec::new(), are_there: Vec::new() }
    }

    fn add(
        &mut self,
        values: &PrimitiveArray<T>,
        groups: &[usize],
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let mut is_exact = true;
        let mut add = |group: usize, value: T::Native| {
            let sum = &mut self.sums[group];
            match sum.add_checked(value) {
                Ok(new) => *sum = new,
                Err(_) => is_exact = false,
            }
            self.are_there[group] = true;
        };
        match (values.nulls(), filter) {
            (None, None) => {
                groups.iter().zip(values.values()).for_each(|(group, value)| add(*group, *value));
            }
            _ => {
                for (row, group) in groups.iter().enumerate() {
                    let is_wanted = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
                    if is_wanted && values.is_valid(row) {
                        add(*group, values.value(row));
                    }
                }
            }
        }
        if is_exact { Ok(()) } else { overflow(&self.ty) }
    }
}

impl<T: ArrowPrimitiveType + std::fmt::Debug> GroupsAccumulator for Groups<T>
where
    T::Native: ArrowNativeTypeOp,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.sums.resize(total, T::Native::ZERO);
        self.are_there.resize(total, false);
        self.add(values[0].as_primitive::<T>(), groups, filter)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let sums = emit.take_needed(&mut self.sums);
        let are_there = emit.take_needed(&mut self.are_there);
        let nulls = are_there.contains(&false).then(|| are_there.into());
        let array = PrimitiveArray::<T>::new(sums.into(), nulls).with_data_type(self.ty.clone());
        let array: ArrayRef = Arc::new(array);
        if let DataType::Decimal128(precision, _) = self.ty {
            let decimals = array.as_primitive::<Decimal128Type>();
            if decimals.iter().flatten().any(|units| !fits(units, precision)) {
                return overflow(&self.ty);
            }
        }
        Ok(array)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Ok(vec![match filter {
            None => values[0].clone(),
            Some(filter) => {
                let wanted = match filter.nulls() {
                    Some(nulls) => filter.values() & nulls.inner(),
                    None => filter.values().clone(),
                };
                nullif(&values[0], &BooleanArray::new(!&wanted, None))?
            }
        }])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<T::Native>() + self.are_there.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, UInt64Array};

    #[test]
    fn halves_sum_up_exactly() {
        let values: Vec<i64> =
            (0..10_000).map(|i: i64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64)).collect();
        assert_eq!(wide_sum(&values), values.iter().map(|value| i128::from(*value)).sum::<i128>());
        assert_eq!(wide_sum(&[i64::MAX; 5]), i128::from(i64::MAX) * 5);
        assert_eq!(wide_sum(&[i64::MIN; 5]), i128::from(i64::MIN) * 5);
        assert_eq!(wide_sum(&[]), 0);
    }

    #[test]
    fn a_total_that_does_not_fit_is_an_error() {
        let mut total = Total::new(DataType::Int64);
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(None));
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MAX), None, Some(1)]));
        total.update_batch(std::slice::from_ref(&values)).unwrap();
        assert!(total.evaluate().is_err());
        let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        total.retract_batch(&[one]).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX)));
    }

    #[test]
    fn groups_that_do_not_fit_are_errors() {
        let mut groups = Groups::<UInt64Type>::new(DataType::UInt64);
        let values: ArrayRef = Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(1), Some(2)]));
        groups.update_batch(std::slice::from_ref(&values), &[0, 1, 2, 2], None, 4).unwrap();
        let error = groups.update_batch(&[values], &[0, 0, 0, 0], None, 4);
        assert!(error.is_err());
        let mut groups = Groups::<UInt64Type>::new(DataType::UInt64);
        let values: ArrayRef = Arc::new(UInt64Array::from(vec![1, 2, 3, 4]));
        let filter = BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]);
        groups.update_batch(&[values], &[0, 1, 1, 0], Some(&filter), 2).unwrap();
        let found = groups.evaluate(EmitTo::All).unwrap();
        assert_eq!(found.as_primitive::<UInt64Type>().iter().collect::<Vec<_>>(), [Some(5), None]);
    }
}
