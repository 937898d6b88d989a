//! Messages of a stream, applied to the books of many symbols.

use super::content::OrderChange;
use super::orders::Arrival;
use super::state::{BookKind, BookState, Doubt, PriceChange};
use super::symbol::SymbolBooks;
use super::venue::VenueBook;
use crate::{
    BookAction, Entry, Gap, Level1, MarketByPrice, Order, OrderAction, Package, PackageKind, SequenceRange,
    Side,
};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// Books by symbol; a symbol is a small number, such as its id in a stream.
///
/// ```
/// use tapedb_market::{Applier, Order, OrderAction, Side};
/// use tapedb_schema::Timestamp;
/// let add = Order {
///     action: OrderAction::Add,
///     side: Some(Side::Bid),
///     price: "10.5".parse().ok(),
///     size: "3".parse().ok(),
///     order_id: Some(7),
///     ..Order::default()
/// };
/// let mut books = Applier::default();
/// books.order(0, Timestamp(1), &add);
/// let symbol = books.symbol(0).expect("it has a book");
/// assert_eq!(symbol.venues()[0].orders().map(|orders| orders.len()), Some(1));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Applier {
    symbols: Vec<Option<Box<SymbolBooks>>>,
}

impl Applier {
    /// The books of a symbol, if it has any.
    pub fn symbol(&self, symbol: u32) -> Option<&SymbolBooks> {
        self.symbols.get(symbol as usize)?.as_deref()
    }

    /// Symbols that have books.
    pub fn symbols(&self) -> impl Iterator<Item = (u32, &SymbolBooks)> {
        self.symbols.iter().zip(0u32..).filter_map(|(books, symbol)| Some((symbol, books.as_deref()?)))
    }

    /// The books of a symbol, to be changed.
    #[inline]
    pub(super) fn books(&mut self, symbol: u32) -> &mut SymbolBooks {
        let at = symbol as usize;
        if at >= self.symbols.len() {
            self.symbols.resize_with(at + 1, || None);
        }
        self.symbols[at].get_or_insert_default()
    }

    /// Begins with these books of a symbol, in place of those it has.
    pub fn restore(&mut self, symbol: u32, books: SymbolBooks) {
        *self.books(symbol) = books;
    }

    /// A package: its level-2 entries, and its level-1 quotes, each to the book of its venue.
    pub fn package(&mut self, symbol: u32, time: Timestamp, package: &Package) {
        let books = self.books(symbol);
        let found = Found::of(&package.entries);
        let range = found.range.map(|range| (range.first, range.previous));
        match found.venue {
            Some(first) => {
                prices(books, (first, found.has_more_venues), time, package, range);
                if found.has_more_venues {
                    let venues = package.entries.iter().filter_map(|entry| Some(level(entry)?.0));
                    let mut others: Vec<Option<Ascii<8>>> = venues.filter(|other| *other != first).collect();
                    others.sort_unstable();
                    others.dedup();
                    others.into_iter().for_each(|other| prices(books, (other, true), time, package, None));
                }
            }
            // The update advances a sequence only; it does not name its venue. Beside trades, the numbers are those of trades.
            None if !found.has_others => {
                if let Some(exchange) = found.range.and_then(|range| unnamed(books, range)) {
                    prices(books, (exchange, false), time, package, range);
                }
            }
            None => {}
        }
        if found.has_others {
            for entry in &package.entries {
                if let Entry::Level1(quote) = entry {
                    self::quote(books, time, quote);
                }
            }
        }
    }

    /// A change of an order.
    #[inline]
    pub fn order(&mut self, symbol: u32, time: Timestamp, order: &Order) {
        let books = self.books(symbol);
        let Some(at) = books.venue(order.exchange, BookKind::Orders) else { return };
        if order.snapshot || books.venues[at].in_snapshot {
            snapshot_flags(books, at, order);
        }
        match change(books, at, order) {
            Some(Change::Order(change)) => books.venues[at].change_order(change, order.action),
            Some(Change::Clear) => clear(books, at, order),
            Some(Change::None) => {}
            None => books.misfit(at),
        }
        let venue = &mut books.venues[at];
        if venue.in_snapshot && order.event_end {
            venue.seed(order.sequence);
        }
        if order.sequence.is_some() {
            venue.sequence = order.sequence;
        }
        venue.finish(time, order.event_end);
        books.publish(at);
    }

