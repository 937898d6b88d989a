//! Which messages a request needs, and what each symbol of a stream is wanted for.

use crate::json;
use crate::request::{Place, Selection};
use crate::snapshots::Samples;
use std::collections::HashSet;
use tapedb_codec::Record;
use tapedb_engine::{Cursor, Database, Error, Stream};
use tapedb_market::{Gap, Liquidation, MarketByPrice, Order, Package};
use tapedb_schema::{Ascii, Timestamp};

/// The record types that messages are made of.
const TYPES: [&str; 5] = [Package::NAME, Order::NAME, MarketByPrice::NAME, Liquidation::NAME, Gap::NAME];

/// What a symbol of a stream is wanted for.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) symbol: String,
    /// The symbol as JSON.
    pub(crate) json: Vec<u8>,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) has_snapshots: bool,
}

/// An option that has a symbol.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Its place in the list of options.
    pub(crate) selection: usize,
    pub(crate) samples: Samples,
}

impl Plan {
    pub(crate) fn new(symbol: &str, stream: usize, selections: &[Selection]) -> Self {
        let has = |(at, selection): (usize, &Selection)| {
            let is_there = selection.is_of(stream) && selection.has_symbol(symbol);
            is_there.then(|| Wanted { selection: at, samples: Samples::default() })
        };
        let wanted: Vec<Wanted> = selections.iter().enumerate().filter_map(has).collect();
        let has_snapshots = wanted.iter().any(|wanted| !selections[wanted.selection].snapshots.is_empty());
        let mut name = Vec::new();
        json::text(symbol, &mut name);
        Self { symbol: symbol.into(), json: name, wanted, has_snapshots }
    }
}

impl Selection {
    /// Whether messages of a stream may be wanted.
    pub(crate) fn is_of(&self, stream: usize) -> bool {
        match self.place {
            Place::Stream(at) => at == stream,
            Place::Exchange(_) => true,
        }
    }

    pub(crate) fn has_symbol(&self, symbol: &str) -> bool {
        self.symbols.as_ref().is_none_or(|symbols| symbols.contains(symbol))
    }

    #[inline]
    pub(crate) fn has_time(&self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time < to)
    }

    /// Whether messages of an exchange are wanted, as they name it.
    #[inline]
    pub(crate) fn has_exchange(&self, exchange: Option<Ascii<8>>) -> bool {
        match self.place {
            Place::Stream(_) => true,
            Place::Exchange(wanted) => exchange == Some(wanted),
        }
    }

    fn needs_gaps(&self) -> bool {
        self.has_disconnects || !self.snapshots.is_empty()
    }
}

/// The messages that a request needs.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) cursor: Cursor,
    /// Of each stream: symbols of gaps that are no instruments but channels or files. Their gaps concern all symbols.
    pub(crate) channels: Vec<HashSet<String>>,
}

/// Opens what a request needs.
///
/// # Errors
/// The engine's.
pub(crate) fn open(db: &Database, streams: &[Stream], selections: &[Selection]) -> Result<Source, Error> {
    let is_used = |at: &usize| selections.iter().any(|selection| selection.is_of(*at));
    let used: Vec<usize> = (0..streams.len()).filter(is_used).collect();
    let has_type = |name: &&str| used.iter().any(|&at| streams[at].schema().record(name).is_some());
    let mut cursor = db.cursor(used.iter().map(|&at| streams[at].name()))?;
    cursor = cursor.types(TYPES.into_iter().filter(has_type));
    let from: Option<Vec<Timestamp>> = selections.iter().map(|selection| selection.from).collect();
    if let Some(from) = from.and_then(|all| all.into_iter().min()) {
        cursor = cursor.from(from);
    }
    let to: Option<Vec<Timestamp>> = selections.iter().map(|selection| selection.to).collect();
    if let Some(to) = to.and_then(|all| all.into_iter().max()) {
        cursor = cursor.to(to);
    }
    let mut channels = vec![HashSet::new(); streams.len()];
    if selections.iter().any(|selection| selection.symbols.is_some() && selection.needs_gaps()) {
        for &at in &used {
            channels[at] = channels_of(&streams[at])?;
        }
    }
    let symbols: Option<Vec<&HashSet<String>>> =
        selections.iter().map(|selection| selection.symbols.as_ref()).collect();
    if let Some(symbols) = symbols {
        let mut all: HashSet<&String> = symbols.into_iter().flatten().collect();
        all.extend(channels.iter().flatten());
        cursor = cursor.symbols(all);
    }
    Ok(Source { cursor: cursor.open()?, channels })
}

/// Symbols that have gaps and no other messages.
fn channels_of(stream: &Stream) -> Result<HashSet<String>, Error> {
    let schema = stream.schema();
    if schema.record(Gap::NAME).is_none() {
        return Ok(HashSet::new());
    }
    let mut found = HashSet::new();
    let mut cursor = stream.cursor().types([Gap::NAME]).open()?;
    while let Some(message) = cursor.next()? {
        if !found.contains(message.symbol()) {
            found.insert(message.symbol().to_string());
        }
    }
    let others = schema.records.iter().filter(|record| record.message && record.name != Gap::NAME);
    let others: Vec<&str> = others.map(|record| record.name.as_str()).collect();
    let mut channels = HashSet::new();
    for symbol in found {
        let mut cursor = stream.cursor().types(others.iter().copied()).symbols([&symbol]).open()?;
        if cursor.next()?.is_none() {
            channels.insert(symbol);
        }
    }
    Ok(channels)
}
