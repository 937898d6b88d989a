//! BitMEX: `orderBookL2`, `trade`, `quote`.
//!
//! | table | message |
//! |---|---|
//! | `orderBookL2`, `orderBookL2_25` | `Package` for each run of rows of one symbol: a snapshot of the `partial`, then level-2 updates. Rows of updates and deletes name a level by a number, not by its price: the prices are kept from the rows before. The changes have no sequence, but a level that was never inserted shows that something is missing |
//! | `trade` | [`MarketByPrice`], `TRADE`, with `trdMatchID` as a number of 128 bits; of a `partial`, which is history, with `snapshot` |
//! | `quote` | `Package` with two `Level1` |

#[cfg(test)]
mod tests;

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::by_symbol::BySymbol;
use crate::frames::ids;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use tapedb_market::{
    BookAction, Entry, Gap, GapCause, Level2Snapshot, Level2Update, MarketByPrice, NoticeKind, OrderAction,
    Package, PackageKind, Side,
};
use tapedb_schema::Decimal64;

/// Most levels whose prices are kept.
const LEVELS_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Parser {
    /// Prices of levels, by symbol and the level's number; a symbol is there from its partial on.
    levels: BySymbol<HashMap<u64, Decimal64>>,
    count: usize,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    table: Option<Cow<'a, str>>,
    #[serde(borrow)]
    action: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    subscribe: Option<&'a RawValue>,
    #[serde(borrow)]
    info: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct LevelRow<'a> {
    #[serde(borrow)]
    symbol: Scalar<'a>,
    id: Scalar<'a>,
    side: Scalar<'a>,
    #[serde(default)]
    size: Scalar<'a>,
    #[serde(default)]
    price: Scalar<'a>,
    #[serde(default)]
    timestamp: Scalar<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TradeRow<'a> {
    #[serde(borrow)]
    timestamp: Scalar<'a>,
    symbol: Scalar<'a>,
    side: Scalar<'a>,
    size: Scalar<'a>,
    price: Scalar<'a>,
    #[serde(rename = "trdMatchID", default)]
    id: Scalar<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuoteRow<'a> {
    #[serde(borrow)]
    timestamp: Scalar<'a>,
    symbol: Scalar<'a>,
    #[serde(default)]
    bid_size: Scalar<'a>,
    #[serde(default)]
    bid_price: Scalar<'a>,
    #[serde(default)]
    ask_size: Scalar<'a>,
    #[serde(default)]
    ask_price: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.levels.clear();
        self.count = 0;
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        if text == "pong" {
            out.control("pong");
            return Ok(());
        }
        let frame: Frame<'_> = out.json(text)?;
        let (Some(table), Some(data)) = (frame.table.as_deref(), frame.data) else {
            return match (frame.error, frame.subscribe, frame.info) {
                (Some(_), ..) => out.notice(NoticeKind::Error, text),
                (_, Some(_), _) => {
                    out.control("subscribe");
                    Ok(())
                }
                (_, _, Some(_)) => {
                    out.control("info");
                    Ok(())
                }
                _ => {
                    out.unknown("without table");
                    Ok(())
                }
            };
        };
        let action = frame.action.as_deref().unwrap_or_default();
        match table {
            "orderBookL2" | "orderBookL2_25" => self.levels(&out.json::<Vec<_>>(data.get())?, action, out),
            "trade" => {
                out.json::<Vec<TradeRow<'_>>>(data.get())?.iter().try_for_each(|row| trade(row, action, out))
            }
            "quote" => out.json::<Vec<QuoteRow<'_>>>(data.get())?.iter().try_for_each(|row| quote(row, out)),
            table => {
                out.unknown(table);
                Ok(())
            }
        }
    }
}

