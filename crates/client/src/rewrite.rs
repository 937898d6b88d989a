//! A rewrite: the messages that take the place of others go to the server in batches, and then it makes the change.
//!
//! Whatever is asked may be asked again when the connection was lost before the answer came: the server knows the rewrite by
//! its number, and what it has of it.

use crate::convert;
use crate::line::{Line, mistaken};
use crate::slot::Answer;
use std::ops::Range;
use std::sync::Arc;
use tapedb_engine::{Command, Error, Outcome, Replacement, Replacing, Target};
use tapedb_wire::{Rest, ToServer};

/// A rewrite, until it is committed or dropped.
#[derive(Debug)]
pub(crate) struct RemoteRewrite {
    line: Arc<Line>,
    stream: Target,
    rewrite: u64,
    /// Number of the last batch that the server has.
    last_number: u64,
    /// The server has no more to forget.
    is_over: bool,
}

impl RemoteRewrite {
    /// Begins to rewrite.
    ///
    /// # Errors
    /// What the server says; as [`Line::link`].
    pub fn begin(line: Arc<Line>, replacement: &Replacement) -> Result<Self, Error> {
        line.repeat(&Command::BeginRewrite(replacement.clone()))?;
        let Replacement { stream, rewrite, .. } = replacement;
        Ok(Self { line, stream: stream.clone(), rewrite: *rewrite, last_number: 0, is_over: false })
    }

    fn named(&self, error: Error) -> Error {
        match error {
            Error::NoRewrite { .. } => Error::NoRewrite { stream: (*self.stream.name).into() },
            error => error,
        }
    }
}

impl Replacing for RemoteRewrite {
    fn append(&mut self, batch: &[u8]) -> Result<(), Error> {
        let (rewrite, number) = (self.rewrite, self.last_number + 1);
        let staged = self.line.ask(&ToServer::Stage { rewrite, number, batch: Rest(batch) });
        let Answer::Done(parts) = staged.map_err(|error| self.named(error))? else { return Err(mistaken()) };
        match Outcome::from_parts(&parts)? {
            Outcome::Messages(last) if last == number => self.last_number = last,
            _ => return Err(mistaken()),
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<Range<u64>, Error> {
        self.is_over = true;
        let Self { rewrite, last_number, .. } = *self;
        let command = Command::CommitRewrite { stream: self.stream.clone(), rewrite, last_number };
        let mut lost = None;
        loop {
            match (self.line.command(&command), lost.take()) {
                (Ok(Outcome::Sequences(replaced)), _) => return Ok(replaced),
                (Ok(_), _) => return Err(mistaken()),
                (Err(Error::Disconnected { why, .. }), _) => lost = Some(why),
                // It was asked before, and the server is another: nobody knows what became of it.
                (Err(Error::NoRewrite { .. } | Error::Unreachable { .. }), Some(why)) => {
                    let place = self.line.address().to_string();
                    let why = format!("{why}; the old messages or the new ones are there, whole");
                    return Err(Error::Disconnected { place, why });
                }
                (Err(error), _) => return Err(self.named(error)),
            }
        }
    }
}

impl Drop for RemoteRewrite {
    fn drop(&mut self) {
        if !self.is_over {
            let command = Command::DropRewrite { stream: self.stream.clone(), rewrite: self.rewrite };
            let command = convert::to_wire(command.to_parts());
            self.line.tell(&ToServer::Command { command });
        }
    }
}
