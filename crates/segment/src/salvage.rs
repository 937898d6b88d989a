//! Opens segments whose header, footer or trailer is damaged, by their blocks.
//!
//! Where the index is damaged, blocks are found by their magic and the checksum of their heads, and times, sequence numbers
//! and symbols are taken from them. Where the header is damaged, the caller gives the expected one, and with which
//! schema. What a file claims never makes this read much more than the file.

use crate::block::Block;
use crate::damage::{Damage, Flaw};
use crate::decoder::{Decoder, Selection};
use crate::error::SegmentError;
use crate::format::{
    BLOCKS_MAX, BlockEntry, HEADER_BYTES, Index, STRANDS_MAX, SegmentHeader, SymbolEntry, may_have_strands,
};
use crate::head::{HEAD_BYTES, Head, MAGIC};
use crate::plan::Plan;
use crate::segment::{ReadAt, Segment, fill, plan_of, read, read_header, read_index};
use std::collections::BTreeMap;

/// Bytes that are read at once while looking for blocks.
const READ_BYTES: usize = 1 << 20;
/// Bytes of heads that may be read without success: the content of a message may look like the front of a block.
const VAIN_BYTES_MAX: usize = 64 << 20;

impl<R: ReadAt> Segment<R> {
    /// Opens a segment that may be damaged: like [`Segment::open`] if it is not. A damaged header is replaced by `expected`, with
    /// the schema of `plan`, if what is left of it shows that it was this version of the schema; of damaged footers and trailers everything is found out from the blocks. Returns what is damaged
    /// of header and index. Blocks whose heads are damaged are not among the blocks then: compare [`Segment::messages`] with
    /// what there should be.
    ///
    /// # Errors
    /// [`SegmentError::Io`]; [`SegmentError::Damaged`] if the file was written by a newer version of the format or with another
    /// version of the schema than `expected`, and if nothing of it can be read.
    pub fn salvage(
        file: R,
        expected: &SegmentHeader,
        plan: &Plan,
    ) -> Result<(Self, Vec<Damage>), SegmentError> {
        let size = file.size().map_err(|source| SegmentError::Io { offset: 0, source })?;
        let mut damaged = Vec::new();
        let opened = read_header(&file, size).and_then(|(header, schema, front)| {
            let plan = plan_of(&schema)?;
            Ok((header, plan, Some(front)))
        });
        let (header, plan, front) = match note(opened, &mut damaged)? {
            Some(found) => found,
            None if is_written_with(&file, size, expected, plan)? => (expected.clone(), plan.clone(), None),
            None => return Err(damaged.remove(0).into()),
        };
        if let Some(index) = note(read_index(&file, size, front), &mut damaged)? {
            let segment = Self::of_parts(file, (header, plan), index, size);
            return Ok((segment, damaged));
        }
        let mut bytes = Vec::new();
        read(&file, 0, size.min(HEADER_BYTES as u64) as usize, &mut bytes)?;
        let has_strands = may_have_strands(&bytes);
        let front = front.unwrap_or(HEADER_BYTES as u64);
        let (blocks, strands) = find_blocks(&file, (front, size), &header, has_strands)?;
        if blocks.is_empty()
            && let Some(first) = damaged.first()
        {
            return Err((*first).into());
        }
        let mut segment =
            Self::of_parts(file, (header, plan), Index { blocks, strands, symbols: Vec::new() }, size);
        segment.find_symbols()?;
        Ok((segment, damaged))
    }

    /// Computes which blocks have which symbols, as in the footer.
    fn find_symbols(&mut self) -> Result<(), SegmentError> {
        let (mut decoder, mut block, mut lanes) = (Decoder::new(), Block::new(), Vec::new());
        let mut symbols: BTreeMap<u32, SymbolEntry> = BTreeMap::new();
        for index in 0..self.blocks().len() {
            let number = index as u32;
            match self.read_columns(index, &mut block, |_, _| false) {
                Ok(()) => {}
                Err(error @ SegmentError::Io { .. }) => return Err(error),
                Err(_) => {
                    self.blind.push((number, number + 1));
                    continue;
                }
            }
            if decoder.lanes(&block, &Selection::default(), &mut lanes).is_err() {
                self.blind.push((number, number + 1));
                continue;
            }
            for (_, symbol, count) in &lanes {
                let entry = symbols.entry(*symbol).or_default();
                entry.symbol = *symbol;
                entry.count += u64::from(*count);
                add_run(&mut entry.blocks, number);
            }
        }
        // Their symbols are unknown, so they may have any.
        for entry in symbols.values_mut() {
            entry.blocks.extend(&self.blind);
            merge_runs(&mut entry.blocks);
        }
        self.symbols = symbols.into_values().collect();
        Ok(())
    }
}

