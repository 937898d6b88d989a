//! What real clients sent, byte for byte: `testing/vectors/ilp.txt`.

use std::path::Path;
use tapedb_ilp::{Limits, Parser, Precision, Refusal, Rows, Text, Value};

#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn add(&mut self, text: String) -> Result<(), Refusal> {
        self.0.push(text);
        Ok(())
    }
}

impl Rows for Shown {
    fn table(&mut self, name: Text<'_>, _: u64) -> Result<(), Refusal> {
        self.add(format!("table {:?}", name.to_string()))
    }

    fn tag(&mut self, name: Text<'_>, value: Text<'_>) -> Result<(), Refusal> {
        self.add(format!("tag {:?} {:?}", name.to_string(), value.to_string()))
    }

    fn field(&mut self, name: Text<'_>, value: Value<'_>) -> Result<(), Refusal> {
        let value = match value {
            Value::F64(number) => format!("f64 {:?}", number.value),
            Value::I64(number) => format!("i64 {number}"),
            Value::U64(number) => format!("u64 {number}"),
            Value::Text(text) => format!("text {:?}", text.to_string()),
            Value::Bool(value) => format!("bool {value}"),
            Value::Time(time) => format!("time {time}"),
            Value::Array(array) => {
                let (shape, values): (Vec<_>, Vec<_>) = (array.shape().collect(), array.values().collect());
                format!("array {shape:?} {values:?}")
            }
            Value::Decimal(decimal) => format!("decimal {decimal}"),
            Value::Null => "null".into(),
        };
        self.add(format!("field {:?} {value}", name.to_string()))
    }

    fn end(&mut self, time: Option<i64>) -> Result<(), Refusal> {
        self.add(time.map_or("now".into(), |time| format!("at {time}")))
    }
}

/// The bytes of a Rust-like literal without quotes.
fn bytes_of(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(b'n') => b'\n',
            Some(b'x') => {
                let digits = [rest.next(), rest.next()].map(|digit| digit.unwrap_or_default());
                u8::from_str_radix(str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            Some(other) => other,
        });
    }
    bytes
}

#[test]
fn lines_of_real_clients() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors/ilp.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    let mut cases = 0;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("sent ") {
            Some(sent) => {
                assert_eq!(found, expected);
                expected.clear();
                let mut rows = Shown::default();
                Parser::new(Precision::Nanoseconds, Limits::default())
                    .parse(&bytes_of(sent), &mut rows)
                    .unwrap();
                found = rows.0;
                cases += 1;
            }
            None => expected.push(line.to_string()),
        }
    }
    assert_eq!(found, expected);
    assert!(cases >= 8);
}
