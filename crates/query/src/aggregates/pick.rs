//! `first`, `last`, `arg_min` and `arg_max`: the value of one row of a group.
//!
//! Of rows that are as good as each other the first one counts, in the order in which they come; of `last` the last one.

use super::fold::Fold;
use super::keys::{Key, Keys};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, PrimitiveArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// `first` and `last` of numbers and times.
pub(super) struct Edge<T> {
    pub ty: DataType,
    pub is_last: bool,
    pub ignores_nulls: bool,
    pub of: PhantomData<fn() -> T>,
}

/// A value and the number of its row; no number: there is no row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct At<N> {
    value: Option<N>,
    at: Option<u64>,
}

/// The row that counts among some.
fn edge(rows: Range<usize>, is_last: bool, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
    let mut rows = rows;
    if is_last { rows.rev().find(|row| is_wanted(*row)) } else { rows.find(|row| is_wanted(*row)) }
}

/// Whether a row counts more than another one.
fn is_better(at: Option<u64>, than: Option<u64>, is_last: bool) -> bool {
    match (at, than) {
        (Some(at), Some(than)) => (at > than) == is_last && at != than,
        (at, _) => at.is_some(),
    }
}

impl<T: ArrowPrimitiveType> Fold for Edge<T> {
    type State = At<T::Native>;
    type Input<'a> = &'a PrimitiveArray<T>;

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        Ok(columns[0].as_primitive())
    }

    fn add(
        &self,
        state: &mut Self::State,
        input: &Self::Input<'_>,
        rows: Range<usize>,
        seen: u64,
    ) -> Result<()> {
        if state.at.is_some() && !self.is_last {
            return Ok(());
        }
        if let Some(row) = edge(rows, self.is_last, |row| !self.ignores_nulls || input.is_valid(row)) {
            let value = input.is_valid(row).then(|| input.value(row));
            *state = At { value, at: Some(seen + row as u64) };
        }
        Ok(())
    }

    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()> {
        if is_better(other.at, state.at, self.is_last) {
            *state = other;
        }
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![self.ty.clone(), DataType::UInt64]
    }

    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>> {
        let at: UInt64Array = states.iter().map(|state| state.at).collect();
        Ok(vec![self.finish(states)?, Arc::new(at)])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>> {
        let (values, at) = (columns[0].as_primitive::<T>(), columns[1].as_primitive::<UInt64Type>());
        Ok(values.iter().zip(at).map(|(value, at)| At { value, at }).collect())
    }

    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef> {
        let values: PrimitiveArray<T> = states.iter().map(|state| state.value).collect();
        Ok(Arc::new(values.with_data_type(self.ty.clone())))
    }
}

/// What makes a row count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    First,
    Last,
    /// The least value of the second argument.
    Min,
    /// The greatest one.
    Max,
}

/// The value of one row, of any type.
#[derive(Debug, Clone)]
pub(super) struct Pick {
    pub ty: DataType,
    pub by: By,
    pub ignores_nulls: bool,
}

/// The row that counts so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Picked {
    value: Option<ScalarValue>,
    key: Key,
    at: Option<u64>,
}

impl Pick {
    /// Whether a key counts more than another one of an earlier row.
    fn is_better(&self, key: &Key, than: &Key) -> bool {
        match self.by {
            By::Min => key < than,
            By::Max => key > than,
            By::First => false,
            By::Last => true,
        }
    }

    /// The row that counts most.
    fn best(&self, (values, keys): &(&ArrayRef, Option<Keys>), rows: Range<usize>) -> Option<usize> {
        let Some(keys) = keys else {
            let is_wanted = |row| !self.ignores_nulls || values.is_valid(row);
            return edge(rows, self.by == By::Last, is_wanted);
        };
        let mut best: Option<usize> = None;
        for row in rows.filter(|row| values.is_valid(*row) && keys.is_valid(*row)) {
            if best.is_none_or(|best| keys.is_before(row, best, self.by == By::Max)) {
                best = Some(row);
            }
        }
        best
    }
}

impl Fold for Pick {
    type State = Picked;
    type Input<'a> = (&'a ArrayRef, Option<Keys>);

    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>> {
        Ok((&columns[0], columns.get(1).map(Keys::new).transpose()?))
    }

    fn add(&self, state: &mut Picked, input: &Self::Input<'_>, rows: Range<usize>, seen: u64) -> Result<()> {
        if self.by == By::First && state.at.is_some() {
            return Ok(());
        }
        let Some(row) = self.best(input, rows) else { return Ok(()) };
        let key = input.1.as_ref().map_or(Key::None, |keys| keys.key(row));
        if state.at.is_none() || self.is_better(&key, &state.key) {
            let value = Some(ScalarValue::try_from_array(input.0, row)?);
            *state = Picked { value, key, at: Some(seen + row as u64) };
        }
        Ok(())
    }

    fn merge(&self, state: &mut Picked, other: Picked) -> Result<()> {
        let is_better = match self.by {
            By::First | By::Last => is_better(other.at, state.at, self.by == By::Last),
            _ if state.at.is_none() || other.at.is_none() || other.key == state.key => {
                is_better(other.at, state.at, false)
            }
            _ => self.is_better(&other.key, &state.key),
        };
        if is_better {
            *state = other;
        }
        Ok(())
    }

    fn state_types(&self) -> Vec<DataType> {
        vec![self.ty.clone(), DataType::UInt64, DataType::Binary]
    }

    fn pack(&self, states: &[Picked]) -> Result<Vec<ArrayRef>> {
        let at: UInt64Array = states.iter().map(|state| state.at).collect();
        let keys: Vec<Vec<u8>> = states.iter().map(|state| state.key.to_bytes()).collect();
        let keys = BinaryArray::from_iter_values(keys);
        Ok(vec![self.finish(states)?, Arc::new(at), Arc::new(keys)])
    }

    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Picked>> {
        let (at, keys) = (columns[1].as_primitive::<UInt64Type>(), columns[2].as_binary::<i32>());
        let state = |row: usize| {
            let value = Some(ScalarValue::try_from_array(&columns[0], row)?);
            let at = at.is_valid(row).then(|| at.value(row));
            Ok(Picked { value, key: Key::of_bytes(keys.value(row)), at })
        };
        (0..columns[0].len()).map(state).collect()
    }

    fn finish(&self, states: &[Picked]) -> Result<ArrayRef> {
        let null = ScalarValue::try_new_null(&self.ty)?;
        let value = |state: &Picked| state.value.clone().unwrap_or_else(|| null.clone());
        ScalarValue::iter_to_array(states.iter().map(value))
    }

    fn heap_bytes(state: &Picked) -> usize {
        state.value.as_ref().map_or(0, |value| value.size() - size_of_val(value)) + state.key.heap_bytes()
    }
}
