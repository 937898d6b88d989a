//! The books of a symbol as messages, and back.

use super::content::{Content, SIDES};
use super::orders::Arrival;
use super::state::{BookKind, BookState, Doubt};
use super::symbol::SymbolBooks;
use super::units::Units;
use super::venue::VenueBook;
use crate::Side;
use std::fmt;
use tapedb_codec::Record;
use tapedb_schema::{Ascii, Timestamp};

/// Most levels or orders of one message.
const PART_MAX: usize = 4_096;

// The documentation of the records is part of the schema on the disk, so it does not change.
/// A level of a book, in units of the book.
#[derive(Record, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BookLevel {
    /// Side.
    pub side: Side,
    /// Price.
    pub price: i64,
    /// Size.
    pub size: i64,
    /// Number of orders; 0: not reported.
    pub orders: u32,
}

/// An order of a book, in units of the book; of a price, the oldest is first.
#[derive(Record, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BookOrder {
    /// The venue's number.
    pub id: u64,
    /// Side.
    pub side: Side,
    /// Price.
    pub price: i64,
    /// Size.
    pub size: i64,
    /// How it came into the book.
    pub arrival: Arrival,
}

/// A part of the books of a symbol at the message's time: with all messages of the source before that time, and none at or after it.
#[derive(Record, Debug, Clone, PartialEq, Eq, Default)]
#[record(message)]
pub struct BookCheckpoint {
    /// Number of this part, from 0.
    pub part: u32,
    /// Number of parts.
    pub parts: u32,
    /// When the source stream was created.
    pub source_created: Timestamp,
    /// Messages of the source before the checkpoint's time.
    pub source_messages: u64,
    /// Sequence numbers of the source that the next messages got, one for each space, when the checkpoint was made.
    pub source_sequences: Vec<u64>,
    /// Decimals of prices.
    pub price_scale: u8,
    /// Decimals of sizes.
    pub size_scale: u8,
    /// Venue, where messages name it.
    pub exchange: Option<Ascii<8>>,
    /// What the book is made of.
    pub kind: BookKind,
    /// How much is known of it.
    pub state: BookState,
    /// Why it is unknown.
    pub doubt: Doubt,
    /// The venue's sequence number of the last message that changed it.
    pub sequence: Option<u64>,
    /// Updates state the sequence numbers that they cover.
    pub ranged: bool,
    /// Time of the last message that changed it.
    pub changed: Option<Timestamp>,
    /// Its levels.
    pub levels: Vec<BookLevel>,
    /// Its orders.
    pub orders: Vec<BookOrder>,
    /// Number of the symbol in the source: another symbol may get its name.
    pub source_symbol: Option<u32>,
}

/// The doubt of a book of prices that is known, but only its best levels: no snapshot of such a book is received in parts.
const PARTIAL: Doubt = Doubt::Snapshot;

/// Parts that are not the books of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadCheckpoint;

impl fmt::Display for BadCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the parts of a checkpoint do not make the books of a symbol")
    }
}

impl std::error::Error for BadCheckpoint {}

impl SymbolBooks {
    /// The books as parts, without what is known of their source only; `None` while a snapshot is being received, updates wait for one, or
    /// what came last is older than the book: this cannot be stored.
    pub fn checkpoint(&self) -> Option<Vec<BookCheckpoint>> {
        let is_between = |venue: &VenueBook| {
            venue.in_snapshot || venue.waiting.front().is_some() || !venue.behind.is_empty()
        };
        if self.venues.iter().any(is_between) {
            return None;
        }
        let mut parts = Vec::new();
        for venue in &self.venues {
            let head = BookCheckpoint {
                price_scale: self.price_units().scale(),
                size_scale: self.size_units().scale(),
                exchange: venue.exchange(),
                kind: venue.kind(),
                state: venue.state,
                doubt: match venue.state {
                    BookState::Unknown => venue.doubt,
                    _ if venue.is_partial => PARTIAL,
                    _ => venue.doubt,
                },
                sequence: venue.sequence,
                ranged: venue.is_ranged,
                changed: venue.changed,
                ..BookCheckpoint::default()
            };
            parts_of(venue, &head, &mut parts);
        }
        let count = parts.len() as u32;
        for (number, part) in parts.iter_mut().enumerate() {
            (part.part, part.parts) = (number as u32, count);
        }
        Some(parts)
    }

    /// The books of all parts of a checkpoint, in their order. Counters begin at zero.
    ///
    /// # Errors
    /// [`BadCheckpoint`].
    pub fn restore(parts: &[BookCheckpoint]) -> Result<Self, BadCheckpoint> {
        let mut books = Self::default();
        for part in parts {
            let at = books.venue(part.exchange, part.kind).ok_or(BadCheckpoint)?;
            let units = |scale| Units::new(scale).map_err(|_| BadCheckpoint);
            books.set_units(units(part.price_scale)?, units(part.size_scale)?);
            restore_part(&mut books.venues[at], part).ok_or(BadCheckpoint)?;
            books.publish(at);
        }
        Ok(books)
    }
}

