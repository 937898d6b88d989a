//! Messages of a stream, in pages.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::params::{Params, names, time};
use crate::state::Shared;
use crate::value::{write_message, write_text};
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tapedb_access::May;
use tapedb_engine::{CursorBuilder, Stream};
use tapedb_schema::Timestamp;

const LIMIT_DEFAULT: usize = 200;
const LIMIT_MAX: usize = 10_000;
/// A page ends after so many bytes, whatever its limit.
const PAGE_BYTES_MAX: usize = 8 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Selection {
    #[serde(default, deserialize_with = "time")]
    from: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    to: Option<Timestamp>,
    #[serde(default, deserialize_with = "names")]
    symbols: Vec<String>,
    #[serde(default, deserialize_with = "names")]
    types: Vec<String>,
    limit: Option<usize>,
    #[serde(default)]
    order: Order,
    position: Option<String>,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Asc,
    Desc,
}

/// A page of messages.
pub(crate) async fn read(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Params(selection): Params<Selection>,
) -> Result<Response, Failure> {
    let page = state.workers.run(move || {
        let stream = caller.stream(&name, May::Read)?;
        page(&caller, &stream, &selection)
    });
    Ok(([(CONTENT_TYPE, "application/json")], page.await?).into_response())
}

/// A cursor over what is selected. The end of the range is not included.
pub(crate) fn selected(
    stream: &Stream,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    symbols: &[String],
) -> CursorBuilder {
    let mut cursor = stream.cursor();
    if let Some(from) = from {
        cursor = cursor.from(from);
    }
    if let Some(to) = to {
        cursor = cursor.to(to);
    }
    if symbols.is_empty() { cursor } else { cursor.symbols(symbols) }
}

fn page(caller: &Caller, stream: &Stream, selection: &Selection) -> Result<Vec<u8>, Failure> {
    let failure = |error| caller.failure(error);
    let mut cursor = selected(stream, selection.from, selection.to, &selection.symbols);
    if !selection.types.is_empty() {
        cursor = cursor.types(&selection.types);
    }
    if selection.order == Order::Desc {
        cursor = cursor.reverse();
    }
    if let Some(position) = &selection.position {
        cursor = cursor.resume(&position.parse().map_err(failure)?);
    }
    let limit = selection.limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
    let mut cursor = cursor.open().map_err(failure)?;
    let mut out = b"{\"messages\":[".to_vec();
    let (mut count, mut damaged) = (0, 0u64);
    let next = loop {
        let position = cursor.position();
        let message = match cursor.next() {
            Ok(message) => message,
            // Damage: the cursor continues after it.
            Err(tapedb_engine::Error::Unreadable(_)) if damaged < LIMIT_MAX as u64 => {
                damaged += 1;
                continue;
            }
            Err(error) => return Err(failure(error)),
        };
        let Some(message) = message else { break None };
        if count >= limit || out.len() > PAGE_BYTES_MAX {
            break Some(position.to_string());
        }
        if count > 0 {
            out.push(b',');
        }
        write_message(&message, &mut out).map_err(failure)?;
        count += 1;
    };
    out.extend_from_slice(b"],\"next\":");
    match next {
        Some(next) => write_text(&next, &mut out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(format!(",\"damaged\":{damaged}}}").as_bytes());
    Ok(out)
}
