//! The plainest encoding of a block, for rows that the usual one does not preserve.
//!
//! Nothing is narrow, predicted or compressed: times, sequence numbers and all other numbers are eight bytes each, and bodies
//! are stored as they are. Every version of the reader decodes it, by loops that only copy.

use crate::column::{INTS, STRINGS};
use crate::format::write_varint;
use crate::head::{Chunk, Group, OWN, crc32c, lanes as numbers, own};
use crate::lanes::Lane;
use crate::source::Source;
use std::collections::BTreeMap;

/// Tags of integers and texts that are not encoded any further.
const PLAIN_INTS: u8 = 0x01;
const PLAIN_TEXTS: u8 = 0x00;

/// Appends the block of `source`, which has rows.
pub(crate) fn write(source: Source<'_>, content: u64, out: &mut Vec<u8>) {
    let mut rows_of: BTreeMap<(u16, u32), Vec<u64>> = BTreeMap::new();
    for (number, lane) in (0..).zip(source.types.iter().copied().zip(source.symbols.iter().copied())) {
        rows_of.entry(lane).or_default().push(number);
    }
    let all: Vec<(Lane, Vec<u64>)> = rows_of.into_iter().map(lane_of).collect();
    let mut columns = Columns::default();
    columns.add_ints(OWN, own::TIME, source.times.iter().map(|time| *time as u64));
    columns.add_ints(OWN, own::SEQUENCE, source.sequences.iter().copied());
    let mut groups = Vec::new();
    for lanes in all.chunk_by(|(a, _), (b, _)| a.type_id == b.type_id) {
        let rows: Vec<u64> = lanes.iter().flat_map(|(_, rows)| rows).copied().collect();
        let group = groups.len() as u16;
        columns.add_texts(group, 0, rows.iter().map(|row| source.body(*row as usize)));
        columns.add_ints(group, numbers::SYMBOL, lanes.iter().map(|(lane, _)| lane.symbol.into()));
        columns.add_ints(group, numbers::COUNT, lanes.iter().map(|(lane, _)| lane.count.into()));
        columns.add_ints(group, numbers::POSITION, rows.iter().copied());
        let Lane { type_id, symbol: first_symbol, .. } = lanes[0].0;
        let (count, lanes) = (rows.len() as u32, lanes.len() as u32);
        groups.push(Group { type_id, is_whole: true, count, lanes, first_symbol });
    }
    source.head(Some(content), groups, columns.list).write(out);
    out.extend_from_slice(&columns.bytes);
}

fn lane_of(((type_id, symbol), rows): ((u16, u32), Vec<u64>)) -> (Lane, Vec<u64>) {
    (Lane { type_id, symbol, count: rows.len() as u32 }, rows)
}

/// Columns one after the other.
#[derive(Default)]
struct Columns {
    list: Vec<Chunk>,
    bytes: Vec<u8>,
}

impl Columns {
    fn add_ints(&mut self, group: u16, column: u16, values: impl Iterator<Item = u64>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[INTS, PLAIN_INTS]);
        values.for_each(|value| self.bytes.extend_from_slice(&value.to_le_bytes()));
        self.end(group, column, start);
    }

    fn add_texts<'a>(&mut self, group: u16, column: u16, texts: impl Iterator<Item = &'a [u8]>) {
        let (start, mut lengths, mut content) = (self.bytes.len(), vec![PLAIN_INTS], Vec::new());
        for text in texts {
            lengths.extend_from_slice(&(text.len() as u64).to_le_bytes());
            content.extend_from_slice(text);
        }
        self.bytes.extend_from_slice(&[STRINGS, PLAIN_TEXTS]);
        write_varint(lengths.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(&lengths);
        self.bytes.extend_from_slice(&content);
        self.end(group, column, start);
    }

    fn end(&mut self, group: u16, column: u16, start: usize) {
        let bytes = &self.bytes[start..];
        let (len, crc) = (bytes.len() as u32, crc32c(bytes));
        self.list.push(Chunk { group, column, offset: 0, len, crc, range: None });
    }
}
