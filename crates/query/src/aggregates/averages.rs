//! `vwap`, `twap` and `ema`: averages with weights. They are doubles.

use super::fold::Fold;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
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

/// `twap(price, time)`: the average price, each for as long as it lasts until the next one.
#[derive(Debug, Clone)]
pub(super) struct ByTime;

/// Prices from one time to another one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lasted {
    /// Of prices times nanoseconds.
    sum: f64,
    /// First and last time; none: there is no price.
    times: Option<(i64, i64)>,
    /// The last price.
    price: f64,
}

impl ByTime {
    fn append(state: &mut Lasted, next: Lasted) -> Result<()> {
        let (Some((first, last)), Some((from, to))) = (state.times, next.times) else {
            if state.times.is_none() {
                *state = next;
            }
            return Ok(());
        };
        if from < last {
            return exec_err!(
                "twap needs its rows in the order of time; select them from a subquery with ORDER BY time"
            );
        }
        let sum = state.sum + state.price * from.abs_diff(last) as f64 + next.sum;
        *state = Lasted { sum, times: Some((first, to)), price: next.price };
        Ok(())
    }
}

impl Fold for ByTime {
    type State = Lasted;
    type Input<'a> = (&'a Float64Array, &'a [i64], &'a ArrayRef);

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        let times = columns[1].as_primitive::<TimestampNanosecondType>();
        Ok((columns[0].as_primitive::<Float64Type>(), times.values(), &columns[1]))
    }

    fn add(&self, state: &mut Lasted, input: &Self::Input<'_>, rows: Range<usize>, _: u64) -> Result<()> {
        let (prices, times, validity) = input;
        let is_there = |row: &usize| prices.is_valid(*row) && validity.is_valid(*row);
        for row in rows.filter(is_there) {
            let time = times[row];
            Self::append(state, Lasted { sum: 0.0, times: Some((time, time)), price: prices.values()[row] })?;
        }
        Ok(())
    }

    fn merge(&self, state: &mut Lasted, mut other: Lasted) -> Result<()> {
        if let (Some((first, _)), Some((_, to))) = (state.times, other.times)
            && to < first
        {
            std::mem::swap(state, &mut other);
        }
        Self::append(state, other)
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Float64, DataType::Int64, DataType::Int64, DataType::Float64]
    }

    fn pack(&self, states: &[Lasted]) -> Result<Vec<ArrayRef>> {
        let times = |time: fn((i64, i64)) -> i64| -> ArrayRef {
            Arc::new(states.iter().map(|state| state.times.map(time)).collect::<Int64Array>())
        };
        Ok(vec![
            floats(states, |state| Some(state.sum)),
            times(|(first, _)| first),
            times(|(_, last)| last),
            floats(states, |state| Some(state.price)),
        ])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Lasted>> {
        let float = |column: usize| columns[column].as_primitive::<Float64Type>();
        let time = |column: usize| columns[column].as_primitive::<Int64Type>();
        let state = |row: usize| Lasted {
            sum: float(0).value(row),
            times: time(1).is_valid(row).then(|| (time(1).value(row), time(2).value(row))),
            price: float(3).value(row),
        };
        Ok((0..columns[0].len()).map(state).collect())
    }

    fn finish(&self, states: &[Lasted]) -> Result<ArrayRef> {
        Ok(floats(states, |state| {
            let (first, last) = state.times?;
            // At one time there is no duration: the last price counts.
            Some(if last == first { state.price } else { state.sum / last.abs_diff(first) as f64 })
        }))
    }
}

/// `ema(x, weight)`: each value counts with `weight`, and the average before it with the rest.
#[derive(Debug, Clone)]
pub(super) struct Exponential;

/// The average after some values, and what is left in it of one before them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Smoothed {
    average: f64,
    /// The first value: the average before it would be the same.
    first: f64,
    rest: f64,
    /// Numbers of the first and the last row.
    rows: Option<(u64, u64)>,
}

/// The weight that an argument states: itself, or that of a number of rows.
fn weight(stated: f64) -> Result<f64> {
    match stated {
        weight if weight > 0.0 && weight <= 1.0 => Ok(weight),
        rows if rows > 1.0 && rows.is_finite() => Ok(2.0 / (rows + 1.0)),
        other => {
            exec_err!(
                "the second argument of ema is a weight between 0 and 1, or a number of rows above 1, not {other}"
            )
        }
    }
}

impl Fold for Exponential {
    type State = Smoothed;
    type Input<'a> = (&'a Float64Array, &'a Float64Array);

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        Ok((columns[0].as_primitive::<Float64Type>(), columns[1].as_primitive::<Float64Type>()))
    }

    fn add(
        &self,
        state: &mut Smoothed,
        input: &Self::Input<'_>,
        rows: Range<usize>,
        seen: u64,
    ) -> Result<()> {
        let (values, weights) = input;
        for row in rows.filter(|row| values.is_valid(*row)) {
            let (value, weight) = (values.values()[row], weight(weights.value(row))?);
            let at = seen + row as u64;
            state.rows = Some(match state.rows {
                None => {
                    *state = Smoothed { average: value, first: value, rest: 1.0, rows: None };
                    (at, at)
                }
                Some((first, _)) => {
                    state.average += weight * (value - state.average);
                    (first, at)
                }
            });
            state.rest *= 1.0 - weight;
        }
        Ok(())
    }

    fn merge(&self, state: &mut Smoothed, mut other: Smoothed) -> Result<()> {
        if let (Some((first, _)), Some((other_first, _))) = (state.rows, other.rows)
            && other_first < first
        {
            std::mem::swap(state, &mut other);
        }
        let (Some((first, last)), Some((from, to))) = (state.rows, other.rows) else {
            if state.rows.is_none() {
                *state = other;
            }
            return Ok(());
        };
        if from <= last {
            return Err(DataFusionError::ResourcesExhausted(
                "ema cannot continue on the disk; group by fewer values, or allow more memory".into(),
            ));
        }
        state.average = other.average + other.rest * (state.average - other.first);
        state.rest *= other.rest;
        state.rows = Some((first, to));
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Float64, DataType::Float64, DataType::Float64, DataType::UInt64, DataType::UInt64]
    }

    fn pack(&self, states: &[Smoothed]) -> Result<Vec<ArrayRef>> {
        let rows = |number: fn((u64, u64)) -> u64| -> ArrayRef {
            Arc::new(states.iter().map(|state| state.rows.map(number)).collect::<UInt64Array>())
        };
        Ok(vec![
            floats(states, |state| Some(state.average)),
            floats(states, |state| Some(state.first)),
            floats(states, |state| Some(state.rest)),
            rows(|(first, _)| first),
            rows(|(_, last)| last),
        ])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Smoothed>> {
        let float = |column: usize| columns[column].as_primitive::<Float64Type>();
        let number = |column: usize| columns[column].as_primitive::<UInt64Type>();
        let state = |row: usize| Smoothed {
            average: float(0).value(row),
            first: float(1).value(row),
            rest: float(2).value(row),
            rows: number(3).is_valid(row).then(|| (number(3).value(row), number(4).value(row))),
        };
        Ok((0..columns[0].len()).map(state).collect())
    }

    fn finish(&self, states: &[Smoothed]) -> Result<ArrayRef> {
        Ok(floats(states, |state| state.rows.map(|_| state.average)))
    }
}

fn floats<S>(states: &[S], value: impl Fn(&S) -> Option<f64>) -> ArrayRef {
    Arc::new(states.iter().map(value).collect::<Float64Array>())
}
