//! Messages out of columns, one after the other: for record types with records and arrays, which have no batches of columns.

use super::input::{FieldValues, InputColumn};
use super::prepare::{Misfit, columns_of};
use crate::batch::MAX_MESSAGE_BYTES;
use crate::dynamic::{Layouts, RecordLayout, RecordValue, TypeLayout, Value};
use crate::shown::quoted;
use std::cell::Cell;
use tapedb_schema::{Ascii, Scalar, TimeOfDay, Timestamp};

/// Encodes the rows of columns as bodies.
#[derive(Debug)]
pub struct RowMaker<'i, 'a> {
    layouts: &'i Layouts,
    record: &'i RecordLayout,
    columns: Vec<Option<&'i InputColumn<'a>>>,
    /// Items that the message may still have. Each takes a byte of it at least, but none of the program's memory where all are null.
    items_left: Cell<usize>,
}

impl<'i, 'a> RowMaker<'i, 'a> {
    /// Of messages of one type. The values are checked when they are encoded.
    ///
    /// # Errors
    /// For columns that are missing, unknown, given twice, or not of `rows` rows.
    pub fn new(
        layouts: &'i Layouts,
        record: &'i RecordLayout,
        columns: &'i [InputColumn<'a>],
        rows: usize,
    ) -> Result<Self, Misfit> {
        let columns = columns_of(record, columns, rows)?;
        Ok(Self { layouts, record, columns, items_left: Cell::new(0) })
    }

    /// Appends the body of a row.
    ///
    /// # Errors
    /// When a value does not fit its field; `body` is then as before.
    pub fn encode(&self, row: usize, body: &mut Vec<u8>) -> Result<(), Misfit> {
        self.items_left.set(MAX_MESSAGE_BYTES);
        let fields = self.record.fields.iter().zip(&self.columns);
        let value = |(field, column): (&crate::dynamic::FieldLayout, &Option<&InputColumn<'_>>)| match column
        {
            Some(column) => {
                let found = self.nullable(&field.ty, field.null_bit.is_some(), column, row);
                found.map_err(|at| at.of(&field.name, row))
            }
            None => Ok(Value::Null),
        };
        let fields = fields.map(value).collect::<Result<_, _>>()?;
        let record = RecordValue { type_id: self.record.type_id, fields };
        let encoded = self.layouts.encode(&record, body);
        encoded.map_err(|error| Misfit::value(&self.record.name, row, error.to_string()))
    }

    fn nullable(
        &self,
        ty: &TypeLayout,
        nullable: bool,
        column: &InputColumn<'_>,
        row: usize,
    ) -> Result<Value, Wrong> {
        match column.is_null(row) {
            true if nullable => Ok(Value::Null),
            true => Err(Wrong::new("null, where there is always a value")),
            false => self.value(ty, column, row),
        }
    }

    fn value(&self, ty: &TypeLayout, column: &InputColumn<'_>, row: usize) -> Result<Value, Wrong> {
        use FieldValues as V;
        let unfit = |need: &str| {
            let what = format!("of type {need}, and the values given are {}", column.values.kind());
            Err(Wrong::new(what))
        };
        let text = || text(&column.values, row);
        match (ty, column.values) {
            (TypeLayout::Scalar(Scalar::Ascii(width)), _) => match text()? {
                Some(text) if text.len() > usize::from(*width) => {
                    Err(Wrong::new(format!("{} is longer than ascii({width})", quoted(text))))
                }
                Some(text) => {
                    Ascii::new(text).map(Value::Ascii).map_err(|error| Wrong::new(error.to_string()))
                }
                None => unfit(&Scalar::Ascii(*width).to_string()),
            },
            (TypeLayout::Scalar(scalar), values) => match scalar_value(*scalar, &values, row)? {
                Some(value) => Ok(value),
                None => unfit(&scalar.to_string()),
            },
            (TypeLayout::Enum { index, .. }, values) => {
                let of = &self.layouts.schema().enums[*index];
                let ordinal = match values {
                    V::U8(ordinals) => ordinals.get(row).copied().map(u16::from),
                    V::U16(ordinals) => ordinals.get(row).copied(),
                    _ => match text()? {
                        Some(text) => {
                            let found = of.symbols.iter().position(|(symbol, _)| symbol == text);
                            let unknown = || {
                                Wrong::new(format!("{} is not a symbol of enum {}", quoted(text), of.name))
                            };
                            Some(found.ok_or_else(unknown)? as u16)
                        }
                        None => return unfit(&format!("enum {} (ordinals or texts)", of.name)),
                    },
                };
                // An ordinal that the enum does not have is refused when it is encoded.
                Ok(Value::Enum(ordinal.ok_or_else(short)?))
            }
            (TypeLayout::String, V::Binaries(values)) => {
                let text = std::str::from_utf8(values.get(row).ok_or_else(short)?);
                text.map(|text| Value::Text(text.into())).map_err(|_| Wrong::new("a text that is not UTF-8"))
            }
            (TypeLayout::Binary, V::Binaries(values)) => {
                Ok(Value::Binary(values.get(row).ok_or_else(short)?.to_vec()))
            }
            (TypeLayout::String, _) => match text()? {
                Some(text) => Ok(Value::Text(text.into())),
                None => unfit("string"),
            },
            (TypeLayout::Binary, _) => match text()? {
                Some(text) => Ok(Value::Binary(text.as_bytes().into())),
                None => unfit("binary"),
            },
            (TypeLayout::Array(item), V::List { offsets, items }) => {
                let range = offsets.get(row).zip(offsets.get(row + 1));
                let (start, end) = range.map(|(a, b)| (*a as usize, *b as usize)).ok_or_else(short)?;
                if start > end || items.values.rows().is_some_and(|rows| end > rows) {
                    return Err(Wrong::new(format!(
                        "its items are from {start} to {end}, of which some do not exist"
                    )));
                }
                let Some(left) = self.items_left.get().checked_sub(end - start) else {
                    let what = format!(
                        "a message of more than {MAX_MESSAGE_BYTES} items is over the limit; split it"
                    );
                    return Err(Wrong::new(what));
                };
                self.items_left.set(left);
                if items.validity.is_some_and(|validity| !validity.covers_to(end)) {
                    return Err(Wrong::new("the validity of its items is too short"));
                }
                let value = |(index, at)| {
                    let found = self.nullable(&item.ty, item.nullable, items, at);
                    found.map_err(|wrong| wrong.below(&format!("[{index}]")))
                };
                Ok(Value::Array((start..end).enumerate().map(value).collect::<Result<_, _>>()?))
            }
            (TypeLayout::Record(types), V::Record(fields)) if types.len() == 1 => {
                self.record(types[0], fields, row)
            }
            (TypeLayout::Record(types), V::Union { tags, alternatives }) => {
                let tag = usize::from(*tags.get(row).ok_or_else(short)?);
                match types.get(tag).zip(alternatives.get(tag)) {
                    Some((type_id, fields)) => self.record(*type_id, fields, row),
                    None => Err(Wrong::new(format!("tag {tag} of {} alternatives", types.len()))),
                }
            }
            (TypeLayout::Array(_), _) => unfit("array"),
            (TypeLayout::Record(_), _) => unfit("record"),
        }
    }

    fn record(&self, type_id: u16, columns: &[InputColumn<'_>], row: usize) -> Result<Value, Wrong> {
        let record = self.layouts.record(type_id).map_err(|error| Wrong::new(error.to_string()))?;
        if let Some(unknown) = columns.iter().find(|column| record.field(column.name).is_none()) {
            let what = format!("record type {} has no such field", record.name);
            return Err(Wrong::new(what).below(&format!(".{}", unknown.name)));
        }
        let value = |field: &crate::dynamic::FieldLayout| {
            let below = |wrong: Wrong| wrong.below(&format!(".{}", field.name));
            match columns.iter().find(|column| column.name == field.name) {
                Some(column) => {
                    self.nullable(&field.ty, field.null_bit.is_some(), column, row).map_err(below)
                }
                None if field.null_bit.is_some() && !field.has_default => Ok(Value::Null),
                None => Err(below(Wrong::new(format!("missing in record type {}", record.name)))),
            }
        };
        let fields = record.fields.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Value::Record(RecordValue { type_id, fields }))
    }
}

