//! `min` and `max` of doubles, where NaN is greater than all other numbers, as in the rest of a query. In groups DataFusion's forget
//! all that comes before a NaN.
//!
//! Other types are DataFusion's.

use super::fold::{AnyFold, Fold, of_fold};
use super::runs::RunStates;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Float32Type, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampNanosecondType,
    UInt32Type, UInt64Type,
};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extreme {
    inner: Arc<AggregateUDF>,
    is_max: bool,
}

impl Extreme {
    pub fn min() -> Self {
        Self { inner: min_udaf(), is_max: false }
    }

    pub fn max() -> Self {
        Self { inner: max_udaf(), is_max: true }
    }

    /// The fold of doubles; `None`: it is of another type.
    fn fold(&self, ty: &DataType) -> Option<Box<dyn AnyFold>> {
        let is_max = self.is_max;
        Some(match ty {
            DataType::Float64 => Box::new(Outermost::<Float64Type>::new(ty, is_max)),
            DataType::Float32 => Box::new(Outermost::<Float32Type>::new(ty, is_max)),
            _ => return None,
        })
    }

    /// The states of runs of values of a type; `None`: it has none.
    pub fn runs(&self, ty: &DataType) -> Option<Box<dyn RunStates>> {
        let is_max = self.is_max;
        Some(match ty {
            DataType::Float64 => of_fold(Outermost::<Float64Type>::new(ty, is_max)),
            DataType::Float32 => of_fold(Outermost::<Float32Type>::new(ty, is_max)),
            DataType::Int64 => of_fold(Outermost::<Int64Type>::new(ty, is_max)),
            DataType::UInt64 => of_fold(Outermost::<UInt64Type>::new(ty, is_max)),
            DataType::Int32 => of_fold(Outermost::<Int32Type>::new(ty, is_max)),
            DataType::UInt32 => of_fold(Outermost::<UInt32Type>::new(ty, is_max)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                of_fold(Outermost::<TimestampNanosecondType>::new(ty, is_max))
            }
            _ => return None,
        })
    }
}

/// Numbers and their order.
trait Ordered: ArrowPrimitiveType {
    fn is_less(a: Self::Native, b: Self::Native) -> bool;

    /// Whether a value is no number, and so greater than all of them.
    fn is_nan(_: Self::Native) -> bool {
        false
    }
}

macro_rules! ordered {
    ($($ty:ty),*) => {
        $(impl Ordered for $ty {
            #[inline(always)]
            fn is_less(a: Self::Native, b: Self::Native) -> bool {
                a < b
            }
        })*
    };
    (floats: $($ty:ty),*) => {
        $(impl Ordered for $ty {
            #[inline(always)]
            fn is_less(a: Self::Native, b: Self::Native) -> bool {
                a < b
            }

            #[inline(always)]
            fn is_nan(a: Self::Native) -> bool {
                a.is_nan()
            }
        })*
    };
}

ordered!(Int64Type, UInt64Type, Int32Type, UInt32Type, TimestampNanosecondType);
ordered!(floats: Float64Type, Float32Type);

/// The least or the greatest value.
#[derive(Debug)]
struct Outermost<T> {
    ty: DataType,
    is_max: bool,
    of: PhantomData<fn() -> T>,
}

/// Values that are compared side by side.
const LANES: usize = 8;

impl<T: Ordered> Outermost<T> {
    fn new(ty: &DataType, is_max: bool) -> Self {
        Self { ty: ty.clone(), is_max, of: PhantomData }
    }

    /// The outer one of two values.
    #[inline(always)]
    fn outer(&self, a: T::Native, b: T::Native) -> T::Native {
        match (T::is_nan(a), T::is_nan(b)) {
            (false, false) if self.is_max => {
                if T::is_less(a, b) {
                    b
                } else {
                    a
                }
            }
            (false, false) => {
                if T::is_less(b, a) {
                    b
                } else {
                    a
                }
            }
            (a_is_nan, _) => {
                if a_is_nan == self.is_max {
                    a
                } else {
                    b
                }
            }
        }
    }

