//! Backwards, with a right side that is read by symbol: for each row of the left side the last row of the right side before it.
//!
//! Rows of a table are stored in blocks, by symbol and time within each. They are not brought into the order of time: each row of the left
//! side looks for its place among the times of its symbol.
//!
//! Always true: all rows of the right side up to the time of the left side's row are in one of the held batches, and of each symbol the
//! last of them that were looked at is `best`. When there are many batches, what has been joined is returned, and what is left of
//! batches that the left side has passed is one row for each symbol: so what is held is a row for each symbol, and some batches.
//!
//! In a [slice](super::slices) of time, rows of the left side may belong to a row before it: these stay open.

use super::ahead::Ahead;
use super::gallop::gallop;
use super::input::{Input, Rows, number_names};
use super::keys::{Keys, NONE};
use super::output::{bytes_of, joined, without_others};
use super::sides::Joining;
use super::slices::{Joined, LastRows, OpenRows, Place, Slice};
use crate::batches::Batches;
use crate::reader::BySymbol;
use crate::scan::Reader;
use datafusion::arrow::array::{Array, RecordBatch, RecordBatchOptions, StringArray};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::interleave;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Batches that are held before rows are copied; blocks have up to 65,535 rows.
const HELD: usize = 4;

/// For each so many keys one batch more is held.
const KEYS_OF_BATCH: usize = 16_384;

/// Rows and bytes of the left side that are read ahead, before the right side is waited for.
const AHEAD_ROWS: usize = 1 << 18;
const AHEAD_BYTES: usize = 32 << 20;

/// A backward join of a table by symbol.
pub(super) struct LastOfSymbols {
    left: Input,
    /// Batches of the left side that were read ahead, their rows and bytes.
    waiting: VecDeque<Rows>,
    waiting_rows: usize,
    waiting_bytes: usize,
    is_left_over: bool,
    ahead: Arc<Ahead>,
    right: Reader<BySymbol>,
    joining: Joining,
    keys: Keys,
    /// The batch of the left side that is being joined, and its next row.
    rows: Option<(Rows, usize)>,
    /// Batches of the right side. The first one has one row, of nulls.
    held: Vec<Held>,
    /// By the numbers of keys.
    symbols: Vec<Symbol>,
    /// Names of the right side, and the numbers of their keys.
    names: Option<StringArray>,
    numbers: Vec<u32>,
    /// Rows without one before them in this slice; `None`: there is nothing before what is read.
    open: Option<Vec<(u32, i64)>>,
    /// No row before this time is left to be read of the right side.
    reached: i64,
    /// Batches that were held when rows were dropped last.
    needed: usize,
    is_right_over: bool,
    memory: MemoryReservation,
}

/// A batch of the right side.
struct Held {
    batch: RecordBatch,
    times: ScalarBuffer<i64>,
    sequences: ScalarBuffer<u64>,
    bytes: usize,
}

/// The rows of a symbol on the right side.
#[derive(Default)]
struct Symbol {
    /// The last one that was looked at.
    best: Option<Best>,
    /// Those that were not, in held batches.
    runs: Vec<Run>,
}

/// A row: the last one by time, of equal times by sequence number.
#[derive(Debug, Clone, Copy)]
struct Best {
    time: i64,
    sequence: u64,
    batch: usize,
    row: usize,
}

/// Rows of a batch that were not looked at; at least one.
#[derive(Debug, Clone, Copy)]
struct Run {
    batch: usize,
    at: usize,
    end: usize,
}

impl LastOfSymbols {
    /// A join of which nothing has been read. `nothing` is a row of nulls, with the columns that are read of the right side. In a slice
    /// it is read with [`Slice::next`].
    pub fn new(
        left: Input,
        right: Reader<BySymbol>,
        joining: Joining,
        nothing: RecordBatch,
        (ahead, memory): (Arc<Ahead>, MemoryReservation),
        is_slice: bool,
    ) -> Self {
        let nothing =
            Held { batch: nothing, times: Vec::new().into(), sequences: Vec::new().into(), bytes: 0 };
        Self {
            left,
            waiting: VecDeque::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            is_left_over: false,
            ahead,
            right,
            joining,
            keys: Keys::of_texts(),
            rows: None,
            held: vec![nothing],
            symbols: Vec::new(),
            names: None,
            numbers: Vec::new(),
            open: is_slice.then(Vec::new),
            reached: i64::MIN,
            needed: 0,
            is_right_over: false,
            memory,
        }
    }

