//! The book of one symbol at one venue, with its state.
//!
//! Always true: a book over which data is missing is empty and unknown until the next snapshot; it is good only while sequence numbers
//! prove that it has all changes since its snapshot.

use super::content::{Content, OrderChange};
use super::orders::{OrderBook, OrderFault};
use super::prices::{PriceLevel, key};
use super::state::{BookCounters, BookKind, BookState, Doubt};
use super::waiting::{Behind, Waiting};
use crate::{OrderAction, Side};
use tapedb_schema::{Ascii, Timestamp};

/// The book; its numbers are in the units of its [`SymbolBooks`](super::SymbolBooks).
#[derive(Debug, Clone)]
pub struct VenueBook {
    exchange: Option<Ascii<8>>,
    kind: BookKind,
    pub(super) content: Content,
    pub(super) state: BookState,
    pub(super) doubt: Doubt,
    pub(super) sequence: Option<u64>,
    pub(super) changed: Option<Timestamp>,
    pub(super) in_snapshot: bool,
    /// Updates state the sequence numbers that they cover.
    pub(super) is_ranged: bool,
    /// It is a state of the best levels, of which there may be more.
    pub(super) is_partial: bool,
    pub(super) waiting: Waiting,
    pub(super) behind: Behind,
    pub(super) counters: BookCounters,
    is_crossed: bool,
    /// [`Content::best_changes`] when `is_crossed` was found.
    crossing_seen: Option<u64>,
    /// Whether the book was known, and [`Content::best_changes`], when its best was made part of the best over venues.
    pub(super) published: Option<(bool, u64)>,
}

impl VenueBook {
    pub(super) fn new(exchange: Option<Ascii<8>>, kind: BookKind) -> Self {
        let content = match kind {
            BookKind::Orders => Content::Orders(OrderBook::default()),
            BookKind::Prices | BookKind::Quotes => Content::Prices(super::PriceBook::default()),
        };
        Self {
            exchange,
            kind,
            content,
            state: BookState::Unknown,
            doubt: Doubt::NoSnapshot,
            sequence: None,
            changed: None,
            in_snapshot: false,
            is_ranged: false,
            is_partial: false,
            waiting: Waiting::default(),
            behind: Behind::default(),
            counters: BookCounters::default(),
            is_crossed: false,
            crossing_seen: None,
            published: None,
        }
    }

    /// The venue, where messages name it.
    pub fn exchange(&self) -> Option<Ascii<8>> {
        self.exchange
    }

    /// What it is made of.
    pub fn kind(&self) -> BookKind {
        self.kind
    }

    /// How much is known of it.
    pub fn state(&self) -> BookState {
        self.state
    }

    /// Why it is unknown, if it is.
    pub fn doubt(&self) -> Option<Doubt> {
        (self.state == BookState::Unknown).then_some(self.doubt)
    }

    /// The venue's sequence number of the last message that changed it, where messages have one.
    pub fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Time of the last message that changed it.
    pub fn changed(&self) -> Option<Timestamp> {
        self.changed
    }

    /// What was found in its feed.
    pub fn counters(&self) -> &BookCounters {
        &self.counters
    }

    /// Best level of a side.
    #[inline]
    pub fn best(&self, side: Side) -> Option<PriceLevel> {
        self.content.best(side)
    }

    /// Levels of a side, best first.
    pub fn levels(&self, side: Side) -> Box<dyn Iterator<Item = PriceLevel> + '_> {
        match &self.content {
            Content::Prices(book) => Box::new(book.levels(side)),
            Content::Orders(book) => Box::new(book.levels(side)),
        }
    }

    /// Number of levels of a side.
    pub fn depth(&self, side: Side) -> usize {
        match &self.content {
            Content::Prices(book) => book.depth(side),
            Content::Orders(book) => book.depth(side),
        }
    }

    /// Its orders, if it is made of orders.
    pub fn orders(&self) -> Option<&OrderBook> {
        match &self.content {
            Content::Prices(_) => None,
            Content::Orders(book) => Some(book),
        }
    }

    /// Whether its best bid is above its best ask, or equal to it.
    pub fn is_crossed(&self) -> bool {
        let [bid, ask] = [Side::Bid, Side::Ask].map(|side| Some(key(side, self.content.best_key(side)?)));
        bid.zip(ask).is_some_and(|(bid, ask)| bid >= ask)
    }

    /// Empties it, as data is missing or cannot be held.
    pub(super) fn lose(&mut self, doubt: Doubt) {
        self.content.clear();
        (self.state, self.doubt, self.sequence, self.in_snapshot) = (BookState::Unknown, doubt, None, false);
        self.behind = Behind::default();
    }

    /// A message that it cannot hold.
    pub(super) fn misfit(&mut self) {
        self.counters.misfits += 1;
        self.lose(Doubt::Misfit);
    }

    /// The book is a snapshot from here on.
    pub(super) fn seed(&mut self, sequence: Option<u64>) {
        self.counters.snapshots += 1;
        (self.state, self.sequence, self.in_snapshot) = (BookState::Seeded, sequence, false);
        self.is_partial = false;
    }

    /// Sets or deletes a level.
    #[inline]
    pub(super) fn set_level(&mut self, side: Side, price: i64, size: Option<i64>, orders: u32) {
        let Content::Prices(book) = &mut self.content else { return };
        match size {
            Some(size) => {
                book.set(side, price, size, orders);
            }
            None if !book.delete(side, price) => self.counters.absent_levels += 1,
            None => {}
        }
    }

    /// Changes an order.
    #[inline]
    pub(super) fn change_order(&mut self, change: OrderChange, action: OrderAction) {
        let Content::Orders(book) = &mut self.content else { return };
        let Err(fault) = change.apply(book) else { return };
        let counters = &mut self.counters;
        match (fault, action) {
            (OrderFault::Absent, OrderAction::Delete) => counters.absent_deletes += 1,
            (OrderFault::Absent, OrderAction::Execute) => counters.absent_executions += 1,
            (OrderFault::Absent, _) => counters.absent_changes += 1,
            (OrderFault::Duplicate, _) => counters.duplicates += 1,
            (OrderFault::Oversized, _) => counters.oversized += 1,
            (OrderFault::TooLarge, _) => self.misfit(),
        }
    }

    /// After a message: its time, and whether the book has become crossed.
    #[inline]
    pub(super) fn finish(&mut self, time: Timestamp, is_consistent: bool) {
        self.counters.messages += 1;
        self.changed = Some(time);
        let changes = Some(self.content.best_changes());
        if is_consistent && changes != self.crossing_seen {
            self.crossing_seen = changes;
            let is_crossed = self.is_crossed();
            self.counters.crossed += u64::from(is_crossed && !self.is_crossed);
            self.is_crossed = is_crossed;
        }
    }
}