    /// The outermost one of some values, of which there is one at least.
    fn of(&self, values: &[T::Native]) -> Option<T::Native> {
        let first = *values.first()?;
        let (mut found, mut has_nan) = ([first; LANES], false);
        let (strips, rest) = values.as_chunks::<LANES>();
        // Two loops, each without a branch.
        if self.is_max {
            for strip in strips {
                for (found, value) in found.iter_mut().zip(strip) {
                    *found = if T::is_less(*found, *value) { *value } else { *found };
                    has_nan |= T::is_nan(*value);
                }
            }
        } else {
            for strip in strips {
                for (found, value) in found.iter_mut().zip(strip) {
                    *found = if T::is_less(*value, *found) { *value } else { *found };
                    has_nan |= T::is_nan(*value);
                }
            }
        }
        if has_nan || T::is_nan(first) {
            return values.iter().copied().reduce(|a, b| self.outer(a, b));
        }
        found.iter().chain(rest).copied().reduce(|a, b| self.outer(a, b))
    }
}

impl<T: Ordered> Fold for Outermost<T> {
    /// `None`: there is no value.
    type State = Option<T::Native>;
    type Input<'a> = &'a PrimitiveArray<T>;

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        Ok(columns[0].as_primitive::<T>())
    }

    fn add(
        &self,
        state: &mut Self::State,
        values: &Self::Input<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Result<()> {
        let found = if values.null_count() == 0 {
            self.of(&values.values()[rows])
        } else {
            let present = rows.filter(|row| values.is_valid(*row)).map(|row| values.value(row));
            present.reduce(|a, b| self.outer(a, b))
        };
        self.merge(state, found)
    }

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        *state = match (*state, other) {
            (Some(a), Some(b)) => Some(self.outer(a, b)),
            (a, b) => a.or(b),
        };
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![self.ty.clone()]
    }

    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish(states)?])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>> {
        Ok(columns[0].as_primitive::<T>().iter().collect())
    }

    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef> {
        let values: PrimitiveArray<T> = states.iter().copied().collect();
        Ok(Arc::new(values.with_data_type(self.ty.clone())))
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.fold(args.return_field.data_type()) {
            Some(fold) => Ok(fold.one()),
            None => self.inner.accumulator(args),
        }
    }

    /// That of DataFusion compares as [`Outermost`] does.
    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        match self.fold(args.return_field.data_type()) {
            Some(fold) => Ok(fold.groups()),
            None => self.inner.create_groups_accumulator(args),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.inner().value_from_stats(statistics)
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(ty)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_the_greatest_wherever_it_is() {
        let max = Outermost::<Float64Type>::new(&DataType::Float64, true);
        let min = Outermost::<Float64Type>::new(&DataType::Float64, false);
        assert_eq!(max.of(&[]), None);
        for count in 1..30 {
            let mut values: Vec<f64> = (0..count).map(|at| f64::from((at * 7) % 11) - 5.0).collect();
            let of = |fold: fn(f64, f64) -> f64, values: &[f64]| values.iter().copied().reduce(fold);
            assert_eq!(max.of(&values), of(f64::max, &values), "{count}");
            assert_eq!(min.of(&values), of(f64::min, &values), "{count}");
            for at in 0..values.len() {
                let before = std::mem::replace(&mut values[at], f64::NAN);
                assert!(max.of(&values).unwrap().is_nan(), "{count} {at}");
                let others: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
                match of(f64::min, &others) {
                    Some(least) => assert_eq!(min.of(&values), Some(least), "{count} {at}"),
                    None => assert!(min.of(&values).unwrap().is_nan()),
                }
                values[at] = before;
            }
        }
    }

    #[test]
    fn states_and_nulls() {
        let max = Outermost::<Int64Type>::new(&DataType::Int64, true);
        let values = PrimitiveArray::<Int64Type>::from(vec![None, Some(-5), Some(i64::MIN), None]);
        let mut state = None;
        max.add(&mut state, &&values, 0..1, 0).unwrap();
        assert_eq!(state, None);
        max.add(&mut state, &&values, 0..4, 0).unwrap();
        assert_eq!(state, Some(-5));
        let packed = max.pack(&[state, None]).unwrap();
        assert_eq!(max.unpack(&packed).unwrap(), [Some(-5), None]);
    }
}
