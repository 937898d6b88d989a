//! Whole books, which are sent again and again for those who join late.

use super::block::Block;
use super::entries::{Common, Made, action, instrument, side, unknown_entry};
use super::statistics::{kind, limit, of_state};
use super::template::Message;
use crate::error::BadRecord;
use crate::record::AnyRecord;
use tapedb_market::{MarketByPrice, Order, OrderAction, Statistic, Status};

/// Rows before the entries: the begin, the state, three limits.
const ROWS_BEFORE: usize = 5;
/// Where the root block of a book by price has the state, and the limits.
const STATE_AT: usize = 34;
const LIMITS_AT: usize = 35;
/// The trade of a snapshot.
const TRADE: u8 = b'2';

/// Rows of a snapshot by price.
pub(super) fn rows(message: &Message<'_>) -> usize {
    ROWS_BEFORE + message.groups[0].count
}

/// A row of a snapshot by price.
pub(super) fn row(
    message: &Message<'_>,
    index: usize,
    common: Common,
    out: &mut AnyRecord,
) -> Result<Made, BadRecord> {
    let root = message.root;
    let instrument = instrument(root, 8)?;
    let common = Common { match_time: root.time(16)?, ..common };
    match index {
        0 => {
            change(common, instrument, out).action = Some(OrderAction::Clear);
            Ok(Made::Row(Some(instrument)))
        }
        1 => {
            let state = root.u8(STATE_AT);
            let text = root.date(32).map(|date| format!("trading day {}", &date.to_string()[..10]));
            let status = Status {
                text,
                match_time: root.time(24)?,
                source_time: common.source_time,
                instrument_id: Some(instrument.into()),
                ..of_state(state)
            };
            *out = status.into();
            Ok(if state.is_some() { Made::Row(Some(instrument)) } else { Made::Nothing })
        }
        2..ROWS_BEFORE => {
            let (statistic, made) = limit(root, LIMITS_AT, index - 2, (common, instrument))?;
            *out = statistic.into();
            Ok(made)
        }
        _ => entry(message.groups[0].entry(index - ROWS_BEFORE), instrument, common, out),
    }
}

fn entry(entry: Block<'_>, instrument: u32, common: Common, out: &mut AnyRecord) -> Result<Made, BadRecord> {
    let code = entry.byte(21);
    let flags = common.flags(0, code);
    let (price, size) = (entry.price(0)?, entry.size(8));
    let Some((side, exchange)) = side(code).or((code == TRADE).then_some((None, None))) else {
        let detail = if code == b'4' { entry.byte(19) } else { entry.byte(20) };
        let statistic = Statistic {
            kind: kind(code, detail),
            code: Some(code.into()),
            price,
            quantity: size,
            reference_time: entry.date(17),
            flags: common.flags(0, detail),
            match_time: common.match_time,
            source_time: common.source_time,
            instrument_id: Some(instrument.into()),
            ..Statistic::default()
        };
        *out = statistic.into();
        return Ok(Made::Row(Some(instrument)));
    };
    let record = change(common, instrument, out);
    record.action = if code == TRADE { Some(OrderAction::Trade) } else { action(0, code) };
    (record.side, record.exchange, record.price, record.size) = (side, exchange, price, size);
    record.flags = flags;
    let level = entry.i8(16).and_then(|level| u16::try_from(level).ok());
    record.depth = level.and_then(|level| level.checked_sub(1));
    Ok(Made::Row(Some(instrument)))
}

/// An empty change of a snapshot.
fn change(common: Common, instrument: u32, out: &mut AnyRecord) -> &mut MarketByPrice {
    let record = out.market_by_price();
    (record.match_time, record.source_time) = (common.match_time, common.source_time);
    (record.snapshot, record.event_end) = (true, common.is_last);
    record.instrument_id = Some(instrument.into());
    record
}

/// Rows of a part of a snapshot by order: the first part begins with a clear.
pub(super) fn order_rows(message: &Message<'_>) -> usize {
    message.groups[0].count + usize::from(is_first_part(message))
}

fn is_first_part(message: &Message<'_>) -> bool {
    message.root.u32(16) == Some(1)
}

/// A row of a part of a snapshot by order.
pub(super) fn order_row(
    message: &Message<'_>,
    index: usize,
    common: Common,
    out: &mut AnyRecord,
) -> Result<Made, BadRecord> {
    let root = message.root;
    let instrument = instrument(root, 8)?;
    let is_last_part = root.u32(12) == root.u32(16);
    let base = Order {
        snapshot: true,
        event_end: common.is_last && is_last_part,
        match_time: root.time(20)?,
        source_time: common.source_time,
        instrument_id: Some(instrument.into()),
        ..Order::default()
    };
    let entry_at = match (is_first_part(message), index) {
        (true, 0) => {
            out.set_order(Order { action: OrderAction::Clear, ..base });
            return Ok(Made::Row(Some(instrument)));
        }
        (true, index) => index - 1,
        (false, index) => index,
    };
    let entry = message.groups[0].entry(entry_at);
    let code = entry.byte(28);
    let (Some(action), Some((side, exchange))) = (action(0, code), side(code)) else {
        return Ok(unknown_entry(0, code));
    };
    out.set_order(Order {
        action,
        side,
        exchange,
        order_id: entry.u64(0),
        priority: entry.u64(8),
        price: entry.price(16)?,
        size: entry.size(24),
        flags: common.flags(0, code),
        ..base
    });
    Ok(Made::Row(Some(instrument)))
}
