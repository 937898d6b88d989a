//! Status, statistics, imbalances, symbol mappings, notices of the vendor.

use super::bytes::Fields;
use super::head::Head;
use super::prices::source_time;
use crate::error::BadRecord;
use crate::record::AnyRecord;
use tapedb_market::{
    Imbalance, Notice, NoticeKind, Statistic, StatisticKind, Status, SymbolMapping, TradingState,
};
use tapedb_schema::Decimal64;

/// A state of trading.
pub(super) fn status(head: &Head<'_>, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let fields = head.fields;
    let action = fields.u16(24);
    *out = Status {
        state: state(action),
        state_code: Some(u32::from(action)),
        reason_code: Some(u32::from(fields.u16(26))),
        event_code: Some(u32::from(fields.u16(28))),
        trading: yes_or_no(fields, 30)?,
        quoting: yes_or_no(fields, 31)?,
        short_sale_restricted: yes_or_no(fields, 32)?,
        match_time: head.event_time()?,
        vendor_time: head.vendor_time,
        instrument_id: Some(u64::from(head.instrument_id)),
        publisher_id: Some(head.publisher_id),
        ..Status::default()
    }
    .into();
    Ok(())
}

fn state(action: u16) -> Option<TradingState> {
    Some(match action {
        1 => TradingState::PreOpen,
        2 => TradingState::PreAuction,
        3 => TradingState::Quoting,
        4 => TradingState::Auction,
        5 => TradingState::Rotation,
        6 => TradingState::PriceIndication,
        7 => TradingState::Trading,
        8 => TradingState::Halted,
        9 => TradingState::Paused,
        10 => TradingState::Suspended,
        11 => TradingState::PreClose,
        12 => TradingState::Closed,
        13 => TradingState::PostClose,
        14 => TradingState::ShortSaleChange,
        15 => TradingState::NotAvailable,
        _ => return None,
    })
}

fn yes_or_no(fields: Fields<'_>, at: usize) -> Result<Option<bool>, BadRecord> {
    match fields.u8(at) {
        b'Y' => Ok(Some(true)),
        b'N' => Ok(Some(false)),
        b'~' => Ok(None),
        _ => Err(BadRecord { offset: at, expected: "Y, N or ~" }),
    }
}

/// A figure about an instrument; since version 3 with a quantity of 64 bits.
pub(super) fn statistic(head: &Head<'_>, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let fields = head.fields;
    let is_wide = fields.0.len() == 80;
    let (quantity, at) = match is_wide {
        true => (Some(fields.i64(40)).filter(|quantity| *quantity != i64::MAX), 48),
        false => (Some(fields.i32(40)).filter(|quantity| *quantity != i32::MAX).map(i64::from), 44),
    };
    let quantity = quantity.map(|quantity| Decimal64::from_parts(quantity, 0)).transpose();
    let code = fields.u16(at + 8);
    *out = Statistic {
        kind: statistic_kind(code),
        code: Some(u32::from(code)),
        price: fields.price(32)?,
        quantity: quantity
            .map_err(|_| BadRecord { offset: 40, expected: "a quantity of at most 16 digits" })?,
        reference_time: fields.time(24)?,
        withdrawn: match fields.u8(at + 12) {
            1 => false,
            2 => true,
            _ => return Err(BadRecord { offset: at + 12, expected: "an update action 1 or 2" }),
        },
        flags: Some(u32::from(fields.u8(at + 13))),
        sequence: Some(u64::from(fields.u32(at))),
        match_time: head.event_time()?,
        source_time: source_time(fields, 16, at + 4)?,
        vendor_time: head.vendor_time,
        instrument_id: Some(u64::from(head.instrument_id)),
        publisher_id: Some(head.publisher_id),
        channel_id: Some(fields.u16(at + 10)),
        exchange: None,
    }
    .into();
    Ok(())
}

