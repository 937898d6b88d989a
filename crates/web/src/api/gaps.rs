//! What is missing in a stream.

use crate::api::messages::selected;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::market::gap_json;
use crate::params::{Params, names, time};
use crate::state::Shared;
use crate::work;
use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use tapedb_access::May;
use tapedb_market_streams::{GapScan, Pass};
use tapedb_schema::Timestamp;

/// Messages between two checks whether the scan is still wanted.
const STEP: u64 = 50_000;
const GAPS_MAX: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    #[serde(default, deserialize_with = "names")]
    symbols: Vec<String>,
    #[serde(default, deserialize_with = "time")]
    from: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    to: Option<Timestamp>,
}

/// The gaps, and the verdict.
pub(crate) async fn read(
    State(state): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Params(Wanted { symbols, from, to }): Params<Wanted>,
) -> Result<Json<Value>, Failure> {
    let scanned = state.workers.run(move || {
        let stream = caller.stream(&name, May::Read)?;
        let failure = |error| caller.failure(error);
        let cursor = selected(&stream, from, to, &[]);
        let mut scan = GapScan::open(&stream, cursor, &symbols, None).map_err(failure)?;
        let (mut found, mut gaps, mut count) = (Vec::new(), Vec::new(), 0);
        loop {
            let pass = scan.step(STEP, &mut found).map_err(failure)?;
            count += found.len();
            for gap in found.drain(..).take(GAPS_MAX - gaps.len()) {
                gaps.push(gap_json(&gap.symbol, gap.time, &gap.gap));
            }
            if pass == Pass::UpToDate {
                break;
            }
            work::check()?;
        }
        let summary = scan.summary();
        Ok(json!({
            "verdict": summary.verdict().name(),
            "gaps": gaps,
            "count": count,
            "own_drops": summary.own_drops,
            "messages": summary.messages.to_string(),
            "symbols_complete": summary.complete,
            "symbols_with_gaps": summary.with_gaps,
            "symbols_unverifiable": summary.unverifiable,
        }))
    });
    scanned.await.map(Json)
}
