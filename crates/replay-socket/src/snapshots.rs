//! The best levels of books, at intervals or at each change.
//!
//! A snapshot of an interval is written with the first message of the symbol after it, if its levels have changed since the one before; its
//! time is that of the book's last change. A book that is not known has no snapshot.

use crate::data_type::SnapshotType;
use crate::json;
use crate::request::Selection;
use tapedb_market::{BookKind, BookState, Side, SymbolBooks, VenueBook};
use tapedb_replay::ReplayError;
use tapedb_schema::{Decimal64, Timestamp};

/// Price and size, the best first.
type Levels = Vec<(Decimal64, Decimal64)>;

/// The snapshots of a symbol for one option.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    samples: Vec<Sample>,
    scratch: Levels,
}

/// The snapshots of one kind of one venue.
#[derive(Debug)]
pub(crate) struct Sample {
    /// Its place among the kinds of the option.
    kind: usize,
    /// Its place among the venues of the symbol.
    venue: usize,
    sides: [Levels; 2],
    /// Since the last one was written.
    is_changed: bool,
    /// Of the last change of the book.
    timestamp: Timestamp,
}

impl Samples {
    /// Calls `write` with the snapshots of the intervals before this time.
    pub(crate) fn due(
        &mut self,
        selection: &Selection,
        timestamp: Timestamp,
        mut write: impl FnMut(&SnapshotType, &Sample) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        for sample in &mut self.samples {
            let kind = &selection.snapshots[sample.kind];
            let length = kind.interval_ms as i64 * 1_000_000;
            let interval = |time: Timestamp| time.nanos().div_euclid(length);
            if sample.is_changed && length > 0 && interval(timestamp) > interval(sample.timestamp) {
                sample.is_changed = false;
                write(kind, sample)?;
            }
        }
        Ok(())
    }

    /// Takes the books after a message of `time`; calls `write` with the snapshots that are written at each change.
    pub(crate) fn update(
        &mut self,
        selection: &Selection,
        books: &SymbolBooks,
        (time, timestamp): (Timestamp, Timestamp),
        mut write: impl FnMut(&SnapshotType, &Sample) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        for (at, venue) in books.venues().iter().enumerate() {
            if venue.changed() != Some(time)
                || !selection.has_exchange(venue.exchange())
                || is_beside(books, venue)
            {
                continue;
            }
            for (kind, of) in selection.snapshots.iter().enumerate() {
                let is_it = |sample: &Sample| sample.kind == kind && sample.venue == at;
                let place = self.samples.iter().position(is_it).unwrap_or_else(|| {
                    let sides = [Levels::new(), Levels::new()];
                    self.samples.push(Sample { kind, venue: at, sides, is_changed: false, timestamp });
                    self.samples.len() - 1
                });
                let sample = &mut self.samples[place];
                if venue.state() == BookState::Unknown {
                    sample.forget();
                    continue;
                }
                sample.take(books, venue, of.depth, &mut self.scratch);
                sample.timestamp = timestamp;
                if of.interval_ms == 0 && sample.is_changed {
                    sample.is_changed = false;
                    write(of, sample)?;
                }
            }
        }
        Ok(())
    }

    /// Data is missing: nothing of what is known is written any more.
    pub(crate) fn forget(&mut self) {
        self.samples.iter_mut().for_each(Sample::forget);
    }
}

impl Sample {
    fn forget(&mut self) {
        self.is_changed = false;
        self.sides.iter_mut().for_each(Vec::clear);
    }

    fn take(&mut self, books: &SymbolBooks, venue: &VenueBook, depth: usize, scratch: &mut Levels) {
        for (side, levels) in [Side::Bid, Side::Ask].into_iter().zip(&mut self.sides) {
            let decimals = |level: tapedb_market::PriceLevel| {
                (books.price_units().decimal(level.price), books.size_units().decimal(level.size))
            };
            scratch.clear();
            scratch.extend(venue.levels(side).take(depth).map(decimals));
            // As numbers: the same ones may be written with more decimals later.
            let is_same = |(a, b): (&(Decimal64, Decimal64), &(Decimal64, Decimal64))| {
                a.0.numeric_eq(&b.0) && a.1.numeric_eq(&b.1)
            };
            if scratch.len() != levels.len() || !scratch.iter().zip(&*levels).all(is_same) {
                self.is_changed = true;
            }
            std::mem::swap(levels, scratch);
        }
    }

    /// Appends what it has, from its name to its time.
    pub(crate) fn write(&self, kind: &SnapshotType, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"name\":");
        json::text(&kind.name, out);
        out.extend_from_slice(b",\"depth\":");
        json::integer(kind.depth as u64, out);
        out.extend_from_slice(b",\"interval\":");
        json::integer(kind.interval_ms, out);
        for (name, levels) in [&b",\"bids\":["[..], b",\"asks\":["].into_iter().zip(&self.sides) {
            out.extend_from_slice(name);
            levels.iter().for_each(|(price, size)| json::level(*price, Some(*size), out));
            out.push(b']');
        }
    }

    pub(crate) fn timestamp(&self) -> Timestamp {
        self.timestamp
    }
}

/// Whether a book of quotes is beside a whole book of the same venue.
fn is_beside(books: &SymbolBooks, venue: &VenueBook) -> bool {
    let is_whole =
        |other: &VenueBook| other.kind() != BookKind::Quotes && other.exchange() == venue.exchange();
    venue.kind() == BookKind::Quotes && books.venues().iter().any(is_whole)
}
