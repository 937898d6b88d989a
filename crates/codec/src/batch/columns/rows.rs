//! The batch of rows that holds the same messages as a batch of columns.

use super::bit;
use super::read::{BatchColumns, Content, Texts};
use super::words::Words;
use crate::batch::{BatchError, BatchHeader, HEADER_BYTES, KIND_ROWS};
use crate::dynamic::Layouts;
use crate::layout::END_WIDTH;

/// Column bytes of a row at most, as in a batch of rows: time 8, symbol 4, length 4; its type is that of all.
pub(super) const ROW_BYTES_MAX: usize = 16;

/// Rows that are filled field by field before the next ones: they stay in the cache.
const STRIP: usize = 256;

/// Appends to `out` the batch of rows with the messages of a batch of columns: header, sequence numbers, times, symbols and
/// producer are the same. Its payload has no checksum (0), for it does not leave the process; returns its header.
///
/// # Errors
/// As [`BatchColumns::parse`]; `out` is then as before.
pub fn to_rows(
    header: &BatchHeader,
    batch: &[u8],
    layouts: &Layouts,
    out: &mut Vec<u8>,
) -> Result<BatchHeader, BatchError> {
    Ok(BatchColumns::parse(header, batch, layouts)?.to_rows(out))
}

impl BatchColumns<'_> {
    /// Appends the batch of rows with these messages to `out`; see [`to_rows`].
    pub fn to_rows(&self, out: &mut Vec<u8>) -> BatchHeader {
        let (count, fixed, start) = (self.len(), self.record.fixed, out.len());
        let lengths = self.lengths();
        let mut header = BatchHeader { kind: KIND_ROWS, payload_crc: 0, ..self.header };
        out.resize(start + HEADER_BYTES, 0);
        out.extend_from_slice(self.places);
        if let Some(lengths) = &lengths {
            write_lengths(lengths, &mut header, out);
        }
        let bodies = out.len();
        let bytes = match &lengths {
            Some(lengths) => lengths.iter().map(|length| *length as usize).sum(),
            None => count * fixed,
        };
        out.resize(bodies + bytes, 0);
        match &lengths {
            Some(lengths) => self.fill_varying(lengths, &mut out[bodies..]),
            None => self.fill_fixed(0, &mut out[bodies..]),
        }
        header.payload_len = (out.len() - start - HEADER_BYTES) as u32;
        if let Some(place) = out[start..].first_chunk_mut() {
            header.write(place);
        }
        header
    }

    /// Appends the bodies of some rows to `bodies`, and where each ends to `ends`. Only for messages of one length.
    ///
    /// # Panics
    /// When there are no such rows.
    pub fn append_bodies(&self, rows: std::ops::Range<usize>, bodies: &mut Vec<u8>, ends: &mut Vec<u32>) {
        assert!(rows.end <= self.len(), "rows of the batch");
        let (start, fixed) = (bodies.len(), self.record.fixed);
        bodies.resize(start + rows.len() * fixed, 0);
        self.fill_fixed(rows.start, &mut bodies[start..]);
        ends.extend((1..=rows.len()).map(|row| (start + row * fixed) as u32));
    }

    /// Bytes of each message, if they differ.
    fn lengths(&self) -> Option<Vec<u32>> {
        self.record.last_end?;
        let mut lengths = vec![self.record.fixed as u32; self.len()];
        for column in &self.fields {
            if let Content::Text(Texts { lengths: found, .. }) = &column.content {
                let mut places = lengths.iter_mut();
                found.for_each(0..self.len(), |length| {
                    if let Some(place) = places.next() {
                        *place += length as u32;
                    }
                });
            }
        }
        Some(lengths)
    }

    /// Bodies that are the fixed part, from a row on.
    fn fill_fixed(&self, row: usize, bodies: &mut [u8]) {
        let fixed = self.record.fixed;
        if fixed == 0 {
            return;
        }
        for (strip, bodies) in bodies.chunks_mut(STRIP * fixed).enumerate() {
            let first = row + strip * STRIP;
            let rows = first..first + bodies.len() / fixed;
            for (field, column) in self.record.fields.iter().zip(&self.fields) {
                let at = field.offset;
                match &column.content {
                    Content::Word(words) => store(words, rows.clone(), bodies, fixed, (at, field.width)),
                    Content::Wide(head, rest) => {
                        store(head, rows.clone(), bodies, fixed, (at, 8));
                        store(rest, rows.clone(), bodies, fixed, (at + 8, field.width - 8));
                    }
                    Content::Text(_) => {}
                }
                let (Some(nulls), Some(null_bit)) = (column.nulls, field.null_bit) else { continue };
                for (row, body) in rows.clone().zip(bodies.chunks_exact_mut(fixed)) {
                    if bit(nulls, row) {
                        body[null_bit / 8] |= 1 << (null_bit % 8);
                        body[at..at + field.width].fill(0);
                    }
                }
            }
        }
    }

    /// Bodies with texts behind the fixed part.
    fn fill_varying(&self, lengths: &[u32], bodies: &mut [u8]) {
        let mut starts = Vec::with_capacity(lengths.len());
        let mut end = 0;
        for length in lengths {
            starts.push(end);
            end += *length as usize;
        }
        // Where each body's next text begins.
        let mut positions: Vec<usize> = starts.iter().map(|start| start + self.record.fixed).collect();
        for (field, column) in self.record.fields.iter().zip(&self.fields) {
            let (at, width) = (field.offset, field.width);
            match &column.content {
                Content::Word(words) => {
                    scatter(words, &starts, bodies, (at, width));
                }
                Content::Wide(head, rest) => {
                    scatter(head, &starts, bodies, (at, 8));
                    scatter(rest, &starts, bodies, (at + 8, width - 8));
                }
                Content::Text(texts) => {
                    for ((text, start), position) in texts.iter().zip(&starts).zip(&mut positions) {
                        bodies[*position..*position + text.len()].copy_from_slice(text);
                        *position += text.len();
                        let end = ((*position - start) as u32).to_le_bytes();
                        bodies[start + at..start + at + END_WIDTH].copy_from_slice(&end);
                    }
                }
            }
            let (Some(nulls), Some(null_bit)) = (column.nulls, field.null_bit) else { continue };
            let is_text = matches!(column.content, Content::Text(_));
            for (_, start) in starts.iter().enumerate().filter(|(row, _)| bit(nulls, *row)) {
                bodies[start + null_bit / 8] |= 1 << (null_bit % 8);
                if !is_text {
                    bodies[start + at..start + at + width].fill(0);
                }
            }
        }
    }
}

