//! The bytes of a segment file outside its blocks: header, footer, trailer. See `docs/format/segment.md`.

use crate::column::{take, take_array};
use crate::damage::{Damage, DamagedPart, Flaw};
use crate::head::Head;
use tapedb_codec::bytes::{check_layout, crc32c, u16_at, u32_at, u64_at};

/// The newest format version that this program reads, and the one that it writes where blocks are in several strands.
pub const VERSION: u16 = 4;
/// The version of files whose blocks all follow each other in time.
const VERSION_OF_ONE_STRAND: u16 = 3;
pub(crate) const MAGIC: &[u8; 8] = b"TAPESEG1";
pub(crate) const END_MAGIC: &[u8; 8] = b"TAPEEND1";
/// The end of a file whose footer lists the strands of blocks.
pub(crate) const END_OF_STRANDS_MAGIC: &[u8; 8] = b"TAPEEND2";
/// Bytes of the header before the schema.
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const TRAILER_BYTES: usize = 40;
pub(crate) const ENTRY_BYTES: usize = 56;
/// The longest text of a schema.
pub const SCHEMA_BYTES_MAX: usize = 16 << 20;
/// The most blocks of a segment.
pub const BLOCKS_MAX: usize = 1 << 20;
/// The most strands of a segment.
pub const STRANDS_MAX: usize = (1 << 16) - 1;
/// The longest footer.
pub const FOOTER_BYTES_MAX: usize = 256 << 20;

/// Every field of a header in file order: offset, bytes, name. The format page's table is tested against it.
pub const HEADER_LAYOUT: [(usize, usize, &str); 11] = [
    (0, 8, "magic"),
    (8, 2, "version"),
    (10, 2, "schema_version"),
    (12, 4, "space"),
    (16, 8, "stream_id"),
    (24, 8, "first_sequence"),
    (32, 8, "next_sequence"),
    (40, 4, "schema_len"),
    (44, 4, "schema_crc"),
    (48, 12, "reserved"),
    (60, 4, "header_crc"),
];

/// The same of an entry of the footer.
pub const ENTRY_LAYOUT: [(usize, usize, &str); 8] = [
    (0, 8, "offset"),
    (8, 4, "len"),
    (12, 4, "head_len"),
    (16, 4, "count"),
    (20, 4, "front_len"),
    (24, 8, "time_min"),
    (32, 8, "time_max"),
    (40, 16, "sequence_min, sequence_max"),
];

/// The same of a trailer.
pub const TRAILER_LAYOUT: [(usize, usize, &str); 6] = [
    (0, 8, "footer_offset"),
    (8, 8, "footer_len"),
    (16, 8, "message_count"),
    (24, 4, "footer_crc"),
    (28, 4, "trailer_crc"),
    (32, 8, "magic"),
];

const _: () = {
    check_layout(&HEADER_LAYOUT, HEADER_BYTES);
    check_layout(&ENTRY_LAYOUT, ENTRY_BYTES);
    check_layout(&TRAILER_LAYOUT, TRAILER_BYTES);
};

/// The header of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The stream.
    pub stream_id: u64,
    /// Space of the stream.
    pub space: u32,
    /// Version of the stream's schema that bodies are encoded with.
    pub schema_version: u16,
    /// The messages come from those with sequence numbers from here, …
    pub first_sequence: u64,
    /// … to before here: some of them may have been deleted before the segment was written.
    pub next_sequence: u64,
}

/// One block in the footer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockEntry {
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// Bytes of its head.
    pub head_len: u32,
    /// Bytes of its head and of its own columns, which follow it.
    pub front_len: u32,
    /// Rows.
    pub count: u32,
    /// Earliest time, nanoseconds since the Unix epoch.
    pub time_min: i64,
    /// Latest time; not before that of the block before in the same strand.
    pub time_max: i64,
    /// Smallest sequence number.
    pub sequence_min: u64,
    /// Largest sequence number.
    pub sequence_max: u64,
}

