//! Chunks of rows in the order of a cursor, and of what arrives live.
//!
//! Runs of rows come from the cursor's blocks: where a block of a segment has columns, the values of a run are gathered from them
//! without becoming rows, and otherwise the bodies of rows become columns together. So a chunk has exactly the cursor's
//! messages, in the cursor's order.

use crate::error::Error;
use crate::interrupt;
use crate::read::chunks::ColumnSource;
use crate::read::cursor::{Cursor, NextRun};
use crate::read::filled::{CHUNK_BYTES, Filled};
use crate::read::position::Position;
use std::collections::VecDeque;
use std::sync::Arc;

/// A cursor, read as columns.
#[derive(Debug)]
pub(crate) struct InOrder {
    pub cursor: Cursor,
    /// Whether the cursor's current message is in no chunk yet.
    is_held: bool,
    /// Maximum of rows of a chunk.
    rows_max: usize,
    /// Messages that may still be returned.
    left: u64,
    /// The source whose plan applies to the bodies that wait.
    waiting_of: usize,
    errors: VecDeque<Error>,
}

/// The state of a chunk that has been filled as far as there are messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The next message does not go into it.
    Full,
    /// More messages, if they arrive, go into it.
    Open,
}

impl InOrder {
    /// Reads the messages of a cursor of which nothing has been read. The sources are those of the cursor.
    pub fn new(mut cursor: Cursor, sources: &[ColumnSource], rows_max: usize, left: u64) -> Self {
        cursor.want_columns(|source| sources[source].fields.clone());
        Self { cursor, is_held: false, rows_max, left, waiting_of: 0, errors: VecDeque::new() }
    }

    /// The position after the last message of the chunk being filled.
    pub fn position(&self) -> Position {
        if self.is_held { self.cursor.position_before() } else { self.cursor.position() }
    }

    /// Whether no message is left, whatever arrives.
    pub fn is_at_end(&self) -> bool {
        self.left == 0 || !self.cursor.follows()
    }

    /// Appends the messages that there are to a chunk, as far as they go into it.
    ///
    /// # Errors
    /// As [`Cursor::next`]. Those that occur when the chunk has rows are returned by the next call for an empty one.
    pub fn fill(&mut self, sources: &[ColumnSource], out: &mut Filled) -> Result<Progress, Error> {
        let filled = self.append(sources, out);
        if let Some(source) = sources.get(self.waiting_of) {
            out.flush(source);
        }
        match filled {
            Err(error) if out.len() > 0 => {
                // The next call reads what this one was about to read when it was interrupted.
                if error.is_reported_once() || !interrupt::is_interrupted() {
                    self.errors.push_front(error);
                }
                Ok(Progress::Full)
            }
            filled => filled,
        }
    }

    fn append(&mut self, sources: &[ColumnSource], out: &mut Filled) -> Result<Progress, Error> {
        loop {
            if let Some(error) = self.errors.pop_front() {
                return Err(error);
            }
            let left = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.rows_max - out.len());
            if left == 0 || out.bytes() >= CHUNK_BYTES {
                return Ok(Progress::Full);
            }
            let form = out.sources.last().map(|(source, _)| sources[*source].form);
            let fits = |source: usize| form.is_none_or(|form| sources[source].form == form);
            let held = std::mem::take(&mut self.is_held);
            let (index, run) = match self.cursor.next_run(held, left, fits)? {
                NextRun::None => return Ok(Progress::Open),
                NextRun::Other => {
                    self.is_held = true;
                    return Ok(Progress::Full);
                }
                NextRun::Run(source, run) => (source, run),
            };
            let source = &sources[index];
            if out.len() == 0 {
                out.begin(&source.fields);
            }
            let before = &sources[self.waiting_of];
            if out.is_waiting() && !Arc::ptr_eq(&before.plan, &source.plan) {
                out.flush(before);
            }
            self.waiting_of = index;
            match run.decoded() {
                Some(decoded) => out.append_run(decoded, &run, source),
                None => run.each(|key, symbol, body| match source.check(key.1, body) {
                    Ok(()) => {
                        out.push_key(key);
                        out.symbols.push(symbol);
                        out.push_body(body, source);
                    }
                    Err(error) => self.errors.push_back(error),
                }),
            }
            let before = out.sources.last().map_or(0, |(_, end)| *end);
            self.left -= out.len() as u64 - u64::from(before);
            out.close_source(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Database, StreamOptions};
    use tapedb_codec::{Record, SchemaBuilder};
    use tapedb_schema::Timestamp;

    #[derive(Record, Debug, Default)]
    #[record(message)]
    struct Tick {
        number: u64,
    }

    /// Times of all messages that there are, and how many runs they came in.
    fn runs(cursor: &mut Cursor) -> (Vec<i64>, usize) {
        let (mut times, mut count) = (Vec::new(), 0);
        loop {
            match cursor.next_run(false, usize::MAX, |_| true).unwrap() {
                NextRun::Run(_, rows) => rows.each(|key, _, _| times.push(key.0)),
                _ => return (times, count),
            }
            count += 1;
        }
    }

    /// Two live streams in turns of 100 messages, from the log and from segments: what falls behind comes in runs.
    #[test]
    fn what_waits_live_comes_in_runs_of_many_rows() {
        for is_sealed in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
            let schema = SchemaBuilder::new().with::<Tick>().finish();
            let names = ["a", "b"];
            let streams =
                names.map(|name| db.create_stream(name, schema.clone(), StreamOptions::default()).unwrap());
            let mut both = db.cursor(names).unwrap().skip_history().open().unwrap();
            let mut one = streams[0].cursor().skip_history().open().unwrap();
            for turn in 0..20 {
                let mut loader = streams[turn as usize % 2].loader().unwrap();
                for number in turn * 100..turn * 100 + 100 {
                    loader.append("A", Timestamp(number), &Tick { number: number as u64 }).unwrap();
                }
                loader.close().unwrap();
            }
            if is_sealed {
                assert!(streams.iter().all(|stream| stream.seal().unwrap() > 0));
            }
            let (times, count) = runs(&mut both);
            assert!(times.iter().copied().eq(0..2_000), "in order of time, as long as both have messages");
            // The last turn is of a stream while the other one is checked for new messages every 64.
            assert!(count <= 24, "{count}");
            let (times, count) = runs(&mut one);
            assert!(times.len() == 1_000 && count <= 10, "{count}");
            // What comes then follows.
            let mut loader = streams[1].loader().unwrap();
            (0..5).for_each(|number| loader.append("B", Timestamp(number), &Tick::default()).unwrap());
            loader.close().unwrap();
            assert_eq!(runs(&mut both).0, [0, 1, 2, 3, 4]);
        }
    }
}
