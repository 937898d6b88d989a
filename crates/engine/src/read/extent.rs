//! How many messages a cursor would return, and from when to when they are, without reading them.

use crate::error::{Error, Invalid};
use crate::read::chunks::Chunks;
use crate::read::cursor_builder::CursorBuilder;
use std::collections::BTreeSet;
use tapedb_schema::Timestamp;

impl CursorBuilder {
    /// Number of messages that the cursor returns, counted from the heads of blocks where all of their messages count, and from
    /// their lists of symbols where [`CursorBuilder::symbols`] selects some: so that little is read of sealed history. Blocks that
    /// times or deletions cut, and the log, are read. All is as of one moment.
    ///
    /// ```
    /// # use tapedb_engine::Database;
    /// # use tapedb_schema::Timestamp;
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("db"))?;
    /// # let stream = db.create_stream("bars", "message Bar { close: f64 }".parse()?, Default::default())?;
    /// let mut loader = stream.loader()?;
    /// for (symbol, time) in [("A", 1), ("B", 5), ("A", 9)] {
    ///     loader.append_body(symbol, Timestamp(time), 0, &[0; 8])?;
    /// }
    /// loader.close()?;
    /// assert_eq!(stream.cursor().count()?, 3);
    /// assert_eq!(stream.cursor().symbols(["A"]).count()?, 2);
    /// assert_eq!(stream.cursor().from(Timestamp(2)).time_range()?, Some((Timestamp(5), Timestamp(9))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`CursorBuilder::open`]; damage among what is counted; [`Invalid::Cursor`](crate::Invalid::Cursor) for a cursor that is
    /// live, or does not return history from its beginning.
    pub fn count(self) -> Result<u64, Error> {
        self.check_history("counted")?;
        let mut sources = Vec::new();
        for stream in self.streams() {
            let types = self.message_types_of(stream);
            for name in types {
                let cursor = self.clone().of_stream(stream.clone());
                sources.extend(cursor.columns(&name, Vec::<String>::new()).sources()?);
            }
        }
        Chunks::new(sources).count()
    }

    /// Times of the earliest and of the latest message that the cursor returns; `None`: it returns none. Of history only what is
    /// at both ends is read, whatever its length; damage there is left out, which reading reports.
    ///
    /// # Errors
    /// As [`CursorBuilder::count`], but for damage.
    pub fn time_range(self) -> Result<Option<(Timestamp, Timestamp)>, Error> {
        self.check_history("bounded by times")?;
        let Some(first) = self.clone().first_time()? else { return Ok(None) };
        // Both are read, one after the other: what was the last message may have been deleted in between.
        let last = self.reverse().first_time()?.unwrap_or(first);
        Ok(Some((first.min(last), last.max(first))))
    }

    /// Time of the first message that the cursor returns.
    fn first_time(self) -> Result<Option<Timestamp>, Error> {
        let mut cursor = self.open()?;
        loop {
            match cursor.next() {
                Err(error) if error.is_reported_once() => {}
                found => return Ok(found?.map(|message| message.time())),
            }
        }
    }

    fn check_history(&self, what: &str) -> Result<(), Error> {
        if self.is_live() {
            let what = format!("messages of a live cursor cannot be {what}: it has no end");
            return Err(Error::Invalid(Invalid::Cursor { what }));
        }
        self.check_by_symbol()
    }

    /// The wanted message types that a stream has.
    fn message_types_of(&self, stream: &crate::stream::reader::StreamReader) -> BTreeSet<String> {
        let filter = self.filter_of(stream);
        let numbered = (0..).zip(stream.layouts.records());
        let wanted = numbered.filter(|(id, record)| record.message && filter.wants_type(*id));
        wanted.map(|(_, record)| record.name.to_string()).collect()
    }
}
