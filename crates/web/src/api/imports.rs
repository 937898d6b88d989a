//! Files that are uploaded and imported, as `tapedb import` does it.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::options::{ImportOptions, Importer};
use crate::params::{Body, Id, Params};
use crate::state::Shared;
use crate::uploads::{Busy, UPLOADS_MAX, is_full};
use axum::Json;
use axum::body::Body as Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use futures::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use tapedb_access::May;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The content type of a file, which no form of a page can have.
const FILE: &str = "application/octet-stream";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sent {
    stream: String,
    name: String,
}

/// The caller's files.
pub(crate) async fn list(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    let limit = state.options.limits.upload_bytes_max;
    let is_on = state.options.importer.is_some() && limit > 0;
    Ok(Json(
        json!({ "bytes_max": if is_on { limit } else { 0 }, "imports": state.uploads.rows(&caller.user.name) }),
    ))
}

/// Takes a file for a stream.
pub(crate) async fn upload(
    State(state): State<Shared>,
    caller: Caller,
    Params(sent): Params<Sent>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Failure> {
    importer(&state)?;
    check(&state, &caller, &sent.stream).await?;
    if headers.get(CONTENT_TYPE).is_none_or(|sent| sent != FILE) {
        let text = format!("the body must be a file: set `Content-Type: {FILE}`");
        return Err(Failure::form(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    let limit = state.options.limits.upload_bytes_max;
    let too_large = || {
        Failure::form(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the file has more than {limit} bytes; use `tapedb import`"),
        )
    };
    let stated = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if stated.is_some_and(|length: u64| length > limit) {
        return Err(too_large());
    }
    let arriving = state.uploads.begin(&caller.user.name, &sent.name, &sent.stream).map_err(busy)?;
    let (mut pieces, mut bytes) = (body.into_data_stream(), 0u64);
    let silent = || Failure::form(StatusCode::REQUEST_TIMEOUT, "the file did not arrive in time");
    let mut writing = File::create(&arriving.path).map(BufWriter::new);
    while let Some(piece) =
        timeout(state.options.limits.write_time, pieces.next()).await.map_err(|_| silent())?
    {
        let piece = piece.map_err(|_| Failure::form(StatusCode::BAD_REQUEST, "the file has broken off"))?;
        bytes += piece.len() as u64;
        if bytes > limit {
            return Err(too_large());
        }
        // What cannot be stored is read all the same: a client that is still sending does not see the answer.
        if let Ok(mut file) = writing {
            let written = spawn_blocking(move || file.write_all(&piece).map(|()| file));
            writing = written.await.map_err(|_| Failure::internal("the server has failed"))?;
            if writing.is_err() {
                arriving.empty();
            }
        }
    }
    let stored = spawn_blocking(move || writing?.flush());
    stored.await.map_err(|_| Failure::internal("the server has failed"))?.map_err(disk)?;
    let id = arriving.id;
    arriving.complete(bytes);
    caller.audit("upload", &sent.stream, &format!("{:?}, {bytes} bytes", sent.name));
    Ok(Json(json!({ "id": id, "bytes": bytes })))
}

/// Imports a file, or shows what an import would write.
pub(crate) async fn start(
    State(state): State<Shared>,
    caller: Caller,
    Id(id): Id,
    Body(options): Body<ImportOptions>,
) -> Result<Json<Value>, Failure> {
    let importer = importer(&state)?;
    let (path, stream) = state.uploads.file(id, &caller.user.name).map_err(busy)?;
    check(&state, &caller, &stream).await?;
    let job = importer.job(&path, &stream, &options).map_err(Failure::invalid)?;
    let (teller, is_preview) = (caller.clone(), options.preview);
    let ended = move |outcome: &Result<(), String>, end: &crate::options::ImportProgress| {
        if !is_preview {
            let what = outcome.as_ref().map_or_else(|error| format!("failed: {error}"), |()| String::new());
            teller.audit("import", &stream, &format!("{} messages {what}", end.messages));
        }
    };
    state.uploads.run(id, &caller.user.name, job, is_preview, ended).map_err(busy)?;
    Ok(Json(json!({})))
}

/// Cancels an import, or removes a file.
pub(crate) async fn remove(
    State(state): State<Shared>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<Value>, Failure> {
    state.uploads.remove(id, &caller.user.name).map_err(busy)?;
    Ok(Json(json!({})))
}

fn importer(state: &Shared) -> Result<Arc<dyn Importer>, Failure> {
    let importer = state.options.importer.clone().filter(|_| state.options.limits.upload_bytes_max > 0);
    importer.ok_or_else(|| {
        Failure::not_found(
            "this server imports no files: `upload_bytes_max` is 0, or its program has no importer",
        )
    })
}

/// Checks the right to write to a stream, or to create it. The answer is the same for a stream that the caller may not see.
async fn check(state: &Shared, caller: &Caller, stream: &str) -> Result<(), Failure> {
    let (shared, caller, stream) = (state.clone(), caller.clone(), stream.to_string());
    let checked = state.workers.run(move || {
        let is_there =
            shared.server.database().streams().map_err(|error| caller.failure(error))?.contains(&stream);
        let needed = if is_there && caller.user.may_see(&stream) { May::Write } else { May::Create };
        if caller.user.may(needed, &stream) {
            return Ok(());
        }
        caller.audit("forbidden", &stream, "import");
        let user = &caller.user.name;
        Err(Failure::denied(format!("user {user:?} has no right to {} stream {stream:?}", needed.word())))
    });
    checked.await
}

/// Why a file cannot be stored.
fn disk(error: std::io::Error) -> Failure {
    match is_full(&error) {
        true => busy(Busy::NoSpace),
        false => busy(Busy::System(error.to_string())),
    }
}

fn busy(busy: Busy) -> Failure {
    match busy {
        Busy::NoSpace => Failure::full(
            "the server's disk has no space for the file, of which nothing is stored; free some, or use `tapedb import`",
        ),
        Busy::Full => {
            Failure::too_many(format!("the server stores {UPLOADS_MAX} uploaded files at most; remove one"))
        }
        Busy::Running => Failure::form(StatusCode::CONFLICT, "another import is running; wait for its end"),
        Busy::Unknown => Failure::not_found("there is no such file"),
        Busy::Arriving => Failure::form(StatusCode::CONFLICT, "the file is still arriving"),
        Busy::System(error) => Failure::internal(format!("cannot store the file: {error}")),
    }
}
