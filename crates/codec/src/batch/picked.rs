//! Rows that were picked out of the batches of a space: a batch of rows, and behind it the sequence number of each.
//!
//! ```
//! use tapedb_codec::batch::{PickedBuilder, PickedRows};
//!
//! let mut builder = PickedBuilder::default();
//! builder.push(40, (1_000, 7, 0), b"first").unwrap();
//! builder.push(1_040, (1_001, 7, 0), b"second").unwrap();
//! let mut bytes = Vec::new();
//! builder.finish(1, &mut bytes);
//!
//! let picked = PickedRows::all(&bytes).collect::<Result<Vec<_>, _>>().unwrap();
//! assert_eq!((picked.len(), picked[0].header.count), (1, 2));
//! assert_eq!((picked[0].sequence(0), picked[0].sequence(1)), (40, 1_040));
//! ```

use super::{BatchBuilder, BatchError, BatchHeader, PushError, assign_sequence, check_stored};

/// Bytes of a row's sequence number: it counts from that of the first row.
const OFFSET_BYTES: usize = 4;

/// Collects picked rows, in the order of their sequence numbers. Reused: [`finish`](Self::finish) empties it and keeps its memory.
#[derive(Debug, Default)]
pub struct PickedBuilder {
    builder: BatchBuilder,
    first_sequence: u64,
    offsets: Vec<u32>,
}

impl PickedBuilder {
    /// Adds a row: its sequence number, then its time, symbol and type, and its body.
    ///
    /// # Errors
    /// [`PushError::BatchFull`], also when its sequence number is too far from the first one: finish, and push again.
    pub fn push(
        &mut self,
        sequence: u64,
        (time, symbol, type_id): (i64, u32, u16),
        body: &[u8],
    ) -> Result<(), PushError> {
        let first_sequence = if self.offsets.is_empty() { sequence } else { self.first_sequence };
        let offset = sequence.checked_sub(first_sequence).and_then(|offset| u32::try_from(offset).ok());
        let offset = offset.ok_or(PushError::BatchFull { count: self.offsets.len() })?;
        self.builder.push_bytes(time, symbol, type_id, body)?;
        self.first_sequence = first_sequence;
        self.offsets.push(offset);
        Ok(())
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Bytes of columns and bodies so far.
    pub fn payload_bytes(&self) -> usize {
        self.builder.payload_bytes()
    }

    /// Appends the rows, if there are any, to `out`.
    pub fn finish(&mut self, schema_version: u16, out: &mut Vec<u8>) {
        let start = out.len();
        if self.builder.finish(schema_version, out) > 0 {
            // It has a header, so its length is valid.
            let _ = assign_sequence(&mut out[start..], self.first_sequence);
            out.extend(self.offsets.iter().flat_map(|offset| offset.to_le_bytes()));
        }
        self.offsets.clear();
    }
}

/// Picked rows of one version of the schema.
#[derive(Debug, Clone, Copy)]
pub struct PickedRows<'a> {
    /// The header of the batch.
    pub header: BatchHeader,
    /// The batch: its sequence numbers are not those of the rows.
    pub batch: &'a [u8],
    offsets: &'a [[u8; OFFSET_BYTES]],
}

impl<'a> PickedRows<'a> {
    /// Checks and returns what is in `bytes`, one batch after the other. Nothing follows an error.
    pub fn all(mut bytes: &'a [u8]) -> impl Iterator<Item = Result<Self, BatchError>> {
        std::iter::from_fn(move || {
            if bytes.is_empty() {
                return None;
            }
            let (taken, rest) = match Self::split(bytes) {
                Ok((picked, rest)) => (Ok(picked), rest),
                Err(error) => (Err(error), &[][..]),
            };
            bytes = rest;
            Some(taken)
        })
    }

    /// The headers of the batches in `bytes`, which were [built](PickedBuilder) here.
    pub fn headers(mut bytes: &'a [u8]) -> impl Iterator<Item = BatchHeader> {
        std::iter::from_fn(move || {
            let header = BatchHeader::parse_stored(bytes).ok()?;
            bytes =
                bytes.get(header.batch_bytes() + header.count as usize * OFFSET_BYTES..).unwrap_or_default();
            Some(header)
        })
    }

