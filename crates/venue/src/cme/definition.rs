//! Definitions of instruments: facts that all venues have become fields, all others attributes under CME's names.

use super::block::{Block, fixed};
use super::entries::Common;
use super::template::{Group, Kind, Message};
use crate::error::BadRecord;
use tapedb_market::{Attribute, Definition, DefinitionAction, InstrumentKind};
use tapedb_schema::Ascii;

/// How a field is written.
#[derive(Debug, Clone, Copy)]
enum Field {
    U8,
    I8,
    U16,
    U32,
    I32,
    Char,
    Price,
    Date,
    Month,
    Text(usize),
}

use Field::{Char, Date, I8, I32, Month, Price, Text, U8, U16, U32};

type Layout = &'static [(&'static str, usize, Field)];

/// What the roots of all definitions begin with, behind what is not an attribute.
const COMMON: Layout = &[
    ("TotNumReports", 1, U32),
    ("MDSecurityTradingStatus", 14, U8),
    ("ApplID", 15, U16),
    ("MarketSegmentID", 17, U8),
    ("UnderlyingProduct", 18, U8),
];
const FUTURE: Layout = &[
    ("MaturityMonthYear", 71, Month),
    ("Currency", 76, Text(3)),
    ("SettlCurrency", 79, Text(3)),
    ("MatchAlgorithm", 82, Char),
    ("MinTradeVol", 83, U32),
    ("MaxTradeVol", 87, U32),
    ("MinPriceIncrement", 91, Price),
    ("DisplayFactor", 99, Price),
    ("MainFraction", 107, U8),
    ("SubFraction", 108, U8),
    ("PriceDisplayFormat", 109, U8),
    ("UnitOfMeasure", 110, Text(30)),
    ("UnitOfMeasureQty", 140, Price),
    ("TradingReferencePrice", 148, Price),
    ("SettlPriceType", 156, U8),
    ("OpenInterestQty", 157, I32),
    ("ClearedVolume", 161, I32),
    ("HighLimitPrice", 165, Price),
    ("LowLimitPrice", 173, Price),
    ("MaxPriceVariation", 181, Price),
    ("DecayQuantity", 189, I32),
    ("DecayStartDate", 193, Date),
    ("OriginalContractSize", 195, I32),
    ("ContractMultiplier", 199, I32),
    ("ContractMultiplierUnit", 203, I8),
    ("FlowScheduleType", 204, I8),
    ("MinPriceIncrementAmount", 205, Price),
    ("UserDefinedInstrument", 213, Char),
    ("TradingReferenceDate", 214, Date),
];
const OPTION: Layout = &[
    ("PutOrCall", 71, U8),
    ("MaturityMonthYear", 72, Month),
    ("Currency", 77, Text(3)),
    ("StrikePrice", 80, Price),
    ("StrikeCurrency", 88, Text(3)),
    ("SettlCurrency", 91, Text(3)),
    ("MinCabPrice", 94, Price),
    ("MatchAlgorithm", 102, Char),
    ("MinTradeVol", 103, U32),
    ("MaxTradeVol", 107, U32),
    ("MinPriceIncrement", 111, Price),
    ("MinPriceIncrementAmount", 119, Price),
    ("DisplayFactor", 127, Price),
    ("TickRule", 135, I8),
    ("MainFraction", 136, U8),
    ("SubFraction", 137, U8),
    ("PriceDisplayFormat", 138, U8),
    ("UnitOfMeasure", 139, Text(30)),
    ("UnitOfMeasureQty", 169, Price),
    ("TradingReferencePrice", 177, Price),
    ("SettlPriceType", 185, U8),
    ("ClearedVolume", 186, I32),
    ("OpenInterestQty", 190, I32),
    ("LowLimitPrice", 194, Price),
    ("HighLimitPrice", 202, Price),
    ("UserDefinedInstrument", 210, Char),
    ("TradingReferenceDate", 211, Date),
];
const SPREAD: Layout = &[
    ("MaturityMonthYear", 71, Month),
    ("Currency", 76, Text(3)),
    ("SecuritySubType", 79, Text(5)),
    ("UserDefinedInstrument", 84, Char),
    ("MatchAlgorithm", 85, Char),
    ("MinTradeVol", 86, U32),
    ("MaxTradeVol", 90, U32),
    ("MinPriceIncrement", 94, Price),
    ("DisplayFactor", 102, Price),
    ("PriceDisplayFormat", 110, U8),
    ("PriceRatio", 111, Price),
    ("TickRule", 119, I8),
    ("UnitOfMeasure", 120, Text(30)),
    ("TradingReferencePrice", 150, Price),
    ("SettlPriceType", 158, U8),
    ("OpenInterestQty", 159, I32),
    ("ClearedVolume", 163, I32),
    ("HighLimitPrice", 167, Price),
    ("LowLimitPrice", 175, Price),
    ("MaxPriceVariation", 183, Price),
    ("MainFraction", 191, U8),
    ("SubFraction", 192, U8),
    ("TradingReferenceDate", 193, Date),
];
/// Events that are fields of a definition.
const ACTIVATION: u8 = 5;
const LAST_TRADE: u8 = 7;

