//! What the engine says as the wire says it, and back.

use crate::address::Address;
use std::io;
use tapedb_engine as engine;
use tapedb_engine::Error;
use tapedb_wire as wire;

/// What the wire carries as the engine's parts.
pub(crate) fn from_wire(parts: &wire::Parts) -> engine::Parts {
    let numbers = parts.numbers.iter().map(|number| number.cast_unsigned()).collect();
    engine::Parts { code: parts.code, texts: parts.texts.clone(), numbers }
}

/// The engine's parts as the wire carries them.
pub(crate) fn to_wire(parts: engine::Parts) -> wire::Parts {
    let numbers = parts.numbers.iter().map(|number| number.cast_signed()).collect();
    wire::Parts { code: parts.code, texts: parts.texts, numbers }
}

/// The error that a server tells of.
pub(crate) fn error(parts: &wire::Parts) -> Error {
    Error::from_parts(&from_wire(parts))
}

/// Why a server does not let a client in: it does not know how it is called here.
pub(crate) fn refused(address: &Address, parts: wire::Parts) -> Error {
    let place = address.to_string();
    match error(&parts) {
        Error::Refused { why, .. } => Error::Refused { place, why },
        other => Error::Refused { place, why: other.to_string() },
    }
}

/// An error as one of reading a file: its kind says whether there is such a file.
pub(crate) fn io_error(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        Error::NoStream { .. } | Error::Deleted { .. } | Error::Renamed { .. } => {
            io::Error::new(io::ErrorKind::NotFound, error)
        }
        other => io::Error::other(other),
    }
}

/// What is known of a stream.
pub(crate) fn known(known: &engine::Known) -> wire::Known {
    let of_space = |space: &engine::KnownSpace| wire::KnownSpace {
        generation: space.generation,
        next_sequence: space.next_sequence,
    };
    wire::Known {
        stream_id: known.stream_id,
        run: known.run,
        revision: known.revision,
        symbols: known.symbols,
        spaces: known.spaces.iter().map(of_space).collect(),
    }
}

/// What a stream is.
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
