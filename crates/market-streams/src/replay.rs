//! Messages of a stream, applied to books.

use crate::error::BookError;
use tapedb_codec::Record;
use tapedb_engine::{Error, Message, Stream};
use tapedb_market::{Applier, Gap, MarketByPrice, Order, Package, SymbolBooks};
use tapedb_schema::Timestamp;

/// Books that a stream's messages are applied to; symbols are those of the stream, by their ids.
///
/// Messages come in the order of the cursor: in time order they give the books of history.
#[derive(Debug, Clone)]
pub struct BookReplay {
    books: Applier,
    types: Types,
    // Reused for each message.
    package: Package,
    order: Order,
    by_price: MarketByPrice,
    gap: Gap,
}

/// Ids of the record types in the stream.
#[derive(Debug, Clone, Copy)]
struct Types {
    package: Option<u16>,
    order: Option<u16>,
    by_price: Option<u16>,
    gap: Option<u16>,
}

impl BookReplay {
    /// Empty books for a stream.
    ///
    /// # Errors
    /// [`BookError::NoBooks`].
    pub fn new(stream: &Stream) -> Result<Self, BookError> {
        let id = |name| stream.schema().record(name).map(|(id, _)| id);
        let types = Types {
            package: id(Package::NAME),
            order: id(Order::NAME),
            by_price: id(MarketByPrice::NAME),
            gap: id(Gap::NAME),
        };
        if types.package.or(types.order).or(types.by_price).is_none() {
            return Err(BookError::NoBooks { stream: stream.name().into() });
        }
        let (package, order) = (Package::default(), Order::default());
        let (by_price, gap) = (MarketByPrice::default(), Gap::default());
        Ok(Self { books: Applier::default(), types, package, order, by_price, gap })
    }

    /// Applies a message; others than those of books have no effect. Returns whether it has.
    ///
    /// # Errors
    /// When the message is damaged, or its version of the record type cannot be converted.
    pub fn apply(&mut self, message: &Message<'_>) -> Result<bool, Error> {
        let (symbol, time) = (message.symbol_id(), message.time());
        let id = Some(message.type_id());
        if id == self.types.package {
            message.decode_into(&mut self.package)?;
            self.books.package(symbol, time, &self.package);
        } else if id == self.types.order {
            message.decode_into(&mut self.order)?;
            self.books.order(symbol, time, &self.order);
        } else if id == self.types.by_price {
            message.decode_into(&mut self.by_price)?;
            self.books.market_by_price(symbol, time, &self.by_price);
        } else if id == self.types.gap {
            message.decode_into(&mut self.gap)?;
            self.books.gap(symbol, time, &self.gap);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Begins with these books of a symbol, by its id in the stream.
    pub fn restore(&mut self, symbol: u32, books: SymbolBooks) {
        self.books.restore(symbol, books);
    }

    /// Data of a symbol is missing.
    pub(crate) fn gap(&mut self, symbol: u32, time: Timestamp, gap: &Gap) {
        self.books.gap(symbol, time, gap);
    }

    /// The books.
    pub fn books(&self) -> &Applier {
        &self.books
    }

    /// Names of the record types that change books of one symbol.
    pub(crate) fn types(&self) -> Vec<&'static str> {
        let types = [
            (self.types.package, Package::NAME),
            (self.types.order, Order::NAME),
            (self.types.by_price, MarketByPrice::NAME),
        ];
        types.into_iter().filter(|(id, _)| id.is_some()).map(|(_, name)| name).collect()
    }

    /// Whether the stream can have gaps.
    pub(crate) fn has_gaps(&self) -> bool {
        self.types.gap.is_some()
    }
}
