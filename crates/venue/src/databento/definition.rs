//! Instrument definitions: facts that all vendors have become fields, all others attributes under the vendor's names.

use super::bytes::{Fields, fixed};
use super::head::Head;
use super::layouts::Layout;
use crate::error::BadRecord;
use crate::record::AnyRecord;
use tapedb_market::{Attribute, Definition, DefinitionAction, InstrumentKind};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// How a field is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    /// A fixed-point number.
    Price,
    /// A time.
    Time,
    /// One character.
    Char,
    /// A text of this width.
    Text(usize),
}

/// The value of a field; undefined ones have none.
enum Value<'a> {
    Price(Decimal64),
    Time(Timestamp),
    Char(u8),
    Text(&'a str),
    Number(String),
}

/// An instrument's definition.
pub(super) fn definition(head: &Head<'_>, layout: &Layout, out: &mut AnyRecord) -> Result<(), BadRecord> {
    let mut record = Definition {
        match_time: head.event_time()?,
        vendor_time: head.vendor_time,
        instrument_id: Some(u64::from(head.instrument_id)),
        publisher_id: Some(head.publisher_id),
        ..Definition::default()
    };
    for &(name, offset, kind) in layout {
        if name == "channel_id" {
            record.channel_id = Some(head.fields.u16(offset));
        } else if let Some(value) = read(head.fields, offset, kind)?
            && !set(&mut record, name, &value)
        {
            record.attributes.push(Attribute { name: name.into(), value: value.text() });
        }
    }
    *out = record.into();
    Ok(())
}

/// Sets the field for a value; `false` if there is none, and it becomes an attribute.
fn set(record: &mut Definition, name: &str, value: &Value<'_>) -> bool {
    match (name, value) {
        ("raw_symbol", Value::Text(text)) => record.raw_symbol = Some((*text).into()),
        ("underlying", Value::Text(text)) => record.underlying = Some((*text).into()),
        ("asset", Value::Text(text)) => record.asset = Some((*text).into()),
        ("group", Value::Text(text)) => record.group = Some((*text).into()),
        ("security_type", Value::Text(text)) => record.security_type = Some((*text).into()),
        ("unit_of_measure", Value::Text(text)) => record.contract_unit = Some((*text).into()),
        ("cfi", Value::Text(text)) => return short(text, &mut record.cfi),
        ("currency", Value::Text(text)) => return short(text, &mut record.currency),
        ("settl_currency", Value::Text(text)) => return short(text, &mut record.settlement_currency),
        ("exchange", Value::Text(text)) => return short(text, &mut record.exchange),
        ("min_price_increment", Value::Price(price)) => record.tick_size = Some(*price),
        ("display_factor", Value::Price(price)) => record.display_factor = Some(*price),
        ("unit_of_measure_qty", Value::Price(price)) => record.contract_size = Some(*price),
        ("strike_price", Value::Price(price)) => record.strike_price = Some(*price),
        ("activation", Value::Time(time)) => record.activation = Some(*time),
        ("expiration", Value::Time(time)) => record.expiration = Some(*time),
        ("security_update_action", Value::Char(byte)) => {
            record.action = action(*byte);
            return record.action.is_some();
        }
        ("instrument_class", Value::Char(byte)) => {
            record.kind = kind(*byte);
            return record.kind.is_some();
        }
        _ => return false,
    }
    true
}

/// A code of at most eight ASCII characters.
fn short(text: &str, field: &mut Option<Ascii<8>>) -> bool {
    *field = Ascii::new(text).ok();
    field.is_some()
}

fn action(byte: u8) -> Option<DefinitionAction> {
    Some(match byte {
        b'A' => DefinitionAction::Add,
        b'M' => DefinitionAction::Modify,
        b'D' => DefinitionAction::Delete,
        _ => return None,
    })
}

fn kind(byte: u8) -> Option<InstrumentKind> {
    Some(match byte {
        b'B' => InstrumentKind::Bond,
        b'C' => InstrumentKind::Call,
        b'F' => InstrumentKind::Future,
        b'I' => InstrumentKind::Index,
        b'K' => InstrumentKind::Stock,
        b'M' => InstrumentKind::MixedSpread,
        b'P' => InstrumentKind::Put,
        b'S' => InstrumentKind::FutureSpread,
        b'T' => InstrumentKind::OptionSpread,
        b'X' => InstrumentKind::Spot,
        b'Y' => InstrumentKind::Commodity,
        _ => return None,
    })
}

/// A field's value; `None` if it is undefined: the highest number of its kind, an empty text, a zero for a character.
fn read(fields: Fields<'_>, at: usize, kind: Kind) -> Result<Option<Value<'_>>, BadRecord> {
    let number =
        |number: i64, undefined: i64| (number != undefined).then(|| Value::Number(number.to_string()));
    Ok(match kind {
        Kind::U8 => number(i64::from(fields.u8(at)), i64::from(u8::MAX)),
        Kind::I8 => number(i64::from(fields.u8(at) as i8), i64::from(i8::MAX)),
        Kind::U16 => number(i64::from(fields.u16(at)), i64::from(u16::MAX)),
        Kind::I16 => number(i64::from(fields.u16(at) as i16), i64::from(i16::MAX)),
        Kind::U32 => number(i64::from(fields.u32(at)), i64::from(u32::MAX)),
        Kind::I32 => number(i64::from(fields.i32(at)), i64::from(i32::MAX)),
        Kind::U64 => {
            Some(fields.u64(at)).filter(|value| *value != u64::MAX).map(|n| Value::Number(n.to_string()))
        }
        // A limit of a price may have more digits than a price can: it is kept as text.
        Kind::Price => match fields.i64(at) {
            i64::MAX => None,
            value => Some(fixed(value).map_or_else(|| Value::Number(nanos_text(value)), Value::Price)),
        },
        Kind::Time => fields.time(at)?.map(Value::Time),
        Kind::Char => Some(fields.u8(at)).filter(|byte| *byte != 0).map(Value::Char),
        Kind::Text(width) => Some(fields.text(at, width)?).filter(|text| !text.is_empty()).map(Value::Text),
    })
}

/// A fixed-point number of more than 16 digits.
fn nanos_text(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let digits = value.unsigned_abs();
    format!("{sign}{}.{:09}", digits / 1_000_000_000, digits % 1_000_000_000)
}

impl Value<'_> {
    fn text(&self) -> String {
        match self {
            Self::Price(price) => price.to_string(),
            Self::Time(time) => time.to_string(),
            Self::Char(byte) => byte.escape_ascii().to_string(),
            Self::Text(text) => (*text).to_string(),
            Self::Number(text) => text.clone(),
        }
    }
}
