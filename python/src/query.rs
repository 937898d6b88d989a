//! Queries: they run on the server of a database, or in this process if the module was built with SQL.

use crate::batch::Batch;
use crate::failure::Failure;
use crate::reader::of_arrow;
use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use std::time::Duration;
use tapedb_arrow_ipc::Pieces;
use tapedb_engine::{Database, Query, QueryRows, QueryStep};

/// How long one wait for the columns of a query takes at most.
const WAIT: Duration = Duration::from_secs(1);

/// What is asked for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    text: String,
    /// One row, whose columns have the names of the placeholders.
    parameters: Option<Py<Batch>>,
    /// `float`, `raw`, or digits and scale such as `18,4`.
    decimals: String,
    /// Seconds.
    time_limit: Option<f64>,
    max_rows: Option<u64>,
}

impl Asked {
    fn query(&self) -> Result<Query, Failure> {
        let limit = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|_| {
                Failure::Argument(format!("time_limit={seconds} is not possible; give seconds, 0 or more"))
            })
        };
        let parameters = match &self.parameters {
            Some(batch) => written(batch.get().batch()).map_err(of_arrow)?,
            None => Vec::new(),
        };
        Ok(Query {
            text: self.text.clone(),
            parameters,
            decimals: self.decimals.clone(),
            dictionaries: false,
            time_limit: self.time_limit.map(limit).transpose()?,
            rows_max: self.max_rows,
        })
    }
}

/// A batch as an Arrow IPC stream.
fn written(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    writer.into_inner()
}

/// The rows of a query. It stops when this is dropped.
pub struct Rows {
    place: Place,
    is_over: bool,
}

/// Where a query runs.
enum Place {
    Server(Box<ServerRows>),
    #[cfg(feature = "sql")]
    Here(Box<tapedb_query::Rows>),
}

impl Rows {
    /// Begins a query; returns its columns too.
    pub fn begin(db: &Database, asked: &Asked) -> Result<(SchemaRef, Self), Failure> {
        let query = asked.query()?;
        if let Some(rows) = db.query_upstream(&query)? {
            let (schema, rows) = ServerRows::begin(rows)?;
            return Ok((schema, Self { place: Place::Server(Box::new(rows)), is_over: false }));
        }
        Self::here(db, asked, &query)
    }

    #[cfg(feature = "sql")]
    fn here(db: &Database, asked: &Asked, query: &Query) -> Result<(SchemaRef, Self), Failure> {
        use tapedb_query::{Options, Parameters, Sql};
        let decimals =
            query.decimals.parse().map_err(|error| Failure::Argument(format!("decimals: {error}")))?;
        let (time_limit, rows_max) = (query.time_limit, query.rows_max);
        let options = Options {
            decimals,
            time_limit,
            rows_max,
            place: tapedb_query::Place::Here,
            ..Options::default()
        };
        let parameters = asked.parameters.as_ref().map(|batch| Parameters::of_row(batch.get().batch()));
        let parameters = parameters.transpose().map_err(tapedb_engine::Error::from)?.unwrap_or_default();
        let rows = Sql::with_options(db, options).and_then(|sql| sql.query_with(&query.text, &parameters));
        let rows = rows.map_err(tapedb_engine::Error::from)?;
        Ok((rows.schema(), Self { place: Place::Here(Box::new(rows)), is_over: false }))
    }

    #[cfg(not(feature = "sql"))]
    fn here(_: &Database, _: &Asked, _: &Query) -> Result<(SchemaRef, Self), Failure> {
        Err(Failure::Unavailable(
            "queries cannot run here: this build of tapedb has no SQL of its own, and the database is not that of a server that runs queries; use \
             `tapedb server`, a released wheel, or a build with --features sql",
        ))
    }

    /// The next batch, within that time; `None`: there was none in time, or none is left.
    pub fn next(&mut self, wait: Duration) -> Result<Option<RecordBatch>, Failure> {
        if self.is_over {
            return Ok(None);
        }
        let next = match &mut self.place {
            Place::Server(rows) => rows.next(wait),
            #[cfg(feature = "sql")]
            Place::Here(rows) => rows
                .next_within(wait)
                .map_err(|error| tapedb_engine::Error::from(error).into())
                .map(|next| match next {
                    tapedb_query::Next::Batch(batch) => Step::Batch(batch),
                    tapedb_query::Next::Waiting => Step::Waiting,
                    tapedb_query::Next::End => Step::End,
                }),
        };
        // After an error nothing comes.
        self.is_over = !matches!(next, Ok(Step::Batch(_) | Step::Waiting));
        match next? {
            Step::Batch(batch) => Ok(Some(batch)),
            Step::Waiting | Step::End => Ok(None),
        }
    }

    /// Whether there is no batch left.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

/// What came of a wait.
enum Step {
    Batch(RecordBatch),
    Waiting,
    End,
}

/// Rows that a server sends.
struct ServerRows {
    rows: Box<dyn QueryRows>,
    pieces: Pieces,
    /// A batch that came with the columns.
    ahead: Option<RecordBatch>,
}

impl ServerRows {
    /// Waits for the columns.
    fn begin(rows: Box<dyn QueryRows>) -> Result<(SchemaRef, Self), Failure> {
        let mut rows = Self { rows, pieces: Pieces::default(), ahead: None };
        loop {
            match rows.next(WAIT)? {
                Step::Batch(batch) => rows.ahead = Some(batch),
                Step::Waiting => {}
                Step::End => return Err(damaged("there is no schema")),
            }
            if let Some(schema) = rows.pieces.schema() {
                return Ok((schema, rows));
            }
        }
    }

    fn next(&mut self, wait: Duration) -> Result<Step, Failure> {
        if let Some(batch) = self.ahead.take() {
            return Ok(Step::Batch(batch));
        }
        if let Some(batch) = self.pieces.next_batch().map_err(|error| damaged(&error.to_string()))? {
            return Ok(Step::Batch(batch));
        }
        match self.rows.next(wait, self.pieces.take())? {
            QueryStep::Bytes => {
                let batch = self.pieces.next_batch().map_err(|error| damaged(&error.to_string()))?;
                Ok(batch.map_or(Step::Waiting, Step::Batch))
            }
            QueryStep::Waiting => Ok(Step::Waiting),
            QueryStep::End => {
                self.pieces.finish().map_err(|error| damaged(&error.to_string()))?;
                Ok(Step::End)
            }
        }
    }
}

fn damaged(what: &str) -> Failure {
    Failure::Internal(format!("the server's rows cannot be read: {what}"))
}
