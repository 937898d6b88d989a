//! Databento's own decoder.

use crate::{Case, timed};
use dbn::MboMsg;
use dbn::decode::{DbnDecoder, DecodeRecord};
use std::io::Read;

/// A file's bytes, which may be compressed with zstd, when they are not any more.
pub fn plain(path: &str) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut bytes = Vec::new();
    dbn::decode::DynReader::inferred_with_buffer(std::io::BufReader::new(file))
        .and_then(|mut reader| Ok(reader.read_to_end(&mut bytes).map_err(|error| dbn::Error::io(error, "reading"))?))
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    bytes
}

/// All messages of a file of market by order.
pub fn measure(bytes: &[u8], cases: &mut Vec<Case>) {
    let count = decode(bytes);
    timed(cases, "decode: crate dbn, market by order", count as usize, || decode(bytes));
}

fn decode(bytes: &[u8]) -> u64 {
    let mut decoder = DbnDecoder::new(bytes).expect("metadata");
    let (mut count, mut sum) = (0, 0i64);
    while let Some(record) = decoder.decode_record::<MboMsg>().expect("a message") {
        count += 1;
        sum = sum.wrapping_add(record.price).wrapping_add(i64::from(record.size));
    }
    std::hint::black_box(sum);
    count
}
