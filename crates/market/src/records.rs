//! The market-data records. Field order and variant order are part of the row layout: add new ones at the end.

use tapedb_codec::{Enumeration, Record, Union};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// Side of a book.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Side {
    /// Buyers.
    #[default]
    Bid,
    /// Sellers.
    Ask,
}

/// Who crossed the spread in a trade.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Aggressor {
    /// The buyer took a resting sell order.
    #[default]
    Buy,
    /// The seller took a resting buy order.
    Sell,
}

/// What the entries of a package are.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PackageKind {
    /// Changes since the package before.
    #[default]
    Update,
    /// The whole state, which replaces whatever was known: after a start, a reset or a gap.
    Snapshot,
    /// The whole state, sent from time to time for those who join late; others may skip it.
    PeriodicSnapshot,
}

/// What a level-2 update does.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BookAction {
    /// Inserts the level at this price or replaces what is there.
    #[default]
    Set,
    /// Removes the level at this price; nothing happens if there is none.
    Delete,
}

/// A trade.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
pub struct Trade {
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
    /// Price in quote currency, with the decimals the venue wrote.
    pub price: Decimal64,
    /// Size in units of the instrument (shares, contracts, coins).
    pub size: Decimal64,
    /// Who crossed the spread, if the venue tells.
    pub aggressor: Option<Aggressor>,
    /// The venue's trade number.
    pub id: Option<u64>,
    /// The venue's sale conditions, as written; longer ones are a message of their own, [`TradeCondition`].
    pub condition: Option<Ascii<8>>,
    /// The vendor marks the trade as doubtful.
    pub suspicious: bool,
}

/// Best price of one side of one venue, or of all venues.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
pub struct Level1 {
    /// Side.
    pub side: Side,
    /// Best price; null: the side is empty.
    pub price: Option<Decimal64>,
    /// Size at the best price; null: not told, or the side is empty.
    pub size: Option<Decimal64>,
    /// Orders at the best price.
    pub orders: Option<u32>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
    /// The venue's quote conditions, as written.
    pub condition: Option<Ascii<8>>,
    /// The vendor marks the quote as doubtful.
    pub suspicious: bool,
}

/// One price level of a book snapshot.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
pub struct Level2Snapshot {
    /// Side.
    pub side: Side,
    /// Place in the book, 0 is the best price.
    pub level: u16,
    /// Price of the level.
    pub price: Decimal64,
    /// Size at the level.
    pub size: Decimal64,
    /// Orders at the level.
    pub orders: Option<u32>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// A change of one price level of a book.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
pub struct Level2Update {
    /// What happens at the price.
    pub action: BookAction,
    /// Side.
    pub side: Side,
    /// Place in the book, 0 is the best price: after a set, before a delete.
    pub level: Option<u16>,
    /// Price of the level.
    pub price: Decimal64,
    /// New size at the level; null in a delete.
    pub size: Option<Decimal64>,
    /// New number of orders at the level.
    pub orders: Option<u32>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// The venue's sequence numbers that a package covers when they are more than one; the last is the package's
/// `sequence`.
#[derive(Record, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SequenceRange {
    /// First number covered (Binance `U`).
    pub first: u64,
    /// Last number of the package before (Binance `pu`): a gap shows when it is not what was seen.
    pub previous: Option<u64>,
}

/// One entry of a package.
#[derive(Union, Debug, Clone, PartialEq)]
pub enum Entry {
    /// A trade.
    Trade(Trade),
    /// Best price of one side.
    Level1(Level1),
    /// One level of a snapshot.
    Level2Snapshot(Level2Snapshot),
    /// A change of one level.
    Level2Update(Level2Update),
    /// Sequence numbers covered.
    SequenceRange(SequenceRange),
}

impl Default for Entry {
    fn default() -> Self {
        Self::Trade(Trade::default())
    }
}

/// What a venue sent at once about one symbol.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Package {
    /// What the entries are.
    pub kind: PackageKind,
    /// When the venue sent it; the message's own time is when it was received, or the venue's where nothing else is
    /// known.
    pub source_time: Option<Timestamp>,
    /// When the matching engine did what it tells.
    pub match_time: Option<Timestamp>,
    /// The venue's sequence number, the last one covered.
    pub sequence: Option<u64>,
    /// The entries, in the venue's order.
    pub entries: Vec<Entry>,
}

impl Package {
    /// Makes it an empty update again and keeps the memory of the entries.
    pub fn clear(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        *self = Self { entries, ..Self::default() };
    }
}

/// Open, high, low, close and volume of an interval; the message's time is the end of the interval.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
#[record(message)]
pub struct Bar {
    /// First price.
    pub open: Decimal64,
    /// Highest price.
    pub high: Decimal64,
    /// Lowest price.
    pub low: Decimal64,
    /// Last price.
    pub close: Decimal64,
    /// Sum of sizes.
    pub volume: Decimal64,
}

