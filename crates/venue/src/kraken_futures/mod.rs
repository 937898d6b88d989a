//! Kraken's futures, version 1: `book`, `trade`, `ticker`.
//!
//! | feed | message |
//! |---|---|
//! | `book_snapshot`, `book` | `Package`, a snapshot, then one level-2 update each; `seq` is `sequence`, and one more each time |
//! | `trade`, `trade_snapshot` | [`MarketByPrice`], `TRADE`, with `uid`; those of a snapshot, which are history, have `snapshot` |
//! | `ticker` | [`Ticker`] |

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::ids;
use crate::frames::messages::Messages;
use crate::frames::scalar::{Scalar, of_raw};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tapedb_market::{Attribute, MarketByPrice, NoticeKind, OrderAction, Package, PackageKind, Side, Ticker};

#[derive(Default)]
pub(super) struct Parser {
    /// By product.
    chains: BySymbol<Chain>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    feed: Scalar<'a>,
    #[serde(default)]
    event: Scalar<'a>,
}

#[derive(Deserialize)]
struct Level<'a> {
    #[serde(borrow)]
    price: Scalar<'a>,
    qty: Scalar<'a>,
}

#[derive(Deserialize)]
struct Snapshot<'a> {
    #[serde(borrow)]
    product_id: Scalar<'a>,
    timestamp: Scalar<'a>,
    seq: Scalar<'a>,
    bids: Vec<Level<'a>>,
    asks: Vec<Level<'a>>,
}

#[derive(Deserialize)]
struct Change<'a> {
    #[serde(borrow)]
    product_id: Scalar<'a>,
    side: Scalar<'a>,
    seq: Scalar<'a>,
    price: Scalar<'a>,
    qty: Scalar<'a>,
    timestamp: Scalar<'a>,
}

#[derive(Deserialize)]
struct TradeData<'a> {
    #[serde(borrow)]
    product_id: Scalar<'a>,
    #[serde(default)]
    uid: Scalar<'a>,
    side: Scalar<'a>,
    #[serde(default)]
    seq: Scalar<'a>,
    time: Scalar<'a>,
    qty: Scalar<'a>,
    price: Scalar<'a>,
}

#[derive(Deserialize)]
struct Trades<'a> {
    #[serde(borrow)]
    trades: Vec<TradeData<'a>>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.chains.clear();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let head: Head<'_> = out.json(text)?;
        match (head.event.0, head.feed.0) {
            ("error" | "alert", _) => out.notice(NoticeKind::Error, text),
            ("", "book_snapshot") => self.snapshot(&out.json(text)?, out),
            ("", "book") => self.change(&out.json(text)?, out),
            ("", "trade") => trade(&out.json(text)?, false, out),
            ("", "trade_snapshot") => {
                out.json::<Trades<'_>>(text)?.trades.iter().try_for_each(|row| trade(row, true, out))
            }
            ("", "ticker") => ticker(text, out),
            ("", "heartbeat") => {
                out.control("heartbeat");
                Ok(())
            }
            ("", feed) => {
                out.unknown(if feed.is_empty() { "without feed" } else { feed });
                Ok(())
            }
            (event, _) => {
                out.control(event);
                Ok(())
            }
        }
    }
}

impl Parser {
    fn snapshot(&mut self, data: &Snapshot<'_>, out: &mut Messages) -> Result<(), BadLine> {
        let (bids, asks) = (pairs(&data.bids), pairs(&data.asks));
        let mut package = out.levels(true, [(Side::Bid, &bids), (Side::Ask, &asks)])?;
        let number = out.whole(data.seq, "seq")?;
        package.sequence = Some(number);
        package.source_time = Some(out.instant(data.timestamp)?);
        self.chains.of(data.product_id.0, out)?.begin(number, out);
        out.push(data.product_id.0, package)
    }

    fn change(&mut self, data: &Change<'_>, out: &mut Messages) -> Result<(), BadLine> {
        let number = out.whole(data.seq, "seq")?;
        let side = out.side(data.side, ["buy", "sell"])?;
        let package = Package {
            kind: PackageKind::Update,
            sequence: Some(number),
            source_time: Some(out.instant(data.timestamp)?),
            entries: vec![out.update(side, data.price, data.qty, None)?],
            ..Package::default()
        };
        self.chains.of(data.product_id.0, out)?.follow(data.product_id.0, (number, number), None, out)?;
        out.push(data.product_id.0, package)
    }
}

fn pairs<'a>(levels: &[Level<'a>]) -> Vec<(Scalar<'a>, Scalar<'a>)> {
    levels.iter().map(|level| (level.price, level.qty)).collect()
}

