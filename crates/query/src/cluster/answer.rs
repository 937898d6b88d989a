//! What a server answers to a query.

use crate::error::Error;
use crate::next::Next;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The longest wait in one piece.
const WAIT: Duration = Duration::from_secs(1);

/// Rows of a server, as they come. Dropping it stops the work there.
pub(crate) trait AnswerRows: Debug + Send {
    /// The next batch, if it is there in time.
    ///
    /// # Errors
    /// Those of the query; errors of the connection.
    fn next_until(&mut self, until: Instant) -> Result<Next, Error>;
}

/// The rows of a server, whose errors have its name.
#[derive(Debug)]
pub(crate) struct Answer {
    server: String,
    rows: Box<dyn AnswerRows>,
}

impl Answer {
    pub fn new(server: &str, rows: Box<dyn AnswerRows>) -> Self {
        Self { server: server.into(), rows }
    }

    /// The next batch, if it is there in time.
    ///
    /// # Errors
    /// Those of the query; errors of the connection.
    pub fn next_until(&mut self, until: Instant) -> Result<Next, Error> {
        self.rows.next_until(until).map_err(|error| named(&self.server, error))
    }

    /// The next batch with rows, if it is there in time; `None`: whenever it comes.
    ///
    /// # Errors
    /// As [`Answer::next_until`].
    pub fn next_rows(&mut self, until: Option<Instant>) -> Result<Next, Error> {
        loop {
            match self.next_until(until.unwrap_or_else(|| Instant::now() + WAIT))? {
                Next::Batch(batch) if batch.num_rows() == 0 => {}
                Next::Waiting if until.is_none() => {}
                next => return Ok(next),
            }
        }
    }
}

/// An error of a server, with its name.
pub(crate) fn named(server: &str, error: Error) -> Error {
    Error::new(error.reason(), format!("server {server}: {error}"))
}
