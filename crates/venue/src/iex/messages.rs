//! The table of message types of DEEP and TOPS, and the record that each becomes.

use super::bytes::Fields;
use crate::error::BadRecord;
use crate::record::AnyRecord;
use tapedb_market::{
    Attribute, BidAsk, Definition, DefinitionAction, Imbalance, InstrumentKind, MarketByPrice, OrderAction,
    Side, Statistic, StatisticKind, Status, TradingState,
};
use tapedb_schema::Timestamp;

/// Bytes of a symbol, and where it is in all messages that have one.
const SYMBOL_BYTES: usize = 8;
const SYMBOL_AT: usize = 10;

/// Bytes of a message of a type; `None`: no such type.
fn length(kind: u8) -> Option<usize> {
    Some(match kind {
        b'S' => 10,
        b'D' => 31,
        b'H' => 22,
        b'I' | b'O' | b'E' => 18,
        b'P' => 19,
        b'Q' => 42,
        b'8' | b'5' => 30,
        b'T' | b'B' => 38,
        b'X' => 26,
        b'A' => 80,
        _ => return None,
    })
}

/// The symbol of a message of a known type; `None`: it is about the market.
pub(super) fn symbol(message: &[u8]) -> Result<Option<&str>, BadRecord> {
    if message[0] == b'S' {
        return Ok(None);
    }
    let symbol = Fields(message).text(SYMBOL_AT, SYMBOL_BYTES)?;
    Ok((!symbol.is_empty()).then_some(symbol))
}

/// Replaces `out` by a message that the venue sent at this time; `false`: its type is not known. What a newer version adds behind the
/// fields of a message is passed over.
#[inline]
pub(super) fn decode(message: &[u8], sent: Timestamp, out: &mut AnyRecord) -> Result<bool, BadRecord> {
    let &[kind, ..] = message else {
        return Err(BadRecord { offset: 0, expected: "a message of at least one byte" });
    };
    let Some(length) = length(kind) else { return Ok(false) };
    if message.len() < length {
        return Err(BadRecord { offset: 0, expected: "the length of a message of this type" });
    }
    let fields = Fields(message);
    let (match_time, source_time) = (Some(fields.time(2)), Some(sent));
    match kind {
        b'8' | b'5' | b'T' | b'B' | b'Q' => {
            let change = out.market_by_price();
            (change.match_time, change.source_time) = (match_time, source_time);
            change.flags = Some(fields.u8(1).into());
            price(kind, fields, change)?;
        }
        b'D' => *out = Definition { match_time, source_time, ..directory(fields)? }.into(),
        b'X' => *out = Statistic { match_time, source_time, ..official_price(fields)? }.into(),
        b'A' => *out = Imbalance { match_time, source_time, ..auction(fields)? }.into(),
        _ => *out = Status { match_time, source_time, ..status(kind, fields)? }.into(),
    }
    Ok(true)
}

/// Levels, trades and quotes.
#[inline]
fn price(kind: u8, fields: Fields<'_>, change: &mut MarketByPrice) -> Result<(), BadRecord> {
    if kind == b'Q' {
        let (bid_price, ask_price) = (fields.some_price(22)?, fields.some_price(30)?);
        change.event_end = true;
        change.levels.push(BidAsk {
            bid_price,
            bid_size: bid_price.map(|_| fields.size(18)),
            ask_price,
            ask_size: ask_price.map(|_| fields.size(38)),
            ..BidAsk::default()
        });
        return Ok(());
    }
    change.size = Some(fields.size(18));
    change.price = Some(fields.price(22)?);
    change.action = Some(match kind {
        b'T' => OrderAction::Trade,
        b'B' => OrderAction::None,
        _ if fields.u32(18) == 0 => OrderAction::Delete,
        _ => OrderAction::Modify,
    });
    match kind {
        b'T' | b'B' => change.trade_id = Some(fields.id(30)?),
        _ => {
            change.side = Some(if kind == b'8' { Side::Bid } else { Side::Ask });
            change.event_end = fields.u8(1) & 1 != 0;
        }
    }
    Ok(())
}

