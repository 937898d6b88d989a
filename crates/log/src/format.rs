//! The bytes of log files and index files outside the batches: names, headers, index entries.

use crate::granule::{GRANULE_BYTES_MAX, Granule};
use tapedb_codec::batch;
use tapedb_codec::bytes::{check_layout, crc32c, crc32c_of_parts, put, u16_at, u32_at, u64_at};

/// Bytes before the first batch of a log file; also the header of index and symbol files.
pub const FILE_HEADER_BYTES: u64 = 64;
/// The newest format version of log, index, end and symbol files this program reads.
pub(crate) const VERSION: u16 = 3;
/// Log files have a salt, and their batches marks made with it, from this version on. Symbol files have version 1.
pub(crate) const VERSION_OF_MARKS: u16 = 2;
/// Log files may hold batches of columns from this version on; it is the version that is written.
pub(crate) const VERSION_OF_COLUMNS: u16 = 3;
/// Bytes of one granule in an index file.
pub(crate) const INDEX_ENTRY_BYTES: usize = 48;

pub(crate) const HEADER: usize = FILE_HEADER_BYTES as usize;

/// The kind of file that a header belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Log,
    Index,
    Symbols,
    Producers,
    End,
}

impl FileKind {
    pub(crate) fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Log => b"TAPELOG1",
            Self::Index => b"TAPEIDX1",
            Self::Symbols => b"TAPESYM1",
            Self::Producers => b"TAPEPRD1",
            Self::End => b"TAPEEND1",
        }
    }
}

/// Where each field of a file header begins.
pub(crate) mod at {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 8;
    pub const RESERVED_A: usize = 10;
    pub const SPACE: usize = 12;
    pub const STREAM_ID: usize = 16;
    pub const FIRST_SEQUENCE: usize = 24;
    pub const LOG_BYTES: usize = 32;
    pub const NEXT_SEQUENCE: usize = 40;
    pub const GRANULE_COUNT: usize = 48;
    pub const SALT: usize = 52;
    pub const HEADER_CRC: usize = 60;
}

/// Every field of a file header in file order: offset, bytes, name. The format page's table is tested against
/// it.
pub(crate) const HEADER_LAYOUT: [(usize, usize, &str); 11] = [
    (at::MAGIC, 8, "magic"),
    (at::VERSION, 2, "version"),
    (at::RESERVED_A, 2, "reserved_a"),
    (at::SPACE, 4, "space"),
    (at::STREAM_ID, 8, "stream_id"),
    (at::FIRST_SEQUENCE, 8, "first_sequence"),
    (at::LOG_BYTES, 8, "log_bytes"),
    (at::NEXT_SEQUENCE, 8, "next_sequence"),
    (at::GRANULE_COUNT, 4, "granule_count"),
    (at::SALT, 8, "salt"),
    (at::HEADER_CRC, 4, "header_crc"),
];

/// Every field of an index entry in file order: offset, bytes, name.
pub(crate) const ENTRY_LAYOUT: [(usize, usize, &str); 7] = [
    (0, 8, "offset"),
    (8, 8, "first_sequence"),
    (16, 8, "count"),
    (24, 8, "time_min"),
    (32, 8, "time_max"),
    (40, 4, "len"),
    (44, 4, "flags"),
];

const _: () = {
    check_layout(&HEADER_LAYOUT, HEADER);
    check_layout(&ENTRY_LAYOUT, INDEX_ENTRY_BYTES);
};

/// The header of a log file: its first 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileHeader {
    /// Format version of the file.
    pub version: u16,
    /// Space of the stream.
    pub space: u32,
    /// The stream.
    pub stream_id: u64,
    /// Sequence number of the first message; also the file's name.
    pub first_sequence: u64,
    /// A random number, the same in all files of the log, from version 2 on; else 0.
    pub(crate) salt: u64,
}

impl FileHeader {
    /// Version 1.
    pub(crate) fn new(stream_id: u64, space: u32, first_sequence: u64) -> Self {
        Self { version: 1, space, stream_id, first_sequence, salt: 0 }
    }

    /// Version 3.
    pub(crate) fn salted(self, salt: u64) -> Self {
        Self { version: VERSION_OF_COLUMNS, salt, ..self }
    }

    /// Whether batches of any kind can be appended to the file.
    pub(crate) fn takes_all_batches(&self) -> bool {
        self.version >= VERSION_OF_COLUMNS
    }

    /// Whether the batches of the file have marks made with the salt.
    pub(crate) fn is_salted(&self) -> bool {
        self.version >= VERSION_OF_MARKS
    }

