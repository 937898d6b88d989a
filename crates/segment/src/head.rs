//! The head of a block: its content and the positions of its columns, at most a few bytes for each thousand rows.

use crate::damage::{Damage, DamagedPart, Flaw};
use std::ops::Range;
pub(crate) use tapedb_codec::bytes::{crc32c, u16_at, u32_at, u64_at};

/// Bytes of the fixed part of a head.
pub(crate) const HEAD_BYTES: usize = 80;
/// Bytes for each record type.
pub(crate) const GROUP_BYTES: usize = 16;
/// Bytes for each column.
pub(crate) const CHUNK_BYTES: usize = 32;
pub(crate) const MAGIC: &[u8; 4] = b"TPK1";
/// Bit of the flags: there is a checksum of the content.
pub(crate) const HAS_CONTENT: u32 = 1;
/// The most rows of a block.
pub const BLOCK_ROWS_MAX: usize = 65_535;
/// The most bytes of bodies of a block.
pub const BLOCK_BYTES_MAX: usize = 8 << 20;
/// The longest body.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Heads of more columns than this are refused.
const CHUNKS_MAX: u32 = 1 << 20;

/// [`Chunk::group`] of the block's own columns.
pub(crate) const OWN: u16 = u16::MAX;

/// Numbers of the block's own columns.
pub(crate) mod own {
    pub const TIME: u16 = 0;
    pub const SEQUENCE: u16 = 1;
    pub const LANE: u16 = 2;
}

/// Numbers of the columns of a group that are not of its records: they have the lanes of its rows.
pub(crate) mod lanes {
    /// The first of these numbers. Few groups have this column: nothing needs it.
    pub const TIME: u16 = u16::MAX - 3;
    pub const SYMBOL: u16 = u16::MAX - 2;
    pub const COUNT: u16 = u16::MAX - 1;
    pub const POSITION: u16 = u16::MAX;
}

/// The content of a block's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// Rows.
    pub count: u32,
    /// Bytes of all bodies.
    pub body_bytes: u32,
    /// Earliest time, nanoseconds since the Unix epoch: that of the first row.
    pub time_min: i64,
    /// Latest time: that of the last row.
    pub time_max: i64,
    /// Smallest sequence number.
    pub sequence_min: u64,
    /// Largest sequence number.
    pub sequence_max: u64,
    /// Checksum of the rows as they were given to the writer; `None` in blocks of version 1, and in those that are only in
    /// memory.
    pub content: Option<u64>,
    /// The record types in order of their ids; one with many symbols is cut into groups of neighbouring symbols.
    pub groups: Vec<Group>,
    /// The columns in file order.
    pub chunks: Vec<Chunk>,
    /// Bytes of the head.
    pub bytes: u32,
    /// Bytes of the columns after it.
    pub chunk_bytes: u32,
}

/// The rows of one record type, or those of some neighbouring symbols of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    /// The record type.
    pub type_id: u16,
    /// The bodies are one column of bytes: they do not match the schema, or it does not have the type.
    pub is_whole: bool,
    /// Rows.
    pub count: u32,
    /// Symbols among them.
    pub lanes: u32,
    /// The smallest of these symbols. All are below that of the next group of the same record type.
    pub first_symbol: u32,
}

/// One column that is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Index of its record type in [`Head::groups`]; 65,535: the block's own.
    pub group: u16,
    /// Number of the column.
    pub column: u16,
    /// Where it begins, counted from the beginning of the block.
    pub offset: u32,
    /// Bytes.
    pub len: u32,
    /// CRC-32C of them.
    pub crc: u32,
    /// Smallest and largest value where there is an order: numbers as they are, `u64` and `decimal64` by their bits,
    /// floats by their bits if none is NaN.
    pub range: Option<(i64, i64)>,
}