/// Stores words at a place of bodies of one length.
#[inline]
fn store(
    words: &Words<'_>,
    rows: std::ops::Range<usize>,
    bodies: &mut [u8],
    fixed: usize,
    (at, width): (usize, usize),
) {
    match width {
        8 => store_as::<8>(words, rows, bodies, fixed, at),
        4 => store_as::<4>(words, rows, bodies, fixed, at),
        2 => store_as::<2>(words, rows, bodies, fixed, at),
        1 => store_as::<1>(words, rows, bodies, fixed, at),
        _ => {
            let mut bodies = bodies.chunks_exact_mut(fixed);
            words.for_each(rows, |word| {
                if let Some(body) = bodies.next() {
                    body[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
                }
            });
        }
    }
}

#[inline]
fn store_as<const N: usize>(
    words: &Words<'_>,
    rows: std::ops::Range<usize>,
    bodies: &mut [u8],
    fixed: usize,
    at: usize,
) {
    let mut bodies = bodies.chunks_exact_mut(fixed);
    words.for_each(rows, |word| {
        if let Some(place) = bodies.next().and_then(|body| body[at..].first_chunk_mut::<N>())
            && let Some(bytes) = word.to_le_bytes().first_chunk::<N>()
        {
            *place = *bytes;
        }
    });
}

/// Stores words at a place of bodies of different lengths.
fn scatter(words: &Words<'_>, starts: &[usize], bodies: &mut [u8], (at, width): (usize, usize)) {
    let mut starts_of = starts.iter();
    words.for_each(0..starts.len(), |word| {
        if let Some(start) = starts_of.next() {
            bodies[start + at..start + at + width].copy_from_slice(&word.to_le_bytes()[..width]);
        }
    });
}

/// Writes the length column, or notes the one length of all.
fn write_lengths(lengths: &[u32], header: &mut BatchHeader, out: &mut Vec<u8>) {
    let least = lengths.iter().copied().min().unwrap_or(0);
    let greatest = lengths.iter().copied().max().unwrap_or(0);
    (header.length_width, header.length_const) = crate::batch::builder::width_and_const((least, greatest));
    match header.length_width {
        1 => out.extend(lengths.iter().map(|length| *length as u8)),
        2 => out.extend(lengths.iter().flat_map(|length| (*length as u16).to_le_bytes())),
        4 => out.extend(lengths.iter().flat_map(|length| length.to_le_bytes())),
        _ => {}
    }
}
