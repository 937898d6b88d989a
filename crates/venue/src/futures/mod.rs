//! `futures-ticks`: trades and open interest of futures, as Lean lays them out.
//!
//! A zip with one CSV for each expiry, `YYYYMMDD_<product>_tick_{trade|openinterest}_YYYYMM.csv`: date, product and expiry are in the
//! member's name only, and the symbol is product and expiry, `GC201312`. Times are milliseconds since midnight, UTC.
//!
//! * Trade `time, price, size, exchange, condition, suspicious`: a [`Package`](tapedb_market::Package) with one [`Trade`]; the size may be 0.
//! * Open interest `time, value`: a [`Statistic`].

use super::clock::{self, DayClock};
use super::fields::{BadLine, Fields};
use super::record::AnyRecord;
use super::source::{LineParser, Parsed};
use tapedb_market::{Entry, Statistic, StatisticKind, Trade};
use tapedb_schema::Timestamp;

pub(super) const LOOKED_FOR: &str = "zip files `YYYYMMDD*{trade|openinterest}*.zip` with members \
     `YYYYMMDD_<product>_tick_{trade|openinterest}_YYYYMM.csv`";

/// The content of a member's name.
#[derive(Debug, Clone)]
pub(super) struct Day {
    symbol: String,
    trades: bool,
    clock: DayClock,
}

impl Day {
    /// `None` if the member is not of this format.
    pub(super) fn of_member(name: &str) -> Option<Self> {
        let lower = name.rsplit('/').next()?.to_ascii_lowercase();
        let (date, rest) = lower.strip_suffix(".csv")?.split_once('_')?;
        let (rest, expiry) = rest.rsplit_once('_')?;
        let (rest, kind) = rest.rsplit_once('_')?;
        let product = rest.strip_suffix("_tick")?;
        let trades = match kind {
            "trade" => true,
            "openinterest" => false,
            _ => return None,
        };
        let is_month = expiry.len() == 6 && clock::date(format!("{expiry}01").as_bytes()).is_some();
        let clock = DayClock::fixed(clock::date(date.as_bytes())?, 0)?;
        let symbol = format!("{}{expiry}", product.to_ascii_uppercase());
        (is_month && !product.is_empty()).then_some(Self { symbol, trades, clock })
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
        let wall_ms = fields.integer("time")?;
        let time = wall_ms.checked_mul(1_000_000).and_then(|ns| self.0.clock.at(ns));
        let time = time.ok_or_else(|| fields.bad(format_args!("time in milliseconds below 86400000")))?;
        if self.0.trades {
            let trade = Trade {
                price: fields.decimal("price")?,
                size: fields.decimal("size")?,
                exchange: fields.ascii("exchange")?,
                condition: fields.ascii("condition")?,
                suspicious: fields.flag("suspicious")?,
                ..Trade::default()
            };
            out.package().entries.push(Entry::Trade(trade));
        } else {
            let quantity = Some(fields.decimal("open interest")?);
            *out = Statistic { kind: Some(StatisticKind::OpenInterest), quantity, ..Statistic::default() }
                .into();
        }
        fields.end()?;
        Ok(Parsed::Row(time))
    }
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
        for wrong in [
            "20131008_gc_tick_quote_201312.csv",
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
}
