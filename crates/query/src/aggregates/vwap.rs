//! `vwap`: the average with sizes as weights, a double.

use super::fold::Fold;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, UInt64Type};
use datafusion::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// `vwap(price, size)`: the average price, each with its size as weight.
#[derive(Debug, Clone)]
pub(super) struct ByVolume;

/// The sum of prices times sizes, and the sum of sizes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weighted {
    sum: f64,
    weight: f64,
    rows: u64,
    /// Rows that have no finite product, which cannot be taken out of a sum.
    odd: u64,
}

impl Weighted {
    /// Adds the rows that have both, or takes them out; returns how many there are, and how many of them have no finite product.
    fn add(&mut self, input: &(&Float64Array, &Float64Array), rows: Range<usize>, sign: f64) -> (u64, u64) {
        let (prices, sizes) = input;
        let (mut count, mut odd) = (0, 0);
        for row in rows.filter(|row| prices.is_valid(*row) && sizes.is_valid(*row)) {
            let (size, product) = (sizes.values()[row], prices.values()[row] * sizes.values()[row]);
            count += 1;
            if product.is_finite() && size.is_finite() {
                self.sum += sign * product;
                self.weight += sign * size;
            } else {
                odd += 1;
            }
        }
        (count, odd)
    }
}

impl Fold for ByVolume {
    type State = Weighted;
    type Input<'a> = (&'a Float64Array, &'a Float64Array);

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        Ok((columns[0].as_primitive::<Float64Type>(), columns[1].as_primitive::<Float64Type>()))
    }

    fn add(&self, state: &mut Weighted, input: &Self::Input<'_>, rows: Range<usize>, _: u64) -> Result<()> {
        let (count, odd) = state.add(input, rows, 1.0);
        state.rows += count;
        state.odd += odd;
        Ok(())
    }

    const RETRACTS: bool = true;

    fn retract(&self, state: &mut Weighted, input: &Self::Input<'_>, rows: Range<usize>) -> Result<()> {
        let (count, odd) = state.add(input, rows, -1.0);
        state.rows = state.rows.saturating_sub(count);
        state.odd = state.odd.saturating_sub(odd);
        // What is left of no rows is what was lost in rounding.
        if state.rows == 0 {
            *state = Weighted::default();
        }
        Ok(())
    }

    fn merge(&self, state: &mut Weighted, other: Weighted) -> Result<()> {
        state.sum += other.sum;
        state.weight += other.weight;
        state.rows += other.rows;
        state.odd += other.odd;
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Float64, DataType::Float64, DataType::UInt64, DataType::UInt64]
    }

    fn pack(&self, states: &[Weighted]) -> Result<Vec<ArrayRef>> {
        let numbers = |number: fn(&Weighted) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(states.iter().map(number)))
        };
        Ok(vec![
            floats(states, |state| Some(state.sum)),
            floats(states, |state| Some(state.weight)),
            numbers(|state| state.rows),
            numbers(|state| state.odd),
        ])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Weighted>> {
        let (sums, weights) = self.input(columns)?;
        let [rows, odd] = [2, 3].map(|column: usize| columns[column].as_primitive::<UInt64Type>());
        let state = |row| Weighted {
            sum: sums.value(row),
            weight: weights.value(row),
            rows: rows.value(row),
            odd: odd.value(row),
        };
        Ok((0..rows.len()).map(state).collect())
    }

    fn finish(&self, states: &[Weighted]) -> Result<ArrayRef> {
        Ok(floats(states, |state| match state.odd {
            0 => (state.weight != 0.0).then(|| state.sum / state.weight),
            _ => Some(f64::NAN),
        }))
    }
}

/// A column of doubles.
pub(super) fn floats<S>(states: &[S], value: impl Fn(&S) -> Option<f64>) -> ArrayRef {
    Arc::new(states.iter().map(value).collect::<Float64Array>())
}
