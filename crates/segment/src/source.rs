//! Rows before they are encoded: a column for each part of their headers, and their bodies one after the other.

use crate::head::{Chunk, Group, Head};
use crate::plan::{ColumnKind, Node, RecordNode};
use crate::row::RowHeader;
use crate::simd::widest;
use std::ops::Range;
use tapedb_codec::batch::{BatchColumns, Content, Words};

/// Rows that are collected.
///
/// Always true: all columns have an entry for each row; `ends` has the end of each body in `bodies`.
#[derive(Debug, Default)]
pub(crate) struct RowBuffer {
    times: Vec<i64>,
    sequences: Vec<u64>,
    symbols: Vec<u32>,
    types: Vec<u16>,
    ends: Vec<u32>,
    bodies: Vec<u8>,
    fields: Fields,
}

/// Fields of rows that came as columns: their slots as integers, in order of rows.
///
/// Always true: fields that have a column have a value for each of the first `rows` rows, which came as columns and are all of one
/// record type.
#[derive(Debug, Default)]
struct Fields {
    rows: usize,
    /// By their order in the record type; empty for what is no slot of up to eight bytes.
    columns: Vec<Vec<i64>>,
}

/// Rows to be encoded, or to be compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub times: &'a [i64],
    pub sequences: &'a [u64],
    pub symbols: &'a [u32],
    pub types: &'a [u16],
    /// End of each body in `bodies`.
    pub ends: &'a [u32],
    pub bodies: &'a [u8],
    /// If all rows came as columns of one record type: the slots of its fields, as integers; empty where a field has none of up
    /// to eight bytes.
    pub fields: &'a [Vec<i64>],
}

/// Consecutive rows as a batch has them: columns, and bodies one after the other. All columns have an entry for each row.
#[derive(Debug, Clone, Copy)]
pub struct RowRun<'a> {
    /// Nanoseconds since the Unix epoch.
    pub times: &'a [i64],
    /// Sequence number of the first row; they count up.
    pub first_sequence: u64,
    /// Ids in the stream's dictionary of symbols.
    pub symbols: &'a [u32],
    /// Ids of the record types in the stream's schema.
    pub types: &'a [u16],
    /// Where each body ends, counted from the same point as `start`.
    pub ends: &'a [u32],
    /// Where the first body begins. `bodies` begins there too.
    pub start: u32,
    /// The bodies.
    pub bodies: &'a [u8],
}

/// Consecutive rows of one record type as a batch of columns has them.
#[derive(Debug, Clone, Copy)]
pub struct ColumnRun<'a> {
    /// Nanoseconds since the Unix epoch.
    pub times: &'a [i64],
    /// Sequence number of the first row; they count up.
    pub first_sequence: u64,
    /// Ids in the stream's dictionary of symbols.
    pub symbols: &'a [u32],
    /// The columns of the batch, whose messages have one length.
    pub columns: &'a BatchColumns<'a>,
    /// The first row's place in the batch.
    pub first: usize,
}

impl RowBuffer {
    /// Adds a row.
    pub fn push(&mut self, row: RowHeader, body: &[u8]) {
        self.times.push(row.time);
        self.sequences.push(row.sequence);
        self.symbols.push(row.symbol);
        self.types.push(row.type_id);
        self.bodies.extend_from_slice(body);
        self.ends.push(self.bodies.len() as u32);
    }

    /// Adds some rows of a run.
    pub fn push_run(&mut self, run: &RowRun<'_>, rows: Range<usize>) {
        let first = run.first_sequence.wrapping_add(rows.start as u64);
        self.sequences.extend((0..rows.len() as u64).map(|row| first.wrapping_add(row)));
        self.times.extend_from_slice(&run.times[rows.clone()]);
        self.symbols.extend_from_slice(&run.symbols[rows.clone()]);
        self.types.extend_from_slice(&run.types[rows.clone()]);
        let (start, end) = (run.start_of(rows.start), run.start_of(rows.end));
        let moved = (self.bodies.len() as u32).wrapping_sub(start);
        self.ends.extend(run.ends[rows].iter().map(|end| end.wrapping_add(moved)));
        self.bodies.extend_from_slice(&run.bodies[(start - run.start) as usize..(end - run.start) as usize]);
    }

