//! Moves messages from files into a stream; going on with an import that was cut short, it first proves that what the
//! stream has is what the files say.

use super::home::Home;
use super::ledger::Import;
use std::time::Duration;
use tapedb_codec::{Record, encode};
use tapedb_engine::{Cursor, Loader, Position, Stream};
use tapedb_market::Package;
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;

/// A message that a server has and that has not come for so long will not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes into the stream what is not there yet.
///
/// Always true: all messages taken so far are in the stream or in the loader, from `first_sequence` on without a gap.
pub struct Transfer {
    stream: Stream,
    loader: Loader,
    /// What the import wrote before it was cut short; `None` when all of it has been seen.
    written: Option<Written>,
    body: Vec<u8>,
    /// Messages that were there already.
    pub found: u64,
    /// Messages appended.
    pub appended: u64,
}

/// Messages of the stream in order of arrival, as many as there were to begin with.
struct Written {
    cursor: Cursor,
    /// Sequence number after the last of them.
    end: u64,
    /// How long one is waited for: not at all where all are at hand.
    patience: Duration,
}

impl Transfer {
    /// Into a stream, from its end on or behind what `resumed` has written.
    pub fn new(stream: &Stream, resumed: Option<&Import>, home: &Home) -> Result<Self, Failure> {
        let written = resumed.map(|import| Written::open(stream, import, home)).transpose()?.flatten();
        Ok(Self {
            stream: stream.clone(),
            loader: stream.loader()?,
            written,
            body: Vec::new(),
            found: 0,
            appended: 0,
        })
    }

    /// Takes the next message of the files; gives its kind, if the stream has no record type for it.
    pub fn take<T: Record + 'static>(
        &mut self,
        symbol: &str,
        time: Timestamp,
        record: &T,
    ) -> Result<Option<String>, Failure> {
        if T::NAME != Package::NAME && !self.has_type::<T>() {
            return Ok(Some(format!("{}, which the stream has no record type for", T::NAME)));
        }
        if self.written.is_some() && self.is_there(symbol, time, record)? {
            self.found += 1;
            return Ok(None);
        }
        self.loader.append(symbol, time, record)?;
        self.appended += 1;
        Ok(None)
    }

    fn has_type<T: Record + 'static>(&self) -> bool {
        self.stream.type_id_of::<T>().is_ok()
    }

    /// Takes the next message of the files, encoded.
    pub fn take_body(
        &mut self,
        symbol: &str,
        time: Timestamp,
        type_id: u16,
        body: &[u8],
    ) -> Result<(), Failure> {
        if self.written.is_some() && self.has_body(symbol, time, body)? {
            self.found += 1;
            return Ok(());
        }
        self.loader.append_body(symbol, time, type_id, body)?;
        self.appended += 1;
        Ok(())
    }

    /// Acknowledges everything taken.
    ///
    /// # Errors
    /// When it cannot be written, or when the files end before what the stream has of them.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.loader.flush()?;
        let rest = match &mut self.written {
            Some(written) => written.cursor.next_within(written.patience)?.is_some(),
            None => false,
        };
        if rest { Err(self.other_content()) } else { Ok(()) }
    }

    /// Keeps what has been taken, when the import ends early.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.loader.flush()?;
        Ok(())
    }

    fn is_there<T: Record>(&mut self, symbol: &str, time: Timestamp, record: &T) -> Result<bool, Failure> {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        encode(record, &mut body);
        let is_there = self.has_body(symbol, time, &body);
        self.body = body;
        is_there
    }

    /// Whether the next message of the stream is this one; `false` behind the last one.
    fn has_body(&mut self, symbol: &str, time: Timestamp, body: &[u8]) -> Result<bool, Failure> {
        let Some(written) = &mut self.written else { return Ok(false) };
        let is_at_hand = written.patience.is_zero();
        let Some(message) = written.cursor.next_within(written.patience)? else {
            if is_at_hand {
                self.written = None;
                return Ok(false);
            }
            let what =
                "messages that the stream has do not come; look whether the server is well, and try again";
            return Err(Failure::new(what));
        };
        let is_same = message.time() == time && message.symbol() == symbol && message.body() == body;
        let is_last = message.sequence() + 1 >= written.end;
        if !is_same {
            return Err(self.other_content());
        }
        if is_last {
            self.written = None;
        }
        Ok(true)
    }

    fn other_content(&self) -> Failure {
        Failure::new(format!(
            "cannot go on with the import that was cut short: after its first {} messages the stream has others than \
             the files; delete the stream and import again, or leave it as it is with --again import",
            self.found
        ))
    }
}

impl Written {
    /// What an import wrote; `None`: nothing.
    fn open(stream: &Stream, import: &Import, home: &Home) -> Result<Option<Self>, Failure> {
        let end = stream.stats()?.next_sequence;
        let position: Position = format!("live {} {}\n", import.first_sequence, stream.name()).parse()?;
        let cursor = stream.cursor().live().resume(&position).open()?;
        let patience = if home.is_here { Duration::ZERO } else { PATIENCE };
        Ok((import.first_sequence < end).then_some(Self { cursor, end, patience }))
    }
}
