//! Books that were read lately, in memory: a replay to a time near theirs begins with them, and not with the last checkpoint or the begin of
//! history.
//!
//! Always true: a place is used only while its stream has exactly the messages before it that the place was made of, as with checkpoints
//! that are stored; places of all streams together have a bounded number of levels and orders.

use crate::checkpoints::{Found, Source};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tapedb_engine::Stream;
use tapedb_market::{Side, SymbolBooks};
use tapedb_schema::Timestamp;

/// Places of all streams.
const PLACES_MAX: usize = 256;
/// Levels and orders of all places.
const WEIGHT_MAX: usize = 1 << 20;
/// Levels and orders of one place: larger books are not kept.
const WEIGHT_OF_ONE_MAX: usize = 1 << 16;
/// Places that a replay passes and keeps.
const PASSED_MAX: usize = 16;
/// Messages between them, at least.
const MESSAGES_BETWEEN: u64 = 1_024;

/// Books that were read lately, for [`StreamBooks::recent_book_at`](crate::StreamBooks::recent_book_at).
#[derive(Debug, Default)]
pub struct RecentBooks {
    /// The one that was used last is last.
    places: Mutex<Vec<Place>>,
}

#[derive(Debug)]
struct Place {
    of: Source,
    symbol: String,
    /// The books have all messages before this time, and no others.
    time: Timestamp,
    books: SymbolBooks,
    weight: usize,
}

impl RecentBooks {
    fn places(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last place at or before a time whose stream has not changed before it.
    pub(crate) fn find(&self, stream: &Stream, (symbol, id): (&str, u32), time: Timestamp) -> Option<Found> {
        loop {
            let (of, found) = {
                let mut places = self.places();
                let is_one = |place: &&Place| {
                    place.symbol == symbol && place.of.is_of(stream, id) && place.time <= time
                };
                let (at, _) = places
                    .iter()
                    .enumerate()
                    .filter(|(_, place)| is_one(place))
                    .max_by_key(|(_, place)| place.time)?;
                let place = places.remove(at);
                let found = Found { time: place.time, books: place.books.clone() };
                let of = place.of.clone();
                places.push(place);
                (of, found)
            };
            // Without the lock: it reads.
            if of.fits(stream, found.time) {
                return Some(found);
            }
            self.places()
                .retain(|place| !(place.symbol == symbol && place.time == found.time && place.of == of));
        }
    }

    fn keep(&self, place: Place) {
        let mut places = self.places();
        places.retain(|other| {
            !(other.symbol == place.symbol && other.time == place.time && other.of.is_like(&place.of))
        });
        places.push(place);
        let mut weight: usize = places.iter().map(|place| place.weight).sum();
        while places.len() > PLACES_MAX || weight > WEIGHT_MAX {
            weight -= places.remove(0).weight;
        }
    }
}

/// The places that a replay passes, evenly spaced.
pub(crate) struct Passed {
    places: Vec<(Timestamp, SymbolBooks)>,
    between: u64,
    since: u64,
    last: Timestamp,
}

impl Passed {
    /// A replay begins, with messages from a time on.
    pub fn new(from: Timestamp) -> Self {
        Self { places: Vec::new(), between: MESSAGES_BETWEEN, since: 0, last: from }
    }

    /// A message of this time comes next, after these books.
    pub fn message(&mut self, time: Timestamp, books: impl FnOnce() -> Option<SymbolBooks>) {
        self.since += 1;
        if self.since > self.between && time > self.last {
            self.since = 0;
            let Some(books) = books().filter(|books| weight_of(books) <= WEIGHT_OF_ONE_MAX) else { return };
            self.places.push((time, books));
            if self.places.len() == PASSED_MAX {
                let mut is_kept = false;
                self.places.retain(|_| {
                    is_kept = !is_kept;
                    is_kept
                });
                self.between *= 2;
            }
        }
        self.last = time;
    }

    /// Keeps them, and the end of the replay: all messages up to a time, itself included.
    pub fn keep(
        mut self,
        recent: &RecentBooks,
        (stream, symbol, id): (&Stream, &str, u32),
        (end, books): (Timestamp, &SymbolBooks),
        sequences: &[u64],
    ) {
        if let Some(end) = end.nanos().checked_add(1).map(Timestamp)
            && weight_of(books) <= WEIGHT_OF_ONE_MAX
        {
            self.places.push((end, books.clone()));
        }
        for (time, books) in self.places {
            if let Some(of) = Source::of(stream, id, time, sequences) {
                let weight = weight_of(&books);
                recent.keep(Place { of, symbol: symbol.into(), time, books, weight });
            }
        }
    }
}

/// Levels and orders.
fn weight_of(books: &SymbolBooks) -> usize {
    let sides = books.venues().iter().flat_map(|venue| [Side::Bid, Side::Ask].map(|side| venue.levels(side)));
    1 + sides.flatten().map(|level| 1 + level.orders as usize).sum::<usize>()
}
