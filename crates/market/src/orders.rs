//! Market by order and market by price, one message for each change.

use crate::records::{Side, lies};
use tapedb_codec::{Enumeration, Record};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// What happened to an order or at a price.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OrderAction {
    /// A new order, or a new level.
    #[default]
    Add,
    /// Price or size is changed to what the message states.
    Modify,
    /// The size in the message is removed from the order or the level.
    Cancel,
    /// The whole order is removed.
    Delete,
    /// The order `previous_order_id` is removed, and this one is added.
    Replace,
    /// A resting order is executed: the size in the message is removed from it.
    Execute,
    /// A trade, as the aggressor's side of it: the book does not change.
    Trade,
    /// A resting order was filled, and a cancel or modify of it follows: the book does not change.
    Fill,
    /// All orders or levels are removed: of the side, if it is not null.
    Clear,
    /// Nothing: the message carries flags or times only.
    None,
}

/// One change of one order of a book (market by order). The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Order {
    /// What happened.
    pub action: OrderAction,
    /// Side of the order, in a trade of the aggressor; null: none, or not reported.
    pub side: Option<Side>,
    /// Price of the order; null: not reported.
    pub price: Option<Decimal64>,
    /// Size: of the order, or of what is removed, as `action` says; null: not reported.
    pub size: Option<Decimal64>,
    /// The venue's number of the order, or the low 64 bits of one of 128 bits.
    pub order_id: Option<u64>,
    /// The high 64 bits of an order's number of 128 bits, such as a UUID.
    pub order_id_high: Option<u64>,
    /// The order's identifier where it is not a number.
    pub order_id_text: Option<String>,
    /// The order that a replacement replaces.
    pub previous_order_id: Option<u64>,
    /// The venue's number of the trade or match.
    pub trade_id: Option<u64>,
    /// Priority among orders of one price: lower is earlier.
    pub priority: Option<u64>,
    /// The last message of an event: the book is consistent after it.
    pub event_end: bool,
    /// Part of a snapshot, which begins with a clear or with the first such message and ends with `event_end`.
    pub snapshot: bool,
    /// The vendor's flags, as they are.
    pub flags: Option<u32>,
    /// The venue's sequence number.
    pub sequence: Option<u64>,
    /// When the matching engine did what it reports.
    pub match_time: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
    /// The venue's number of the channel.
    pub channel_id: Option<u16>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
    /// The participant that entered the order, where it is reported.
    pub participant: Option<Ascii<8>>,
}

impl Order {
    /// The number under which a book has the order: its own, or 64 bits of a hash where it has 128 bits or is a text. `None` without an identifier.
    /// Two of a million orders with a hash meet once in forty million books; the book then reports an order that was added twice.
    #[inline]
    pub fn book_id(&self) -> Option<u64> {
        match (&self.order_id_text, self.order_id_high, self.order_id) {
            (None, None | Some(0), id) => id,
            (None, Some(high), id) => Some(mixed(mixed(0, high), id.unwrap_or(0))),
            (Some(text), ..) => {
                let bytes = text.as_bytes().chunks(8).map(|chunk| {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    u64::from_le_bytes(word)
                });
                Some(bytes.fold(mixed(1, text.len() as u64), mixed))
            }
        }
    }
}

/// A step of a hash that is the same in every process: books are kept in checkpoints.
fn mixed(state: u64, word: u64) -> u64 {
    let mut mixed = (state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed ^ (mixed >> 29)
}

/// One change at one price, a trade, or the state of the best levels (market by price), with the best levels after it where they are
/// reported. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct MarketByPrice {
    /// What happened; null: nothing, the message is the state at the end of an interval.
    pub action: Option<OrderAction>,
    /// Side of the change, in a trade of the aggressor; null: none, or not reported.
    pub side: Option<Side>,
    /// Price of the change or trade, in a state of the last trade.
    pub price: Option<Decimal64>,
    /// Size of the change or trade, in a state of the last trade.
    pub size: Option<Decimal64>,
    /// Place of the change in the book, 0 is the best price.
    pub depth: Option<u16>,
    /// The venue's number of the trade, or the low 64 bits of one of 128 bits.
    pub trade_id: Option<u64>,
    /// The high 64 bits of a trade's number of 128 bits, such as a UUID.
    pub trade_id_high: Option<u64>,
    /// The trade's identifier where it is not a number.
    pub trade_id_text: Option<String>,
    /// The last message of an event: the levels are consistent after it.
    pub event_end: bool,
    /// Part of a snapshot.
    pub snapshot: bool,
    /// The vendor's flags, as they are.
    pub flags: Option<u32>,
    /// The venue's sequence number.
    pub sequence: Option<u64>,
    /// When the matching engine did what it reports; in a state: when the last trade was.
    pub match_time: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// Length of the interval whose end the message is the state of, in nanoseconds.
    pub interval_ns: Option<u64>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
    /// The venue's number of the channel.
    pub channel_id: Option<u16>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
    /// The levels after the change, best first.
    pub levels: Vec<BidAsk>,
}

