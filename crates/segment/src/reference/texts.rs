//! Columns of byte strings, by their tag.

use super::input::{Input, at_most, beyond};
use super::integers::integers;
use super::pieces::Pieces;
use crate::damage::Flaw;
use crate::encoding::EncodingError;
use std::io::Read;

/// The `count` texts that `bytes` encode, of at most `most` bytes in all.
///
/// # Errors
/// When the bytes are not such a column.
pub fn texts(bytes: &[u8], count: usize, most: usize) -> Result<Pieces, Flaw> {
    let mut input = Input::new(bytes);
    let tag = input.byte()?;
    match tag & 0x0f {
        0 => plain(input.rest(), tag, count, most),
        1 => dictionary(&mut input, tag, count, most),
        _ => Err(beyond("tag of texts", 0x21, tag.into())),
    }
}

/// Lengths, then all bytes.
fn plain(bytes: &[u8], tag: u8, count: usize, most: usize) -> Result<Pieces, Flaw> {
    let mut input = Input::new(bytes);
    let size = input.varint()?;
    let lengths = integers(input.take(usize::try_from(size).unwrap_or(usize::MAX))?, count, &[])?;
    let mut total = 0u64;
    for length in &lengths {
        at_most("length", most as u64 - total, *length as u64)?;
        total += *length as u64;
    }
    let content = decompressed(input.rest(), tag, total as usize)?;
    let (mut pieces, mut start) = (Pieces::default(), 0);
    for length in lengths {
        let end = start + length as usize;
        pieces.push(&[&content[start..end]]);
        start = end;
    }
    Ok(pieces)
}

/// Exactly `size` bytes, compressed by the method in the high half of the tag.
fn decompressed(bytes: &[u8], tag: u8, size: usize) -> Result<Vec<u8>, Flaw> {
    let mut content = Vec::new();
    let (by, is_whole) = match tag & 0xf0 {
        0x00 => {
            content.extend_from_slice(bytes);
            ("nothing", bytes.len() == size)
        }
        0x10 => {
            content.resize(size, 0);
            ("lz4", lz4_flex::block::decompress_into(bytes, &mut content).is_ok_and(|have| have == size))
        }
        0x20 => {
            let mut limited = flate2::read::DeflateDecoder::new(bytes).take(size as u64 + 1);
            ("deflate", limited.read_to_end(&mut content).is_ok_and(|have| have == size))
        }
        _ => return Err(beyond("tag of texts", 0x21, tag.into())),
    };
    let have = bytes.len();
    if is_whole {
        Ok(content)
    } else {
        Err(Flaw::Encoding(EncodingError::Compressed { by, offset: 0, have }))
    }
}

/// Distinct texts, then the index of each value's.
fn dictionary(input: &mut Input, tag: u8, count: usize, most: usize) -> Result<Pieces, Flaw> {
    let size = input.count("distinct strings", count)?;
    let bytes = input.varint()?;
    let distinct = plain(input.take(usize::try_from(bytes).unwrap_or(usize::MAX))?, tag, size, most)?;
    let mut pieces = Pieces::default();
    for index in integers(input.rest(), count, &[])? {
        let place = usize::try_from(index).ok().filter(|index| *index < size);
        let text = distinct.get(place.ok_or(beyond("index", size as u64, index as u64))?);
        at_most("length", (most - pieces.bytes()) as u64, text.len() as u64)?;
        pieces.push(&[text]);
    }
    Ok(pieces)
}
