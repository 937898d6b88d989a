//! `futures-ticks`: trades, quotes and open interest of futures, as Lean lays them out.
//!
//! A zip with one CSV for each expiry, `YYYYMMDD_<product>_tick_{trade|quote|openinterest}_YYYYMM.csv`, or with the day of the expiry,
//! `YYYYMMDD`: date, product and expiry are in the member's name only, and the symbol is product and expiry, `GC201312`. Times are
//! milliseconds since midnight, UTC, with or without a fraction.
//!
//! * Quote `time, bid price, bid size, ask price, ask size, exchange, suspicious`: a package of up to two [`Level1`]. A side without a
//!   price, or with `0,0`, is not in the message; where both are `0,0` the sides are empty.
//! * Trade `time, price, size, exchange, condition, suspicious`: a [`Package`](tapedb_market::Package) with one [`Trade`]; the size may be 0.
//! * Open interest `time, value`: a [`Statistic`].

use super::clock::{self, DayClock};
use super::fields::{BadLine, Fields};
use super::record::AnyRecord;
use super::source::{LineParser, Parsed};
use tapedb_market::{Entry, Level1, Package, Side, Statistic, StatisticKind, Trade};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

pub(super) const LOOKED_FOR: &str = "zip files `YYYYMMDD*{trade|quote|openinterest}*.zip` with members \
     `YYYYMMDD_<product>_tick_{trade|quote|openinterest}_YYYYMM.csv`";

/// The content of a member's name.
#[derive(Debug, Clone)]
pub(super) struct Day {
    symbol: String,
    kind: Kind,
    clock: DayClock,
}

/// What the rows are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Trades,
    Quotes,
    OpenInterest,
}

impl Day {
    /// `None` if the member is not of this format.
    pub(super) fn of_member(name: &str) -> Option<Self> {
        let lower = name.rsplit('/').next()?.to_ascii_lowercase();
        let (date, rest) = lower.strip_suffix(".csv")?.split_once('_')?;
        let (rest, expiry) = rest.rsplit_once('_')?;
        let (rest, kind) = rest.rsplit_once('_')?;
        let product = rest.strip_suffix("_tick")?;
        let kind = match kind {
            "trade" => Kind::Trades,
            "quote" => Kind::Quotes,
            "openinterest" => Kind::OpenInterest,
            _ => return None,
        };
        let is_month = expiry.len() == 6 && clock::date(format!("{expiry}01").as_bytes()).is_some();
        let is_expiry = is_month || clock::date(expiry.as_bytes()).is_some();
        let clock = DayClock::fixed(clock::date(date.as_bytes())?, 0)?;
        let symbol = format!("{}{expiry}", product.to_ascii_uppercase());
        (is_expiry && !product.is_empty()).then_some(Self { symbol, kind, clock })
    }

    /// No row is before this.
    pub(super) fn start(&self) -> Timestamp {
        self.clock.start()
    }

    pub(super) fn parser(&self) -> Parser {
        Parser(self.clone())
    }
}

pub(super) struct Parser(Day);

impl LineParser for Parser {
    fn symbol(&self) -> &str {
        &self.0.symbol
    }

    fn parse(&mut self, line: &[u8], out: &mut AnyRecord) -> Result<Parsed, BadLine> {
        let mut fields = Fields::new(line);
        let time = clock::milliseconds(fields.text("time")?).and_then(|ns| self.0.clock.at(ns));
        let time = time.ok_or_else(|| {
            fields.bad(format_args!("time in milliseconds below 86400000, with at most 6 decimals"))
        })?;
        match self.0.kind {
            Kind::Trades => {
                let trade = Trade {
                    price: fields.decimal("price")?,
                    size: fields.decimal("size")?,
                    exchange: fields.ascii("exchange")?,
                    condition: fields.ascii("condition")?,
                    suspicious: fields.flag("suspicious")?,
                    ..Trade::default()
                };
                out.package().entries.push(Entry::Trade(trade));
            }
            Kind::Quotes => quote(&mut fields, out.package())?,
            Kind::OpenInterest => {
                let quantity = Some(fields.decimal("open interest")?);
                *out =
                    Statistic { kind: Some(StatisticKind::OpenInterest), quantity, ..Statistic::default() }
                        .into();
            }
        }
        fields.end()?;
        Ok(Parsed::Row(time))
    }
}

/// Price and size of a side; `None` where the price is empty.
fn side(
    fields: &mut Fields<'_>,
    names: [&str; 2],
) -> Result<Option<(Decimal64, Option<Decimal64>)>, BadLine> {
    let price = fields.maybe_decimal(names[0])?;
    let size = fields.maybe_decimal(names[1])?;
    Ok(price.map(|price| (price, size)))
}