/// Whether a segment whose header or schema is damaged was written with a version of the schema.
fn is_written_with<R: ReadAt>(
    file: &R,
    size: u64,
    expected: &SegmentHeader,
    plan: &Plan,
) -> Result<bool, SegmentError> {
    let mut bytes = Vec::new();
    read(file, 0, size.min(HEADER_BYTES as u64) as usize, &mut bytes)?;
    if let Ok((header, ..)) = SegmentHeader::read(&bytes) {
        return Ok(header.schema_version == expected.schema_version);
    }
    let schema = plan.layouts().schema().to_string();
    let rest = size.saturating_sub(HEADER_BYTES as u64);
    read(file, HEADER_BYTES as u64, rest.min(schema.len() as u64) as usize, &mut bytes)?;
    Ok(bytes == schema.as_bytes())
}

/// What was read, or `None` and the damage.
fn note<T>(read: Result<T, SegmentError>, damaged: &mut Vec<Damage>) -> Result<Option<T>, SegmentError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(SegmentError::Damaged(damage)) if !matches!(damage.flaw, Flaw::Version { .. }) => {
            damaged.push(damage);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Finds the blocks from `front` on whose heads are whole and which follow each other in time; `has_strands`: in any order. Then each
/// is in the first strand that ends before it, which need not be the one that it was written in.
fn find_blocks<R: ReadAt>(
    file: &R,
    (front, size): (u64, u64),
    header: &SegmentHeader,
    has_strands: bool,
) -> Result<(Vec<BlockEntry>, Vec<u16>), SegmentError> {
    let mut search = Search { file, size, vain: VAIN_BYTES_MAX, head: Head::default(), bytes: Vec::new() };
    let mut blocks: Vec<BlockEntry> = Vec::new();
    let (mut strands, mut lasts) = (Vec::new(), Vec::new());
    let mut at = front;
    while blocks.len() < BLOCKS_MAX {
        let Some(offset) = search.next_magic(at)? else { break };
        let last = blocks.last().map_or(i64::MIN, |block| block.time_max);
        let least = if has_strands { i64::MIN } else { last };
        match search.block_at(offset)? {
            Some(block) if is_next(&block, least, header) => {
                at = offset + u64::from(block.len);
                if has_strands {
                    let Some(strand) = strand_for(&block, &mut lasts) else { continue };
                    strands.push(strand);
                }
                blocks.push(block);
            }
            _ => at = offset + 1,
        }
    }
    Ok((blocks, strands))
}

/// The strand of a block, by the last time of each. Blocks that have a time in common are in different ones, for the order of their
/// rows is unknown. `None`: there are too many.
fn strand_for(block: &BlockEntry, lasts: &mut Vec<i64>) -> Option<u16> {
    let found = lasts.iter().position(|last| *last < block.time_min).unwrap_or(lasts.len());
    if found == STRANDS_MAX {
        return None;
    }
    if found == lasts.len() {
        lasts.push(block.time_max);
    }
    lasts[found] = block.time_max;
    Some(found as u16)
}

fn is_next(block: &BlockEntry, last: i64, header: &SegmentHeader) -> bool {
    block.time_min >= last
        && block.sequence_min >= header.first_sequence
        && block.sequence_max < header.next_sequence
}

/// Looks for blocks in a file.
struct Search<'a, R> {
    file: &'a R,
    size: u64,
    /// Bytes of heads that may still be read in vain.
    vain: usize,
    head: Head,
    bytes: Vec<u8>,
}

