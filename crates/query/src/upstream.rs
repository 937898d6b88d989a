//! Queries that run on the server of a remote database: what is sent to it, and rows of the bytes that it returns.

use crate::error::{Error, Reason};
use crate::next::Next;
use crate::options::Options;
use crate::parameters::Parameters;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use std::time::{Duration, Instant};
use tapedb_arrow_ipc::Pieces;
use tapedb_engine::{Database, Query, QueryRows, QueryStep};

/// How long one wait for bytes takes at most.
const WAIT: Duration = Duration::from_secs(1);

/// The rows of a query on a server, as far as they have been decoded.
#[derive(Debug)]
pub(crate) struct UpstreamRows {
    rows: Box<dyn QueryRows>,
    pieces: Pieces,
    /// A batch that is returned next.
    ahead: Option<RecordBatch>,
    is_ended: bool,
}

impl UpstreamRows {
    /// Begins a query; returns its columns and its rows. `None`: no server runs queries on the database.
    ///
    /// # Errors
    /// Those of the query; errors of the connection.
    pub fn begin(
        db: &Database,
        options: &Options,
        text: &str,
        parameters: &Parameters,
    ) -> Result<Option<(SchemaRef, Self)>, Error> {
        let query = Query {
            text: text.into(),
            parameters: parameters.to_bytes()?,
            decimals: options.decimals.to_string(),
            dictionaries: options.dictionaries,
            time_limit: options.time_limit,
            rows_max: options.rows_max,
        };
        let Some(rows) = db.query_upstream(&query)? else { return Ok(None) };
        let mut rows = Self { rows, pieces: Pieces::default(), ahead: None, is_ended: false };
        let schema = loop {
            if let Some(schema) = rows.pieces.schema() {
                break schema;
            }
            if rows.is_ended {
                return Err(damaged("there is no schema"));
            }
            rows.step(WAIT)?;
        };
        Ok(Some((schema, rows)))
    }

    /// The next batch; waits until then, or, for `None`, for more bytes.
    ///
    /// # Errors
    /// Those of the query; errors of the connection.
    pub fn next_until(&mut self, until: Option<Instant>) -> Result<Next, Error> {
        loop {
            if let Some(batch) = self.ahead.take() {
                return Ok(Next::Batch(batch));
            }
            if self.is_ended {
                return Ok(Next::End);
            }
            let wait = until.map_or(WAIT, |until| until.saturating_duration_since(Instant::now()));
            let is_waiting = !self.step(wait.min(WAIT))?;
            if is_waiting && until.is_none_or(|until| Instant::now() >= until) {
                return Ok(Next::Waiting);
            }
        }
    }

    /// Decodes up to a batch, or takes more bytes; `false`: there were none in time.
    fn step(&mut self, wait: Duration) -> Result<bool, Error> {
        self.ahead = self.pieces.next_batch().map_err(|error| damaged(&error.to_string()))?;
        if self.ahead.is_some() {
            return Ok(true);
        }
        match self.rows.next(wait, self.pieces.take())? {
            QueryStep::Bytes => Ok(true),
            QueryStep::Waiting => Ok(false),
            QueryStep::End => {
                self.pieces.finish().map_err(|error| damaged(&error.to_string()))?;
                self.is_ended = true;
                Ok(true)
            }
        }
    }
}

fn damaged(what: &str) -> Error {
    Error::new(Reason::Database, format!("the server's rows cannot be read: {what}"))
}
