//! Aggregates as folds: a state for each group, and rows that are added to it in order.
//!
//! A [`Fold`] says what a state is and how rows change it; [`Groups`] and [`One`] are what DataFusion runs, for many groups and for one;
//! [`runs`](super::runs) has what takes rows that come group by group.

use super::runs::{RunStates, Runs};
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

/// An aggregate.
pub(super) trait Fold: Send + Sync + 'static {
    /// What is known of the rows of a group.
    type State: Debug + Default + Clone + Send + Sync;
    /// The columns of its arguments.
    type Input<'a>;

    /// # Errors
    /// When a value cannot be an argument.
    fn input<'a>(&self, columns: &'a [ArrayRef]) -> Result<Self::Input<'a>>;

    /// Adds rows to the state of their group. Before the first row of the input so many were seen, of all groups.
    ///
    /// # Errors
    /// When a value cannot be an argument.
    fn add(
        &self,
        state: &mut Self::State,
        input: &Self::Input<'_>,
        rows: Range<usize>,
        seen: u64,
    ) -> Result<()>;

    /// The rows that count of some of one group whose times, which these are from the first row of the input on, ascend.
    fn counted(&self, _: &Self::Input<'_>, rows: Range<usize>, _: &[i64]) -> Range<usize> {
        rows
    }

    /// Adds the rows of another state of the same group.
    ///
    /// # Errors
    /// When the two cannot be put together.
    fn merge(&self, state: &mut Self::State, other: Self::State) -> Result<()>;

    /// Types of the columns that states are kept in between two operators, and on the disk.
    fn state_types(&self) -> Vec<DataType>;

    /// States as those columns.
    ///
    /// # Errors
    /// When they cannot be columns.
    fn pack(&self, states: &[Self::State]) -> Result<Vec<ArrayRef>>;

    /// The states in such columns.
    ///
    /// # Errors
    /// When there are none.
    fn unpack(&self, columns: &[ArrayRef]) -> Result<Vec<Self::State>>;

    /// The results.
    ///
    /// # Errors
    /// When one does not fit its type.
    fn finish(&self, states: &[Self::State]) -> Result<ArrayRef>;

    /// Whether rows can be taken out of a state: the first ones of a window that moves on.
    const RETRACTS: bool = false;

    /// Takes rows out of a state.
    ///
    /// # Errors
    /// When that is not possible.
    fn retract(&self, _: &mut Self::State, _: &Self::Input<'_>, _: Range<usize>) -> Result<()> {
        datafusion::common::internal_err!("rows cannot be taken out")
    }

    /// Bytes of a state beyond its own size.
    fn heap_bytes(_: &Self::State) -> usize {
        0
    }
}

/// A fold of any kind.
pub(super) trait AnyFold {
    fn one(self: Box<Self>) -> Box<dyn Accumulator>;
    fn groups(self: Box<Self>) -> Box<dyn GroupsAccumulator>;
    fn runs(self: Box<Self>) -> Box<dyn RunStates>;
    fn types(&self) -> Vec<DataType>;
}

impl<F: Fold> AnyFold for F {
    fn one(self: Box<Self>) -> Box<dyn Accumulator> {
        Box::new(One { fold: *self, state: F::State::default(), seen: 0 })
    }

    fn groups(self: Box<Self>) -> Box<dyn GroupsAccumulator> {
        Box::new(Groups { fold: Arc::new(*self), states: Vec::new(), heap_bytes: 0, seen: 0 })
    }

    fn runs(self: Box<Self>) -> Box<dyn RunStates> {
        of_fold(*self)
    }

    fn types(&self) -> Vec<DataType> {
        self.state_types()
    }
}

/// The states of a fold.
pub(super) fn of_fold<F: Fold>(fold: F) -> Box<dyn RunStates> {
    Box::new(OfFold { fold, states: Vec::new() })
}

struct OfFold<F: Fold> {
    fold: F,
    states: Vec<F::State>,
}

