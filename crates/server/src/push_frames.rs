//! Pushes as frames: what precedes the batches or rows, so that these are sent from where they lie.

use tapedb_codec::batch::{BatchHeader, PickedRows};
use tapedb_engine::Span;
use tapedb_wire::{FRAME_HEADER_BYTES, Rest, ToClient, frame_header};

/// The bytes before the batches of a push: a frame's header, and the fields of [`ToClient::Grown`].
pub(crate) fn push_header(
    channel: u32,
    location: [u64; 3],
    space: u32,
    bytes: usize,
) -> [u8; PUSH_HEADER_BYTES] {
    let mut head = [0; PUSH_HEADER_BYTES];
    let kind = ToClient::Grown { space: 0, file: 0, offset: 0, first_sequence: 0, batches: Rest(&[]) }.kind();
    let (frame, fields) = head.split_at_mut(FRAME_HEADER_BYTES);
    frame.copy_from_slice(&frame_header(kind, channel, fields.len() + bytes));
    fields[..4].copy_from_slice(&space.to_le_bytes());
    for (field, number) in fields[4..].chunks_exact_mut(8).zip(location) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    head
}

const PUSH_HEADER_BYTES: usize = FRAME_HEADER_BYTES + 4 + 3 * 8;

/// The bytes before the rows of a push: a frame's header, and the fields of [`ToClient::Picked`].
pub(crate) fn picked_header(
    channel: u32,
    sequences: [u64; 2],
    space: u32,
    bytes: usize,
) -> [u8; PICKED_HEADER_BYTES] {
    let mut head = [0; PICKED_HEADER_BYTES];
    let kind = ToClient::Picked { space: 0, first_sequence: 0, next_sequence: 0, rows: Rest(&[]) }.kind();
    let (frame, fields) = head.split_at_mut(FRAME_HEADER_BYTES);
    frame.copy_from_slice(&frame_header(kind, channel, fields.len() + bytes));
    fields[..4].copy_from_slice(&space.to_le_bytes());
    for (field, number) in fields[4..].chunks_exact_mut(8).zip(sequences) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    head
}

const PICKED_HEADER_BYTES: usize = FRAME_HEADER_BYTES + 4 + 2 * 8;

/// Number of picked rows.
pub(crate) fn rows_in(rows: &[u8]) -> u64 {
    PickedRows::headers(rows).map(|header| u64::from(header.count)).sum()
}

/// The batches from the one with a message on; `None`: all are before it.
pub(crate) fn from_sequence(span: Span, batches: &[u8], sequence: u64) -> Option<(Span, &[u8])> {
    let (mut at, mut first_sequence) = (0, span.first_sequence);
    while first_sequence < sequence && at < batches.len() {
        // What is damaged is for the client, which reports it.
        let Ok(header) = BatchHeader::parse_stored(&batches[at..]) else { break };
        if header.next_sequence() > sequence {
            break;
        }
        at = (at + header.batch_bytes()).min(batches.len());
        first_sequence = header.next_sequence();
    }
    let rest = &batches[at..];
    let count = span.next_sequence().saturating_sub(first_sequence);
    let span =
        Span { offset: span.offset + at as u64, len: rest.len() as u32, first_sequence, count, ..span };
    (!rest.is_empty()).then_some((span, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_encoded_as_the_protocol_message() {
        let mut expected = Vec::new();
        let batches = Rest(b"batches");
        ToClient::Grown { space: 3, file: 1 << 40, offset: 64, first_sequence: 1 << 41, batches }
            .encode(9, &mut expected);
        let mut out = push_header(9, [1 << 40, 64, 1 << 41], 3, 7).to_vec();
        out.extend_from_slice(b"batches");
        assert_eq!(out, expected);
        expected.clear();
        let (first_sequence, next_sequence) = (1 << 40, 1 << 41);
        ToClient::Picked { space: 3, first_sequence, next_sequence, rows: Rest(b"rows") }
            .encode(9, &mut expected);
        let mut out = picked_header(9, [1 << 40, 1 << 41], 3, 4).to_vec();
        out.extend_from_slice(b"rows");
        assert_eq!(out, expected);
    }
}
