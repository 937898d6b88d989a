//! How many messages a stream has, by time: for the time bar of the console. Counted from catalogs and the heads of blocks, so that a
//! billion messages take no longer than their blocks.

use crate::api::messages::selected;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::params::{Params, names, time};
use crate::state::Shared;
use crate::work;
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use tapedb_access::May;
use tapedb_engine::{Error, Stream};
use tapedb_schema::Timestamp;

/// A bucket opens a cursor.
const BUCKETS_MAX: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default, deserialize_with = "time")]
    from: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    to: Option<Timestamp>,
    buckets: Option<usize>,
    #[serde(default, deserialize_with = "names")]
    symbols: Vec<String>,
}

/// Counts by ranges of time.
pub(crate) async fn read(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Params(wanted): Params<Wanted>,
) -> Result<Json<Value>, Failure> {
    let counted = state.workers.run(move || {
        let stream = caller.stream(&name, May::Read)?;
        let failure = |error| caller.failure(error);
        let Range { from, to } = range(&stream, wanted.from, wanted.to, &wanted.symbols).map_err(failure)?;
        let buckets = wanted.buckets.unwrap_or(200).clamp(1, BUCKETS_MAX);
        let bound = |bucket: usize| part_of(from, to, bucket, buckets);
        let mut counts = Vec::with_capacity(buckets);
        for bucket in 0..buckets {
            work::check()?;
            let (begin, end) = (bound(bucket), bound(bucket + 1));
            let count = match begin < end {
                true => selected(&stream, Some(begin), Some(end), &wanted.symbols)
                    .stated_count()
                    .map_err(failure)?,
                false => 0,
            };
            counts.push(count);
        }
        let text = |time: Timestamp| time.nanos().to_string();
        Ok(json!({ "from": text(from), "to": text(to), "counts": counts, "exact": true }))
    });
    counted.await.map(Json)
}

/// A range of time, its end not included.
pub(crate) struct Range {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// The range that is asked for, or else that of the stream's messages.
///
/// # Errors
/// The engine's.
pub(crate) fn range(
    stream: &Stream,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    symbols: &[String],
) -> Result<Range, Error> {
    if let (Some(from), Some(to)) = (from, to) {
        return Ok(Range { from, to: to.max(from) });
    }
    let found = selected(stream, from, to, symbols).time_range()?;
    let (first, last) = found.unwrap_or((Timestamp(0), Timestamp(0)));
    let from = from.unwrap_or(first);
    let to = to.unwrap_or(Timestamp(last.nanos().saturating_add(1)));
    Ok(Range { from, to: to.max(from) })
}

/// The beginning of a part of a range that is divided into equal parts.
pub(crate) fn part_of(from: Timestamp, to: Timestamp, part: usize, parts: usize) -> Timestamp {
    let length = i128::from(to.nanos()) - i128::from(from.nanos());
    Timestamp((i128::from(from.nanos()) + length * part as i128 / parts as i128) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_widest_range() {
        let (from, to) = (Timestamp(i64::MIN), Timestamp(i64::MAX));
        assert_eq!((part_of(from, to, 0, 7), part_of(from, to, 7, 7)), (from, to));
        assert_eq!(part_of(Timestamp(10), Timestamp(20), 1, 2), Timestamp(15));
    }
}