impl<F: Fold> RunStates for OfFold<F> {
    fn add(&mut self, columns: &[ArrayRef], _: Option<&BooleanArray>, runs: &Runs<'_>) -> Result<()> {
        self.states.resize(runs.total(), F::State::default());
        let input = self.fold.input(columns)?;
        // Functions that count rows are not among these.
        runs.iter().try_for_each(|(group, rows)| {
            let rows = self.fold.counted(&input, rows, runs.times());
            self.fold.add(&mut self.states[group], &input, rows, 0)
        })
    }

    fn add_ranges(
        &mut self,
        columns: &[ArrayRef],
        ranges: &[(usize, Range<usize>)],
        total: usize,
    ) -> Result<()> {
        self.states.resize(total, F::State::default());
        let input = self.fold.input(columns)?;
        let mut ranges = ranges.iter();
        ranges.try_for_each(|(group, rows)| self.fold.add(&mut self.states[*group], &input, rows.clone(), 0))
    }

    fn finish(&mut self, total: usize) -> Result<ArrayRef> {
        let mut states = std::mem::take(&mut self.states);
        states.resize(total, F::State::default());
        self.fold.finish(&states)
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let states = std::mem::take(&mut self.states);
        self.fold.pack(&states)
    }
}

/// The states of many groups.
struct Groups<F: Fold> {
    fold: Arc<F>,
    states: Vec<F::State>,
    /// Bytes of the states beyond their own size.
    heap_bytes: usize,
    /// Rows so far.
    seen: u64,
}

impl<F: Fold> Groups<F> {
    fn change(&mut self, group: usize, change: impl FnOnce(&F, &mut F::State) -> Result<()>) -> Result<()> {
        let state = &mut self.states[group];
        let before = F::heap_bytes(state);
        let done = change(&self.fold, state);
        self.heap_bytes = (self.heap_bytes + F::heap_bytes(state)).saturating_sub(before);
        done
    }

    fn take(&mut self, emit: EmitTo) -> Vec<F::State> {
        let taken = emit.take_needed(&mut self.states);
        let bytes: usize = taken.iter().map(F::heap_bytes).sum();
        self.heap_bytes = self.heap_bytes.saturating_sub(bytes);
        taken
    }
}

impl<F: Fold> GroupsAccumulator for Groups<F> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.states.resize(total, F::State::default());
        let fold = self.fold.clone();
        let input = fold.input(values)?;
        let is_wanted = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let seen = self.seen;
        let mut row = 0;
        // Rows in the order of time are often of one group for a while.
        while row < groups.len() {
            let start = row;
            let group = groups[row];
            if !is_wanted(row) {
                row += 1;
                continue;
            }
            while row < groups.len() && groups[row] == group && (filter.is_none() || is_wanted(row)) {
                row += 1;
            }
            self.change(group, |fold, state| fold.add(state, &input, start..row, seen))?;
        }
        self.seen += groups.len() as u64;
        Ok(())
    }

    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.states.resize(total, F::State::default());
        let states = self.fold.unpack(columns)?;
        for (state, group) in states.into_iter().zip(groups) {
            self.change(*group, |fold, into| fold.merge(into, state))?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let states = self.take(emit);
        self.fold.finish(&states)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.take(emit);
        self.fold.pack(&states)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |column| column.len());
        let mut each = Self { fold: self.fold.clone(), states: Vec::new(), heap_bytes: 0, seen: self.seen };
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.states.capacity() * size_of::<F::State>() + self.heap_bytes
    }
}

/// The state of all rows, or of those of a window so far.
struct One<F: Fold> {
    fold: F,
    state: F::State,
    seen: u64,
}

impl<F: Fold> Debug for One<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("One").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<F: Fold> Accumulator for One<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |column| column.len());
        let input = self.fold.input(values)?;
        if rows > 0 {
            self.fold.add(&mut self.state, &input, 0..rows, self.seen)?;
        }
        self.seen += rows as u64;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |column| column.len());
        self.fold.retract(&mut self.state, &self.fold.input(values)?, 0..rows)
    }

    fn supports_retract_batch(&self) -> bool {
        F::RETRACTS
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let states = self.fold.unpack(columns)?;
        states.into_iter().try_for_each(|state| self.fold.merge(&mut self.state, state))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.fold.finish(std::slice::from_ref(&self.state))?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.fold.pack(std::slice::from_ref(&self.state))?;
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of_val(self) + F::heap_bytes(&self.state)
    }
}
