//! `ema(x, weight)`: each value counts with `weight`, and the average before it with the rest. It is a double.

use super::fold::Fold;
use super::parts::{InParts, Part, whole};
use super::vwap::floats;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, UInt64Type};
use datafusion::common::exec_err;
use datafusion::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// The aggregate.
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

impl Part for Smoothed {
    fn rows(&self) -> Option<(u64, u64)> {
        self.rows
    }

    fn append(&mut self, next: Self) -> Result<()> {
        self.average = next.average + next.rest * (self.average - next.first);
        self.rest *= next.rest;
        self.rows = self.rows.zip(next.rows).map(|((first, _), (_, last))| (first, last));
        Ok(())
    }
}

impl Fold for Exponential {
    type State = InParts<Smoothed>;
    type Input<'a> = (&'a Float64Array, &'a Float64Array);

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        Ok((columns[0].as_primitive::<Float64Type>(), columns[1].as_primitive::<Float64Type>()))
    }

    fn add(
        &self,
        state: &mut Self::State,
        input: &Self::Input<'_>,
        rows: Range<usize>,
        seen: u64,
    ) -> Result<()> {
        let (values, weights) = input;
        let state = &mut state.open;
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

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        state.merge(other);
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![DataType::Float64, DataType::Float64, DataType::Float64, DataType::UInt64, DataType::UInt64]
    }

    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        let states = &whole(states)?[..];
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

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>> {
        let float = |column: usize| columns[column].as_primitive::<Float64Type>();
        let number = |column: usize| columns[column].as_primitive::<UInt64Type>();
        let state = |row: usize| Smoothed {
            average: float(0).value(row),
            first: float(1).value(row),
            rest: float(2).value(row),
            rows: number(3).is_valid(row).then(|| (number(3).value(row), number(4).value(row))),
        };
        Ok((0..columns[0].len()).map(state).map(InParts::of).collect())
    }

    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef> {
        Ok(floats(&whole(states)?, |state| state.rows.map(|_| state.average)))
    }

    fn heap_bytes(state: &Self::State) -> usize {
        state.heap_bytes()
    }
}
