//! `us-equity-ticks`: trades and per-venue quotes of the consolidated US tape, as AlgoSeek and Lean lay them out.
//!
//! A zip with one CSV `YYYYMMDD_<symbol>_{Quote|Trade}_Tick.csv`, whose name has symbol and date. Times are
//! milliseconds since midnight on New York's wall clock; prices are whole numbers of 1/10000 dollar. The message's time
//! is the tape's; `source_time` and `sequence` stay null, as the file has nothing else.
//!
//! * Trade `time, price, size, venue, condition, suspicious`: one [`Trade`].
//! * Quote `time, bid, bid size, ask, ask size, venue, condition, suspicious`: one [`Level1`] for a side that is not
//!   `0,0`: that means "not in this message", not "empty". Where both sides are `0,0` the venue has withdrawn, and two
//!   [`Level1`] without price represent that; every row becomes a package with an entry, because one without entries would lose the venue.

use super::clock::{self, DayClock};
use super::fields::{BadLine, Fields};
use super::record::AnyRecord;
use super::source::{LineParser, Parsed};
use tapedb_market::{Entry, Level1, Package, Side, Trade};
use tapedb_schema::{Decimal64, Timestamp};

pub(super) const LOOKED_FOR: &str =
    "zip files `YYYYMMDD*{quote|trade}*.zip` with a member `YYYYMMDD_<symbol>_{Quote|Trade}_Tick.csv`";

/// The content of a member's name.
#[derive(Debug, Clone)]
pub(super) struct Day {
    symbol: String,
    quotes: bool,
    clock: DayClock,
}

impl Day {
    /// `None` if the member is not of this format.
    pub(super) fn of_member(name: &str) -> Option<Self> {
        let lower = name.rsplit('/').next()?.to_ascii_lowercase();
        let (date, rest) = lower.strip_suffix("_tick.csv")?.split_once('_')?;
        let (symbol, kind) = rest.rsplit_once('_')?;
        let quotes = match kind {
            "quote" => true,
            "trade" => false,
            _ => return None,
        };
        let clock = DayClock::new_york(clock::date(date.as_bytes())?)?;
        (!symbol.is_empty()).then(|| Self { symbol: symbol.to_ascii_uppercase(), quotes, clock })
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
        let out = out.package();
        let mut fields = Fields::new(line);
        let wall_ms = fields.integer("time")?;
        let time = wall_ms.checked_mul(1_000_000).and_then(|ns| self.0.clock.at(ns));
        let time = time.ok_or_else(|| fields.bad(format_args!("time in milliseconds below 86400000")))?;
        if self.0.quotes {
            quote(&mut fields, out)?
        } else {
            trade(&mut fields, out)?
        }
        fields.end()?;
        Ok(Parsed::Row(time))
    }
}

fn trade(fields: &mut Fields<'_>, out: &mut Package) -> Result<(), BadLine> {
    let trade = Trade {
        price: fields.scaled("price", -4)?,
        size: fields.scaled("size", 0)?,
        exchange: fields.ascii("venue")?,
        condition: fields.ascii("condition")?,
        suspicious: fields.flag("suspicious")?,
        ..Trade::default()
    };
    out.entries.push(Entry::Trade(trade));
    Ok(())
}

fn quote(fields: &mut Fields<'_>, out: &mut Package) -> Result<(), BadLine> {
    let bid = (fields.scaled("bid price", -4)?, fields.scaled("bid size", 0)?);
    let ask = (fields.scaled("ask price", -4)?, fields.scaled("ask size", 0)?);
    let (exchange, condition) = (fields.ascii("venue")?, fields.ascii("condition")?);
    let suspicious = fields.flag("suspicious")?;
    let withdrawn = is_absent(bid) && is_absent(ask);
    for (side, (price, size)) in [(Side::Bid, bid), (Side::Ask, ask)] {
        if withdrawn || !is_absent((price, size)) {
            let (price, size) = if withdrawn { (None, None) } else { (Some(price), Some(size)) };
            let entry = Level1 { side, price, size, orders: None, exchange, condition, suspicious };
            out.entries.push(Entry::Level1(entry));
        }
    }
    Ok(())
}

fn is_absent((price, size): (Decimal64, Decimal64)) -> bool {
    let is_zero = |number: Decimal64| matches!(number.parts(), Some((0, _)));
    is_zero(price) && is_zero(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(member: &str, line: &str) -> Result<(String, Vec<Entry>), BadLine> {
        let mut record = AnyRecord::default();
        match Day::of_member(member).unwrap().parser().parse(line.as_bytes(), &mut record)? {
            Parsed::Row(time) => Ok((time.to_string(), record.as_package().unwrap().entries.clone())),
            _ => panic!("no row"),
        }
    }

    #[test]
    fn the_member_name_tells_symbol_and_date() {
        assert_eq!(Day::of_member("20131009_aig_Quote_Tick.csv").unwrap().symbol, "AIG");
        assert_eq!(Day::of_member("x/20131009_brk.b_Trade_Tick.csv").unwrap().symbol, "BRK.B");
        for wrong in [
            "20131309_aig_Quote_Tick.csv",
            "20140501_eurusd_tick_quote.csv",
            "aig.csv",
            "20131009__quote_tick.csv",
        ] {
            assert!(Day::of_member(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_trade() {
        let (time, entries) =
            parse("20131007_aig_Trade_Tick.csv", "34200688,491800,300,P,20002020,1").unwrap();
        assert_eq!(time, "2013-10-07T13:30:00.688Z");
        let [Entry::Trade(trade)] = entries[..] else { panic!("{entries:?}") };
        assert_eq!((trade.price.to_string(), trade.size.to_string()), ("49.1800".into(), "300".into()));
        assert_eq!((trade.exchange.unwrap().as_str(), trade.condition.unwrap().as_str()), ("P", "20002020"));
        assert!(trade.suspicious);
    }

    #[test]
    fn quotes_of_one_side_both_and_none() {
        let quote = |line| {
            let (_, entries) = parse("20131007_aig_Quote_Tick.csv", line).unwrap();
            let side = |entry: &Entry| match entry {
                Entry::Level1(quote) => (quote.side, quote.price.map(|price| price.to_string())),
                other => panic!("{other:?}"),
            };
            entries.iter().map(side).collect::<Vec<_>>()
        };
        let (bid, ask) = ((Side::Bid, Some("49.1800".into())), (Side::Ask, Some("49.2000".into())));
        assert_eq!(quote("1,491800,3,0,0,Q,1,0"), std::slice::from_ref(&bid));
        assert_eq!(quote("1,0,0,492000,3,Q,1,0"), std::slice::from_ref(&ask));
        assert_eq!(quote("1,491800,3,492000,3,Q,1,0"), [bid, ask]);
        assert_eq!(quote("1,0,0,0,0,Q,1,0"), [(Side::Bid, None), (Side::Ask, None)]);
    }

    #[test]
    fn bad_lines_say_where_and_what() {
        let bad = |line| {
            let error = parse("20131007_aig_Trade_Tick.csv", line).unwrap_err();
            format!("{} {}", error.column.unwrap(), error.expected)
        };
        assert_eq!(bad("86400000,1,1,P,0,0"), "0 time in milliseconds below 86400000");
        assert_eq!(bad("1,1.5,1,P,0,0"), "2 price as a whole number");
        assert_eq!(bad("1,15,1,P"), "8 one more field: condition");
        assert_eq!(bad("1,15,1,P,0,0,7"), "13 the end of the line");
        assert_eq!(bad(""), "0 time as a whole number");
    }
}