    /// The next rows of the left side, and the place of the row that belongs to each, in held batches; `None`: that was all. Rows that
    /// are open are noted.
    async fn next_places(&mut self) -> Result<Option<(Rows, Range<usize>, Vec<(usize, usize)>)>> {
        let (rows, start) = match self.rows.take() {
            Some(rows) => rows,
            None => match self.next_of_left().await? {
                Some(rows) => (rows, 0),
                None => return Ok(None),
            },
        };
        self.symbols.resize_with(self.keys.len(), Symbol::default);
        let count = rows.batch.num_rows();
        let mut places = Vec::with_capacity(count - start);
        for row in start..count {
            if row >= rows.timed {
                places.push((0, 0));
                continue;
            }
            let time = rows.times[row];
            while self.lacks(time) && self.has_room() {
                self.read().await?;
            }
            if self.lacks(time) {
                break;
            }
            places.push(self.place(rows.numbers[row], (places.len(), time)));
        }
        Ok(Some((rows, start..start + places.len(), places)))
    }

    /// Drops what is not needed for the rows of the left side from one on, which are joined next.
    fn go_on(&mut self, rows: Rows, from: usize) -> Result<()> {
        if from < rows.batch.num_rows() {
            self.pass(rows.times[from])?;
            self.rows = Some((rows, from));
        }
        Ok(())
    }

    fn held_batches(&self) -> Vec<RecordBatch> {
        self.held.iter().map(|held| held.batch.clone()).collect()
    }

    /// The next batch of the left side.
    async fn next_of_left(&mut self) -> Result<Option<Rows>> {
        if self.waiting.is_empty() && !self.is_left_over {
            self.read_left().await?;
        }
        let Some(rows) = self.waiting.pop_front() else { return Ok(None) };
        if let Some(first) = rows.times[..rows.timed].first() {
            self.ahead.note_joined(*first);
        }
        self.waiting_rows -= rows.numbers.len();
        self.waiting_bytes -= rows.bytes;
        self.memory.shrink(rows.bytes.min(self.memory.size()));
        Ok(Some(rows))
    }

    /// Reads a batch of the left side ahead.
    async fn read_left(&mut self) -> Result<()> {
        let Some(rows) = self.left.next(&mut self.keys).await? else {
            self.is_left_over = true;
            self.ahead.pause(true);
            return Ok(());
        };
        self.memory.try_grow(rows.bytes)?;
        self.ahead.note(&rows);
        self.waiting_rows += rows.numbers.len();
        self.waiting_bytes += rows.bytes;
        self.waiting.push_back(rows);
        Ok(())
    }

    /// Whether rows up to a time are still to be read.
    fn lacks(&self, time: i64) -> bool {
        !self.is_right_over && (self.reached < time || self.reached == time && !self.joining.matching.strict)
    }

    fn has_room(&self) -> bool {
        self.held.len() <= self.needed + HELD + self.keys.len() / KEYS_OF_BATCH
    }

    /// Reads a batch of the right side.
    async fn read(&mut self) -> Result<()> {
        while !self.is_left_over && self.waiting_rows < AHEAD_ROWS && self.waiting_bytes < AHEAD_BYTES {
            self.read_left().await?;
        }
        // The thread that reads the right side waits no longer for rows that are not read.
        self.ahead.pause(self.is_left_over);
        self.symbols.resize_with(self.keys.len(), Symbol::default);
        let Some(rows) = self.right.next().await? else {
            self.is_right_over = true;
            return Ok(());
        };
        self.number(&rows)?;
        let BySymbol { batch, times, sequences, runs, names, reached } = rows;
        (self.reached, self.names) = (reached, Some(names));
        let index = self.held.len();
        let mut at = 0;
        for run in runs {
            let end = run.end as usize;
            let symbol = &mut self.symbols[self.numbers[run.symbol as usize] as usize];
            symbol.runs.push(Run { batch: index, at, end });
            at = end;
        }
        let bytes = bytes_of(&batch)? + times.len() * size_of::<(i64, u64)>();
        self.memory.try_grow(bytes)?;
        self.held.push(Held { batch, times, sequences, bytes });
        Ok(())
    }

    /// Gives new names of the right side the numbers of their keys.
    fn number(&mut self, rows: &BySymbol) -> Result<()> {
        number_names(&rows.names, &mut self.numbers, &mut self.keys)?;
        self.symbols.resize_with(self.keys.len(), Symbol::default);
        Ok(())
    }

    /// The row that belongs to one of the left side, which has this place among those that are being joined.
    #[inline]
    fn place(&mut self, number: u32, (row, time): (usize, i64)) -> (usize, usize) {
        if number == NONE {
            return (0, 0);
        }
        let matching = self.joining.matching;
        let symbol = &mut self.symbols[number as usize];
        symbol.advance(&self.held, time, matching.strict);
        match symbol.best {
            Some(best) if matching.allows(best.time, time) => (best.batch, best.row),
            Some(_) => (0, 0),
            None => {
                self.open.as_mut().into_iter().for_each(|open| open.push((row as u32, time)));
                (0, 0)
            }
        }
    }

