//! From a file's bytes to those of its records: plain or zstd, with or without metadata.

use super::metadata::{DBZ_PREFIX, MAX_METADATA_BYTES, Metadata, PREFIX, PRELUDE_BYTES, VERSIONS};
use crate::container::{Opened, counted};
use crate::error::ImportError;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// Compressed bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// The beginning of a zstd frame.
const ZSTD: u32 = 0xFD2F_B528;
/// The beginning of a zstd frame that unpackers skip: the metadata of files from before this format.
const SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;

/// The bytes behind the metadata, and the metadata.
pub(super) struct Unpacked {
    pub(super) records: Opened,
    pub(super) metadata: Metadata,
    /// Whether there was metadata: the file is of this format.
    pub(super) has_metadata: bool,
    /// Offset of the records among the unpacked bytes.
    pub(super) offset: u64,
}

/// What the first bytes of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magic {
    /// Metadata.
    Plain,
    /// Compressed with zstd.
    Zstd,
    /// From before this format.
    Old,
    /// Records without metadata, perhaps.
    Other,
}

impl Magic {
    /// Of a file.
    pub(crate) fn of_file(path: &Path) -> Result<Self, ImportError> {
        let mut first = Vec::new();
        let read = File::open(path).and_then(|file| file.take(12).read_to_end(&mut first));
        read.map_err(|source| ImportError::Open { path: path.into(), source })?;
        Ok(Self::of(&first))
    }

    /// Of at least twelve bytes; fewer are something else.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let word = bytes.first_chunk().map(|word| u32::from_le_bytes(*word));
        match word {
            _ if bytes.starts_with(PREFIX) => Self::Plain,
            Some(ZSTD) => Self::Zstd,
            Some(word) if SKIPPABLE.contains(&word) && bytes.get(8..11) == Some(DBZ_PREFIX) => Self::Old,
            _ => Self::Other,
        }
    }
}

/// Opens a file and reads its metadata.
pub(super) fn open(path: &Path) -> Result<Unpacked, ImportError> {
    let file = File::open(path).map_err(|source| ImportError::Open { path: path.to_path_buf(), source })?;
    let (counted, bytes_read) = counted(file);
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, counted);
    let damaged =
        |offset| move |source| ImportError::Damaged { path: path.to_path_buf(), record: 0, offset, source };
    let wrong = |reason: &str| ImportError::WrongFormat { path: path.to_path_buf(), reason: reason.into() };
    let mut first = Vec::new();
    reader.by_ref().take(12).read_to_end(&mut first).map_err(damaged(0))?;
    let magic = Magic::of(&first);
    let reader = Cursor::new(first).chain(reader);
    match magic {
        Magic::Old => {
            let (metadata, reader) = read_old(reader, &damaged, &wrong)?;
            let mut reader = BufReader::new(reader);
            // Without records, no frame follows.
            let is_empty = reader.fill_buf().map_err(damaged(0))?.is_empty();
            let reader = if is_empty { Box::new(io::empty()) } else { unzstd(reader).map_err(damaged(0))? };
            Ok(Unpacked { records: Opened { reader, bytes_read }, metadata, has_metadata: true, offset: 0 })
        }
        Magic::Zstd => {
            let mut reader = unzstd(reader).map_err(damaged(0))?;
            let mut first = Vec::new();
            reader.by_ref().take(12).read_to_end(&mut first).map_err(damaged(0))?;
            let is_plain = Magic::of(&first) == Magic::Plain;
            let reader = Box::new(Cursor::new(first).chain(reader));
            behind_metadata(reader, is_plain, bytes_read, &damaged, &wrong)
        }
        magic => behind_metadata(Box::new(reader), magic == Magic::Plain, bytes_read, &damaged, &wrong),
    }
}

fn behind_metadata<E: Fn(io::Error) -> ImportError>(
    mut reader: Box<dyn Read + Send>,
    has_metadata: bool,
    bytes_read: std::sync::Arc<std::sync::atomic::AtomicU64>,
    damaged: &impl Fn(u64) -> E,
    wrong: &impl Fn(&str) -> ImportError,
) -> Result<Unpacked, ImportError> {
    let (mut metadata, mut offset) = (Metadata::default(), 0);
    if has_metadata {
        let mut prelude = [0; PRELUDE_BYTES];
        reader.read_exact(&mut prelude).map_err(damaged(0))?;
        let [_, _, _, version, length @ ..] = prelude;
        if !VERSIONS.contains(&version) {
            return Err(wrong(&format!("DBN version {version}; versions 1 to 3 are read")));
        }
        let bytes = limited(&mut reader, u32::from_le_bytes(length) as usize, damaged, wrong)?;
        offset = (PRELUDE_BYTES + bytes.len()) as u64;
        metadata = Metadata::parse(version, &bytes).map_err(wrong)?;
    }
    Ok(Unpacked { records: Opened { reader, bytes_read }, metadata, has_metadata, offset })
}

/// Reads the metadata of a file from before this format; the records follow in zstd frames.
fn read_old<R: Read + Send + 'static, E: Fn(io::Error) -> ImportError>(
    mut reader: R,
    damaged: &impl Fn(u64) -> E,
    wrong: &impl Fn(&str) -> ImportError,
) -> Result<(Metadata, R), ImportError> {
    let mut prelude = [0; PRELUDE_BYTES];
    reader.read_exact(&mut prelude).map_err(damaged(0))?;
    let [_, _, _, _, length @ ..] = prelude;
    let bytes = limited(&mut reader, u32::from_le_bytes(length) as usize, damaged, wrong)?;
    let (mut metadata, packed) = Metadata::parse_old(&bytes).map_err(wrong)?;
    let mut symbols = Vec::new();
    let unpacked = unzstd(Cursor::new(bytes[packed..].to_vec())).map_err(damaged(0))?;
    unpacked.take(MAX_METADATA_BYTES as u64 + 1).read_to_end(&mut symbols).map_err(damaged(0))?;
    if symbols.len() > MAX_METADATA_BYTES {
        return Err(wrong("the metadata is longer than 256 MiB"));
    }
    metadata.read_old_symbols(&bytes, &symbols).map_err(wrong)?;
    Ok((metadata, reader))
}

/// Reads so many bytes of metadata; memory grows with what is there, not with what a length states.
fn limited<E: Fn(io::Error) -> ImportError>(
    reader: &mut impl Read,
    length: usize,
    damaged: &impl Fn(u64) -> E,
    wrong: &impl Fn(&str) -> ImportError,
) -> Result<Vec<u8>, ImportError> {
    if length > MAX_METADATA_BYTES {
        return Err(wrong("the metadata is longer than 256 MiB"));
    }
    let mut bytes = Vec::new();
    reader.take(length as u64).read_to_end(&mut bytes).map_err(damaged(PRELUDE_BYTES as u64))?;
    if bytes.len() < length {
        return Err(damaged((PRELUDE_BYTES + bytes.len()) as u64)(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(bytes)
}

/// Unpacks all zstd frames, one after another.
#[cfg(feature = "zstd")]
fn unzstd(packed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(zstd::Decoder::new(packed)?))
}

#[cfg(not(feature = "zstd"))]
fn unzstd(_: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let what = "this program is built without zstd; unpack the file with `zstd -d` first";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}
