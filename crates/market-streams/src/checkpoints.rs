//! Checkpoints of books: written to, found in and compared with their source.
//!
//! A checkpoint states how many messages of its source were before its time, and the sequence numbers that the next ones got. It is used
//! only if the source has that many below those numbers, and none above them: otherwise messages were deleted, rewritten or came late.

use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{CursorBuilder, Database, Error, NotFound, Stream, StreamOptions};
use tapedb_market::{BookCheckpoint, SymbolBooks};
use tapedb_schema::{Schema, Timestamp};

/// Checkpoints that are tried before history is replayed from its begin.
const TRIES_MAX: usize = 64;
/// Most parts of a checkpoint.
const PARTS_MAX: u32 = 1 << 16;

/// The stream with the checkpoints of a stream's books.
pub fn checkpoints_of(stream: &str) -> String {
    format!("{stream}.books")
}

pub(crate) fn schema() -> Schema {
    SchemaBuilder::new().with::<BookCheckpoint>().finish()
}

/// Opens the stream of checkpoints; `None`: there is none.
pub(crate) fn open(db: &Database, stream: &str) -> Result<Option<Stream>, Error> {
    match db.stream(&checkpoints_of(stream)) {
        Ok(stream) => Ok(Some(stream)),
        Err(Error::NotFound(NotFound::Stream { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens or creates the stream of checkpoints.
pub(crate) fn open_or_create(db: &Database, source: &Stream) -> Result<Stream, Error> {
    let options = StreamOptions { durability: source.options().durability, ..StreamOptions::default() };
    db.open_or_create_stream(&checkpoints_of(source.name()), schema(), options)
}

/// A cursor over messages up to a time, itself included.
pub(crate) fn through(cursor: CursorBuilder, time: Timestamp) -> CursorBuilder {
    match time.nanos().checked_add(1) {
        Some(end) => cursor.to(Timestamp(end)),
        None => cursor,
    }
}

/// A checkpoint that fits its source.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) time: Timestamp,
    pub(crate) books: SymbolBooks,
}

/// The last checkpoint of a symbol at or before a time that fits its source, and how many were passed over because they do not. With
/// `ends`, it has only messages below these sequence numbers.
///
/// # Errors
/// The engine's.
pub(crate) fn find(
    checkpoints: &Stream,
    source: &Stream,
    (symbol, id): (&str, Option<u32>),
    at: Timestamp,
    ends: Option<&[u64]>,
) -> Result<(Option<Found>, usize), Error> {
    let cursor = through(checkpoints.cursor(), at).types([BookCheckpoint::NAME]).symbols([symbol]).reverse();
    let mut cursor = cursor.open()?;
    let (mut parts, mut passed_over) = (Vec::<BookCheckpoint>::new(), 0);
    while let Some(message) = cursor.next()? {
        let (time, part) = (message.time(), message.decode::<BookCheckpoint>()?);
        if part.parts > PARTS_MAX || parts.last().is_some_and(|behind| behind.part != part.part + 1) {
            parts.clear();
        }
        if parts.is_empty() && part.part + 1 != part.parts {
            // The end of it is missing: the process that wrote it was ended.
            continue;
        }
        parts.push(part);
        if parts.last().is_some_and(|first| first.part == 0) {
            let is_below =
                |ends: &[u64]| parts[0].source_sequences.iter().zip(ends).all(|(of, end)| of <= end);
            if !ends.is_none_or(is_below) {
                parts.clear();
                continue;
            }
            // Another symbol may have had the name.
            if parts[0].source_symbol == id && fits(source, &parts[0], time) {
                parts.reverse();
                if let Ok(books) = SymbolBooks::restore(&parts) {
                    return Ok((Some(Found { time, books }), passed_over));
                }
            }
            parts.clear();
            passed_over += 1;
            if passed_over == TRIES_MAX {
                break;
            }
        }
    }
    Ok((None, passed_over))
}

/// Whether the source has exactly the messages before the checkpoint's time that it was made of. What cannot be counted does not fit.
/// Of history that lies before the checkpoint, little is read, however long it is: its numbers are those that the stream states.
pub(crate) fn fits(source: &Stream, checkpoint: &BookCheckpoint, time: Timestamp) -> bool {
    let of = Source {
        created: checkpoint.source_created,
        symbol: checkpoint.source_symbol,
        messages: checkpoint.source_messages,
        sequences: checkpoint.source_sequences.clone(),
    };
    of.fits(source, time)
}

/// What a checkpoint was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    created: Timestamp,
    /// The symbol's number.
    symbol: Option<u32>,
    /// Messages before its time.
    messages: u64,
    /// Sequence numbers that the next messages got.
    sequences: Vec<u64>,
}

impl Source {
    /// What a stream had when its next messages were to get these sequence numbers; `None`: it cannot be counted.
    pub fn of(stream: &Stream, symbol: u32, time: Timestamp, sequences: &[u64]) -> Option<Self> {
        let before = stream.cursor().to(time).to_sequences(sequences.iter().copied());
        let messages = before.stated_count().ok()?;
        Some(Self { created: stream.created(), symbol: Some(symbol), messages, sequences: sequences.into() })
    }

    /// Whether it is of this stream and symbol.
    pub fn is_of(&self, stream: &Stream, symbol: u32) -> bool {
        self.created == stream.created() && self.symbol == Some(symbol)
    }

    /// Whether both are of one stream and symbol.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.created, self.symbol) == (other.created, other.symbol)
    }

    /// Whether the stream has exactly the messages before this time that the checkpoint was made of.
    pub fn fits(&self, source: &Stream, time: Timestamp) -> bool {
        let before = || source.cursor().to(time);
        let is_whole = |found: Result<u64, Error>| found.is_ok_and(|found| found == self.messages);
        let Ok(next) = source.next_sequences() else { return false };
        self.created == source.created()
            && next.len() == self.sequences.len()
            && is_whole(before().stated_count())
            && (next == self.sequences
                || is_whole(before().to_sequences(self.sequences.iter().copied()).stated_count()))
    }
}