fn statistic_kind(code: u16) -> Option<StatisticKind> {
    Some(match code {
        1 => StatisticKind::OpeningPrice,
        2 => StatisticKind::IndicativeOpeningPrice,
        3 => StatisticKind::SettlementPrice,
        4 => StatisticKind::SessionLow,
        5 => StatisticKind::SessionHigh,
        6 => StatisticKind::ClearedVolume,
        7 => StatisticKind::LowestOffer,
        8 => StatisticKind::HighestBid,
        9 => StatisticKind::OpenInterest,
        10 => StatisticKind::FixingPrice,
        11 => StatisticKind::ClosePrice,
        12 => StatisticKind::NetChange,
        13 => StatisticKind::Vwap,
        14 => StatisticKind::Volatility,
        15 => StatisticKind::Delta,
        16 => StatisticKind::AuctionPrice,
        17 => StatisticKind::UpperPriceLimit,
        18 => StatisticKind::LowerPriceLimit,
        19 => StatisticKind::BlockVolume,
        _ => return None,
    })
}

/// An imbalance of an auction.
pub(super) fn imbalance(head: &Head<'_>, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let fields = head.fields;
    *out = Imbalance {
        reference_price: fields.price(24)?,
        auction_time: fields.time(32)?,
        book_clearing_price: fields.price(40)?,
        auction_clearing_price: fields.price(48)?,
        short_sale_price: fields.price(56)?,
        match_price: fields.price(64)?,
        upper_collar: fields.price(72)?,
        lower_collar: fields.price(80)?,
        paired_size: fields.size(88),
        imbalance_size: fields.size(92),
        market_imbalance_size: fields.size(96),
        unpaired_size: fields.size(100),
        side: fields.side(105)?,
        unpaired_side: fields.side(109)?,
        auction_type: fields.character(104)?,
        auction_status: Some(fields.u8(106)),
        freeze_status: Some(fields.u8(107)),
        extensions: Some(fields.u8(108)),
        significance: fields.character(110)?,
        match_time: head.event_time()?,
        vendor_time: head.vendor_time,
        instrument_id: Some(u64::from(head.instrument_id)),
        publisher_id: Some(head.publisher_id),
        ..Imbalance::default()
    }
    .into();
    Ok(())
}

/// A symbol that stands for an instrument; version 1 has shorter symbols and does not name their kinds.
pub(super) fn symbol_mapping(head: &Head<'_>, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let fields = head.fields;
    let is_first = fields.0.len() == 80;
    let (input, output, width, start) = if is_first { (16, 38, 22, 64) } else { (17, 89, 71, 160) };
    let kind = |at| (!is_first).then(|| fields.u8(at)).filter(|kind| *kind != u8::MAX);
    *out = SymbolMapping {
        symbol_in: fields.text(input, width)?.to_string(),
        kind_in: kind(16),
        symbol_out: fields.text(output, width)?.to_string(),
        kind_out: kind(88),
        start: fields.time(start)?,
        end: fields.time(start + 8)?,
        vendor_time: head.vendor_time,
        instrument_id: Some(u64::from(head.instrument_id)),
        publisher_id: Some(head.publisher_id),
    }
    .into();
    Ok(())
}

/// An error of the vendor's service.
pub(super) fn error(head: &Head<'_>, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let fields = head.fields;
    let is_first = fields.0.len() == 80;
    let text = fields.text(16, if is_first { 64 } else { 302 })?;
    let byte = |at: usize| (!is_first).then(|| fields.u8(at)).filter(|byte| *byte != u8::MAX);
    *out = notice(head, NoticeKind::Error, text, byte(318), byte(319)).into();
    Ok(())
}

/// A message of the vendor's service.
pub(super) fn system(head: &Head<'_>, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let fields = head.fields;
    let is_first = fields.0.len() == 80;
    let text = fields.text(16, if is_first { 64 } else { 303 })?;
    let code = (!is_first).then(|| fields.u8(319)).filter(|code| *code != u8::MAX);
    *out = notice(head, NoticeKind::System, text, code, None).into();
    Ok(())
}

fn notice(head: &Head<'_>, kind: NoticeKind, text: &str, code: Option<u8>, last: Option<u8>) -> Notice {
    Notice {
        kind,
        code,
        last,
        text: text.to_string(),
        vendor_time: head.vendor_time,
        instrument_id: Some(u64::from(head.instrument_id)),
        publisher_id: Some(head.publisher_id),
    }
}
