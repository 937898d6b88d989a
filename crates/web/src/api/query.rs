//! Queries: rows as they come, in the format that is asked for. A query ends when its client leaves.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::params::Body as Asked;
use crate::rows::{Format, RowWriter, parameters};
use crate::running::Running;
use crate::state::{Shared, WebState};
use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_access::{May, Permit, QueryLimits, UserQuota};
use tapedb_engine::{Query, QueryEngine, QueryStep, QueryUser};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tracing::Span;

/// How long a query's thread waits before it checks whether the query is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How often the user's rights are checked again.
const REVIEW_INTERVAL: Duration = Duration::from_millis(500);
/// Pieces of rows that wait for the client.
const PIECES: usize = 4;
/// Rows of a table, where the request states no other limit.
const TABLE_ROWS: u64 = 10_000;
const TABLE_BYTES_MAX: usize = 32 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryRequest {
    sql: String,
    #[serde(default)]
    params: Option<Value>,
    limit: Option<u64>,
    #[serde(default)]
    format: Format,
    id: Option<String>,
    /// What becomes of decimals, as in `--decimals` of the command: digits and a scale, `float` or `raw`.
    decimals: Option<String>,
}

type Piece = Result<Bytes, Failure>;

/// Runs a query.
pub(crate) async fn run(
    State(state): State<Shared>,
    caller: Caller,
    Asked(asked): Asked<QueryRequest>,
) -> Result<Response, Failure> {
    let format = asked.format;
    let (id, mut pieces) = begin(&state, caller, asked)?;
    // The status of the answer depends on whether the query can begin.
    let first = match pieces.recv().await {
        Some(Ok(first)) => first,
        Some(Err(failure)) => return Err(failure),
        None => Bytes::new(),
    };
    let rest =
        stream::unfold(pieces, |mut pieces| async move { pieces.recv().await.map(|piece| (piece, pieces)) });
    // An error in the middle breaks the connection off: the client sees that rows are missing.
    let rest = rest.map(|piece| piece.map_err(|failure| std::io::Error::other(failure.text)));
    let body = Body::from_stream(stream::iter([Ok(first)]).chain(rest));
    let id = HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static(""));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
        (HeaderName::from_static("x-tapedb-query"), id),
    ];
    Ok((headers, body).into_response())
}

/// Runs a query of the server itself for a caller, and returns its rows as they are in `json`.
pub(crate) async fn rows_of(state: &Shared, caller: Caller, sql: &str) -> Result<Vec<Value>, Failure> {
    let asked = QueryRequest {
        sql: sql.into(),
        params: None,
        limit: None,
        format: Format::Json,
        id: None,
        decimals: None,
    };
    let (_, mut pieces) = begin(state, caller, asked)?;
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.recv().await {
        bytes.extend_from_slice(&piece?);
        if bytes.len() > TABLE_BYTES_MAX {
            return Err(Failure::internal("the list is too long"));
        }
    }
    serde_json::from_slice(&bytes).map_err(|error| Failure::internal(error.to_string()))
}

fn begin(state: &Shared, caller: Caller, asked: QueryRequest) -> Result<(String, Receiver<Piece>), Failure> {
    let engine = state.server.query_engine().ok_or_else(|| {
        Failure::unavailable("this server runs no queries: its command was built without SQL")
    })?;
    let limits = state.server.access_limits();
    let Some((quota, connection)) = state.server.quotas().open(&caller.user, limits) else {
        return Err(Failure::too_many("the user has reached the limit of connections"));
    };
    let Some(permit) = quota.query(&caller.user, limits) else {
        return Err(Failure::too_many("the user has reached the limit of queries"));
    };
    let running = state.queries.begin(&caller.user.name, asked.id.clone())?;
    let id = running.key.1.clone();
    let (sender, receiver) = channel(PIECES);
    let work = Work {
        state: state.clone(),
        caller,
        quota,
        running,
        sender,
        began: Instant::now(),
        _permits: (permit, connection),
    };
    // Without a task that waits for it: it ends when the receiver is dropped.
    let span = Span::current();
    drop(spawn_blocking(move || span.in_scope(|| work.run(&*engine, asked))));
    Ok((id, receiver))
}

