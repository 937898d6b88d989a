//! Rows of each kind.

use super::Head;
use crate::fields::BadLine;
use crate::frames::ids;
use crate::frames::messages::{Messages, is_zero};
use crate::frames::scalar::Scalar;
use crate::frames::times;
use crate::source::{MAX_SYMBOL_BYTES, is_symbol};
use tapedb_market::{
    Aggressor, Attribute, BookAction, Entry, Level2Update, Liquidation, MarketByPrice, OrderAction, Package,
    PackageKind, Side, Ticker, Trade,
};
use tapedb_schema::{Ascii, TimeUnit, Timestamp};

/// Most entries of one message: what is more becomes further messages.
const ENTRIES_MAX: usize = 30_000;
/// Most levels of a snapshot's row.
const LEVELS_MAX: usize = 1_000;

/// The kind of a file, by its header.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    Trades,
    Liquidations,
    /// Of derivatives or options: named columns.
    Ticker,
    Quotes,
    /// With so many levels.
    Snapshot(usize),
    Incremental,
}

impl Kind {
    pub(super) fn of_header(line: &str, liquidations: bool) -> Result<Self, BadLine> {
        let rest = line.strip_prefix(super::HEAD).unwrap_or_default();
        let levels = rest.split(',').count() / 4;
        match rest {
            "id,side,price,amount" if liquidations => Ok(Self::Liquidations),
            "id,side,price,amount" => Ok(Self::Trades),
            rest if rest.starts_with("funding_timestamp,")
                || rest.starts_with("type,strike_price,expiration,") =>
            {
                Ok(Self::Ticker)
            }
            "ask_amount,ask_price,bid_price,bid_amount" => Ok(Self::Quotes),
            "is_snapshot,side,price,amount" => Ok(Self::Incremental),
            rest if (1..=LEVELS_MAX).contains(&levels) && rest == snapshot_header(levels) => {
                Ok(Self::Snapshot(levels))
            }
            _ => Err(BadLine::new(
                0,
                "the header of a file of trades, quotes, book_snapshot_N, incremental_book_L2, derivative_ticker, options_chain or liquidations as first line",
            )),
        }
    }
}

fn snapshot_header(levels: usize) -> String {
    let level = |i| format!("asks[{i}].price,asks[{i}].amount,bids[{i}].price,bids[{i}].amount");
    (0..levels).map(level).collect::<Vec<_>>().join(",")
}

/// The columns of a row.
pub(super) struct Columns<'a> {
    rest: Option<&'a str>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { rest: Some(line) }
    }

    pub(super) fn next(&mut self, out: &Messages) -> Result<Scalar<'a>, BadLine> {
        let rest = self.rest.ok_or_else(|| out.bad("", "one more column"))?;
        let (column, rest) = rest.split_once(',').map_or((rest, None), |(column, rest)| (column, Some(rest)));
        self.rest = rest;
        Ok(Scalar(column))
    }

    fn end(&self, out: &Messages) -> Result<(), BadLine> {
        self.rest.map_or(Ok(()), |rest| Err(out.bad(rest, "the end of the line")))
    }
}

/// A row that is a message.
pub(super) fn push(
    kind: Kind,
    head: &Head<'_>,
    mut columns: Columns<'_>,
    out: &mut Messages,
) -> Result<(), BadLine> {
    let mut next = |out: &Messages| columns.next(out);
    let mut package = Package { source_time: Some(head.source_time), ..Package::default() };
    set_exchange(head, out);
    match kind {
        Kind::Trades => {
            let (id, side, price, size) = (next(out)?, next(out)?, next(out)?, next(out)?);
            columns.end(out)?;
            return trade(head, (id, side, price, size), out);
        }
        Kind::Liquidations => {
            let (id, side, price, size) = (next(out)?, next(out)?, next(out)?, next(out)?);
            columns.end(out)?;
            return liquidation(head, (id, side, price, size), out);
        }
        Kind::Quotes => {
            let (ask_size, ask, bid, bid_size) = (next(out)?, next(out)?, next(out)?, next(out)?);
            package.entries = vec![out.best(Side::Bid, bid, bid_size)?, out.best(Side::Ask, ask, ask_size)?];
        }
        Kind::Snapshot(levels) => {
            package.kind = PackageKind::Snapshot;
            let (mut bids, mut asks) = (Vec::with_capacity(2 * levels), Vec::with_capacity(levels));
            for place in 0..levels {
                for (side, entries) in [(Side::Ask, &mut asks), (Side::Bid, &mut bids)] {
                    let (price, size) = (next(out)?, next(out)?);
                    // The book has fewer levels.
                    if !price.is_empty() {
                        entries.push(out.level(side, place, (price, size), None)?);
                    }
                }
            }
            bids.append(&mut asks);
            package.entries = bids;
        }
        Kind::Incremental | Kind::Ticker => unreachable!("they are read elsewhere"),
    }
    columns.end(out)?;
    out.push(head.symbol, package)
}

