//! The list of streams.

use crate::api::rates::Rate;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::state::{Shared, WebState};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;
use tapedb_access::{May, User};
use tapedb_engine::{Durability, Error, Stream};
use tapedb_server::StreamReaders;

/// A stream in the list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub name: String,
    types: Vec<String>,
    messages: String,
    bytes: u64,
    symbols: u32,
    durability: &'static str,
    first_time: Option<String>,
    last_time: Option<String>,
    appended_per_second: f64,
    bytes_per_second: f64,
    readers: usize,
    lag: String,
    may: Vec<&'static str>,
    /// Why the stream cannot be opened, or its maintenance fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

/// The streams that the caller may see.
pub(crate) async fn list(State(state): State<Shared>, caller: Caller) -> Result<Json<Streams>, Failure> {
    let shared = state.clone();
    let streams =
        state.workers.run(move || rows(&shared, &caller.user).map_err(|error| caller.failure(error)));
    Ok(Json(Streams { streams: streams.await? }))
}

#[derive(Serialize)]
pub(crate) struct Streams {
    streams: Vec<Row>,
}

/// The rows that a user may see, by name.
///
/// # Errors
/// When the database cannot be listed.
pub(crate) fn rows(state: &WebState, user: &User) -> Result<Vec<Row>, Error> {
    let names = state.server.database().streams()?;
    let there: HashSet<&str> = names.iter().map(String::as_str).collect();
    state.rates.retain(|name| there.contains(name));
    let readers = state.server.readers();
    let seen = names.iter().filter(|name| user.may_see(name));
    Ok(seen.filter_map(|name| row(state, user, name, &readers)).collect())
}

/// The row of a stream; `None`: it was deleted since it was listed.
fn row(state: &WebState, user: &User, name: &str, readers: &BTreeMap<String, StreamReaders>) -> Option<Row> {
    let may = [May::Read, May::Write, May::Admin].into_iter().filter(|what| user.may(*what, name));
    let may = may.map(May::word).collect();
    let StreamReaders { readers, lag_messages_max } = readers.get(name).copied().unwrap_or_default();
    let mut row = Row {
        name: name.into(),
        types: Vec::new(),
        messages: "0".into(),
        bytes: 0,
        symbols: 0,
        durability: "",
        first_time: None,
        last_time: None,
        appended_per_second: 0.0,
        bytes_per_second: 0.0,
        readers,
        lag: lag_messages_max.to_string(),
        may,
        failure: None,
    };
    let filled = state.server.database().stream(name).and_then(|stream| fill(state, &mut row, &stream));
    match filled {
        Ok(()) => {}
        Err(Error::NotFound(_) | Error::Stale(_)) => return None,
        Err(error) => row.failure = Some(error.to_string()),
    }
    Some(row)
}

fn fill(state: &WebState, row: &mut Row, stream: &Stream) -> Result<(), Error> {
    let stats = stream.stats()?;
    row.types = message_types(stream);
    row.messages = stats.messages.to_string();
    (row.bytes, row.symbols) = (stats.bytes, stats.symbols);
    row.durability = durability(stream.options().durability);
    row.first_time = stats.times.map(|(first, _)| first.nanos().to_string());
    row.last_time = stats.times.map(|(_, last)| last.nanos().to_string());
    let bytes_per_message = stats.bytes as f64 / stats.messages.max(1) as f64;
    let Rate { messages, bytes } =
        state.rates.update(&row.name, stats.next_sequence, bytes_per_message, Instant::now());
    (row.appended_per_second, row.bytes_per_second) = (messages, bytes);
    row.failure = stream.maintenance_failure();
    Ok(())
}

/// Names of the record types that can be messages.
pub(crate) fn message_types(stream: &Stream) -> Vec<String> {
    let records = stream.layouts().records().iter();
    records.filter(|record| record.message).map(|record| record.name.clone()).collect()
}

/// The name of a durability.
pub(crate) fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Transient => "transient",
        Durability::Async => "async",
        Durability::Sync => "sync",
    }
}
