//! A server of a cluster.

use super::answer::{Answer, AnswerRows, named};
use crate::error::Error;
use crate::options::Options;
use crate::parameters::Parameters;
use datafusion::arrow::datatypes::SchemaRef;
use std::fmt::Debug;
use tapedb_engine::Database;

/// One of the servers.
#[derive(Debug)]
pub(crate) struct Member {
    pub name: String,
    pub place: Box<dyn Place>,
    /// Names of all streams, whether the user may read them or not; `None`: those of the database.
    pub streams: Option<Vec<String>>,
}

/// Where a server is: behind a connection, or in this process.
pub(crate) trait Place: Debug + Send + Sync {
    /// The database.
    fn database(&self) -> &Database;

    /// Begins a query; returns its columns and its rows.
    ///
    /// # Errors
    /// Those of the query; when the server cannot be reached, or runs no queries.
    fn begin(
        &self,
        text: &str,
        parameters: &Parameters,
        options: &Options,
    ) -> Result<(SchemaRef, Box<dyn AnswerRows>), Error>;
}

impl Member {
    /// The database.
    pub fn database(&self) -> &Database {
        self.place.database()
    }

    /// Names of its streams.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn streams(&self) -> Result<Vec<String>, Error> {
        match &self.streams {
            Some(streams) => Ok(streams.clone()),
            None => self.database().streams().map_err(|error| self.failed(error)),
        }
    }

    /// An error of the server, with its name.
    pub fn failed(&self, error: impl Into<Error>) -> Error {
        named(&self.name, error.into())
    }

    /// Begins a query of the server's own; returns its columns and its rows.
    ///
    /// # Errors
    /// As [`Place::begin`].
    pub fn begin(
        &self,
        text: &str,
        parameters: &Parameters,
        options: &Options,
    ) -> Result<(SchemaRef, Answer), Error> {
        let (schema, rows) =
            self.place.begin(text, parameters, options).map_err(|error| self.failed(error))?;
        Ok((schema, Answer::new(&self.name, rows)))
    }
}
