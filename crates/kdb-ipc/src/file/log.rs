//! The tickerplant's log: `ff 01`, six zero bytes, then `` (`upd;table;rows) `` after `` (`upd;table;rows) ``, each as a
//! message would hold it, without a header and without a checksum.

use super::{FLAT, flat::further, refuse};
use crate::decode::{Limits, decode_first};
use crate::encode::{ByteOrder, encode};
use crate::error::KdbError;
use crate::value::Value;
use std::fmt;

/// Bytes before the first record.
pub const LOG_HEADER: [u8; 8] = [FLAT[0], FLAT[1], 0, 0, 0, 0, 0, 0];

/// A record of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its offset in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: usize,
    /// Its value: a list, most often of a function's name, a table's name and rows.
    pub value: Value,
}

/// Where the valid part of a log ends, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the first record that is not whole: truncate the file there to repair it.
    pub offset: u64,
    /// Records before it.
    pub records: u64,
    /// Why it cannot be read; places count from the beginning of the file.
    pub error: KdbError,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, records, error } = self;
        write!(f, "after {records} records, at byte {offset}, the log is damaged ({error})")
    }
}

impl std::error::Error for Damage {}

/// Reads a log: bytes go in, in pieces, and records come out. Holds the incomplete record and the bytes after it.
///
/// ```
/// use tapedb_kdb_ipc::{Limits, Value, file::log};
///
/// let mut bytes = log::LOG_HEADER.to_vec();
/// log::write_record(&Value::list(vec![Value::symbol("upd"), Value::symbol("t"), 1.into()]), &mut bytes);
/// let mut reader = log::Reader::new(Limits::default());
/// reader.push(&bytes);
/// assert_eq!(reader.next_record()?.expect("a record").value.to_string(), "(`upd;`t;1)");
/// assert_eq!(reader.next_record()?, None);
/// reader.finish()?;
/// # Ok::<(), log::Damage>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    limits: Limits,
    buffer: Vec<u8>,
    /// Bytes of the buffer that have been read.
    start: usize,
    /// Offset of `start` in the file.
    offset: u64,
    records: u64,
    /// An incomplete record is parsed again when so many bytes of it are there.
    again_at: usize,
}

impl Reader {
    /// A reader at the beginning of a file.
    pub fn new(limits: Limits) -> Self {
        Self { limits, buffer: Vec::new(), start: 0, offset: 0, records: 0, again_at: 0 }
    }

    /// Adds the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Offset of the next record in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of records read.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The next record; `None`: more bytes are needed, or the file is at its end.
    ///
    /// # Errors
    /// [`Damage`], for good.
    pub fn next_record(&mut self) -> Result<Option<Record>, Damage> {
        if self.offset == 0 && !self.header()? {
            return Ok(None);
        }
        let rest = &self.buffer[self.start..];
        if rest.len() < self.again_at.max(1) {
            return Ok(None);
        }
        match parse(rest, &self.limits) {
            Ok((value, bytes)) => Ok(Some(self.taken(value, bytes))),
            Err(KdbError::Truncated { .. }) if rest.len() < self.limits.message_bytes_max => {
                // Twice as many, so that a long record is parsed a few times only.
                self.again_at = rest.len().saturating_mul(2);
                Ok(None)
            }
            Err(error) => Err(self.damage(error)),
        }
    }

    /// To be called at the end of the file: checks the rest.
    ///
    /// # Errors
    /// [`Damage`], if the last record is not whole; records that are were given by [`next_record`](Self::next_record)
    /// after this has returned [`Ok`] with `true`.
    pub fn finish(&mut self) -> Result<bool, Damage> {
        self.again_at = 0;
        let rest = &self.buffer[self.start..];
        if rest.is_empty() && self.offset > 0 {
            return Ok(false);
        }
        if self.offset == 0 {
            let (need, have) = (LOG_HEADER.len(), rest.len());
            return Err(self.damage(KdbError::Truncated { offset: 0, need, have }));
        }
        parse(rest, &self.limits).map(|_| true).map_err(|error| self.damage(error))
    }

    fn header(&mut self) -> Result<bool, Damage> {
        let there = self.buffer.len().min(LOG_HEADER.len());
        if self.buffer[..there] != LOG_HEADER[..there] {
            return Err(self.damage(refuse(&self.buffer)));
        }
        let is_whole = there == LOG_HEADER.len();
        if is_whole {
            (self.start, self.offset) = (there, there as u64);
        }
        Ok(is_whole)
    }

