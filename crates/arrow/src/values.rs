//! Makes the values of a message's fields out of cells: exactly, or not at all.

use crate::cell::{Cell, Reader};
use crate::tree::{Alternative, Content, Node, TYPE};
use crate::types::Leaf;
use tapedb_codec::batch::MAX_MESSAGE_BYTES;
use tapedb_codec::dynamic::{Layouts, RecordValue, Value};
use tapedb_codec::quoted;
use tapedb_schema::{
    Ascii, Decimal64, Field, FieldType, MAX_NAME_BYTES, RecordType, Scalar, Schema, TimeOfDay, Timestamp,
};

/// Why a value does not fit: the path below the column, and the reason.
#[derive(Debug)]
pub(crate) struct Misfit {
    pub path: String,
    pub what: String,
}

impl Misfit {
    fn new(what: impl Into<String>) -> Self {
        Self { path: String::new(), what: what.into() }
    }

    fn below(mut self, name: &str) -> Self {
        let dot = if name.starts_with('[') { "" } else { "." };
        self.path = format!("{dot}{name}{}", self.path);
        self
    }
}

/// The values of one row in the making.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    layouts: &'a Layouts,
    /// What is left of the bytes of a message, of which each item and each byte of a text takes at least one. Rows may share
    /// what they point to, so that few bytes stand for many values.
    bytes_left: usize,
}

impl<'a> Row<'a> {
    pub fn new(layouts: &'a Layouts) -> Self {
        Self { layouts, bytes_left: MAX_MESSAGE_BYTES }
    }

    fn take(&mut self, bytes: usize) -> Result<(), Misfit> {
        let left = self.bytes_left.checked_sub(bytes);
        let too_large = || Misfit::new(format!("the row is over the limit of {MAX_MESSAGE_BYTES} bytes"));
        self.bytes_left = left.ok_or_else(too_large)?;
        Ok(())
    }
}

/// The value of a node at a row of an array.
///
/// # Errors
/// When it does not fit.
pub(crate) fn value(making: &mut Row<'_>, node: &Node, reader: &Reader, row: usize) -> Result<Value, Misfit> {
    let cell = reader.cell(row);
    if cell == Cell::Null {
        let is_nullable = node.presence.is_some();
        return if is_nullable { Ok(Value::Null) } else { Err(Misfit::new("null in a field that has none")) };
    }
    match (&node.content, &cell) {
        (_, Cell::Items(range)) => making.take(range.len())?,
        (Content::Leaf(Leaf::String, _), Cell::Text(text)) => making.take(text.len())?,
        (_, Cell::Bytes(bytes)) => making.take(bytes.len())?,
        _ => {}
    }
    match (&node.content, cell) {
        (Content::Leaf(leaf, _), cell) => leaf_value(leaf, &cell).map_err(Misfit::new),
        (Content::Whole(ty, _), Cell::Bytes(bytes)) => whole(making.layouts, ty, bytes),
        (Content::List(_, item), Cell::Items(range)) => {
            let Some(items) = reader.items() else { return Err(Misfit::new("not a list")) };
            let item = |(index, row)| {
                value(making, item, items, row).map_err(|misfit| misfit.below(&format!("[{index}]")))
            };
            Ok(Value::Array(range.enumerate().map(item).collect::<Result<_, _>>()?))
        }
        (Content::Struct(type_id, nodes), Cell::Record) => record(making, *type_id, nodes, reader, row),
        (Content::Union(_, alternatives), Cell::Record) => union(making, alternatives, reader, row),
        (Content::Whole(..), cell) => Err(wanted("the bytes of its content", &cell)),
        (Content::List(..), cell) => Err(wanted("a list", &cell)),
        (_, cell) => Err(wanted("a struct", &cell)),
    }
}

fn wanted(what: &str, cell: &Cell<'_>) -> Misfit {
    Misfit::new(format!("{what} is needed, and there is {}", kind(cell)))
}