/// A query, on its thread.
struct Work {
    state: Arc<WebState>,
    caller: Caller,
    quota: Arc<UserQuota>,
    running: Running,
    sender: Sender<Piece>,
    began: Instant,
    _permits: (Permit, Permit),
}

impl Work {
    fn run(self, engine: &dyn QueryEngine, asked: QueryRequest) {
        if let Err(failure) = self.send_rows(engine, asked) {
            // The client may have left.
            let _ = self.send(Err(failure));
        }
    }

    fn send_rows(&self, engine: &dyn QueryEngine, asked: QueryRequest) -> Result<(), Failure> {
        let failure = |error| self.caller.failure(error);
        let limits = QueryLimits::of(&self.caller.user, self.state.server.access_limits());
        let limit = asked.limit.or((asked.format == Format::Table).then_some(TABLE_ROWS));
        let query = Query {
            text: asked.sql,
            parameters: parameters(asked.params.as_ref()).map_err(Failure::invalid)?,
            // Other formats are texts for each row.
            dictionaries: asked.format == Format::Arrow,
            decimals: asked.decimals.unwrap_or_else(|| "18,9".into()),
            time_limit: limits.time,
            rows_max: limits.rows,
        };
        let rights = self.caller.clone();
        let may_read = move |stream: &str| rights.still().is_some_and(|user| user.may(May::Read, stream));
        let user = QueryUser {
            name: self.caller.user.name.clone(),
            may_read: Arc::new(may_read),
            memory_bytes: limits.memory_bytes,
        };
        let mut rows = engine.begin(&query, &user).map_err(failure)?;
        let mut writer = RowWriter::new(asked.format, limit, self.began);
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        let mut reviewed = Instant::now();
        let mut pieces = 0;
        loop {
            self.check()?;
            if reviewed.elapsed() >= REVIEW_INTERVAL {
                self.review(&rows.streams())?;
                reviewed = Instant::now();
            }
            let is_over = match rows.next(CHECK_INTERVAL, &mut bytes).map_err(failure)? {
                QueryStep::Waiting => continue,
                QueryStep::Bytes => {
                    pieces += 1;
                    writer.write(std::mem::take(&mut bytes), &mut out).map_err(Failure::internal)?
                }
                QueryStep::End => true,
            };
            let is_over = is_over || asked.format == Format::Table && out.len() > TABLE_BYTES_MAX;
            if is_over {
                writer.finish(&mut out).map_err(Failure::internal)?;
            }
            // The first piece has columns alone: an error before the first row is an answer with its status.
            if is_over || asked.format != Format::Table && !out.is_empty() && pieces > 1 {
                self.pace(out.len());
                self.send(Ok(std::mem::take(&mut out).into()))?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Fails when the query was cancelled, or its client has left.
    fn check(&self) -> Result<(), Failure> {
        if self.running.is_stopped.load(Ordering::Acquire) || self.sender.is_closed() {
            return Err(Failure::form(StatusCode::GONE, "the query was cancelled"));
        }
        Ok(())
    }

    /// Fails when the user may not read a stream of the query any more.
    fn review(&self, streams: &[String]) -> Result<(), Failure> {
        let user = self.caller.still().ok_or_else(Failure::login)?;
        match streams.iter().find(|stream| !user.may(May::Read, stream)) {
            None => Ok(()),
            Some(stream) => Err(Failure::no_stream(stream)),
        }
    }

    /// Waits as the user's rate demands.
    fn pace(&self, bytes: usize) {
        loop {
            let wait = self.quota.rate_limit.wait(Instant::now).min(CHECK_INTERVAL);
            if wait.is_zero() || self.check().is_err() {
                break;
            }
            thread::sleep(wait);
        }
        self.quota.rate_limit.count(bytes as u64, Instant::now);
    }

    /// Gives the client a piece; fails when it has left, or takes nothing.
    fn send(&self, piece: Piece) -> Result<(), Failure> {
        let sent = self.sender.send_timeout(piece, self.state.options.limits.write_time);
        let sent = Handle::current().block_on(sent);
        sent.map_err(|_| Failure::form(StatusCode::GONE, "the client has left"))
    }
}

/// Cancels a query of the caller.
pub(crate) async fn cancel(
    State(state): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Failure> {
    if state.queries.stop(&caller.user.name, &id) {
        return Ok(Json(json!({})));
    }
    Err(Failure::not_found(format!("no query {id:?} is running")))
}
