//! Moves messages from files into a stream. When an interrupted import is resumed, it first checks that the messages of the stream
//! equal those of the files.

use super::home::Home;
use super::ledger::Import;
use std::time::Duration;
use tapedb_codec::{Record, encode};
use tapedb_engine::{Cursor, Loader, Position, Stream};
use tapedb_market::Package;
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Maximum time to wait for a message that a server has.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes messages into the stream that it does not have yet.
///
/// Invariant: all messages taken so far are in the stream or in the loader, from `first_sequence` on without a gap.
pub struct Transfer {
    stream: Stream,
    loader: Loader,
    /// Messages that the interrupted import wrote; `None` when all have been compared.
    written: Option<Written>,
    body: Vec<u8>,
    /// Messages that the stream already had.
    pub found: u64,
    /// Messages appended.
    pub appended: u64,
}

/// Stores the messages taken when an import ends early; returns the failure to report.
pub fn stop(failure: Failure, transfer: &mut Transfer, ui: &Ui) -> Failure {
    if let Err(failure) = transfer.flush() {
        return failure;
    }
    if matches!(failure, Failure::Interrupted { .. }) {
        let messages = transfer.found + transfer.appended;
        ui.note(&format!("{messages} messages imported; import the same files again to continue"));
    }
    failure
}

/// Messages of the stream at the start, in order of arrival.
struct Written {
    cursor: Cursor,
    /// Sequence number after the last of them.
    end: u64,
    /// How long to wait for one: zero if the files are local.
    patience: Duration,
}

impl Transfer {
    /// A transfer to the end of a stream, after the messages that `resumed` has written.
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

    /// Takes the next message of the files; returns its kind if the stream does not have its record type.
    pub fn take<T: Record + 'static>(
        &mut self,
        symbol: &str,
        time: Timestamp,
        record: &T,
    ) -> Result<Option<String>, Failure> {
        if T::NAME != Package::NAME && !self.has_type::<T>() {
            return Ok(Some(format!("{}, a record type that the stream does not have", T::NAME)));
        }
        if self.written.is_some() && self.has_record(symbol, time, record)? {
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

    /// Takes the next encoded message of the files.
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

    /// Flushes all messages taken.
    ///
    /// # Errors
    /// When they cannot be written, or when the stream has more messages of the import than the files.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.loader.flush()?;
        let rest = match &mut self.written {
            Some(written) => written.cursor.next_within(written.patience)?.is_some(),
            None => false,
        };
        if rest { Err(self.other_content()) } else { Ok(()) }
    }

    /// Stores the messages taken when the import ends early.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.loader.flush()?;
        Ok(())
    }

    fn has_record<T: Record>(&mut self, symbol: &str, time: Timestamp, record: &T) -> Result<bool, Failure> {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        encode(record, &mut body);
        let has_body = self.has_body(symbol, time, &body);
        self.body = body;
        has_body
    }

    /// Whether the next message of the stream equals this one; `false` after the last one.
    fn has_body(&mut self, symbol: &str, time: Timestamp, body: &[u8]) -> Result<bool, Failure> {
        let Some(written) = &mut self.written else { return Ok(false) };
        let is_local = written.patience.is_zero();
        let Some(message) = written.cursor.next_within(written.patience)? else {
            if is_local {
                self.written = None;
                return Ok(false);
            }
            let what =
                "the server does not deliver messages that the stream has; check the server, and try again";
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
            "cannot resume the interrupted import: after its first {} messages the stream differs from the files; \
             delete the stream and import again, or abandon it with --again import",
            self.found
        ))
    }
}

impl Written {
    /// The messages that an import wrote; `None` if there are none.
    fn open(stream: &Stream, import: &Import, home: &Home) -> Result<Option<Self>, Failure> {
        let end = stream.stats()?.next_sequence;
        let position: Position = format!("live {} {}\n", import.first_sequence, stream.name()).parse()?;
        let cursor = stream.cursor().live().resume(&position).open()?;
        let patience = if home.is_local { Duration::ZERO } else { PATIENCE };
        Ok((import.first_sequence < end).then_some(Self { cursor, end, patience }))
    }
}