    /// Changes of orders, one after another, as [`Self::order`] would apply them. Where their orders are is looked up for all of them first, so
    /// that the processor waits for its memory once for several: of many books, 8 to 32 changes at once are best.
    pub fn orders<'a>(&mut self, changes: impl Iterator<Item = (u32, Timestamp, &'a Order)> + Clone) {
        for find in [SymbolBooks::looks_near, SymbolBooks::looks_up] {
            let ids = changes.clone().filter_map(|(symbol, _, order)| {
                let id = order.previous_order_id.or(order.order_id)?;
                Some((self.symbol(symbol)?, id))
            });
            // Nothing depends on what is found, but that it is found now.
            std::hint::black_box(ids.filter(|(books, id)| find(books, *id)).count());
        }
        for (symbol, time, order) in changes {
            self.order(symbol, time, order);
        }
    }

    /// A change at a price, or a state of the best levels.
    pub fn market_by_price(&mut self, symbol: u32, time: Timestamp, change: &MarketByPrice) {
        let books = self.books(symbol);
        let kind = if change.levels.len() == 1 { BookKind::Quotes } else { BookKind::Prices };
        let Some(at) = books.venue(change.exchange, kind) else { return };
        if !change.levels.is_empty() {
            if books.venues[at].is_ranged {
                // Some of the levels of a book whose changes are numbered: they prove nothing that the numbers have not proven.
                books.venues[at].counters.snapshots_behind += 1;
                return;
            }
            books.venues[at].is_partial = kind == BookKind::Prices;
            books.venues[at].content.clear();
            let levels = change.levels.iter().flat_map(|level| {
                let bid = (Side::Bid, level.bid_price, level.bid_size, level.bid_orders);
                [bid, (Side::Ask, level.ask_price, level.ask_size, level.ask_orders)]
            });
            let levels = levels.filter_map(|(side, price, size, orders)| {
                let size = Some(size.unwrap_or(Decimal64::ZERO));
                Some(PriceChange { side, price: price?, size, orders: orders.unwrap_or(0) })
            });
            let misfits = books.venues[at].counters.misfits;
            books.change_levels(at, levels);
            if books.venues[at].counters.misfits == misfits {
                books.venues[at].state = BookState::Seeded;
            }
        } else {
            one_price(books, at, change);
        }
        books.venues[at].sequence = change.sequence;
        books.venues[at].finish(time, change.event_end);
        books.publish(at);
    }

    /// Data is missing: of the symbol, if it has had messages, be they trades only, otherwise of all of them.
    pub fn gap(&mut self, symbol: u32, time: Timestamp, gap: &Gap) {
        if let Some(Some(books)) = self.symbols.get_mut(symbol as usize) {
            books.gap(gap.exchange, time);
            return;
        }
        self.symbols.iter_mut().flatten().for_each(|books| books.gap(gap.exchange, time));
    }
}

/// What a package has, found in one pass over it.
#[derive(Default)]
struct Found {
    /// The venue of the first level-2 entry, which may not be named.
    venue: Option<Option<Ascii<8>>>,
    has_more_venues: bool,
    range: Option<SequenceRange>,
    /// Entries that are neither of level 2 nor a range.
    has_others: bool,
}

impl Found {
    #[inline]
    fn of(entries: &[Entry]) -> Self {
        let mut found = Self::default();
        for entry in entries {
            let exchange = match entry {
                Entry::Level2Update(entry) => entry.exchange,
                Entry::Level2Snapshot(entry) => entry.exchange,
                Entry::SequenceRange(range) => {
                    found.range = found.range.or(Some(*range));
                    continue;
                }
                Entry::Trade(_) | Entry::Level1(_) => {
                    found.has_others = true;
                    continue;
                }
            };
            found.has_more_venues |= *found.venue.get_or_insert(exchange) != exchange;
        }
        found
    }
}

#[inline]
fn level(entry: &Entry) -> Option<(Option<Ascii<8>>, PriceChange)> {
    Some(match entry {
        Entry::Level2Update(entry) => {
            // A set without a size is a level whose size the venue does not report.
            let size = match entry.action {
                BookAction::Set => Some(entry.size.unwrap_or(Decimal64::ZERO)),
                BookAction::Delete => None,
            };
            let orders = entry.orders.unwrap_or(0);
            (entry.exchange, PriceChange { side: entry.side, price: entry.price, size, orders })
        }
        Entry::Level2Snapshot(entry) => {
            let (size, orders) = (Some(entry.size), entry.orders.unwrap_or(0));
            (entry.exchange, PriceChange { side: entry.side, price: entry.price, size, orders })
        }
        Entry::Trade(_) | Entry::Level1(_) | Entry::SequenceRange(_) => return None,
    })
}

/// The venue of an update without levels: the only one, or the one whose numbers it continues.
#[cold]
fn unnamed(books: &SymbolBooks, range: SequenceRange) -> Option<Option<Ascii<8>>> {
    let is_next = |venue: &&VenueBook| {
        venue.sequence.is_some_and(|number| match range.previous {
            Some(previous) => previous == number,
            None => Some(range.first) == number.checked_add(1),
        })
    };
    let of_prices = || books.venues.iter().filter(|venue| venue.kind() == BookKind::Prices);
    let is_only = of_prices().count() == 1;
    let mut found = of_prices().filter(|venue| is_only || is_next(venue));
    found.next().filter(|_| found.next().is_none()).map(VenueBook::exchange)
}

