//! A window join of a table that is read by symbol: the rows around a row are a range of the rows of its symbol, in each block that has
//! some. So no row is looked up, and nothing is copied.
//!
//! Always true: of each symbol `symbols` has the runs of the held batches that have a row which is not before the window of its current row of
//! the left side.

use super::aggregates::Aggregate;
use super::node::Window;
use crate::aggregates::{RunStates, of_ranges};
use crate::asof::gallop::gallop;
use crate::asof::input::{Input, Rows as Batch, number_names};
use crate::asof::keys::{Keys, NONE};
use crate::asof::output::bytes_of;
use crate::asof::slices::{Joined, LastRows, Slice};
use crate::batches::Batches;
use crate::columns::{columns_of, moved};
use crate::reader::BySymbol;
use crate::scan::{Reader, Scan};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Batches that are held before those that no window reaches are dropped; blocks have up to 65,535 rows.
const HELD: usize = 4;

/// A running join.
pub(super) struct Ranges {
    left: Input,
    right: Reader<BySymbol>,
    keys: Keys,
    window: Window,
    functions: Vec<Function>,
    schema: SchemaRef,
    /// Batches of the right side from the number `first` on.
    held: VecDeque<Held>,
    first: usize,
    /// By the numbers of keys.
    symbols: Vec<Vec<Run>>,
    /// Numbers of keys by the places of their names in the list of the right side.
    numbers: Vec<u32>,
    /// No row before this time is left to be read of the right side; `None`: no row is.
    reached: Option<i64>,
    memory: MemoryReservation,
}

/// An aggregate: what it is computed from, of the columns that are read.
struct Function {
    arguments: Vec<PhysicalExprRef>,
    states: Box<dyn RunStates>,
}

/// A batch of the right side; without times it has been dropped.
struct Held {
    /// The arguments of each function.
    arguments: Vec<Vec<ArrayRef>>,
    times: ScalarBuffer<i64>,
    last: i64,
    bytes: usize,
    /// The rows of the left side, and the ranges of rows around them, that are to be added to the functions.
    ranges: Vec<(usize, Range<usize>)>,
}

/// Rows of a symbol in a batch. Those before `from` are before the last window, and those from `to` on behind it.
#[derive(Debug, Clone, Copy)]
struct Run {
    batch: usize,
    from: usize,
    to: usize,
    end: usize,
}

/// Whether all aggregates are computed of ranges.
pub(super) fn are_of_ranges(aggregates: &[Aggregate]) -> bool {
    aggregates.iter().all(|aggregate| of_ranges(&aggregate.function, aggregate.filter.is_some()).is_some())
}

impl Ranges {
    /// # Errors
    /// When an aggregate is not computed of ranges.
    pub fn new(
        left: Input,
        (scan, partition): (&Scan, usize),
        (window, aggregates): (Window, &[Aggregate]),
        schema: &SchemaRef,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let mut columns = BTreeSet::new();
        for expr in aggregates.iter().flat_map(|aggregate| aggregate.function.expressions()) {
            columns.extend(columns_of(&expr)?);
        }
        let columns: Vec<usize> = columns.into_iter().collect();
        let place = |column: usize| columns.binary_search(&column).ok();
        let function = |aggregate: &Aggregate| {
            let Some(states) = of_ranges(&aggregate.function, aggregate.filter.is_some()) else {
                return internal_err!("{} is not computed of ranges", aggregate.function.name());
            };
            let arguments = aggregate.function.expressions();
            let arguments = arguments.iter().map(|expr| moved(expr, &place)).collect::<Result<_>>()?;
            Ok(Function { arguments, states })
        };
        Ok(Self {
            left,
            right: scan.by_symbol(partition, &columns, false, None)?,
            keys: Keys::of_texts(),
            window,
            functions: aggregates.iter().map(function).collect::<Result<_>>()?,
            schema: schema.clone(),
            held: VecDeque::new(),
            first: 0,
            symbols: Vec::new(),
            numbers: Vec::new(),
            reached: Some(i64::MIN),
            memory,
        })
    }

