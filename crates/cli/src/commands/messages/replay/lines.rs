//! Messages of a replay as lines on standard output.

use crate::output::{Damage, Output, Writer};
use tapedb_engine::Message;
use tapedb_replay::{Delivery, ReplayError, Sink};
use tapedb_terminal::{Failure, Ui};

/// Lines on standard output.
pub struct Lines {
    writer: Writer,
    out: Output,
    /// Why standard output takes no more.
    pub failure: Option<Failure>,
}

impl Lines {
    /// The lines before the first message wait to be written.
    pub fn new(writer: Writer) -> Self {
        let mut out = Output::default();
        writer.header(&mut out.buffer);
        Self { writer, out, failure: None }
    }

    fn noted(&mut self, result: Result<(), Failure>) -> Result<(), ReplayError> {
        result.map_err(|failure| {
            self.failure = Some(failure);
            ReplayError::Sink("standard output takes no more".into())
        })
    }
}

impl Sink for Lines {
    fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError> {
        self.writer.write(message, &mut self.out.buffer)?;
        let drained = self.out.drain();
        self.noted(drained)?;
        Ok(Delivery::Taken)
    }

    fn send(&mut self) -> Result<(), ReplayError> {
        let flushed = self.out.flush();
        self.noted(flushed)
    }
}

/// A sink that goes on after damage, and notes it.
pub struct Noting<'a, S> {
    /// Takes the messages.
    pub sink: S,
    /// What could not be read.
    pub damage: Damage,
    ui: &'a Ui,
}

impl<'a, S> Noting<'a, S> {
    /// A sink that has seen no damage.
    pub fn new(sink: S, ui: &'a Ui) -> Self {
        Self { sink, damage: Damage::default(), ui }
    }
}

impl<S: Sink> Sink for Noting<'_, S> {
    fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError> {
        self.sink.deliver(message)
    }

    fn send(&mut self) -> Result<(), ReplayError> {
        self.sink.send()
    }

    fn flush(&mut self) -> Result<(), ReplayError> {
        self.sink.flush()
    }

    fn unreadable(&mut self, error: tapedb_engine::Error) -> Result<(), ReplayError> {
        self.damage.note(&error, self.ui).map_err(|failure| ReplayError::Sink(failure.to_string().into()))
    }
}