fn record(
    making: &mut Row<'_>,
    type_id: u16,
    nodes: &[Node],
    reader: &Reader,
    row: usize,
) -> Result<Value, Misfit> {
    if let Some((unknown, _)) =
        reader.children.iter().find(|(name, _)| !nodes.iter().any(|node| node.name == *name))
    {
        return Err(Misfit::new("the record has no such field").below(unknown));
    }
    let field = |node: &Node| match reader.child(&node.name) {
        Some(child) => value(making, node, child, row).map_err(|misfit| misfit.below(&node.name)),
        None => Err(Misfit::new("the struct has no such field").below(&node.name)),
    };
    let fields = nodes.iter().map(field).collect::<Result<_, _>>()?;
    Ok(Value::Record(RecordValue { type_id, fields }))
}

/// A polymorphic record: a text `type`, and a struct for each alternative.
fn union(
    making: &mut Row<'_>,
    alternatives: &[Alternative],
    reader: &Reader,
    row: usize,
) -> Result<Value, Misfit> {
    let is_tag = |(_, (name, child)): &(usize, &(String, Reader))| name == TYPE && !child.is_struct();
    let Some((at, (_, tag))) = reader.children.iter().enumerate().find(is_tag) else {
        return Err(Misfit::new("a text that names the record type is needed").below(TYPE));
    };
    let Cell::Text(name) = tag.cell(row) else {
        return Err(Misfit::new("the name of a record type is needed").below(TYPE));
    };
    let Some(alternative) = alternatives.iter().find(|alternative| alternative.name == name) else {
        return Err(Misfit::new(format!("{} is none of the field's record types", quoted(name))).below(TYPE));
    };
    let others = reader.children.iter().enumerate().filter(|(index, _)| *index != at);
    let mut found = None;
    for (_, (other, child)) in others {
        if other == name {
            found = Some(child);
        } else if child.cell(row) != Cell::Null {
            let what = format!("not null, although the record is a {name}");
            return Err(Misfit::new(what).below(other));
        }
    }
    let misfit = |misfit: Misfit| misfit.below(name);
    let child = found.filter(|child| child.cell(row) == Cell::Record);
    let child = child.ok_or_else(|| misfit(Misfit::new("null, although the record is of this type")))?;
    record(making, alternative.type_id, &alternative.nodes, child, row).map_err(misfit)
}

/// A record or an array in one piece: the content of a message with nothing but this field.
fn whole(layouts: &Layouts, ty: &FieldType, content: &[u8]) -> Result<Value, Misfit> {
    let misfit = |error: &dyn std::fmt::Display| Misfit::new(format!("not such a content: {error}"));
    let layouts = single(layouts.schema(), ty).map_err(|error| misfit(&error))?;
    let type_id = layouts.records().len() as u16 - 1;
    let mut body = ((content.len() as u64 + 4) as u32).to_le_bytes().to_vec();
    body.extend_from_slice(content);
    layouts.check(type_id, &body).map_err(|error| misfit(&error))?;
    let mut record = layouts.decode(type_id, &body).map_err(|error| misfit(&error))?;
    Ok(record.fields.swap_remove(0))
}

/// The schema with one more message type, which has only a field of this type.
fn single(schema: &Schema, ty: &FieldType) -> Result<Layouts, tapedb_schema::SchemaError> {
    let is_free = |name: &String| schema.record(name).is_none() && schema.enumeration(name).is_none();
    let name = (0..MAX_NAME_BYTES).map(|length| format!("W{}", "_".repeat(length))).find(is_free);
    let field = Field {
        name: "content".into(),
        ty: ty.clone(),
        nullable: false,
        default: None,
        aliases: Vec::new(),
        doc: String::new(),
    };
    let mut schema = schema.clone();
    schema.records.push(RecordType {
        name: name.unwrap_or_default(),
        message: true,
        fields: vec![field],
        doc: String::new(),
    });
    Layouts::new(schema)
}