    /// The sequence number of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn sequence(&self, row: usize) -> u64 {
        self.header.first_sequence + u64::from(u32::from_le_bytes(self.offsets[row]))
    }

    fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), BatchError> {
        let header = BatchHeader::parse_stored(bytes)?;
        let (offset, have) = (header.batch_bytes(), bytes.len());
        let end = offset + header.count as usize * OFFSET_BYTES;
        if end > have {
            return Err(BatchError::Truncated {
                offset,
                need: end - offset,
                have: have.saturating_sub(offset),
            });
        }
        let (batch, rest) = bytes.split_at(offset);
        check_stored(batch)?;
        let wrong = |need, have| Err(BatchError::Column { offset, column: "sequence", need, have });
        if header.is_columnar() {
            return wrong("rows, not columns", header.kind.into());
        }
        let (offsets, rest) = rest.split_at(end - offset);
        let offsets = offsets.as_chunks::<OFFSET_BYTES>().0;
        let number = |offset: &[u8; OFFSET_BYTES]| u32::from_le_bytes(*offset);
        if let Some(first) = offsets.first().map(number).filter(|first| *first != 0) {
            return wrong("0 in the first row", first.into());
        }
        if !offsets.is_sorted_by(|a, b| number(a) < number(b)) {
            return wrong("numbers that increase", 0);
        }
        let last = offsets.last().map_or(0, number);
        if header.first_sequence.checked_add(u64::from(last) + 1).is_none() {
            return wrong("numbers of 64 bits", last.into());
        }
        Ok((Self { header, batch, offsets }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(sequences: &[u64]) -> Vec<u8> {
        let mut builder = PickedBuilder::default();
        for sequence in sequences {
            builder.push(*sequence, (*sequence as i64, 3, 1), b"body").unwrap();
        }
        let mut bytes = Vec::new();
        builder.finish(2, &mut bytes);
        assert!(builder.is_empty());
        bytes
    }

    #[test]
    fn rows_keep_their_sequence_numbers() {
        let mut bytes = picked(&[5, 6, 1 << 31]);
        bytes.extend(picked(&[u64::MAX - 1]));
        let found: Vec<PickedRows<'_>> = PickedRows::all(&bytes).map(Result::unwrap).collect();
        assert_eq!(found[0].header.schema_version, 2);
        assert_eq!([0, 1, 2].map(|row| found[0].sequence(row)), [5, 6, 1 << 31]);
        assert_eq!((found.len(), found[1].sequence(0)), (2, u64::MAX - 1));
        assert_eq!(PickedRows::all(&picked(&[])).count(), 0);
    }

    #[test]
    fn a_row_too_far_from_the_first_begins_another_batch() {
        let mut builder = PickedBuilder::default();
        builder.push(7, (0, 0, 0), b"").unwrap();
        assert!(matches!(
            builder.push(8 + (1 << 32), (0, 0, 0), b""),
            Err(PushError::BatchFull { count: 1 })
        ));
        assert!(builder.push(6, (0, 0, 0), b"").is_err());
        builder.finish(1, &mut Vec::new());
        builder.push(8 + (1 << 32), (0, 0, 0), b"").unwrap();
    }

    #[test]
    fn what_is_cut_or_flipped_is_refused() {
        let bytes = picked(&[5, 9, 12]);
        for len in 1..bytes.len() {
            assert!(PickedRows::all(&bytes[..len]).all(|found| found.is_err()), "{len}");
        }
        let batch = bytes.len() - 3 * OFFSET_BYTES;
        // All bits of the batch but its mark; of the numbers those that break their order.
        for bit in (32..batch * 8).chain([batch * 8, (batch + 4) * 8 + 2, (batch + 8) * 8 + 3]) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = PickedRows::all(&flipped).next().unwrap();
            assert!(found.is_err() || bit >= batch * 8 + 64, "{bit}");
        }
    }
}
