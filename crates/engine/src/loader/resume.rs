//! Loaders that resume where their source is: each message of the source is stored once, whatever was interrupted.
//!
//! A source numbers its messages: rows of a file or of a request, offsets of a queue. Batches carry the source and the position after their
//! last message, as those of remote loaders carry producer and number, and the log has the last one of each
//! ([log.md](../../../../docs/format/log.md#producers)). So what is stored and how far the source was read are one write, and there is
//! nothing beside the stream that could disagree with it.

use super::{Loader, To};
use crate::error::{Error, Invalid};
use tapedb_codec::batch;
use tapedb_log::{LogError, REQUEST};

/// Where a loader is in its source.
#[derive(Debug)]
pub(super) struct Resumed {
    source: u64,
    /// [`REQUEST`], or nothing.
    kind: u64,
    /// Messages before this position are stored.
    stored: u64,
    /// Position of the first message of the batch that is being filled.
    next: u64,
}

impl Resumed {
    /// Writes the source, and the position after its last message, into a batch of the next `count` messages.
    pub(super) fn assign(&mut self, batch: &mut [u8], count: usize) -> Result<(), LogError> {
        self.next += count as u64;
        batch::assign_producer(batch, self.source, self.next | self.kind).map_err(LogError::Batch)
    }
}

impl Loader {
    /// From now on, messages are those of a source that numbers them from 0, by any number but 0 that stands for it in this stream's space. Returns
    /// the position of the first message that is not stored: the source continues there, with [`Loader::set_position`]. Messages before it are
    /// passed over when they are appended all the same, so a source may begin with its first one again.
    ///
    /// Only one loader at a time may write messages of a source. A stream has the positions of the 65,536 sources and remote loaders that
    /// appended last. Positions are as durable as messages.
    ///
    /// ```
    /// use tapedb_codec::{Record, SchemaBuilder};
    /// use tapedb_engine::Database;
    /// use tapedb_schema::Timestamp;
    ///
    /// #[derive(Record, Debug, Default)]
    /// #[record(message)]
    /// struct Quote {
    ///     bid: f64,
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let db = Database::open(directory.path().join("db"))?;
    /// let stream = db.create_stream("quotes", SchemaBuilder::new().with::<Quote>().finish(), Default::default())?;
    /// let lines = [10.5, 10.25, 10.75];
    /// for known in [2, 3] {
    ///     // The second time the file is longer.
    ///     let mut loader = stream.loader()?;
    ///     let from = loader.resume(17)?;
    ///     assert_eq!(from, if known == 2 { 0 } else { 2 });
    ///     for (line, bid) in lines[..known].iter().enumerate() {
    ///         loader.append("A", Timestamp(line as i64), &Quote { bid: *bid })?;
    ///     }
    ///     loader.close()?;
    /// }
    /// assert_eq!(stream.stats().unwrap().next_sequence, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid::Position`]: the source is 0, the loader has messages that wait, or the database is behind a server.
    pub fn resume(&mut self, source: u64) -> Result<u64, Error> {
        self.resume_kind(source, 0)
    }

    /// [`Loader::resume`] for a request: a source that is at an end when it is stored, and is only sent again when its answer was lost. A stream
    /// has the positions of the newest 65,536 of them, which push out no others.
    ///
    /// # Errors
    /// As [`Loader::resume`].
    pub fn resume_request(&mut self, request: u64) -> Result<u64, Error> {
        self.resume_kind(request, REQUEST)
    }

    /// The position of the next message that is appended; 0 for a loader that has no source.
    pub fn position(&self) -> u64 {
        self.resumed.as_ref().map_or(0, |resumed| resumed.next + self.batch.len() as u64)
    }

    /// The next message that is appended has this position: sources may have holes.
    ///
    /// # Errors
    /// [`Invalid::Position`]: the loader has no source, or has messages of later positions that wait; or the position is 2^63 or more.
    pub fn set_position(&mut self, position: u64) -> Result<(), Error> {
        let waiting = self.batch.len() as u64;
        let (before, may_go_back) = (self.position(), self.unsent() == 0);
        let Some(resumed) = &mut self.resumed else {
            return Err(invalid("the loader has no source: call resume first"));
        };
        if position >= REQUEST {
            return Err(invalid("a position is below 2^63"));
        }
        if position < before && !may_go_back {
            return Err(invalid("messages of later positions wait; flush them first"));
        }
        resumed.next = position.saturating_sub(waiting);
        Ok(())
    }

    fn resume_kind(&mut self, source: u64, kind: u64) -> Result<u64, Error> {
        if source == 0 {
            return Err(invalid("0 is no source"));
        }
        if self.unsent() > 0 {
            return Err(invalid("messages wait in the loader; flush them first"));
        }
        if matches!(self.to, To::Server { .. }) {
            return Err(invalid(
                "sources are resumed where the database is open; through a server, loaders resend by themselves",
            ));
        }
        let stored = self.stored_of(source, kind);
        self.resumed = Some(Resumed { source, kind, stored, next: 0 });
        Ok(stored)
    }

    fn stored_of(&self, source: u64, kind: u64) -> u64 {
        let To::Log { space, .. } = &self.to else { return 0 };
        let last = match kind {
            REQUEST => space.writer.last_of_request(source),
            _ => space.writer.last_of(source),
        };
        last.map_or(0, |(number, _)| number & !REQUEST)
    }

    /// How many of the next `rows` messages are stored already.
    #[inline]
    pub(super) fn stored_ahead(&self, rows: usize) -> usize {
        match &self.resumed {
            None => 0,
            Some(resumed) => resumed.stored.saturating_sub(self.position()).min(rows as u64) as usize,
        }
    }

    /// The next `rows` messages are stored already.
    pub(super) fn pass_over(&mut self, rows: usize) {
        if let Some(resumed) = &mut self.resumed {
            resumed.next += rows as u64;
        }
    }

    /// The next message has the position `position` again.
    pub(super) fn return_to(&mut self, position: u64) {
        let waiting = self.batch.len() as u64;
        if let Some(resumed) = &mut self.resumed {
            resumed.next = position.saturating_sub(waiting);
        }
    }

    /// Messages that waited were dropped: the next one continues behind what is stored.
    pub(super) fn forget_positions(&mut self) {
        let stored = self.resumed.as_ref().map(|resumed| self.stored_of(resumed.source, resumed.kind));
        if let (Some(resumed), Some(stored)) = (&mut self.resumed, stored) {
            resumed.next = stored;
            resumed.stored = stored;
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::Invalid(Invalid::Position { what: what.into() })
}