fn kind(cell: &Cell<'_>) -> &'static str {
    match cell {
        Cell::Null => "null",
        Cell::Bool(_) => "a bool",
        Cell::Int(_) => "an integer",
        Cell::F32(_) | Cell::F64(_) => "a float",
        Cell::Decimal(..) | Cell::Decimal64(_) => "a decimal",
        Cell::Timestamp(_) => "a timestamp",
        Cell::TimeOfDay(_) => "a time of day",
        Cell::Text(_) => "a text",
        Cell::Bytes(_) => "bytes",
        Cell::Items(_) => "a list",
        Cell::Record => "a struct",
        Cell::Overflow => "a time beyond the range of nanoseconds",
    }
}

fn leaf_value(leaf: &Leaf, cell: &Cell<'_>) -> Result<Value, String> {
    match (leaf, cell) {
        (_, Cell::Overflow) => Err(kind(cell).into()),
        (Leaf::Scalar(scalar), cell) => scalar_value(*scalar, cell),
        (Leaf::String, Cell::Text(text)) => Ok(Value::Text((*text).into())),
        (Leaf::Binary, Cell::Bytes(bytes)) => Ok(Value::Binary((*bytes).into())),
        (Leaf::Enum(symbols), Cell::Text(text)) => {
            let ordinal = symbols.ordinals.get(*text);
            let unknown = || format!("{} is not a symbol of enum {}", quoted(text), symbols.name);
            ordinal.map(|ordinal| Value::Enum(*ordinal)).ok_or_else(unknown)
        }
        (Leaf::Binary, cell) => Err(unfit(&"binary", cell)),
        (_, cell) => Err(unfit(&"a text", cell)),
    }
}

fn scalar_value(scalar: Scalar, cell: &Cell<'_>) -> Result<Value, String> {
    let signed = |min: i64, max: i64| Ok(Value::Int(integer(cell, min.into(), max.into())? as i64));
    let unsigned = |max: u64| Ok(Value::UInt(integer(cell, 0, max.into())? as u64));
    match (scalar, cell) {
        (Scalar::Bool, Cell::Bool(value)) => Ok(Value::Bool(*value)),
        (Scalar::I8, _) => signed(i8::MIN.into(), i8::MAX.into()),
        (Scalar::I16, _) => signed(i16::MIN.into(), i16::MAX.into()),
        (Scalar::I32, _) => signed(i32::MIN.into(), i32::MAX.into()),
        (Scalar::I64, _) => signed(i64::MIN, i64::MAX),
        (Scalar::U8, _) => unsigned(u8::MAX.into()),
        (Scalar::U16, _) => unsigned(u16::MAX.into()),
        (Scalar::U32, _) => unsigned(u32::MAX.into()),
        (Scalar::U64, _) => unsigned(u64::MAX),
        (Scalar::F32, _) => Ok(Value::F32(f32_of(cell)?)),
        (Scalar::F64, _) => Ok(Value::F64(f64_of(cell)?)),
        (Scalar::Decimal64, _) => Ok(Value::Decimal(decimal(cell)?)),
        (Scalar::Decimal(scale), _) => Ok(Value::Scaled(scaled(cell, scale)?, scale)),
        (Scalar::Timestamp, Cell::Timestamp(nanos)) => Ok(Value::Timestamp(Timestamp(*nanos))),
        (Scalar::TimeOfDay, Cell::TimeOfDay(nanos)) => {
            let time = TimeOfDay::from_nanos(*nanos);
            time.map(Value::TimeOfDay).ok_or_else(|| format!("{nanos} ns is not a time of day"))
        }
        (Scalar::Char, Cell::Text(text)) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(only), None) => Ok(Value::Char(only)),
                _ => Err(format!("{} is not one character", quoted(text))),
            }
        }
        (Scalar::Ascii(width), Cell::Text(text)) => {
            if text.len() > usize::from(width) {
                return Err(format!("{} is longer than ascii({width})", quoted(text)));
            }
            Ascii::new(text).map(Value::Ascii).map_err(|error| error.to_string())
        }
        (scalar, cell) => Err(unfit(&scalar, cell)),
    }
}

fn unfit(wanted: &dyn std::fmt::Display, cell: &Cell<'_>) -> String {
    format!("{wanted} is needed, and there is {}", kind(cell))
}

fn integer(cell: &Cell<'_>, min: i128, max: i128) -> Result<i128, String> {
    let whole = |value: f64| {
        let is_whole = value.fract() == 0.0 && value.abs() < 1e30;
        is_whole.then_some(value as i128).ok_or_else(|| format!("{value} is not a whole number in range"))
    };
    let value = match cell {
        Cell::Int(value) => *value,
        Cell::F32(value) => whole((*value).into())?,
        Cell::F64(value) => whole(*value)?,
        Cell::Decimal(units, scale) => rescale(*units, *scale, 0)
            .ok_or_else(|| format!("{units} units of 10^-{scale} is not a whole number"))?,
        _ => return Err(unfit(&"an integer", cell)),
    };
    if (min..=max).contains(&value) { Ok(value) } else { Err(format!("{value} is outside {min} to {max}")) }
}