/// A definition, and the instrument's symbol.
pub(super) fn definition(
    message: &Message<'_>,
    packet: &[u8],
    common: Common,
) -> Result<Definition, BadRecord> {
    let root = message.root;
    let id = root.u32(55).ok_or_else(|| root.bad(55, "a number of an instrument"))?;
    let text = |at, width| root.text(at, width).map(|text| text.map(str::to_string));
    let short = |at, width| root.text(at, width).map(|text| text.and_then(|text| Ascii::new(text).ok()));
    let mut record = Definition {
        action: match root.byte(5) {
            b'A' => Some(DefinitionAction::Add),
            b'M' => Some(DefinitionAction::Modify),
            b'D' => Some(DefinitionAction::Delete),
            _ => None,
        },
        exchange: short(19, 4)?,
        group: text(23, 6)?,
        asset: text(29, 6)?,
        raw_symbol: text(35, 20)?,
        security_type: text(59, 6)?,
        cfi: short(65, 6)?,
        match_time: common.match_time,
        source_time: common.source_time,
        instrument_id: Some(id.into()),
        ..Definition::default()
    };
    let layout = match message.kind {
        Kind::Option => OPTION,
        Kind::Spread => SPREAD,
        _ => FUTURE,
    };
    record.kind = match (message.kind, root.byte(71)) {
        (Kind::Option, 0) => Some(InstrumentKind::Put),
        (Kind::Option, 1) => Some(InstrumentKind::Call),
        (Kind::Future, _) => Some(InstrumentKind::Future),
        _ => None,
    };
    for &(name, at, field) in COMMON.iter().chain(layout) {
        if let Some(value) = read(root, at, field)?
            && !set(&mut record, name, at, root)?
        {
            add(&mut record, name, value);
        }
    }
    for (index, group) in message.all_groups(packet)?.iter().enumerate() {
        add_group(&mut record, message.kind, index, group)?;
    }
    Ok(record)
}

/// Sets the field for a value; `false` if there is none, and it becomes an attribute.
fn set(record: &mut Definition, name: &str, at: usize, root: Block<'_>) -> Result<bool, BadRecord> {
    // Limits may have more digits than a decimal: only these fields have to fit.
    let price = |block: Block<'_>| block.i64(at).and_then(|value| fixed(value, block.decimals));
    let short = |width| root.text(at, width).map(|text| text.and_then(|text| Ascii::new(text).ok()));
    match name {
        "Currency" => record.currency = short(3)?,
        "SettlCurrency" => record.settlement_currency = short(3)?,
        "MinPriceIncrement" => record.tick_size = price(root),
        "DisplayFactor" => record.display_factor = price(root),
        "UnitOfMeasureQty" => record.contract_size = price(root),
        "UnitOfMeasure" => record.contract_unit = root.text(at, 30)?.map(str::to_string),
        "StrikePrice" => record.strike_price = price(root),
        "ApplID" => {
            record.channel_id = root.u16(at);
            return Ok(record.channel_id.is_some());
        }
        _ => return Ok(false),
    }
    Ok(match name {
        "Currency" => record.currency.is_some(),
        "SettlCurrency" => record.settlement_currency.is_some(),
        "MinPriceIncrement" => record.tick_size.is_some(),
        "DisplayFactor" => record.display_factor.is_some(),
        "UnitOfMeasureQty" => record.contract_size.is_some(),
        "StrikePrice" => record.strike_price.is_some(),
        _ => true,
    })
}

