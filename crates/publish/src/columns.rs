//! The columns of a table, and how each is made from the stream's columns. `docs/PUBLISH.md` has the table of types.

use crate::error::Error;
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tapedb_arrow::header_column;
use tapedb_schema::RecordType;

/// Digits of a `u64`.
const DIGITS_U64: u8 = 20;
/// What is behind the name of a time, for its nanoseconds.
const NANOS: &str = "_ns";
/// What is behind the name of the flattened field, for the number of the entry.
const INDEX: &str = "_index";

/// Columns of a message's header that every table has: time, its nanoseconds, symbol, sequence number.
pub(crate) const HEADER: usize = 4;

/// A column of a table, or a field in one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub name: String,
    pub required: bool,
    pub ty: Type,
    pub how: How,
    /// Where it comes from: a column of the stream, or a field of the struct around it.
    pub source: usize,
}

/// Types of tables.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Decimal(u8, u8),
    Timestamp,
    /// A text; of an enum the names, which are few.
    String {
        is_enum: bool,
    },
    Binary,
    List(Box<Column>),
    Struct(Vec<Column>),
}

/// How values are made of the stream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// They are the same, or made of parts that are.
    Same,
    /// Integers of more bits.
    Widened,
    /// `u64` as a decimal.
    Unsigned,
    /// Nanoseconds as microseconds, rounded down.
    Micros,
    /// Nanoseconds as a number.
    Nanos,
    /// Whether there is one, of records without fields.
    Present,
}

/// The number of a field in the table, and those of the fields in it, in the order of the columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ids {
    pub id: i32,
    pub parts: Vec<Ids>,
}

/// A table's columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Columns {
    pub columns: Vec<Column>,
    /// Whether the stream's columns have the number of the space.
    pub with_spaces: bool,
    /// What is made of an array whose entries are rows.
    pub flattened: Option<Flattened>,
}

/// An array whose entries are rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flattened {
    /// The stream's column.
    pub source: usize,
    /// The column of the entry's number; those of its values follow.
    pub index: usize,
    /// The column behind the last one.
    pub end: usize,
}

impl Columns {
    /// The columns of a table for a record type, whose columns in the stream are `source`: time, symbol, sequence and perhaps space, then
    /// the fields.
    ///
    /// # Errors
    /// When the field to be flattened is no array, or names differ only in case, which engines do not distinguish.
    pub fn new(
        source: &Schema,
        record: &RecordType,
        with_spaces: bool,
        flatten: Option<&str>,
    ) -> Result<Self, Error> {
        let header =
            |name: &str, ty, how, source| Column { name: name.into(), required: true, ty, how, source };
        let name = |index: usize| source.fields().get(index).map_or("", |field| field.name());
        let mut columns = vec![
            header("time", Type::Timestamp, How::Micros, 0),
            header(&header_column(record, "time_ns"), Type::Long, How::Nanos, 0),
            header("symbol", Type::String { is_enum: true }, How::Same, 1),
            header(name(2), Type::Long, How::Widened, 2),
        ];
        let first = if with_spaces { 4 } else { 3 };
        if with_spaces {
            columns.push(header(name(3), Type::Long, How::Widened, 3));
        }
        let fields: Vec<_> = source.fields().iter().enumerate().skip(first).collect();
        let mut taken: HashSet<String> = source.fields().iter().map(|field| field.name().clone()).collect();
        taken.extend(columns.iter().map(|column| column.name.clone()));
        let mut flattened = None;
        for (index, field) in fields {
            if flatten == Some(field.name()) {
                let first = columns.len();
                columns.extend(flattened_columns(field, index, &mut taken)?);
                flattened = Some(Flattened { source: index, index: first, end: columns.len() });
            } else {
                columns.extend(expand(field, index, &mut taken)?);
            }
        }
        if let (Some(field), None) = (flatten, &flattened) {
            let what = format!("record type {} has no field {field:?} to be flattened", record.name);
            return Err(Error::Settings(what));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = columns.iter().find(|column| !seen.insert(column.name.to_lowercase())) {
            return Err(Error::Settings(format!(
                "two columns are called {:?}, if upper and lower case are the same as in SQL; rename a field (`tapedb alter --schema`)",
                twice.name
            )));
        }
        Ok(Self { columns, with_spaces, flattened })
    }

    /// The schema of the files, with the numbers of the table's fields.
    pub fn arrow_schema(&self, ids: &[Ids]) -> Schema {
        Schema::new(self.columns.iter().zip(ids).map(|(column, ids)| column.field(ids)).collect::<Fields>())
    }
}

impl Column {
    /// The field of a file.
    pub fn field(&self, ids: &Ids) -> Field {
        let metadata = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_string(), ids.id.to_string())]);
        Field::new(&self.name, self.data_type(ids), !self.required).with_metadata(metadata)
    }

    fn data_type(&self, ids: &Ids) -> DataType {
        match &self.ty {
            Type::List(item) => match ids.parts.first() {
                Some(ids) => DataType::List(Arc::new(item.field(ids))),
                None => DataType::Null,
            },
            Type::Struct(fields) => {
                DataType::Struct(fields.iter().zip(&ids.parts).map(|(field, ids)| field.field(ids)).collect())
            }
            Type::Boolean => DataType::Boolean,
            Type::Int => DataType::Int32,
            Type::Long => DataType::Int64,
            Type::Float => DataType::Float32,
            Type::Double => DataType::Float64,
            Type::Decimal(precision, scale) => DataType::Decimal128(*precision, *scale as i8),
            Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Type::String { is_enum: true } => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
            Type::String { is_enum: false } => DataType::Utf8View,
            Type::Binary => DataType::BinaryView,
        }
    }
}

