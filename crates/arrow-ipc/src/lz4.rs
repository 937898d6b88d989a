//! Looks at buffers that are compressed with LZ4 before `arrow-ipc` expands them, which it does without a limit.
//!
//! A frame of LZ4 is blocks, each of at most as many bytes as the frame's head states for all: their lengths are walked over. Where
//! that cannot show that a buffer is about as long as it states, its bytes are counted.

use lz4_flex::frame::FrameDecoder;
use std::io::Read;

/// A frame's first bytes.
const MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();

/// Most bytes of a block.
const BLOCK_BYTES_MAX: u64 = 4 << 20;

/// A compressed byte stands for at most so many.
const RATIO_MAX: u64 = 255;

/// Bit of a block's length: it is not compressed.
const PLAIN: u32 = 1 << 31;

/// Whether a compressed buffer has no more bytes than it states when it is expanded, or at most one block more.
pub fn fits(buffer: &[u8], stated: u64) -> bool {
    if expanded_at_most(buffer).is_some_and(|bytes| bytes <= stated.saturating_add(BLOCK_BYTES_MAX)) {
        return true;
    }
    let mut bytes = FrameDecoder::new(buffer).take(stated.saturating_add(1));
    // What is damaged is found when it is expanded.
    std::io::copy(&mut bytes, &mut std::io::sink()).map_or(true, |bytes| bytes <= stated)
}

/// No fewer bytes than one frame has when it is expanded; `None`: the buffer is not one frame of the usual form.
fn expanded_at_most(buffer: &[u8]) -> Option<u64> {
    let (head, mut rest) = buffer.split_first_chunk::<6>()?;
    let (magic, [flags, sizes]) = (&head[..4], [head[4], head[5]]);
    let block_max = match sizes >> 4 & 7 {
        size @ 4..=7 => 1u64 << (8 + 2 * size),
        _ => return None,
    };
    let has = |bit: u8| usize::from(flags >> bit & 1);
    // The length of the content, the number of a dictionary, and the head's checksum.
    rest = rest.get(8 * has(3) + 4 * has(0) + 1..).filter(|_| magic == MAGIC)?;
    let mut sum = 0u64;
    loop {
        let (length, content) = rest.split_first_chunk()?;
        let length = u32::from_le_bytes(*length);
        if length == 0 {
            // The checksum of the content.
            return (content.len() == 4 * has(2)).then_some(sum);
        }
        let bytes = u64::from(length & !PLAIN);
        sum += if length & PLAIN != 0 { bytes } else { (bytes * RATIO_MAX).min(block_max) };
        rest = content.get((length & !PLAIN) as usize + 4 * has(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    fn frame(content: &[u8], info: FrameInfo, pieces: usize) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        for piece in content.chunks(content.len().div_ceil(pieces).max(1)) {
            encoder.write_all(piece).unwrap();
            encoder.flush().unwrap();
        }
        encoder.finish().unwrap()
    }

    #[test]
    fn buffers_have_what_they_state() {
        let noise: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        for content in [&[0; 3_000_000][..], &noise, b"short", b""] {
            for (info, pieces) in [
                (FrameInfo::new(), 1),
                (FrameInfo::new().block_size(BlockSize::Max64KB).block_checksums(true), 1),
                (FrameInfo::new().content_checksum(true).content_size(Some(content.len() as u64)), 1),
                (FrameInfo::new().block_mode(BlockMode::Linked), 1_000),
            ] {
                let buffer = frame(content, info, pieces);
                let stated = content.len() as u64;
                assert!(fits(&buffer, stated));
                let most = expanded_at_most(&buffer).unwrap();
                assert!(
                    most >= stated && (pieces > 1 || most <= stated + BLOCK_BYTES_MAX),
                    "{most} for {stated}"
                );
            }
        }
    }

    #[test]
    fn buffers_that_have_more_than_they_state_do_not_fit() {
        let content = vec![0; 64 << 20];
        let buffer = frame(&content, FrameInfo::new(), 1);
        assert!(buffer.len() < 400_000 && fits(&buffer, 64 << 20) && fits(&buffer, 60 << 20));
        assert!(!fits(&buffer, 59 << 20) && !fits(&buffer, 8));
        // Two frames: the second one is not read.
        assert!(fits(&[frame(b"first", FrameInfo::new(), 1), buffer].concat(), 8));
        assert!(fits(b"no frame", 8), "it is found when it is expanded");
    }
}
