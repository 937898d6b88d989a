//! What requests state: parameters of the address, and bodies in JSON.

use crate::failure::Failure;
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use tapedb_schema::Timestamp;
use tokio::time::timeout;

use crate::state::Shared;

/// Symbols or record types in one request.
const NAMES_MAX: usize = 10_000;

/// The parameters of the address, with a failure in JSON.
pub(crate) struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(error) => Err(Failure::invalid(error.body_text())),
        }
    }
}

/// A number in the path, with a failure in JSON: what is no number names nothing.
pub(crate) struct Id(pub u64);

impl FromRequestParts<Shared> for Id {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &Shared) -> Result<Self, Failure> {
        match Path::<u64>::from_request_parts(parts, state).await {
            Ok(Path(id)) => Ok(Self(id)),
            Err(_) => Err(Failure::not_found("there is nothing of this number")),
        }
    }
}

/// A body in JSON, which must be declared as such, and arrive in time.
pub(crate) struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Shared> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Failure> {
        let read = timeout(state.options.limits.body_time, Json::<T>::from_request(request, state));
        let Ok(read) = read.await else {
            return Err(Failure::form(
                StatusCode::REQUEST_TIMEOUT,
                "the body of the request did not arrive in time",
            ));
        };
        match read {
            Ok(Json(value)) => Ok(Self(value)),
            Err(JsonRejection::MissingJsonContentType(_)) => {
                let text = "the body must be JSON: set `Content-Type: application/json`";
                Err(Failure::form(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
            }
            Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                let text = format!("the body has more than {} bytes", state.options.limits.body_bytes_max);
                Err(Failure::form(StatusCode::PAYLOAD_TOO_LARGE, text))
            }
            Err(error) => Err(Failure::invalid(error.body_text())),
        }
    }
}

/// A time: nanoseconds since 1970, or as in 2024-01-02T14:30:00Z.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    text.map(|text| parse_time(text).map_err(D::Error::custom)).transpose()
}

/// As [`time`].
///
/// # Errors
/// What is expected.
pub(crate) fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Ok(nanos) = text.parse() {
        return Ok(Timestamp(nanos));
    }
    text.parse().map_err(|error| {
        format!("{text:?} is no time ({error}); give nanoseconds since 1970, or a text such as 2024-01-02T14:30:00Z")
    })
}

/// Names with commas between them; empty: none.
pub(crate) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    let names: Vec<String> = text.split(',').filter(|name| !name.is_empty()).map(Into::into).collect();
    if names.len() > NAMES_MAX {
        return Err(D::Error::custom(format!("at most {NAMES_MAX} names")));
    }
    Ok(names)
}
