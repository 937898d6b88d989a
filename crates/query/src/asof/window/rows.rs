//! The rows of a window join or a markout.
//!
//! Both sides are read by time. Always true: of each key `queues` has the rows of the right side that were read, are not before the
//! window of the current row of the left side, and of those before it the last one. A batch of the right side is held as long as a window
//! may reach into it; the last rows of keys in batches that are not held are copied into one batch. So what is held is the rows of the
//! right side within a window, a row for each key, and some batches.

use super::aggregates::{self, Aggregate, Windows};
use super::node::Window;
use crate::asof::input::{Input, Rows as Batch};
use crate::asof::keys::{Keys, NONE};
use crate::asof::output::{nothing_of, types_of};
use crate::asof::sides::Side;
use crate::batches::Batches;
use datafusion::arrow::array::{
    Array, ArrayRef, IntervalMonthDayNanoArray, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::arrow::compute::{interleave, take_record_batch};
use datafusion::arrow::datatypes::{IntervalMonthDayNano, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use std::collections::VecDeque;
use std::sync::Arc;

/// Batches of the right side that are held before those that no window reaches are dropped.
const HELD: usize = 16;

/// Rows that are fed to aggregates together.
const FED: usize = 65_536;

/// Rows of a batch of a markout.
const ROWS: usize = 8_192;

/// What is made of the rows around a row.
#[derive(Debug, Clone)]
pub(super) enum Finish {
    Aggregates(Vec<Aggregate>),
    Offsets(Vec<i64>),
}

/// A running join.
pub(super) struct Rows {
    left: Input,
    right: Input,
    keys: Keys,
    window: Window,
    finish: Finish,
    schema: SchemaRef,
    /// The batch of the left side that is being joined, and its next row.
    rows: Option<(Batch, usize)>,
    /// A row of nulls for markouts, rows that were copied, and the batches of the right side from the number `first` on.
    held: VecDeque<Held>,
    first: u32,
    queues: Vec<Queue>,
    /// All rows before this time have been read of the right side; `None`: all have.
    reached: Option<i64>,
    memory: MemoryReservation,
}

/// Columns of the right side.
struct Held {
    columns: Vec<ArrayRef>,
    last: i64,
    bytes: usize,
}

/// Places in `held` before the batches.
const NOTHING: usize = 0;
const COPIED: usize = 1;
const BATCHES: usize = 2;

/// The rows of a key.
#[derive(Default)]
struct Queue {
    /// The last row before the window.
    before: Option<Place>,
    rows: VecDeque<Place>,
}

/// A row of the right side.
#[derive(Debug, Clone, Copy)]
struct Place {
    time: i64,
    /// Number of its batch; [`COPY`]: it was copied.
    batch: u32,
    row: u32,
}

/// The number of the batch of copied rows.
const COPY: u32 = u32::MAX;

impl Queue {
    /// Drops rows before a time, but for the last one.
    #[inline]
    fn pass(&mut self, time: i64) {
        while let Some(front) = self.rows.front().filter(|front| front.time < time) {
            self.before = Some(*front);
            self.rows.pop_front();
        }
    }
}

impl Rows {
    /// # Errors
    /// When keys have no order.
    pub fn new(
        sides: &[Side; 2],
        [left, right]: [SendableRecordBatchStream; 2],
        (window, finish): (Window, &Finish),
        schema: &SchemaRef,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let nothing = nothing_of(&sides[1])?;
        let nothing = match finish {
            // A row of nulls is not needed: without it there are no nulls to be looked at.
            Finish::Aggregates(aggregates) => aggregates::columns(aggregates, &nothing.slice(0, 0))?,
            Finish::Offsets(_) => nothing.columns().to_vec(),
        };
        let empty = nothing.iter().map(|column| column.slice(0, 0)).collect();
        let held = |columns| Held { columns, last: i64::MIN, bytes: 0 };
        Ok(Self {
            left: Input::new(&sides[0], left),
            right: Input::new(&sides[1], right),
            keys: Keys::new(&types_of(&sides[1])?)?,
            window,
            finish: finish.clone(),
            schema: schema.clone(),
            rows: None,
            held: VecDeque::from([held(nothing), held(empty)]),
            first: 0,
            queues: Vec::new(),
            reached: Some(i64::MIN),
            memory,
        })
    }

    /// All rows of a batch of the left side, with aggregates of their windows.
    async fn aggregated(&mut self, rows: &Batch, aggregates: &[Aggregate]) -> Result<RecordBatch> {
        let left = &rows.batch;
        let mut windows = Windows::new(aggregates)?;
        let (mut numbers, mut places): (Vec<usize>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
        let of_windows = self.memory.new_empty();
        let mut feed = |held: &[&[ArrayRef]], numbers: &mut Vec<usize>, places: &mut Vec<(usize, usize)>| {
            windows.feed(held, numbers, places)?;
            numbers.clear();
            places.clear();
            of_windows.try_resize(windows.bytes())
        };
        let Window { from, to, prevailing } = self.window;
        for row in 0..rows.timed {
            let time = rows.times[row];
            let (begin, last) = (time.saturating_add(from), time.saturating_add(to));
            if self.lacks(last) && self.is_full() {
                feed(&self.columns(), &mut numbers, &mut places)?;
            }
            while self.lacks(last) {
                // No place of a row is noted then: they were fed before.
                if self.is_full() && places.is_empty() {
                    self.drop_before(begin)?;
                }
                self.read().await?;
            }
            self.pass(rows.numbers[row], begin);
            let Some(queue) = self.queue(rows.numbers[row]) else { continue };
            let is_at_begin = queue.rows.front().is_some_and(|front| front.time == begin);
            let before = queue.before.filter(|_| prevailing && !is_at_begin);
            let within = queue.rows.iter().take_while(|place| place.time <= last).copied();
            for place in before.into_iter().chain(within) {
                numbers.push(row);
                places.push(place_of(place, self.first));
                if places.len() == FED {
                    feed(&self.columns(), &mut numbers, &mut places)?;
                }
            }
        }
        feed(&self.columns(), &mut numbers, &mut places)?;
        let columns = left.columns().iter().cloned().chain(windows.end(left.num_rows())?).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// Rows of a batch of the left side from `start` on, each with a row of the right side for each offset; and the row after them.
    async fn at_offsets(
        &mut self,
        rows: &Batch,
        start: usize,
        offsets: &[i64],
    ) -> Result<(RecordBatch, usize)> {
        let most = rows.batch.num_rows().min(start + (ROWS / offsets.len()).max(1));
        let mut places = Vec::with_capacity((most - start) * offsets.len());
        let Window { from, to, .. } = self.window;
        let mut end = start;
        while end < most {
            if end >= rows.timed {
                places.resize(places.len() + offsets.len(), (NOTHING, 0));
                end += 1;
                continue;
            }
            let time = rows.times[end];
            let begin = time.saturating_add(from);
            if end > start && self.is_full() && self.lacks(time.saturating_add(to)) {
                // Batches are dropped when nothing refers to their places.
                break;
            }
            while self.lacks(time.saturating_add(to)) {
                if end == start && self.is_full() {
                    self.drop_before(begin)?;
                }
                self.read().await?;
            }
            self.pass(rows.numbers[end], begin);
            match self.queue(rows.numbers[end]) {
                None => places.resize(places.len() + offsets.len(), (NOTHING, 0)),
                Some(queue) => places.extend(offsets.iter().map(|offset| {
                    let at = time.saturating_add(*offset);
                    let index = queue.rows.partition_point(|place| place.time <= at);
                    let found = index.checked_sub(1).map(|index| queue.rows[index]).or(queue.before);
                    found.map_or((NOTHING, 0), |place| place_of(place, self.first))
                })),
            }
            end += 1;
        }
        let left = rows.batch.slice(start, end - start);
        let repeated = (0..left.num_rows() as u32).flat_map(|row| offsets.iter().map(move |_| row));
        let left = take_record_batch(&left, &UInt32Array::from_iter_values(repeated))?;
        let interval = |offset: &i64| IntervalMonthDayNano::new(0, 0, *offset);
        let column = offsets.iter().map(interval).cycle().take(places.len());
        let column: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from_iter_values(column));
        let held = self.columns();
        let gather = |column: usize| {
            let arrays: Vec<&dyn Array> = held.iter().map(|columns| &*columns[column]).collect();
            interleave(&arrays, &places)
        };
        let right: Vec<ArrayRef> =
            (0..held[NOTHING].len()).map(gather).collect::<std::result::Result<_, _>>()?;
        let columns = left.columns().iter().cloned().chain([column]).chain(right).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        Ok((RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?, end))
    }

    /// Whether rows up to a time are still to be read.
    fn lacks(&self, time: i64) -> bool {
        self.reached.is_some_and(|reached| reached <= time)
    }

    fn is_full(&self) -> bool {
        self.held.len() > BATCHES + HELD
    }

    /// Drops the rows of a key before a time, but for the last one.
    fn pass(&mut self, number: u32, begin: i64) {
        if number != NONE {
            self.queues[number as usize].pass(begin);
        }
    }

    /// The rows of a key.
    fn queue(&self, number: u32) -> Option<&Queue> {
        (number != NONE).then(|| &self.queues[number as usize])
    }

    /// Reads a batch of the right side.
    async fn read(&mut self) -> Result<()> {
        let Some(rows) = self.right.next(&mut self.keys).await? else {
            self.reached = None;
            return Ok(());
        };
        self.queues.resize_with(self.keys.len(), Queue::default);
        let Some(last) = rows.times[..rows.timed].last().copied() else { return Ok(()) };
        let columns = match &self.finish {
            Finish::Aggregates(aggregates) => aggregates::columns(aggregates, &rows.batch)?,
            Finish::Offsets(_) => rows.batch.columns().to_vec(),
        };
        let bytes = rows.bytes + rows.timed * size_of::<Place>();
        self.memory.try_grow(bytes)?;
        let batch = self.first + (self.held.len() - BATCHES) as u32;
        for ((row, time), number) in (0..).zip(&rows.times[..rows.timed]).zip(&rows.numbers) {
            if *number != NONE {
                self.queues[*number as usize].rows.push_back(Place { time: *time, batch, row });
            }
        }
        self.held.push_back(Held { columns, last, bytes });
        self.reached = Some(last);
        Ok(())
    }

    /// Drops batches whose rows are all before a time; the last row of each key is copied.
    fn drop_before(&mut self, time: i64) -> Result<()> {
        self.queues.iter_mut().for_each(|queue| queue.pass(time));
        let passed = self.held.iter().skip(BATCHES).take_while(|held| held.last < time).count();
        if passed == 0 {
            return Ok(());
        }
        let first = self.first;
        let kept_from = first + passed as u32;
        let mut places = Vec::new();
        for before in self.queues.iter_mut().filter_map(|queue| queue.before.as_mut()) {
            if before.batch == COPY || before.batch < kept_from {
                places.push(place_of(*before, first));
                (before.batch, before.row) = (COPY, places.len() as u32 - 1);
            }
        }
        let copy = |column: usize| {
            let arrays: Vec<&dyn Array> = self.held.iter().map(|held| &*held.columns[column]).collect();
            interleave(&arrays, &places).map(crate::asof::output::without_others)
        };
        let columns: Vec<ArrayRef> =
            (0..self.held[NOTHING].columns.len()).map(copy).collect::<std::result::Result<_, _>>()?;
        let mut bytes = 0;
        for column in &columns {
            bytes += column.to_data().get_slice_memory_size()?;
        }
        self.held[COPIED] = Held { columns, last: i64::MIN, bytes };
        self.held.drain(BATCHES..BATCHES + passed);
        self.first = kept_from;
        let held: usize = self.held.iter().map(|held| held.bytes).sum();
        self.memory.try_resize(held + self.keys.bytes() + self.queues.len() * size_of::<Queue>())
    }

    fn columns(&self) -> Vec<&[ArrayRef]> {
        self.held.iter().map(|held| &held.columns[..]).collect()
    }
}

impl Batches for Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (rows, start) = match self.rows.take() {
            Some(rows) => rows,
            None => match self.left.next(&mut self.keys).await? {
                Some(rows) => (rows, 0),
                None => return Ok(None),
            },
        };
        self.queues.resize_with(self.keys.len(), Queue::default);
        let count = rows.batch.num_rows();
        let (batch, end) = match self.finish.clone() {
            Finish::Aggregates(aggregates) => (self.aggregated(&rows, &aggregates).await?, count),
            Finish::Offsets(offsets) => self.at_offsets(&rows, start, &offsets).await?,
        };
        if end < count {
            self.rows = Some((rows, end));
        }
        Ok(Some(batch))
    }
}

/// The place of a row in the held columns, whose batches begin with a number.
#[inline]
fn place_of(place: Place, first: u32) -> (usize, usize) {
    let batch = if place.batch == COPY { COPIED } else { BATCHES + (place.batch - first) as usize };
    (batch, place.row as usize)
}
