//! Rows of the stream in memory, until they are written by partition, symbol and time.
//!
//! Blocks come by symbol: in them, rows of a symbol are a run that is in time order. So runs are sorted instead of rows, and only
//! those of a symbol whose times overlap are taken apart.

use crate::error::Error;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, make_array};
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Nanoseconds of a day.
pub(crate) const DAY: i64 = 86_400_000_000_000;

/// Rows that are put together at once.
const CHUNK_ROWS: usize = 1 << 16;

/// A part of a table: a day since 1970, and a bucket of symbols, 0 where there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Partition {
    pub day: i32,
    pub bucket: i32,
}

/// Rows that have been read, and where they belong.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    batches: Vec<RecordBatch>,
    partitions: BTreeMap<Partition, Vec<Run>>,
    bytes: usize,
    rows: u64,
    /// The symbols so far: later batches have the same and perhaps more.
    names: Option<ArrayRef>,
    buckets: Vec<i32>,
}

/// Neighbouring rows of one symbol and day, in time order.
#[derive(Debug, Clone, Copy)]
struct Run {
    symbol: i32,
    batch: u32,
    start: u32,
    end: u32,
    first: Key,
    last: Key,
}

/// Where a row belongs among those of its symbol: time, sequence number, space.
type Key = (i64, u64, u32);

/// The header of a batch.
struct Header<'a> {
    times: &'a [i64],
    sequences: &'a [u64],
    spaces: Option<&'a [u32]>,
}

impl Header<'_> {
    fn key(&self, row: usize) -> Key {
        (self.times[row], self.sequences[row], self.spaces.map_or(0, |spaces| spaces[row]))
    }
}

impl Rows {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a batch of the stream: time, symbol, sequence number, perhaps the space, then the fields. Rows before the sequence numbers `since`,
    /// of which there is one for each space, are left out. `buckets`: partitions by symbol.
    ///
    /// # Errors
    /// When its columns are others.
    pub fn add(
        &mut self,
        batch: RecordBatch,
        since: &[u64],
        with_spaces: bool,
        buckets: u32,
    ) -> Result<(), Error> {
        let rows = batch.num_rows();
        let columns = batch.columns().to_vec();
        let symbols = columns.get(1).and_then(|column| column.as_dictionary_opt::<Int32Type>());
        let symbols = symbols.ok_or_else(wrong)?;
        let header = header_of(&columns, with_spaces).ok_or_else(wrong)?;
        let names = symbols.values();
        if self.names.as_ref().is_none_or(|known| known.len() < names.len()) {
            let texts = names.as_string_opt::<i32>().ok_or_else(wrong)?;
            self.buckets
                .extend((self.buckets.len()..texts.len()).map(|key| bucket(texts.value(key), buckets)));
            self.names = Some(names.clone());
        }
        let keys = symbols.keys().values();
        let number = self.batches.len() as u32;
        let is_old = |row: usize| {
            let space = header.spaces.map_or(0, |spaces| spaces[row]) as usize;
            since.get(space).is_some_and(|since| header.sequences[row] < *since)
        };
        let (mut start, mut added) = (0, 0);
        while start < rows {
            if is_old(start) {
                start += 1;
                continue;
            }
            let (symbol, day) = (keys[start], header.times[start].div_euclid(DAY));
            let mut end = start + 1;
            while end < rows
                && keys[end] == symbol
                && header.times[end].div_euclid(DAY) == day
                && header.key(end - 1) <= header.key(end)
                && !is_old(end)
            {
                end += 1;
            }
            let bucket = self.buckets.get(symbol as usize).copied().unwrap_or(0);
            let partition = Partition { day: day as i32, bucket };
            self.partitions.entry(partition).or_default().push(Run {
                symbol,
                batch: number,
                start: start as u32,
                end: end as u32,
                first: header.key(start),
                last: header.key(end - 1),
            });
            added += end - start;
            start = end;
        }
        if added > 0 {
            self.bytes += batch.get_array_memory_size();
            self.rows += added as u64;
            self.batches.push(batch);
        }
        Ok(())
    }

    /// Gives the rows away, one partition after the other.
    pub fn take(&mut self, with_spaces: bool) -> Sorted {
        let Self { batches, partitions, names, .. } = std::mem::take(self);
        let names = names.unwrap_or_else(|| arrow_array::new_empty_array(&arrow_schema::DataType::Utf8));
        let ranks = ranks(&names);
        let columns = batches.first().map_or(0, RecordBatch::num_columns);
        let data = |column: usize| batches.iter().map(move |batch| batch.column(column).to_data()).collect();
        // The symbols are made of runs, without looking at rows.
        let data = (0..columns).map(|column| if column == 1 { Vec::new() } else { data(column) });
        Sorted { data: data.collect(), batches: batches.clone(), partitions, names, ranks, with_spaces }
    }
}

fn wrong() -> Error {
    Error::Rows("the columns of the stream are not those that were asked for; please report this".into())
}