impl MarketByPrice {
    /// Makes it empty again and keeps the memory of the levels.
    pub fn clear(&mut self) {
        let mut levels = std::mem::take(&mut self.levels);
        levels.clear();
        *self = Self { levels, ..Self::default() };
    }
}

/// One level of both sides of a book.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
pub struct BidAsk {
    /// Bid price; null: there is no such bid.
    pub bid_price: Option<Decimal64>,
    /// Size at the bid price.
    pub bid_size: Option<Decimal64>,
    /// Orders at the bid price.
    pub bid_orders: Option<u32>,
    /// The vendor's number of the publisher whose bid it is, where several are consolidated.
    pub bid_publisher_id: Option<u16>,
    /// Ask price; null: there is no such ask.
    pub ask_price: Option<Decimal64>,
    /// Size at the ask price.
    pub ask_size: Option<Decimal64>,
    /// Orders at the ask price.
    pub ask_orders: Option<u32>,
    /// The vendor's number of the publisher whose ask it is, where several are consolidated.
    pub ask_publisher_id: Option<u16>,
}

/// A bar with its interval, and what it was made of. The message's time is the end of the interval, or its beginning where the length
/// is not known.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct IntervalBar {
    /// Begin of the interval.
    pub start: Option<Timestamp>,
    /// Length of the interval in nanoseconds; null for bars that do not end by time.
    pub interval_ns: Option<u64>,
    /// First price; null: no trade.
    pub open: Option<Decimal64>,
    /// Highest price.
    pub high: Option<Decimal64>,
    /// Lowest price.
    pub low: Option<Decimal64>,
    /// Last price.
    pub close: Option<Decimal64>,
    /// Sum of sizes.
    pub volume: Option<Decimal64>,
    /// Sum of price times size.
    pub turnover: Option<Decimal64>,
    /// Number of trades.
    pub trades: Option<u64>,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

const _: () = assert!(lies::<Order>(
    131,
    &[3, 4, 5, 13, 21, 29, 37, 41, 49, 57, 65, 66, 67, 71, 79, 87, 95, 103, 111, 113, 115, 123]
));
const _: () = assert!(lies::<MarketByPrice>(
    113,
    &[3, 4, 5, 13, 21, 23, 31, 39, 43, 44, 45, 49, 57, 65, 73, 81, 89, 97, 99, 101, 109]
));
const _: () = assert!(lies::<BidAsk>(45, &[1, 9, 17, 21, 23, 31, 39, 43]));
const _: () = assert!(lies::<IntervalBar>(100, &[2, 10, 18, 26, 34, 42, 50, 58, 66, 74, 82, 90, 92]));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Definition, Funding, Gap, Imbalance, Liquidation, Notice, Statistic, Status, SymbolMapping};
    use std::fs;
    use std::path::Path;
    use tapedb_codec::{SchemaBuilder, decode, encode};

    /// As with the first records, the documentation is part of the schema that streams store.
    #[test]
    fn schemas_on_the_disk_do_not_change() {
        let schema = SchemaBuilder::new().with::<Order>().with::<MarketByPrice>().with::<IntervalBar>();
        let schema = schema.with::<Definition>().with::<Status>().with::<Statistic>().with::<Imbalance>();
        let schema = schema.with::<SymbolMapping>().with::<Notice>();
        let schema = schema.with::<Gap>().with::<Liquidation>().with::<Funding>();
        let text = schema.finish().to_string();
        let frozen =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors/market_schema_events.txt");
        let frozen = fs::read_to_string(frozen).expect("testing/vectors/market_schema_events.txt");
        assert_eq!(text, frozen);
    }

    #[test]
    fn an_order_with_an_identifier_of_128_bits_survives_its_bytes() {
        let order = Order {
            action: OrderAction::Replace,
            side: Some(Side::Ask),
            price: "4810.25".parse().ok(),
            order_id: Some(u64::MAX),
            order_id_high: Some(1 << 63),
            order_id_text: Some("a-b".into()),
            event_end: true,
            source_time: Some(Timestamp(7)),
            ..Order::default()
        };
        let mut bytes = Vec::new();
        encode(&order, &mut bytes);
        assert_eq!(decode::<Order>(&bytes), Ok(order));
    }

    #[test]
    fn clear_keeps_the_memory_of_the_levels() {
        let mut change =
            MarketByPrice { depth: Some(1), levels: vec![BidAsk::default(); 10], ..Default::default() };
        let capacity = change.levels.capacity();
        change.clear();
        assert_eq!(change, MarketByPrice::default());
        assert_eq!(change.levels.capacity(), capacity);
    }
}
