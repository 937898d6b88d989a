//! Where messages go.

use crate::error::ReplayError;
use tapedb_engine::{Error, Message, Stream};
use tapedb_schema::Schema;

/// Whether a message was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It was.
    Taken,
    /// There is no space now: it is offered again, after the replay has obeyed the commands that wait.
    Busy,
}

/// Takes messages when they are due.
pub trait Sink {
    /// Takes one message, or none. Its body is not validated yet: a sink that does not decode it validates it ([`Message::record`]).
    ///
    /// # Errors
    /// The sink's own, and the replay ends. If the body is not valid, [`Sink::unreadable`] decides instead.
    fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError>;

    /// Sends what was taken on its way to readers. Called before each wait for the next message.
    ///
    /// # Errors
    /// The sink's own; the replay ends.
    fn send(&mut self) -> Result<(), ReplayError> {
        Ok(())
    }

    /// Returns when what was taken is where it belongs. Called at a pause and at the end.
    ///
    /// # Errors
    /// The sink's own; the replay ends.
    fn flush(&mut self) -> Result<(), ReplayError> {
        self.send()
    }

    /// Decides about messages that cannot be read: go on without them, or end with an error, which is the default.
    ///
    /// # Errors
    /// The error, if the replay is to end.
    fn unreadable(&mut self, error: Error) -> Result<(), ReplayError> {
        Err(error.into())
    }
}

/// Proves that a target can hold what the streams have.
pub(crate) fn check_types(target: &str, schema: &Schema, streams: &[Stream]) -> Result<(), ReplayError> {
    match streams.iter().find(|stream| stream.schema() != schema) {
        Some(stream) => Err(ReplayError::OtherTypes { stream: stream.name().into(), target: target.into() }),
        None => Ok(()),
    }
}