fn directory(fields: Fields<'_>) -> Result<Definition, BadRecord> {
    let attributes = [
        ("Flags", fields.u8(1).to_string()),
        ("Round Lot Size", fields.u32(18).to_string()),
        ("Adjusted POC Price", fields.price(22)?.to_string()),
        ("LULD Tier", fields.u8(30).to_string()),
    ];
    Ok(Definition {
        action: Some(DefinitionAction::Add),
        kind: Some(InstrumentKind::Stock),
        raw_symbol: Some(fields.text(SYMBOL_AT, SYMBOL_BYTES)?.into()),
        attributes: attributes.map(|(name, value)| Attribute { name: name.into(), value }).into(),
        ..Definition::default()
    })
}

fn official_price(fields: Fields<'_>) -> Result<Statistic, BadRecord> {
    let code = fields.u8(1);
    Ok(Statistic {
        kind: match code {
            b'Q' => Some(StatisticKind::OpeningPrice),
            b'M' => Some(StatisticKind::ClosePrice),
            _ => None,
        },
        code: Some(code.into()),
        price: Some(fields.price(18)?),
        ..Statistic::default()
    })
}

fn auction(fields: Fields<'_>) -> Result<Imbalance, BadRecord> {
    let seconds = i64::from(fields.u32(44));
    Ok(Imbalance {
        auction_type: fields.letter(1)?,
        paired_size: Some(fields.size(18)),
        reference_price: fields.some_price(22)?,
        book_clearing_price: fields.some_price(30)?,
        imbalance_size: Some(fields.size(38)),
        side: match fields.u8(42) {
            b'B' => Some(Side::Bid),
            b'S' => Some(Side::Ask),
            _ => None,
        },
        auction_status: Some(fields.u8(42)),
        extensions: Some(fields.u8(43)),
        auction_time: (seconds > 0).then(|| Timestamp(seconds * 1_000_000_000)),
        auction_clearing_price: fields.some_price(48)?,
        lower_collar: fields.some_price(64)?,
        upper_collar: fields.some_price(72)?,
        ..Imbalance::default()
    })
}

/// The price around which the collars of an auction are, for which an imbalance has no field.
pub(super) fn collar_reference(message: &[u8], sent: Timestamp) -> Result<Option<Statistic>, BadRecord> {
    if message[0] != b'A' {
        return Ok(None);
    }
    let fields = Fields(message);
    let price = fields.some_price(56)?;
    Ok(price.map(|price| Statistic {
        code: Some(b'A'.into()),
        price: Some(price),
        match_time: Some(fields.time(2)),
        source_time: Some(sent),
        ..Statistic::default()
    }))
}

fn status(kind: u8, fields: Fields<'_>) -> Result<Status, BadRecord> {
    let code = fields.u8(1);
    let status = Status { state_code: Some(code.into()), ..Status::default() };
    let trading = |state: Option<TradingState>| state.map(|state| state == TradingState::Trading);
    Ok(match kind {
        b'S' => {
            let (state, text) = match code {
                b'O' => (None, "start of messages"),
                b'S' => (None, "start of system hours"),
                b'R' => (Some(TradingState::Trading), "start of regular market hours"),
                b'M' => (Some(TradingState::PostClose), "end of regular market hours"),
                b'E' => (Some(TradingState::Closed), "end of system hours"),
                b'C' => (None, "end of messages"),
                _ => (None, "system event"),
            };
            Status { state, text: Some(text.into()), ..status }
        }
        b'H' => {
            let state = match code {
                b'H' => Some(TradingState::Halted),
                b'O' => Some(TradingState::PreAuction),
                b'P' => Some(TradingState::Paused),
                b'T' => Some(TradingState::Trading),
                _ => None,
            };
            let reason = fields.text(18, 4)?;
            let text = (!reason.is_empty()).then(|| reason.to_string());
            Status { state, trading: trading(state), text, ..status }
        }
        b'O' => {
            let state = match code {
                b'O' => Some(TradingState::Halted),
                b'N' => Some(TradingState::Trading),
                _ => None,
            };
            Status { state, trading: trading(state), text: Some("operational halt".into()), ..status }
        }
        b'P' => Status {
            state: Some(TradingState::ShortSaleChange),
            short_sale_restricted: Some(code != 0),
            reason_code: Some(fields.u8(18).into()),
            ..status
        },
        b'E' => {
            let text = match code {
                b'O' => "opening process complete",
                b'C' => "closing process complete",
                _ => "security event",
            };
            Status { text: Some(text.into()), ..status }
        }
        _ => Status { text: Some("retail liquidity".into()), ..status },
    })
}
