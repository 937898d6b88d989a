//! A rewrite: replacement messages are sent to the server in batches, and committed there.
//!
//! Every request may be repeated after a lost connection: the server identifies the rewrite by its number, and its
//! batches by theirs.

use crate::answer::Answer;
use crate::reconnector::{Reconnector, mismatched_answer};
use std::ops::Range;
use std::sync::Arc;
use tapedb_codes::{command, outcome};
use tapedb_engine::{Command, ConnectionError, Error, NotFound, Outcome, Replacement, Replacing, Target};
use tapedb_wire::{Rest, ToServer};

/// A rewrite, until it is committed or dropped.
#[derive(Debug)]
pub(crate) struct RemoteRewrite {
    reconnector: Arc<Reconnector>,
    stream: Target,
    rewrite: u64,
    /// The number of the last batch that the server has stored.
    last_number: u64,
    /// The server does not need to drop it any more.
    is_over: bool,
}

impl RemoteRewrite {
    /// Begins a rewrite.
    ///
    /// # Errors
    /// Errors of the server; as [`Reconnector::connection`].
    pub fn begin(reconnector: Arc<Reconnector>, replacement: &Replacement) -> Result<Self, Error> {
        reconnector.repeat(&Command::BeginRewrite(replacement.clone()))?;
        let Replacement { stream, rewrite, .. } = replacement;
        Ok(Self { reconnector, stream: stream.clone(), rewrite: *rewrite, last_number: 0, is_over: false })
    }

    fn named(&self, error: Error) -> Error {
        match error {
            Error::NotFound(NotFound::Rewrite { .. }) => {
                Error::NotFound(NotFound::Rewrite { stream: (*self.stream.name).into() })
            }
            error => error,
        }
    }
}

impl Replacing for RemoteRewrite {
    fn append(&mut self, batch: &[u8]) -> Result<(), Error> {
        let (rewrite, number) = (self.rewrite, self.last_number + 1);
        let staged = self.reconnector.ask(&ToServer::Stage { rewrite, number, batch: Rest(batch) });
        let Answer::Done(coded) = staged.map_err(|error| self.named(error))? else {
            return Err(mismatched_answer());
        };
        match outcome::from_coded(&coded)? {
            Outcome::Messages(last) if last == number => self.last_number = last,
            _ => return Err(mismatched_answer()),
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<Range<u64>, Error> {
        self.is_over = true;
        let Self { rewrite, last_number, .. } = *self;
        let command = Command::CommitRewrite { stream: self.stream.clone(), rewrite, last_number };
        let mut lost = None;
        loop {
            match (self.reconnector.command(&command), lost.take()) {
                (Ok(Outcome::Sequences(replaced)), _) => return Ok(replaced),
                (Ok(_), _) => return Err(mismatched_answer()),
                (Err(Error::Connection(ConnectionError::Disconnected { why, .. })), _) => lost = Some(why),
                // An earlier attempt lost its connection, and the server was restarted: the outcome is unknown.
                (
                    Err(
                        Error::NotFound(NotFound::Rewrite { .. })
                        | Error::Connection(ConnectionError::Unreachable { .. }),
                    ),
                    Some(why),
                ) => {
                    let place = self.reconnector.address().to_string().into();
                    let why = format!("{why}; the stream contains either all old or all new messages");
                    return Err(Error::Connection(ConnectionError::Disconnected { place, why }));
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
            let command = command::to_coded(&command);
            self.reconnector.notify(&ToServer::Command { command });
        }
    }
}