fn f64_of(cell: &Cell<'_>) -> Result<f64, String> {
    match cell {
        Cell::F64(value) => Ok(*value),
        Cell::F32(value) => Ok((*value).into()),
        Cell::Int(value) => {
            let float = *value as f64;
            // A float that is not smaller than 2^127 would be cut.
            let is_exact = float.abs() < 1e38 && float as i128 == *value;
            is_exact.then_some(float).ok_or_else(|| format!("{value} is not exact as a float"))
        }
        Cell::Decimal(..) | Cell::Decimal64(_) => {
            let decimal = decimal(cell)?;
            let float = decimal.to_f64();
            let is_same = Decimal64::from_f64(float).numeric_eq(&decimal);
            is_same.then_some(float).ok_or_else(|| format!("{decimal} is not exact as a float"))
        }
        _ => Err(unfit(&"a float", cell)),
    }
}

fn f32_of(cell: &Cell<'_>) -> Result<f32, String> {
    if let Cell::F32(value) = cell {
        return Ok(*value);
    }
    let wide = f64_of(cell)?;
    let narrow = wide as f32;
    let is_same = f64::from(narrow) == wide || wide.is_nan();
    is_same.then_some(narrow).ok_or_else(|| format!("{wide} is not exact as a 32-bit float"))
}

/// The decimal of a cell. Floats are the shortest decimal that reads back as them: 0.1 is 0.1.
fn decimal(cell: &Cell<'_>) -> Result<Decimal64, String> {
    match cell {
        Cell::Decimal64(bits) => {
            let decimal = Decimal64::from_bits(*bits);
            let is_right = decimal.is_canonical();
            is_right.then_some(decimal).ok_or_else(|| format!("{bits:#x} are not the bits of a decimal64"))
        }
        Cell::Int(value) => of_units(*value, 0),
        Cell::Decimal(units, scale) => of_units(*units, *scale),
        Cell::F64(value) => {
            let decimal = Decimal64::from_f64(*value);
            let is_same = value.is_finite() && decimal.to_f64() == *value;
            is_same.then_some(decimal).ok_or_else(|| format!("{value} is not exact as a decimal"))
        }
        Cell::F32(value) => {
            let decimal = Decimal64::parse_bytes(format!("{value:e}").as_bytes());
            let decimal =
                decimal.ok().filter(|decimal| value.is_finite() && decimal.to_f64() as f32 == *value);
            decimal.ok_or_else(|| format!("{value} is not exact as a decimal"))
        }
        _ => Err(unfit(&"a decimal", cell)),
    }
}

fn of_units(mut units: i128, mut scale: i8) -> Result<Decimal64, String> {
    let inexact = |units: i128, scale: i8| format!("{units} units of 10^-{scale} have more than 16 digits");
    while i64::try_from(units).is_err() && units % 10 == 0 && scale > i8::MIN {
        (units, scale) = (units / 10, scale - 1);
    }
    let short = i64::try_from(units).map_err(|_| inexact(units, scale))?;
    Decimal64::from_parts(short, -i32::from(scale)).map_err(|error| error.to_string())
}

fn scaled(cell: &Cell<'_>, scale: u8) -> Result<i64, String> {
    let found = match cell {
        Cell::Int(value) => rescale(*value, 0, scale as i8),
        Cell::Decimal(units, from) => rescale(*units, *from, scale as i8),
        _ => return decimal(cell)?.to_scaled(scale).map_err(|error| error.to_string()),
    };
    let found = found.and_then(|units| i64::try_from(units).ok());
    found.ok_or_else(|| format!("the value is not exact in decimal(18,{scale})"))
}

/// The same number in units of another scale, if it is a whole number of them.
fn rescale(units: i128, from: i8, to: i8) -> Option<i128> {
    if units == 0 {
        return Some(0);
    }
    let shift = i32::from(to) - i32::from(from);
    let power = 10i128.checked_pow(shift.unsigned_abs())?;
    if shift >= 0 { units.checked_mul(power) } else { (units % power == 0).then_some(units / power) }
}
