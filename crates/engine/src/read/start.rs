//! Where a cursor begins, and how that is found.

use crate::error::Error;
use crate::read::block::{Key, Order};
use crate::read::cursor::CursorBuilder;
use crate::read::merge_budget::MergeBudget;
use crate::read::position::{InStream, Place, Position};
use crate::space::reader::SpaceReader;
use crate::stream::reader::StreamReader;
use std::sync::{Arc, Mutex};
use tapedb_schema::Timestamp;

/// Behind every message.
const BEHIND_ALL: Key = (i64::MAX, u64::MAX);

/// Where a cursor begins.
#[derive(Debug, Clone, Default)]
pub(crate) enum Start {
    /// With the first message, in the order of reading.
    #[default]
    First,
    /// Behind all that there is.
    End,
    /// With the last so many messages.
    Last(u64),
    /// With the messages of these sequence numbers, one for each space, in order of arrival.
    Sequences(Vec<u64>),
    /// With the first message at this time or behind it, in the order of reading.
    Time(Timestamp),
    /// Where another cursor was.
    Position(Position),
}

impl Start {
    /// The place in a space that ends before message `end`; `None`: at the beginning, or not known before the position is.
    pub fn place(&self, order: Order, end: u64) -> Option<Place> {
        match self {
            Self::End => Some(Place::Live { next: end }),
            Self::Time(time) => Some(Place::History { end, after: before_time(order, time.0) }),
            _ => None,
        }
    }
}

/// The place before all messages of a time, in the order of reading.
fn before_time(order: Order, time: i64) -> Option<Key> {
    match order {
        Order::TimeReversed => Some((time.checked_add(1)?, 0)),
        _ => Some((time.checked_sub(1)?, u64::MAX)),
    }
}

/// The place just before a message, forwards.
fn before((time, sequence): Key) -> Option<Key> {
    match sequence.checked_sub(1) {
        Some(sequence) => Some((time, sequence)),
        None => before_time(Order::Time, time),
    }
}

/// The place of a space, as a position says it.
fn in_stream(stream: &StreamReader, space: &SpaceReader, place: Place) -> InStream {
    InStream { name: stream.name.clone(), id: Some(stream.position_id), space: space.number, place }
}

impl CursorBuilder {
    /// The position that comes to the same as the start; `None` where none is needed.
    ///
    /// # Errors
    /// When there is no such place, or it cannot be looked for.
    pub(crate) fn position_of_start(
        &self,
        budget: &Arc<Mutex<MergeBudget>>,
    ) -> Result<Option<Position>, Error> {
        match self.start() {
            Start::Last(count) => self.position_of_last(*count, budget).map(Some),
            Start::Sequences(sequences) => self.position_of_sequences(sequences).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads backwards to find where the last messages begin.
    fn position_of_last(&self, count: u64, budget: &Arc<Mutex<MergeBudget>>) -> Result<Position, Error> {
        let mut backwards = self.clone().backwards().open_with(budget)?;
        let mut firsts: Vec<Option<Key>> = vec![None; backwards.sources().len()];
        let mut found = 0;
        while found < count {
            match backwards.next_of() {
                Ok(Some((message, source))) => {
                    firsts[source] = Some((message.time().0, message.sequence()));
                    found += 1;
                }
                Ok(None) => break,
                // Who reads these messages is told.
                Err(error) if error.is_told_once() => {}
                Err(error) => return Err(error),
            }
        }
        let places = backwards.sources().iter().zip(firsts).map(|(source, first)| {
            let after = first.map_or(Some(BEHIND_ALL), before);
            in_stream(&source.stream, &source.space, Place::History { end: source.end(), after })
        });
        Ok(Position { streams: places.collect() })
    }

    fn position_of_sequences(&self, sequences: &[u64]) -> Result<Position, Error> {
        let spaces = || {
            let of = |stream| move |space| (stream, space);
            self.streams().iter().flat_map(move |stream| stream.spaces.iter().map(of(stream)))
        };
        let (need, have) = (spaces().count(), sequences.len());
        if need != have {
            let what = format!(
                "the streams have {need} spaces, and {have} sequence numbers are given; give one for each"
            );
            return Err(Error::Position { what });
        }
        let places = spaces().zip(sequences);
        let places =
            places.map(|((stream, space), next)| in_stream(stream, space, Place::Live { next: *next }));
        Ok(Position { streams: places.collect() })
    }
}
