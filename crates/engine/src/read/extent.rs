//! How many messages a cursor would return, from when to when they are, and where they can be divided, without reading them.

use crate::error::{Error, Invalid};
use crate::read::chunks::Chunks;
use crate::read::cursor_builder::CursorBuilder;
use crate::space::reader::SpaceReader;
use crate::stream::reader::StreamReader;
use std::collections::BTreeSet;
use std::sync::Arc;
use tapedb_schema::Timestamp;

/// How often what catalogs state is counted, where they change in between.
const STATED_ATTEMPTS: usize = 3;

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
        self.counted(false)
    }

    /// [`CursorBuilder::count`], but segments and blocks of which all messages count are not read: their numbers are what catalogs and
    /// indexes state, so that damage in them is not found. Where symbols or record types are selected, it is the same.
    ///
    /// # Errors
    /// As [`CursorBuilder::count`], but for that damage.
    pub fn stated_count(self) -> Result<u64, Error> {
        let is_all = self.selects_all();
        self.counted(is_all)
    }

    fn counted(self, is_stated: bool) -> Result<u64, Error> {
        self.check_history("counted")?;
        let mut attempts = 0;
        loop {
            let mut sources = Vec::new();
            for (index, stream) in self.streams().iter().enumerate() {
                let types = self.message_types_of(stream);
                for name in types {
                    let cursor = self.clone().of_stream(index);
                    sources.extend(cursor.columns(&name, Vec::<String>::new()).sources()?);
                }
            }
            // While catalogs change all the time, each record type is counted by itself.
            if let Some(count) = Chunks::count(sources, is_stated && attempts < STATED_ATTEMPTS)? {
                return Ok(count);
            }
            attempts += 1;
        }
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

    /// Times that divide the messages of the cursor into up to `parts` ranges of about equal size, ascending: the first range ends
    /// before the first time, and the last one begins at the last time. Symbols and record types do not count. As catalogs and
    /// indexes state it: the heads of large segments are read, and no message.
    ///
    /// Where a range of blocks has one time only, there are fewer parts. Times of blocks overlap where messages are late, so parts are
    /// about equal, not exactly.
    ///
    /// ```
    /// # use tapedb_engine::Database;
    /// # use tapedb_schema::Timestamp;
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Database::open(directory.path().join("db"))?;
    /// # let stream = db.create_stream("bars", "message Bar { close: f64 }".parse()?, Default::default())?;
    /// let mut loader = stream.loader()?;
    /// for time in 0..200_000 {
    ///     loader.append_body("A", Timestamp(time), 0, &[0; 8])?;
    /// }
    /// loader.close()?;
    /// let times = stream.cursor().division(2)?;
    /// assert_eq!(times.len(), 1);
    /// let [before, from] = [stream.cursor().to(times[0]), stream.cursor().from(times[0])];
    /// assert_eq!(before.count()? + from.count()?, 200_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`CursorBuilder::count`], but for damage.
    pub fn division(self, parts: usize) -> Result<Vec<Timestamp>, Error> {
        Ok(cuts(self.pieces(parts)?, parts))
    }

    /// About how many messages the cursor returns: symbols, record types and deletions do not count. As catalogs and indexes state it;
    /// no message is read.
    ///
    /// # Errors
    /// As [`CursorBuilder::division`].
    pub fn stated_messages(self) -> Result<u64, Error> {
        Ok(self.pieces(1)?.iter().map(|(_, messages)| messages).sum())
    }

    /// First times of what the cursor reads, and the numbers of messages.
    fn pieces(self, parts: usize) -> Result<Vec<(i64, u64)>, Error> {
        self.check_history("divided")?;
        let mut pieces = Vec::new();
        let mut space_index = 0;
        for stream in self.streams() {
            stream.check_is_here()?;
            stream.refresh()?;
            let filter = self.filter_of(stream);
            for space in &stream.spaces {
                let wants = |(time_min, time_max)| filter.wants_times(time_min, time_max);
                pieces.extend(pieces_of(stream, space, self.end_of(space_index), parts, wants)?);
                space_index += 1;
            }
        }
        Ok(pieces)
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
    fn message_types_of(&self, stream: &StreamReader) -> BTreeSet<String> {
        let filter = self.filter_of(stream);
        let numbered = (0..).zip(stream.layouts.records());
        let wanted = numbered.filter(|(id, record)| record.message && filter.wants_type(*id));
        wanted.map(|(_, record)| record.name.to_string()).collect()
    }
}

/// Segments are looked at block by block where they have more messages than this fraction of a part.
const PART_FRACTION: u64 = 16;

/// First times of what a space has before message `end` that the cursor wants, and their numbers of messages.
fn pieces_of(
    stream: &StreamReader,
    space: &Arc<SpaceReader>,
    end: u64,
    parts: usize,
    wants: impl Fn((i64, i64)) -> bool,
) -> Result<Vec<(i64, u64)>, Error> {
    let (catalog, snapshot) = space.view();
    let large = catalog.messages() / (parts as u64).saturating_mul(PART_FRACTION).max(1);
    let mut pieces = Vec::new();
    for part in catalog.parts_between(0..end) {
        let Some(content) = &part.content else { continue };
        if !wants((content.time_min, content.time_max)) {
            continue;
        }
        // A segment that has just been replaced or is damaged counts as a whole: this is about sizes.
        let open = || space.open_segment(part, stream.schema_files()).ok().flatten();
        match if content.messages > large { open() } else { None } {
            Some(segment) => {
                let blocks = segment.segment.blocks().iter();
                let wanted = blocks.filter(|block| wants((block.time_min, block.time_max)));
                pieces.extend(wanted.map(|block| (block.time_min, u64::from(block.count))));
            }
            None => pieces.push((content.time_min, content.messages)),
        }
    }
    let in_log = snapshot.iter().filter(|granule| granule.next_sequence() > catalog.sealed);
    let wanted =
        in_log.filter(|granule| granule.first_sequence < end && wants((granule.time_min, granule.time_max)));
    pieces.extend(wanted.map(|granule| (granule.time_min, granule.count)));
    Ok(pieces)
}

/// Times at which pieces are divided into parts of about equal size.
fn cuts(mut pieces: Vec<(i64, u64)>, parts: usize) -> Vec<Timestamp> {
    pieces.sort_unstable();
    let total: u64 = pieces.iter().map(|(_, messages)| messages).sum();
    let (mut cuts, mut before) = (Vec::new(), 0u64);
    let first = pieces.first().map_or(i64::MAX, |(time, _)| *time);
    for (time, messages) in &pieces {
        // A piece whose middle is behind the wanted number begins the next part.
        let wanted = (cuts.len() as u64 + 1).saturating_mul(total) / parts.max(1) as u64;
        let is_new = cuts.last().map_or(first, |last: &Timestamp| last.0) < *time;
        if cuts.len() + 1 < parts && is_new && before + messages / 2 >= wanted {
            cuts.push(Timestamp(*time));
        }
        before += messages;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_divided_evenly() {
        let times = |pieces: &[(i64, u64)], parts| {
            cuts(pieces.to_vec(), parts).into_iter().map(|time| time.0).collect::<Vec<_>>()
        };
        let even: Vec<_> = (0..8).map(|time| (time * 10, 100)).collect();
        assert_eq!(times(&even, 2), [40]);
        assert_eq!(times(&even, 4), [20, 40, 60]);
        assert_eq!(times(&even, 1), [0; 0]);
        assert_eq!(times(&even, 0), [0; 0]);
        assert_eq!(times(&even, 100).len(), 7);
        assert_eq!(times(&[], 4), [0; 0]);
        assert_eq!(times(&[(5, 1_000); 3], 2), [0; 0], "one time cannot be divided");
        assert_eq!(times(&[(0, 900), (10, 50), (20, 50)], 2), [10]);
        assert_eq!(times(&[(0, u64::MAX / 4), (10, u64::MAX / 4)], 4), [10]);
    }
}
