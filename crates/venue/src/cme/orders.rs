//! Changes of orders: of books by order, of levels, and of trades.

use super::block::Block;
use super::entries::{Common, Made, action, instrument, side, trade_id, unknown_entry};
use super::template::Message;
use crate::error::BadRecord;
use tapedb_market::{Order, OrderAction};

/// A change of an order in a book by order.
#[inline]
pub(super) fn change(entry: Block<'_>, common: Common) -> Result<(Option<Order>, Made), BadRecord> {
    let (code, kind) = (entry.byte(32), entry.byte(33));
    let (Some(action), Some((side, exchange))) = (action(code, kind), side(kind)) else {
        return Ok((None, unknown_entry(code, kind)));
    };
    let instrument = instrument(entry, 28)?;
    let order = Order {
        action,
        side,
        exchange,
        order_id: entry.u64(0),
        priority: entry.u64(8),
        price: entry.price(16)?,
        size: entry.size(24),
        flags: common.flags(code, kind),
        ..base(common, Some(instrument))
    };
    Ok((Some(order), Made::Row(Some(instrument))))
}

/// A change of an order that belongs to an entry of the same message.
pub(super) fn of_level(
    message: &Message<'_>,
    entry: Block<'_>,
    common: Common,
) -> Result<(Option<Order>, Made), BadRecord> {
    // Newer templates have numbers, older ones their digits.
    let code = entry.byte(21) & 0xF;
    let levels = &message.groups[0];
    let place = entry.u8(20).and_then(|place| usize::from(place).checked_sub(1));
    let level = place.filter(|place| *place < levels.count).map(|place| levels.entry(place));
    let Some(level) = level else { return Err(entry.bad(20, "the number of an entry of the message")) };
    let kind = level.byte(26);
    let (Some(action), Some((side, exchange))) = (action(code, kind), side(kind)) else {
        return Ok((None, unknown_entry(code, kind)));
    };
    let instrument = instrument(level, 12)?;
    let order = Order {
        action,
        side,
        exchange,
        order_id: entry.u64(0),
        priority: entry.u64(8),
        price: level.price(0)?,
        size: entry.size(16),
        flags: common.flags(code, kind),
        ..base(common, Some(instrument))
    };
    Ok((Some(order), Made::Row(Some(instrument))))
}

/// An order that took part in a trade.
pub(super) fn fill(message: &Message<'_>, index: usize, common: Common) -> Result<(Order, Made), BadRecord> {
    let (trades, entry) = (&message.groups[0], message.groups[1].entry(index));
    let trade = of_fill(message, index);
    let instrument = (trade < trades.count).then(|| instrument(trades.entry(trade), 12)).transpose()?;
    let order = Order {
        action: OrderAction::Fill,
        order_id: entry.u64(0).filter(|id| *id != 0),
        size: entry.size(8),
        flags: common.flags(0, 0),
        ..base(common, instrument)
    };
    let order = match instrument {
        Some(_) => {
            let trade = trades.entry(trade);
            Order { price: trade.price(0)?, trade_id: trade_id(trade, message.version), ..order }
        }
        None => order,
    };
    Ok((order, Made::Row(instrument)))
}

/// The trade of an order: each trade states how many it has, and they come in the order of the trades.
fn of_fill(message: &Message<'_>, index: usize) -> usize {
    let trades = &message.groups[0];
    let mut before = 0;
    for trade in 0..trades.count {
        before += trades.entry(trade).i32(20).and_then(|orders| usize::try_from(orders).ok()).unwrap_or(0);
        if index < before {
            return trade;
        }
    }
    trades.count.saturating_sub(1)
}

fn base(common: Common, instrument: Option<u32>) -> Order {
    Order {
        match_time: common.match_time,
        source_time: common.source_time,
        event_end: common.event_end(),
        snapshot: common.is_recovery(),
        instrument_id: instrument.map(u64::from),
        ..Order::default()
    }
}
