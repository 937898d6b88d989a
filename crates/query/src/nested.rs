//! Records in the fields of messages as rows: each with the header of its message, and its number in it.

use crate::error::{Error, Reason};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Fields};
use tapedb_schema::{FieldType, Schema};

/// Where messages have records of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Name of the message type.
    pub message: String,
    /// Name of its field, a record or an array of records.
    pub field: String,
    /// Name of the record type, where the field may hold several.
    pub alternative: Option<String>,
}

/// The places of records of a type: in the fields of messages, themselves or in arrays. Messages are tables in themselves.
pub(crate) fn places(schema: &Schema, record: &str) -> Vec<Place> {
    let is_nested = schema.record(record).is_some_and(|(_, record)| !record.message);
    let mut places = Vec::new();
    for message in schema.records.iter().filter(|message| is_nested && message.message) {
        for field in &message.fields {
            let held = match &field.ty {
                FieldType::Array(item) => &item.ty,
                other => other,
            };
            if let FieldType::Record(names) = held
                && names.iter().any(|name| name == record)
            {
                let alternative = (names.len() > 1).then(|| record.to_string());
                places.push(Place {
                    message: message.name.to_string(),
                    field: field.name.to_string(),
                    alternative,
                });
            }
        }
    }
    places
}

/// The records of a batch.
pub(crate) struct Entries {
    /// For each the row of its message.
    pub messages: UInt32Array,
    /// Its number in the message, from 1.
    pub numbers: UInt32Array,
    /// Its row among the records.
    rows: UInt32Array,
    records: ArrayRef,
}

impl Place {
    /// The fields of the records in a column of this type.
    ///
    /// # Errors
    /// When they are stored in one piece.
    pub fn fields(&self, ty: &DataType) -> Result<Fields, Error> {
        let held = match ty {
            DataType::List(item) => item.data_type(),
            other => other,
        };
        let found = match (held, &self.alternative) {
            (DataType::Struct(fields), None) => Some(fields),
            (DataType::Struct(fields), Some(name)) => {
                fields.find(name).and_then(|(_, field)| match field.data_type() {
                    DataType::Struct(fields) => Some(fields),
                    _ => None,
                })
            }
            _ => None,
        };
        found.cloned().ok_or_else(|| {
            let what = format!(
                "the records in {}.{} are stored in one piece, which SQL does not read; read them with a cursor",
                self.message, self.field
            );
            Error::new(Reason::Query, what)
        })
    }

    /// The records in a column of messages.
    pub fn entries(&self, column: &ArrayRef) -> Entries {
        let list = column.as_list_opt::<i32>();
        let held = list.map_or(column, |list| list.values());
        let records = match &self.alternative {
            Some(name) => held.as_struct().column_by_name(name).unwrap_or(held).clone(),
            None => held.clone(),
        };
        let is_there = |row: usize| held.is_valid(row) && records.is_valid(row);
        let (mut messages, mut numbers, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut add = |message: usize, number: usize, row: usize| {
            if is_there(row) {
                messages.push(message as u32);
                numbers.push(number as u32);
                rows.push(row as u32);
            }
        };
        match list {
            None => (0..column.len()).for_each(|row| add(row, 1, row)),
            Some(list) => {
                for message in (0..list.len()).filter(|row| list.is_valid(*row)) {
                    let first = list.value_offsets()[message] as usize;
                    let end = list.value_offsets()[message + 1] as usize;
                    (first..end).for_each(|row| add(message, row - first + 1, row));
                }
            }
        }
        Entries { messages: messages.into(), numbers: numbers.into(), rows: rows.into(), records }
    }
}

impl Entries {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// A field of the records.
    ///
    /// # Errors
    /// When values cannot be gathered.
    pub fn field(&self, index: usize) -> datafusion::error::Result<ArrayRef> {
        Ok(datafusion::arrow::compute::take(self.records.as_struct().column(index), &self.rows, None)?)
    }
}