impl<R: ReadAt> Search<'_, R> {
    /// The next place, from `at` on, where a block may begin.
    fn next_magic(&mut self, mut at: u64) -> Result<Option<u64>, SegmentError> {
        while at + HEAD_BYTES as u64 <= self.size {
            // Where blocks follow each other, the next one begins here.
            if self.is_at(at)? {
                return Ok(Some(at));
            }
            let length = (self.size - at).min(READ_BYTES as u64) as usize;
            read(self.file, at, length, &mut self.bytes)?;
            if let Some(found) = self.bytes.windows(MAGIC.len()).position(|bytes| bytes == MAGIC) {
                return Ok(Some(at + found as u64));
            }
            at += (length - (MAGIC.len() - 1)) as u64;
        }
        Ok(None)
    }

    fn is_at(&self, at: u64) -> Result<bool, SegmentError> {
        let mut magic = [0; MAGIC.len()];
        fill(self.file, at, &mut magic)?;
        Ok(magic == *MAGIC)
    }

    /// The block that begins at `offset`, if its head is whole and its bytes are there.
    fn block_at(&mut self, offset: u64) -> Result<Option<BlockEntry>, SegmentError> {
        let rest = self.size - offset;
        if rest < HEAD_BYTES as u64 {
            return Ok(None);
        }
        read(self.file, offset, HEAD_BYTES, &mut self.bytes)?;
        let Ok((head_len, column_len)) = Head::extent(&self.bytes) else { return Ok(None) };
        let length = head_len as u64 + column_len as u64;
        if length > rest || head_len > self.vain {
            return Ok(None);
        }
        read(self.file, offset, head_len, &mut self.bytes)?;
        if self.head.read(&self.bytes).is_err() {
            self.vain -= head_len;
            return Ok(None);
        }
        Ok(Some(BlockEntry::of(offset, &self.head)))
    }
}

/// Adds a block to runs that end before it or with it.
fn add_run(runs: &mut Vec<(u32, u32)>, block: u32) {
    match runs.last_mut() {
        Some(run) if run.1 > block => {}
        Some(run) if run.1 == block => run.1 += 1,
        _ => runs.push((block, block + 1)),
    }
}