/// One symbol in the footer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SymbolEntry {
    pub symbol: u32,
    /// Messages.
    pub count: u64,
    /// Blocks that have it, as runs: first, one after the last.
    pub blocks: Vec<(u32, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub footer_offset: u64,
    pub footer_len: u64,
    pub message_count: u64,
    pub footer_crc: u32,
    /// Whether the footer lists the strands of blocks.
    pub has_strands: bool,
}

/// What a footer states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub blocks: Vec<BlockEntry>,
    pub symbols: Vec<SymbolEntry>,
    /// The strand of each block; none: all are in one.
    pub strands: Vec<u16>,
}

impl SegmentHeader {
    /// Appends header and schema.
    pub(crate) fn write(&self, schema: &str, has_strands: bool, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(MAGIC);
        let version = if has_strands { VERSION } else { VERSION_OF_ONE_STRAND };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&self.schema_version.to_le_bytes());
        out.extend_from_slice(&self.space.to_le_bytes());
        out.extend_from_slice(&self.stream_id.to_le_bytes());
        out.extend_from_slice(&self.first_sequence.to_le_bytes());
        out.extend_from_slice(&self.next_sequence.to_le_bytes());
        out.extend_from_slice(&(schema.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32c(schema.as_bytes()).to_le_bytes());
        out.resize(start + HEADER_BYTES - 4, 0);
        let crc = crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(schema.as_bytes());
    }

    /// Reads the first [`HEADER_BYTES`]; returns length and checksum of the schema after them too.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, usize, u32), Damage> {
        let damage = |flaw| Damage::new(DamagedPart::Header, 0, flaw);
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(damage(Flaw::Short { need: HEADER_BYTES as u64, have: bytes.len() as u64 }));
        };
        if !header.starts_with(MAGIC) {
            return Err(damage(Flaw::Magic));
        }
        let (need, have) = (crc32c(&header[..HEADER_BYTES - 4]), u32_at(header, 60));
        if need != have {
            return Err(damage(Flaw::Checksum { need, have }));
        }
        let version = u16_at(header, 8);
        if !(1..=VERSION).contains(&version) {
            return Err(damage(Flaw::Version { need: VERSION, have: version }));
        }
        let schema_len = u32_at(header, 40) as usize;
        if schema_len > SCHEMA_BYTES_MAX {
            let (need, have) = (SCHEMA_BYTES_MAX as u64, schema_len as u64);
            return Err(damage(Flaw::Mismatch { what: "bytes of the schema", need, have }));
        }
        let read = Self {
            stream_id: u64_at(header, 16),
            space: u32_at(header, 12),
            schema_version: u16_at(header, 10),
            first_sequence: u64_at(header, 24),
            next_sequence: u64_at(header, 32),
        };
        Ok((read, schema_len, u32_at(header, 44)))
    }
}

/// Whether blocks of the file with this header may be in several strands, as far as the header, which may be damaged, shows it.
pub(crate) fn may_have_strands(header: &[u8]) -> bool {
    header.len() >= 10 && u16_at(header, 8) > VERSION_OF_ONE_STRAND
}

/// The offset of the first block, by a footer that begins at `offset`.
pub(crate) fn first_block(footer: &[u8], offset: u64) -> u64 {
    // Behind the two counts.
    if u32_at(footer, 0) == 0 { offset } else { u64_at(footer, 8) }
}

impl BlockEntry {
    /// The entry of a block that begins at `offset`.
    pub(crate) fn of(offset: u64, head: &Head) -> Self {
        Self {
            offset,
            len: head.bytes + head.chunk_bytes,
            head_len: head.bytes,
            front_len: head.front_bytes(),
            count: head.count,
            time_min: head.time_min,
            time_max: head.time_max,
            sequence_min: head.sequence_min,
            sequence_max: head.sequence_max,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        for number in [self.len, self.head_len, self.count, self.front_len] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.time_min.to_le_bytes());
        out.extend_from_slice(&self.time_max.to_le_bytes());
        out.extend_from_slice(&self.sequence_min.to_le_bytes());
        out.extend_from_slice(&self.sequence_max.to_le_bytes());
    }