impl Head {
    /// Appends the head; [`Head::bytes`], [`Head::chunk_bytes`] and the chunks' offsets follow from the rest.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let bytes = HEAD_BYTES + self.groups.len() * GROUP_BYTES + self.chunks.len() * CHUNK_BYTES;
        let chunk_bytes: u32 = self.chunks.iter().map(|chunk| chunk.len).sum();
        out.extend_from_slice(MAGIC);
        put(out, [0, bytes as u32, chunk_bytes, self.count, self.body_bytes]);
        put(out, [self.groups.len() as u32, self.chunks.len() as u32]);
        out.extend_from_slice(&self.time_min.to_le_bytes());
        out.extend_from_slice(&self.time_max.to_le_bytes());
        out.extend_from_slice(&self.sequence_min.to_le_bytes());
        out.extend_from_slice(&self.sequence_max.to_le_bytes());
        out.extend_from_slice(&self.content.unwrap_or(0).to_le_bytes());
        put(out, [if self.content.is_some() { HAS_CONTENT } else { 0 }]);
        out.resize(start + HEAD_BYTES, 0);
        for group in &self.groups {
            out.extend_from_slice(&group.type_id.to_le_bytes());
            out.extend_from_slice(&u16::from(group.is_whole).to_le_bytes());
            put(out, [group.count, group.lanes, group.first_symbol]);
        }
        for chunk in &self.chunks {
            out.extend_from_slice(&chunk.group.to_le_bytes());
            out.extend_from_slice(&chunk.column.to_le_bytes());
            put(out, [chunk.len, chunk.crc, u32::from(chunk.range.is_some())]);
            let (min, max) = chunk.range.unwrap_or_default();
            out.extend_from_slice(&min.to_le_bytes());
            out.extend_from_slice(&max.to_le_bytes());
        }
        let crc = crc32c(&out[start + 8..]);
        out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Bytes of the head whose first [`HEAD_BYTES`] are `bytes`, and of the columns after it.
    ///
    /// # Errors
    /// When they are not the front of a head.
    pub(crate) fn extent(bytes: &[u8]) -> Result<(usize, usize), Damage> {
        let Some(front) = bytes.first_chunk::<HEAD_BYTES>() else {
            return Err(damage(Flaw::Short { need: HEAD_BYTES as u64, have: bytes.len() as u64 }));
        };
        if !front.starts_with(MAGIC) {
            return Err(damage(Flaw::Magic));
        }
        let (groups, chunks) = (u32_at(front, 24), u32_at(front, 28));
        check("record types", u64::from(OWN), groups.into(), groups < u32::from(OWN))?;
        check("columns", CHUNKS_MAX.into(), chunks.into(), chunks <= CHUNKS_MAX)?;
        let bytes = HEAD_BYTES + groups as usize * GROUP_BYTES + chunks as usize * CHUNK_BYTES;
        let have = u32_at(front, 8);
        check("bytes of the head", bytes as u64, have.into(), bytes as u64 == u64::from(have))?;
        Ok((bytes, u32_at(front, 12) as usize))
    }

