//! Recomputes checksums: for tests that change the bytes under them.

use crate::format::{TRAILER_BYTES, Trailer};
use crate::head::{CHUNK_BYTES, Head, crc32c, u32_at};

/// Makes the checksums of the block at the front of `bytes` those of its bytes, as far as they are there. The checksum of the
/// content stays: such a block is decoded to other rows than it was made from.
pub fn reseal_block(bytes: &mut [u8]) {
    let Ok((head, _)) = Head::extent(bytes) else { return };
    if head > bytes.len() {
        return;
    }
    let mut at = head;
    let chunks = u32_at(bytes, 28) as usize;
    for entry in (0..chunks).map(|index| head - (chunks - index) * CHUNK_BYTES) {
        let end = at.saturating_add(u32_at(bytes, entry + 4) as usize);
        let Some(chunk) = bytes.get(at..end) else { break };
        let crc = crc32c(chunk);
        bytes[entry + 8..entry + 12].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
    let crc = crc32c(&bytes[8..head]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Recomputes the checksums of footer and trailer at the end of a file, if the trailer has their offsets.
pub fn reseal_footer(file: &mut [u8]) {
    let Some(at) = file.len().checked_sub(TRAILER_BYTES) else { return };
    let crc = crc32c(&file[at..at + 28]);
    file[at + 28..at + 32].copy_from_slice(&crc.to_le_bytes());
    let Ok(trailer) = Trailer::read(&file[at..], file.len() as u64) else { return };
    let crc = crc32c(&file[trailer.footer_offset as usize..at]);
    let resealed = Trailer { footer_crc: crc, ..trailer };
    let mut bytes = Vec::new();
    resealed.write(&mut bytes);
    file[at..].copy_from_slice(&bytes);
}
