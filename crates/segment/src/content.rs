//! The checksum of a block's content: of its rows, not of the bytes that encode them.
//!
//! The checksums of columns prove that bytes are those that were written. This one proves that the rows that are decoded from
//! them are those that were given to the writer: a defect of an encoder or of a decoder gives another checksum. It is
//! CRC-64/NVME of the headers of all rows in order, [`ROW_BYTES`] each, and then of all bodies in order.

use crate::block::Block;
use crate::damage::{Damage, DamagedPart, Flaw};
use crate::row::RowHeader;
use crate::rows::Rows;
use crate::source::Source;
use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a row's header: time, sequence number, symbol, record type, length of the body; little-endian, without gaps.
pub(crate) const ROW_BYTES: usize = 26;
/// Headers that are laid out at once before they are summed: they fit the nearest cache.
const ROWS_AT_ONCE: usize = 512;

impl<'a> Source<'a> {
    /// The rows with the lengths of their bodies.
    pub fn headers(self) -> impl Iterator<Item = (RowHeader, u32)> + 'a {
        let mut start = 0;
        let places = self.times.iter().zip(self.sequences).zip(self.symbols).zip(self.types).zip(self.ends);
        places.map(move |((((time, sequence), symbol), type_id), end)| {
            let length = end - start;
            start = *end;
            (RowHeader { time: *time, sequence: *sequence, symbol: *symbol, type_id: *type_id }, length)
        })
    }

    /// The checksum of the rows.
    pub fn content(self) -> u64 {
        checksum(self.headers(), self.bodies)
    }
}

impl Rows {
    /// The checksum of the content: that of the block if these are all its rows.
    pub fn content(&self) -> u64 {
        let headers = (0..self.len()).map(|row| (self.header(row), self.body(row).len() as u32));
        checksum(headers, self.all_bodies())
    }
}

impl Block {
    /// Compares `rows`, which must be all that a decoder gives of the block, with the checksum of its content. `false`: the
    /// block has none, because it has version 1 of the format.
    ///
    /// # Errors
    /// When they are not the rows that were written: the block or the decoder is wrong.
    pub fn check_content(&self, rows: &Rows) -> Result<bool, Damage> {
        let Some(have) = self.head().content else { return Ok(false) };
        let need = rows.content();
        if need == have {
            return Ok(true);
        }
        Err(self.placed(Damage::new(DamagedPart::Block, 0, Flaw::Content { need, have })))
    }
}

/// Lays a row's header out.
pub(crate) fn lay_out((row, length): (RowHeader, u32), out: &mut [u8; ROW_BYTES]) {
    out[..8].copy_from_slice(&row.time.to_le_bytes());
    out[8..16].copy_from_slice(&row.sequence.to_le_bytes());
    // Few wide stores: the symbol, the record type, the lower half of the length.
    let word = u64::from(row.symbol) | u64::from(row.type_id) << 32 | u64::from(length) << 48;
    out[16..24].copy_from_slice(&word.to_le_bytes());
    out[24..].copy_from_slice(&((length >> 16) as u16).to_le_bytes());
}

fn checksum(mut headers: impl Iterator<Item = (RowHeader, u32)>, bodies: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    let mut laid_out = [[0; ROW_BYTES]; ROWS_AT_ONCE];
    loop {
        let mut count = 0;
        for (out, header) in laid_out.iter_mut().zip(&mut headers) {
            lay_out(header, out);
            count += 1;
        }
        digest.update(laid_out[..count].as_flattened());
        if count < ROWS_AT_ONCE {
            break;
        }
    }
    digest.update(bodies);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::RowBuffer;

    /// CRC-64/NVME, bit by bit.
    fn slow(bytes: &[u8]) -> u64 {
        let bit = |crc: u64| if crc & 1 == 1 { crc >> 1 ^ 0x9a6c_9329_ac4b_c9b5 } else { crc >> 1 };
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u64::from(*byte), |crc, _| bit(crc)))
    }

    #[test]
    fn the_checksum_is_that_of_the_page() {
        assert_eq!(slow(b"123456789"), 0xae8b_1486_0a79_9888, "the check value of CRC-64/NVME");
        for count in [0, 1, 127, 128, 511, 512, 513, 1_500] {
            let row = |i: u64| RowHeader {
                time: i as i64 - 7,
                sequence: i << 40,
                symbol: i as u32,
                type_id: i as u16 * 3,
            };
            let (mut rows, mut bytes, mut bodies) = (RowBuffer::default(), Vec::new(), Vec::new());
            for row in (0..count).map(row) {
                let body = vec![row.symbol as u8; row.symbol as usize % 5];
                rows.push(row, &body);
                bodies.extend_from_slice(&body);
                bytes.extend_from_slice(&row.time.to_le_bytes());
                bytes.extend_from_slice(&row.sequence.to_le_bytes());
                bytes.extend_from_slice(&row.symbol.to_le_bytes());
                bytes.extend_from_slice(&row.type_id.to_le_bytes());
                bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
            }
            bytes.extend_from_slice(&bodies);
            assert_eq!(rows.source().content(), slow(&bytes), "{count} rows");
        }
    }
}
