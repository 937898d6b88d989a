//! What lines of a message begin with.

use tapedb_engine::Message;
use tapedb_schema::Timestamp;

/// What a message has beside its record.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Name of its stream.
    pub stream: &'a str,
    pub symbol: &'a str,
    pub time: Timestamp,
}

impl<'a> Head<'a> {
    /// The head of a message.
    #[inline]
    pub fn of(message: &Message<'a>) -> Self {
        Self { stream: message.stream_name(), symbol: message.symbol(), time: message.time() }
    }
}
