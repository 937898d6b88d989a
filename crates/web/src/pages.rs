//! The pages without a login: health, status and metrics. They contain only numbers and names.

use crate::failure::Failure;
use crate::state::Shared;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

const JSON: [(axum::http::HeaderName, &str); 1] = [(CONTENT_TYPE, "application/json")];

/// `/health`.
pub(crate) async fn health(State(state): State<Shared>) -> Result<Response, Failure> {
    let server = state.server.clone();
    let (is_well, text) = state.workers.run(move || Ok(server.health())).await?;
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((status, JSON, text).into_response())
}

/// `/status`.
pub(crate) async fn status(State(state): State<Shared>) -> Result<Response, Failure> {
    let server = state.server.clone();
    let text = state.workers.run(move || Ok(server.status(None))).await?;
    Ok((JSON, text).into_response())
}

/// `/metrics`.
pub(crate) async fn metrics(State(state): State<Shared>) -> Result<Response, Failure> {
    let server = state.server.clone();
    let text = state.workers.run(move || Ok(server.metrics())).await?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
