//! Clients and topics.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::params::Id;
use crate::state::Shared;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_access::May;

/// The clients of the server's own protocol: all of them for those who may administer all streams, else the caller's own.
pub(crate) async fn connections(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    let shared = state.clone();
    let listed = state.workers.run(move || {
        let sees_all = caller.user.may(May::Admin, "*");
        let all = shared.server.connections();
        let seen = all.into_iter().filter(|connection| sees_all || connection.user == caller.user.name);
        let rows = seen.map(|connection| {
            json!({
                "id": connection.id,
                "user": connection.user,
                "address": connection.address,
                "program": connection.program,
                "since": since(connection.connected_seconds),
                "watches": connection.watches,
                "loaders": connection.loaders,
                "lag": connection.lag_messages.to_string(),
                "sent_bytes": connection.sent_bytes,
                "received_bytes": connection.received_bytes,
            })
        });
        Ok(json!({ "connections": rows.collect::<Vec<_>>() }))
    });
    listed.await.map(Json)
}

/// Reads the users file and the certificate again.
pub(crate) async fn reload(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    let shared = state.clone();
    let reloaded = state.workers.run(move || {
        let done = shared.server.reload();
        caller.audit("reload", "", &done.to_string());
        match done.is_ok() {
            true => Ok(json!({ "done": done.to_string() })),
            false => Err(Failure::internal(done.to_string())),
        }
    });
    reloaded.await.map(Json)
}

/// When something was so many seconds ago.
fn since(seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(seconds)).as_nanos().to_string()
}

/// Ends a connection.
pub(crate) async fn kill(
    State(state): State<Shared>,
    caller: Caller,
    Id(id): Id,
) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    let why = format!("user {:?} has ended the connection", caller.user.name);
    let is_found = state.server.end_connection(id, &why);
    caller.audit("kill", "", &format!("connection {id}{}", if is_found { "" } else { ": not found" }));
    if is_found {
        Ok(Json(json!({})))
    } else {
        Err(Failure::not_found(format!("there is no connection {id}")))
    }
}

/// The topics that the server copies to streams, of those that the caller may see.
pub(crate) async fn topics(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    let shared = state.clone();
    let listed = state.workers.run(move || {
        let topics = shared.options.topics.as_ref().map(|topics| topics.topics()).unwrap_or_default();
        let seen = topics.into_iter().filter(|topic| caller.user.may_see(&topic.stream));
        let rows = seen.map(|topic| {
            let copy = json!({
                "name": format!("copy to stream {}", topic.stream),
                "lag": topic.lag.to_string(),
                "lost": topic.missed.to_string(),
            });
            json!({
                "name": topic.name,
                "stream": topic.stream,
                "state": topic.state,
                "messages": topic.messages.to_string(),
                "subscribers": [copy],
                "failure": topic.failure,
            })
        });
        Ok(json!({ "topics": rows.collect::<Vec<_>>() }))
    });
    listed.await.map(Json)
}