    /// Adds some rows of a run of columns. `record`: the layout of their record type.
    pub fn push_columns(&mut self, run: &ColumnRun<'_>, rows: Range<usize>, record: &RecordNode) {
        let type_id = run.columns.record().type_id;
        let is_of_one_type = self.types.first().is_none_or(|first| *first == type_id);
        let of_batch = run.first + rows.start..run.first + rows.end;
        if is_of_one_type && self.fields.rows == self.len() {
            self.fields.push(run.columns, of_batch.clone(), record);
        }
        let first = run.first_sequence.wrapping_add(rows.start as u64);
        self.sequences.extend((0..rows.len() as u64).map(|row| first.wrapping_add(row)));
        self.times.extend_from_slice(&run.times[rows.clone()]);
        self.symbols.extend_from_slice(&run.symbols[rows.clone()]);
        self.types.resize(self.times.len(), type_id);
        run.columns.append_bodies(of_batch, &mut self.bodies, &mut self.ends);
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Bytes of all bodies.
    pub fn body_bytes(&self) -> usize {
        self.bodies.len()
    }

    /// Time and sequence number of the last row.
    pub fn last(&self) -> Option<(i64, u64)> {
        self.times.last().copied().zip(self.sequences.last().copied())
    }

    /// Removes all rows; the memory stays.
    pub fn clear(&mut self) {
        self.times.clear();
        self.sequences.clear();
        self.symbols.clear();
        self.types.clear();
        self.ends.clear();
        self.bodies.clear();
        self.fields.clear();
    }

    /// The rows.
    pub fn source(&self) -> Source<'_> {
        let Self { times, sequences, symbols, types, ends, bodies, fields } = self;
        let fields = if fields.rows == times.len() { &fields.columns[..] } else { &[] };
        Source { times, sequences, symbols, types, ends, bodies, fields }
    }
}

impl Fields {
    fn clear(&mut self) {
        self.rows = 0;
        self.columns.iter_mut().for_each(Vec::clear);
    }

    fn push(&mut self, batch: &BatchColumns<'_>, rows: Range<usize>, record: &RecordNode) {
        self.rows += rows.len();
        self.columns.resize_with(record.fields.len().max(self.columns.len()), Vec::new);
        for ((field, column), out) in record.fields.iter().zip(batch.fields()).zip(&mut self.columns) {
            if let (Node::Leaf { kind, width, .. }, Content::Word(words)) = (&field.node, &column.content) {
                let is_signed = matches!(kind, ColumnKind::Int { signed: true, .. });
                append_slots(words, rows.clone(), if is_signed { 64 - 8 * width } else { 0 }, out);
            }
        }
    }
}

/// Appends words, whose upper `sign` bits become like the highest one below.
fn append_slots(words: &Words<'_>, rows: Range<usize>, sign: u32, out: &mut Vec<i64>) {
    let start = out.len();
    out.resize(start + rows.len(), 0);
    let mut places = out[start..].iter_mut();
    words.for_each(rows, |word| {
        if let Some(place) = places.next() {
            *place = ((word << sign) as i64) >> sign;
        }
    });
}