    /// Notes the ranges of rows around a row of the left side.
    fn note(&mut self, row: usize, number: u32, (begin, last): (i64, i64)) {
        if number == NONE {
            return;
        }
        let runs = &mut self.symbols[number as usize];
        let mut index = 0;
        while index < runs.len() {
            let run = &mut runs[index];
            let held = &mut self.held[run.batch - self.first];
            let times = &held.times[..run.end];
            run.from = gallop(run.end, run.from, |row| times[row] < begin);
            run.to = gallop(run.end, run.to.max(run.from), |row| times[row] <= last);
            if run.from < run.to {
                held.ranges.push((row, run.from..run.to));
            }
            if run.from == run.end {
                runs.swap_remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Adds the noted ranges, of so many rows of the left side, to the functions.
    fn add(&mut self, rows: usize) -> Result<()> {
        for held in self.held.iter_mut().filter(|held| !held.ranges.is_empty()) {
            for (function, arguments) in self.functions.iter_mut().zip(&held.arguments) {
                function.states.add_ranges(arguments, &held.ranges, rows)?;
            }
            held.ranges.clear();
        }
        Ok(())
    }

    /// Whether rows up to a time are still to be read.
    fn lacks(&self, time: i64) -> bool {
        self.reached.is_some_and(|reached| reached <= time)
    }

    /// Reads a batch of the right side.
    async fn read(&mut self) -> Result<()> {
        let Some(rows) = self.right.next().await? else {
            self.reached = None;
            return Ok(());
        };
        let BySymbol { batch, times, runs: read, names, reached, .. } = rows;
        self.reached = Some(reached);
        number_names(&names, &mut self.numbers, &mut self.keys)?;
        self.symbols.resize_with(self.keys.len(), Vec::new);
        let (mut at, mut last) = (0, i64::MIN);
        for run in read {
            let end = run.end as usize;
            let runs = &mut self.symbols[self.numbers[run.symbol as usize] as usize];
            runs.push(Run { batch: self.first + self.held.len(), from: at, to: at, end });
            last = last.max(times[end - 1]);
            at = end;
        }
        let column = |expr: &PhysicalExprRef| expr.evaluate(&batch)?.into_array(batch.num_rows());
        let arguments = self.functions.iter().map(|function| function.arguments.iter().map(column).collect());
        let arguments: Vec<Vec<ArrayRef>> = arguments.collect::<Result<_>>()?;
        // Arguments that are columns share their memory.
        let mut bytes = bytes_of(&batch)? + times.len() * size_of::<i64>();
        for argument in arguments.iter().flatten() {
            let is_column = batch.columns().iter().any(|column| Arc::ptr_eq(column, argument));
            bytes += if is_column { 0 } else { argument.to_data().get_slice_memory_size()? };
        }
        self.memory.try_grow(bytes)?;
        self.held.push_back(Held { arguments, times, last, bytes, ranges: Vec::new() });
        Ok(())
    }

    /// Drops batches whose rows are all before a time. No range is noted.
    fn drop_before(&mut self, time: i64) -> Result<()> {
        for held in self.held.iter_mut().filter(|held| held.last < time) {
            (held.arguments, held.times, held.bytes) = (Vec::new(), Vec::new().into(), 0);
        }
        let (held, first) = (&self.held, self.first);
        let is_dropped = |run: &Run| held[run.batch - first].times.is_empty();
        self.symbols.iter_mut().for_each(|runs| runs.retain(|run| !is_dropped(run)));
        while self.held.front().is_some_and(|held| held.times.is_empty()) {
            self.held.pop_front();
            self.first += 1;
        }
        let held: usize = self.held.iter().map(|held| held.bytes).sum();
        self.memory.try_resize(held + self.keys.bytes() + self.symbols.len() * size_of::<Vec<Run>>())
    }

    /// All rows of a batch of the left side, with aggregates of their windows.
    async fn aggregated(&mut self, rows: &Batch) -> Result<RecordBatch> {
        let count = rows.batch.num_rows();
        let Window { from, to, .. } = self.window;
        for row in 0..rows.timed {
            let time = rows.times[row];
            let window = (time.saturating_add(from), time.saturating_add(to));
            if self.lacks(window.1) {
                self.add(count)?;
            }
            while self.lacks(window.1) {
                if self.held.len() >= HELD {
                    self.drop_before(window.0)?;
                }
                self.read().await?;
            }
            self.note(row, rows.numbers[row], window);
        }
        self.add(count)?;
        let mut columns = rows.batch.columns().to_vec();
        for function in &mut self.functions {
            columns.push(function.states.finish(count)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

impl Batches for Ranges {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(rows) = self.left.next(&mut self.keys).await? else { return Ok(None) };
        self.symbols.resize_with(self.keys.len(), Vec::new);
        Ok(Some(self.aggregated(&rows).await?))
    }
}

/// A window that reaches out of the slice reads what is there by itself.
impl Slice for Ranges {
    async fn next(&mut self) -> Result<Option<Joined>> {
        Ok(Batches::next(self).await?.map(Joined::Rows))
    }

    async fn last_rows(&mut self) -> Result<Option<LastRows>> {
        Ok(None)
    }
}