    /// Reads the head at the front of `bytes` into `self`, whose memory is reused.
    ///
    /// # Errors
    /// When it is damaged.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        let (length, chunk_bytes) = Self::extent(bytes)?;
        let Some(head) = bytes.get(..length) else {
            return Err(damage(Flaw::Short { need: length as u64, have: bytes.len() as u64 }));
        };
        let (need, have) = (crc32c(&head[8..]), u32_at(head, 4));
        if need != have {
            return Err(damage(Flaw::Checksum { need, have }));
        }
        (self.bytes, self.chunk_bytes) = (length as u32, chunk_bytes as u32);
        (self.count, self.body_bytes) = (u32_at(head, 16), u32_at(head, 20));
        (self.time_min, self.time_max) = (u64_at(head, 32) as i64, u64_at(head, 40) as i64);
        (self.sequence_min, self.sequence_max) = (u64_at(head, 48), u64_at(head, 56));
        self.content = (u32_at(head, 72) & HAS_CONTENT != 0).then(|| u64_at(head, 64));
        let (groups, chunks) = (u32_at(head, 24) as usize, u32_at(head, 28) as usize);
        let (groups, chunks) =
            (HEAD_BYTES..HEAD_BYTES + groups * GROUP_BYTES, length - chunks * CHUNK_BYTES..length);
        self.groups.clear();
        self.groups.extend(head[groups].chunks_exact(GROUP_BYTES).map(Group::read));
        self.chunks.clear();
        let mut offset = length as u64;
        for bytes in head[chunks].chunks_exact(CHUNK_BYTES) {
            let chunk = Chunk::read(bytes, offset.min(u64::from(u32::MAX)) as u32);
            offset += u64::from(chunk.len);
            self.chunks.push(chunk);
        }
        let end = length as u64 + chunk_bytes as u64;
        check("bytes of the columns", end, offset, end == offset && end <= u64::from(u32::MAX))?;
        self.check()
    }

    fn check(&self) -> Result<(), Damage> {
        let rows = u64::from(self.count);
        check("rows", BLOCK_ROWS_MAX as u64, rows, (1..=BLOCK_ROWS_MAX as u64).contains(&rows))?;
        let bytes = u64::from(self.body_bytes);
        check("bytes of bodies", BLOCK_BYTES_MAX as u64, bytes, bytes <= BLOCK_BYTES_MAX as u64)?;
        let (least, most) = (self.time_min as u64, self.time_max as u64);
        check("latest time", least, most, self.time_min <= self.time_max)?;
        let (least, most) = (self.sequence_min, self.sequence_max);
        check("largest sequence number", least, most, least <= most)?;
        let sum: u64 = self.groups.iter().map(|group| u64::from(group.count)).sum();
        check("rows of all record types", rows, sum, sum == rows)?;
        let sum: u64 = self.groups.iter().map(|group| u64::from(group.lanes)).sum();
        check("symbols", rows, sum, sum <= rows)?;
        let filled = self.groups.iter().all(|group| (1..=group.count).contains(&group.lanes));
        check("symbols of every group", 1, filled.into(), filled)?;
        let ids = self.groups.is_sorted_by(|a, b| (a.type_id, a.first_symbol) < (b.type_id, b.first_symbol));
        check("order of record types", 1, ids.into(), ids)?;
        let ordered = self.chunks.is_sorted_by(|a, b| a.key() < b.key());
        check("order of columns", 1, ordered.into(), ordered)
    }

    /// The column of that number, if it is there.
    pub fn chunk(&self, group: u16, column: u16) -> Option<&Chunk> {
        self.chunk_index(group, column).map(|index| &self.chunks[index])
    }

    pub(crate) fn chunk_index(&self, group: u16, column: u16) -> Option<usize> {
        let key = key(group, column);
        self.chunks.binary_search_by_key(&key, Chunk::key).ok()
    }

    /// The groups of a record type: indices in [`Head::groups`].
    pub fn groups_of(&self, type_id: u16) -> Range<usize> {
        let start = self.groups.partition_point(|group| group.type_id < type_id);
        start..self.groups.partition_point(|group| group.type_id <= type_id)
    }

    /// Whether a record type is cut into several groups.
    pub(crate) fn is_cut(&self) -> bool {
        self.groups.windows(2).any(|pair| pair[0].type_id == pair[1].type_id)
    }

    /// Bytes of the head and of the block's own columns, which follow it.
    pub(crate) fn front_bytes(&self) -> u32 {
        let own = self.chunks.iter().take_while(|chunk| chunk.group == OWN);
        own.fold(self.bytes, |sum, chunk| sum + chunk.len)
    }

    /// The symbols that a group may have: the first, and the one after the last.
    pub(crate) fn symbols_of(&self, index: usize) -> Range<u64> {
        let group = &self.groups[index];
        let next = self.groups.get(index + 1).filter(|next| next.type_id == group.type_id);
        group.first_symbol.into()..next.map_or(1 << 32, |next| next.first_symbol.into())
    }
}

impl Group {
    fn read(bytes: &[u8]) -> Self {
        Self {
            type_id: u16_at(bytes, 0),
            is_whole: u16_at(bytes, 2) != 0,
            count: u32_at(bytes, 4),
            lanes: u32_at(bytes, 8),
            first_symbol: u32_at(bytes, 12),
        }
    }
}

impl Chunk {
    fn read(bytes: &[u8], offset: u32) -> Self {
        let range = (u64_at(bytes, 16) as i64, u64_at(bytes, 24) as i64);
        Self {
            group: u16_at(bytes, 0),
            column: u16_at(bytes, 2),
            offset,
            len: u32_at(bytes, 4),
            crc: u32_at(bytes, 8),
            range: (u32_at(bytes, 12) & 1 != 0).then_some(range),
        }
    }

    fn key(&self) -> u32 {
        key(self.group, self.column)
    }
}

/// The block's own columns come first.
fn key(group: u16, column: u16) -> u32 {
    u32::from(group.wrapping_add(1)) << 16 | u32::from(column)
}

fn put<const N: usize>(out: &mut Vec<u8>, numbers: [u32; N]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn check(what: &'static str, need: u64, have: u64, holds: bool) -> Result<(), Damage> {
    if holds { Ok(()) } else { Err(damage(Flaw::Mismatch { what, need, have })) }
}

fn damage(flaw: Flaw) -> Damage {
    Damage::new(DamagedPart::Block, 0, flaw)
}
