//! Few distinct values, each stored once; the rows hold their indexes.

use std::ops::Range;

use super::EncodingError;
use super::bytes::{Reader, bit_width, in_range, write_varint};
use super::packed::{self, Packed, Scale};

/// Most distinct values that encoding tries.
const DISTINCT_MAX: usize = 4_096;
const SLOTS: usize = 4 * DISTINCT_MAX;
/// In percent: indexes of equally frequent values would take this much more than indexes of the usual ones do, because the
/// rare ones become exceptions.
const SKEW: usize = 140;
/// Rows sampled before all are read.
const SAMPLE: usize = 1_024;

/// A column as distinct values and the index of each row's.
pub(super) struct Dictionary {
    /// The most frequent first: so most indexes are small, and the others may become exceptions.
    pub(super) distinct: Vec<i64>,
    pub(super) indexes: Vec<i64>,
}

impl Dictionary {
    /// `None` when there are so many distinct values that a dictionary will hardly take less than `cost` bytes.
    pub(super) fn of(values: &[i64], cost: usize) -> Option<Self> {
        let step = values.len().div_ceil(SAMPLE).max(1);
        let sample = values.len().div_ceil(step);
        let table = Table::of(values.iter().step_by(step).copied(), sample / 2)?;
        if bit_width(table.distinct.len().saturating_sub(1) as u64) * values.len() > 8 * cost * SKEW / 100 {
            return None;
        }
        Self::of_any(values)
    }

    /// Only `None` when there are too many distinct values for any dictionary.
    pub(super) fn of_any(values: &[i64]) -> Option<Self> {
        let table = Table::of(values.iter().copied(), (values.len() / 4).min(DISTINCT_MAX))?;
        Some(Self::by_frequency(&table))
    }

    fn by_frequency(table: &Table) -> Self {
        let mut order: Vec<u32> = (0..table.distinct.len() as u32).collect();
        order.sort_by_key(|&id| std::cmp::Reverse(table.frequencies[id as usize]));
        let mut ranks = vec![0; order.len()];
        for (rank, &id) in order.iter().enumerate() {
            ranks[id as usize] = rank as i64;
        }
        Self {
            distinct: order.iter().map(|&id| table.distinct[id as usize]).collect(),
            indexes: table.ids.iter().map(|&id| ranks[usize::from(id)]).collect(),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        write_varint(self.distinct.len() as u64, out);
        packed::encode(&self.distinct, out);
        packed::encode(&self.indexes, out);
    }
}

/// Numbers distinct values in order of appearance; open addressing, a power of two of slots.
struct Table {
    distinct: Vec<i64>,
    frequencies: Vec<u32>,
    ids: Vec<u16>,
}

impl Table {
    fn of(values: impl ExactSizeIterator<Item = i64>, distinct_max: usize) -> Option<Self> {
        let mut slots = vec![0u16; SLOTS];
        let mut table =
            Self { distinct: Vec::new(), frequencies: Vec::new(), ids: Vec::with_capacity(values.len()) };
        for value in values {
            let id = table.id_of(value, &mut slots);
            if table.distinct.len() > distinct_max {
                return None;
            }
            table.frequencies[usize::from(id)] += 1;
            table.ids.push(id);
        }
        Some(table)
    }

    /// Slots hold ids plus one; 0 is free.
    fn id_of(&mut self, value: i64, slots: &mut [u16]) -> u16 {
        let mut slot = ((value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize;
        loop {
            match slots[slot % SLOTS] {
                0 => break,
                id if self.distinct[usize::from(id) - 1] == value => return id - 1,
                _ => slot += 1,
            }
        }
        self.distinct.push(value);
        self.frequencies.push(0);
        slots[slot % SLOTS] = self.distinct.len() as u16;
        self.distinct.len() as u16 - 1
    }
}

/// Replaces `out` by the values of `rows`.
pub(super) fn decode(
    reader: &mut Reader,
    count: usize,
    rows: Range<usize>,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let size = reader.bounded("distinct values", count)?;
    let distinct = Packed::read(reader, size)?;
    let offset = reader.offset();
    let indexes = Packed::read(reader, count)?;
    reader.finish()?;
    let mut values = Vec::new();
    distinct.decode(&mut values);
    indexes.decode_rows(rows, Scale::NONE, out);
    look_up(&values, offset, out)
}

fn look_up(values: &[i64], offset: usize, out: &mut [i64]) -> Result<(), EncodingError> {
    let mut largest = 0;
    for row in out.iter_mut() {
        largest = largest.max(*row as u64);
        *row = values.get(*row as usize).copied().unwrap_or(0);
    }
    match values.len() as u64 {
        _ if out.is_empty() => Ok(()),
        // Where nothing is distinct, no index is in range.
        0 => Err(EncodingError::OutOfRange { what: "index", offset, value: largest, max: 0 }),
        distinct => in_range("index", offset, largest, distinct - 1),
    }
}
