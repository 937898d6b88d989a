//! Gaps that concern a symbol. A gap may carry the symbol of a channel or file: it then concerns all symbols.

use crate::replay::BookReplay;
use std::collections::HashMap;
use tapedb_codec::Record;
use tapedb_engine::{CursorBuilder, Error, Message, Stream};
use tapedb_market::Gap;
use tapedb_schema::Timestamp;

/// Where a message stands among those of its stream: equal times are in the order of the spaces.
pub(crate) type Place = (Timestamp, u32, u64);

/// A gap, and where it stands among the messages.
#[derive(Debug, Clone)]
pub(crate) struct GapAt {
    pub(crate) place: Place,
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
        found.push((message.symbol().into(), GapAt { place: place_of(&message), gap: message.decode()? }));
    }
    let mut firsts: HashMap<String, Option<Place>> = HashMap::new();
    let mut gaps = Vec::new();
    for (of, gap) in found {
        let is_of_another = of != symbol
            && match firsts.get(&of) {
                Some(first) => *first,
                None => {
                    let first = first_message(stream, &replay.types(), &of)?;
                    firsts.insert(of, first);
                    first
                }
            }
            .is_some_and(|first| first < gap.place);
        if !is_of_another {
            gaps.push(gap);
        }
    }
    Ok(gaps)
}

/// Where a message stands.
pub(crate) fn place_of(message: &Message<'_>) -> Place {
    (message.time(), message.space(), message.sequence())
}

/// Where the first message of these types of a symbol stands: from there on it is an instrument, and no channel or file.
fn first_message(stream: &Stream, types: &[&str], symbol: &str) -> Result<Option<Place>, Error> {
    let mut cursor = stream.cursor().types(types.iter().copied()).symbols([symbol]).open()?;
    Ok(cursor.next()?.map(|message| place_of(&message)))
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
