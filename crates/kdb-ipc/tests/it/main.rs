//! Bytes of kdb+ (golden and recorded), and random values in both directions.

mod golden;
mod page;
mod recorded;
mod round_trip;

use tapedb_kdb_ipc::{ByteOrder, Limits, Value, decode, encode};

/// The bytes of a value.
fn bytes_of(value: &Value, order: ByteOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(value, order, &mut bytes);
    bytes
}

/// The value of these bytes, which must be encoded to the same bytes, and decoded the same in the other byte order.
fn value_of(bytes: &[u8], what: &str) -> Value {
    let limits = Limits::default();
    let value = decode(bytes, ByteOrder::Little, &limits).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(bytes_of(&value, ByteOrder::Little), bytes, "{what}");
    let big = bytes_of(&value, ByteOrder::Big);
    let again = decode(&big, ByteOrder::Big, &limits).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(bytes_of(&again, ByteOrder::Little), bytes, "{what}");
    value
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| (digit as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.trim().as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