fn parts_of(venue: &VenueBook, head: &BookCheckpoint, parts: &mut Vec<BookCheckpoint>) {
    let before = parts.len();
    match &venue.content {
        Content::Prices(book) => {
            let levels = SIDES.into_iter().flat_map(|side| book.levels(side).map(move |level| (side, level)));
            let levels = levels.map(|(side, level)| BookLevel {
                side,
                price: level.price,
                size: level.size,
                orders: level.orders,
            });
            let levels: Vec<BookLevel> = levels.collect();
            let part = |levels: &[BookLevel]| BookCheckpoint { levels: levels.into(), ..head.clone() };
            parts.extend(levels.chunks(PART_MAX).map(part));
        }
        Content::Orders(book) => {
            let orders = SIDES.into_iter().flat_map(|side| book.orders(side)).map(|order| BookOrder {
                id: order.id,
                side: order.side,
                price: order.price,
                size: order.size,
                arrival: order.arrival,
            });
            let orders: Vec<BookOrder> = orders.collect();
            let part = |orders: &[BookOrder]| BookCheckpoint { orders: orders.into(), ..head.clone() };
            parts.extend(orders.chunks(PART_MAX).map(part));
        }
    }
    if parts.len() == before {
        // An empty book.
        parts.push(head.clone());
    }
}

fn restore_part(venue: &mut VenueBook, part: &BookCheckpoint) -> Option<()> {
    (venue.state, venue.doubt, venue.sequence) = (part.state, part.doubt, part.sequence);
    (venue.is_ranged, venue.changed) = (part.ranged, part.changed);
    venue.is_partial =
        part.kind == BookKind::Prices && part.state != BookState::Unknown && part.doubt == PARTIAL;
    match &mut venue.content {
        Content::Prices(book) => part.levels.iter().for_each(|level| {
            book.set(level.side, level.price, level.size, level.orders);
        }),
        Content::Orders(book) => {
            for order in &part.orders {
                book.add(order.id, order.side, order.price, order.size, order.arrival).ok()?;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::{Feed, FeedConfig};
    use crate::{Applier, Order, OrderAction};
    use tapedb_codec::SchemaBuilder;

    #[test]
    fn the_schema_on_the_disk_does_not_change() {
        let text = SchemaBuilder::new().with::<BookCheckpoint>().finish().to_string();
        let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
        assert_eq!(hash, 14_772_211_806_930_490_639, "{text}");
    }

    #[test]
    fn books_come_back_and_go_on_alike() {
        let config = FeedConfig { exchanges: 1, contracts_per_exchange: 1, ..FeedConfig::default() };
        let mut feed = Feed::new(config).unwrap();
        let mut first = Applier::default();
        for _ in 0..5_000 {
            let message = feed.next();
            first.package(0, message.time, message.package);
        }
        let parts = first.symbol(0).unwrap().checkpoint().unwrap();
        let mut second = Applier::default();
        second.restore(0, SymbolBooks::restore(&parts).unwrap());
        for _ in 0..2_000 {
            let message = feed.next();
            first.package(0, message.time, message.package);
            second.package(0, message.time, message.package);
        }
        let parts = [&first, &second].map(|books| books.symbol(0).unwrap().checkpoint().unwrap());
        assert_eq!(parts[0], parts[1]);
        assert_eq!(first.symbol(0).unwrap().best(Side::Bid), second.symbol(0).unwrap().best(Side::Bid));
    }

    #[test]
    fn orders_come_back_in_several_parts_and_in_their_queues() {
        let mut books = Applier::default();
        for id in 0..10_000u64 {
            let price = format!("{}.25", id % 7).parse().ok();
            let (side, size) = (Some(if id % 2 == 0 { Side::Bid } else { Side::Ask }), "2".parse().ok());
            let order =
                Order { action: OrderAction::Add, price, size, side, order_id: Some(id), ..Order::default() };
            books.order(3, Timestamp(id as i64), &order);
        }
        let parts = books.symbol(3).unwrap().checkpoint().unwrap();
        assert_eq!((parts.len(), parts[2].part, parts[0].parts), (3, 2, 3));
        let restored = SymbolBooks::restore(&parts).unwrap();
        assert_eq!(restored.checkpoint().unwrap(), parts);
        let of = |books: &SymbolBooks| books.venues()[0].orders().unwrap().position(9_996);
        assert_eq!(of(&restored), of(books.symbol(3).unwrap()));
        let twice = [parts[0].clone(), parts[0].clone()];
        assert!(SymbolBooks::restore(&twice).is_err());
    }
}
