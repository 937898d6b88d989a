//! The columns of a chunk, as rows are appended to them.

use crate::read::block::{Key, RunRows};
use crate::read::chunks::ColumnSource;
use crate::read::decoded::Decoded;
use crate::read::fields::Fields;
use tapedb_segment::ColumnValues;

/// Time, sequence number and symbol of a row.
const HEADER_BYTES: usize = 20;
/// A chunk is full when its rows have about this many bytes, however many they are.
pub(crate) const CHUNK_BYTES: usize = 16 << 20;
/// Rows wait until their bodies have about this many bytes, to become columns together.
const WAITING_BYTES: usize = 1 << 20;

/// Consecutive rows of one symbol in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolRun {
    /// Number of the symbol: with one stream, its id in the stream's dictionary.
    pub symbol: u32,
    /// Index of the first row after the run.
    pub end: u32,
}

/// The columns of a chunk. Filling it again reuses the memory.
///
/// Always true: `times` has an entry for each row, and so has `sequences` where sequence numbers are wanted; `sources` ends with
/// the last row; so do `runs`, or `symbols` has an entry for each row. Rows of `waiting` are in none of `values`.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    /// The sources of the rows, by their indices, and where the rows of each end.
    pub sources: Vec<(usize, u32)>,
    pub times: Vec<i64>,
    pub sequences: Vec<u64>,
    /// Symbols in a chunk that is by symbol.
    pub runs: Vec<SymbolRun>,
    /// Symbols in any other chunk.
    pub symbols: Vec<u32>,
    /// As [`Fields::columns`].
    pub values: Vec<ColumnValues>,
    waiting: Waiting,
    pub with_sequences: bool,
    /// No row of another chunk can have the time of one of these, so they have none though they are wanted.
    pub are_without_ties: bool,
}

/// Bodies of rows at the end of a chunk.
#[derive(Debug, Default)]
struct Waiting {
    arena: Vec<u8>,
    starts: Vec<u32>,
}

impl Filled {
    /// A chunk without rows.
    pub fn new(with_sequences: bool) -> Self {
        Self { with_sequences, ..Self::default() }
    }

    /// Removes all rows; later ones have the columns of `fields`.
    pub fn begin(&mut self, fields: &Fields) {
        self.clear();
        self.begin_values(fields);
    }

    /// Removes all values; later ones are of the columns of `fields`.
    pub fn begin_values(&mut self, fields: &Fields) {
        self.values.resize_with(fields.columns.len(), ColumnValues::new);
        self.values.iter_mut().zip(&fields.kinds).for_each(|(values, kind)| values.begin(*kind));
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.times.clear();
        self.begin_whole();
    }

    /// Removes all rows but their times and values, which a whole block overwrites: clearing them would mean zeroing them first.
    pub fn begin_whole(&mut self) {
        self.sources.clear();
        self.sequences.clear();
        self.runs.clear();
        self.symbols.clear();
        self.are_without_ties = false;
        self.waiting.arena.clear();
        self.waiting.starts.clear();
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Bytes of the rows: their values, times, sequence numbers and symbols.
    pub fn bytes(&self) -> usize {
        if self.len() == 0 {
            // The values are those of the chunk before: they are overwritten, not cleared.
            return 0;
        }
        let values: usize = self.values.iter().map(ColumnValues::bytes).sum();
        values + self.waiting.arena.len() + self.len() * HEADER_BYTES
    }

    /// Keeps the headers of these rows, ascending, of a chunk by symbol.
    pub fn keep_headers(&mut self, rows: &[u32]) {
        keep(&mut self.times, rows);
        if !self.sequences.is_empty() {
            keep(&mut self.sequences, rows);
        }
        let mut at = 0;
        self.runs.retain_mut(|run| {
            let before = at;
            at += rows[at..].partition_point(|row| *row < run.end);
            run.end = at as u32;
            at > before
        });
    }

    /// Notes that all rows since the last call are of a source.
    pub fn close_source(&mut self, source: usize) {
        let rows = self.len() as u32;
        let before = self.sources.last().map_or(0, |(_, end)| *end);
        match self.sources.last_mut() {
            Some((last, end)) if *last == source => *end = rows,
            _ if rows > before => self.sources.push((source, rows)),
            _ => {}
        }
    }

    /// Appends rows without bodies: all of a run.
    pub fn append_run(&mut self, decoded: &Decoded, rows: &RunRows<'_>, source: &ColumnSource) {
        self.flush(source);
        let sequences = self.with_sequences.then_some(&mut self.sequences);
        let places = rows.append_headers(&mut self.times, sequences, &mut self.symbols);
        decoded.append_to(&source.fields, &places, &mut self.values);
    }

    /// Appends time and sequence number of a row.
    pub fn push_key(&mut self, (time, sequence): Key) {
        self.times.push(time);
        if self.with_sequences {
            self.sequences.push(sequence);
        }
    }

    /// Appends the header of a row of a chunk that is by symbol.
    pub fn push_row(&mut self, key: Key, symbol: u32) {
        self.push_key(key);
        let end = self.len() as u32;
        match self.runs.last_mut() {
            Some(run) if run.symbol == symbol => run.end = end,
            _ => self.runs.push(SymbolRun { symbol, end }),
        }
    }

    /// Appends the body, which has been checked, of the row whose header was appended last. Until the next
    /// [`Filled::flush`] the source's plan is the same.
    pub fn push_body(&mut self, body: &[u8], source: &ColumnSource) {
        if self.waiting.arena.len() > WAITING_BYTES {
            self.flush(source);
        }
        let Waiting { arena, starts } = &mut self.waiting;
        starts.push(arena.len() as u32);
        arena.extend_from_slice(body);
    }

    /// Makes columns of the bodies that wait.
    pub fn flush(&mut self, source: &ColumnSource) {
        let Self { waiting: Waiting { arena, starts }, values, .. } = self;
        if !starts.is_empty() {
            source.transpose((&arena[..], &starts[..]), values);
        }
        arena.clear();
        starts.clear();
    }

    /// Whether bodies wait.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.starts.is_empty()
    }
}

/// Moves the values of these rows, ascending, to the front.
fn keep<T: Copy>(values: &mut Vec<T>, rows: &[u32]) {
    for (to, row) in rows.iter().enumerate() {
        values[to] = values[*row as usize];
    }
    values.truncate(rows.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_chosen_rows_are_kept() {
        let mut filled = Filled::new(true);
        (filled.times, filled.sequences) = ((0..10).collect(), (100..110).collect());
        filled.runs = [(7, 3), (8, 5), (9, 10)].map(|(symbol, end)| SymbolRun { symbol, end }).to_vec();
        filled.keep_headers(&[0, 2, 5, 9]);
        assert_eq!(
            (&filled.times[..], &filled.sequences[..]),
            (&[0, 2, 5, 9][..], &[100, 102, 105, 109][..])
        );
        let runs: Vec<_> = filled.runs.iter().map(|run| (run.symbol, run.end)).collect();
        assert_eq!(runs, [(7, 2), (9, 4)]);
    }
}