/// What a derivative is worth to its venue, for margins and funding; the message's time is when it was received.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
#[record(message)]
pub struct MarkPrice {
    /// Mark price.
    pub mark: Decimal64,
    /// Price of the index.
    pub index: Option<Decimal64>,
    /// Estimated settlement price.
    pub settlement: Option<Decimal64>,
    /// Average of the mark price, as the venue takes it.
    pub average: Option<Decimal64>,
    /// Funding rate; null where there is no funding.
    pub funding_rate: Option<Decimal64>,
    /// When funding is next; null where there is none.
    pub next_funding: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// The condition of a trade that [`Trade::condition`] has no room for, which is then null: the message before it, of the same
/// time and symbol, has the trade.
#[derive(Record, Debug, Clone, PartialEq, Eq, Default)]
#[record(message)]
pub struct TradeCondition {
    /// The venue's trade number.
    pub id: Option<u64>,
    /// The venue's sale conditions, as written.
    pub condition: String,
}

/// The layout of the records is a format: on disk, on the wire, in other languages. What changes it does not compile.
pub(crate) const fn lies<R: Record>(fixed: usize, offsets: &[usize]) -> bool {
    let mut same = R::FIXED == fixed && R::OFFSETS.len() == offsets.len();
    let mut i = 0;
    while same && i < offsets.len() {
        same = R::OFFSETS[i] == offsets[i];
        i += 1;
    }
    same
}

const _: () = assert!(lies::<Trade>(43, &[1, 9, 17, 25, 26, 34, 42]));
const _: () = assert!(lies::<Level1>(39, &[1, 2, 10, 18, 22, 30, 38]));
const _: () = assert!(lies::<Level2Snapshot>(32, &[1, 2, 4, 12, 20, 24]));
const _: () = assert!(lies::<Level2Update>(33, &[1, 2, 3, 5, 13, 21, 25]));
const _: () = assert!(lies::<SequenceRange>(17, &[1, 9]));
const _: () = assert!(lies::<Package>(30, &[1, 2, 10, 18, 26]));
const _: () = assert!(lies::<Bar>(40, &[0, 8, 16, 24, 32]));
const _: () = assert!(lies::<MarkPrice>(65, &[1, 9, 17, 25, 33, 41, 49, 57]));
const _: () = assert!(lies::<TradeCondition>(13, &[1, 9]));

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use tapedb_codec::dynamic::Layouts;
    use tapedb_codec::{SchemaBuilder, decode, encode};

    /// Streams store the schema with its documentation, and importing continues only into a stream of an equal schema. So the comments
    /// above are part of the format: one that changes needs a new record type.
    #[test]
    fn schemas_on_the_disk_do_not_change() {
        let schema =
            SchemaBuilder::new().with::<Package>().with::<Bar>().with::<MarkPrice>().with::<TradeCondition>();
        let text = schema.finish().to_string();
        let frozen = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors/market_schema.txt");
        let frozen = fs::read_to_string(frozen).expect("testing/vectors/market_schema.txt");
        assert_eq!(text, frozen);
    }

    #[test]
    fn clear_keeps_the_memory_and_nothing_else() {
        let mut package = Package { sequence: Some(7), kind: PackageKind::Snapshot, ..Package::default() };
        package.entries.resize(100, Entry::default());
        let capacity = package.entries.capacity();
        package.clear();
        assert_eq!(package, Package::default());
        assert_eq!(package.entries.capacity(), capacity);
    }

    #[test]
    fn the_interpreter_finds_the_fields_at_the_same_offsets() {
        let schema = SchemaBuilder::new().with::<Package>().with::<Bar>().with::<MarkPrice>();
        let schema = schema.with::<TradeCondition>().finish();
        let layouts = Layouts::new(schema).unwrap();
        let offsets = |name: &str| {
            let (id, _) = layouts.schema().record(name).unwrap();
            let layout = layouts.record(id).unwrap();
            (layout.fixed, layout.fields.iter().map(|field| field.offset).collect::<Vec<_>>())
        };
        fn compiled<R: Record>() -> (&'static str, (usize, Vec<usize>)) {
            (R::NAME, (R::FIXED, R::OFFSETS.to_vec()))
        }
        let all = [
            compiled::<Trade>(),
            compiled::<Level1>(),
            compiled::<Level2Snapshot>(),
            compiled::<Level2Update>(),
            compiled::<SequenceRange>(),
            compiled::<Package>(),
            compiled::<Bar>(),
            compiled::<MarkPrice>(),
            compiled::<TradeCondition>(),
        ];
        assert_eq!(all.len(), layouts.records().len());
        for (name, compiled) in all {
            assert_eq!(compiled, offsets(name), "{name}");
        }
    }

    #[test]
    fn a_package_survives_its_bytes() {
        let package = Package {
            kind: PackageKind::PeriodicSnapshot,
            source_time: Some(Timestamp(1)),
            match_time: None,
            sequence: Some(u64::MAX),
            entries: vec![
                Entry::Trade(Trade { aggressor: Some(Aggressor::Sell), id: Some(9), ..Trade::default() }),
                Entry::Level1(Level1 { side: Side::Ask, suspicious: true, ..Level1::default() }),
                Entry::Level2Snapshot(Level2Snapshot {
                    level: 49,
                    orders: Some(3),
                    ..Level2Snapshot::default()
                }),
                Entry::Level2Update(Level2Update { action: BookAction::Delete, ..Level2Update::default() }),
                Entry::SequenceRange(SequenceRange { first: 5, previous: Some(4) }),
            ],
        };
        let mut bytes = Vec::new();
        encode(&package, &mut bytes);
        assert_eq!(decode::<Package>(&bytes), Ok(package));
    }
}
