//! Reads a segment: its index first, then the requested blocks.

use crate::block::Block;
use crate::damage::{Damage, DamagedPart, Flaw};
use crate::decoder::Selection;
use crate::error::SegmentError;
use crate::format::{
    BlockEntry, HEADER_BYTES, Index, SegmentHeader, SymbolEntry, TRAILER_BYTES, Trailer, first_block,
    read_footer,
};
use crate::head::{Chunk, Head, OWN, crc32c, lanes, own};
use crate::plan::Plan;
use std::io;
use std::ops::Range;
use tapedb_codec::dynamic::Layouts;

/// Bytes that can be read anywhere: a file, or bytes in memory.
pub trait ReadAt {
    /// Reads up to `buf.len()` bytes at `offset`; returns how many, 0 at the end.
    ///
    /// # Errors
    /// What the system refuses.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Bytes there are.
    ///
    /// # Errors
    /// What the system refuses.
    fn size(&self) -> io::Result<u64>;
}

impl ReadAt for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let count = buf.len().min(self.len() - start);
        buf[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_slice().read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

#[cfg(unix)]
impl ReadAt for std::fs::File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

impl<T: ReadAt + ?Sized> ReadAt for std::sync::Arc<T> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        (**self).read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

/// An open segment.
///
/// Always true: blocks lie one after the other, and the times of those of one strand never go back.
#[derive(Debug)]
pub struct Segment<R> {
    file: R,
    header: SegmentHeader,
    plan: Plan,
    blocks: Vec<BlockEntry>,
    /// The strand of each block; none: all are in one.
    strands: Vec<u16>,
    pub(crate) symbols: Vec<SymbolEntry>,
    /// Blocks that may have any symbol, as runs: theirs are unknown.
    pub(crate) blind: Vec<(u32, u32)>,
    messages: u64,
    bytes: u64,
}

impl<R: ReadAt> Segment<R> {
    /// Reads header and index; blocks only on request.
    ///
    /// # Errors
    /// [`SegmentError::Damaged`] if the file is not a segment or its index is damaged; [`SegmentError::Io`].
    pub fn open(file: R) -> Result<Self, SegmentError> {
        let size = file.size().map_err(|source| SegmentError::Io { offset: 0, source })?;
        let (header, schema, front) = read_header(&file, size)?;
        let plan = plan_of(&schema)?;
        let index = read_index(&file, size, Some(front))?;
        Ok(Self::of_parts(file, (header, plan), index, size))
    }

    pub(crate) fn of_parts(
        file: R,
        (header, plan): (SegmentHeader, Plan),
        Index { blocks, symbols, strands }: Index,
        bytes: u64,
    ) -> Self {
        let messages = blocks.iter().map(|block| u64::from(block.count)).sum();
        Self { file, header, plan, blocks, strands, symbols, blind: Vec::new(), messages, bytes }
    }

    /// The file's header.
    pub fn header(&self) -> &SegmentHeader {
        &self.header
    }

    /// The schema of the messages, and their columns.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The blocks in the order of the file: of each strand in order of time.
    pub fn blocks(&self) -> &[BlockEntry] {
        &self.blocks
    }

    /// Number of strands: blocks of different strands are of different symbols, and may overlap in time.
    pub fn strand_count(&self) -> usize {
        self.strands.iter().max().map_or(1, |last| usize::from(*last) + 1)
    }

    /// Whether blocks are in several strands.
    pub fn has_strands(&self) -> bool {
        !self.strands.is_empty()
    }

    /// The strand of a block.
    pub fn strand_of(&self, index: usize) -> usize {
        self.strands.get(index).map_or(0, |strand| usize::from(*strand))
    }

    /// Earliest and latest time of all blocks; `None`: there is no block.
    pub fn time_range(&self) -> Option<(i64, i64)> {
        let times = self.blocks.iter().map(|block| (block.time_min, block.time_max));
        times.reduce(|all, times| (all.0.min(times.0), all.1.max(times.1)))
    }

    /// Messages in all blocks.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ids of the symbols, ascending, and how many messages each has.
    pub fn symbols(&self) -> impl ExactSizeIterator<Item = (u32, u64)> {
        self.symbols.iter().map(|entry| (entry.symbol, entry.count))
    }

    /// Runs of blocks that have messages about a symbol, ascending.
    pub fn blocks_of(&self, symbol: u32) -> impl DoubleEndedIterator<Item = Range<usize>> {
        let found = self.symbols.binary_search_by_key(&symbol, |entry| entry.symbol).ok();
        let runs = found.map_or(&self.blind[..], |index| &self.symbols[index].blocks);
        runs.iter().map(|run| run.0 as usize..run.1 as usize)
    }

    /// Blocks that may have messages from time `from` to `last`, both included, in nanoseconds since the Unix epoch:
    /// found in O(log blocks), and to be read in either direction. Where there are several strands, blocks of other times may be
    /// among them, and all blocks are looked at.
    pub fn blocks_between(&self, from: i64, last: i64) -> Range<usize> {
        if self.has_strands() {
            let is_between = |block: &BlockEntry| block.time_max >= from && block.time_min <= last;
            let start = self.blocks.iter().position(is_between).unwrap_or(0);
            return start..self.blocks.iter().rposition(is_between).map_or(start, |index| index + 1);
        }
        let start = self.blocks.partition_point(|block| block.time_max < from);
        let end = self.blocks.partition_point(|block| block.time_min <= last);
        start..end.max(start)
    }

    /// Reads a block whole. Its columns are checked when they are used.
    ///
    /// # Errors
    /// [`SegmentError::Unknown`] if there is no such block, [`SegmentError::Damaged`] if its head is damaged,
    /// [`SegmentError::Io`].
    pub fn read_block(&self, index: usize, block: &mut Block) -> Result<(), SegmentError> {
        let entry = self.entry(index)?;
        block.place = Some((index as u32, entry.offset));
        read(&self.file, entry.offset, entry.len as usize, &mut block.bytes)?;
        block.parse()?;
        self.check_entry(index, block)
    }

    /// Reads of a block its head, its own columns (times, symbols, places), and the columns of record types that
    /// `is_wanted`, by record type and number. [`Decoder::column`](crate::Decoder::column) needs those that a column
    /// depends on too: presence, counts and tags, and one that it follows.
    ///
    /// # Errors
    /// As [`Self::read_block`]. Using a column that was not read is an error like a damaged one.
    pub fn read_columns(
        &self,
        index: usize,
        block: &mut Block,
        is_wanted: impl Fn(u16, u16) -> bool,
    ) -> Result<(), SegmentError> {
        self.read_front(index, block)?;
        self.read_rest(index, block, |head, chunk| {
            let group = head.groups.get(usize::from(chunk.group));
            chunk.column >= lanes::TIME || group.is_some_and(|group| is_wanted(group.type_id, chunk.column))
        })
    }

    /// [`Self::read_columns`], of the record types and symbols of `selection` only: what
    /// [`Decoder::headers`](crate::Decoder::headers) needs for it, and [`Decoder::column`](crate::Decoder::column) for the same
    /// symbols.
    ///
    /// # Errors
    /// As [`Self::read_columns`].
    pub fn read_wanted(
        &self,
        index: usize,
        block: &mut Block,
        selection: &Selection<'_>,
        is_wanted: impl Fn(u16, u16) -> bool,
    ) -> Result<(), SegmentError> {
        self.read_front(index, block)?;
        // The lane of each row is an index into all lanes.
        let is_by_row = block.head.chunk(OWN, own::LANE).is_some();
        self.read_rest(index, block, |head, chunk| {
            let group = usize::from(chunk.group);
            let is_of_lanes = chunk.column >= lanes::TIME;
            let type_id = head.groups.get(group).map(|group| group.type_id);
            is_by_row && chunk.column >= lanes::SYMBOL
                || selection.wants_of(head, group)
                    && (is_of_lanes || type_id.is_some_and(|type_id| is_wanted(type_id, chunk.column)))
        })
    }

    /// Reads of a block what [`Decoder::rows`](crate::Decoder::rows) needs for the same `selection`: of record types with
    /// many symbols only the columns of those near the wanted ones.
    ///
    /// # Errors
    /// As [`Self::read_block`]. Using what was not read is an error like damage.
    pub fn read_selected(
        &self,
        index: usize,
        block: &mut Block,
        selection: &Selection<'_>,
    ) -> Result<(), SegmentError> {
        if selection.symbols.is_none() && selection.types.is_none() {
            return self.read_block(index, block);
        }
        self.read_front(index, block)?;
        // The lane of each row is an index into all lanes.
        let is_by_row = block.head.chunk(OWN, own::LANE).is_some();
        self.read_rest(index, block, |head, chunk| {
            is_by_row && chunk.column >= lanes::SYMBOL || selection.wants_of(head, chunk.group.into())
        })
    }

    /// Reads only the head of a block, which is a thousandth of it, and leaves `block` without rows.
    ///
    /// # Errors
    /// As [`Self::read_block`].
    pub fn read_head(&self, index: usize, block: &mut Block) -> Result<(), SegmentError> {
        let entry = self.entry(index)?;
        block.place = Some((index as u32, entry.offset));
        read(&self.file, entry.offset, entry.head_len as usize, &mut block.bytes)?;
        block.parse_head()?;
        self.check_entry(index, block)
    }

    /// Whether a block may have rows that are wanted, as far as record types and symbols go: reads only its head, which is
    /// a thousandth of it, and leaves `block` without rows.
    ///
    /// # Errors
    /// As [`Self::read_block`].
    pub fn may_hold(
        &self,
        index: usize,
        block: &mut Block,
        selection: &Selection<'_>,
    ) -> Result<bool, SegmentError> {
        self.read_head(index, block)?;
        Ok((0..block.head.groups.len()).any(|group| selection.wants_of(&block.head, group)))
    }

    /// Reads the head of a block and its own columns. The others are missing.
    fn read_front(&self, index: usize, block: &mut Block) -> Result<(), SegmentError> {
        let entry = self.entry(index)?;
        block.place = Some((index as u32, entry.offset));
        // What was there is overwritten or missing, and clearing it would take longer than reading.
        block.bytes.resize(entry.len as usize, 0);
        fill(&self.file, entry.offset, &mut block.bytes[..entry.front_len as usize])?;
        block.parse()?;
        self.check_entry(index, block)?;
        let Block { head, missing, .. } = block;
        head.chunks.iter().zip(missing).for_each(|(chunk, missing)| *missing = chunk.group != OWN);
        Ok(())
    }

    /// Reads the columns of groups that `is_wanted`; short stretches of others between them are read along.
    fn read_rest(
        &self,
        index: usize,
        block: &mut Block,
        is_wanted: impl Fn(&Head, &Chunk) -> bool,
    ) -> Result<(), SegmentError> {
        let offset = self.entry(index)?.offset;
        let Block { bytes, head, missing, .. } = block;
        let mut stretch = 0..0;
        let mut fill = |stretch: &Range<usize>| {
            fill(&self.file, offset + stretch.start as u64, &mut bytes[stretch.clone()])
        };
        for (chunk, missing) in head.chunks.iter().zip(missing).filter(|(chunk, _)| chunk.group != OWN) {
            if !is_wanted(head, chunk) {
                continue;
            }
            *missing = false;
            let start = chunk.offset as usize;
            if start > stretch.end + GAP_BYTES {
                fill(&stretch)?;
                stretch.start = start;
            } else if stretch.is_empty() {
                stretch.start = start;
            }
            stretch.end = start + chunk.len as usize;
        }
        fill(&stretch)
    }

    fn entry(&self, index: usize) -> Result<&BlockEntry, SegmentError> {
        let (need, have) = (self.blocks.len() as u64, index as u64);
        self.blocks.get(index).ok_or(SegmentError::Unknown { what: "block", need, have })
    }

    /// Footer and head agree.
    fn check_entry(&self, index: usize, block: &Block) -> Result<(), SegmentError> {
        let (entry, head) = (self.entry(index)?, block.head());
        let same = (entry.count, entry.time_min, entry.time_max, entry.head_len, entry.front_len)
            == (head.count, head.time_min, head.time_max, head.bytes, head.front_bytes())
            && (entry.sequence_min, entry.sequence_max) == (head.sequence_min, head.sequence_max);
        if same {
            return Ok(());
        }
        Err(block.head_damage("rows, as in the footer,", entry.count.into(), head.count.into()).into())
    }
}

/// Reading so many bytes takes less time than another system call.
const GAP_BYTES: usize = 8 << 10;

/// Header, schema, and where the blocks begin.
pub(crate) fn read_header<R: ReadAt>(
    file: &R,
    size: u64,
) -> Result<(SegmentHeader, String, u64), SegmentError> {
    let mut bytes = Vec::new();
    read(file, 0, size.min(HEADER_BYTES as u64) as usize, &mut bytes)?;
    let (header, length, crc) = SegmentHeader::read(&bytes)?;
    let front = HEADER_BYTES as u64 + length as u64;
    let damage = |flaw| Damage::new(DamagedPart::Header, HEADER_BYTES as u64, flaw);
    if front > size {
        return Err(damage(Flaw::Short { need: front, have: size }).into());
    }
    read(file, HEADER_BYTES as u64, length, &mut bytes)?;
    let need = crc32c(&bytes);
    if need != crc {
        return Err(damage(Flaw::Checksum { need, have: crc }).into());
    }
    let schema = String::from_utf8(bytes).map_err(|_| damage(Flaw::Schema))?;
    Ok((header, schema, front))
}

/// Blocks, symbols and strands. `front`: where the blocks begin; `None`: the index is believed.
pub(crate) fn read_index<R: ReadAt>(file: &R, size: u64, front: Option<u64>) -> Result<Index, SegmentError> {
    let mut bytes = Vec::new();
    let end = size.saturating_sub(TRAILER_BYTES as u64).max(front.unwrap_or(0)).min(size);
    read(file, end, (size - end) as usize, &mut bytes)?;
    let trailer = Trailer::read(&bytes, size)?;
    let offset = trailer.footer_offset;
    read(file, offset, trailer.footer_len as usize, &mut bytes)?;
    let (need, have) = (crc32c(&bytes), trailer.footer_crc);
    if need != have {
        return Err(Damage::new(DamagedPart::Footer, offset, Flaw::Checksum { need, have }).into());
    }
    let front = front.unwrap_or_else(|| first_block(&bytes, offset));
    let index = read_footer(&bytes, (front, offset), trailer.has_strands)?;
    let sum: u64 = index.blocks.iter().map(|block| u64::from(block.count)).sum();
    if sum != trailer.message_count {
        let flaw = Flaw::Mismatch { what: "messages", need: trailer.message_count, have: sum };
        return Err(Damage::new(DamagedPart::Footer, offset, flaw).into());
    }
    Ok(index)
}

pub(crate) fn plan_of(schema: &str) -> Result<Plan, Damage> {
    let damage = || Damage::new(DamagedPart::Header, HEADER_BYTES as u64, Flaw::Schema);
    let schema = schema.parse().map_err(|_| damage())?;
    Layouts::new(schema).map(Plan::new).map_err(|_| damage())
}

/// Replaces `bytes` by `len` bytes from `offset`.
pub(crate) fn read<R: ReadAt>(
    file: &R,
    offset: u64,
    len: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), SegmentError> {
    bytes.resize(len, 0);
    fill(file, offset, bytes)
}

pub(crate) fn fill<R: ReadAt>(file: &R, offset: u64, mut bytes: &mut [u8]) -> Result<(), SegmentError> {
    let mut at = offset;
    while !bytes.is_empty() {
        match file.read_at(bytes, at) {
            Ok(0) => {
                let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter");
                return Err(SegmentError::Io { offset: at, source });
            }
            Ok(count) => {
                bytes = &mut bytes[count..];
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(SegmentError::Io { offset: at, source }),
        }
    }
    Ok(())
}