    /// Drops all batches whose rows are before the next row of the left side, but for the last row of each symbol.
    fn pass(&mut self, time: i64) -> Result<()> {
        let strict = self.joining.matching.strict;
        let mut is_needed = vec![false; self.held.len()];
        is_needed[0] = true;
        for symbol in &mut self.symbols {
            symbol.advance(&self.held, time, strict);
            symbol.runs.iter().for_each(|run| is_needed[run.batch] = true);
        }
        // The copied rows are behind the row of nulls, and behind them the batches that stay.
        const COPIED: usize = 1;
        let mut places = vec![COPIED; self.held.len()];
        let stay = (1..self.held.len()).filter(|index| is_needed[*index]);
        stay.zip(COPIED + 1..).for_each(|(index, place)| places[index] = place);
        let mut indices = Vec::new();
        for symbol in &mut self.symbols {
            symbol.runs.iter_mut().for_each(|run| run.batch = places[run.batch]);
            let Some(best) = &mut symbol.best else { continue };
            if !is_needed[best.batch] {
                indices.push((best.batch, best.row));
                best.row = indices.len() - 1;
            }
            best.batch = places[best.batch];
        }
        let copied = copied(&self.held, &indices)?;
        let mut is_needed = is_needed.into_iter();
        self.held.retain(|_| is_needed.next() == Some(true));
        self.held.insert(COPIED, copied);
        // There is room for more, however many overlap: otherwise nothing would be read any more.
        self.needed = self.held.len();
        let bytes: usize = self.held.iter().map(|held| held.bytes).sum();
        let symbols = self.keys.bytes() + self.symbols.len() * size_of::<Symbol>();
        self.memory.try_resize(bytes + symbols + self.waiting_bytes)?;
        Ok(())
    }
}

impl Batches for LastOfSymbols {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some((rows, range, places)) = self.next_places().await? {
            let left = rows.batch.slice(range.start, range.len());
            let batch = joined(&left, &self.held_batches(), places, &self.joining)?;
            self.go_on(rows, range.end)?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

impl Slice for LastOfSymbols {
    async fn next(&mut self) -> Result<Option<Joined>> {
        while let Some((rows, range, places)) = self.next_places().await? {
            let open = self.open.replace(Vec::new()).unwrap_or_default();
            let left = rows.batch.slice(range.start, range.len());
            let joined = match open.is_empty() {
                true => Joined::Rows(joined(&left, &self.held_batches(), places, &self.joining)?),
                false => {
                    let key = |row: u32| rows.keys.text(range.start + row as usize).into();
                    let open = open.into_iter().map(|(row, time)| (row, time, key(row))).collect();
                    Joined::Open(OpenRows::new(&left, &self.held_batches(), (places, open), &self.joining)?)
                }
            };
            self.go_on(rows, range.end)?;
            if joined.rows() > 0 {
                return Ok(Some(joined));
            }
        }
        Ok(None)
    }

    async fn last_rows(&mut self) -> Result<Option<LastRows>> {
        while !self.is_right_over {
            if !self.has_room() {
                self.pass(i64::MAX)?;
            }
            self.read().await?;
        }
        self.pass(i64::MAX)?;
        let mut places = Vec::new();
        let names = self.names.iter().flat_map(|names| names.iter().flatten());
        for (name, number) in names.zip(&self.numbers) {
            if let Some(best) = &self.symbols[*number as usize].best {
                places.push((name.into(), Place { time: best.time, batch: best.batch, row: best.row }));
            }
        }
        Ok(Some(LastRows { batches: self.held_batches(), places }))
    }
}

/// The thread that reads the right side does not wait for a join that has ended.
impl Drop for LastOfSymbols {
    fn drop(&mut self) {
        self.ahead.pause(true);
    }
}

impl Symbol {
    /// Looks at all rows up to a time, or before it.
    #[inline]
    fn advance(&mut self, held: &[Held], time: i64, strict: bool) {
        let mut index = 0;
        while index < self.runs.len() {
            let run = &mut self.runs[index];
            let batch = &held[run.batch];
            let times = &batch.times[..run.end];
            let next = gallop(run.end, run.at, |row| times[row] < time || times[row] == time && !strict);
            if next > run.at {
                let row = next - 1;
                let found = Best { time: times[row], sequence: batch.sequences[row], batch: run.batch, row };
                if self.best.is_none_or(|best| (best.time, best.sequence) < (found.time, found.sequence)) {
                    self.best = Some(found);
                }
            }
            run.at = next;
            if next == run.end {
                self.runs.swap_remove(index);
            } else {
                index += 1;
            }
        }
    }
}

/// Some rows of batches as one batch.
fn copied(held: &[Held], indices: &[(usize, usize)]) -> Result<Held> {
    let copy = |column: usize| {
        let arrays: Vec<&dyn Array> = held.iter().map(|held| &**held.batch.column(column)).collect();
        interleave(&arrays, indices).map(without_others)
    };
    let schema = held[0].batch.schema();
    let columns = (0..schema.fields().len()).map(copy).collect::<std::result::Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
    let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
    let bytes = bytes_of(&batch)?;
    Ok(Held { batch, times: Vec::new().into(), sequences: Vec::new().into(), bytes })
}
