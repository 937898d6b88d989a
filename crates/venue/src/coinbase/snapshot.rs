//! `coinbase-snapshot`: a whole book of Coinbase's REST interface, one JSON object a file.
//!
//! Level 2 becomes one `Package`, a snapshot, with the number of orders at each level. Level 3 becomes an [`Order`] for each order, all with `snapshot`: first a
//! `CLEAR`, then the orders, bids first, and the last of them has `event_end`. The order's UUID is `order_id_high` and `order_id`.
//!
//! `captured_at` is the message's time. A file takes up to [`MAX_BYTES`] of memory, and its orders, about 60 bytes each in it, twice as much.

use crate::container::Opened;
use crate::error::{ImportError, LineLocation, excerpt};
use crate::fields::BadLine;
use crate::frames::ids;
use crate::frames::messages::{Message, Messages};
use crate::frames::scalar::Scalar;
use crate::record::AnyRecord;
use crate::source::{Counters, MAX_SYMBOL_BYTES, RowHeader, Source, is_symbol};
use serde::Deserialize;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_market::{Order, OrderAction, Package, PackageKind, Side};
use tapedb_schema::{Decimal64, Timestamp};

pub(crate) const LOOKED_FOR: &str =
    "JSON files with `product`, `level`, `captured_at`, `bids` and `asks`, plain or gzipped";

/// Longest file, unpacked.
const MAX_BYTES: usize = 64 << 20;
/// Most of a file that is read to see what it is.
const HEAD_BYTES: usize = 100;

/// Whether a file begins as a snapshot does.
pub(crate) fn begins_so(head: &[u8]) -> bool {
    let text: Vec<u8> =
        head.iter().take(HEAD_BYTES).filter(|byte| !byte.is_ascii_whitespace()).copied().collect();
    text.starts_with(b"{\"product\":") && text.windows(8).any(|part| part == b"\"level\":")
}

/// Whether a file found in a folder may be one.
pub(crate) fn is_named_so(name: &str) -> bool {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    name.ends_with("_snapshot.json")
}

