//! Batches for unit tests.

use tapedb_codec::batch::{BatchBuilder, assign_sequence};

/// A batch of one message with a body of zeros.
pub(crate) fn one_batch(first_sequence: u64, body_bytes: usize) -> Vec<u8> {
    batch_of(first_sequence, 1, &vec![0; body_bytes])
}

/// A batch of messages with the same body, one nanosecond apart.
pub(crate) fn batch_of(first_sequence: u64, count: usize, body: &[u8]) -> Vec<u8> {
    let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
    for i in 0..count {
        builder.push_bytes(i as i64, 0, 0, body).unwrap();
    }
    builder.finish(1, &mut out);
    assign_sequence(&mut out, first_sequence).unwrap();
    out
}
