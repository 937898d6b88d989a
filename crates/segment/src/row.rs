//! The header of a message.

/// The header of a message: everything but its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowHeader {
    /// Nanoseconds since the Unix epoch.
    pub time: i64,
    /// Number of the message in its space.
    pub sequence: u64,
    /// Id in the stream's dictionary of symbols.
    pub symbol: u32,
    /// Id of the record type in the stream's schema.
    pub type_id: u16,
}
