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
            ValueRef::Null => *self = Self::Null,
            ValueRef::Bool(x) => *self = Self::Bool(x),
            ValueRef::Int(x) => *self = Self::Int(x),
            ValueRef::UInt(x) => *self = Self::UInt(x),
            ValueRef::F32(x) => *self = Self::F32(x),
            ValueRef::F64(x) => *self = Self::F64(x),
            ValueRef::Decimal(x) => *self = Self::Decimal(x),
            ValueRef::Scaled(x, scale) => *self = Self::Scaled(x, scale),
            ValueRef::Timestamp(x) => *self = Self::Timestamp(x),
            ValueRef::TimeOfDay(x) => *self = Self::TimeOfDay(x),
            ValueRef::Char(x) => *self = Self::Char(x),
            ValueRef::Ascii(x) => *self = Self::Ascii(x),
            ValueRef::Text(x) => assign_text(self, x),
            ValueRef::Binary(x) => assign_binary(self, x),
            ValueRef::Enum(x, _) => *self = Self::Enum(x),
            ValueRef::Array(array) => assign_array(self, array),
            ValueRef::Record(record) => self.record_slot().assign(record),
        }
    }

    /// The record in this value, made one first if it is something else.
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