/// A value as text; `None` if it is null.
fn read(block: Block<'_>, at: usize, field: Field) -> Result<Option<String>, BadRecord> {
    Ok(match field {
        U8 => block.u8(at).map(|value| value.to_string()),
        I8 => block.i8(at).map(|value| value.to_string()),
        U16 => block.u16(at).map(|value| value.to_string()),
        U32 => block.u32(at).map(|value| value.to_string()),
        I32 => block.i32(at).map(|value| value.to_string()),
        Char => Some(block.byte(at)).filter(|byte| *byte != 0).map(|byte| byte.escape_ascii().to_string()),
        Price => block.i64(at).map(|value| price_text(value, block.decimals)),
        Date => block.date(at).map(|date| date.to_string()[..10].to_string()),
        Month => month(block, at),
        Text(width) => block.text(at, width)?.map(str::to_string),
    })
}

/// Year and month, and day and week where they are stated.
fn month(block: Block<'_>, at: usize) -> Option<String> {
    let mut text = format!("{:04}-{:02}", block.u16(at)?, block.u8(at + 2)?);
    if let Some(day) = block.u8(at + 3) {
        text = format!("{text}-{day:02}");
    }
    if let Some(week) = block.u8(at + 4) {
        text = format!("{text} w{week}");
    }
    Some(text)
}

/// A fixed-point number, also of more than 16 digits.
fn price_text(value: i64, decimals: u32) -> String {
    if let Some(price) = fixed(value, decimals) {
        return price.to_string();
    }
    let (sign, digits, unit) = (if value < 0 { "-" } else { "" }, value.unsigned_abs(), 10u64.pow(decimals));
    format!("{sign}{}.{:0width$}", digits / unit, digits % unit, width = decimals as usize)
}

/// The groups in their order: events, feed types, attributes, lot types; of options underlyings and related instruments, of spreads legs.
fn add_group(record: &mut Definition, kind: Kind, index: usize, group: &Group<'_>) -> Result<(), BadRecord> {
    for entry in (0..group.count).map(|at| group.entry(at)) {
        match (index, kind) {
            (0, _) => match (entry.byte(0), entry.time(1)?) {
                (ACTIVATION, time) => record.activation = time,
                (LAST_TRADE, time) => record.expiration = time,
                (other, time) => {
                    let time = time.map(|time| time.to_string()).unwrap_or_default();
                    add(record, &format!("EventType {other}"), time);
                }
            },
            (1, _) => {
                let feed = entry.text(0, 3)?.unwrap_or_default();
                add(record, &format!("MarketDepth {feed}"), entry.byte(3).to_string());
            }
            (2, _) => add(record, "InstAttribValue", entry.u32(0).unwrap_or(0).to_string()),
            (3, _) => {
                let size = entry.i32(1).map(|size| price_text(size.into(), 4)).unwrap_or_default();
                add(record, &format!("MinLotSize {}", entry.byte(0)), size);
            }
            (4, Kind::Option) => {
                record.underlying = entry.text(4, 20)?.map(str::to_string);
                let id = entry.u32(0).map(|id| id.to_string()).unwrap_or_default();
                add(record, "UnderlyingSecurityID", id);
            }
            (5, Kind::Option) => {
                let id = entry.u32(0).map(|id| id.to_string()).unwrap_or_default();
                let symbol = entry.text(4, 20)?.unwrap_or_default();
                add(record, "RelatedSecurityID", format!("{id} {symbol}").trim_end().to_string());
            }
            (4, Kind::Spread) => {
                let id = entry.u32(0).map(|id| id.to_string()).unwrap_or_default();
                let side = ["", "buy", "sell"].get(usize::from(entry.byte(4))).copied().unwrap_or("");
                let mut leg = format!("{id} {side} {}", entry.byte(5) as i8);
                if let Some(price) = entry.i64(6) {
                    leg = format!("{leg} at {}", price_text(price, entry.decimals));
                }
                if let Some(delta) = entry.i32(14) {
                    leg = format!("{leg} delta {}", price_text(delta.into(), 4));
                }
                add(record, "Leg", leg);
            }
            _ => {}
        }
    }
    Ok(())
}

fn add(record: &mut Definition, name: &str, value: String) {
    record.attributes.push(Attribute { name: name.into(), value });
}
