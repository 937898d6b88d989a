//! The book of a symbol at any stored time.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::market::{DEPTH_MAX, books};
use crate::params::{Params, time};
use crate::state::Shared;
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::Value;
use tapedb_access::May;
use tapedb_engine::Stream;
use tapedb_market_streams::StreamBooks;
use tapedb_schema::Timestamp;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    symbol: String,
    #[serde(default, deserialize_with = "time")]
    at: Option<Timestamp>,
    depth: Option<usize>,
}

/// The book after all messages up to a time.
pub(crate) async fn read(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<Value>, Failure> {
    let shared = state.clone();
    let found = state.workers.run(move || {
        let stream = caller.stream(&name, May::Read)?;
        check_symbol(&stream, &wanted.symbol)?;
        let at = match wanted.at {
            Some(at) => at,
            None => {
                let range = stream.cursor().time_range().map_err(|error| caller.failure(error))?;
                range.map_or(Timestamp(0), |(_, last)| last)
            }
        };
        let db = shared.server.database();
        let found = stream.recent_book_at(db, &shared.books, &wanted.symbol, at);
        let found = found.map_err(|error| Failure::of_book(&caller.user, error))?;
        Ok(books(&found.books, found.time, wanted.depth.unwrap_or(20).min(DEPTH_MAX)))
    });
    found.await.map(Json)
}

/// Checks that a stream has a symbol.
///
/// # Errors
/// 404.
pub(crate) fn check_symbol(stream: &Stream, symbol: &str) -> Result<(), Failure> {
    if stream.symbols().iter().any(|known| known == symbol) {
        return Ok(());
    }
    Err(Failure::not_found(format!("stream {:?} has no symbol {symbol:?}", stream.name())))
}