    fn taken(&mut self, value: Value, bytes: usize) -> Record {
        let offset = self.offset;
        self.start += bytes;
        self.offset += bytes as u64;
        self.records += 1;
        self.again_at = 0;
        Record { offset, bytes, value }
    }

    fn damage(&self, error: KdbError) -> Damage {
        let error = further(error, usize::try_from(self.offset).unwrap_or(usize::MAX));
        Damage { offset: self.offset, records: self.records, error }
    }
}

/// Puts a record at the end of `out`.
pub fn write_record(value: &Value, out: &mut Vec<u8>) {
    encode(value, ByteOrder::Little, out);
}

fn parse(bytes: &[u8], limits: &Limits) -> Result<(Value, usize), KdbError> {
    let (value, len) = decode_first(bytes, ByteOrder::Little, limits)?;
    match &value {
        Value::List(list) if !list.items.is_empty() => Ok((value, len)),
        Value::List(_) => Err(KdbError::Invalid { offset: 0, what: "zero bytes in place of a record" }),
        _ => Err(KdbError::Invalid { offset: 0, what: "a record is no list" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(rows: Vec<i64>) -> Value {
        Value::list(vec![Value::symbol("upd"), Value::symbol("trade"), Value::list(vec![rows.into()])])
    }

    fn log(records: &[Vec<i64>]) -> Vec<u8> {
        let mut bytes = LOG_HEADER.to_vec();
        records.iter().for_each(|rows| write_record(&record(rows.clone()), &mut bytes));
        bytes
    }

    /// All records, read in pieces of `piece` bytes, and the damage after them.
    fn read(bytes: &[u8], piece: usize) -> (Vec<Value>, Option<Damage>) {
        let (mut reader, mut found) = (Reader::new(Limits::default()), Vec::new());
        let mut drain = |reader: &mut Reader| loop {
            match reader.next_record() {
                Ok(Some(record)) => found.push(record.value),
                Ok(None) => return None,
                Err(damage) => return Some(damage),
            }
        };
        for piece in bytes.chunks(piece) {
            reader.push(piece);
            if let Some(damage) = drain(&mut reader) {
                return (found, Some(damage));
            }
        }
        loop {
            match reader.finish() {
                Ok(false) => return (found, None),
                Err(damage) => return (found, Some(damage)),
                Ok(true) => assert_eq!(drain(&mut reader), None),
            }
        }
    }

    proptest! {
        #[test]
        fn records_come_back_and_a_cut_is_found(
            records in prop::collection::vec(prop::collection::vec(any::<i64>(), 0..200), 1..10),
            piece in 1_usize..3000,
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = log(&records);
            let (found, damage) = read(&bytes, piece);
            prop_assert_eq!(damage, None);
            prop_assert_eq!(found.len(), records.len());

            let cut = cut.index(bytes.len());
            let (found, damage) = read(&bytes[..cut], piece);
            let whole = log(&records[..found.len()]).len();
            if let Some(damage) = damage {
                prop_assert_eq!(damage.records, found.len() as u64);
                prop_assert_eq!(damage.offset as usize, if cut < 8 { 0 } else { whole });
            } else {
                prop_assert_eq!(cut, whole);
            }
        }
    }

    #[test]
    fn zeros_behind_the_records_are_damage() {
        let mut bytes = log(&[vec![1, 2]]);
        let end = bytes.len();
        bytes.extend([0; 512]);
        let (found, damage) = read(&bytes, 100);
        let damage = damage.expect("damage");
        assert_eq!((found.len(), damage.records, damage.offset), (1, 1, end as u64));
        assert!(damage.to_string().contains("zero bytes in place of a record"), "{damage}");
    }

    #[test]
    fn a_count_that_lies_takes_no_memory_beyond_the_limit() {
        let mut bytes = LOG_HEADER.to_vec();
        bytes.extend([0, 0, 1, 0, 0, 0, 7, 0, 0xff, 0xff, 0xff, 0x7f]);
        bytes.resize(10_000, 1);
        let mut reader = Reader::new(Limits { message_bytes_max: 4096, ..Limits::default() });
        let mut damaged = None;
        for piece in bytes.chunks(1000) {
            reader.push(piece);
            damaged = damaged.or(reader.next_record().err());
        }
        assert_eq!(damaged.map(|damage| damage.offset), Some(8));
    }

    #[test]
    fn other_files_are_refused() {
        for bytes in [&b"kxzipped and more"[..], b"\xfe\x20\x07\0\0\0\0\0", b"hello, world"] {
            let (_, damage) = read(bytes, 100);
            assert!(matches!(damage, Some(Damage { offset: 0, error: KdbError::Unreadable { .. }, .. })));
        }
    }
}
