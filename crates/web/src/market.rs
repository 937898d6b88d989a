//! Books and trades of market data as JSON.

use serde_json::{Value, json};
use tapedb_codec::Record;
use tapedb_engine::{CursorBuilder, Error, Message, Stream};
use tapedb_market::{
    Aggressor, Entry, Gap, MarketByPrice, Order, OrderAction, Package, PriceLevel, Side, SymbolBooks,
    VenueBook,
};
use tapedb_market_streams::cause_name;
use tapedb_schema::{Decimal64, Timestamp};

/// Levels of each side, at most.
pub(crate) const DEPTH_MAX: usize = 1000;

/// The books of a symbol.
pub(crate) fn books(books: &SymbolBooks, at: Timestamp, depth: usize) -> Value {
    let best = |side| {
        let best = books.best(side)?;
        Some((
            books.price_units().decimal(best.price).to_string(),
            books.size_units().decimal(best.size).to_string(),
        ))
    };
    let best = match (best(Side::Bid), best(Side::Ask)) {
        (None, None) => Value::Null,
        (bid, ask) => {
            let (bid, bid_size) = bid.unzip();
            let (ask, ask_size) = ask.unzip();
            json!({ "bid": bid, "bid_size": bid_size, "ask": ask, "ask_size": ask_size })
        }
    };
    let venues: Vec<Value> = books.venues().iter().map(|venue| venue_book(books, venue, depth)).collect();
    json!({ "at": at.nanos().to_string(), "books": venues, "best": best })
}

fn venue_book(books: &SymbolBooks, venue: &VenueBook, depth: usize) -> Value {
    let level = |level: PriceLevel| {
        let orders = (level.orders > 0).then_some(level.orders);
        let price = books.price_units().decimal(level.price).to_string();
        json!([price, books.size_units().decimal(level.size).to_string(), orders])
    };
    let levels = |side| venue.levels(side).take(depth).map(level).collect::<Vec<_>>();
    json!({
        "exchange": venue.exchange().map(|exchange| exchange.to_string()).unwrap_or_default(),
        "kind": venue.kind().name(),
        "state": venue.state().name(),
        "reason": venue.doubt().map(|doubt| doubt.to_string()),
        "bids": levels(Side::Bid),
        "asks": levels(Side::Ask),
    })
}

/// A trade.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FoundTrade {
    pub time: Timestamp,
    pub price: Decimal64,
    pub size: Decimal64,
    /// Who crossed the spread.
    pub side: Option<&'static str>,
}

impl FoundTrade {
    pub fn json(&self) -> Value {
        json!({
            "time": self.time.nanos().to_string(),
            "price": self.price.to_string(),
            "size": self.size.to_string(),
            "side": self.side,
        })
    }
}

/// Finds the trades of messages.
#[derive(Default)]
pub(crate) struct Trades {
    package: Package,
}

impl Trades {
    /// Names of the record types that have trades, among those of a stream.
    pub fn types(stream: &Stream) -> Vec<&'static str> {
        let known = [Package::NAME, Order::NAME, MarketByPrice::NAME];
        known.into_iter().filter(|name| stream.schema().record(name).is_some()).collect()
    }

    /// Calls `take` with each trade of a message.
    ///
    /// # Errors
    /// When the message is damaged.
    pub fn each(&mut self, message: &Message<'_>, mut take: impl FnMut(FoundTrade)) -> Result<(), Error> {
        let time = message.time();
        let by_side = |side: Option<Side>| {
            side.map(|side| match side {
                Side::Bid => "sell",
                Side::Ask => "buy",
            })
        };
        match message.type_name() {
            Package::NAME => {
                message.decode_into(&mut self.package)?;
                for entry in &self.package.entries {
                    let Entry::Trade(trade) = entry else { continue };
                    let side = trade.aggressor.map(|aggressor| match aggressor {
                        Aggressor::Buy => "buy",
                        Aggressor::Sell => "sell",
                    });
                    take(FoundTrade { time, price: trade.price, size: trade.size, side });
                }
            }
            Order::NAME => {
                let order: Order = message.decode()?;
                let is_trade =
                    matches!(order.action, OrderAction::Trade | OrderAction::Execute) && !order.snapshot;
                if let (true, Some(price), Some(size)) = (is_trade, order.price, order.size) {
                    take(FoundTrade { time, price, size, side: by_side(order.side) });
                }
            }
            MarketByPrice::NAME => {
                let change: MarketByPrice = message.decode()?;
                let is_trade = change.action == Some(OrderAction::Trade) && !change.snapshot;
                if let (true, Some(price), Some(size)) = (is_trade, change.price, change.size) {
                    take(FoundTrade { time, price, size, side: by_side(change.side) });
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The most gaps in an answer.
const GAPS_MAX: usize = 10_000;

/// The recorded gaps that a cursor's range has, of a symbol or of all.
///
/// # Errors
/// The engine's.
pub(crate) fn recorded_gaps(
    stream: &Stream,
    cursor: CursorBuilder,
    symbol: &str,
) -> Result<Vec<Value>, Error> {
    if stream.schema().record(Gap::NAME).is_none() {
        return Ok(Vec::new());
    }
    let mut cursor = cursor.types([Gap::NAME]).open()?;
    let mut gaps = Vec::new();
    while let Some(message) = cursor.next()? {
        let gap: Gap = message.decode()?;
        if message.symbol() == symbol || gaps.len() < GAPS_MAX / 2 {
            gaps.push(gap_json(message.symbol(), message.time(), &gap));
        }
        if gaps.len() >= GAPS_MAX {
            break;
        }
    }
    Ok(gaps)
}

/// A gap.
pub(crate) fn gap_json(symbol: &str, time: Timestamp, gap: &Gap) -> Value {
    let text = |time: Timestamp| time.nanos().to_string();
    json!({
        "symbol": symbol,
        "time": text(time),
        "from": text(gap.from.unwrap_or(time)),
        "to": text(gap.to.unwrap_or(time)),
        "cause": cause_name(gap.cause),
        "missing": gap.messages.map(|messages| messages.to_string()),
        "exchange": gap.exchange.map(|exchange| exchange.to_string()),
        "detail": gap.detail,
    })
}