/// The columns that a field of the stream becomes: two for a time.
fn expand(field: &Field, source: usize, taken: &mut HashSet<String>) -> Result<Vec<Column>, Error> {
    let column = |name: &str, ty, how| Column { name: name.into(), required: false, ty, how, source };
    let one = |ty, how| vec![column(field.name(), ty, how)];
    Ok(match field.data_type() {
        DataType::Boolean => one(Type::Boolean, How::Same),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => one(Type::Int, How::Widened),
        DataType::Int32 => one(Type::Int, How::Same),
        DataType::Int64 => one(Type::Long, How::Same),
        DataType::UInt32 => one(Type::Long, How::Widened),
        DataType::UInt64 => one(Type::Decimal(DIGITS_U64, 0), How::Unsigned),
        DataType::Float32 => one(Type::Float, How::Same),
        DataType::Float64 => one(Type::Double, How::Same),
        DataType::Decimal128(precision, scale) => one(Type::Decimal(*precision, *scale as u8), How::Same),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            let nanos = free(&format!("{}{NANOS}", field.name()), taken);
            vec![column(field.name(), Type::Timestamp, How::Micros), column(&nanos, Type::Long, How::Nanos)]
        }
        DataType::Time64(TimeUnit::Nanosecond) => one(Type::Long, How::Nanos),
        DataType::Utf8View => one(Type::String { is_enum: false }, How::Same),
        DataType::Dictionary(..) => one(Type::String { is_enum: true }, How::Same),
        DataType::BinaryView => one(Type::Binary, How::Same),
        DataType::Struct(fields) if fields.is_empty() => one(Type::Boolean, How::Present),
        DataType::Struct(fields) => one(Type::Struct(struct_columns(fields)?), How::Same),
        DataType::List(item) => {
            let items = expand(item, 0, &mut HashSet::new())?.into_iter().enumerate();
            let lists = items.map(|(index, item)| {
                let name = match index {
                    0 => field.name().clone(),
                    _ => free(&format!("{}{NANOS}", field.name()), taken),
                };
                let item = Column { name: "element".into(), ..item };
                column(&name, Type::List(Box::new(item)), How::Same)
            });
            lists.collect()
        }
        other => {
            return Err(Error::Settings(format!(
                "column {:?} has the type {other}, which tables do not have",
                field.name()
            )));
        }
    })
}

fn struct_columns(fields: &Fields) -> Result<Vec<Column>, Error> {
    let mut taken = fields.iter().map(|field| field.name().clone()).collect();
    let mut columns = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        columns.extend(expand(field, index, &mut taken)?);
    }
    Ok(columns)
}

/// The columns of an array whose entries are rows: the number of the entry, then its fields, or the value.
fn flattened_columns(
    field: &Field,
    source: usize,
    taken: &mut HashSet<String>,
) -> Result<Vec<Column>, Error> {
    let DataType::List(item) = field.data_type() else {
        let what = format!("field {:?} is no array; only arrays can be flattened", field.name());
        return Err(Error::Settings(what));
    };
    let name = free(&format!("{}{INDEX}", field.name()), taken);
    let mut columns = vec![Column { name, required: false, ty: Type::Int, how: How::Same, source }];
    let entries = match item.data_type() {
        DataType::Struct(fields) if !fields.is_empty() => struct_columns(fields)?
            .into_iter()
            .map(|column| Column {
                name: free(&format!("{}_{}", field.name(), column.name), taken),
                ..column
            })
            .collect(),
        _ => expand(item, 0, &mut HashSet::new())?
            .into_iter()
            .enumerate()
            .map(|(index, column)| {
                let name = if index == 0 {
                    field.name().clone()
                } else {
                    free(&format!("{}{NANOS}", field.name()), taken)
                };
                Column { name, ..column }
            })
            .collect::<Vec<_>>(),
    };
    columns.extend(entries);
    Ok(columns)
}

/// The name, or one with `_` behind it that no other column has.
fn free(name: &str, taken: &mut HashSet<String>) -> String {
    let mut name = name.to_string();
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}