#[derive(Deserialize)]
struct Book<'a> {
    #[serde(borrow)]
    product: Scalar<'a>,
    level: u8,
    captured_at: Scalar<'a>,
    sequence: Scalar<'a>,
    /// Price, size, number of orders or the order's identifier; best first.
    bids: Vec<(Scalar<'a>, Scalar<'a>, Scalar<'a>)>,
    asks: Vec<(Scalar<'a>, Scalar<'a>, Scalar<'a>)>,
}

/// An order of a book of level 3; its identifier is a UUID or another text.
struct Row {
    side: Side,
    price: Decimal64,
    size: Decimal64,
    id: Result<(u64, u64), String>,
}

/// A book of level 3, whose messages are made one by one: they are larger than what they are made of.
struct Orders {
    symbol: String,
    time: Timestamp,
    /// What all orders have.
    part: Order,
    /// The clear is the next message.
    begins: bool,
    rows: std::vec::IntoIter<Row>,
}

impl Orders {
    fn next(&mut self) -> Option<Order> {
        let order = if std::mem::take(&mut self.begins) {
            Order { action: OrderAction::Clear, ..self.part.clone() }
        } else {
            let row = self.rows.next()?;
            let halves = row.id.as_ref().ok();
            Order {
                action: OrderAction::Add,
                side: Some(row.side),
                price: Some(row.price),
                size: Some(row.size),
                order_id: halves.map(|(_, low)| *low),
                order_id_high: halves.map(|(high, _)| *high),
                order_id_text: row.id.err(),
                ..self.part.clone()
            }
        };
        Some(Order { event_end: self.rows.len() == 0, ..order })
    }
}

/// The snapshot of a file.
pub(crate) struct SnapshotSource {
    place: LineLocation,
    opened: Option<Opened>,
    out: Messages,
    orders: Option<Orders>,
    symbol: String,
    bytes_read: Arc<AtomicU64>,
    bytes_total: u64,
    counters: Counters,
}

impl SnapshotSource {
    pub(crate) fn new(opened: Opened, path: PathBuf, bytes_total: u64, round: bool) -> Self {
        let bytes_read = Arc::clone(&opened.bytes_read);
        let place = LineLocation { path, member: None, line: 1, column: None };
        let (out, counters) = (Messages::new("COINBASE", round), Counters::default());
        let (opened, symbol) = (Some(opened), String::new());
        Self { place, opened, out, orders: None, symbol, bytes_read, bytes_total, counters }
    }

    fn read(&mut self, opened: Opened) -> Result<(), ImportError> {
        let mut text = String::new();
        let read = opened.reader.take(MAX_BYTES as u64 + 1).read_to_string(&mut text);
        read.map_err(|source| ImportError::Read { place: self.place.clone(), source })?;
        let parsed = match text.len() > MAX_BYTES {
            true => Err(BadLine::anywhere(format!("a snapshot of at most {MAX_BYTES} bytes"))),
            false => parse(&text, &mut self.out),
        };
        self.counters.add(&std::mem::take(self.out.counters()));
        self.orders = parsed.map_err(|bad| {
            self.out.clear();
            let place = LineLocation { column: bad.column.map(|column| column + 1), ..self.place.clone() };
            let excerpt = excerpt(text.as_bytes(), bad.column.unwrap_or(0));
            ImportError::Line { place, expected: bad.expected, excerpt }
        })?;
        Ok(())
    }

    /// The next message.
    fn take(&mut self) -> Option<Message> {
        let Some(orders) = &mut self.orders else { return self.out.take() };
        let record = AnyRecord::from(orders.next()?);
        Some(Message { time: orders.time, symbol: orders.symbol.clone(), record })
    }
}

impl Source for SnapshotSource {
    fn next(&mut self, out: &mut AnyRecord) -> Result<Option<RowHeader<'_>>, ImportError> {
        out.package();
        if let Some(opened) = self.opened.take() {
            self.read(opened)?;
        }
        let Some(message) = self.take() else { return Ok(None) };
        self.counters.rows += 1;
        self.symbol = message.symbol;
        *out = message.record;
        Ok(Some(RowHeader { time: message.time, symbol: &self.symbol }))
    }

    fn progress(&self) -> (u64, u64) {
        (self.bytes_read.load(Ordering::Relaxed), self.bytes_total)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// The orders of a book of level 3; a book of level 2 is a message already.
fn parse(text: &str, out: &mut Messages) -> Result<Option<Orders>, BadLine> {
    out.begin(Timestamp(0), text);
    let book: Book<'_> = out.json(text)?;
    let (time, sequence) = (out.iso(book.captured_at)?, out.whole(book.sequence, "sequence")?);
    out.begin(time, text);
    match book.level {
        2 => levels(&book, sequence, out).map(|()| None),
        3 => orders(&book, (time, sequence), out).map(Some),
        _ => Err(out.bad(text, "a snapshot of level 2 or 3")),
    }
}

fn levels(book: &Book<'_>, sequence: u64, out: &mut Messages) -> Result<(), BadLine> {
    let mut package = Package { kind: PackageKind::Snapshot, sequence: Some(sequence), ..Package::default() };
    for (side, levels) in [(Side::Bid, &book.bids), (Side::Ask, &book.asks)] {
        for (place, &(price, size, count)) in levels.iter().enumerate() {
            let orders = count.0.parse().map_err(|_| out.bad(count.0, "a number of orders"))?;
            package.entries.push(out.level(side, place, (price, size), Some(orders))?);
        }
    }
    out.push(book.product.0, package)
}

fn orders(
    book: &Book<'_>,
    (time, sequence): (Timestamp, u64),
    out: &mut Messages,
) -> Result<Orders, BadLine> {
    let symbol = book.product.0.to_uppercase();
    if !is_symbol(&symbol) {
        return Err(out.bad(book.product.0, format!("a product of 1 to {MAX_SYMBOL_BYTES} bytes")));
    }
    let mut rows = Vec::with_capacity(book.bids.len() + book.asks.len());
    for (side, orders) in [(Side::Bid, &book.bids), (Side::Ask, &book.asks)] {
        for &(price, size, id) in orders {
            let id = ids::uuid(id.0).ok_or_else(|| id.0.to_string());
            rows.push(Row { side, price: out.decimal(price)?, size: out.decimal(size)?, id });
        }
    }
    let part =
        Order { snapshot: true, sequence: Some(sequence), exchange: out.exchange(), ..Order::default() };
    Ok(Orders { symbol, time, part, begins: true, rows: rows.into_iter() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(text: &str) -> Result<Vec<AnyRecord>, BadLine> {
        let mut out = Messages::new("COINBASE", false);
        let mut orders = parse(text, &mut out)?;
        let levels = std::iter::from_fn(|| out.take()).map(|message| message.record);
        let orders = std::iter::from_fn(|| orders.as_mut()?.next()).map(AnyRecord::from);
        Ok(levels.chain(orders).collect())
    }

    #[test]
    fn orders_begin_with_a_clear_and_end_with_an_end() {
        let text = r#"{"product":"BTC-USD","level":3,"captured_at":"2026-08-07T20:04:10Z","sequence":133905824031,"l3_depth":null,"bids":[["64934.31","0.0536205","60de12d8-f80b-4848-adbc-2b17375a9216"]],"asks":[["64935","1","not-a-uuid"]]}"#;
        assert!(begins_so(text.as_bytes()) && !begins_so(b"{\"product\":\"A\"}"));
        let found = records(text).unwrap();
        let orders: Vec<&Order> = found
            .iter()
            .map(|record| match record {
                AnyRecord::Order(order) => &**order,
                other => panic!("{other:?}"),
            })
            .collect();
        let shapes: Vec<_> =
            orders.iter().map(|order| (order.action, order.snapshot, order.event_end)).collect();
        let add = OrderAction::Add;
        assert_eq!(shapes, [(OrderAction::Clear, true, false), (add, true, false), (add, true, true)]);
        assert_eq!(orders[1].order_id_high, Some(0x60de_12d8_f80b_4848));
        assert_eq!(orders[2].order_id_text.as_deref(), Some("not-a-uuid"));
        assert!(
            records(&text.replace("\"level\":3", "\"level\":1"))
                .unwrap_err()
                .expected
                .contains("level 2 or 3")
        );
        assert!(records(&text[..200]).is_err());
    }

    #[test]
    fn levels_are_one_package_with_numbers_of_orders() {
        let text = r#"{"product":"BTC-USD","level":2,"captured_at":"2026-08-07T20:04:10Z","sequence":7,"bids":[["2","0.5",3]],"asks":[]}"#;
        let found = records(text).unwrap();
        let package = found[0].as_package().unwrap();
        assert_eq!((package.sequence, package.entries.len()), (Some(7), 1));
        assert!(
            matches!(package.entries[0], tapedb_market::Entry::Level2Snapshot(level) if level.orders == Some(3))
        );
    }
}
