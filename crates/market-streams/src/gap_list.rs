//! Gaps that concern a symbol. A gap may carry the symbol of a channel or file: it then concerns all symbols.

use crate::replay::BookReplay;
use std::collections::HashMap;
use tapedb_codec::Record;
use tapedb_engine::{CursorBuilder, Error, Stream};
use tapedb_market::Gap;
use tapedb_schema::Timestamp;

/// A gap, and where it stands among the messages.
#[derive(Debug, Clone)]
pub(crate) struct GapAt {
    pub(crate) time: Timestamp,
    pub(crate) sequence: u64,
    pub(crate) gap: Gap,
}

/// The gaps among what a cursor reads that concern a symbol, in time order.
///
/// # Errors
/// The engine's.
pub(crate) fn gaps_of(
    stream: &Stream,
    replay: &BookReplay,
    symbol: &str,
    cursor: CursorBuilder,
) -> Result<Vec<GapAt>, Error> {
    if !replay.has_gaps() {
        return Ok(Vec::new());
    }
    let mut found: Vec<(String, GapAt)> = Vec::new();
    let mut cursor = cursor.types([Gap::NAME]).open()?;
    while let Some(message) = cursor.next()? {
        let (time, sequence) = (message.time(), message.sequence());
        found.push((message.symbol().into(), GapAt { time, sequence, gap: message.decode()? }));
    }
    let mut others: HashMap<String, bool> = HashMap::new();
    let mut gaps = Vec::new();
    for (of, gap) in found {
        let is_of_another = of != symbol
            && match others.get(&of) {
                Some(known) => *known,
                None => {
                    let has_book = has_messages(stream, &replay.types(), &of, gap.time)?;
                    others.insert(of, has_book);
                    has_book
                }
            };
        if !is_of_another {
            gaps.push(gap);
        }
    }
    Ok(gaps)
}

/// Whether a symbol has messages of these types before a time: it is then an instrument, and no channel or file.
pub(crate) fn has_messages<S: Clone + Into<String>>(
    stream: &Stream,
    types: &[S],
    symbol: &str,
    before: Timestamp,
) -> Result<bool, Error> {
    let mut cursor = stream.cursor().types(types.iter().cloned()).symbols([symbol]).to(before).open()?;
    Ok(cursor.next()?.is_some())
}
