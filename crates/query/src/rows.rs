//! The rows of a query.

use crate::cluster::answer::Answer;
use crate::error::{Error, Reason};
use crate::live::LiveRows;
use crate::next::Next;
use crate::snapshot::Snapshot;
use crate::traced::RowsSpan;
use crate::upstream::UpstreamRows;
use datafusion::arrow::array::{RecordBatch, RecordBatchReader};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// Batches that wait to be taken.
const BATCHES_WAITING: usize = 2;

/// How long threads that compute have to end, so that the database can close.
const END_TIME: Duration = Duration::from_millis(100);

/// The threads that compute. They end by themselves when this is dropped, at their next pause.
#[derive(Debug)]
pub(crate) struct Workers {
    runtime: Option<Runtime>,
    /// Has the clock of those that wait: that of the other one stands while all of its threads compute.
    waiting: Runtime,
}

impl Workers {
    /// # Errors
    /// When the system has no room for more.
    pub fn new(runtime: Runtime) -> std::io::Result<Self> {
        let waiting = Builder::new_current_thread().enable_time().build()?;
        Ok(Self { runtime: Some(runtime), waiting })
    }

    /// The result of a future that only waits for what other threads do.
    pub fn wait_for<F: Future>(&self, future: F) -> F::Output {
        self.waiting.block_on(future)
    }

    /// The result of a future, computed in this thread.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime().block_on(future)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken out when this is dropped")
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(END_TIME);
        }
    }
}

/// The rows of a query, batch by batch, as they are found. The query stops when this is dropped.
#[derive(Debug)]
pub struct Rows {
    schema: SchemaRef,
    /// `None`: there are no more rows.
    work: Option<Work>,
    workers: Arc<Workers>,
    /// When the query must be done, and the time that it had.
    deadline: Option<(Instant, Duration)>,
    /// Rows that may still come, and their limit.
    left: Option<(u64, u64)>,
    /// What it reads, if it runs here.
    snapshot: Option<Arc<Snapshot>>,
    span: Option<RowsSpan>,
}

/// What a query does.
#[derive(Debug)]
enum Work {
    Here(Running),
    There(Box<UpstreamRows>),
    OfServer(Answer),
    Live(Box<LiveRows>),
}

/// A query at work, in the threads that compute: it stops when this is dropped.
#[derive(Debug)]
struct Running {
    batches: Receiver<Result<RecordBatch, DataFusionError>>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(mut stream: SendableRecordBatchStream, workers: &Workers) -> Self {
        let (sender, batches) = mpsc::channel(BATCHES_WAITING);
        let task = workers.runtime().spawn(async move {
            while let Some(batch) = stream.next().await {
                if sender.send(batch).await.is_err() {
                    break;
                }
            }
        });
        Self { batches, task }
    }

