//! Expands pages whose compression the `parquet` crate expands without a limit: gzip, and the older form of LZ4.
//!
//! A page states how many bytes it has when it is expanded. One that has more is an error as soon as it has them.

use flate2::read::MultiGzDecoder;
use lz4_flex::{block, frame::FrameDecoder};
use parquet::basic::CompressionCodec;
use std::io::Read;

/// How pages are compressed that are expanded here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expander {
    /// Members of gzip, one after the other.
    Gzip,
    /// Frames of Hadoop, or one of LZ4, or a block: writers have made all of them under the same name.
    Lz4,
}

/// Bytes before a frame of Hadoop: the length of its content, and its own.
const FRAME_BYTES: usize = 8;

impl Expander {
    /// `None`: the crate expands such pages, to no more bytes than they state.
    pub fn of(codec: CompressionCodec) -> Option<Self> {
        match codec {
            CompressionCodec::GZIP => Some(Self::Gzip),
            CompressionCodec::LZ4 => Some(Self::Lz4),
            _ => None,
        }
    }

    /// Appends the content of a page, of so many bytes.
    ///
    /// # Errors
    /// When it has another number of bytes, or is damaged.
    pub fn expand(self, bytes: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let before = out.len();
        out.reserve(size);
        let done = match self {
            Self::Gzip => read(MultiGzDecoder::new(bytes), size, out),
            Self::Lz4 => lz4(bytes, size, out),
        };
        match (done, out.len() - before) {
            (Ok(()), found) if found == size => Ok(()),
            (Ok(()), found) if found > size => {
                Err(format!("a page has more bytes when it is expanded than the {size} it states"))
            }
            (Ok(()), found) => {
                Err(format!("a page has {found} bytes when it is expanded, and states {size}"))
            }
            (Err(error), _) => Err(format!("a page cannot be expanded: {error}")),
        }
    }
}

/// Appends what is read, up to one byte more than `size`.
fn read(from: impl Read, size: usize, out: &mut Vec<u8>) -> Result<(), String> {
    from.take(size as u64 + 1).read_to_end(out).map(drop).map_err(|error| error.to_string())
}

fn lz4(bytes: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let before = out.len();
    if frames(bytes, size, out).is_some() {
        return Ok(());
    }
    out.truncate(before);
    if read(FrameDecoder::new(bytes), size, out).is_ok() {
        return Ok(());
    }
    out.truncate(before);
    out.resize(before + size, 0);
    let found = block::decompress_into(bytes, &mut out[before..]).map_err(|error| error.to_string())?;
    out.truncate(before + found);
    Ok(())
}

/// Frames of Hadoop; `None`: they are none.
fn frames(mut bytes: &[u8], size: usize, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    out.resize(start + size, 0);
    let mut at = start;
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(FRAME_BYTES)?;
        let number = |at: usize| head[at..].first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize);
        let (expanded, length) = (number(0)?, number(4)?);
        let (frame, rest) = rest.split_at_checked(length)?;
        let place = out.get_mut(at..at.checked_add(expanded)?)?;
        (block::decompress_into(frame, place).ok()? == expanded).then_some(())?;
        (bytes, at) = (rest, at + expanded);
    }
    out.truncate(at);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use lz4_flex::frame::FrameEncoder;
    use std::io::Write;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn hadoop(content: &[u8]) -> Vec<u8> {
        let frame = |part: &[u8]| {
            let compressed = block::compress(part);
            [&(part.len() as u32).to_be_bytes(), &(compressed.len() as u32).to_be_bytes(), &compressed[..]]
                .concat()
        };
        content.chunks(10_000).flat_map(frame).collect()
    }

    fn framed(content: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::new(Vec::new());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn pages_are_what_they_state() {
        let content: Vec<u8> = (0..100_000u32).map(|i| (i / 7) as u8).collect();
        let (first, rest) = content.split_at(33);
        let pages = [
            (Expander::Gzip, gzip(&content)),
            (Expander::Gzip, [gzip(first), gzip(rest)].concat()),
            (Expander::Lz4, hadoop(&content)),
            (Expander::Lz4, framed(&content)),
            (Expander::Lz4, block::compress(&content)),
        ];
        for (expander, page) in pages {
            let mut out = vec![1, 2];
            expander.expand(&page, content.len(), &mut out).unwrap();
            assert!(out[..2] == [1, 2] && out[2..] == content[..]);
            for size in [0, 5, content.len() - 1, content.len() + 1] {
                assert!(expander.expand(&page, size, &mut Vec::new()).is_err(), "{expander:?}, {size}");
            }
            for cut in [0, 1, page.len() / 2, page.len() - 5] {
                assert!(
                    expander.expand(&page[..cut], content.len(), &mut Vec::new()).is_err(),
                    "{expander:?}"
                );
            }
        }
    }

    /// Zeros a thousand times as long as the page: nothing of it is kept that the page does not state.
    #[test]
    fn more_than_is_stated_is_not_expanded() {
        let page = gzip(&vec![0; 64 << 20]);
        assert!(page.len() < 100_000);
        let mut out = Vec::new();
        let error = Expander::Gzip.expand(&page, 1_000, &mut out).unwrap_err();
        assert!(error.contains("more bytes when it is expanded than the 1000 it states"), "{error}");
        assert!(out.capacity() < 10_000, "{}", out.capacity());
        let page = framed(&vec![0; 64 << 20]);
        let mut out = Vec::new();
        Expander::Lz4.expand(&page, 1_000, &mut out).unwrap_err();
        assert!(out.capacity() < 10_000, "{}", out.capacity());
    }
}
