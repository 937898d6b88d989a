//! The content of rows as a checksum: for comparing two copies.

use std::hash::{DefaultHasher, Hasher};
use tapedb_schema::Timestamp;

/// How many rows there are, and a checksum of times, symbols and bodies that does not depend on their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Content {
    pub rows: u64,
    sum: u128,
}

impl Content {
    /// Adds a row.
    pub fn add(&mut self, time: Timestamp, symbol: &str, body: &[u8]) {
        let hash = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(seed);
            hasher.write_i64(time.0);
            hasher.write(symbol.as_bytes());
            hasher.write_u8(0xff);
            hasher.write(body);
            hasher.finish()
        };
        self.rows += 1;
        let row = u128::from(hash(0)) << 64 | u128::from(hash(1));
        self.sum = self.sum.wrapping_add(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (i64, &'static str, &'static [u8]);

    fn content(rows: &[Row]) -> Content {
        let mut content = Content::default();
        rows.iter().for_each(|(time, symbol, body)| content.add(Timestamp(*time), symbol, body));
        content
    }

    #[test]
    fn rows_are_compared_in_any_order_and_as_often_as_they_are_there() {
        let (a, b): (Row, Row) = ((1, "A", b"x"), (2, "B", b"y"));
        assert_eq!(content(&[a, b]), content(&[b, a]));
        for other in
            [&[a, a, b][..], &[a], &[a, (2, "B", b"z")], &[a, (3, "B", b"y")], &[a, (2, "By", b"")], &[a, a]]
        {
            assert_ne!(content(&[a, b]), content(other), "{other:?}");
        }
    }
}
