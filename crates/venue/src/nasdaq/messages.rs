//! The table of message types of ITCH 5.0, and the record that each becomes.

use super::bytes::Fields;
use crate::error::BadRecord;
use crate::record::AnyRecord;
use tapedb_market::{
    Attribute, Definition, DefinitionAction, Imbalance, InstrumentKind, Notice, Order, OrderAction, Side,
    Statistic, Status, TradingState,
};
use tapedb_schema::{Decimal64, Timestamp};

/// Bytes that every message begins with: type, number of the instrument, tracking number, time.
const HEAD_BYTES: usize = 11;

/// What has become of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A record; when the venue's system did what it reports.
    Record(Timestamp),
    /// A type that is not imported.
    Unknown(u8),
}

/// How long a message of a type is, and where it has its instrument's name; zeros: no such type, or no name.
#[derive(Clone, Copy)]
struct Shape {
    length: u8,
    name: u8,
}

/// By type: looked up for each message, so it is a table, not a match.
static SHAPES: [Shape; 256] = {
    let mut shapes = [Shape { length: 0, name: 0 }; 256];
    let known = [
        (b'S', 12, 0),
        (b'W', 12, 0),
        (b'R', 39, 11),
        (b'H', 25, 11),
        (b'Y', 20, 11),
        (b'N', 20, 11),
        (b'L', 26, 15),
        (b'V', 35, 0),
        (b'K', 28, 11),
        (b'J', 35, 11),
        (b'h', 21, 11),
        (b'A', 36, 24),
        (b'F', 40, 24),
        (b'E', 31, 0),
        (b'C', 36, 0),
        (b'X', 23, 0),
        (b'D', 19, 0),
        (b'U', 35, 0),
        (b'P', 44, 24),
        (b'Q', 40, 19),
        (b'B', 19, 0),
        (b'I', 50, 28),
        (b'O', 48, 11),
    ];
    let mut at = 0;
    while at < known.len() {
        let (kind, length, name) = known[at];
        shapes[kind as usize] = Shape { length, name };
        at += 1;
    }
    shapes
};

/// The instrument's number, and its name where the message has it.
#[inline]
pub(super) fn instrument(message: &[u8]) -> (u16, Option<&[u8; 8]>) {
    let number = Fields(message).u16(1);
    let name = match usize::from(SHAPES[usize::from(message[0])].name) {
        0 => None,
        at => message[at..].first_chunk(),
    };
    (number, name)
}

/// Replaces `out` by a whole message. `at` makes a time of nanoseconds since midnight; `received` is set where the message's time is when
/// it was received: then the venue's own time is kept beside it.
#[inline]
pub(super) fn decode(
    message: &[u8],
    is_received: bool,
    at: impl Fn(i64) -> Option<Timestamp>,
    out: &mut AnyRecord,
) -> Result<Decoded, BadRecord> {
    let &[kind, ..] = message else {
        return Err(BadRecord { offset: 0, expected: "a message of at least one byte" });
    };
    let length = usize::from(SHAPES[usize::from(kind)].length);
    if length == 0 {
        return Ok(Decoded::Unknown(kind));
    }
    if message.len() != length {
        return Err(BadRecord { offset: 0, expected: "the length of a message of this type" });
    }
    debug_assert!(length >= HEAD_BYTES);
    let fields = Fields(message);
    let time = at(fields.nanos(5)).ok_or(BadRecord { offset: 5, expected: "a time of the day" })?;
    let match_time = is_received.then_some(time);
    match kind {
        b'A' | b'F' | b'E' | b'C' | b'X' | b'D' | b'U' | b'P' | b'Q' | b'B' => {
            let order = out.order();
            order.match_time = match_time;
            fill_order(kind, fields, order)?;
        }
        b'R' => *out = Definition { match_time, ..directory(fields)? }.into(),
        b'O' => *out = Definition { match_time, ..direct_listing(fields, at)? }.into(),
        b'I' => *out = Imbalance { match_time, ..imbalance(fields)? }.into(),
        b'J' => *out = Imbalance { match_time, ..collar(fields)? }.into(),
        b'K' => *out = Statistic { match_time, ..offering(fields, at)? }.into(),
        b'S' | b'H' | b'h' | b'Y' | b'W' => *out = Status { match_time, ..status(kind, fields)? }.into(),
        _ => *out = notice(kind, fields)?.into(),
    }
    Ok(Decoded::Record(time))
}

