//! Gzip files and members of zip files as byte streams, with their progress.

use super::error::ImportError;
use super::lines::BYTE_ORDER_MARK;
use flate2::Crc;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zip::{CompressionMethod, ZipArchive};

/// Most members of one zip file.
pub const MAX_MEMBERS: usize = 65_536;
/// Compressed bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// A member of a zip file, as in its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    data_start: u64,
    pub(super) compressed_bytes: u64,
    bytes: u64,
    crc32: u32,
    deflated: bool,
}

/// A stream of unpacked bytes, and how far it is.
pub(super) struct Opened {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) bytes_read: Arc<AtomicU64>,
}

/// The members of a zip file in the order of its directory, folders left out.
pub(super) fn members(path: &Path) -> Result<Vec<Member>, ImportError> {
    let wrong = |reason: String| ImportError::WrongFormat { path: path.to_path_buf(), reason };
    let unreadable = |error| wrong(format!("not a zip file, or cut short: {error}"));
    let mut archive = ZipArchive::new(BufReader::new(open(path)?)).map_err(unreadable)?;
    if archive.len() > MAX_MEMBERS {
        return Err(wrong(format!(
            "zip file with {} members, at most {MAX_MEMBERS} are read",
            archive.len()
        )));
    }
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(unreadable)?;
        if entry.is_dir() {
            continue;
        }
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let deflated = entry.compression() == CompressionMethod::Deflated;
        if entry.encrypted() || !(deflated || entry.compression() == CompressionMethod::Stored) {
            let method = entry.compression();
            return Err(wrong(format!(
                "member `{}` is encrypted or packed as {method}",
                name.escape_debug()
            )));
        }
        let data_start = entry.data_start().ok_or_else(|| wrong(format!("member `{name}` has no data")))?;
        let (compressed_bytes, bytes, crc32) = (entry.compressed_size(), entry.size(), entry.crc32());
        members.push(Member { name, data_start, compressed_bytes, bytes, crc32, deflated });
    }
    Ok(members)
}

/// Opens a gzip file; several gzip members one after another are one text.
pub(super) fn open_gzip(path: &Path) -> Result<Opened, ImportError> {
    let (counted, bytes_read) = counted(open(path)?);
    let reader = Box::new(MultiGzDecoder::new(BufReader::with_capacity(CHUNK_BYTES, counted)));
    Ok(Opened { reader, bytes_read })
}

/// Most of a text that is read to see what it is.
const HEAD_BYTES: u64 = 4 << 10;

/// The first bytes of a text, plain or gzipped; what cannot be unpacked is empty.
pub(super) fn head(path: &Path) -> Result<Vec<u8>, ImportError> {
    let mut file = open(path)?;
    let mut head = Vec::new();
    let read_error = |source| ImportError::Open { path: path.to_path_buf(), source };
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(read_error)?;
    if !head.starts_with(&[0x1f, 0x8b]) {
        return Ok(without_mark(head));
    }
    file.rewind().map_err(read_error)?;
    let mut unpacked = Vec::new();
    // A damaged file is found when it is read.
    let _ = MultiGzDecoder::new(BufReader::new(file)).take(HEAD_BYTES).read_to_end(&mut unpacked);
    Ok(without_mark(unpacked))
}

fn without_mark(mut head: Vec<u8>) -> Vec<u8> {
    if head.starts_with(BYTE_ORDER_MARK) {
        head.drain(..BYTE_ORDER_MARK.len());
    }
    head
}

/// Opens a file that is not compressed.
pub(super) fn open_plain(path: &Path) -> Result<Opened, ImportError> {
    let (counted, bytes_read) = counted(open(path)?);
    Ok(Opened { reader: Box::new(counted), bytes_read })
}

/// Opens a member; its length and checksum are checked when its end is reached.
pub(super) fn open_member(path: &Path, member: &Member) -> Result<Opened, ImportError> {
    let mut file = open(path)?;
    let seek = file.seek(SeekFrom::Start(member.data_start));
    seek.map_err(|source| ImportError::Open { path: path.to_path_buf(), source })?;
    let (counted, bytes_read) = counted(file.take(member.compressed_bytes));
    let packed = BufReader::with_capacity(CHUNK_BYTES, counted);
    let reader: Box<dyn Read + Send> = if member.deflated {
        Box::new(Checked::new(DeflateDecoder::new(packed), member))
    } else {
        Box::new(Checked::new(packed, member))
    };
    Ok(Opened { reader, bytes_read })
}

fn open(path: &Path) -> Result<File, ImportError> {
    File::open(path).map_err(|source| ImportError::Open { path: path.to_path_buf(), source })
}

pub(super) fn counted<R>(inner: R) -> (Counted<R>, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    (Counted { inner, count: Arc::clone(&count) }, count)
}

/// Counts what passes. The count is a figure for people: nothing is ordered by it.
pub(super) struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Compares length and checksum with the zip's directory at the end: a cut or damaged member does not pass for a whole.
struct Checked<R> {
    inner: R,
    crc: Crc,
    left: u64,
    crc32: u32,
}

impl<R> Checked<R> {
    fn new(inner: R, member: &Member) -> Self {
        Self { inner, crc: Crc::new(), left: member.bytes, crc32: member.crc32 }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.crc.update(&out[..count]);
        let damaged = |text| Err(io::Error::new(io::ErrorKind::InvalidData, text));
        match self.left.checked_sub(count as u64) {
            None => return damaged("the member is longer than in the zip's directory"),
            Some(left) => self.left = left,
        }
        if count == 0 && !out.is_empty() && self.left != 0 {
            return damaged("the member is shorter than in the zip's directory");
        }
        if count == 0 && !out.is_empty() && self.crc.sum() != self.crc32 {
            return damaged("the member's checksum is wrong");
        }
        Ok(count)
    }
}