fn quote(fields: &mut Fields<'_>, out: &mut Package) -> Result<(), BadLine> {
    let bid = side(fields, ["bid price", "bid size"])?;
    let ask = side(fields, ["ask price", "ask size"])?;
    let (exchange, suspicious): (Option<Ascii<8>>, bool) =
        (fields.ascii("exchange")?, fields.flag("suspicious")?);
    let is_zero = |number: Decimal64| matches!(number.parts(), Some((0, _)));
    let none = |side: &Option<(Decimal64, Option<Decimal64>)>| {
        side.is_some_and(|(price, size)| is_zero(price) && size.is_none_or(is_zero))
    };
    let withdrawn = none(&bid) && none(&ask);
    for (side, quoted) in [(Side::Bid, bid), (Side::Ask, ask)] {
        let present = quoted.filter(|_| !none(&quoted));
        if present.is_some() || withdrawn {
            let (price, size) = (present.map(|(price, _)| price), present.and_then(|(_, size)| size));
            out.entries.push(Entry::Level1(Level1 {
                side,
                price,
                size,
                exchange,
                suspicious,
                ..Level1::default()
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(member: &str, line: &str) -> Result<(String, AnyRecord), BadLine> {
        let mut record = AnyRecord::default();
        match Day::of_member(member).unwrap().parser().parse(line.as_bytes(), &mut record)? {
            Parsed::Row(time) => Ok((time.to_string(), record)),
            _ => panic!("no row"),
        }
    }

    #[test]
    fn the_member_name_tells_product_expiry_and_kind() {
        assert_eq!(Day::of_member("20131008_gc_tick_trade_201312.csv").unwrap().symbol, "GC201312");
        assert_eq!(Day::of_member("a/20131008_es_tick_quote_20131220.csv").unwrap().symbol, "ES20131220");
        for wrong in [
            "20131008_gc_tick_bar_201312.csv",
            "20131008_gc_tick_trade_201313.csv",
            "20131008_gc_tick_trade.csv",
            "20131008_aig_Trade_Tick.csv",
        ] {
            assert!(Day::of_member(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn trades_and_open_interest() {
        let (time, record) = parse("20131008_gc_tick_trade_201312.csv", "14463482,1326.5,0,usa,,0").unwrap();
        assert_eq!(time, "2013-10-08T04:01:03.482Z");
        let [Entry::Trade(trade)] = record.as_package().unwrap().entries[..] else { panic!("{record:?}") };
        assert_eq!((trade.price.to_string(), trade.size.to_string()), ("1326.5".into(), "0".into()));
        let (_, record) = parse("20131008_gc_tick_openinterest_201312.csv", "22068523,458").unwrap();
        let AnyRecord::Statistic(figure) = record else { panic!("{record:?}") };
        assert_eq!(
            (figure.kind, figure.quantity.unwrap().to_string()),
            (Some(StatisticKind::OpenInterest), "458".into())
        );
        let error = parse("20131008_gc_tick_trade_201312.csv", "1,1e,1,usa,,0").unwrap_err();
        assert_eq!((error.column, error.expected.as_str()), (Some(2), "price as a decimal"));
    }

    #[test]
    fn quotes_have_the_sides_that_are_in_the_message() {
        let quotes = |line: &str| {
            let (time, record) = parse("20131008_es_tick_quote_201312.csv", line).unwrap();
            let text = |entry: &Entry| match entry {
                Entry::Level1(quote) => format!(
                    "{:?} {} {}",
                    quote.side,
                    quote.price.map_or("none".into(), |price| price.to_string()),
                    quote.size.map_or("none".into(), |size| size.to_string())
                ),
                other => panic!("{other:?}"),
            };
            (time, record.as_package().unwrap().entries.iter().map(text).collect::<Vec<_>>())
        };
        let (time, both) = quotes("34200000.25,1700.25,3,1700.50,4,cme,0");
        assert_eq!(time, "2013-10-08T09:30:00.000250Z");
        assert_eq!(both, ["Bid 1700.25 3", "Ask 1700.50 4"]);
        assert_eq!(quotes("1,-37.63,3,,,nymex,0").1, ["Bid -37.63 3"]);
        assert_eq!(quotes("1,0,0,1700.5,4,cme,1").1, ["Ask 1700.5 4"]);
        assert_eq!(quotes("1,0,0,0,0,cme,1").1, ["Bid none none", "Ask none none"]);
        // A price of 0 with a size is a price.
        assert_eq!(quotes("1,0,5,0.25,4,cme,0").1, ["Bid 0 5", "Ask 0.25 4"]);
        assert!(parse("20131008_es_tick_quote_201312.csv", "1,1,1,1,cme,0").is_err());
    }
}