/// Orders and trades; `order` is empty.
#[inline]
fn fill_order(kind: u8, fields: Fields<'_>, order: &mut Order) -> Result<(), BadRecord> {
    order.instrument_id = Some(fields.u16(1).into());
    order.order_id = Some(fields.u64(11));
    match kind {
        b'A' | b'F' => {
            order.action = OrderAction::Add;
            order.side = Some(fields.side(19)?);
            order.price = Some(fields.price(32));
            order.size = Some(fields.size(20));
            if kind == b'F' {
                order.participant = fields.ascii(36, 4)?;
            }
        }
        b'E' | b'C' => {
            order.action = OrderAction::Execute;
            order.size = Some(fields.size(19));
            order.trade_id = Some(fields.u64(23));
            if kind == b'C' {
                order.price = Some(fields.price(32));
                order.flags = Some(fields.u8(31).into());
            }
        }
        b'X' => {
            order.action = OrderAction::Cancel;
            order.size = Some(fields.size(19));
        }
        b'D' => order.action = OrderAction::Delete,
        b'U' => {
            order.action = OrderAction::Replace;
            order.order_id = Some(fields.u64(19));
            order.previous_order_id = Some(fields.u64(11));
            order.price = Some(fields.price(31));
            order.size = Some(fields.size(27));
        }
        b'P' => {
            order.action = OrderAction::Trade;
            order.order_id = some(fields.u64(11));
            order.price = Some(fields.price(32));
            order.size = Some(fields.size(20));
            order.trade_id = Some(fields.u64(36));
            // Of the hidden order, and always B since 2014: not a side of the trade.
            order.flags = Some(fields.u8(19).into());
        }
        b'Q' => {
            order.action = OrderAction::Trade;
            order.order_id = None;
            order.price = Some(fields.price(27));
            order.size = Some(fields.long_size(11)?);
            order.trade_id = Some(fields.u64(31));
            order.flags = Some(fields.u8(39).into());
        }
        _ => {
            order.action = OrderAction::None;
            order.order_id = None;
            order.trade_id = Some(fields.u64(11));
            order.flags = Some(kind.into());
        }
    }
    Ok(())
}

fn some(number: u64) -> Option<u64> {
    if number == 0 { None } else { Some(number) }
}

fn directory(fields: Fields<'_>) -> Result<Definition, BadRecord> {
    let attribute = |name: &str, value: String| Attribute { name: name.into(), value };
    let letters = [
        ("Market Category", 19),
        ("Financial Status Indicator", 20),
        ("Round Lots Only", 25),
        ("Authenticity", 29),
        ("Short Sale Threshold Indicator", 30),
        ("IPO Flag", 31),
        ("LULD Reference Price Tier", 32),
        ("ETP Flag", 33),
        ("Inverse Indicator", 38),
    ];
    let mut attributes = Vec::new();
    for (name, at) in letters {
        let value = fields.text(at, 1)?;
        if !value.is_empty() {
            attributes.push(attribute(name, value));
        }
    }
    attributes.push(attribute("Round Lot Size", fields.u32(21).to_string()));
    attributes.push(attribute("Issue Sub-Type", fields.text(27, 2)?));
    attributes.push(attribute("ETP Leverage Factor", fields.u32(34).to_string()));
    Ok(Definition {
        action: Some(DefinitionAction::Add),
        kind: Some(InstrumentKind::Stock),
        raw_symbol: Some(fields.text(11, 8)?),
        security_type: Some(fields.text(26, 1)?),
        instrument_id: Some(fields.u16(1).into()),
        attributes,
        ..Definition::default()
    })
}

/// Prices of a direct listing with capital raise.
fn direct_listing(
    fields: Fields<'_>,
    at: impl Fn(i64) -> Option<Timestamp>,
) -> Result<Definition, BadRecord> {
    let near = i64::try_from(fields.u64(32)).ok().and_then(at);
    let near = near.ok_or(BadRecord { offset: 32, expected: "a time of the day" })?;
    let attributes = [
        ("Open Eligibility Status", fields.text(19, 1)?),
        ("Minimum Allowable Price", fields.price(20).to_string()),
        ("Maximum Allowable Price", fields.price(24).to_string()),
        ("Near Execution Price", fields.price(28).to_string()),
        ("Near Execution Time", near.to_string()),
        ("Lower Price Range Collar", fields.price(40).to_string()),
        ("Upper Price Range Collar", fields.price(44).to_string()),
    ];
    Ok(Definition {
        action: Some(DefinitionAction::Modify),
        raw_symbol: Some(fields.text(11, 8)?),
        instrument_id: Some(fields.u16(1).into()),
        attributes: attributes.map(|(name, value)| Attribute { name: name.into(), value }).into(),
        ..Definition::default()
    })
}

