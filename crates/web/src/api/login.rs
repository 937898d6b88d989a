//! Logins and sessions.

use crate::caller::Ends;
use crate::caller::{Caller, Sent, login as authenticate};
use crate::failure::Failure;
use crate::params::Body;
use crate::state::Shared;
use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::http::HeaderMap;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Instant;
use tapedb_access::{ANONYMOUS, AuditEntry, May};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    user: Option<String>,
    password: Option<String>,
    token: Option<String>,
}

impl Login {
    fn sent(self) -> Result<Sent, Failure> {
        match self {
            Self { user: None, password: None, token: Some(token) } => Ok(Sent::Token(token)),
            Self { user: Some(user), password: Some(password), token: None } => {
                Ok(Sent::Password { user, password })
            }
            _ => Err(Failure::invalid("give `user` and `password`, or `token`")),
        }
    }

    fn name(&self) -> String {
        self.user.clone().unwrap_or_default()
    }
}

/// Begins a session.
pub(crate) async fn login(
    State(state): State<Shared>,
    ConnectInfo(ends): ConnectInfo<Ends>,
    Body(login): Body<Login>,
) -> Result<Response, Failure> {
    let (name, sent) = (login.name(), login.sent()?);
    let user = match authenticate(&state, ends.client.ip(), sent).await {
        Ok(user) => user,
        Err(failure) => {
            audit(&state, ends.client, "refused", &name, &failure.text);
            return Err(failure);
        }
    };
    let name = user.user().map(|user| user.name.clone()).ok_or_else(Failure::wrong)?;
    let cookie = state.sessions.begin(user, Instant::now()).map_err(Failure::internal)?;
    audit(&state, ends.client, "login", &name, "");
    Ok(([(SET_COOKIE, cookie)], Json(json!({ "user": name }))).into_response())
}

/// Ends the session.
pub(crate) async fn logout(
    State(state): State<Shared>,
    ConnectInfo(ends): ConnectInfo<Ends>,
    headers: HeaderMap,
) -> Response {
    let key = state.sessions.key_of(&headers);
    if let Some(user) = key.and_then(|key| state.sessions.user(&key, Instant::now())) {
        audit(&state, ends.client, "logout", &user.name, "");
    }
    ([(SET_COOKIE, state.sessions.end(key))], Json(json!({}))).into_response()
}

/// Who the caller is, and what is here.
pub(crate) async fn session(State(state): State<Shared>, caller: Result<Caller, Failure>) -> Json<Value> {
    let caller = caller.ok();
    let user = caller.as_ref().map(|caller| &caller.user);
    let name = user.map(|user| user.name.as_str());
    let may = |what| user.is_some_and(|user| user.may(what, "*"));
    Json(json!({
        "user": name,
        "login": name.is_none(),
        "users": state.authenticator.has_users(),
        "anonymous": name == Some(ANONYMOUS),
        "admin": may(May::Admin),
        "create": may(May::Create),
        "version": env!("CARGO_PKG_VERSION"),
        "sql": state.server.query_engine().is_some(),
    }))
}

fn audit(state: &Shared, client: SocketAddr, event: &str, user: &str, what: &str) {
    let address = format!("http {client}");
    state.server.audit(AuditEntry { event, user, address: &address, stream: "", what });
}