impl Parser {
    fn levels(&mut self, rows: &[LevelRow<'_>], action: &str, out: &mut Messages) -> Result<(), BadLine> {
        for run in rows.chunk_by(|a, b| a.symbol == b.symbol) {
            let symbol = run[0].symbol.0;
            let mut package = Package::default();
            if action == "partial" {
                package.kind = PackageKind::Snapshot;
                let before = std::mem::take(self.levels.of(symbol, out)?);
                self.count -= before.len();
            }
            let (mut places, mut unknown) = ([0usize; 2], 0u64);
            for row in run {
                let place = &mut places[usize::from(row.side.0 == "Sell")];
                match self.entry(row, action, *place, out)? {
                    Some(entry) => package.entries.push(entry),
                    None => unknown += 1,
                }
                *place += 1;
                let time = row.timestamp.some().map(|time| out.iso(Scalar(time))).transpose()?;
                package.match_time = package.match_time.max(time);
            }
            out.unverifiable();
            if unknown > 0 {
                out.gap(symbol, missing(unknown))?;
            }
            if !package.entries.is_empty() || unknown == 0 {
                out.push(symbol, package)?;
            }
        }
        Ok(())
    }

    /// `None` for a level whose price is not known.
    fn entry(
        &mut self,
        row: &LevelRow<'_>,
        action: &str,
        place: usize,
        out: &mut Messages,
    ) -> Result<Option<Entry>, BadLine> {
        let (side, id) = (out.side(row.side, ["Buy", "Sell"])?, out.whole(row.id, "id")?);
        let stated = out.maybe_decimal(row.price)?;
        let levels = self.levels.of(row.symbol.0, out)?;
        let known = if action == "delete" { levels.remove(&id) } else { levels.get(&id).copied() };
        if action == "delete" {
            self.count -= usize::from(known.is_some());
        }
        let Some(price) = stated.or(known) else { return Ok(None) };
        if action == "delete" {
            let delete = Level2Update {
                action: BookAction::Delete,
                side,
                price,
                exchange: out.exchange(),
                ..Default::default()
            };
            return Ok(Some(Entry::Level2Update(delete)));
        }
        if self.count >= LEVELS_MAX && !levels.contains_key(&id) {
            return Err(out.bad(row.id.0, format!("books of at most {LEVELS_MAX} levels")));
        }
        self.count += usize::from(levels.insert(id, price).is_none());
        let (size, exchange) = (out.decimal(row.size)?, out.exchange());
        Ok(Some(match action {
            "partial" => Entry::Level2Snapshot(Level2Snapshot {
                side,
                level: u16::try_from(place)
                    .map_err(|_| out.bad(row.id.0, "a snapshot of at most 65,536 levels a side"))?,
                price,
                size,
                orders: None,
                exchange,
            }),
            "insert" | "update" => Entry::Level2Update(Level2Update {
                side,
                price,
                size: Some(size),
                exchange,
                ..Level2Update::default()
            }),
            _ => return Err(out.bad(row.symbol.0, "action as partial, insert, update or delete")),
        }))
    }
}

/// Rows that name levels without a price that is known.
fn missing(rows: u64) -> Gap {
    Gap {
        cause: GapCause::SequenceBreak,
        verifiable: false,
        detail: Some(format!("{rows} changes of levels that were never inserted")),
        ..Gap::default()
    }
}

fn trade(row: &TradeRow<'_>, action: &str, out: &mut Messages) -> Result<(), BadLine> {
    let id = ids::uuid(row.id.0);
    let trade = MarketByPrice {
        action: Some(OrderAction::Trade),
        side: row.side.some().map(|side| out.side(Scalar(side), ["Buy", "Sell"])).transpose()?,
        price: Some(out.decimal(row.price)?),
        size: Some(out.decimal(row.size)?),
        trade_id: id.map(|(_, low)| low),
        trade_id_high: id.map(|(high, _)| high),
        trade_id_text: row.id.some().filter(|_| id.is_none()).map(str::to_string),
        snapshot: action == "partial",
        match_time: Some(out.iso(row.timestamp)?),
        exchange: out.exchange(),
        ..MarketByPrice::default()
    };
    out.push(row.symbol.0, trade)
}

fn quote(row: &QuoteRow<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let bid = out.best(Side::Bid, row.bid_price, row.bid_size)?;
    let ask = out.best(Side::Ask, row.ask_price, row.ask_size)?;
    let match_time = Some(out.iso(row.timestamp)?);
    out.push(row.symbol.0, Package { match_time, entries: vec![bid, ask], ..Package::default() })
}
