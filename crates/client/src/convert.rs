//! Conversions between the types of the engine and of the protocol.

use crate::address::Address;
use std::io;
use tapedb_codes::error;
use tapedb_engine as engine;
use tapedb_engine::{ConnectionError, Error, NotFound, Stale};
use tapedb_wire as wire;

/// The error of a refused client, with the address, which the server does not know.
pub(crate) fn refused(address: &Address, reason: wire::Coded) -> Error {
    let (place, why) = (address.to_string().into(), self::reason(&reason));
    Error::Connection(ConnectionError::Refused { place, why })
}

/// Why a server refuses or disconnects a client, as text.
pub(crate) fn reason(reason: &wire::Coded) -> String {
    match error::from_coded(reason) {
        Error::Connection(ConnectionError::Refused { why, .. }) => why,
        other => other.to_string(),
    }
}

/// An I/O error for file reads: its kind shows whether the file exists.
pub(crate) fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        Error::NotFound(NotFound::Stream { .. })
        | Error::Stale(Stale::Deleted { .. })
        | Error::Stale(Stale::Renamed { .. }) => io::Error::new(io::ErrorKind::NotFound, error),
        other => io::Error::other(other),
    }
}

/// What the client has cached of a stream.
pub(crate) fn cached(known: &engine::CachedStream) -> wire::CachedStream {
    let of_space = |space: &engine::CachedSpace| wire::CachedSpace {
        generation: space.generation,
        next_sequence: space.next_sequence,
    };
    wire::CachedStream {
        stream_id: known.stream_id,
        run: known.run,
        revision: known.revision,
        symbols: known.symbols,
        spaces: known.spaces.iter().map(of_space).collect(),
    }
}

/// The description of a stream.
pub(crate) fn description(from: &wire::Description<'_>) -> engine::Description {
    engine::Description {
        name: from.name.into(),
        stream_id: from.stream_id,
        run: from.run,
        revision: from.revision,
        definition: from.definition.map(Vec::from),
        position_id: from.position_id,
        symbols_from: from.symbols_from,
        symbols: from.symbols.iter().map(|name| (*name).into()).collect(),
        spaces: from.spaces.iter().map(space).collect(),
    }
}

fn space(from: &wire::SpaceDescription<'_>) -> engine::SpaceDescription {
    engine::SpaceDescription {
        generation: from.generation,
        manifest: from.manifest.map(Vec::from),
        log: engine::LogDescription {
            first_sequence: from.first_sequence,
            next_sequence: from.next_sequence,
            granules: from.granules.iter().map(granule).collect(),
            files: from.files.clone(),
        },
    }
}

fn granule(from: &wire::Granule) -> engine::Granule {
    let wire::Granule { file, offset, len, first_sequence, count, time_min, time_max, sorted } = *from;
    engine::Granule { file, offset, len, first_sequence, count, time_min, time_max, sorted }
}

/// Whether a read only timed out.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
