//! Conversions between the types of the engine and of the protocol, which do not depend on each other.

use tapedb_engine::{CachedSpace, CachedStream, ConnectionError, Error, Granule, SpaceDescription};
use tapedb_wire as wire;

/// Bytes of symbols in one description or push; the client requests the rest.
pub(crate) const SYMBOL_BYTES_MAX: usize = 4 << 20;

/// An error, for the client.
pub(crate) fn failure(error: &Error) -> wire::Coded {
    tapedb_codes::error::to_coded(error)
}

/// The reason why a client is refused or disconnected.
pub(crate) fn refusal(place: &str, why: &str) -> wire::Coded {
    failure(&Error::Connection(ConnectionError::Refused { place: place.into(), why: why.into() }))
}

/// What a client of a version of the protocol has cached.
pub(crate) fn known(known: wire::CachedStream, version: u16) -> CachedStream {
    let wire::CachedStream { stream_id, run, revision, symbols, spaces } = known;
    let space = |space: wire::CachedSpace| {
        let wire::CachedSpace { generation, next_sequence } = space;
        CachedSpace { generation, next_sequence }
    };
    let spaces = spaces.into_iter().map(space).collect();
    let takes_changes = version >= wire::VERSION_CHANGES;
    CachedStream { stream_id, run, revision, symbols, spaces, takes_changes }
}

/// The description of a stream.
pub(crate) fn description(description: &tapedb_engine::Description) -> wire::Description<'_> {
    let tapedb_engine::Description { name, stream_id, run, revision, definition, .. } = description;
    let symbols = &description.symbols;
    let sent = within(symbols, SYMBOL_BYTES_MAX);
    wire::Description {
        name,
        stream_id: *stream_id,
        run: *run,
        position_id: description.position_id,
        revision: *revision,
        definition: definition.as_deref(),
        symbols_from: description.symbols_from,
        symbols: symbols[..sent].iter().map(String::as_str).collect(),
        symbols_total: description.symbols_from + symbols.len() as u32,
        spaces: description.spaces.iter().map(space).collect(),
    }
}

fn space(space: &SpaceDescription) -> wire::SpaceDescription<'_> {
    let SpaceDescription { generation, manifest, log } = space;
    wire::SpaceDescription {
        generation: *generation,
        manifest: manifest.as_deref(),
        first_sequence: log.first_sequence,
        next_sequence: log.next_sequence,
        files: log.files.clone(),
        granules: log.granules.iter().map(granule).collect(),
    }
}

fn granule(granule: &Granule) -> wire::Granule {
    let Granule { file, offset, len, first_sequence, count, time_min, time_max, sorted } = *granule;
    wire::Granule { file, offset, len, first_sequence, count, time_min, time_max, sorted }
}

/// How many of the texts fit the limit; at least one.
pub(crate) fn within(texts: &[String], bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fits = |text: &&String| {
        bytes += text.len() + 4;
        bytes <= bytes_max
    };
    texts.iter().take_while(fits).count().max(1).min(texts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_symbols_go_in_several_pieces() {
        let texts: Vec<String> = (0..10).map(|_| "x".repeat(6)).collect();
        assert_eq!(within(&texts, 35), 3);
        assert_eq!(within(&texts, 5), 1, "at least one, or there would be no progress");
        assert_eq!(within(&texts[..0], 5), 0);
        assert_eq!(within(&texts, 100), 10);
    }
}
