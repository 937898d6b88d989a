//! The books of one symbol, one for each venue, in common units, and the best over them.

use super::best::{Best, ConsolidatedBest, MAX_VENUES};
use super::content::{Content, SIDES};
use super::state::{BookKind, BookState, Doubt, PriceChange};
use super::units::{Misfit, Units};
use super::venue::VenueBook;
use super::waiting::{BEHIND_MAX, Behind, Update};
use crate::{PackageKind, Side};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// The books; venues are in the order in which they were first seen.
#[derive(Debug, Clone, Default)]
pub struct SymbolBooks {
    price: Units,
    size: Units,
    pub(super) venues: Vec<VenueBook>,
    best: ConsolidatedBest,
}

impl SymbolBooks {
    /// Units of prices, of all venues.
    pub fn price_units(&self) -> Units {
        self.price
    }

    /// Units of sizes, of all venues.
    pub fn size_units(&self) -> Units {
        self.size
    }

    /// The books of the venues.
    pub fn venues(&self) -> &[VenueBook] {
        &self.venues
    }

    /// The best of a side over all venues whose book is not unknown; the venue is an index of [`SymbolBooks::venues`].
    #[inline]
    pub fn best(&self, side: Side) -> Option<Best> {
        self.best.get(side)
    }

    /// Whether the best bid of one venue is above the best ask of another.
    pub fn is_crossed(&self) -> bool {
        self.best.is_crossed()
    }

    /// The units of books that are restored.
    pub(super) fn set_units(&mut self, price: Units, size: Units) {
        (self.price, self.size) = (price, size);
    }

    /// Index of a venue's book; made if there is none. `None`: there are too many venues.
    #[inline]
    pub(super) fn venue(&mut self, exchange: Option<Ascii<8>>, kind: BookKind) -> Option<usize> {
        let is_it = |venue: &VenueBook| venue.kind() == kind && venue.exchange() == exchange;
        if let Some(found) = self.venues.iter().position(is_it) {
            return Some(found);
        }
        if self.venues.len() == MAX_VENUES {
            return None;
        }
        self.venues.push(VenueBook::new(exchange, kind));
        Some(self.venues.len() - 1)
    }

    /// Whether something is where an order would be, which takes one access to memory.
    #[inline]
    pub(super) fn looks_near(&self, id: u64) -> bool {
        self.venues.iter().filter_map(VenueBook::orders).any(|orders| orders.looks_near(id))
    }

    /// Whether a book has an order.
    #[inline]
    pub(super) fn looks_up(&self, id: u64) -> bool {
        self.venues.iter().filter_map(VenueBook::orders).any(|orders| orders.order(id).is_some())
    }

    /// Price and size in units; with more decimals than before, all books get finer units.
    #[inline]
    pub(super) fn units(&mut self, price: Decimal64, size: Decimal64) -> Result<(i64, i64), Misfit> {
        Ok((self.price_of(price)?, self.size_of(size)?))
    }

    #[inline]
    fn price_of(&mut self, price: Decimal64) -> Result<i64, Misfit> {
        loop {
            match self.price.of(price) {
                Err(Misfit::Finer(scale)) => self.refine(true, scale)?,
                found => return found,
            }
        }
    }

    /// A size alone.
    #[inline]
    pub(super) fn size_of(&mut self, size: Decimal64) -> Result<i64, Misfit> {
        loop {
            match self.size.of(size) {
                Err(Misfit::Finer(scale)) => self.refine(false, scale)?,
                Ok(size) if size < 0 => return Err(Misfit::Number),
                found => return found,
            }
        }
    }

