//! Volumes, statistics, limits of prices, and states of trading.

use super::block::Block;
use super::entries::{Common, Made, instrument};
use crate::error::BadRecord;
use tapedb_market::{Statistic, StatisticKind, Status, TradingState};

/// The action of an entry that is withdrawn.
const DELETE: u8 = 2;

fn base(common: Common, (action, code, detail): (u8, u8, u8), instrument: u32) -> Statistic {
    Statistic {
        code: Some(code.into()),
        flags: common.flags(action, detail),
        withdrawn: action == DELETE,
        match_time: common.match_time,
        source_time: common.source_time,
        instrument_id: Some(instrument.into()),
        ..Statistic::default()
    }
}

/// The size traded in the session.
pub(super) fn volume(entry: Block<'_>, common: Common) -> Result<(Statistic, Made), BadRecord> {
    let instrument = instrument(entry, 4)?;
    let statistic = Statistic {
        kind: Some(StatisticKind::SessionVolume),
        quantity: entry.size(0),
        ..base(common, (entry.byte(12), b'e', 0), instrument)
    };
    Ok((statistic, Made::Row(Some(instrument))))
}

/// A price of the session.
pub(super) fn session(
    entry: Block<'_>,
    version: u16,
    common: Common,
) -> Result<(Statistic, Made), BadRecord> {
    /// The first version that has a size; in those before it are zeros.
    const SIZE_SINCE: u16 = 9;
    let instrument = instrument(entry, 8)?;
    let (detail, code) = (entry.byte(16), entry.byte(18));
    let size = entry.size(19).filter(|_| version >= SIZE_SINCE);
    let statistic = Statistic {
        kind: kind(code, detail),
        price: entry.price(0)?,
        quantity: size,
        ..base(common, (entry.byte(17), code, detail), instrument)
    };
    Ok((statistic, Made::Row(Some(instrument))))
}

/// What a letter says; of opening prices `detail` says whether they are indicative.
pub(super) fn kind(code: u8, detail: u8) -> Option<StatisticKind> {
    Some(match (code, detail) {
        (b'4', 5) => StatisticKind::IndicativeOpeningPrice,
        (b'4', _) => StatisticKind::OpeningPrice,
        (b'6', _) => StatisticKind::SettlementPrice,
        (b'7', _) => StatisticKind::SessionHigh,
        (b'8', _) => StatisticKind::SessionLow,
        (b'B', _) => StatisticKind::ClearedVolume,
        (b'C', _) => StatisticKind::OpenInterest,
        (b'N', _) => StatisticKind::HighestBid,
        (b'O', _) => StatisticKind::LowestOffer,
        (b'W', _) => StatisticKind::FixingPrice,
        (b'e', _) => StatisticKind::SessionVolume,
        _ => return None,
    })
}

/// A settlement, a fixing, a cleared volume, an open interest.
pub(super) fn daily(entry: Block<'_>, common: Common) -> Result<(Statistic, Made), BadRecord> {
    let instrument = instrument(entry, 12)?;
    let (detail, code) = (entry.byte(22), entry.byte(24));
    let statistic = Statistic {
        kind: kind(code, 0),
        price: entry.price(0)?,
        quantity: entry.size(8),
        reference_time: entry.date(20),
        ..base(common, (entry.byte(23), code, detail), instrument)
    };
    Ok((statistic, Made::Row(Some(instrument))))
}

/// One of the three limits that stand one after the other: the highest price, the lowest, the largest variation.
pub(super) fn limit(
    block: Block<'_>,
    at: usize,
    which: usize,
    (common, instrument): (Common, u32),
) -> Result<(Statistic, Made), BadRecord> {
    let kinds = [Some(StatisticKind::UpperPriceLimit), Some(StatisticKind::LowerPriceLimit), None];
    let price = block.price(at + 8 * which)?;
    let statistic =
        Statistic { kind: kinds[which], price, ..base(common, (0, b'g', which as u8), instrument) };
    let made = if price.is_some() { Made::Row(Some(instrument)) } else { Made::Nothing };
    Ok((statistic, made))
}

/// A state of an instrument, or of all of a group or product.
pub(super) fn status(root: Block<'_>, common: Common) -> Result<(Status, Made), BadRecord> {
    let instrument = root.u32(20).filter(|id| *id != i32::MAX as u32);
    let (group, asset) = (root.text(8, 6)?.unwrap_or_default(), root.text(14, 6)?.unwrap_or_default());
    let trade_date = root.date(24).map(|date| date.to_string());
    let mut text = format!("group {group}, product {asset}");
    if let Some(date) = trade_date {
        text = format!("{text}, trading day {}", &date[..10]);
    }
    let state = root.u8(27);
    let status = Status {
        reason_code: Some(root.byte(28).into()),
        event_code: Some(root.byte(29).into()),
        text: Some(text),
        match_time: common.match_time,
        source_time: common.source_time,
        instrument_id: instrument.map(u64::from),
        ..of_state(state)
    };
    Ok((status, Made::Row(instrument)))
}

/// A state by its number.
pub(super) fn of_state(code: Option<u8>) -> Status {
    let state = match code {
        Some(2) => Some(TradingState::Halted),
        Some(4) => Some(TradingState::Closed),
        Some(15) => Some(TradingState::PriceIndication),
        Some(17) => Some(TradingState::Trading),
        Some(18) => Some(TradingState::NotAvailable),
        Some(21) => Some(TradingState::PreOpen),
        Some(24) => Some(TradingState::PreAuction),
        Some(25) => Some(TradingState::Auction),
        Some(26) => Some(TradingState::PostClose),
        _ => None,
    };
    let trading = state.map(|state| state == TradingState::Trading);
    Status { state, trading, state_code: code.map(u32::from), ..Status::default() }
}