/// The level-2 entries of one venue, which may be one of several.
fn prices(
    books: &mut SymbolBooks,
    (exchange, is_one_of_several): (Option<Ascii<8>>, bool),
    time: Timestamp,
    package: &Package,
    range: Option<(u64, Option<u64>)>,
) {
    let Some(at) = books.venue(exchange, BookKind::Prices) else { return };
    let changes = package.entries.iter().filter_map(level);
    let changes =
        changes.filter(|(venue, _)| !is_one_of_several || *venue == exchange).map(|(_, change)| change);
    match (package.kind, range, package.sequence) {
        (PackageKind::Update, Some((first, previous)), Some(last)) => {
            books.update(at, first, last, previous, changes);
        }
        (PackageKind::Update, ..) => {
            books.change_levels(at, changes);
            books.venues[at].sequence = package.sequence;
        }
        (kind, ..) => books.snapshot(at, kind, package.sequence, changes),
    }
    books.venues[at].finish(time, true);
    books.publish(at);
}

/// The best price of one side of a venue.
fn quote(books: &mut SymbolBooks, time: Timestamp, quote: &Level1) {
    let Some(at) = books.venue(quote.exchange, BookKind::Quotes) else { return };
    books.venues[at].content.clear_side(quote.side);
    books.venues[at].state = BookState::Seeded;
    if let Some(price) = quote.price {
        let (side, orders) = (quote.side, quote.orders.unwrap_or(0));
        let size = Some(quote.size.unwrap_or(Decimal64::ZERO));
        books.change_levels(at, std::iter::once(PriceChange { side, price, size, orders }));
    }
    books.venues[at].finish(time, false);
    books.publish(at);
}

/// A change at a price without levels.
fn one_price(books: &mut SymbolBooks, at: usize, change: &MarketByPrice) {
    let Some(action) = change.action else { return };
    if action == OrderAction::Clear {
        match change.side {
            Some(side) => books.venues[at].content.clear_side(side),
            None => {
                books.venues[at].content.clear();
                books.venues[at].state = BookState::Seeded;
            }
        }
        return;
    }
    let size = match action {
        OrderAction::Add | OrderAction::Modify => Some(change.size.unwrap_or(Decimal64::ZERO)),
        OrderAction::Delete => None,
        OrderAction::Trade | OrderAction::Fill | OrderAction::None => return,
        // They state a difference, of an order.
        _ => return books.misfit(at),
    };
    let (Some(side), Some(price)) = (change.side, change.price) else { return books.misfit(at) };
    books.change_levels(at, std::iter::once(PriceChange { side, price, size, orders: 0 }));
}

enum Change {
    Order(OrderChange),
    Clear,
    None,
}

/// Begin and end of a snapshot of orders.
#[cold]
fn snapshot_flags(books: &mut SymbolBooks, at: usize, order: &Order) {
    let venue = &mut books.venues[at];
    if order.snapshot && !venue.in_snapshot {
        venue.lose(Doubt::Snapshot);
        venue.in_snapshot = true;
    } else if venue.in_snapshot && !order.snapshot {
        // Some vendors do not mark its last message.
        venue.seed(order.sequence);
    }
}

/// An emptied book is known: it is empty.
fn clear(books: &mut SymbolBooks, at: usize, order: &Order) {
    let venue = &mut books.venues[at];
    match order.side {
        Some(side) => venue.content.clear_side(side),
        None => {
            venue.content.clear();
            if !venue.in_snapshot {
                venue.state = BookState::Seeded;
            }
        }
    }
}

/// The change of the book; `None` if it has not what it needs, or a number that does not fit.
#[inline]
fn change(books: &mut SymbolBooks, at: usize, order: &Order) -> Option<Change> {
    match order.action {
        OrderAction::Trade | OrderAction::Fill | OrderAction::None => return Some(Change::None),
        OrderAction::Clear => return Some(Change::Clear),
        _ => {}
    }
    let id = order.book_id()?;
    let mut numbers = || books.units(order.price?, order.size?).ok();
    let change = match order.action {
        OrderAction::Add => {
            let (price, size) = numbers()?;
            let arrival = match (order.snapshot, books.venues[at].state) {
                (true, _) => Arrival::Seeded,
                (_, BookState::Unknown) => Arrival::Unknown,
                _ => Arrival::Observed,
            };
            OrderChange::Add { id, side: order.side?, price, size, arrival }
        }
        OrderAction::Modify => {
            let (price, size) = numbers()?;
            OrderChange::Modify { id, side: order.side, price, size }
        }
        OrderAction::Replace => {
            let (price, size) = numbers()?;
            // The order before has only a number of 64 bits.
            let is_short = order.order_id_text.is_none() && order.order_id_high.is_none_or(|high| high == 0);
            let old = order.previous_order_id.filter(|_| is_short)?;
            OrderChange::Replace { old, id, price, size }
        }
        OrderAction::Delete => OrderChange::Remove { id },
        _ => OrderChange::Reduce { id, size: books.size_of(order.size?).ok()? },
    };
    Some(Change::Order(change))
}