/// Puts runs in order, those that touch as one.
fn merge_runs(runs: &mut Vec<(u32, u32)>) {
    runs.sort_unstable();
    runs.dedup_by(|next, run| {
        let touches = next.0 <= run.1;
        if touches {
            run.1 = run.1.max(next.1);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::BlockOptions;
    use crate::decoder::Selection;
    use crate::format::BlockEntry;
    use crate::row::RowHeader;
    use crate::rows::Rows;
    use crate::writer::SegmentWriter;
    use std::iter::once;
    use tapedb_codec::dynamic::Layouts;

    fn plan() -> Plan {
        let schema = "message Tick {\n    note: string,\n}\n".parse().unwrap();
        Plan::new(Layouts::new(schema).unwrap())
    }

    fn header() -> SegmentHeader {
        SegmentHeader { stream_id: 7, space: 1, schema_version: 1, first_sequence: 10, next_sequence: 100 }
    }

    /// Blocks of four rows about symbols of their own, and one that all have. (The bodies are no `Tick`s, so they stay whole.)
    fn file(rows: u64) -> Vec<u8> {
        let options = BlockOptions { rows: 4, ..BlockOptions::default() };
        let mut writer = SegmentWriter::new(Vec::new(), plan(), &header(), options).unwrap();
        for row in 0..rows {
            let symbol = if row % 4 == 3 { 99 } else { (row / 4) as u32 };
            let header = RowHeader { time: row as i64, sequence: 10 + row, symbol, type_id: 0 };
            writer.push(header, format!("body TPK1 {row}").as_bytes()).unwrap();
        }
        writer.finish().unwrap().0
    }

    fn entry(segment: &Segment<Vec<u8>>, offset: u64) -> Option<&BlockEntry> {
        segment.blocks().iter().find(|block| block.offset == offset)
    }

    /// Sequence numbers that can be read of a segment, and how many blocks cannot.
    fn sequences(segment: &Segment<Vec<u8>>) -> (Vec<u64>, usize) {
        let (mut decoder, mut block, mut rows) = (Decoder::new(), Block::new(), Rows::new());
        let (mut found, mut failed) = (Vec::new(), 0);
        for index in 0..segment.blocks().len() {
            let read = segment.read_block(index, &mut block).map_err(|_| ());
            let read = read.and_then(|()| {
                decoder.rows(segment.plan(), &block, &Selection::default(), &mut rows).map_err(|_| ())
            });
            match read {
                Ok(()) => found.extend((0..rows.len()).map(|row| rows.sequence(row))),
                Err(()) => failed += 1,
            }
        }
        (found, failed)
    }

    #[test]
    fn every_flipped_bit_costs_its_own_block_at_most_and_is_reported() {
        let bytes = file(10);
        let whole = Segment::open(bytes.clone()).unwrap();
        let all: Vec<u64> = (10..20).collect();
        assert_eq!(sequences(&whole), (all.clone(), 0));
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let opened = Segment::salvage(broken, &header(), &plan());
            let (segment, damaged) = match opened {
                Ok(opened) => opened,
                Err(error) => panic!("bit {bit}: {error}"),
            };
            let (found, failed) = sequences(&segment);
            let at = (bit / 8) as u64;
            let of_block = whole
                .blocks()
                .iter()
                .find(|block| (block.offset..block.offset + u64::from(block.len)).contains(&at));
            let is_lost = |sequence: &u64| {
                of_block.is_some_and(|block| (block.sequence_min..=block.sequence_max).contains(sequence))
            };
            match of_block {
                Some(_) => {
                    assert!(damaged.is_empty() && failed == 1, "bit {bit}");
                    let rest: Vec<u64> = all.iter().copied().filter(|one| !is_lost(one)).collect();
                    assert_eq!(found, rest, "bit {bit}");
                }
                None => assert!(found == all && damaged.len() == 1, "bit {bit}: {found:?}, {damaged:?}"),
            }
        }
    }

    #[test]
    fn without_an_index_blocks_and_symbols_are_found() {
        let bytes = file(12);
        let whole = Segment::open(bytes.clone()).unwrap();
        for cut in [1, 40, 100] {
            let (segment, damaged) =
                Segment::salvage(bytes[..bytes.len() - cut].to_vec(), &header(), &plan()).unwrap();
            assert_eq!((damaged.len(), segment.blocks()), (1, whole.blocks()));
            assert!(segment.symbols().eq(whole.symbols()), "{cut}");
            for symbol in [0, 1, 99, 1000] {
                assert!(segment.blocks_of(symbol).eq(whole.blocks_of(symbol)), "{symbol}");
            }
        }
        // Without the head of the second block, and without the lanes of the third.
        let mut broken = bytes[..bytes.len() - 1].to_vec();
        let (second, third) = (whole.blocks()[1], whole.blocks()[2]);
        broken[second.offset as usize + 20] ^= 1;
        let lanes = third.offset as usize + third.len as usize - 2;
        broken[lanes] ^= 1;
        let (segment, _) = Segment::salvage(broken, &header(), &plan()).unwrap();
        assert_eq!(segment.blocks().len(), 2);
        assert!(entry(&segment, second.offset).is_none() && entry(&segment, third.offset).is_some());
        let newer = SegmentHeader { next_sequence: 12, ..header() };
        let mut wrong_version = bytes.clone();
        wrong_version[70] ^= 1;
        let other = SegmentHeader { schema_version: 2, ..header() };
        assert!(Segment::salvage(wrong_version, &other, &plan()).is_err(), "another version of the schema");
        let mut header_gone = bytes[..bytes.len() - 1].to_vec();
        header_gone[3] ^= 1;
        assert!(Segment::salvage(header_gone, &newer, &plan()).is_err(), "blocks of other messages");
    }

    #[test]
    fn blocks_with_unknown_symbols_are_searched_for_all() {
        let bytes = file(12);
        let whole = Segment::open(bytes.clone()).unwrap();
        let first = whole.blocks()[0];
        // Every byte of the first block's columns: one of them is of the lanes.
        let columns = (first.offset + u64::from(first.head_len))..first.offset + u64::from(first.len);
        let mut blind = 0;
        for at in columns {
            let mut broken = bytes[..bytes.len() - 1].to_vec();
            broken[at as usize] ^= 1;
            let (segment, _) = Segment::salvage(broken, &header(), &plan()).unwrap();
            if segment.blocks_of(1000).next().is_some() {
                blind += 1;
                assert!(segment.blocks_of(1000).eq(once(0..1)));
                assert!(segment.blocks_of(1).eq(once(0..2)) && segment.blocks_of(99).eq(once(0..3)));
            }
        }
        assert!(blind > 0);
    }
}