fn header_of(columns: &[ArrayRef], with_spaces: bool) -> Option<Header<'_>> {
    let spaces = match with_spaces {
        true => Some(&**columns.get(3)?.as_primitive_opt::<UInt32Type>()?.values()),
        false => None,
    };
    Some(Header {
        times: columns.first()?.as_primitive_opt::<TimestampNanosecondType>()?.values(),
        sequences: columns.get(2)?.as_primitive_opt::<UInt64Type>()?.values(),
        spaces,
    })
}

/// Places of names in their order.
fn ranks(names: &ArrayRef) -> Vec<u32> {
    let Some(names) = names.as_string_opt::<i32>() else { return Vec::new() };
    let mut order: Vec<u32> = (0..names.len() as u32).collect();
    order.sort_unstable_by_key(|key| names.value(*key as usize));
    let mut ranks = vec![0; order.len()];
    (0u32..).zip(order).for_each(|(rank, key)| ranks[key as usize] = rank);
    ranks
}

/// Rows by partition.
#[derive(Debug)]
pub(crate) struct Sorted {
    batches: Vec<RecordBatch>,
    /// Columns, and their batches.
    data: Vec<Vec<ArrayData>>,
    partitions: BTreeMap<Partition, Vec<Run>>,
    names: ArrayRef,
    ranks: Vec<u32>,
    with_spaces: bool,
}

impl Sorted {
    /// The next partition, and its rows by symbol, time and sequence number.
    pub fn next(&mut self) -> Option<(Partition, Pieces)> {
        let (partition, mut runs) = self.partitions.pop_first()?;
        let ranks = &self.ranks;
        runs.sort_unstable_by_key(|run| (ranks.get(run.symbol as usize).copied(), run.first));
        let mut pieces = Vec::with_capacity(runs.len());
        for same in runs.chunk_by(|one, other| one.symbol == other.symbol) {
            let mut start = 0;
            while start < same.len() {
                // Runs that overlap are one group.
                let (mut end, mut last) = (start + 1, same[start].last);
                while end < same.len() && same[end].first < last {
                    last = last.max(same[end].last);
                    end += 1;
                }
                match &same[start..end] {
                    [one] => pieces.push(piece(one, one.start..one.end)),
                    several => self.merge(several, &mut pieces),
                }
                start = end;
            }
        }
        Some((partition, Pieces { pieces, at: 0 }))
    }

    /// Adds the rows of runs that overlap, as pieces that are as long as possible.
    fn merge(&self, runs: &[Run], pieces: &mut Vec<Piece>) {
        let mut rows: Vec<(Key, u32, u32, i32)> = Vec::new();
        for run in runs {
            let batch = self.batches[run.batch as usize].columns();
            let Some(header) = header_of(batch, self.with_spaces) else { continue };
            rows.extend(
                (run.start..run.end).map(|row| (header.key(row as usize), run.batch, row, run.symbol)),
            );
        }
        rows.sort_unstable();
        for (_, batch, row, symbol) in rows {
            match pieces.last_mut() {
                Some(last) if last.batch == batch && last.rows.end == row && last.symbol == symbol => {
                    last.rows.end += 1;
                }
                _ => pieces.push(Piece { symbol, batch, rows: row..row + 1 }),
            }
        }
    }

    /// The next rows of a partition, as columns of the stream; `None`: that was all.
    ///
    /// # Errors
    /// When texts or entries of so many rows have more bytes than an array may have.
    pub fn chunk(&self, pieces: &mut Pieces) -> Result<Option<Vec<ArrayRef>>, Error> {
        let (mut taken, mut rows) = (Vec::new(), 0usize);
        while rows < CHUNK_ROWS
            && let Some(piece) = pieces.pieces.get_mut(pieces.at)
        {
            let count = piece.rows.len().min(CHUNK_ROWS - rows);
            let middle = piece.rows.start + count as u32;
            taken.push(Piece { rows: piece.rows.start..middle, ..piece.clone() });
            piece.rows.start = middle;
            pieces.at += usize::from(piece.rows.is_empty());
            rows += count;
        }
        if rows == 0 {
            return Ok(None);
        }
        // Of all batches only those that have some of the rows.
        let mut used = HashMap::new();
        let mut order = Vec::new();
        for piece in &mut taken {
            let next = order.len() as u32;
            let index = *used.entry(piece.batch).or_insert(next);
            if index == next {
                order.push(piece.batch as usize);
            }
            piece.batch = index;
        }
        let columns = self.data.iter().enumerate().map(|(column, data)| {
            if column == 1 {
                return Ok(self.symbols(&taken, rows));
            }
            let sources = order.iter().map(|batch| &data[*batch]).collect();
            let mut out = MutableArrayData::new(sources, false, rows);
            for piece in &taken {
                out.try_extend(piece.batch as usize, piece.rows.start as usize, piece.rows.end as usize)?;
            }
            Ok(make_array(out.freeze()))
        });
        columns.collect::<Result<_, Error>>().map(Some)
    }