/// What is wrong, and the path to it.
#[derive(Debug)]
struct Wrong {
    path: String,
    what: String,
}

impl Wrong {
    fn new(what: impl Into<String>) -> Self {
        Self { path: String::new(), what: what.into() }
    }

    fn below(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self
    }

    fn of(self, field: &str, row: usize) -> Misfit {
        Misfit::value(&format!("{field}{}", self.path), row, self.what)
    }
}

#[cold]
fn short() -> Wrong {
    Wrong::new("there are fewer values than rows")
}

/// The text of a row; `None`: these are no texts.
fn text<'a>(values: &FieldValues<'a>, row: usize) -> Result<Option<&'a str>, Wrong> {
    Ok(match values {
        FieldValues::Texts(texts) => Some(texts.get(row).ok_or_else(short)?),
        FieldValues::Strings(texts) => Some(texts.get(row).ok_or_else(short)?),
        FieldValues::Dictionary { texts, keys } => {
            let key = *keys.get(row).ok_or_else(short)?;
            let none = || Wrong::new(format!("key {key} of a dictionary of {} texts", texts.len()));
            Some(texts.get(key as usize).ok_or_else(none)?)
        }
        _ => None,
    })
}

/// The value of a scalar other than `ascii(n)`; `None`: the slice is of another type.
fn scalar_value(scalar: Scalar, values: &FieldValues<'_>, row: usize) -> Result<Option<Value>, Wrong> {
    use FieldValues as V;
    macro_rules! get {
        ($values:expr) => {
            *$values.get(row).ok_or_else(short)?
        };
    }
    Ok(Some(match (scalar, values) {
        (Scalar::Bool, V::Bools(values)) => Value::Bool(get!(values)),
        (Scalar::I8, V::I8(values)) => Value::Int(get!(values).into()),
        (Scalar::I16, V::I16(values)) => Value::Int(get!(values).into()),
        (Scalar::I32, V::I32(values)) => Value::Int(get!(values).into()),
        (Scalar::I64, V::I64(values)) => Value::Int(get!(values)),
        (Scalar::U8, V::U8(values)) => Value::UInt(get!(values).into()),
        (Scalar::U16, V::U16(values)) => Value::UInt(get!(values).into()),
        (Scalar::U32, V::U32(values)) => Value::UInt(get!(values).into()),
        (Scalar::U64, V::U64(values)) => Value::UInt(get!(values)),
        (Scalar::F32, V::F32(values)) => Value::F32(get!(values)),
        (Scalar::F64, V::F64(values)) => Value::F64(get!(values)),
        (Scalar::Decimal64, V::Decimals(values)) => Value::Decimal(get!(values).canonical()),
        (Scalar::Decimal(scale), V::I64(values)) => Value::Scaled(get!(values), scale),
        (Scalar::Timestamp, V::Timestamps(values)) => Value::Timestamp(get!(values)),
        (Scalar::Timestamp, V::I64(values)) => Value::Timestamp(Timestamp(get!(values))),
        (Scalar::TimeOfDay, V::TimesOfDay(values)) => Value::TimeOfDay(get!(values)),
        (Scalar::TimeOfDay, V::I64(values)) => {
            let nanos = get!(values);
            let none = || Wrong::new(format!("{nanos} ns is no time of day"));
            Value::TimeOfDay(TimeOfDay::from_nanos(nanos).ok_or_else(none)?)
        }
        (Scalar::Char, V::Chars(values)) => Value::Char(get!(values)),
        _ => return Ok(None),
    }))
}
