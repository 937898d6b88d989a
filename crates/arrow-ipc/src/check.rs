//! Checks what a message states about its buffers before anything is allocated for it.

use crate::{Limits, lz4};
use arrow_ipc::{CompressionType, MessageHeader, RecordBatch};

/// What stands before a compressed buffer: its length when it is expanded.
const PREFIX_BYTES: usize = 8;

/// Such a buffer is not compressed, although others are.
const NOT_COMPRESSED: i64 = -1;

/// The batch in a message: of rows, or of values of a dictionary.
pub fn batch<'a>(message: arrow_ipc::Message<'a>) -> Option<RecordBatch<'a>> {
    match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch()?.data(),
        _ => None,
    }
}

/// Checks that buffers lie in the body, that they are not larger than the limit when they are expanded, and that they are no larger
/// than they state.
///
/// # Errors
/// What does not hold.
pub fn buffers(batch: RecordBatch<'_>, body: &[u8], limits: &Limits) -> Result<(), String> {
    let count = |what: i64| usize::try_from(what).ok();
    let nodes = batch.nodes().into_iter().flatten();
    let is_right = |length: i64, nulls: i64| length >= 0 && (0..=length).contains(&nulls);
    if batch.length() < 0 || nodes.into_iter().any(|node| !is_right(node.length(), node.null_count())) {
        return Err("a column has a number of rows or nulls that cannot be".into());
    }
    let max = limits.rows_max;
    if count(batch.length()).is_none_or(|rows| rows > max) {
        return Err(format!(
            "a batch has {} rows; the limit is {max}: write smaller batches",
            batch.length()
        ));
    }
    let variadic = batch.variadicBufferCounts().into_iter().flatten();
    if variadic.into_iter().any(|count| count < 0) {
        return Err("a column has a negative number of buffers".into());
    }
    // What is compressed with zstd is expanded into the bytes that it states.
    let is_lz4 = batch.compression().is_some_and(|found| found.codec() == CompressionType::LZ4_FRAME);
    let mut expanded_bytes = 0usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let range = count(buffer.offset()).zip(count(buffer.length()));
        let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
        let bytes = range.and_then(|range| body.get(range)).ok_or("a buffer lies outside of its batch")?;
        if batch.compression().is_some() && !bytes.is_empty() {
            let prefix = bytes.first_chunk().ok_or("a compressed buffer is shorter than its length")?;
            let length = match i64::from_le_bytes(*prefix) {
                NOT_COMPRESSED => Some(bytes.len() - PREFIX_BYTES),
                length => {
                    let stated = u64::try_from(length).unwrap_or(0);
                    if is_lz4
                        && stated <= limits.expanded_bytes_max as u64
                        && !lz4::fits(&bytes[PREFIX_BYTES..], stated)
                    {
                        return Err(format!(
                            "a buffer has more bytes when it is expanded than the {stated} it states"
                        ));
                    }
                    count(length)
                }
            };
            expanded_bytes = expanded_bytes.saturating_add(length.unwrap_or(usize::MAX));
        }
    }
    if expanded_bytes > limits.expanded_bytes_max {
        let max = limits.expanded_bytes_max;
        return Err(format!("a batch has {expanded_bytes} bytes when it is expanded; the limit is {max}"));
    }
    Ok(())
}