fn set_exchange(head: &Head<'_>, out: &mut Messages) {
    if out.exchange() != head.exchange {
        out.set_exchange(head.exchange.map_or(String::new(), |code| code.to_string()).as_str());
    }
}

fn trade(
    head: &Head<'_>,
    (id, side, price, size): (Scalar<'_>, Scalar<'_>, Scalar<'_>, Scalar<'_>),
    out: &mut Messages,
) -> Result<(), BadLine> {
    let aggressor = match side.0 {
        "buy" => Some(Aggressor::Buy),
        "sell" => Some(Aggressor::Sell),
        "unknown" | "" => None,
        _ => return Err(out.bad(side.0, "side as buy, sell or unknown")),
    };
    let (price, size, exchange) = (out.decimal(price)?, out.decimal(size)?, head.exchange);
    let number = ids::decimal(id.0).filter(|(high, _)| *high == 0).map(|(_, low)| low);
    if number.is_some() || id.is_empty() {
        let entry = Trade { exchange, price, size, aggressor, id: number, ..Trade::default() };
        let source_time = Some(head.source_time);
        return out.push(
            head.symbol,
            Package { source_time, entries: vec![Entry::Trade(entry)], ..Package::default() },
        );
    }
    let halves = ids::uuid(id.0);
    let trade = MarketByPrice {
        action: Some(OrderAction::Trade),
        side: aggressor.map(|aggressor| match aggressor {
            Aggressor::Buy => Side::Bid,
            Aggressor::Sell => Side::Ask,
        }),
        price: Some(price),
        size: Some(size),
        trade_id: halves.map(|(_, low)| low),
        trade_id_high: halves.map(|(high, _)| high),
        trade_id_text: halves.is_none().then(|| id.0.to_string()),
        source_time: Some(head.source_time),
        exchange,
        ..MarketByPrice::default()
    };
    out.push(head.symbol, trade)
}

/// `side` is that of the order that closes the position.
fn liquidation(
    head: &Head<'_>,
    (id, side, price, size): (Scalar<'_>, Scalar<'_>, Scalar<'_>, Scalar<'_>),
    out: &mut Messages,
) -> Result<(), BadLine> {
    let side = match side.0 {
        "buy" => Some(Side::Bid),
        "sell" => Some(Side::Ask),
        "unknown" | "" => None,
        _ => return Err(out.bad(side.0, "side as buy, sell or unknown")),
    };
    let number = ids::decimal(id.0).filter(|(high, _)| *high == 0).map(|(_, low)| low);
    let liquidation = Liquidation {
        side,
        price: Some(out.decimal(price)?),
        size: Some(out.decimal(size)?),
        id: number,
        id_text: id.some().filter(|_| number.is_none()).map(Into::into),
        source_time: Some(head.source_time),
        exchange: head.exchange,
        ..Liquidation::default()
    };
    out.push(head.symbol, liquidation)
}

