//! Sums of runs of rows, as folds.

use super::fold::Fold;
use super::sum::overflow;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::error::Result;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The sum of doubles.
#[derive(Debug)]
pub(super) struct FloatSum;

/// Sums that are made side by side of the values of a run, since one that waits for the other takes longer than all of them.
const LANES: usize = 8;

fn sum(values: &[f64]) -> f64 {
    let (strips, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for strip in strips {
        sums.iter_mut().zip(strip).for_each(|(sum, value)| *sum += value);
    }
    let pairs: [f64; LANES / 2] = std::array::from_fn(|at| sums[at] + sums[at + LANES / 2]);
    (pairs[0] + pairs[2]) + (pairs[1] + pairs[3]) + rest.iter().sum::<f64>()
}

impl Fold for FloatSum {
    /// `None`: there is no value.
    type State = Option<f64>;
    type Input<'a> = &'a Float64Array;

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        Ok(columns[0].as_primitive::<Float64Type>())
    }

    fn add(
        &self,
        state: &mut Self::State,
        values: &Self::Input<'_>,
        rows: Range<usize>,
        _: u64,
    ) -> Result<()> {
        if values.null_count() == 0 {
            *state = Some(state.unwrap_or(0.0) + sum(&values.values()[rows]));
            return Ok(());
        }
        for row in rows.filter(|row| values.is_valid(*row)) {
            *state = Some(state.unwrap_or(0.0) + values.value(row));
        }
        Ok(())
    }

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        if let Some(other) = other {
            *state = Some(state.unwrap_or(0.0) + other);
        }
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Float64]
    }

    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish(states)?])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>> {
        Ok(columns[0].as_primitive::<Float64Type>().iter().collect())
    }

    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef> {
        Ok(Arc::new(states.iter().copied().collect::<Float64Array>()))
    }
}

/// Integers of 64 bits.
pub(super) trait Whole: Copy + Into<i128> + TryFrom<i128> {
    /// The number above its low 32 bits, and these.
    fn halves(self) -> (i64, u64);
}

impl Whole for i64 {
    #[inline(always)]
    fn halves(self) -> (i64, u64) {
        (self >> 32, self as u64 & u64::from(u32::MAX))
    }
}

impl Whole for u64 {
    #[inline(always)]
    fn halves(self) -> (i64, u64) {
        ((self >> 32) as i64, self & u64::from(u32::MAX))
    }
}

/// The sum of fewer than 2^31 numbers. Halves are added up, which are far from overflowing, since sums of 128 bits are not made side by
/// side.
fn whole_sum<N: Whole>(values: &[N]) -> i128 {
    let (high, low) = values.iter().fold((0i64, 0u64), |(high, low), value| {
        let (above, below) = value.halves();
        (high + above, low + below)
    });
    (i128::from(high) << 32) + i128::from(low)
}

/// The sum of integers of 64 bits, checked.
#[derive(Debug)]
pub(super) struct IntSum<T>(pub PhantomData<fn() -> T>);

impl<T> Fold for IntSum<T>
where
    T: ArrowPrimitiveType,
    T::Native: Whole,
{
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
        let (sum, count) = if values.null_count() == 0 {
            let values = &values.values()[rows];
            (whole_sum(values), values.len())
        } else {
            let present = rows.filter(|row| values.is_valid(*row));
            present.fold((0, 0), |(sum, count), row| (sum + values.value(row).into(), count + 1))
        };
        if count > 0 {
            *state = Some(exact::<T>(state.map_or(0, Into::into) + sum)?);
        }
        Ok(())
    }

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        if let Some(other) = other {
            *state = Some(exact::<T>(state.map_or(0, Into::into) + other.into())?);
        }
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![T::DATA_TYPE]
    }

    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.finish(states)?])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>> {
        Ok(columns[0].as_primitive::<T>().iter().collect())
    }

    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef> {
        Ok(Arc::new(states.iter().copied().collect::<PrimitiveArray<T>>()))
    }
}

fn exact<T>(sum: i128) -> Result<T::Native>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    match T::Native::try_from(sum) {
        Ok(sum) => Ok(sum),
        Err(_) => overflow(&T::DATA_TYPE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, UInt64Array};
    use datafusion::arrow::datatypes::{Int64Type, UInt64Type};

    #[test]
    fn lanes_add_every_value_once() {
        for count in 0..40 {
            let values: Vec<f64> = (0..count).map(|value| f64::from(1 << (value % 20))).collect();
            assert_eq!(sum(&values), values.iter().sum::<f64>(), "{count}");
        }
        assert!(sum(&[1.0, f64::NAN, 2.0]).is_nan());
        assert_eq!(sum(&[f64::INFINITY; 20]), f64::INFINITY);
    }

    #[test]
    fn halves_add_up() {
        let signed = [i64::MIN, i64::MAX, -1, 0, 1, i64::MIN, 1 << 32, -(1 << 31)];
        assert_eq!(whole_sum(&signed), signed.iter().map(|value| i128::from(*value)).sum::<i128>());
        let unsigned = [u64::MAX, u64::MAX, 0, 1 << 32, u64::MAX];
        assert_eq!(whole_sum(&unsigned), unsigned.iter().map(|value| i128::from(*value)).sum::<i128>());
    }

    #[test]
    fn sums_skip_nulls_and_do_not_wrap() {
        let (mut state, fold) = (None, IntSum::<Int64Type>(PhantomData));
        let values = Int64Array::from(vec![Some(i64::MAX), None, Some(1), Some(-1)]);
        fold.add(&mut state, &&values, 1..2, 0).unwrap();
        assert_eq!(state, None);
        fold.add(&mut state, &&values, 0..4, 0).unwrap();
        assert_eq!(state, Some(i64::MAX));
        assert!(fold.add(&mut state, &&values, 2..3, 0).is_err());
        let (mut state, fold) = (None, IntSum::<UInt64Type>(PhantomData));
        let values = UInt64Array::from(vec![u64::MAX, 1]);
        fold.add(&mut state, &&values, 0..1, 0).unwrap();
        assert!(fold.add(&mut state, &&values, 1..2, 0).is_err());
        let (mut state, floats) = (None, Float64Array::from(vec![None, Some(1.5)]));
        FloatSum.add(&mut state, &&floats, 0..1, 0).unwrap();
        assert_eq!(state, None);
        FloatSum.add(&mut state, &&floats, 0..2, 0).unwrap();
        assert_eq!(state, Some(1.5));
    }
}
