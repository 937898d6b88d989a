//! What the parsers of venues' frames share: JSON scalars as they are written, messages and what is counted beside them, checks of sequences and
//! checksums.

pub(super) mod by_symbol;
pub(super) mod chain;
pub(super) mod checked_book;
pub(super) mod ids;
pub(super) mod messages;
pub(super) mod scalar;
pub(super) mod times;

use crate::fields::BadLine;
use messages::Messages;

/// The frames of one venue on one connection: from text to messages, with whatever state that needs.
///
/// A frame that is refused leaves no messages but gaps; its part of the state may have changed, which a later check of the sequence or
/// the checksum shows.
pub(super) trait Frames: Send {
    /// A connection was opened; it is not the first one of this parser if `again`.
    fn opened(&mut self, again: bool, out: &mut Messages) -> Result<(), BadLine>;

    /// A frame that was received.
    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine>;

    /// The answer to an HTTP request.
    fn answer(&mut self, url: &str, _body: &str, out: &mut Messages) -> Result<(), BadLine> {
        out.unknown(&path_of(url));
        Ok(())
    }
}

/// Address without its scheme, host and query.
pub(super) fn path_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |slash| &rest[slash..]);
    path.split('?').next().unwrap_or(path).to_string()
}
