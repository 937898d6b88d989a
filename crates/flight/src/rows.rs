//! The rows of queries, as a call sends them. A thread of its own takes them from the query and makes messages of them, as fast as the
//! client takes these.

use crate::caller::Caller;
use crate::prepared::Values;
use crate::running::Running;
use crate::shared::Shared;
use crate::status::{cancelled, internal, of_query, shutting_down, status};
use crate::ticket::Id;
use arrow_flight::{FlightData, SchemaAsIpc};
use futures::Stream;
use futures::stream::{BoxStream, StreamExt, iter, unfold};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_access::{May, Permit, UserQuota};
use tapedb_engine::Query;
use tapedb_query::arrow::array::RecordBatch;
use tapedb_query::arrow::datatypes::SchemaRef;
use tapedb_query::arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
};
use tapedb_query::{Next, Rows, compact};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tonic::{Code, Status};
use tracing::Span;

/// How long rows are waited for before it is checked whether they are still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How often the user's rights are checked again.
const REVIEW_INTERVAL: Duration = Duration::from_millis(100);
/// Messages that wait for the client.
const MESSAGES_WAITING: usize = 4;
/// A client that takes no message for so long has its query stopped.
const SEND_TIME: Duration = Duration::from_secs(30);
/// Bytes of a message: clients that limit them allow 4 MiB and more. A row that is longer is sent in one.
const MESSAGE_BYTES: usize = 2 << 20;

/// Messages with rows.
pub(crate) type Messages = BoxStream<'static, Result<FlightData, Status>>;

/// Begins a query, once for each of the values, and returns its messages: the schema is there when this returns.
///
/// # Errors
/// When the query cannot begin.
pub(crate) async fn begin(
    shared: &Shared,
    caller: Caller,
    id: Id,
    text: String,
    values: Vec<Values>,
) -> Result<Messages, Status> {
    let user = caller.present()?;
    let access = &shared.options.access;
    let too_many = |what: &str| {
        status(Code::ResourceExhausted, format!("the user has too many {what} at once; end some"))
    };
    let (quota, connection) =
        access.quotas.open(&user, &access.limits).ok_or_else(|| too_many("connections"))?;
    let permit = quota.query(&user, &access.limits).ok_or_else(|| too_many("queries"))?;
    shared.queries.fetch_add(1, Ordering::Relaxed);
    let (sender, mut receiver) = channel(MESSAGES_WAITING);
    let running = shared.running.begin(id);
    let work = Work {
        shared: shared.clone(),
        caller,
        quota,
        running,
        sender,
        reviewed: Instant::now(),
        _permits: (permit, connection),
    };
    let span = Span::current();
    drop(spawn_blocking(move || span.in_scope(|| work.run(text, values))));
    match receiver.recv().await {
        Some(Ok(schema)) => Ok(iter([Ok(schema)]).chain(rest(receiver)).boxed()),
        Some(Err(failure)) => Err(failure),
        None => Err(internal("the query crashed; please report it")),
    }
}

fn rest(receiver: Receiver<Result<FlightData, Status>>) -> impl Stream<Item = Result<FlightData, Status>> {
    unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|message| (message, receiver)) })
}

/// Messages of rows that are there.
///
/// # Errors
/// When they cannot be written: a defect.
pub(crate) fn ready(batch: &RecordBatch) -> Result<Messages, Status> {
    let mut writer = MessageWriter::default();
    let mut messages = vec![writer.schema(&batch.schema())];
    if batch.num_rows() > 0 {
        writer.rows(batch, &mut messages)?;
    }
    Ok(iter(messages.into_iter().map(Ok)).boxed())
}

/// A query, on its thread.
struct Work {
    shared: Shared,
    caller: Caller,
    quota: Arc<UserQuota>,
    running: Running,
    sender: Sender<Result<FlightData, Status>>,
    reviewed: Instant,
    _permits: (Permit, Permit),
}

impl Work {
    fn run(mut self, text: String, values: Vec<Values>) {
        if let Err(failure) = self.send_rows(text, values) {
            // The client may have left.
            let _ = self.send(Err(failure));
        }
    }

    fn send_rows(&mut self, text: String, values: Vec<Values>) -> Result<(), Status> {
        let (user, limits) = self.caller.query_user(&self.shared)?;
        let query = Query {
            text,
            parameters: Vec::new(),
            decimals: "float".into(),
            dictionaries: true,
            time_limit: limits.time,
            rows_max: limits.rows,
        };
        let mut writer = MessageWriter::default();
        let mut schema: Option<SchemaRef> = None;
        for values in values {
            self.check()?;
            let rows = self
                .shared
                .options
                .queries
                .rows(&query, &values.0, &user)
                .map_err(|error| of_query(&error))?;
            match &schema {
                None => {
                    self.send(Ok(writer.schema(&rows.schema())))?;
                    schema = Some(rows.schema());
                }
                Some(schema) if *schema == rows.schema() => {}
                Some(_) => {
                    let text =
                        "the rows of the parameters' rows have different columns; state types with CAST";
                    return Err(status(Code::InvalidArgument, text));
                }
            }
            self.send_batches(rows, &mut writer)?;
        }
        Ok(())
    }

