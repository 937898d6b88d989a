//! One message of any of the market's record types.

use tapedb_codec::{Record, encode};
use tapedb_market::{
    Definition, Funding, Gap, Imbalance, IntervalBar, Liquidation, MarkPrice, MarketByPrice, Notice, Order,
    Package, Statistic, Status, SymbolMapping, Ticker, TradeCondition,
};

/// Something to do with a record of any type.
pub trait Visitor {
    /// Its result.
    type Output;

    /// Does it.
    fn visit<R: Record + 'static>(self, record: &R) -> Self::Output;
}

macro_rules! records {
    ($($name:ident: $doc:literal,)*) => {
        /// A record of any type that a [`Source`](crate::Source) has. All but packages are boxed, so that it is small to move.
        #[derive(Debug, Clone, PartialEq)]
        pub enum AnyRecord {
            /// A package with entries.
            Package(Package),
            $(#[doc = $doc] $name(Box<$name>),)*
        }

        impl AnyRecord {
            /// Calls the visitor with the record.
            #[inline]
            pub fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
                match self {
                    Self::Package(record) => visitor.visit(record),
                    $(Self::$name(record) => visitor.visit(&**record),)*
                }
            }
        }

        impl From<Package> for AnyRecord {
            fn from(record: Package) -> Self {
                Self::Package(record)
            }
        }

        $(impl From<$name> for AnyRecord {
            fn from(record: $name) -> Self {
                Self::$name(Box::new(record))
            }
        })*
    };
}

records! {
    MarkPrice: "A mark price.",
    TradeCondition: "A condition that does not fit the trade's own; directly after the trade.",
    Order: "A change of an order.",
    MarketByPrice: "A change at a price.",
    IntervalBar: "A bar.",
    Definition: "A definition of an instrument.",
    Status: "A state of trading.",
    Statistic: "A figure.",
    Imbalance: "An imbalance of an auction.",
    SymbolMapping: "A mapping of symbols.",
    Notice: "A notice of the venue or vendor.",
    Gap: "A gap.",
    Liquidation: "A liquidation.",
    Funding: "A funding rate.",
    Ticker: "Best prices, last trade and figures of a day.",
}

impl Default for AnyRecord {
    fn default() -> Self {
        Self::Package(Package::default())
    }
}

impl AnyRecord {
    /// Makes it an empty package; the memory of the entries is reused.
    #[inline]
    pub fn package(&mut self) -> &mut Package {
        if !matches!(self, Self::Package(_)) {
            *self = Self::default();
        }
        let Self::Package(package) = self else { unreachable!("it is a package") };
        package.clear();
        package
    }

    /// Makes it this order; its memory is reused.
    #[inline]
    pub fn set_order(&mut self, order: Order) {
        match self {
            Self::Order(record) => **record = order,
            _ => *self = order.into(),
        }
    }

    /// Makes it an empty change of an order; its memory is reused.
    #[inline]
    pub fn order(&mut self) -> &mut Order {
        match self {
            Self::Order(record) => **record = Order::default(),
            _ => *self = Order::default().into(),
        }
        let Self::Order(record) = self else { unreachable!("it is an order") };
        record
    }

    /// Makes it an empty change at a price; the memory of the levels is reused.
    #[inline]
    pub fn market_by_price(&mut self) -> &mut MarketByPrice {
        if !matches!(self, Self::MarketByPrice(_)) {
            *self = MarketByPrice::default().into();
        }
        let Self::MarketByPrice(record) = self else { unreachable!("it is a change at a price") };
        record.clear();
        record
    }

    /// The package, if it is one.
    pub fn as_package(&self) -> Option<&Package> {
        match self {
            Self::Package(package) => Some(package),
            _ => None,
        }
    }

    /// Name of its record type.
    pub fn type_name(&self) -> &'static str {
        self.visit(TypeName)
    }

    /// Appends its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.visit(Encode(out));
    }
}

struct TypeName;

impl Visitor for TypeName {
    type Output = &'static str;

    fn visit<R: Record + 'static>(self, _: &R) -> &'static str {
        R::NAME
    }
}

struct Encode<'a>(&'a mut Vec<u8>);

impl Visitor for Encode<'_> {
    type Output = ();

    fn visit<R: Record + 'static>(self, record: &R) {
        encode(record, self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_market::{BidAsk, Entry};

    #[test]
    fn memory_is_reused_as_long_as_the_type_stays() {
        let mut record = AnyRecord::default();
        record.package().entries.resize(100, Entry::default());
        assert!(record.package().entries.is_empty() && record.package().entries.capacity() >= 100);
        record.market_by_price().levels.resize(10, BidAsk::default());
        assert!(record.market_by_price().levels.capacity() >= 10);
        assert_eq!(record.type_name(), "MarketByPrice");
        assert_eq!(record.package(), &Package::default());
        assert!(size_of::<AnyRecord>() <= 80);
    }
}
