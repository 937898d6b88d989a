//! Users and their rights, for those who may administer all streams.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::params::Body;
use crate::state::Shared;
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use tapedb_access::{ConfigError, EditError, Right, User, hash_password};

/// The users. No secret and no hash of one is in it.
pub(crate) async fn list(State(state): State<Shared>, caller: Caller) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    let users = state.authenticator.logins().users();
    let rows = users.users.iter().map(|user| {
        let tokens: Vec<&str> = user.tokens.iter().map(|token| token.name.as_str()).collect();
        json!({ "name": user.name, "rights": user.rights, "password": user.password.is_some(), "tokens": tokens })
    });
    Ok(Json(json!({ "users": rows.collect::<Vec<_>>() })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    password: Option<String>,
    rights: Option<Vec<Right>>,
}

/// Adds a user, or changes its password, its rights, or both.
pub(crate) async fn put(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Body(change): Body<Change>,
) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    let shared = state.clone();
    let changed = state.workers.run(move || {
        let password = change.password.as_deref().map(hash_password).transpose().map_err(Failure::invalid)?;
        let parts: Vec<&str> = [(password.is_some(), "password"), (change.rights.is_some(), "rights")]
            .into_iter()
            .filter_map(|(is_changed, part)| is_changed.then_some(part))
            .collect();
        let edited = shared.server.edit_users(|users| {
            if users.get(&name).is_none() {
                users.users.push(User { name: name.clone(), ..User::default() });
            }
            let missing = || ConfigError("the user was removed".into());
            let user = users.get_mut(&name).ok_or_else(missing)?;
            if password.is_some() {
                user.password = password;
            }
            if let Some(rights) = change.rights {
                user.rights = rights;
            }
            Ok(())
        });
        audit(&caller, "user", &name, &parts.join(" and "), &edited);
        edited.map_err(Failure::of_edit)?;
        Ok(json!({}))
    });
    changed.await.map(Json)
}

/// Removes a user.
pub(crate) async fn delete(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, Failure> {
    caller.check_admin()?;
    let shared = state.clone();
    let deleted = state.workers.run(move || {
        let mut is_found = false;
        let edited = shared.server.edit_users(|users| {
            is_found = users.get(&name).is_some();
            users.users.retain(|user| user.name != name);
            Ok(())
        });
        audit(&caller, "delete-user", &name, "", &edited);
        edited.map_err(Failure::of_edit)?;
        if is_found { Ok(json!({})) } else { Err(Failure::not_found(format!("there is no user {name:?}"))) }
    });
    deleted.await.map(Json)
}

fn audit(caller: &Caller, event: &str, name: &str, what: &str, edited: &Result<(), EditError>) {
    let failed = edited.as_ref().err().map(|error| format!(", failed: {error}")).unwrap_or_default();
    let of = if what.is_empty() { String::new() } else { format!(": {what}") };
    caller.audit(event, "", &format!("{name}{of}{failed}"));
}
