//! Names of objects below the URL of a tier: `docs/format/objects.md`.

use std::ops::Range;

/// Which database has the place.
pub(crate) const OWNER: &str = "tapedb-owner";
/// Probes of what a store promises; each has a random name behind it.
pub(crate) const PROBES: &str = "tapedb-probe/";
/// An object for each stream that has records, named by its id: what is listed to find them.
pub(crate) const INDEX: &str = "index/";
/// Content of such an object.
pub(crate) const INDEX_CONTENT: &[u8] = b"tapedb-stream 1\n";
/// The streams, by their ids.
pub(crate) const STREAMS: &str = "streams/";
/// An object has at most so many bytes of a segment: larger ones are several objects. A piece is in memory while it is stored.
pub(crate) const PIECE_BYTES: u64 = 64 << 20;

/// Extension of the file with the [foot](crate::objects::foot) of a segment, which has the name of the segment otherwise.
pub(crate) const FOOT_EXTENSION: &str = "foot";

/// All of a stream's objects begin with it.
pub(crate) fn of_stream(stream_id: u64) -> String {
    format!("{STREAMS}{stream_id:016x}/")
}

/// All records of a stream begin with it.
pub(crate) fn records(stream_id: u64) -> String {
    format!("{}records/", of_stream(stream_id))
}

/// The object that shows that a stream has records.
pub(crate) fn index(stream_id: u64) -> String {
    format!("{INDEX}{stream_id:016x}")
}

/// A record of a stream; records are numbered from 0.
pub(crate) fn record(stream_id: u64, number: u64) -> String {
    format!("{}{number:020}", records(stream_id))
}

/// The number of a record; `None` for other names.
pub(crate) fn number_of(key: &str) -> Option<u64> {
    let (_, number) = key.rsplit_once('/')?;
    (number.len() == 20).then(|| number.parse().ok()).flatten()
}

/// All segments of a space begin with it.
pub(crate) fn segments(stream_id: u64, space: u32) -> String {
    format!("{}{space}/", of_stream(stream_id))
}

/// A segment; its pieces are this, a dot, and their number from 0.
pub(crate) fn segment(stream_id: u64, space: u32, first_sequence: u64, number: u64, checksum: u64) -> String {
    format!("{}{first_sequence:020}-{number}-{checksum:016x}.seg", segments(stream_id, space))
}

/// A piece of a segment.
pub(crate) fn piece(segment: &str, piece: u64) -> String {
    format!("{segment}.{piece}")
}

/// The ranges of a segment that its pieces have.
pub(crate) fn pieces(bytes: u64) -> impl Iterator<Item = (u64, Range<u64>)> {
    (0..bytes.div_ceil(PIECE_BYTES)).map(move |piece| {
        let start = piece * PIECE_BYTES;
        (piece, start..bytes.min(start + PIECE_BYTES))
    })
}