/// An order imbalance of an auction.
fn imbalance(fields: Fields<'_>) -> Result<Imbalance, BadRecord> {
    let direction = fields.u8(27);
    Ok(Imbalance {
        paired_size: Some(fields.long_size(11)?),
        imbalance_size: Some(fields.long_size(19)?),
        side: match direction {
            b'B' => Some(Side::Bid),
            b'S' => Some(Side::Ask),
            _ => None,
        },
        auction_clearing_price: fields.some_price(36),
        book_clearing_price: fields.some_price(40),
        reference_price: fields.some_price(44),
        auction_type: fields.ascii(48, 1)?,
        auction_status: Some(direction),
        significance: fields.ascii(49, 1)?,
        instrument_id: Some(fields.u16(1).into()),
        ..Imbalance::default()
    })
}

/// The prices between which an auction after a pause takes place.
fn collar(fields: Fields<'_>) -> Result<Imbalance, BadRecord> {
    let extensions = u8::try_from(fields.u32(31));
    Ok(Imbalance {
        reference_price: Some(fields.price(19)),
        upper_collar: Some(fields.price(23)),
        lower_collar: Some(fields.price(27)),
        extensions: Some(
            extensions.map_err(|_| BadRecord { offset: 31, expected: "at most 255 extensions" })?,
        ),
        instrument_id: Some(fields.u16(1).into()),
        ..Imbalance::default()
    })
}

/// When the quotes of a new listing begin, and its price.
fn offering(fields: Fields<'_>, at: impl Fn(i64) -> Option<Timestamp>) -> Result<Statistic, BadRecord> {
    let release = at(i64::from(fields.u32(19)) * 1_000_000_000);
    Ok(Statistic {
        code: Some(b'K'.into()),
        price: Some(fields.price(24)),
        reference_time: Some(release.ok_or(BadRecord { offset: 19, expected: "a time of the day" })?),
        flags: Some(fields.u8(23).into()),
        instrument_id: Some(fields.u16(1).into()),
        ..Statistic::default()
    })
}

fn status(kind: u8, fields: Fields<'_>) -> Result<Status, BadRecord> {
    let at = match kind {
        b'S' | b'W' => 11,
        b'h' => 20,
        _ => 19,
    };
    let code = fields.u8(at);
    let status = Status {
        state_code: Some(code.into()),
        instrument_id: some(fields.u16(1).into()),
        ..Status::default()
    };
    let state = |state: Option<TradingState>| (state, state.map(|state| state == TradingState::Trading));
    Ok(match kind {
        b'S' => {
            let (state, text) = match code {
                b'O' => (None, "start of messages"),
                b'S' => (None, "start of system hours"),
                b'Q' => (Some(TradingState::Trading), "start of market hours"),
                b'M' => (Some(TradingState::PostClose), "end of market hours"),
                b'E' => (Some(TradingState::Closed), "end of system hours"),
                b'C' => (None, "end of messages"),
                _ => (None, "system event"),
            };
            Status { state, text: Some(text.into()), ..status }
        }
        b'W' => Status { text: Some("market-wide circuit breaker: a level is breached".into()), ..status },
        b'Y' => Status {
            state: Some(TradingState::ShortSaleChange),
            short_sale_restricted: Some(code != b'0'),
            ..status
        },
        b'h' => {
            let (state, trading) = state(match code {
                b'H' => Some(TradingState::Halted),
                b'T' => Some(TradingState::Trading),
                _ => None,
            });
            let text = Some("operational halt".into());
            Status { state, trading, event_code: Some(fields.u8(19).into()), text, ..status }
        }
        _ => {
            let (state, trading) = state(match code {
                b'H' => Some(TradingState::Halted),
                b'P' => Some(TradingState::Paused),
                b'Q' => Some(TradingState::Quoting),
                b'T' => Some(TradingState::Trading),
                _ => None,
            });
            let reason = fields.text(21, 4)?;
            Status { state, trading, text: (!reason.is_empty()).then_some(reason), ..status }
        }
    })
}

/// Positions of participants, levels of the market-wide circuit breaker, interest of retail orders.
fn notice(kind: u8, fields: Fields<'_>) -> Result<Notice, BadRecord> {
    let level = |at| fields.long_price(at).map(Decimal64::normalize);
    let text = match kind {
        b'L' => {
            let (participant, [primary, mode, state]) =
                (fields.text(11, 4)?, [fields.text(23, 1)?, fields.text(24, 1)?, fields.text(25, 1)?]);
            format!("market participant {participant}: primary {primary}, mode {mode}, state {state}")
        }
        b'V' => {
            let (one, two, three) = (level(11)?, level(19)?, level(27)?);
            format!("market-wide circuit breaker: level 1 at {one}, level 2 at {two}, level 3 at {three}")
        }
        _ => format!("retail interest: {}", fields.text(19, 1)?),
    };
    Ok(Notice { code: Some(kind), text, instrument_id: some(fields.u16(1).into()), ..Notice::default() })
}