    fn symbols(&self, pieces: &[Piece], rows: usize) -> ArrayRef {
        let mut keys = Vec::with_capacity(rows);
        for piece in pieces {
            keys.resize(keys.len() + piece.rows.len(), piece.symbol);
        }
        // Keys come from batches with the same names.
        let keys = Int32Array::from(keys);
        match DictionaryArray::<Int32Type>::try_new(keys, self.names.clone()) {
            Ok(symbols) => Arc::new(symbols),
            Err(_) => arrow_array::new_empty_array(&arrow_schema::DataType::Null),
        }
    }
}

fn piece(run: &Run, rows: Range<u32>) -> Piece {
    Piece { symbol: run.symbol, batch: run.batch, rows }
}

/// Neighbouring rows of a batch.
#[derive(Debug, Clone)]
struct Piece {
    symbol: i32,
    batch: u32,
    rows: Range<u32>,
}

/// The rows of a partition that have not been written yet.
#[derive(Debug)]
pub(crate) struct Pieces {
    pieces: Vec<Piece>,
    at: usize,
}

/// Iceberg's bucket of a text: Murmur3 of its bytes, with 32 bits and seed 0.
pub(crate) fn bucket(text: &str, buckets: u32) -> i32 {
    if buckets == 0 {
        return 0;
    }
    ((murmur3(text.as_bytes()) & 0x7fff_ffff) % buckets) as i32
}

fn murmur3(bytes: &[u8]) -> u32 {
    const C1: u32 = 0xcc9e_2d51;
    const C2: u32 = 0x1b87_3593;
    let mix = |word: u32| word.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = 0u32;
    for word in words {
        hash =
            (hash ^ mix(u32::from_le_bytes(*word))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0u32, |word, byte| (word << 8) | u32::from(*byte));
        hash ^= mix(word);
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{TimestampNanosecondArray, UInt64Array};
    use arrow_schema::{Field, Schema};

    #[test]
    fn buckets_are_those_of_iceberg() {
        // From the specification's appendix B.
        assert_eq!(murmur3("iceberg".as_bytes()), 1_210_000_089);
        assert_eq!(murmur3(&[0, 1, 2, 3]), (-188_683_207i32) as u32);
        assert_eq!((bucket("iceberg", 16), bucket("x", 0)), (9, 0));
    }

    /// A batch of symbols, times and sequence numbers.
    fn batch(names: &[&str], rows: &[(i32, i64, u64)]) -> RecordBatch {
        let keys = Int32Array::from_iter_values(rows.iter().map(|row| row.0));
        let names = Arc::new(arrow_array::StringArray::from(names.to_vec()));
        let times =
            TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.1)).with_timezone("UTC");
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("time", Arc::new(times)),
            ("symbol", Arc::new(DictionaryArray::new(keys, names))),
            ("sequence", Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.2)))),
        ];
        let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), false));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap()
    }

    /// Symbol, time and sequence number of a row.
    type Row = (String, i64, u64);

    /// All rows, by day.
    fn all(rows: &mut Rows) -> Vec<(i32, Vec<Row>)> {
        let mut sorted = rows.take(false);
        let mut found = Vec::new();
        while let Some((partition, mut pieces)) = sorted.next() {
            let mut rows = Vec::new();
            while let Some(columns) = sorted.chunk(&mut pieces).unwrap() {
                let symbols = columns[1].as_dictionary::<Int32Type>();
                let names = symbols.downcast_dict::<arrow_array::StringArray>().unwrap();
                let times = columns[0].as_primitive::<TimestampNanosecondType>();
                let sequences = columns[2].as_primitive::<UInt64Type>();
                rows.extend((0..times.len()).map(|row| {
                    (
                        arrow_array::ArrayAccessor::value(&names, row).to_string(),
                        times.value(row),
                        sequences.value(row),
                    )
                }));
            }
            found.push((partition.day, rows));
        }
        found
    }

    #[test]
    fn rows_are_by_day_symbol_time_and_sequence() {
        let mut rows = Rows::default();
        rows.add(batch(&["B", "A"], &[(0, 5, 0), (0, 9, 2), (0, DAY, 3), (1, 7, 1)]), &[], false, 0).unwrap();
        rows.add(batch(&["B", "A", "C"], &[(0, 9, 4), (0, 10, 5), (2, -1, 6)]), &[], false, 0).unwrap();
        rows.add(batch(&["B", "A", "C"], &[(0, 6, 7), (0, 9, 9), (0, 9, 8), (1, 8, 10)]), &[], false, 0)
            .unwrap();
        let row = |symbol: &str, time, sequence| (symbol.to_string(), time, sequence);
        assert_eq!(rows.rows(), 11);
        assert_eq!(
            all(&mut rows),
            [
                (-1, vec![row("C", -1, 6)]),
                (
                    0,
                    vec![
                        row("A", 7, 1),
                        row("A", 8, 10),
                        row("B", 5, 0),
                        row("B", 6, 7),
                        row("B", 9, 2),
                        row("B", 9, 4),
                        row("B", 9, 8),
                        row("B", 9, 9),
                        row("B", 10, 5),
                    ]
                ),
                (1, vec![row("B", DAY, 3)]),
            ]
        );
        assert_eq!((rows.rows(), rows.bytes()), (0, 0));
    }
}
