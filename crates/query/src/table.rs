//! A message type of a stream as a table, or a record that messages have in a field.
//!
//! Its columns are `time` and `symbol`, the fields, and behind them `sequence`, and `space` where the stream has several. Records of a
//! field have the header of their message, and `entry` behind it. Texts of all kinds (symbols, enums, fixed texts) are `Utf8View`:
//! operators are fastest with these.

use crate::error::Error;
use crate::nested::{self, Place};
use crate::open::OpenStream;
use crate::wanted::Wanted;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use tapedb_arrow::{ReadOptions, header_column, record_schema};
use tapedb_engine::CursorBuilder;
use tapedb_schema::Timestamp;

/// A message type of a stream, as of the query's moment.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub open: Arc<OpenStream>,
    /// Name of the table.
    pub name: String,
    /// Name of the message type.
    pub record: String,
    /// Where the records are in the messages; `None`: they are the messages.
    pub place: Option<Place>,
    /// The same records in other places.
    pub others: Vec<Table>,
    /// Only the last message of each symbol, and no later one than this time.
    pub latest: Option<i64>,
    schema: SchemaRef,
    columns: Vec<Column>,
    /// Whether a column is a dictionary where it is read.
    are_dictionaries: Vec<bool>,
}

/// Where a column comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Column {
    Time,
    Symbol,
    Sequence,
    Space,
    /// A field of the record type.
    Field,
    /// A field of a record in a message, by its index in the record.
    Nested(usize),
    /// Number of a record in its message, from 1.
    Entry,
}

impl Table {
    /// # Errors
    /// When the stream has no such message type or record, or it cannot be columns.
    pub fn new(open: Arc<OpenStream>, name: &str) -> Result<Self, Error> {
        let places = nested::places(open.stream.schema(), name);
        let mut tables = places.into_iter().map(|place| Self::of_place(open.clone(), name, place));
        let Some(first) = tables.next() else { return Self::of_messages(open, name) };
        let others = tables.collect::<Result<_, _>>()?;
        Ok(Self { others, ..first? })
    }

    fn of_messages(open: Arc<OpenStream>, record: &str) -> Result<Self, Error> {
        let options = ReadOptions { decimals: open.options.decimals, ..ReadOptions::default() };
        let read = record_schema(&open.stream, record, &options)?;
        let fields: Vec<Arc<Field>> = read.fields().to_vec();
        let mut columns = vec![Column::Time, Column::Symbol];
        columns.resize(fields.len(), Column::Field);
        Ok(Self::with(open, record, (record, None), (fields, columns)))
    }

    fn of_place(open: Arc<OpenStream>, name: &str, place: Place) -> Result<Self, Error> {
        let fields = Some(vec![place.field.clone()]);
        let options = ReadOptions { decimals: open.options.decimals, fields, ..ReadOptions::default() };
        let read = record_schema(&open.stream, &place.message, &options)?;
        let inner = place.fields(read.field(read.fields().len() - 1).data_type())?;
        let schema = open.stream.schema();
        let found = schema.record(name).map(|(_, found)| found);
        let header = |name: &str| found.map_or_else(|| name.to_string(), |found| header_column(found, name));
        let named =
            |index: usize, name: &str| Arc::new(Field::clone(&read.fields()[index]).with_name(header(name)));
        let mut fields = vec![named(0, "time"), named(1, "symbol")];
        let mut columns = vec![Column::Time, Column::Symbol];
        fields.extend(inner.iter().cloned());
        columns.extend((0..inner.len()).map(Column::Nested));
        let message = place.message.clone();
        Ok(Self::with(open, name, (&message, Some(place)), (fields, columns)))
    }

    /// A table with the columns behind the fields.
    fn with(
        open: Arc<OpenStream>,
        name: &str,
        (record, place): (&str, Option<Place>),
        (mut fields, mut columns): (Vec<Arc<Field>>, Vec<Column>),
    ) -> Self {
        let schema = open.stream.schema();
        let found = schema.record(name).map(|(_, found)| found);
        let header = |name: &str| found.map_or_else(|| name.to_string(), |found| header_column(found, name));
        let mut add = |name: &str, ty: DataType, column: Column| {
            fields.push(Arc::new(Field::new(header(name), ty, false)));
            columns.push(column);
        };
        add("sequence", DataType::UInt64, Column::Sequence);
        if open.stream.spaces() > 1 {
            add("space", DataType::UInt32, Column::Space);
        }
        if place.is_some() {
            add("entry", DataType::UInt32, Column::Entry);
        }
        Self {
            name: name.into(),
            record: record.into(),
            place,
            others: Vec::new(),
            latest: None,
            are_dictionaries: fields.iter().map(|field| is_dictionary(field)).collect(),
            schema: Arc::new(Schema::new(fields.iter().map(as_text_view).collect::<Vec<_>>())),
            columns,
            open,
        }
    }

    /// The last message of each symbol, and no later one than this time; `None`: it is no table of messages.
    pub fn latest(&self, last: i64) -> Option<Self> {
        self.place.is_none().then(|| Self { latest: Some(last), ..self.clone() })
    }

    /// Whether each row is a message, and each message that is wanted a row.
    pub fn is_messages(&self) -> bool {
        self.place.is_none() && self.latest.is_none()
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Where a column comes from.
    pub fn column(&self, index: usize) -> &Column {
        &self.columns[index]
    }

    /// Whether a column is read as a dictionary: a symbol or an enum.
    pub fn is_dictionary(&self, index: usize) -> bool {
        self.are_dictionaries.get(index) == Some(&true)
    }

    /// Where a column of a name comes from.
    pub fn column_of(&self, name: &str) -> Option<&Column> {
        self.schema.index_of(name).ok().map(|index| &self.columns[index])
    }

    /// A cursor over the messages of the table.
    ///
    /// # Errors
    /// When it is not known where the stream ends.
    pub fn cursor(&self, wanted: &Wanted) -> Result<CursorBuilder, Error> {
        let cursor = self.open.stream.cursor();
        let mut cursor = match &self.open.from {
            None => cursor.to_sequences(self.open.ends()?.iter().copied()),
            // Such a cursor has no end but the present: the plan leaves out what is behind the slice.
            Some(from) => cursor.from_sequences(from.iter().copied()),
        };
        cursor = cursor.types([self.record.as_str()]).from(Timestamp(wanted.from));
        if self.latest.is_some() {
            cursor = cursor.last_values();
        }
        if let Some(to) = wanted.last.min(self.latest.unwrap_or(i64::MAX)).checked_add(1) {
            cursor = cursor.to(Timestamp(to));
        }
        match &wanted.symbols {
            Some(symbols) => Ok(cursor.symbols(symbols.iter().map(String::as_str))),
            None => Ok(cursor),
        }
    }
}

/// A column as tables have it: dictionaries are texts.
fn as_text_view(field: &Arc<Field>) -> Arc<Field> {
    match is_dictionary(field) {
        true => Arc::new(Field::clone(field).with_data_type(DataType::Utf8View)),
        false => field.clone(),
    }
}

fn is_dictionary(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Dictionary(..))
}
