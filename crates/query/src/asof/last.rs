//! Backwards: for each row of the left side the last row of the right side before it.
//!
//! Always true: of each key the last row so far is in one of the held batches. When there are many of these, what has been joined is
//! returned, and the last rows are copied into one batch: so what is held is a row for each key, and some batches.

use super::input::{Input, Rows};
use super::keys::{Keys, NONE};
use super::output::{bytes_of, joined, without_others};
use super::sides::{Begun, Joining};
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::compute::interleave;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;

/// Batches that are held before rows are copied.
const HELD: usize = 16;

/// For each so many keys one batch more is held.
const KEYS_OF_BATCH: usize = 2_048;

/// A backward join.
pub(super) struct Last {
    left: Input,
    right: Input,
    joining: Joining,
    keys: Keys,
    /// The batch of the left side that is being joined, and its next row.
    rows: Option<(Rows, usize)>,
    /// Batches of the right side. The first one has one row, of nulls.
    held: Vec<RecordBatch>,
    /// The last row of each key.
    last: Vec<Place>,
    /// The batch of the right side that is being read, which is the last held one, and its next row.
    current: Option<(Rows, usize)>,
    is_right_over: bool,
    memory: MemoryReservation,
}

/// Where a row is, and its time.
#[derive(Debug, Clone, Copy)]
struct Place {
    time: i64,
    batch: u32,
    row: u32,
}

/// The row of nulls.
const NOTHING: Place = Place { time: i64::MIN, batch: 0, row: 0 };

impl Last {
    /// A join of which nothing has been read.
    pub fn new(begun: Begun) -> Self {
        let Begun { left, right, joining, keys, nothing, memory } = begun;
        Self {
            left,
            right,
            joining,
            keys,
            rows: None,
            held: vec![nothing],
            last: Vec::new(),
            current: None,
            is_right_over: false,
            memory,
        }
    }

    /// The next batch; `None`: that was all.
    ///
    /// # Errors
    /// Those of the inputs; when there is no memory.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let (rows, start) = match self.rows.take() {
                Some(rows) => rows,
                None => match self.left.next(&mut self.keys).await? {
                    Some(rows) => (rows, 0),
                    None => return Ok(None),
                },
            };
            self.last.resize(self.keys.len(), NOTHING);
            let count = rows.batch.num_rows();
            let mut places = Vec::with_capacity(count - start);
            for row in start..count {
                if row >= rows.timed {
                    places.push((0, 0));
                } else if self.advance(rows.times[row]).await? {
                    places.push(self.place(rows.numbers[row], rows.times[row]));
                } else {
                    break;
                }
            }
            let end = start + places.len();
            let batch = joined(&rows.batch.slice(start, places.len()), &self.held, places, &self.joining)?;
            if end < count {
                self.rows = Some((rows, end));
                self.copy()?;
            }
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }

    /// Reads the right side up to a time. `false`: rows must be copied before.
    async fn advance(&mut self, time: i64) -> Result<bool> {
        loop {
            let Some((rows, at)) = &mut self.current else {
                if self.is_right_over {
                    return Ok(true);
                }
                if self.held.len() > HELD + self.keys.len() / KEYS_OF_BATCH {
                    return Ok(false);
                }
                match self.right.next(&mut self.keys).await? {
                    Some(rows) => {
                        self.memory.try_grow(rows.bytes)?;
                        self.held.push(rows.batch.clone());
                        self.last.resize(self.keys.len(), NOTHING);
                        self.current = Some((rows, 0));
                    }
                    None => self.is_right_over = true,
                }
                continue;
            };
            let batch = self.held.len() as u32 - 1;
            let strict = self.joining.matching.strict;
            while *at < rows.timed {
                let found = rows.times[*at];
                if found > time || strict && found == time {
                    return Ok(true);
                }
                let number = rows.numbers[*at];
                if number != NONE {
                    self.last[number as usize] = Place { time: found, batch, row: *at as u32 };
                }
                *at += 1;
            }
            self.current = None;
        }
    }

    /// The row that belongs to one of the left side.
    fn place(&self, number: u32, time: i64) -> (usize, usize) {
        let Some(found) = self.last.get(number as usize).filter(|found| found.batch > 0) else {
            return (0, 0);
        };
        match self.joining.matching.allows(found.time, time) {
            true => (found.batch as usize, found.row as usize),
            false => (0, 0),
        }
    }

    /// Copies the last rows into one batch. No batch is being read.
    fn copy(&mut self) -> Result<()> {
        let mut indices = Vec::new();
        for place in self.last.iter_mut().filter(|place| place.batch > 0) {
            indices.push((place.batch as usize, place.row as usize));
            (place.batch, place.row) = (1, indices.len() as u32 - 1);
        }
        let copy = |column: usize| {
            let arrays: Vec<&dyn Array> = self.held.iter().map(|batch| &**batch.column(column)).collect();
            interleave(&arrays, &indices).map(without_others)
        };
        let columns =
            (0..self.held[0].num_columns()).map(copy).collect::<std::result::Result<Vec<_>, _>>()?;
        let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(indices.len()));
        let copied = RecordBatch::try_new_with_options(self.held[0].schema(), columns, &options)?;
        let places = self.last.capacity() * size_of::<Place>();
        self.memory.try_resize(bytes_of(&copied)? + self.keys.bytes() + places)?;
        self.held.truncate(1);
        self.held.push(copied);
        Ok(())
    }
}