    /// Whether both are of the same file of the same log, in any version.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        let Self { space, stream_id, first_sequence, .. } = *self;
        self.version <= VERSION
            && (space, stream_id, first_sequence) == (other.space, other.stream_id, other.first_sequence)
    }

    /// Reads the header of a log or symbol file; `None` when it is damaged or missing.
    pub(crate) fn parse(kind: FileKind, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER)?;
        is_whole(kind, bytes).then(|| Self::decode(bytes))
    }

    /// The header's bytes for a log or symbol file.
    pub(crate) fn bytes(&self, kind: FileKind) -> [u8; HEADER] {
        let mut out = self.open_bytes(kind);
        seal(&mut out);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Self {
        Self {
            version: u16_at(bytes, at::VERSION),
            space: u32_at(bytes, at::SPACE),
            stream_id: u64_at(bytes, at::STREAM_ID),
            first_sequence: u64_at(bytes, at::FIRST_SEQUENCE),
            salt: u64_at(bytes, at::SALT),
        }
    }

    /// The header's bytes without a checksum.
    pub(crate) fn open_bytes(&self, kind: FileKind) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        put(&mut out, at::MAGIC, kind.magic());
        put(&mut out, at::VERSION, &self.version.to_le_bytes());
        put(&mut out, at::SPACE, &self.space.to_le_bytes());
        put(&mut out, at::STREAM_ID, &self.stream_id.to_le_bytes());
        put(&mut out, at::FIRST_SEQUENCE, &self.first_sequence.to_le_bytes());
        put(&mut out, at::SALT, &self.salt.to_le_bytes());
        out
    }
}

/// Whether 64 bytes begin with the magic and have the checksum of a header of this kind.
pub(crate) fn is_whole(kind: FileKind, head: &[u8]) -> bool {
    head.starts_with(kind.magic()) && u32_at(head, at::HEADER_CRC) == crc32c(&head[..at::HEADER_CRC])
}

/// Writes the checksum of a header.
pub(crate) fn seal(head: &mut [u8; HEADER]) {
    let checksum = crc32c(&head[..at::HEADER_CRC]);
    put(head, at::HEADER_CRC, &checksum.to_le_bytes());
}

/// The bytes of an index file for a log file of `log_bytes` bytes. The checksum covers header and entries.
pub(crate) fn index_bytes(header: &FileHeader, log_bytes: u64, granules: &[Granule]) -> Vec<u8> {
    let next_sequence = granules.last().map_or(header.first_sequence, Granule::next_sequence);
    let mut out = header.open_bytes(FileKind::Index).to_vec();
    put(&mut out, at::LOG_BYTES, &log_bytes.to_le_bytes());
    put(&mut out, at::NEXT_SEQUENCE, &next_sequence.to_le_bytes());
    put(&mut out, at::GRANULE_COUNT, &(granules.len() as u32).to_le_bytes());
    for granule in granules {
        write_entry(granule, &mut out);
    }
    let checksum = index_crc(&out);
    put(&mut out, at::HEADER_CRC, &checksum.to_le_bytes());
    out
}

/// Most bytes of the index of a log file of this size: every granule has a batch.
pub(crate) fn index_bytes_max(log_bytes: u64) -> u64 {
    FILE_HEADER_BYTES + log_bytes / batch::HEADER_BYTES as u64 * INDEX_ENTRY_BYTES as u64
}

/// The header of an index file, which has the log's salt too; `None` when the file is damaged.
pub(crate) fn index_header(bytes: &[u8]) -> Option<FileHeader> {
    let head = bytes.get(..HEADER)?;
    let whole = head.starts_with(FileKind::Index.magic()) && u32_at(head, at::HEADER_CRC) == index_crc(bytes);
    whole.then(|| FileHeader::decode(head))
}

/// The granules of an index file; `None` when it is damaged or of another log file.
pub(crate) fn parse_index(bytes: &[u8], header: &FileHeader, log_bytes: u64) -> Option<Vec<Granule>> {
    let (head, entries) = bytes.split_at_checked(HEADER)?;
    let whole = index_header(bytes).is_some_and(|found| found.is_of(header));
    let ours = u64_at(head, at::LOG_BYTES) == log_bytes;
    let (entries, rest) = entries.as_chunks::<INDEX_ENTRY_BYTES>();
    if !whole || !ours || !rest.is_empty() || entries.len() != u32_at(head, at::GRANULE_COUNT) as usize {
        return None;
    }
    let granules: Vec<_> = entries.iter().map(|entry| read_entry(header.first_sequence, entry)).collect();
    in_order(header.first_sequence, &granules, log_bytes).then_some(granules)
}

/// Checked even if the checksum is right: offsets and sequence numbers of the granules rise without overlap.
fn in_order(first_sequence: u64, granules: &[Granule], log_bytes: u64) -> bool {
    let mut end = (FILE_HEADER_BYTES, first_sequence);
    granules.iter().all(|granule| {
        let starts_well = granule.offset >= end.0 && granule.first_sequence >= end.1;
        let holds_batches = granule.count > 0 && granule.len <= GRANULE_BYTES_MAX;
        let offset_end = granule.offset.checked_add(granule.len.into());
        let Some((offset, sequence)) = offset_end.zip(granule.first_sequence.checked_add(granule.count))
        else {
            return false;
        };
        end = (offset, sequence);
        starts_well && holds_batches && offset <= log_bytes
    })
}

