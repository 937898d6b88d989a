//! Errors as answers: a status, a text and a word.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use tapedb_access::{EditError, User, redacted};
use tapedb_engine::{ConnectionError, Error, NotFound, QueryFailure};
use tapedb_market_streams::BookError;

/// Why a request is refused or has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub status: StatusCode,
    /// A word for programs.
    pub code: &'static str,
    pub text: String,
}

impl Failure {
    fn new(status: StatusCode, code: &'static str, text: impl Into<String>) -> Self {
        Self { status, code, text: text.into() }
    }

    /// The request is not valid.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", text)
    }

    /// What is named does not exist, or the user may not see it.
    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", text)
    }

    /// There is no such stream, or the user may not see it.
    pub fn no_stream(name: &str) -> Self {
        Self::not_found(format!("there is no stream {name:?}"))
    }

    /// A login is needed.
    pub fn login() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "login", "log in first")
    }

    /// The credentials are wrong.
    pub fn wrong() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "wrong", "the name, the password or the token is wrong")
    }

    /// Too many attempts or requests.
    pub fn too_many(text: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", text)
    }

    /// The user lacks a right.
    pub fn denied(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "denied", text)
    }

    /// The request comes from another origin, or is for another host.
    pub fn foreign(status: StatusCode, text: impl Into<String>) -> Self {
        Self::new(status, "foreign", text)
    }

    /// The request has another form than expected.
    pub fn form(status: StatusCode, text: impl Into<String>) -> Self {
        Self::new(status, "form", text)
    }

    /// The server lacks something.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", text)
    }

    /// The server has failed.
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", text)
    }

    /// An error of the engine, without the names of streams that the user may not see.
    pub fn of(user: &User, error: Error) -> Self {
        let error = redacted(user, error);
        let text = error.to_string();
        match error {
            Error::NotFound(NotFound::Stream { name, .. }) => Self::no_stream(&name),
            Error::NotFound(_) => Self::not_found(text),
            Error::Stale(_) => Self::new(StatusCode::CONFLICT, "stale", text),
            Error::Denied { .. } => Self::denied(text),
            Error::Invalid(_) | Error::Rejected(_) => Self::invalid(text),
            Error::Query { failure: QueryFailure::Limit, .. } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "limit", text)
            }
            Error::Query { .. } => Self::new(StatusCode::BAD_REQUEST, "query", text),
            Error::Connection(ConnectionError::Refused { .. }) => Self::too_many(text),
            _ => Self::internal(text),
        }
    }

    /// Users that were not changed: the request is wrong, or the server cannot write its file.
    pub fn of_edit(error: EditError) -> Self {
        let text = error.to_string();
        match error {
            EditError::Refused(_) => Self::invalid(text),
            EditError::Storage { is_full: true, .. } => Self::full(text),
            EditError::Storage { is_full: false, .. } => Self::internal(text),
        }
    }

    /// The disk has no space.
    pub fn full(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "full", text)
    }

    /// An error of books.
    pub fn of_book(user: &User, error: BookError) -> Self {
        match error {
            BookError::Stream(error) => Self::of(user, error),
            error => Self::invalid(error.to_string()),
        }
    }

    /// The answer's body.
    pub fn json(&self) -> String {
        serde_json::json!({ "error": self.text, "code": self.code }).to_string()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, [(CONTENT_TYPE, "application/json")], self.json()).into_response()
    }
}
