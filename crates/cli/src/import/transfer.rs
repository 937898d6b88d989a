//! Moves messages from files into a stream; going on with an import that was cut short, it first proves that what the
//! stream has is what the files say.

use super::ledger::Import;
use crate::failure::Failure;
use tapedb_codec::encode;
use tapedb_engine::{Cursor, Loader, Position, Stream};
use tapedb_market::Package;
use tapedb_schema::Timestamp;

/// Writes into the stream what is not there yet.
///
/// Always true: all messages taken so far are in the stream or in the loader, from `first_sequence` on without a gap.
pub struct Transfer {
    loader: Loader,
    /// What the import wrote before it was cut short, in order of arrival; `None` when all of it has been seen.
    written: Option<Cursor>,
    body: Vec<u8>,
    /// Messages that were there already.
    pub found: u64,
    /// Messages appended.
    pub appended: u64,
}

impl Transfer {
    /// Into a stream, from its end on or behind what `resumed` has written.
    pub fn new(stream: &Stream, resumed: Option<&Import>) -> Result<Self, Failure> {
        let written = resumed.map(|import| written(stream, import)).transpose()?;
        Ok(Self { loader: stream.loader()?, written, body: Vec::new(), found: 0, appended: 0 })
    }

    /// Takes the next message of the files.
    pub fn take(&mut self, symbol: &str, time: Timestamp, package: &Package) -> Result<(), Failure> {
        if self.written.is_some() && self.is_there(symbol, time, package)? {
            self.found += 1;
            return Ok(());
        }
        self.loader.append(symbol, time, package)?;
        self.appended += 1;
        Ok(())
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
        match self.written.as_mut().map(Cursor::next).transpose()?.flatten() {
            Some(_) => Err(self.other_content()),
            None => Ok(()),
        }
    }

    /// Keeps what has been taken, when the import ends early.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.loader.flush()?;
        Ok(())
    }

    fn is_there(&mut self, symbol: &str, time: Timestamp, package: &Package) -> Result<bool, Failure> {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        encode(package, &mut body);
        let is_there = self.has_body(symbol, time, &body);
        self.body = body;
        is_there
    }

    /// Whether the next message of the stream is this one; `false` at the end of the stream.
    fn has_body(&mut self, symbol: &str, time: Timestamp, body: &[u8]) -> Result<bool, Failure> {
        let Some(cursor) = &mut self.written else { return Ok(false) };
        let Some(message) = cursor.next()? else {
            self.written = None;
            return Ok(false);
        };
        let same = message.time() == time && message.symbol() == symbol && message.body() == body;
        if same { Ok(true) } else { Err(self.other_content()) }
    }

    fn other_content(&self) -> Failure {
        Failure::new(format!(
            "cannot go on with the import that was cut short: after its first {} messages the stream has others than \
             the files; delete the stream and import again, or leave it as it is with --again import",
            self.found
        ))
    }
}

fn written(stream: &Stream, import: &Import) -> Result<Cursor, Failure> {
    let position: Position = format!("live {} {}\n", import.first_sequence, stream.name()).parse()?;
    Ok(stream.cursor().live().resume(&position).open()?)
}