    /// Finer units for all books. Where one of them would not fit, the number does not: it is of one venue, and the others stay.
    #[cold]
    fn refine(&mut self, is_price: bool, scale: u8) -> Result<(), Misfit> {
        let mut units = if is_price { self.price } else { self.size };
        let factor = units.finer(scale).ok_or(Misfit::Number)?;
        let (price, size) = if is_price { (factor, 1) } else { (1, factor) };
        if !self.venues.iter().all(|venue| venue.content.fits(price, size)) {
            return Err(Misfit::Number);
        }
        *(if is_price { &mut self.price } else { &mut self.size }) = units;
        for at in 0..self.venues.len() {
            if !self.venues[at].content.rescale(price, size) {
                self.venues[at].misfit();
            }
            self.publish(at);
        }
        Ok(())
    }

    /// A message that a venue's book cannot hold. When nothing is left in any book, units are found again, so that one number with too
    /// many decimals does not keep the next snapshot out.
    pub(super) fn misfit(&mut self, at: usize) {
        self.venues[at].misfit();
        if self.venues.iter().all(|venue| venue.content.is_empty()) {
            self.set_units(Units::default(), Units::default());
        }
    }

    /// Applies the changes of a package for one venue.
    #[inline]
    pub(super) fn change_levels(&mut self, at: usize, mut changes: impl Iterator<Item = PriceChange>) {
        while let Some(change) = self.change_fitting_levels(at, &mut changes) {
            let price = self.price_of(change.price);
            // The unit of sizes may change before a price is stored, and that of prices no more.
            match (price, change.size.map(|size| self.size_of(size)).transpose()) {
                (Ok(price), Ok(size)) => self.venues[at].set_level(change.side, price, size, change.orders),
                _ => return self.misfit(at),
            }
        }
    }

    /// Applies changes as long as their numbers fit the units, as nearly all do; the first one that does not is returned.
    #[inline]
    fn change_fitting_levels(
        &mut self,
        at: usize,
        changes: &mut impl Iterator<Item = PriceChange>,
    ) -> Option<PriceChange> {
        let (price_units, size_units) = (self.price, self.size);
        let VenueBook { content: Content::Prices(book), counters, .. } = &mut self.venues[at] else {
            return changes.next();
        };
        for change in changes {
            let Ok(price) = price_units.of(change.price) else { return Some(change) };
            match change.size.map(|size| size_units.of(size)) {
                Some(Ok(size)) if size >= 0 => {
                    book.set(change.side, price, size, change.orders);
                }
                None => counters.absent_levels += u64::from(!book.delete(change.side, price)),
                _ => return Some(change),
            }
        }
        None
    }

    /// A whole state of one venue.
    pub(super) fn snapshot(
        &mut self,
        at: usize,
        kind: PackageKind,
        sequence: Option<u64>,
        changes: impl Iterator<Item = PriceChange>,
    ) {
        let venue = &mut self.venues[at];
        let is_behind = venue.is_ranged && sequence.zip(venue.sequence).is_some_and(|(new, old)| new < old);
        // One that is sent from time to time proves nothing that the sequence numbers have not proven.
        let repeats =
            kind == PackageKind::PeriodicSnapshot && sequence.is_some() && sequence == venue.sequence;
        if venue.state != BookState::Unknown && (is_behind || repeats) {
            venue.counters.snapshots_behind += 1;
            if is_behind && let Some(sequence) = sequence {
                // The numbers may have begun again: the next update shows it.
                venue.behind.snapshot = Some((sequence, changes.collect()));
            }
            return;
        }
        venue.behind = Behind::default();
        venue.content.clear();
        let misfits = venue.counters.misfits;
        self.change_levels(at, changes);
        if self.venues[at].counters.misfits != misfits {
            return;
        }
        self.venues[at].seed(sequence);
        if let (true, Some(sequence)) = (self.venues[at].is_ranged, sequence) {
            self.continue_with_waiting(at, sequence);
        }
    }

