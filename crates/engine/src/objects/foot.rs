//! What stays here of a segment that is in an object store: its header and schema, its index, and the heads of its blocks, about a
//! thousandth of it. So a stream is opened, counted and searched for blocks by time, symbol and value without a request.
//!
//! It can be made again from the object, and is where it is missing or damaged.

use crate::objects::cache::checksum;
use std::io;
use tapedb_segment::{ReadAt, Segment, SegmentError};

const MAGIC: &[u8; 8] = b"TPFOOT\0\x01";
/// Magic, checksum of all behind it, bytes of the segment, checksum of the segment, number of stretches.
const HEADER_BYTES: usize = 36;
/// Offset and length of a stretch.
const ENTRY_BYTES: usize = 12;
/// A foot is read whole.
pub(crate) const BYTES_MAX: u64 = 1 << 30;

/// Stretches of a segment.
///
/// Always true: they are inside the segment, in order, and do not overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Foot {
    /// Of the segment.
    pub bytes: u64,
    /// Of the segment's content.
    pub checksum: u64,
    /// Where each stretch begins in the segment, and in `content`.
    stretches: Vec<(u64, usize)>,
    content: Vec<u8>,
}

impl Foot {
    /// The foot of an open segment.
    ///
    /// # Errors
    /// When the segment cannot be read.
    pub fn of<R: ReadAt>(segment: &Segment<R>, file: &R, checksum: u64) -> Result<Self, SegmentError> {
        let mut foot = Self { bytes: segment.bytes(), checksum, ..Self::default() };
        let blocks = segment.blocks();
        let front = blocks.first().map_or(segment.bytes(), |first| first.offset);
        foot.add(file, 0, front)?;
        for block in blocks {
            foot.add(file, block.offset, u64::from(block.head_len))?;
        }
        let end = blocks.last().map_or(front, |last| last.offset + u64::from(last.len));
        foot.add(file, end, segment.bytes() - end)?;
        Ok(foot)
    }

    fn add<R: ReadAt>(&mut self, file: &R, offset: u64, len: u64) -> Result<(), SegmentError> {
        if len == 0 {
            return Ok(());
        }
        let start = self.content.len();
        self.content.resize(start + len as usize, 0);
        let mut at = 0;
        while at < len as usize {
            let offset = offset + at as u64;
            let count = file.read_at(&mut self.content[start + at..], offset);
            match count.map_err(|source| SegmentError::Io { offset, source })? {
                0 => {
                    let source = io::ErrorKind::UnexpectedEof.into();
                    return Err(SegmentError::Io { offset, source });
                }
                count => at += count,
            }
        }
        self.stretches.push((offset, start));
        Ok(())
    }

    /// Copies bytes from an offset on, as far as the stretch there goes; 0: there is none.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> usize {
        let Some(index) = self.stretches.partition_point(|(at, _)| *at <= offset).checked_sub(1) else {
            return 0;
        };
        let (at, start) = self.stretches[index];
        let end = self.stretches.get(index + 1).map_or(self.content.len(), |(_, next)| *next);
        let Ok(skipped) = usize::try_from(offset - at) else { return 0 };
        let rest = self.content.get(start.saturating_add(skipped)..end).unwrap_or_default();
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        count
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut body =
            Vec::with_capacity(HEADER_BYTES + self.stretches.len() * ENTRY_BYTES + self.content.len());
        body.extend_from_slice(&self.bytes.to_le_bytes());
        body.extend_from_slice(&self.checksum.to_le_bytes());
        body.extend_from_slice(&(self.stretches.len() as u32).to_le_bytes());
        for (index, (at, start)) in self.stretches.iter().enumerate() {
            let end = self.stretches.get(index + 1).map_or(self.content.len(), |(_, next)| *next);
            body.extend_from_slice(&at.to_le_bytes());
            body.extend_from_slice(&((end - start) as u32).to_le_bytes());
        }
        body.extend_from_slice(&self.content);
        [MAGIC, &checksum(&[&body]).to_le_bytes()[..], &body].concat()
    }

    /// Reads the content of the file; `None`: it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let stated = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        let is_whole = bytes.starts_with(MAGIC) && stated == checksum(&[bytes.get(16..)?]);
        is_whole.then(|| Self::parse_unchecked(bytes)).flatten()
    }

    /// The same, whatever the checksum is.
    pub fn parse_unchecked(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let short = |bytes: &[u8]| Some(u32::from_le_bytes(*bytes.first_chunk()?) as usize);
        let (size, of_segment, count) = (number(16)?, number(24)?, short(bytes.get(32..)?)?);
        let entries = bytes.get(HEADER_BYTES..)?.get(..count.checked_mul(ENTRY_BYTES)?)?;
        let content = bytes.get(HEADER_BYTES + entries.len()..)?.to_vec();
        let (mut stretches, mut start, mut last) =
            (Vec::with_capacity(entries.len() / ENTRY_BYTES), 0usize, 0u64);
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let (at, len) = (u64::from_le_bytes(*entry.first_chunk()?), short(&entry[8..])?);
            if at < last || len == 0 {
                return None;
            }
            stretches.push((at, start));
            (start, last) = (start.checked_add(len)?, at.checked_add(len as u64)?);
        }
        let is_whole = start == content.len() && last <= size;
        is_whole.then_some(Self { bytes: size, checksum: of_segment, stretches, content })
    }
}

/// A segment of which only what the foot has can be read.
impl ReadAt for Foot {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(Self::read_at(self, buf, offset))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_found_and_a_changed_bit_is_noticed() {
        let foot = Foot {
            bytes: 100,
            checksum: 5,
            stretches: vec![(0, 0), (10, 4), (90, 7)],
            content: (0..17).collect(),
        };
        let bytes = foot.to_bytes();
        assert_eq!(Foot::parse(&bytes).as_ref(), Some(&foot));
        let mut buf = [0; 8];
        let mut read = |offset| {
            let count = foot.read_at(&mut buf, offset);
            buf[..count].to_vec()
        };
        assert_eq!((read(1), read(4), read(10), read(12)), (vec![1, 2, 3], vec![], vec![4, 5, 6], vec![6]));
        assert_eq!(
            (read(13), read(95), read(100), read(u64::MAX)),
            (vec![], vec![12, 13, 14, 15, 16], vec![], vec![])
        );
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Foot::parse(&broken), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(Foot::parse(&bytes[..len]), None);
        }
    }
}