    fn send_batches(&mut self, mut rows: Rows, writer: &mut MessageWriter) -> Result<(), Status> {
        let mut messages = Vec::new();
        loop {
            self.check()?;
            if self.reviewed.elapsed() >= REVIEW_INTERVAL {
                self.review(&rows.streams())?;
            }
            match rows.next_within(CHECK_INTERVAL).map_err(|error| of_query(&error))? {
                Next::Waiting => {}
                Next::End => return Ok(()),
                Next::Batch(batch) => writer.rows(&batch, &mut messages)?,
            }
            for message in messages.drain(..) {
                self.pace(message.data_header.len() + message.data_body.len())?;
                self.send(Ok(message))?;
            }
        }
    }

    /// Whether the rows are still wanted.
    fn check(&self) -> Result<(), Status> {
        if self.shared.is_stopping.load(Ordering::Acquire) {
            return Err(shutting_down());
        }
        if self.running.is_cancelled() || self.sender.is_closed() {
            return Err(cancelled());
        }
        Ok(())
    }

    /// Whether the user may still read the streams of the query.
    fn review(&mut self, streams: &[String]) -> Result<(), Status> {
        self.reviewed = Instant::now();
        let user = self.caller.present()?;
        match streams.iter().find(|stream| !user.may(May::Read, stream)) {
            None => Ok(()),
            Some(stream) => {
                let text = format!("user {:?} has no right to read stream {stream:?}", user.name);
                Err(status(Code::PermissionDenied, text))
            }
        }
    }

    /// Waits as the user's rate demands.
    fn pace(&self, bytes: usize) -> Result<(), Status> {
        loop {
            let wait = self.quota.rate_limit.wait(Instant::now).min(CHECK_INTERVAL);
            if wait.is_zero() {
                break;
            }
            self.check()?;
            thread::sleep(wait);
        }
        self.quota.rate_limit.count(bytes as u64, Instant::now);
        Ok(())
    }

    /// Gives the client a message. While it takes none, it is checked whether it is there.
    fn send(&self, message: Result<FlightData, Status>) -> Result<(), Status> {
        let message = match self.sender.try_reserve() {
            Ok(place) => {
                place.send(message);
                return Ok(());
            }
            Err(_) => message,
        };
        let is_failure = message.is_err();
        let until = Instant::now() + SEND_TIME;
        let place = Handle::current().block_on(async {
            loop {
                if let Ok(place) = tokio::time::timeout(CHECK_INTERVAL, self.sender.reserve()).await {
                    return place.map_err(|_| cancelled());
                }
                if !is_failure {
                    self.check()?;
                }
                if Instant::now() >= until {
                    return Err(status(
                        Code::DeadlineExceeded,
                        "the client takes no rows; the query was stopped",
                    ));
                }
            }
        });
        place?.send(message);
        Ok(())
    }
}

/// Writes rows as messages.
#[derive(Default)]
pub(crate) struct MessageWriter {
    generator: IpcDataGenerator,
    options: IpcWriteOptions,
    dictionaries: Dictionaries,
    context: IpcWriteContext,
}

/// The dictionaries that the client has; they may be replaced.
struct Dictionaries(DictionaryTracker);

impl Default for Dictionaries {
    fn default() -> Self {
        Self(DictionaryTracker::new(false))
    }
}

impl MessageWriter {
    /// The message that comes before rows.
    pub fn schema(&mut self, schema: &SchemaRef) -> FlightData {
        let mut tracker = DictionaryTracker::new(false);
        let encoded =
            self.generator.schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &self.options);
        self.dictionaries = Dictionaries(tracker);
        encoded.into()
    }

    /// Appends the messages of a batch.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn rows(&mut self, batch: &RecordBatch, messages: &mut Vec<FlightData>) -> Result<(), Status> {
        let batch = compact(batch).map_err(|error| of_query(&error))?;
        let pieces = batch.get_array_memory_size().div_ceil(MESSAGE_BYTES).max(1);
        let rows_max = batch.num_rows().div_ceil(pieces).max(1);
        let mut first = 0;
        while first < batch.num_rows() {
            let rows = rows_max.min(batch.num_rows() - first);
            let piece = match rows == batch.num_rows() {
                true => batch.clone(),
                false => compact(&batch.slice(first, rows)).map_err(|error| of_query(&error))?,
            };
            let (dictionaries, rows_encoded) = self
                .generator
                .encode(&piece, &mut self.dictionaries.0, &self.options, &mut self.context)
                .map_err(internal)?;
            messages.extend(dictionaries.into_iter().map(FlightData::from));
            messages.push(rows_encoded.into());
            first += rows;
        }
        Ok(())
    }
}

/// The bytes of a schema, as statements state theirs.
///
/// # Errors
/// When it cannot be written: a defect.
pub(crate) fn schema_bytes(schema: &SchemaRef) -> Result<arrow_flight::IpcMessage, Status> {
    SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into().map_err(internal)
}
