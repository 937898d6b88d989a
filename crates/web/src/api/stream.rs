//! One stream: what it is, its symbols, changes of its settings, its end.

use crate::api::streams::{durability, message_types};
use crate::caller::Caller;
use crate::failure::Failure;
use crate::params::{Body, Params};
use crate::state::Shared;
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tapedb_access::May;
use tapedb_engine::{Retention, Stream, StreamOptions};

const SYMBOLS_DEFAULT: usize = 1000;
const SYMBOLS_MAX: usize = 100_000;

/// Describes a stream.
pub(crate) async fn describe(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    let described = state.workers.run(move || {
        caller.check_seen(&name)?;
        let stream = caller.open(&name)?;
        description(&stream).map_err(|error| caller.failure(error))
    });
    described.await.map(Json)
}

fn description(stream: &Stream) -> Result<Value, tapedb_engine::Error> {
    let (stats, census, options) = (stream.stats()?, stream.census()?, stream.options());
    let files = Files::of(stream);
    let types: Vec<Value> = stream.schema().records.iter().map(|record| {
        let fields: Vec<Value> = record.fields.iter().map(|field| {
            json!({ "name": field.name, "type": field.ty.to_string(), "nullable": field.nullable, "doc": field.doc })
        }).collect();
        json!({ "name": record.name, "message": record.message, "doc": record.doc, "fields": fields })
    }).collect();
    let time = |time: tapedb_schema::Timestamp| time.nanos().to_string();
    Ok(json!({
        "name": stream.name(),
        "schema": stream.schema().to_string(),
        "versions": files.versions.max(1),
        "types": types,
        "message_types": message_types(stream),
        "durability": durability(options.durability),
        "retention": retention(&options.retention),
        "symbols": stats.symbols,
        "messages": stats.messages.to_string(),
        "bytes": stats.bytes,
        "segments": census.segments,
        "log_files": files.logs,
        "log_messages": census.log_messages.to_string(),
        "spaces": stream.spaces(),
        "created": time(stream.created()),
        "first_time": stats.times.map(|(first, _)| time(first)),
        "last_time": stats.times.map(|(_, last)| time(last)),
        "failure": stream.maintenance_failure(),
    }))
}

fn retention(retention: &Retention) -> Value {
    if retention.age.is_none() && retention.bytes.is_none() {
        return Value::Null;
    }
    json!({ "seconds": retention.age.map(|age| age.as_secs()), "bytes": retention.bytes })
}

/// Files of a stream, counted.
#[derive(Default)]
struct Files {
    /// Versions of the schema.
    versions: usize,
    /// Log files.
    logs: usize,
}

impl Files {
    fn of(stream: &Stream) -> Self {
        let mut files = Self::default();
        let Ok(entries) = std::fs::read_dir(stream.path()) else { return files };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            files.versions += usize::from(name.starts_with("schema-") && !name.ends_with(".copy"));
            let is_space = name.bytes().all(|digit| digit.is_ascii_digit());
            if is_space && let Ok(entries) = std::fs::read_dir(entry.path()) {
                let logs = entries
                    .flatten()
                    .filter(|entry| entry.path().extension().is_some_and(|end| end == "log"));
                files.logs += logs.count();
            }
        }
        files
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default)]
    prefix: String,
    limit: Option<usize>,
}

/// The symbols of a stream that begin with a text, in order.
pub(crate) async fn symbols(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Params(Wanted { prefix, limit }): Params<Wanted>,
) -> Result<Json<Value>, Failure> {
    let found = state.workers.run(move || {
        let stream = caller.stream(&name, May::Read)?;
        let mut symbols = stream.symbols();
        symbols.retain(|symbol| symbol.starts_with(&prefix));
        symbols.sort_unstable();
        let limit = limit.unwrap_or(SYMBOLS_DEFAULT).min(SYMBOLS_MAX);
        let is_more = symbols.len() > limit;
        symbols.truncate(limit);
        Ok(json!({ "symbols": symbols, "more": is_more }))
    });
    found.await.map(Json)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// Absent: unchanged; null: none.
    #[serde(default, deserialize_with = "given")]
    retention: Option<Option<NewRetention>>,
    /// Absent: unchanged.
    durability: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRetention {
    seconds: Option<u64>,
    bytes: Option<u64>,
}

fn given<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Changes settings of a stream.
pub(crate) async fn alter(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Failure> {
    let altered = state.workers.run(move || {
        let stream = caller.stream(&name, May::Admin)?;
        let mut options: StreamOptions = stream.options();
        if change.durability.is_some_and(|new| new != durability(options.durability)) {
            let what = "durability cannot be changed, because stored messages were written with it; create another stream";
            return Err(Failure::invalid(what));
        }
        if let Some(new) = change.retention {
            let new = new.unwrap_or(NewRetention { seconds: None, bytes: None });
            options.retention = Retention { age: new.seconds.map(Duration::from_secs), bytes: new.bytes };
        }
        let altered = stream.alter(options);
        let text = options.to_text().replace('\n', ", ");
        let outcome = altered.as_ref().map_or_else(|error| format!("failed: {error}"), |()| text);
        caller.audit("alter", &name, &outcome);
        altered.map_err(|error| caller.failure(error))?;
        Ok(json!({ "retention": retention(&stream.options().retention) }))
    });
    altered.await.map(Json)
}

/// Deletes a stream.
pub(crate) async fn delete(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    let shared = state.clone();
    let deleted = state.workers.run(move || {
        caller.check(&name, May::Admin)?;
        let deleted = shared.server.database().delete_stream(&name);
        let outcome = deleted.as_ref().err().map(|error| format!("failed: {error}")).unwrap_or_default();
        caller.audit("delete", &name, &outcome);
        deleted.map_err(|error| caller.failure(error))?;
        Ok(json!({}))
    });
    deleted.await.map(Json)
}
