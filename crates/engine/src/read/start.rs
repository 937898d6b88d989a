//! The start of a cursor.

use crate::read::block::{Key, Order};
use crate::read::position::{Offset, Position};
use tapedb_schema::Timestamp;

/// After every message.
pub(crate) const AFTER_ALL: Key = (i64::MAX, u64::MAX);

/// The start of a cursor.
#[derive(Debug, Clone, Default)]
pub(crate) enum Start {
    /// With the first message, in the order of reading.
    #[default]
    First,
    /// After all stored messages.
    End,
    /// With this number of last messages.
    Last(u64),
    /// With the messages of these sequence numbers, one for each space, in order of arrival.
    Sequences(Vec<u64>),
    /// With the first message at this time or after it, in the order of reading.
    Time(Timestamp),
    /// At the position of another cursor.
    Position(Position),
}

impl Start {
    /// The offset in a space that ends before message `end`; `None`: at the beginning, or only a position states it.
    pub fn offset(&self, order: Order, end: u64) -> Option<Offset> {
        match self {
            Self::End => Some(Offset::Live { next: end }),
            Self::Time(time) => Some(Offset::History { end, after: before_time(order, time.0) }),
            _ => None,
        }
    }
}

/// The key before all messages of a time, in the order of reading.
fn before_time(order: Order, time: i64) -> Option<Key> {
    match order {
        Order::TimeReversed => Some((time.checked_add(1)?, 0)),
        _ => Some((time.checked_sub(1)?, u64::MAX)),
    }
}

/// The key just before a message, forwards.
pub(crate) fn before((time, sequence): Key) -> Option<Key> {
    match sequence.checked_sub(1) {
        Some(sequence) => Some((time, sequence)),
        None => before_time(Order::Time, time),
    }
}
