//! The book of a symbol at a time: the last checkpoint before it, and the messages since.

use crate::checkpoints;
use crate::error::BookError;
use crate::gap_list;
use crate::recent::{Passed, RecentBooks};
use crate::replay::BookReplay;
use tapedb_engine::{Database, Stream};
use tapedb_market::SymbolBooks;
use tapedb_schema::Timestamp;

/// Messages between two questions whether the book is still wanted.
const ASKED_EVERY: u64 = 1_024;

/// Where the replay of a book began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BookStart {
    /// At a checkpoint of this time.
    Checkpoint(Timestamp),
    /// At the begin of history: there is no checkpoint before.
    Beginning,
    /// At the begin of history: no checkpoint before fits the stream, whose messages were deleted, rewritten or came late.
    NoneFits,
}

/// The books of a symbol, one for each venue, at a time.
#[derive(Debug, Clone)]
pub struct BookAt {
    /// After all messages up to this time, itself included.
    pub time: Timestamp,
    /// The books.
    pub books: SymbolBooks,
    /// Where the replay began.
    pub start: BookStart,
    /// Checkpoints that were passed over because the stream has changed before them.
    pub passed_over: usize,
    /// Messages of the symbol that were replayed.
    pub messages: u64,
}

/// Which books are wanted.
#[derive(Debug, Clone, Copy)]
pub struct BookRequest<'a> {
    /// The symbol.
    pub symbol: &'a str,
    /// After all messages up to this time, itself included.
    pub time: Timestamp,
    /// Only messages below these sequence numbers, one for each space; `None`: all.
    pub ends: Option<&'a [u64]>,
}

/// Books of streams.
pub trait StreamBooks {
    /// The books of a symbol after all messages up to a time, itself included. `db` is the stream's database, in which the
    /// checkpoints are. History is read in time order, so late messages count where they belong.
    ///
    /// # Errors
    /// [`BookError::NoBooks`], the engine's.
    fn book_at(&self, db: &Database, symbol: &str, time: Timestamp) -> Result<BookAt, BookError>;

    /// [`StreamBooks::book_at`] for a program that asks again and again: replays begin with books that it has read lately, where these are
    /// nearer.
    ///
    /// # Errors
    /// As [`StreamBooks::book_at`].
    fn recent_book_at(
        &self,
        db: &Database,
        recent: &RecentBooks,
        symbol: &str,
        time: Timestamp,
    ) -> Result<BookAt, BookError>;

    /// The books that a request wants; `None`: `is_wanted`, which is called again and again, has returned `false`.
    ///
    /// # Errors
    /// As [`StreamBooks::book_at`].
    fn book_while(
        &self,
        db: &Database,
        request: &BookRequest<'_>,
        is_wanted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<BookAt>, BookError>;
}

impl StreamBooks for Stream {
    fn book_at(&self, db: &Database, symbol: &str, time: Timestamp) -> Result<BookAt, BookError> {
        book_of(self, db, &BookRequest { symbol, time, ends: None })
    }

    fn recent_book_at(
        &self,
        db: &Database,
        recent: &RecentBooks,
        symbol: &str,
        time: Timestamp,
    ) -> Result<BookAt, BookError> {
        let request = BookRequest { symbol, time, ends: None };
        Ok(replayed(self, db, (&request, Some(recent)), &mut || true)?.0)
    }

    fn book_while(
        &self,
        db: &Database,
        request: &BookRequest<'_>,
        is_wanted: &mut dyn FnMut() -> bool,
    ) -> Result<Option<BookAt>, BookError> {
        let (found, is_whole) = replayed(self, db, (request, None), is_wanted)?;
        Ok(is_whole.then_some(found))
    }
}

/// The books that a request wants.
pub(crate) fn book_of(
    stream: &Stream,
    db: &Database,
    request: &BookRequest<'_>,
) -> Result<BookAt, BookError> {
    Ok(replayed(stream, db, (request, None), &mut || true)?.0)
}

/// The books that a request wants, and whether they were wanted until the end.
fn replayed(
    stream: &Stream,
    db: &Database,
    (request, recent): (&BookRequest<'_>, Option<&RecentBooks>),
    is_wanted: &mut dyn FnMut() -> bool,
) -> Result<(BookAt, bool), BookError> {
    let BookRequest { symbol, time, ends } = *request;
    let mut replay = BookReplay::new(stream)?;
    let known = stream.symbols().iter().position(|known| known == symbol).map(|id| id as u32);
    let id = known.unwrap_or(0);
    // Before anything is read: what comes later is in no place.
    let sequences = recent.map(|_| stream.next_sequences()).transpose()?;
    let (mut found, passed_over) = match checkpoints::open(db, stream.name())? {
        Some(checkpoints) => checkpoints::find(&checkpoints, stream, (symbol, known), time, ends)?,
        None => (None, 0),
    };
    if let Some(nearer) = recent.and_then(|recent| recent.find(stream, (symbol, known?), time))
        && found.as_ref().is_none_or(|found| found.time < nearer.time)
    {
        found = Some(nearer);
    }
    let mut passed = Passed::new(found.as_ref().map_or(Timestamp(i64::MIN), |found| found.time));
    let mut cursor = checkpoints::through(stream.cursor(), time);
    if let Some(ends) = ends {
        cursor = cursor.to_sequences(ends.iter().copied());
    }
    let mut start = if passed_over > 0 { BookStart::NoneFits } else { BookStart::Beginning };
    if let Some(found) = found {
        start = BookStart::Checkpoint(found.time);
        cursor = cursor.from(found.time);
        replay.restore(id, found.books);
    }
    let gaps = gap_list::gaps_of(stream, &replay, symbol, cursor.clone())?;
    let mut gaps = gaps.into_iter().peekable();
    let (mut cursor, mut messages) = (cursor.symbols([symbol]).types(replay.types()).open()?, 0);
    let mut is_whole = is_wanted();
    while is_whole && let Some(message) = cursor.next()? {
        let at = gap_list::place_of(&message);
        while let Some(gap) = gaps.next_if(|gap| gap.place < at) {
            replay.gap(id, gap.place.0, &gap.gap);
        }
        if recent.is_some() {
            passed.message(message.time(), || replay.books().symbol(id).cloned());
        }
        replay.apply(&message)?;
        messages += 1;
        is_whole = messages % ASKED_EVERY != 0 || is_wanted();
    }
    gaps.for_each(|gap| replay.gap(id, gap.place.0, &gap.gap));
    let books = replay.books().symbol(id).cloned().unwrap_or_default();
    if let (Some(recent), Some(id), Some(sequences), true) = (recent, known, sequences, is_whole) {
        passed.keep(recent, (stream, symbol, id), (time, &books), &sequences);
    }
    Ok((BookAt { time, books, start, passed_over, messages }, is_whole))
}