fn write_entry(granule: &Granule, out: &mut Vec<u8>) {
    out.extend_from_slice(&granule.offset.to_le_bytes());
    out.extend_from_slice(&granule.first_sequence.to_le_bytes());
    out.extend_from_slice(&granule.count.to_le_bytes());
    out.extend_from_slice(&granule.time_min.to_le_bytes());
    out.extend_from_slice(&granule.time_max.to_le_bytes());
    out.extend_from_slice(&granule.len.to_le_bytes());
    out.extend_from_slice(&u32::from(granule.sorted).to_le_bytes());
}

fn read_entry(file: u64, entry: &[u8; INDEX_ENTRY_BYTES]) -> Granule {
    Granule {
        file,
        offset: u64_at(entry, 0),
        first_sequence: u64_at(entry, 8),
        count: u64_at(entry, 16),
        time_min: u64_at(entry, 24).cast_signed(),
        time_max: u64_at(entry, 32).cast_signed(),
        len: u32_at(entry, 40),
        sorted: u32_at(entry, 44) == 1,
    }
}

/// Checksum of an index or producers file: of all bytes, with the checksum's own four as zeros.
pub(crate) fn index_crc(bytes: &[u8]) -> u32 {
    crc32c_of_parts(&[&bytes[..at::HEADER_CRC], &[0; 4], &bytes[HEADER..]])
}

/// Name of the file that records where a log ended when it was closed.
pub const END_FILE: &str = "end";
pub(crate) const END_DRAFT: &str = "end.tmp";
/// Name of the file that records the last batch of each producer.
pub const PRODUCERS_FILE: &str = "producers";
pub(crate) const PRODUCERS_DRAFT: &str = "producers.tmp";

/// Name of the log file that begins with this sequence number.
pub(crate) fn log_name(first_sequence: u64) -> String {
    format!("{first_sequence:020}.log")
}

/// Name of its index file.
pub(crate) fn index_name(first_sequence: u64) -> String {
    format!("{first_sequence:020}.idx")
}

/// The sequence number in the name of a log file; `None` for any other name.
pub fn log_of_name(name: &str) -> Option<u64> {
    number_of_name(name, ".log")
}

/// The sequence number in the name of an index file; `None` for any other name.
pub(crate) fn index_of_name(name: &str) -> Option<u64> {
    number_of_name(name, ".idx")
}

fn number_of_name(name: &str, extension: &str) -> Option<u64> {
    let digits = name.strip_suffix(extension)?;
    let ours = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    ours.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/log.md")).unwrap()
    }

    fn hex_dump(bytes: &[u8]) -> String {
        let line = |(i, row): (usize, &[u8])| {
            let hex: Vec<_> = row.iter().map(|b| format!("{b:02x}")).collect();
            format!("{:04x}  {}\n", i * 16, hex.join(" "))
        };
        bytes.chunks(16).enumerate().map(line).collect()
    }

    const SALT: u64 = 0x0123_4567_89ab_cdef;

    fn golden_granule() -> Granule {
        Granule {
            file: 42,
            offset: 64,
            len: 98,
            first_sequence: 42,
            count: 2,
            time_min: 1_700_000_000_000_000_000,
            time_max: 1_700_000_000_000_001_000,
            sorted: true,
        }
    }

    #[test]
    fn the_page_has_the_real_offsets() {
        let page = page();
        for (offset, bytes, name) in HEADER_LAYOUT.iter().chain(&ENTRY_LAYOUT) {
            let row = format!("| {offset} | {bytes} | `{name}` |");
            assert!(page.contains(&row), "docs/format/log.md lacks the row {row}");
        }
    }

    #[test]
    fn the_page_shows_the_golden_bytes() {
        let header = FileHeader::new(7, 1, 42).salted(SALT);
        let index = index_bytes(&header, 162, &[golden_granule()]);
        let end = include_bytes!("../../../testing/vectors/log_end_v2.bin");
        for dump in [hex_dump(&header.bytes(FileKind::Log)), hex_dump(&index), hex_dump(end)] {
            assert!(page().contains(&dump), "docs/format/log.md must show:\n{dump}");
        }
    }

    #[test]
    fn an_index_is_used_only_whole_and_for_its_own_file() {
        let header = FileHeader::new(7, 1, 42).salted(SALT);
        let index = index_bytes(&header, 162, &[golden_granule()]);
        assert_eq!(parse_index(&index, &header, 162), Some(vec![golden_granule()]));
        assert_eq!(parse_index(&index, &header, 163), None);
        assert_eq!(parse_index(&index, &FileHeader::new(7, 2, 42), 162), None);
        for bit in 0..index.len() * 8 {
            let mut broken = index.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse_index(&broken, &header, 162), None, "bit {bit}");
        }
        for len in 0..index.len() {
            assert_eq!(parse_index(&index[..len], &header, 162), None, "{len} bytes");
        }
    }

    #[test]
    fn only_names_of_log_files_are_recognized() {
        assert_eq!(log_of_name(&log_name(u64::MAX)), Some(u64::MAX));
        for name in
            ["1.log", "00000000000000000001.idx", "99999999999999999999.log", "+0000000000000000001.log"]
        {
            assert_eq!(log_of_name(name), None, "{name}");
        }
    }
}
