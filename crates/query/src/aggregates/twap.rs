//! `twap(price, time)`: the average price, each for as long as it lasts until the next one. It is a double.

use super::fold::Fold;
use super::parts::{InParts, Part, whole};
use super::vwap::floats;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use datafusion::common::exec_err;
use datafusion::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// The aggregate.
#[derive(Debug, Clone)]
pub(super) struct ByTime;

/// Prices from one time to another one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lasted {
    /// Of prices times nanoseconds.
    sum: f64,
    /// First and last time.
    times: (i64, i64),
    /// The last price.
    price: f64,
    /// Numbers of the first and the last row; none: there is no price.
    rows: Option<(u64, u64)>,
}

impl Lasted {
    #[inline]
    fn push(&mut self, price: f64, time: i64, row: u64) -> Result<()> {
        match self.rows {
            None => *self = Self { sum: 0.0, times: (time, time), price, rows: Some((row, row)) },
            Some((first, _)) => {
                self.sum += self.price * self.until(time)?;
                (self.times.1, self.price, self.rows) = (time, price, Some((first, row)));
            }
        }
        Ok(())
    }

    /// Nanoseconds from the last time until another one.
    fn until(&self, time: i64) -> Result<f64> {
        if time < self.times.1 {
            return exec_err!(
                "twap needs its rows in the order of time; select them from a subquery with ORDER BY time"
            );
        }
        Ok(time.abs_diff(self.times.1) as f64)
    }
}

impl Part for Lasted {
    fn rows(&self) -> Option<(u64, u64)> {
        self.rows
    }

    fn append(&mut self, next: Self) -> Result<()> {
        self.sum += self.price * self.until(next.times.0)? + next.sum;
        (self.times.1, self.price) = (next.times.1, next.price);
        self.rows = self.rows.zip(next.rows).map(|((first, _), (_, last))| (first, last));
        Ok(())
    }
}

impl Fold for ByTime {
    type State = InParts<Lasted>;
    type Input<'a> = (&'a Float64Array, &'a [i64], &'a ArrayRef);

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        let times = columns[1].as_primitive::<TimestampNanosecondType>();
        Ok((columns[0].as_primitive::<Float64Type>(), times.values(), &columns[1]))
    }

    fn add(
        &self,
        state: &mut Self::State,
        input: &Self::Input<'_>,
        rows: Range<usize>,
        seen: u64,
    ) -> Result<()> {
        let (prices, times, validity) = input;
        let is_there = |row: &usize| prices.is_valid(*row) && validity.is_valid(*row);
        rows.filter(is_there)
            .try_for_each(|row| state.open.push(prices.values()[row], times[row], seen + row as u64))
    }

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        state.merge(other);
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        use DataType::{Float64, Int64, UInt64};
        vec![Float64, Int64, Int64, Float64, UInt64, UInt64]
    }

    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        let states = &whole(states)?[..];
        let times = |time: fn(&Lasted) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(states.iter().map(time)))
        };
        let rows = |row: fn((u64, u64)) -> u64| -> ArrayRef {
            Arc::new(states.iter().map(|state| state.rows.map(row)).collect::<UInt64Array>())
        };
        Ok(vec![
            floats(states, |state| Some(state.sum)),
            times(|state| state.times.0),
            times(|state| state.times.1),
            floats(states, |state| Some(state.price)),
            rows(|(first, _)| first),
            rows(|(_, last)| last),
        ])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>> {
        let float = |column: usize| columns[column].as_primitive::<Float64Type>();
        let time = |column: usize| columns[column].as_primitive::<Int64Type>();
        let number = |column: usize| columns[column].as_primitive::<UInt64Type>();
        let state = |row: usize| Lasted {
            sum: float(0).value(row),
            times: (time(1).value(row), time(2).value(row)),
            price: float(3).value(row),
            rows: number(4).is_valid(row).then(|| (number(4).value(row), number(5).value(row))),
        };
        Ok((0..columns[0].len()).map(state).map(InParts::of).collect())
    }

    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef> {
        Ok(floats(&whole(states)?, |state| {
            let (first, last) = state.rows.map(|_| state.times)?;
            // At one time there is no duration: the last price counts.
            Some(if last == first { state.price } else { state.sum / last.abs_diff(first) as f64 })
        }))
    }

    fn heap_bytes(state: &Self::State) -> usize {
        state.heap_bytes()
    }
}
