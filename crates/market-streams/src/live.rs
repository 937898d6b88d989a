//! The book of a symbol, kept up to date as messages arrive.
//!
//! Always true: the book is that of history below `ends`, the sequence numbers when it was read, and of the live cursor's messages since,
//! which begin there. A message that is earlier than those applied changes the past, and so does a gap that may concern several symbols:
//! the book is then read again.

use crate::at::{BookAt, BookRequest, book_of};
use crate::error::BookError;
use crate::replay::BookReplay;
use std::time::Duration;
use tapedb_codec::Record;
use tapedb_engine::{Cursor, Database, Stream};
use tapedb_market::Gap;
use tapedb_schema::Timestamp;

/// Messages that are applied before a call of [`LiveBook::advance`] returns.
const STEP: u64 = 100_000;

/// A book that follows its stream.
#[derive(Debug)]
pub struct LiveBook {
    db: Database,
    stream: Stream,
    symbol: String,
    cursor: Cursor,
    replay: BookReplay,
    /// Whether `replay` has the books of `found`; it gets them when the id of the symbol is known.
    is_replaying: bool,
    found: BookAt,
    /// Time and space of the last message that changed the book. After reading history, a message of its time may be from before it,
    /// unless there is one space only.
    last: (Timestamp, u32),
    reads: u64,
}

impl LiveBook {
    /// The book now. The symbol may be one that the stream does not have yet.
    ///
    /// # Errors
    /// [`BookError::NoBooks`], the engine's.
    pub fn open(db: &Database, stream: &Stream, symbol: &str) -> Result<Self, BookError> {
        let (found, cursor) = read(db, stream, symbol)?;
        let last = last_of(&found, stream);
        let (db, stream, symbol) = (db.clone(), stream.clone(), symbol.to_string());
        let replay = BookReplay::new(&stream)?;
        Ok(Self { db, stream, symbol, cursor, replay, is_replaying: false, found, last, reads: 1 })
    }

    /// Applies messages that have arrived; returns whether the book has changed. After `true` there may be more.
    ///
    /// # Errors
    /// The engine's.
    pub fn advance(&mut self) -> Result<bool, BookError> {
        let mut changed = None;
        let mut is_past = false;
        for _ in 0..STEP {
            let Some(message) = self.cursor.next()? else { break };
            let (time, id) = (message.time(), message.symbol_id());
            let is_gap = message.type_name() == Gap::NAME;
            if message.symbol() != self.symbol && !is_gap {
                continue;
            }
            let place = (time, message.space());
            if is_gap || place < self.last {
                is_past = true;
                break;
            }
            if !self.is_replaying {
                self.replay.restore(id, std::mem::take(&mut self.found.books));
                self.is_replaying = true;
            }
            if self.replay.apply(&message)? {
                self.last = place;
                self.found.time = time.max(self.found.time);
                self.found.messages += 1;
                changed = Some(id);
            }
        }
        if is_past {
            self.read_again()?;
        } else if let Some(id) = changed {
            self.found.books = self.replay.books().symbol(id).cloned().unwrap_or_default();
        }
        Ok(is_past || changed.is_some())
    }

    /// The book, after the messages that were applied.
    pub fn book(&self) -> &BookAt {
        &self.found
    }

    /// How often the book was read from history: once, and for each late message and gap.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Waits for new messages.
    ///
    /// # Errors
    /// The engine's.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), BookError> {
        Ok(self.cursor.wait(timeout)?)
    }

    fn read_again(&mut self) -> Result<(), BookError> {
        (self.found, self.cursor) = read(&self.db, &self.stream, &self.symbol)?;
        self.replay = BookReplay::new(&self.stream)?;
        self.last = last_of(&self.found, &self.stream);
        (self.is_replaying, self.reads) = (false, self.reads + 1);
        Ok(())
    }
}

/// The book of what has arrived, and a cursor over what arrives after it.
fn read(db: &Database, stream: &Stream, symbol: &str) -> Result<(BookAt, Cursor), BookError> {
    let ends = stream.next_sequences()?;
    let history = stream.cursor().to_sequences(ends.iter().copied());
    let time = history.time_range()?.map_or(Timestamp(i64::MIN), |(_, last)| last);
    let found = book_of(stream, db, &BookRequest { symbol, time, ends: Some(&ends) })?;
    let replay = BookReplay::new(stream)?;
    let mut cursor = stream.cursor().from_sequences(ends).live();
    // Gaps of other symbols may concern this one.
    cursor = if replay.has_gaps() {
        cursor.types(replay.types().into_iter().chain([Gap::NAME]))
    } else {
        cursor.types(replay.types()).symbols([symbol])
    };
    Ok((found, cursor.open()?))
}

fn last_of(found: &BookAt, stream: &Stream) -> (Timestamp, u32) {
    let changed = found.books.venues().iter().filter_map(|venue| venue.changed());
    (changed.max().unwrap_or(Timestamp(i64::MIN)), stream.spaces() - 1)
}
