//! Headers and entries of fixed layout: little-endian fields at offsets, and their checksums. All crates with files use
//! these.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli), the checksum of all files.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// [`crc32c`] of several parts, one after the other.
pub fn crc32c_of_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}

/// The `N` bytes at an offset; zeros if they are not all there, which callers have excluded.
#[inline(always)]
pub fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// The number at an offset; as [`array_at`].
#[inline(always)]
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, offset))
}

/// The number at an offset; as [`array_at`].
#[inline(always)]
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, offset))
}

/// The number at an offset; as [`array_at`].
#[inline(always)]
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, offset))
}

/// Copies a field to an offset.
///
/// # Panics
/// When it does not fit.
#[inline]
pub fn put(out: &mut [u8], offset: usize, field: &[u8]) {
    out[offset..offset + field.len()].copy_from_slice(field);
}

/// Asserts at compile time that fields (offset, bytes, name) have no holes and no overlaps, and `size` bytes in all.
pub const fn check_layout(fields: &[(usize, usize, &str)], size: usize) {
    let (mut i, mut end) = (0, 0);
    while i < fields.len() {
        assert!(fields[i].0 == end);
        end += fields[i].1;
        i += 1;
    }
    assert!(end == size);
}