    fn read(bytes: &[u8; ENTRY_BYTES]) -> Self {
        Self {
            offset: u64_at(bytes, 0),
            len: u32_at(bytes, 8),
            head_len: u32_at(bytes, 12),
            count: u32_at(bytes, 16),
            front_len: u32_at(bytes, 20),
            time_min: u64_at(bytes, 24) as i64,
            time_max: u64_at(bytes, 32) as i64,
            sequence_min: u64_at(bytes, 40),
            sequence_max: u64_at(bytes, 48),
        }
    }
}

/// Appends the footer.
pub(crate) fn write_footer(Index { blocks, symbols, strands }: &Index, out: &mut Vec<u8>) {
    out.extend_from_slice(&(blocks.len() as u32).to_le_bytes());
    out.extend_from_slice(&(symbols.len() as u32).to_le_bytes());
    blocks.iter().for_each(|block| block.write(out));
    let mut before = 0;
    for entry in symbols {
        write_varint(u64::from(entry.symbol) - before, out);
        before = u64::from(entry.symbol) + 1;
        write_varint(entry.count, out);
        write_varint(entry.blocks.len() as u64, out);
        let mut end = 0;
        for run in &entry.blocks {
            write_varint((run.0 - end).into(), out);
            write_varint((run.1 - run.0).into(), out);
            end = run.1;
        }
    }
    strands.iter().for_each(|strand| out.extend_from_slice(&strand.to_le_bytes()));
}

/// Reads a footer that begins at `offset` of its file; blocks lie after `front` and before it.
pub(crate) fn read_footer(
    mut bytes: &[u8],
    (front, offset): (u64, u64),
    has_strands: bool,
) -> Result<Index, Damage> {
    let footer = &mut bytes;
    let mut read = || {
        let (blocks, symbols) = read_blocks(footer, front, offset)?;
        let symbols = read_symbols(footer, symbols, blocks.len() as u32)?;
        let strands = if has_strands { read_strands(footer, blocks.len())? } else { Vec::new() };
        check("bytes after the footer", 0, footer.len() as u64, footer.is_empty())?;
        check_times(&blocks, &strands)?;
        Ok(Index { blocks, symbols, strands })
    };
    read().map_err(|flaw| Damage::new(DamagedPart::Footer, offset, flaw))
}

fn read_strands(bytes: &mut &[u8], blocks: usize) -> Result<Vec<u16>, Flaw> {
    let numbers = take(bytes, blocks * 2)?.as_chunks::<2>().0;
    let strands: Vec<u16> = numbers.iter().map(|number| u16::from_le_bytes(*number)).collect();
    let last = strands.iter().max().map_or(0, |last| usize::from(*last));
    check("strand", STRANDS_MAX as u64, last as u64, last < STRANDS_MAX)?;
    Ok(strands)
}

/// The times of the blocks of one strand never go back.
fn check_times(blocks: &[BlockEntry], strands: &[u16]) -> Result<(), Flaw> {
    let mut lasts = vec![i64::MIN; strands.iter().max().map_or(1, |last| usize::from(*last) + 1)];
    for (index, block) in blocks.iter().enumerate() {
        let last = &mut lasts[strands.get(index).map_or(0, |strand| usize::from(*strand))];
        let ordered = *last <= block.time_min && block.time_min <= block.time_max;
        check("time of a block", *last as u64, block.time_min as u64, ordered)?;
        *last = block.time_max;
    }
    Ok(())
}

fn read_blocks(bytes: &mut &[u8], front: u64, offset: u64) -> Result<(Vec<BlockEntry>, u32), Flaw> {
    let count = u32::from_le_bytes(take_array(bytes)?) as usize;
    let symbols = u32::from_le_bytes(take_array(bytes)?);
    let entries = take(bytes, count.saturating_mul(ENTRY_BYTES))?.as_chunks::<ENTRY_BYTES>().0;
    let blocks: Vec<BlockEntry> = entries.iter().map(BlockEntry::read).collect();
    let mut end = front;
    for block in &blocks {
        check("offset of a block", end, block.offset, end == block.offset)?;
        check("bytes of a block", block.len.into(), block.front_len.into(), block.front_len <= block.len)?;
        let ordered = block.head_len <= block.front_len;
        check("bytes of the front of a block", block.front_len.into(), block.head_len.into(), ordered)?;
        let ordered = block.sequence_min <= block.sequence_max;
        check("sequence number of a block", block.sequence_min, block.sequence_max, ordered)?;
        end += u64::from(block.len);
    }
    check("end of the blocks", offset, end, end == offset)?;
    Ok((blocks, symbols))
}

