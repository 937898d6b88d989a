//! Reads a file's footer, after a look at the lengths it states.
//!
//! The `parquet` crate reserves memory for as many row groups as a footer states. [`check`] walks over the footer, which is in Thrift's
//! compact protocol, and refuses a list with more items than bytes are left.

use crate::thrift::Walk;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// What a file ends with, behind the footer's length.
const MAGIC: &[u8; 4] = b"PAR1";

/// Bytes of the footer's length and the magic.
const TAIL_BYTES: u64 = 8;

/// Largest footer: a hundred thousand column chunks have about 10 MiB.
const FOOTER_BYTES_MAX: u64 = 256 << 20;

/// The footer's bytes.
///
/// # Errors
/// When the file is no whole Parquet file.
pub fn read(file: &File) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("cannot read: {error}");
    let bytes = file.metadata().map_err(cannot)?.len();
    let mut tail = [0; TAIL_BYTES as usize];
    let Some(tail_at) = bytes.checked_sub(TAIL_BYTES) else {
        return Err("it is no Parquet file: it is too short".into());
    };
    file.read_exact_at(&mut tail, tail_at).map_err(cannot)?;
    let (length, magic) = tail.split_at(4);
    if magic != MAGIC {
        return Err("it is no whole Parquet file: it does not end with PAR1; it may be truncated".into());
    }
    let length = u64::from(length.first_chunk().map_or(0, |length| u32::from_le_bytes(*length)));
    if length > FOOTER_BYTES_MAX || length > tail_at {
        return Err(format!("its footer has {length} bytes, and the file {bytes}; it is damaged"));
    }
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, tail_at - length).map_err(cannot)?;
    check(&footer)?;
    Ok(footer)
}

fn check(footer: &[u8]) -> Result<(), String> {
    Walk::new(footer)
        .structure(0)
        .ok_or_else(|| "its footer is damaged: lengths in it do not fit".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_longer_than_the_footer_are_refused() {
        // Field 4, a list of structs: one that is empty; then 2^31 - 1 of them.
        assert!(check(&[0x49, 0x1c, 0, 0]).is_ok());
        assert!(check(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0]).is_err());
        assert!(check(&[0x19; 1000]).is_err());
        assert!(check(&[0x1c; 1000]).is_err());
        assert!(check(&[]).is_err());
    }
}