fn trade(row: &TradeData<'_>, history: bool, out: &mut Messages) -> Result<(), BadLine> {
    let id = ids::uuid(row.uid.0);
    let trade = MarketByPrice {
        action: Some(OrderAction::Trade),
        side: Some(out.side(row.side, ["buy", "sell"])?),
        price: Some(out.decimal(row.price)?),
        size: Some(out.decimal(row.qty)?),
        trade_id: id.map(|(_, low)| low),
        trade_id_high: id.map(|(high, _)| high),
        trade_id_text: row.uid.some().filter(|_| id.is_none()).map(Into::into),
        sequence: row.seq.u64(),
        match_time: Some(out.instant(row.time)?),
        snapshot: history,
        exchange: out.exchange(),
        ..MarketByPrice::default()
    };
    out.push(row.product_id.0, trade)
}

fn ticker(text: &str, out: &mut Messages) -> Result<(), BadLine> {
    let fields: BTreeMap<String, &RawValue> = out.json(text)?;
    let mut ticker = Ticker { exchange: out.exchange(), ..Ticker::default() };
    let mut symbol = "";
    for (name, raw) in fields {
        let Some(value) = of_raw(raw) else {
            ticker.attributes.push(Attribute { name, value: raw.get().into() });
            continue;
        };
        let place = match name.as_str() {
            "feed" => continue,
            "product_id" => {
                symbol = value.0;
                continue;
            }
            "time" => {
                ticker.source_time = Some(out.instant(value)?);
                continue;
            }
            "next_funding_rate_time" => {
                ticker.next_funding = value.some().map(|time| out.instant(Scalar(time))).transpose()?;
                continue;
            }
            "bid" => &mut ticker.bid_price,
            "ask" => &mut ticker.ask_price,
            "bid_size" => &mut ticker.bid_size,
            "ask_size" => &mut ticker.ask_size,
            "last" => &mut ticker.last_price,
            "volume" => &mut ticker.volume,
            "openInterest" => &mut ticker.open_interest,
            "markPrice" => &mut ticker.mark,
            "index" => &mut ticker.index,
            "funding_rate" => &mut ticker.funding_rate,
            _ => {
                ticker.attributes.push(Attribute { name, value: value.0.into() });
                continue;
            }
        };
        *place = out.figure(&name, value, &mut ticker.attributes)?;
    }
    out.push(symbol, ticker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::AnyRecord;
    use tapedb_schema::Timestamp;

    fn records(parser: &mut Parser, out: &mut Messages, text: &str) -> Vec<AnyRecord> {
        out.begin(Timestamp(1_663_747_970_273_000_000), text);
        parser.frame(text, out).unwrap_or_else(|bad| panic!("{text}: {bad:?}"));
        std::iter::from_fn(|| out.take()).map(|message| message.record).collect()
    }

    #[test]
    fn a_book_follows_its_snapshot() {
        let (mut parser, mut out) = (Parser::default(), Messages::new("KRAKENFU", false));
        let snapshot = r#"{"feed":"book_snapshot","product_id":"PI_XBTUSD","timestamp":1612269825817,"seq":7,"tickSize":null,"bids":[{"price":34892.5,"qty":6385}],"asks":[{"price":34911.5,"qty":20598}]}"#;
        assert_eq!(records(&mut parser, &mut out, snapshot).len(), 1);
        let change = |number: u64| {
            format!(
                r#"{{"feed":"book","product_id":"PI_XBTUSD","side":"sell","seq":{number},"price":34981,"qty":0,"timestamp":1612269953629}}"#
            )
        };
        assert!(matches!(records(&mut parser, &mut out, &change(8))[..], [AnyRecord::Package(_)]));
        let gap = records(&mut parser, &mut out, &change(10));
        assert!(matches!(gap[..], [AnyRecord::Gap(_), AnyRecord::Package(_)]), "{gap:?}");
    }

    #[test]
    fn trades_of_a_snapshot_are_history_and_replies_no_data() {
        let (mut parser, mut out) = (Parser::default(), Messages::new("KRAKENFU", false));
        let row = r#"{"feed":"trade","product_id":"PI_XBTUSD","uid":"05af78ac-a774-478c-a50c-8b9c234e071e","side":"sell","type":"fill","seq":653355,"time":1612266317519,"qty":15000,"price":34969.5}"#;
        let found = records(
            &mut parser,
            &mut out,
            &format!(r#"{{"feed":"trade_snapshot","product_id":"PI_XBTUSD","trades":[{row}]}}"#),
        );
        let [AnyRecord::MarketByPrice(trade)] = &found[..] else { panic!("{found:?}") };
        assert!(trade.snapshot && trade.trade_id_high == Some(0x05af_78ac_a774_478c));
        let found = records(&mut parser, &mut out, row);
        assert!(matches!(&found[..], [AnyRecord::MarketByPrice(trade)] if !trade.snapshot));
        assert!(
            records(&mut parser, &mut out, r#"{"event":"subscribed","feed":"trade","product_ids":["X"]}"#)
                .is_empty()
        );
        assert_eq!(out.counters().control_kinds["subscribed"], 1);
    }
}
