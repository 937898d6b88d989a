//! Writes checkpoints of the books of all symbols of a stream, and keeps them up to date.
//!
//! Always true: `seen` messages of the source have been applied, in the order of history: by time, equal times in the order of the spaces; the
//! last of them at `last`. A checkpoint of time T is
//! written before the first message at or after T is applied, so it has all messages before T and no other.

use crate::checkpoints;
use crate::error::BookError;
use crate::replay::BookReplay;
use std::collections::BTreeSet;
use std::time::Duration;
use tapedb_codec::Record;
use tapedb_engine::{Cursor, Database, Loader, Stream};
use tapedb_market::BookCheckpoint;
use tapedb_schema::Timestamp;

/// How often checkpoints are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// After this many messages of the stream.
    Messages(u64),
    /// After this time of the stream.
    Time(Duration),
}

/// What a call of [`CheckpointWriter::step`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// There are more messages.
    More,
    /// All messages that there are have been applied; new ones may come.
    UpToDate,
}

/// The writer.
#[derive(Debug)]
pub struct CheckpointWriter {
    source: Stream,
    every: Every,
    cursor: Cursor,
    replay: BookReplay,
    output: Output,
    /// Symbols whose books have changed since they were written.
    changed: BTreeSet<u32>,
    sequences: Vec<u64>,
    seen: u64,
    last: Option<(Timestamp, u32)>,
    /// Messages seen and time of the last checkpoints.
    round: Option<(u64, Timestamp)>,
    /// Checkpoints up to this time are there, and fit.
    existing: Option<Timestamp>,
}

/// The stream that checkpoints are written to.
#[derive(Debug)]
struct Output {
    checkpoints: Stream,
    loader: Loader,
    written: u64,
}

impl CheckpointWriter {
    /// A writer for a stream. It replays history from its begin, and writes the checkpoints that are not there yet.
    ///
    /// # Errors
    /// [`BookError::NoBooks`], the engine's.
    pub fn open(db: &Database, source: &Stream, every: Every) -> Result<Self, BookError> {
        let replay = BookReplay::new(source)?;
        let checkpoints = checkpoints::open_or_create(db, source)?;
        let loader = checkpoints.loader()?;
        let mut writer = Self {
            cursor: source.cursor().live().open()?,
            source: source.clone(),
            every,
            replay,
            output: Output { checkpoints, loader, written: 0 },
            changed: BTreeSet::new(),
            sequences: Vec::new(),
            seen: 0,
            last: None,
            round: None,
            existing: None,
        };
        writer.begin()?;
        Ok(writer)
    }

    /// Applies at most `messages` messages, and writes the checkpoints that are due.
    ///
    /// # Errors
    /// The engine's.
    pub fn step(&mut self, messages: u64) -> Result<Pass, BookError> {
        for _ in 0..messages {
            let Some(message) = self.cursor.next()? else {
                self.output.loader.flush()?;
                return Ok(Pass::UpToDate);
            };
            let time = message.time();
            if let Some(next) = self.sequences.get_mut(message.space() as usize) {
                *next = (*next).max(message.sequence() + 1);
            }
            let place = (time, message.space());
            let is_late = self.last.is_some_and(|last| place < last);
            if is_late {
                // From its time on, the books are others.
                self.begin()?;
                return Ok(Pass::More);
            }
            let is_next_time = self.last.is_none_or(|(last, _)| last < time);
            if is_next_time && is_due(self.every, self.round, self.seen, time) {
                self.round = Some((self.seen, time));
                let changed = std::mem::take(&mut self.changed);
                if self.existing.is_none_or(|existing| existing < time) {
                    let mark =
                        Mark { source: &self.source, sequences: &self.sequences, seen: self.seen, time };
                    self.changed = self.output.write(&self.replay, &changed, &mark)?;
                }
            }
            if self.replay.apply(&message)? {
                self.changed.insert(message.symbol_id());
            }
            (self.last, self.seen) = (Some(place), self.seen + 1);
        }
        Ok(Pass::More)
    }

    /// Waits for new messages.
    ///
    /// # Errors
    /// The engine's.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), BookError> {
        Ok(self.cursor.wait(timeout)?)
    }

    /// Messages of the stream that were applied.
    pub fn messages(&self) -> u64 {
        self.seen
    }

    /// Checkpoints of symbols that were written.
    pub fn written(&self) -> u64 {
        self.output.written
    }

    /// Begins at the begin of history.
    fn begin(&mut self) -> Result<(), BookError> {
        self.output.loader.flush()?;
        self.existing = last_that_fits(&self.output.checkpoints, &self.source)?;
        self.replay = BookReplay::new(&self.source)?;
        self.changed.clear();
        self.sequences = self.source.next_sequences()?;
        self.cursor = self.source.cursor().live().open()?;
        (self.seen, self.last, self.round) = (0, None, None);
        Ok(())
    }
}

/// The moment of a round of checkpoints.
struct Mark<'a> {
    source: &'a Stream,
    sequences: &'a [u64],
    seen: u64,
    time: Timestamp,
}

impl Output {
    /// Writes the books of these symbols; returns those that cannot be stored now.
    fn write(
        &mut self,
        replay: &BookReplay,
        symbols: &BTreeSet<u32>,
        mark: &Mark<'_>,
    ) -> Result<BTreeSet<u32>, BookError> {
        let mut names = Vec::new();
        let mut left = BTreeSet::new();
        for &symbol in symbols {
            let Some(books) = replay.books().symbol(symbol) else { continue };
            let Some(parts) = books.checkpoint() else {
                left.insert(symbol);
                continue;
            };
            if names.is_empty() {
                names = mark.source.symbols();
            }
            let Some(name) = names.get(symbol as usize) else { continue };
            for mut part in parts {
                part.source_symbol = Some(symbol);
                part.source_created = mark.source.created();
                part.source_messages = mark.seen;
                part.source_sequences = mark.sequences.into();
                self.loader.append(name, mark.time, &part)?;
            }
            self.written += 1;
        }
        self.loader.flush()?;
        Ok(left)
    }
}

/// Whether checkpoints are due before a message of this time.
fn is_due(every: Every, round: Option<(u64, Timestamp)>, seen: u64, time: Timestamp) -> bool {
    match (every, round) {
        (Every::Messages(messages), round) => seen - round.map_or(0, |(seen, _)| seen) >= messages.max(1),
        (Every::Time(_), None) => true,
        (Every::Time(length), Some((_, last))) => {
            u128::from(time.nanos().abs_diff(last.nanos())) >= length.as_nanos()
        }
    }
}

/// Time of the last checkpoint that fits the source. Those after it are deleted: nothing will make them fit again.
fn last_that_fits(checkpoints: &Stream, source: &Stream) -> Result<Option<Timestamp>, BookError> {
    let mut cursor = checkpoints.cursor().types([BookCheckpoint::NAME]).reverse().open()?;
    let (mut found, mut tried) = (None, None);
    while let Some(message) = cursor.next()? {
        let time = message.time();
        if tried == Some(time) {
            continue;
        }
        if checkpoints::fits(source, &message.decode()?, time) {
            found = Some(time);
            break;
        }
        tried = Some(time);
    }
    if tried.is_some() {
        let from = found.map_or(i64::MIN, |time| time.nanos().saturating_add(1));
        checkpoints.delete(Timestamp(from)..Timestamp(i64::MAX), None::<[&str; 0]>)?;
    }
    Ok(found)
}