/// A row of `derivative_ticker` or `options_chain`, by the names of its columns.
pub(super) fn ticker(
    head: &Head<'_>,
    names: &[String],
    mut columns: Columns<'_>,
    out: &mut Messages,
) -> Result<(), BadLine> {
    let mut ticker =
        Ticker { exchange: head.exchange, source_time: Some(head.source_time), ..Ticker::default() };
    for name in names {
        let value = columns.next(out)?;
        let Some(text) = value.some() else { continue };
        let place = match name.as_str() {
            "funding_timestamp" => {
                let time = times::whole(text, &[TimeUnit::Micros]);
                let expected = "a time in microseconds since 1970, not before 1973";
                ticker.next_funding = Some(time.ok_or_else(|| out.bad(text, expected))?);
                continue;
            }
            "funding_rate" => &mut ticker.funding_rate,
            "open_interest" => &mut ticker.open_interest,
            "last_price" => &mut ticker.last_price,
            "index_price" => &mut ticker.index,
            "mark_price" => &mut ticker.mark,
            "bid_price" => &mut ticker.bid_price,
            "bid_amount" => &mut ticker.bid_size,
            "ask_price" => &mut ticker.ask_price,
            "ask_amount" => &mut ticker.ask_size,
            _ => {
                ticker.attributes.push(Attribute { name: name.clone(), value: text.into() });
                continue;
            }
        };
        *place = out.figure(name, value, &mut ticker.attributes)?;
    }
    columns.end(out)?;
    out.push(head.symbol, ticker)
}

/// A row of `incremental_book_L2`.
pub(super) struct Change {
    snapshot: bool,
    entry: Entry,
}

pub(super) fn change(
    head: &Head<'_>,
    mut columns: Columns<'_>,
    out: &mut Messages,
) -> Result<Change, BadLine> {
    let (snapshot, side) = (columns.next(out)?, columns.next(out)?);
    let (price, size) = (columns.next(out)?, columns.next(out)?);
    columns.end(out)?;
    let snapshot = match snapshot.0 {
        "true" => true,
        "false" => false,
        _ => return Err(out.bad(snapshot.0, "is_snapshot as true or false")),
    };
    let side = match side.0 {
        "bid" => Side::Bid,
        "ask" => Side::Ask,
        _ => return Err(out.bad(side.0, "side as bid or ask")),
    };
    let (price, size) = (out.decimal(price)?, out.decimal(size)?);
    let delete = is_zero(size);
    let entry = Level2Update {
        action: if delete { BookAction::Delete } else { BookAction::Set },
        side,
        price,
        size: (!delete).then_some(size),
        exchange: head.exchange,
        ..Level2Update::default()
    };
    // Before the row is taken: its message is made later. Upper case may be longer.
    let fits = match head.symbol.is_ascii() {
        true => is_symbol(head.symbol),
        false => is_symbol(&head.symbol.to_uppercase()),
    };
    if !fits {
        return Err(out.bad(head.symbol, format!("a symbol of 1 to {MAX_SYMBOL_BYTES} bytes")));
    }
    Ok(Change { snapshot, entry: Entry::Level2Update(entry) })
}

/// Rows that are one message.
pub(super) struct Group {
    exchange: Option<Ascii<8>>,
    pub(super) symbol: String,
    source_time: Timestamp,
    pub(super) received: Timestamp,
    snapshot: bool,
    /// The entries before have filled a message: this one goes on with it.
    continued: bool,
    entries: Vec<Entry>,
}

impl Group {
    /// One with a first row, after the rows before: those of a full message may go on in it.
    pub(super) fn after(before: Option<&Self>, head: &Head<'_>, change: Change) -> Self {
        Self {
            exchange: head.exchange,
            symbol: head.symbol.to_string(),
            source_time: head.source_time,
            received: head.received,
            snapshot: change.snapshot,
            continued: before.is_some_and(|before| before.same(head, &change)),
            entries: vec![change.entry],
        }
    }

    pub(super) fn takes(&self, head: &Head<'_>, change: &Change) -> bool {
        self.same(head, change) && self.entries.len() < ENTRIES_MAX
    }

    /// Whether a row is of the same message, or of the one that it is a part of.
    fn same(&self, head: &Head<'_>, change: &Change) -> bool {
        self.received == head.received
            && self.source_time == head.source_time
            && self.snapshot == change.snapshot
            && self.symbol == head.symbol
            && self.exchange == head.exchange
    }

    pub(super) fn add(&mut self, change: Change) {
        self.entries.push(change.entry);
    }

    pub(super) fn package(self) -> Package {
        // Only the first message of a snapshot replaces what was known; the others go on with it.
        let begins = self.snapshot && !self.continued;
        let kind = if begins { PackageKind::Snapshot } else { PackageKind::Update };
        let source_time = Some(self.source_time);
        Package { kind, source_time, entries: self.entries, ..Package::default() }
    }
}
