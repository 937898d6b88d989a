//! Levels and trades, and what entries of all kinds have in common.

use super::block::Block;
use super::template::Message;
use crate::error::BadRecord;
use tapedb_market::{MarketByPrice, OrderAction, Side};
use tapedb_schema::{Ascii, Timestamp};

/// The bit of the last message of an event.
const END_OF_EVENT: u8 = 1 << 7;
/// The bit of messages that repeat what was sent before.
const RECOVERY: u8 = 1 << 5;
/// The exchange of implied books, which are beside the others.
const IMPLIED: &str = "IMPLIED";

/// What a row has become.
pub(super) enum Made {
    /// A record about an instrument; `None`: about the feed.
    Row(Option<u32>),
    /// Nothing: the field is null.
    Nothing,
    /// Something that is not imported, by its kind.
    Unknown(String),
}

/// What all rows of a message have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    pub(super) match_time: Option<Timestamp>,
    pub(super) source_time: Option<Timestamp>,
    /// The match event indicator.
    pub(super) event: u8,
    /// It is the last row of its message.
    pub(super) is_last: bool,
}

impl Common {
    /// The indicator, then the update's action, then the letter or number that says what the entry is.
    #[inline]
    pub(super) fn flags(self, action: u8, kind: u8) -> Option<u32> {
        Some(u32::from_le_bytes([self.event, action, kind, 0]))
    }

    #[inline]
    pub(super) fn event_end(self) -> bool {
        self.is_last && self.event & END_OF_EVENT != 0
    }

    #[inline]
    pub(super) fn is_recovery(self) -> bool {
        self.event & RECOVERY != 0
    }
}

/// The instrument's number, which an entry has here.
#[inline]
pub(super) fn instrument(entry: Block<'_>, at: usize) -> Result<u32, BadRecord> {
    entry.u32(at).ok_or_else(|| entry.bad(at, "a number of an instrument"))
}

/// The action of a book entry; `None`: it is not imported.
#[inline]
pub(super) fn action(code: u8, kind: u8) -> Option<OrderAction> {
    Some(match (kind, code) {
        (b'J', _) => OrderAction::Clear,
        (_, 0) => OrderAction::Add,
        (_, 1 | 5) => OrderAction::Modify,
        (_, 2) => OrderAction::Delete,
        _ => return None,
    })
}

/// Side and book of an entry of a book; `None`: it is none.
#[inline]
pub(super) fn side(kind: u8) -> Option<(Option<Side>, Option<Ascii<8>>)> {
    let implied = || Ascii::new(IMPLIED).ok();
    Some(match kind {
        b'0' => (Some(Side::Bid), None),
        b'1' => (Some(Side::Ask), None),
        b'E' => (Some(Side::Bid), implied()),
        b'F' => (Some(Side::Ask), implied()),
        b'J' => (None, None),
        _ => return None,
    })
}

/// A change of a level.
#[inline]
pub(super) fn level(entry: Block<'_>, common: Common, out: &mut MarketByPrice) -> Result<Made, BadRecord> {
    let (code, kind) = (entry.byte(25), entry.byte(26));
    let (Some(action), Some((side, exchange))) = (action(code, kind), side(kind)) else {
        return Ok(unknown_entry(code, kind));
    };
    let instrument = instrument(entry, 12)?;
    out.action = Some(action);
    (out.side, out.exchange) = (side, exchange);
    (out.price, out.size) = (entry.price(0)?, entry.size(8));
    out.depth = entry.u8(24).and_then(|level| level.checked_sub(1)).map(u16::from);
    out.flags = common.flags(code, kind);
    set_common(common, instrument, out);
    Ok(Made::Row(Some(instrument)))
}

#[inline]
pub(super) fn set_common(common: Common, instrument: u32, out: &mut MarketByPrice) {
    (out.match_time, out.source_time) = (common.match_time, common.source_time);
    (out.event_end, out.snapshot) = (common.event_end(), common.is_recovery());
    out.instrument_id = Some(instrument.into());
}

#[cold]
pub(super) fn unknown_entry(action: u8, kind: u8) -> Made {
    Made::Unknown(format!("entry type {:?} with update action {action}", char::from(kind)))
}

/// A trade; a later change of one carries its number and does not change the book either.
pub(super) fn trade(
    entry: Block<'_>,
    version: u16,
    common: Common,
    out: &mut MarketByPrice,
) -> Result<Made, BadRecord> {
    let (aggressor, code) = (entry.byte(24), entry.byte(25));
    let instrument = instrument(entry, 12)?;
    out.action = Some(if code == 0 { OrderAction::Trade } else { OrderAction::None });
    out.side = match aggressor {
        1 => Some(Side::Bid),
        2 => Some(Side::Ask),
        _ => None,
    };
    (out.price, out.size) = (entry.price(0)?, entry.size(8));
    out.trade_id = trade_id(entry, version);
    out.flags = common.flags(code, aggressor);
    set_common(common, instrument, out);
    Ok(Made::Row(Some(instrument)))
}

/// The number of a trade, which are zeros in versions that have none.
pub(super) fn trade_id(entry: Block<'_>, version: u16) -> Option<u64> {
    /// The first version that has it.
    const SINCE: u16 = 7;
    entry.u32(26).filter(|id| version >= SINCE || *id != 0).map(u64::from)
}

/// All books of the channel are empty.
pub(super) fn reset(message: &Message<'_>, index: usize, common: Common, out: &mut MarketByPrice) -> Made {
    out.action = Some(OrderAction::Clear);
    out.flags = common.flags(0, b'J');
    (out.match_time, out.source_time) = (common.match_time, common.source_time);
    out.event_end = common.event_end();
    let group = &message.groups[0];
    out.channel_id = if index < group.count { group.entry(index).u16(0) } else { None };
    Made::Row(None)
}
