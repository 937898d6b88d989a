//! The backup, for those who may administer all streams.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

/// The state of the backup.
pub(crate) async fn show(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    Ok(Json(state.backups.row(state.options.backup.as_deref())))
}

/// Brings the backup up to date.
pub(crate) async fn start(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    let directory = state.options.backup.as_deref().ok_or_else(|| {
        Failure::not_found(
            "this server writes no backups: set `backup` to a directory, or run `tapedb backup`",
        )
    })?;
    caller.audit("backup", "", "begun");
    let teller = caller.clone();
    let ended = move |outcome: Result<(), &str>| {
        let what = outcome.err().map_or_else(|| "done".into(), |error| format!("failed: {error}"));
        teller.audit("backup", "", &what);
    };
    let started = state.backups.start(state.server.database(), directory, ended);
    match started.map_err(|error| Failure::internal(error.to_string()))? {
        true => Ok(Json(json!({}))),
        false => Err(Failure::form(StatusCode::CONFLICT, "a backup is running already")),
    }
}

/// Cancels the backup that runs.
pub(crate) async fn cancel(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    if state.backups.cancel() { Ok(Json(json!({}))) } else { Err(Failure::not_found("no backup is running")) }
}
