//! Deribit, version 2: `book` with every change, `trades`, `ticker`.
//!
//! | channel | message |
//! |---|---|
//! | `book.X.raw`, `book.X.100ms` | `Package`, a snapshot or level-2 updates; `change_id` is `sequence`, and `prev_change_id` has to be the one before |
//! | `trades` | [`MarketByPrice`], `TRADE`, with `trade_seq` as `sequence` |
//! | `ticker` | [`Ticker`]; figures and greeks as attributes |

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::ids;
use crate::frames::messages::Messages;
use crate::frames::scalar::{Scalar, of_raw};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tapedb_market::{
    Attribute, Entry, MarketByPrice, NoticeKind, OrderAction, Package, PackageKind, SequenceRange, Side,
    Ticker,
};

#[derive(Default)]
pub(super) struct Parser {
    /// By channel.
    chains: BySymbol<Chain>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow, default)]
    channel: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BookData<'a> {
    #[serde(borrow, rename = "type")]
    kind: Scalar<'a>,
    timestamp: Scalar<'a>,
    instrument_name: Scalar<'a>,
    change_id: Scalar<'a>,
    #[serde(default)]
    prev_change_id: Scalar<'a>,
    bids: Vec<(Scalar<'a>, Scalar<'a>, Scalar<'a>)>,
    asks: Vec<(Scalar<'a>, Scalar<'a>, Scalar<'a>)>,
}

#[derive(Deserialize)]
struct TradeData<'a> {
    #[serde(borrow)]
    instrument_name: Scalar<'a>,
    trade_id: Scalar<'a>,
    trade_seq: Scalar<'a>,
    timestamp: Scalar<'a>,
    direction: Scalar<'a>,
    price: Scalar<'a>,
    amount: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.chains.clear();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let frame: Frame<'_> = out.json(text)?;
        if frame.error.is_some() {
            return out.notice(NoticeKind::Error, text);
        }
        let params = frame.params.unwrap_or_default();
        let (Some("subscription"), Some(data)) = (frame.method.as_deref(), params.data) else {
            out.control(frame.method.as_deref().unwrap_or("result"));
            return Ok(());
        };
        let mut parts = params.channel.split('.');
        match (parts.next().unwrap_or_default(), parts.count()) {
            // With more parts, the book is grouped and limited: a snapshot of another form.
            ("book", 2) => self.book(&params.channel, &out.json(data.get())?, out),
            ("trades", _) => {
                out.json::<Vec<TradeData<'_>>>(data.get())?.iter().try_for_each(|row| trade(row, out))
            }
            ("ticker", _) => ticker(data, out),
            (kind, parts) => {
                out.unknown(&format!("{kind} of {parts} parts"));
                Ok(())
            }
        }
    }
}

impl Parser {
    fn book(&mut self, channel: &str, data: &BookData<'_>, out: &mut Messages) -> Result<(), BadLine> {
        let symbol = data.instrument_name.0;
        let number = out.whole(data.change_id, "change_id")?;
        let previous =
            data.prev_change_id.some().map(|id| out.whole(Scalar(id), "prev_change_id")).transpose()?;
        let snapshot = match data.kind.0 {
            "snapshot" => true,
            "change" => false,
            other => return Err(out.bad(other, "type as snapshot or change")),
        };
        let mut package = Package {
            kind: if snapshot { PackageKind::Snapshot } else { PackageKind::Update },
            source_time: Some(out.time(data.timestamp)?),
            sequence: Some(number),
            ..Package::default()
        };
        if previous.is_some() {
            package.entries.push(Entry::SequenceRange(SequenceRange { first: number, previous }));
        }
        for (side, levels) in [(Side::Bid, &data.bids), (Side::Ask, &data.asks)] {
            for (place, &(action, price, size)) in levels.iter().enumerate() {
                package.entries.push(match (snapshot, action.0) {
                    (true, _) => out.level(side, place, (price, size), None)?,
                    (false, "delete") => out.update(side, price, Scalar("0"), None)?,
                    (false, "new" | "change") => out.update(side, price, size, None)?,
                    (false, other) => return Err(out.bad(other, "new, change or delete")),
                });
            }
        }
        let chain = self.chains.of(channel, out)?;
        match snapshot {
            true => chain.begin(number, out),
            false => chain.follow(symbol, (number, number), previous, out)?,
        }
        out.push(symbol, package)
    }
}

fn trade(row: &TradeData<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let id = ids::decimal(row.trade_id.0).filter(|(high, _)| *high == 0);
    let trade = MarketByPrice {
        action: Some(OrderAction::Trade),
        side: Some(match row.direction.0 {
            "buy" => Side::Bid,
            "sell" => Side::Ask,
            other => return Err(out.bad(other, "direction as buy or sell")),
        }),
        price: Some(out.decimal(row.price)?),
        size: Some(out.decimal(row.amount)?),
        trade_id: id.map(|(_, low)| low),
        trade_id_text: id.is_none().then(|| row.trade_id.0.to_string()),
        sequence: Some(out.whole(row.trade_seq, "trade_seq")?),
        match_time: Some(out.time(row.timestamp)?),
        exchange: out.exchange(),
        ..MarketByPrice::default()
    };
    out.push(row.instrument_name.0, trade)
}

fn ticker(data: &RawValue, out: &mut Messages) -> Result<(), BadLine> {
    let fields: BTreeMap<String, &RawValue> = out.json(data.get())?;
    let mut ticker = Ticker { exchange: out.exchange(), ..Ticker::default() };
    let mut symbol = "";
    for (name, raw) in &fields {
        let Some(value) = of_raw(raw) else {
            // `stats` and `greeks`.
            for (inner, raw) in out.json::<BTreeMap<String, Scalar<'_>>>(raw.get())? {
                set(&mut ticker, format!("{name}.{inner}"), raw, out)?;
            }
            continue;
        };
        match name.as_str() {
            "instrument_name" => symbol = value.0,
            _ => set(&mut ticker, name.clone(), value, out)?,
        }
    }
    out.push(symbol, ticker)
}

fn set(ticker: &mut Ticker, name: String, value: Scalar<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let place = match name.as_str() {
        "timestamp" => {
            ticker.source_time = Some(out.time(value)?);
            return Ok(());
        }
        "best_bid_price" => &mut ticker.bid_price,
        "best_bid_amount" => &mut ticker.bid_size,
        "best_ask_price" => &mut ticker.ask_price,
        "best_ask_amount" => &mut ticker.ask_size,
        "last_price" => &mut ticker.last_price,
        "stats.high" => &mut ticker.high,
        "stats.low" => &mut ticker.low,
        "stats.volume" => &mut ticker.volume,
        "open_interest" => &mut ticker.open_interest,
        "mark_price" => &mut ticker.mark,
        "index_price" => &mut ticker.index,
        "current_funding" => &mut ticker.funding_rate,
        _ => {
            ticker.attributes.push(Attribute { name, value: value.0.into() });
            return Ok(());
        }
    };
    *place = out.figure(&name, value, &mut ticker.attributes)?;
    Ok(())
}