impl<'a> Source<'a> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// The header of a row.
    pub fn header(&self, row: usize) -> RowHeader {
        RowHeader {
            time: self.times[row],
            sequence: self.sequences[row],
            symbol: self.symbols[row],
            type_id: self.types[row],
        }
    }

    /// Where the body of a row is.
    pub fn span(&self, row: usize) -> Range<u32> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start..self.ends[row]
    }

    /// The body of a row.
    pub fn body(&self, row: usize) -> &'a [u8] {
        let Range { start, end } = self.span(row);
        &self.bodies[start as usize..end as usize]
    }

    /// Times of the first and the last row; 0 where there is none.
    pub fn times_of_ends(&self) -> (i64, i64) {
        let time = |time: Option<&i64>| time.copied().unwrap_or(0);
        (time(self.times.first()), time(self.times.last()))
    }

    /// Whether sequence numbers count up from row to row.
    pub fn counts_up(&self) -> bool {
        let first = self.sequences.first().copied().unwrap_or(0);
        let differing = |bits, (sequence, row): (&u64, u64)| bits | (sequence ^ first.wrapping_add(row));
        self.sequences.iter().zip(0..).fold(0, differing) == 0
    }

    /// The head of a block of these rows.
    pub fn head(&self, content: Option<u64>, groups: Vec<Group>, chunks: Vec<Chunk>) -> Head {
        let ((time_min, time_max), (sequence_min, sequence_max)) =
            (self.times_of_ends(), self.sequence_bounds());
        let (count, body_bytes) = (self.len() as u32, self.bodies.len() as u32);
        Head {
            count,
            body_bytes,
            time_min,
            time_max,
            sequence_min,
            sequence_max,
            content,
            groups,
            chunks,
            ..Head::default()
        }
    }

    /// Smallest and largest sequence number; 0 where there is no row.
    pub fn sequence_bounds(&self) -> (u64, u64) {
        let sequences = || self.sequences.iter().copied();
        sequences().min().zip(sequences().max()).unwrap_or_default()
    }
}

impl ColumnRun<'_> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Time and sequence number of a row.
    pub(crate) fn key(&self, row: usize) -> (i64, u64) {
        (self.times[row], self.first_sequence.wrapping_add(row as u64))
    }

    /// Bytes of each body.
    pub(crate) fn stride(&self) -> usize {
        self.columns.record().fixed
    }

    /// [`RowRun::fitting`].
    pub(crate) fn fitting(&self, first: usize, rows: usize, bytes: usize) -> usize {
        let rows = rows.min(self.len() - first);
        bytes.checked_div(self.stride()).map_or(rows, |fitting| rows.min(fitting + 1))
    }

    /// The first row that is not after the one before it in order of time.
    pub(crate) fn first_late(&self) -> Option<usize> {
        if self.times.is_sorted() {
            return None;
        }
        (1..self.len()).find(|row| self.times[*row] < self.times[row - 1])
    }
}

impl RowRun<'_> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Where the body of a row begins, or of the row after the last.
    fn start_of(&self, row: usize) -> u32 {
        if row == 0 { self.start } else { self.ends[row - 1] }
    }

    /// The header of a row.
    pub(crate) fn header(&self, row: usize) -> RowHeader {
        RowHeader {
            time: self.times[row],
            sequence: self.first_sequence.wrapping_add(row as u64),
            symbol: self.symbols[row],
            type_id: self.types[row],
        }
    }

    /// The body of a row.
    pub(crate) fn body(&self, row: usize) -> &[u8] {
        let (start, end) = (self.start_of(row), self.ends[row]);
        &self.bodies[(start - self.start) as usize..(end - self.start) as usize]
    }

    /// Rows from `first` on whose bodies have at most `bytes` together, and the one that exceeds it; at most `rows` of them.
    pub(crate) fn fitting(&self, first: usize, rows: usize, bytes: usize) -> usize {
        let rows = rows.min(self.len() - first);
        let start = self.start_of(first);
        let ends = &self.ends[first..first + rows];
        rows.min(ends.partition_point(|end| (end - start) as usize <= bytes) + 1)
    }

    /// The first row that is not after the one before it in order of time, or whose body is longer than `body_bytes`.
    pub(crate) fn first_wrong(&self, body_bytes: usize) -> Option<usize> {
        let is_earlier = |pair: &[i64]| u32::from(pair[1] < pair[0]);
        // Counted, not searched: a loop without an exit is vectorised.
        let (earlier, longest) = widest(
            #[inline(always)]
            || {
                let earlier: u32 = self.times.windows(2).map(is_earlier).sum();
                (earlier, self.ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0))
            },
        );
        let longest = longest.max(self.ends.first().map_or(0, |end| end - self.start)) as usize;
        if earlier == 0 && longest <= body_bytes {
            return None;
        }
        let is_wrong = |row: &usize| {
            let is_late = *row > 0 && self.times[*row] < self.times[row - 1];
            is_late || (self.ends[*row] - self.start_of(*row)) as usize > body_bytes
        };
        (0..self.len()).find(is_wrong)
    }
}