fn read_symbols(bytes: &mut &[u8], count: u32, blocks: u32) -> Result<Vec<SymbolEntry>, Flaw> {
    // Each takes three bytes or more.
    let mut symbols = Vec::with_capacity((count as usize).min(bytes.len() / 3));
    let mut next = 0u64;
    for _ in 0..count {
        let symbol = next.saturating_add(read_varint(bytes)?);
        check("symbol", u32::MAX.into(), symbol, symbol <= u32::MAX.into())?;
        next = symbol + 1;
        let count = read_varint(bytes)?;
        let runs = read_varint(bytes)?;
        check("runs of blocks", bytes.len() as u64 / 2, runs, runs <= bytes.len() as u64 / 2)?;
        let mut entry =
            SymbolEntry { symbol: symbol as u32, count, blocks: Vec::with_capacity(runs as usize) };
        let mut end = 0u64;
        for _ in 0..runs {
            let start = end.saturating_add(read_varint(bytes)?);
            end = start.saturating_add(read_varint(bytes)?);
            check("blocks of a symbol", blocks.into(), end, end <= blocks.into() && start < end)?;
            entry.blocks.push((start as u32, end as u32));
        }
        symbols.push(entry);
    }
    Ok(symbols)
}

fn check(what: &'static str, need: u64, have: u64, holds: bool) -> Result<(), Flaw> {
    if holds { Ok(()) } else { Err(Flaw::Mismatch { what, need, have }) }
}

/// Seven bits a byte, low ones first; the high bit: more follow.
pub(crate) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Result<u64, Flaw> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take_array(bytes)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Flaw::Mismatch { what: "bytes of a number", need: 10, have: 11 })
}

impl Trailer {
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.footer_offset.to_le_bytes());
        out.extend_from_slice(&self.footer_len.to_le_bytes());
        out.extend_from_slice(&self.message_count.to_le_bytes());
        out.extend_from_slice(&self.footer_crc.to_le_bytes());
        let crc = crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(if self.has_strands { END_OF_STRANDS_MAGIC } else { END_MAGIC });
    }

    /// Reads the end of a file of `file_len` bytes.
    pub fn read(bytes: &[u8], file_len: u64) -> Result<Self, Damage> {
        let offset = file_len.saturating_sub(TRAILER_BYTES as u64);
        let damage = |flaw| Damage::new(DamagedPart::Footer, offset, flaw);
        let Some(trailer) = bytes.first_chunk::<TRAILER_BYTES>() else {
            return Err(damage(Flaw::Short { need: TRAILER_BYTES as u64, have: bytes.len() as u64 }));
        };
        let has_strands = trailer.ends_with(END_OF_STRANDS_MAGIC);
        if !has_strands && !trailer.ends_with(END_MAGIC) {
            return Err(damage(Flaw::Magic));
        }
        let (need, have) = (crc32c(&trailer[..28]), u32_at(trailer, 28));
        if need != have {
            return Err(damage(Flaw::Checksum { need, have }));
        }
        let read = Self {
            footer_offset: u64_at(trailer, 0),
            footer_len: u64_at(trailer, 8),
            message_count: u64_at(trailer, 16),
            footer_crc: u32_at(trailer, 24),
            has_strands,
        };
        let end = read.footer_offset.checked_add(read.footer_len);
        let fits = end == Some(offset) && read.footer_len <= FOOTER_BYTES_MAX as u64;
        check("end of the footer", offset, end.unwrap_or(u64::MAX), fits).map_err(damage)?;
        Ok(read)
    }
}
