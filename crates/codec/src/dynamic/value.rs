//! Owned values of any type.

use super::ValueRef;
use tapedb_schema::{Ascii, Decimal64, TimeOfDay, Timestamp};

/// A value of any field type. Which variant a field takes is fixed by its type; [`Value::Null`] only where nullable.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// `bool`.
    Bool(bool),
    /// `i8` to `i64`.
    Int(i64),
    /// `u8` to `u64`.
    UInt(u64),
    /// `f32`.
    F32(f32),
    /// `f64`.
    F64(f64),
    /// `decimal64`.
    Decimal(Decimal64),
    /// `decimal(18,s)`: units of 10^-s, and s.
    Scaled(i64, u8),
    /// `timestamp`.
    Timestamp(Timestamp),
    /// `time_of_day`.
    TimeOfDay(TimeOfDay),
    /// `char`.
    Char(char),
    /// `ascii(n)`.
    Ascii(Ascii<16>),
    /// `string`.
    Text(String),
    /// `binary`.
    Binary(Vec<u8>),
    /// An enum's ordinal.
    Enum(u16),
    /// `array<…>`.
    Array(Vec<Value>),
    /// A nested record.
    Record(RecordValue),
}

/// A record of any type: a message without its header, or a nested record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordValue {
    /// Index of the record type in its schema.
    pub type_id: u16,
    /// Values of the fields in order.
    pub fields: Vec<Value>,
}

/// Sets a value to a variant that owns nothing: in place if it is that variant already, as fields mostly are.
/// Otherwise the old value's memory would be read, and the new value made in another place and copied, each time.
macro_rules! set {
    ($value:expr, Scaled, $x:expr, $scale:expr) => {
        match $value {
            Value::Scaled(x, scale) => (*x, *scale) = ($x, $scale),
            other => other.change(Value::Scaled($x, $scale)),
        }
    };
    ($value:expr, $variant:ident, $x:expr) => {{
        let new = $x;
        match $value {
            Value::$variant(x) => *x = new,
            other => other.change(Value::$variant(new)),
        }
    }};
}
pub(super) use set;

impl Value {
    /// What kind of value this is, for messages to people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "a signed integer",
            Self::UInt(_) => "an unsigned integer",
            Self::F32(_) => "an f32",
            Self::F64(_) => "an f64",
            Self::Decimal(_) => "a decimal64",
            Self::Scaled(..) => "a scaled decimal",
            Self::Timestamp(_) => "a timestamp",
            Self::TimeOfDay(_) => "a time of day",
            Self::Char(_) => "a char",
            Self::Ascii(_) => "an ascii text",
            Self::Text(_) => "a string",
            Self::Binary(_) => "binary",
            Self::Enum(_) => "an enum symbol",
            Self::Array(_) => "an array",
            Self::Record(_) => "a record",
        }
    }

    /// Replaces `self` by a copy of `value`, reusing what `self` has allocated.
    pub fn assign(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => self.set_null(),
            ValueRef::Bool(x) => set!(self, Bool, x),
            ValueRef::Int(x) => set!(self, Int, x),
            ValueRef::UInt(x) => set!(self, UInt, x),
            ValueRef::F32(x) => set!(self, F32, x),
            ValueRef::F64(x) => set!(self, F64, x),
            ValueRef::Decimal(x) => set!(self, Decimal, x),
            ValueRef::Scaled(x, scale) => set!(self, Scaled, x, scale),
            ValueRef::Timestamp(x) => set!(self, Timestamp, x),
            ValueRef::TimeOfDay(x) => set!(self, TimeOfDay, x),
            ValueRef::Char(x) => set!(self, Char, x),
            ValueRef::Ascii(x) => set!(self, Ascii, x.value()),
            ValueRef::Text(x) => assign_text(self, x),
            ValueRef::Binary(x) => assign_binary(self, x),
            ValueRef::Enum(x) => set!(self, Enum, x.ordinal()),
            ValueRef::Array(array) => assign_array(self, array),
            ValueRef::Record(record) => self.record_slot().assign(record),
        }
    }

    /// Becomes `value`, of another type than before. Fields mostly have one type: see [`set`].
    #[cold]
    #[inline(never)]
    pub(super) fn change(&mut self, value: Self) {
        *self = value;
    }

    /// Becomes null.
    #[inline(always)]
    pub(super) fn set_null(&mut self) {
        if !matches!(self, Self::Null) {
            self.change(Self::Null);
        }
    }

    /// The record in this value, made one first if it is something else.
    #[inline(always)]
    pub(super) fn record_slot(&mut self) -> &mut RecordValue {
        if !matches!(self, Self::Record(_)) {
            *self = Self::Record(RecordValue::default());
        }
        match self {
            Self::Record(record) => record,
            _ => unreachable!("made a record above"),
        }
    }

    /// The array in this value, made one first if it is something else.
    #[inline(always)]
    pub(super) fn array_slot(&mut self) -> &mut Vec<Value> {
        if !matches!(self, Self::Array(_)) {
            *self = Self::Array(Vec::new());
        }
        match self {
            Self::Array(items) => items,
            _ => unreachable!("made an array above"),
        }
    }
}

impl RecordValue {
    /// Replaces `self` by a copy of `record`, reusing what `self` has allocated.
    pub fn assign(&mut self, record: super::RecordRef<'_>) {
        self.type_id = record.type_id();
        self.fields.resize_with(record.len(), Value::default);
        for (field, value) in self.fields.iter_mut().zip(record.values()) {
            field.assign(value);
        }
    }
}

pub(super) fn assign_text(to: &mut Value, from: &str) {
    match to {
        Value::Text(text) => {
            text.clear();
            text.push_str(from);
        }
        _ => *to = Value::Text(from.into()),
    }
}

pub(super) fn assign_binary(to: &mut Value, from: &[u8]) {
    match to {
        Value::Binary(bytes) => {
            bytes.clear();
            bytes.extend_from_slice(from);
        }
        _ => *to = Value::Binary(from.into()),
    }
}

fn assign_array(to: &mut Value, from: super::ArrayRef<'_>) {
    let items = to.array_slot();
    items.resize_with(from.len(), Value::default);
    for (item, value) in items.iter_mut().zip(from.iter()) {
        item.assign(value);
    }
}