    /// The updates that arrived before the snapshot.
    fn continue_with_waiting(&mut self, at: usize, sequence: u64) {
        self.venues[at].waiting.drop_through(sequence);
        if let Some(first) = self.venues[at].waiting.front()
            && !first.continues(sequence)
        {
            self.venues[at].lose(Doubt::OldSnapshot);
            return;
        }
        // Taken whole: behind one that does not fit, the others wait again, for the next snapshot.
        let mut waiting = std::mem::take(&mut self.venues[at].waiting);
        while let Some(update) = waiting.pop() {
            self.update(at, update.first, update.last, update.previous, update.changes.into_iter());
        }
    }

    /// An update that states the sequence numbers it covers.
    #[inline]
    pub(super) fn update(
        &mut self,
        at: usize,
        first: u64,
        last: u64,
        previous: Option<u64>,
        changes: impl Iterator<Item = PriceChange>,
    ) {
        let venue = &mut self.venues[at];
        venue.is_ranged = true;
        if venue.is_partial && venue.state != BookState::Unknown {
            // The levels below the best ones are not known.
            venue.lose(Doubt::NoSnapshot);
        }
        venue.is_partial = false;
        if venue.state == BookState::Unknown {
            venue.waiting.push(Update { first, last, previous, changes: changes.collect() });
            return;
        }
        if let Some(sequence) = venue.sequence {
            if last <= sequence {
                return self.update_behind(at, Update { first, last, previous, changes: changes.collect() });
            }
            venue.behind = Behind::default();
            let probe = Update { first, last, previous, changes: Vec::new() };
            if !probe.continues(sequence) {
                venue.counters.breaks += 1;
                venue.lose(Doubt::SequenceBreak);
                venue.waiting.clear();
                venue.waiting.push(Update { changes: changes.collect(), ..probe });
                return;
            }
            venue.state = BookState::Good;
        }
        venue.sequence = Some(last);
        self.change_levels(at, changes);
    }

    /// An update that the book has already, or one of numbers that have begun again: of the first kind there are few in a row.
    #[cold]
    fn update_behind(&mut self, at: usize, update: Update) {
        let venue = &mut self.venues[at];
        venue.counters.updates_behind += 1;
        venue.behind.updates += 1;
        // One that ends where the book is came twice.
        let is_below = venue.sequence.is_some_and(|now| update.last < now);
        let is_next = |sequence: u64| is_below && update.last > sequence && update.continues(sequence);
        if let Some((sequence, levels)) = venue.behind.snapshot.take_if(|(sequence, _)| is_next(*sequence)) {
            // What came between is not known.
            venue.counters.breaks += 1;
            venue.lose(Doubt::SequenceBreak);
            venue.behind = Behind::default();
            self.snapshot(at, PackageKind::Snapshot, Some(sequence), levels.into_iter());
            self.update(at, update.first, update.last, update.previous, update.changes.into_iter());
        } else if venue.state == BookState::Good && venue.behind.updates > BEHIND_MAX {
            venue.counters.breaks += 1;
            venue.lose(Doubt::SequenceBreak);
            venue.behind = Behind::default();
            venue.waiting.clear();
            venue.waiting.push(update);
        }
    }

    /// Makes a venue's best a part of the best over venues.
    #[inline]
    pub(super) fn publish(&mut self, at: usize) {
        let venue = &mut self.venues[at];
        let now = Some((venue.state != BookState::Unknown, venue.content.best_changes()));
        if venue.published == now {
            return;
        }
        venue.published = now;
        for side in SIDES {
            match venue.best(side).filter(|_| venue.state != BookState::Unknown) {
                Some(level) => self.best.set(at, side, level.price, level.size),
                None => self.best.remove(at, side),
            };
        }
    }

    /// Data about the symbol is missing.
    pub(super) fn gap(&mut self, exchange: Option<Ascii<8>>, time: Timestamp) {
        for at in 0..self.venues.len() {
            let venue = &mut self.venues[at];
            if exchange.is_none() || venue.exchange().is_none() || venue.exchange() == exchange {
                venue.lose(Doubt::Gap);
                venue.waiting.clear();
                venue.counters.gaps += 1;
                venue.changed = Some(time);
                self.publish(at);
            }
        }
    }
}
