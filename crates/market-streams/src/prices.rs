//! Prices and sizes that bars are made of, from messages of a stream: its trades, or the middle of its best bid and offer.

use crate::error::BookError;
use crate::replay::BookReplay;
use tapedb_codec::Record;
use tapedb_engine::{Error, Message, Stream};
use tapedb_market::{Entry, MarketByPrice, Order, OrderAction, Package, Side, SymbolBooks, Trade};
use tapedb_schema::Decimal64;

/// Conditions of trades from before a subscription (`LAST` of Coinbase's `last_match`).
const HISTORY: [&str; 3] = ["HISTORY", "snapshot", "LAST"];

/// ITCH's letter for executions that are in the report of a cross once more.
const NOT_PRINTABLE: u32 = b'N' as u32;

/// What bars are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarInput {
    /// Trades.
    Trades,
    /// Each change of the middle between the best bid and the best offer over all venues whose books are not unknown.
    Quotes,
}

/// Finds the prices of messages.
#[derive(Debug)]
pub(crate) struct Prices {
    /// Books and the last middle of each symbol, for quotes.
    books: Option<(BookReplay, Vec<Option<Decimal64>>)>,
    package_type: Option<u16>,
    order_type: Option<u16>,
    by_price_type: Option<u16>,
    package: Package,
    unpriced: u64,
}

impl Prices {
    /// # Errors
    /// [`BookError::NoBooks`]: the stream has none of the record types.
    pub(crate) fn new(stream: &Stream, input: BarInput) -> Result<Self, BookError> {
        let id = |name| stream.schema().record(name).map(|(id, _)| id);
        let replay = BookReplay::new(stream)?;
        Ok(Self {
            books: (input == BarInput::Quotes).then_some((replay, Vec::new())),
            package_type: id(Package::NAME),
            order_type: id(Order::NAME),
            by_price_type: id(MarketByPrice::NAME),
            package: Package::default(),
            unpriced: 0,
        })
    }

    /// Calls `take` with each price and size of a message, in their order. A middle has the size 0.
    pub(crate) fn each(
        &mut self,
        message: &Message<'_>,
        mut take: impl FnMut(Decimal64, Decimal64),
    ) -> Result<(), Error> {
        if let Some((replay, middles)) = &mut self.books {
            let symbol = message.symbol_id();
            if !replay.apply(message)? {
                return Ok(());
            }
            let at = symbol as usize;
            if at >= middles.len() {
                middles.resize(at + 1, None);
            }
            let middle = replay.books().symbol(symbol).and_then(middle);
            if let Some(price) = middle.filter(|_| middle != middles[at]) {
                take(price, Decimal64::ZERO);
            }
            middles[at] = middle;
            return Ok(());
        }
        let id = Some(message.type_id());
        if id == self.package_type {
            message.decode_into(&mut self.package)?;
            let trades = self.package.entries.iter().filter_map(trade);
            trades.for_each(|trade| take(trade.price, trade.size));
        } else if id == self.order_type {
            let order: Order = message.decode()?;
            match (order.action, order.price, order.size) {
                _ if order.snapshot => {}
                (OrderAction::Execute, ..) if order.flags == Some(NOT_PRINTABLE) => {}
                // A cross of ITCH in which nothing was traded.
                (OrderAction::Trade, Some(price), Some(size)) if is_zero(price) && is_zero(size) => {}
                (OrderAction::Trade | OrderAction::Execute, Some(price), Some(size)) => take(price, size),
                (OrderAction::Trade | OrderAction::Execute, ..) => self.unpriced += 1,
                _ => {}
            }
        } else if id == self.by_price_type {
            let change: MarketByPrice = message.decode()?;
            match (change.action, change.price, change.size) {
                _ if change.snapshot => {}
                (Some(OrderAction::Trade), Some(price), Some(size)) => take(price, size),
                (Some(OrderAction::Trade), ..) => self.unpriced += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Trades and executions without a price or size.
    pub(crate) fn unpriced(&self) -> u64 {
        self.unpriced
    }
}

fn is_zero(number: Decimal64) -> bool {
    matches!(number.parts(), Some((0, _)))
}

fn trade(entry: &Entry) -> Option<&Trade> {
    let Entry::Trade(trade) = entry else { return None };
    let is_old = trade.condition.as_ref().is_some_and(|condition| HISTORY.contains(&condition.as_str()));
    (!is_old).then_some(trade)
}

/// The middle of the best bid and offer; `None`: there are not both, or it has too many digits.
fn middle(books: &SymbolBooks) -> Option<Decimal64> {
    let (bid, ask) = (books.best(Side::Bid)?, books.best(Side::Ask)?);
    // A half has one decimal more.
    let tenths = bid.price.checked_add(ask.price)?.checked_mul(5)?;
    Decimal64::from_parts(tenths, -i32::from(books.price_units().scale()) - 1).ok()
}
