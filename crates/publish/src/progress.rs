//! What a table states of the stream that it is made of: its properties, which one commit changes together with its rows.

use crate::error::Error;
use std::collections::BTreeMap;

pub(crate) const STREAM: &str = "tapedb.stream";
const STREAM_ID: &str = "tapedb.stream-id";
const RECORD: &str = "tapedb.record";
const SHAPE: &str = "tapedb.shape";
/// Also in the summary of each snapshot of ours.
pub(crate) const SEQUENCES: &str = "tapedb.sequences";
pub(crate) const MESSAGES: &str = "tapedb.messages";
pub(crate) const ROWS: &str = "tapedb.rows";
pub(crate) const LOST: &str = "tapedb.lost";
pub(crate) const SYMBOLS: &str = "tapedb.symbols";
pub(crate) const STALE: &str = "tapedb.stale";
/// Also in the summary of each snapshot of ours: which one it is.
pub(crate) const COMMIT: &str = "tapedb.commit";

/// Whether a property states what hardly changes: neither numbers nor which commit was the last.
pub(crate) fn is_property_of_table(key: &str) -> bool {
    [STREAM, STREAM_ID, RECORD, SHAPE, STALE].contains(&key)
}

/// Of which stream a table is, and how far. Every snapshot has each message below `sequences` once, but for those that were deleted or
/// renamed since, which `stale` states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// The stream's name when it was last published.
    pub stream: String,
    /// The stream's id, which never changes.
    pub stream_id: u64,
    /// The record type.
    pub record: String,
    /// What decides columns and partitions: [`Options::shape`](crate::Options::shape).
    pub shape: String,
    /// For each space: messages with smaller sequence numbers are in the table.
    pub sequences: Vec<u64>,
    /// Messages of the record type that are in the table.
    pub messages: u64,
    /// Rows of the table.
    pub rows: u64,
    /// Messages, of whatever type, that could not be read when they were sealed.
    pub lost: u64,
    /// How many symbols the stream had, and a checksum of their names: it is another one when one of them was renamed.
    pub symbols: (u32, u64),
    /// The last commit of ours that made a snapshot; empty: there is none.
    pub commit: String,
    /// Why rows of the table are not those of the stream any more; `None`: they are.
    pub stale: Option<String>,
}

impl Progress {
    /// As properties.
    pub(crate) fn properties(&self) -> BTreeMap<String, String> {
        let sequences: Vec<String> = self.sequences.iter().map(u64::to_string).collect();
        let (count, checksum) = self.symbols;
        let pairs = [
            (STREAM, self.stream.clone()),
            (STREAM_ID, format!("{:016x}", self.stream_id)),
            (RECORD, self.record.clone()),
            (SHAPE, self.shape.clone()),
            (SEQUENCES, sequences.join(",")),
            (MESSAGES, self.messages.to_string()),
            (ROWS, self.rows.to_string()),
            (LOST, self.lost.to_string()),
            (SYMBOLS, format!("{count}:{checksum:016x}")),
            (COMMIT, self.commit.clone()),
        ];
        let stale = self.stale.iter().map(|stale| (STALE, stale.clone()));
        pairs.into_iter().chain(stale).map(|(key, value)| (key.to_string(), value)).collect()
    }

    /// From a table's properties; `None`: it was not made by TapeDB.
    ///
    /// # Errors
    /// When they were changed, so that they state nothing.
    pub(crate) fn of<'a>(property: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Self>, Error> {
        if property(STREAM_ID).is_none() {
            return Ok(None);
        }
        let wrong = |key: &str| {
            Error::Table(format!(
                "the table's property {key} is missing or has been changed; set it to what an older version of the table has, or write the \
                 table again under another name"
            ))
        };
        let text = |key: &str| property(key).ok_or_else(|| wrong(key));
        let number = |key: &str| text(key)?.parse::<u64>().map_err(|_| wrong(key));
        let sequences =
            text(SEQUENCES)?.split(',').map(|number| number.parse().map_err(|_| wrong(SEQUENCES)));
        let symbols = text(SYMBOLS)?.split_once(':').and_then(|(count, checksum)| {
            Some((count.parse().ok()?, u64::from_str_radix(checksum, 16).ok()?))
        });
        Ok(Some(Self {
            stream: text(STREAM)?.into(),
            stream_id: u64::from_str_radix(text(STREAM_ID)?, 16).map_err(|_| wrong(STREAM_ID))?,
            record: text(RECORD)?.into(),
            shape: text(SHAPE)?.into(),
            sequences: sequences.collect::<Result<_, _>>()?,
            messages: number(MESSAGES)?,
            rows: number(ROWS)?,
            lost: number(LOST)?,
            symbols: symbols.ok_or_else(|| wrong(SYMBOLS))?,
            commit: text(COMMIT)?.into(),
            stale: property(STALE).map(str::to_string),
        }))
    }
}

/// A name of a commit that no other has: 63 random bits.
pub(crate) fn new_commit() -> String {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    format!("{:016x}", (high ^ low) & i64::MAX as u64)
}

/// A checksum of the first names, which is the same on every machine: FNV-1a.
pub(crate) fn checksum<'a>(names: impl IntoIterator<Item = &'a str>) -> u64 {
    names.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, name| {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        step(name.as_bytes().iter().fold(hash, step), &0xff)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(properties: &BTreeMap<String, String>) -> Result<Option<Progress>, Error> {
        Progress::of(|key| properties.get(key).map(String::as_str))
    }

    #[test]
    fn properties_and_back() {
        let mut progress = Progress {
            stream: "bars".into(),
            stream_id: 0x4c1d_9505_2de1_a1f5,
            record: "Bar".into(),
            shape: "buckets 16".into(),
            sequences: vec![10, 20],
            messages: 25,
            rows: 25,
            lost: 1,
            symbols: (3, checksum(["A", "B", "C"])),
            commit: "c".into(),
            stale: None,
        };
        for stale in [None, Some("2024-01-02".to_string())] {
            progress.stale = stale;
            assert_eq!(read(&progress.properties()).unwrap().unwrap(), progress);
        }
        assert_eq!(read(&BTreeMap::new()).unwrap(), None);
        for key in [SEQUENCES, SYMBOLS, ROWS, RECORD] {
            let mut properties = progress.properties();
            properties.insert(key.into(), String::new());
            let without = {
                let mut all = progress.properties();
                all.remove(key);
                all
            };
            assert!(read(&without).is_err(), "{key}");
            assert!(key == RECORD || read(&properties).is_err(), "{key}");
        }
        assert_ne!(checksum(["AB", "C"]), checksum(["A", "BC"]));
    }
}
