//! The rows of the benchmark.

use tapedb_codec::dynamic::{RecordValue, Value};
use tapedb_engine::Stream;
use tapedb_terminal::Failure;

/// The table.
pub const TABLE: &str = "trade";
/// Number of symbols.
pub const SYMBOLS: usize = 500;

/// Symbols of the rows.
pub fn symbols() -> Vec<String> {
    (0..SYMBOLS).map(|at| format!("S{at:04}")).collect()
}

/// The body of a row; its size is its number.
pub fn body(stream: &Stream, number: u64) -> Result<Vec<u8>, Failure> {
    let price = 100.0 + (number % 1000) as f64 / 100.0;
    let fields = stream.schema().records[0].fields.len();
    let mut values = vec![Value::F64(price); fields];
    values[1] = Value::Int(number as i64);
    let mut body = Vec::new();
    let record = RecordValue { type_id: 0, fields: values };
    stream.layouts().encode(&record, &mut body).map_err(|error| Failure::new(error.to_string()))?;
    Ok(body)
}
