//! Orders, changes at a price, trades, states of the best levels, bars.

use super::bytes::{Fields, whole};
use super::head::Head;
use crate::error::BadRecord;
use crate::record::AnyRecord;
use tapedb_market::{BidAsk, IntervalBar, MarketByPrice, OrderAction};
use tapedb_schema::Timestamp;

/// The flag of the last record of an event.
const LAST: u8 = 1 << 7;
/// The flag of records of a snapshot.
const SNAPSHOT: u8 = 1 << 5;
/// Bytes of one level.
const LEVEL: usize = 32;
/// Where levels begin.
const LEVELS: usize = 48;

/// Which parts a record about prices has; all have price, size, side, flags and the time of receipt.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// It is a change or trade, with an action and the time it took to send.
    pub(super) is_change: bool,
    /// It has the place in the book.
    pub(super) has_depth: bool,
    /// It has a sequence number.
    pub(super) has_sequence: bool,
    /// Levels name the publishers of their sides, not the number of orders.
    pub(super) is_consolidated: bool,
    /// Length of the interval of a state.
    pub(super) interval_ns: Option<u64>,
}

/// Market by order.
#[inline]
pub(super) fn order(head: &Head<'_>, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let fields = head.fields;
    let flags = fields.u8(36);
    let order = out.order();
    order.action = action(fields, 38)?;
    order.side = fields.side(39)?;
    order.price = fields.price(24)?;
    order.size = fields.size(32);
    order.order_id = Some(fields.u64(16));
    order.event_end = flags & LAST != 0;
    order.snapshot = flags & SNAPSHOT != 0;
    order.flags = Some(u32::from(flags));
    order.sequence = Some(u64::from(fields.u32(52)));
    order.match_time = head.event_time()?;
    order.source_time = source_time(fields, 40, 48)?;
    order.vendor_time = head.vendor_time;
    order.instrument_id = Some(u64::from(head.instrument_id));
    order.publisher_id = Some(head.publisher_id);
    order.channel_id = Some(u16::from(fields.u8(37)));
    Ok(())
}

/// Market by price, trades, and states of the best levels.
pub(super) fn by_price(head: &Head<'_>, shape: Shape, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let fields = head.fields;
    let record: &mut MarketByPrice = out.market_by_price();
    let flags = fields.u8(30);
    record.price = fields.price(16)?;
    record.size = fields.size(24);
    record.side = fields.side(29)?;
    record.event_end = flags & LAST != 0;
    record.snapshot = flags & SNAPSHOT != 0;
    record.flags = Some(u32::from(flags));
    record.interval_ns = shape.interval_ns;
    if shape.is_change {
        record.action = Some(action(fields, 28)?);
        record.source_time = source_time(fields, 32, 40)?;
    }
    record.depth = shape.has_depth.then(|| u16::from(fields.u8(31)));
    record.sequence = shape.has_sequence.then(|| u64::from(fields.u32(44)));
    record.match_time = head.event_time()?;
    record.vendor_time = head.vendor_time;
    record.instrument_id = Some(u64::from(head.instrument_id));
    record.publisher_id = Some(head.publisher_id);
    let mut at = LEVELS;
    while at + LEVEL <= fields.0.len() {
        record.levels.push(level(fields, at, shape.is_consolidated)?);
        at += LEVEL;
    }
    Ok(())
}

fn level(fields: Fields<'_>, at: usize, is_consolidated: bool) -> Result<BidAsk, BadRecord> {
    let orders = |at| (!is_consolidated).then(|| fields.u32(at));
    let publisher = |at| is_consolidated.then(|| fields.u16(at));
    Ok(BidAsk {
        bid_price: fields.price(at)?,
        bid_size: fields.size(at + 16),
        bid_orders: orders(at + 24),
        bid_publisher_id: publisher(at + 24),
        ask_price: fields.price(at + 8)?,
        ask_size: fields.size(at + 20),
        ask_orders: orders(at + 28),
        ask_publisher_id: publisher(at + 28),
    })
}

/// Open, high, low, close, volume; returns the end of the interval.
pub(super) fn bar(
    head: &Head<'_>,
    interval_ns: Option<u64>,
    out: &mut AnyRecord,
) -> Result<Option<Timestamp>, BadRecord> {
    let fields = head.fields;
    let start = head.event_time()?;
    let volume = match fields.u64(48) {
        u64::MAX => None,
        volume => {
            Some(whole(volume).ok_or(BadRecord { offset: 48, expected: "a volume of at most 16 digits" })?)
        }
    };
    *out = IntervalBar {
        start,
        interval_ns,
        open: fields.price(16)?,
        high: fields.price(24)?,
        low: fields.price(32)?,
        close: fields.price(40)?,
        volume,
        vendor_time: head.vendor_time,
        instrument_id: Some(u64::from(head.instrument_id)),
        publisher_id: Some(head.publisher_id),
        ..IntervalBar::default()
    }
    .into();
    let length = interval_ns.unwrap_or(0) as i64;
    Ok(start.and_then(|start| start.nanos().checked_add(length)).map(Timestamp))
}

#[inline]
fn action(fields: Fields<'_>, at: usize) -> Result<OrderAction, BadRecord> {
    Ok(match fields.u8(at) {
        b'A' => OrderAction::Add,
        b'C' => OrderAction::Cancel,
        b'M' => OrderAction::Modify,
        b'T' => OrderAction::Trade,
        b'F' => OrderAction::Fill,
        b'R' => OrderAction::Clear,
        b'N' => OrderAction::None,
        _ => return Err(BadRecord { offset: at, expected: "an action A, C, M, T, F, R or N" }),
    })
}

/// When the venue sent it: the time of receipt at `received`, less the nanoseconds at `delta`.
#[inline]
pub(super) fn source_time(
    fields: Fields<'_>,
    received: usize,
    delta: usize,
) -> Result<Option<Timestamp>, BadRecord> {
    let received = fields.time(received)?;
    let delta = i64::from(fields.i32(delta));
    Ok(received.and_then(|received| received.nanos().checked_sub(delta)).map(Timestamp))
}