    /// The next batch; `None`: that was all.
    async fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self.batches.recv().await {
            Some(batch) => Ok(Some(batch?)),
            None => match (&mut self.task).await {
                Ok(()) => Ok(None),
                Err(error) => {
                    let what = format!("the query crashed: {error}; please report it with the query");
                    Err(Error::new(Reason::Internal, what))
                }
            },
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Rows {
    pub(crate) fn new(
        stream: SendableRecordBatchStream,
        workers: Arc<Workers>,
        deadline: Option<(Instant, Duration)>,
        rows_max: Option<u64>,
        snapshot: Arc<Snapshot>,
    ) -> Self {
        let left = rows_max.map(|rows| (rows, rows));
        let schema = stream.schema();
        let work = Some(Work::Here(Running::start(stream, &workers)));
        Self { schema, work, workers, deadline, left, snapshot: Some(snapshot), span: None }
    }

    /// The rows of a query on a server, which keeps to the limits.
    pub(crate) fn of_upstream(schema: SchemaRef, rows: UpstreamRows, workers: Arc<Workers>) -> Self {
        let work = Some(Work::There(Box::new(rows)));
        Self { schema, work, workers, deadline: None, left: None, snapshot: None, span: None }
    }

    /// The rows of a query on one server of a cluster, which keeps to the limits.
    pub(crate) fn of_server(
        schema: SchemaRef,
        answer: Answer,
        workers: Arc<Workers>,
        snapshot: Arc<Snapshot>,
    ) -> Self {
        let work = Some(Work::OfServer(answer));
        Self { schema, work, workers, deadline: None, left: None, snapshot: Some(snapshot), span: None }
    }

    /// The rows of a live query.
    pub(crate) fn of_live(rows: LiveRows, workers: Arc<Workers>) -> Self {
        let schema = rows.schema();
        let work = Some(Work::Live(Box::new(rows)));
        Self { schema, work, workers, deadline: None, left: None, snapshot: None, span: None }
    }

    /// The same rows, with a span of traces until they end.
    pub(crate) fn traced(self) -> Self {
        Self { span: Some(RowsSpan::new()), ..self }
    }

    /// Names of the streams that it reads, if it runs here.
    pub fn streams(&self) -> Vec<String> {
        if let Some(Work::Live(rows)) = &self.work {
            return rows.streams();
        }
        self.snapshot.as_ref().map(|snapshot| snapshot.open_names()).unwrap_or_default()
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Whether there is no batch left.
    pub fn is_over(&self) -> bool {
        self.work.is_none()
    }

    /// The next batch, which has at least one row; `None`: that was all.
    ///
    /// # Errors
    /// When messages cannot be read, values do not fit their types, or a limit is reached. There is no batch after an error.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self.next_until(None)? {
            Next::Batch(batch) => Ok(Some(batch)),
            Next::Waiting | Next::End => Ok(None),
        }
    }

    /// The next batch, if it is there within `timeout`.
    ///
    /// # Errors
    /// As [`Rows::next_batch`].
    pub fn next_within(&mut self, timeout: Duration) -> Result<Next, Error> {
        self.next_until(Instant::now().checked_add(timeout))
    }

    /// The next batch, if it is there in time; `None`: whenever it comes.
    pub(crate) fn next_at(&mut self, until: Option<std::time::Instant>) -> Result<Next, Error> {
        self.next_until(until.map(Instant::from_std))
    }

    fn next_until(&mut self, until: Option<Instant>) -> Result<Next, Error> {
        let next = self.next_of_stream(until);
        if !matches!(next, Ok(Next::Batch(_) | Next::Waiting)) {
            // It stops now, though this still exists.
            self.work = None;
            self.span = None;
        }
        if let (Ok(Next::Batch(batch)), Some(span)) = (&next, &mut self.span) {
            span.add(batch.num_rows());
        }
        next
    }

    fn next_of_stream(&mut self, until: Option<Instant>) -> Result<Next, Error> {
        let deadline = self.deadline;
        let end = [until, deadline.map(|(at, _)| at)].into_iter().flatten().min();
        loop {
            let running = match &mut self.work {
                None => return Ok(Next::End),
                Some(Work::Here(running)) => running,
                Some(Work::There(rows)) => return there(rows, until),
                Some(Work::OfServer(answer)) => return answer.next_rows(until.map(Instant::into_std)),
                Some(Work::Live(rows)) => return rows.next_until(until.map(Instant::into_std)),
            };
            let next = self.workers.wait_for(async {
                match end {
                    None => Ok(running.next().await),
                    Some(end) => timeout_at(end, running.next()).await,
                }
            });
            let batch = match (next, deadline) {
                (Ok(next), _) => match next? {
                    Some(batch) => batch,
                    None => return Ok(Next::End),
                },
                (Err(_), Some((at, limit))) if Instant::now() >= at => return Err(too_long(limit)),
                (Err(_), _) => return Ok(Next::Waiting),
            };
            self.count(batch.num_rows() as u64)?;
            if batch.num_rows() > 0 {
                return Ok(Next::Batch(batch));
            }
        }
    }

    /// # Errors
    /// When there are more rows than may be.
    fn count(&mut self, rows: u64) -> Result<(), Error> {
        let Some((left, limit)) = &mut self.left else { return Ok(()) };
        match left.checked_sub(rows) {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => {
                let what = format!("the query has more than {limit} rows, the limit; add LIMIT, or raise it");
                Err(Error::new(Reason::Limit, what))
            }
        }
    }
}

/// The next batch with rows of a query on a server.
fn there(rows: &mut UpstreamRows, until: Option<Instant>) -> Result<Next, Error> {
    loop {
        match rows.next_until(until.map(Instant::into_std))? {
            Next::Batch(batch) if batch.num_rows() == 0 => {}
            // Without a time to wait until, a wait goes on.
            Next::Waiting if until.is_none() => {}
            next => return Ok(next),
        }
    }
}

/// The error of a query that ran too long.
pub(crate) fn too_long(limit: Duration) -> Error {
    let what = format!(
        "the query ran longer than {} s, the limit; ask for a shorter range of time, or raise it",
        limit.as_secs_f64()
    );
    Error::new(Reason::Limit, what)
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
