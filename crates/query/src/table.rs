//! A message type of a stream as a table.
//!
//! Its columns are `time` and `symbol`, the fields, and behind them `sequence`, and `space` where the stream has several. Texts of all
//! kinds (symbols, enums, fixed texts) are `Utf8View`: operators are fastest with these.

use crate::error::Error;
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
    /// Name of the message type.
    pub record: String,
    schema: SchemaRef,
    columns: Vec<Column>,
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
}

impl Table {
    /// # Errors
    /// When the stream has no such message type, or it cannot be columns.
    pub fn new(open: Arc<OpenStream>, record: &str) -> Result<Self, Error> {
        let options = ReadOptions { decimals: open.options.decimals, ..ReadOptions::default() };
        let read = record_schema(&open.stream, record, &options)?;
        let mut fields: Vec<Arc<Field>> = read.fields().iter().map(as_text_view).collect();
        let mut columns = vec![Column::Time, Column::Symbol];
        columns.resize(fields.len(), Column::Field);
        let found = open.stream.schema().record(record).map(|(_, found)| found);
        let name = |name: &str| found.map_or_else(|| name.to_string(), |found| header_column(found, name));
        fields.push(Arc::new(Field::new(name("sequence"), DataType::UInt64, false)));
        columns.push(Column::Sequence);
        if open.stream.spaces() > 1 {
            fields.push(Arc::new(Field::new(name("space"), DataType::UInt32, false)));
            columns.push(Column::Space);
        }
        Ok(Self { open, record: record.into(), schema: Arc::new(Schema::new(fields)), columns })
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

    /// Where a column of a name comes from.
    pub fn column_of(&self, name: &str) -> Option<&Column> {
        self.schema.index_of(name).ok().map(|index| &self.columns[index])
    }

    /// A cursor over the messages of the table.
    ///
    /// # Errors
    /// When it is not known where the stream ends.
    pub fn cursor(&self, wanted: &Wanted) -> Result<CursorBuilder, Error> {
        let mut cursor = self.open.stream.cursor().to_sequences(self.open.ends()?.iter().copied());
        cursor = cursor.types([self.record.as_str()]).from(Timestamp(wanted.from));
        if let Some(to) = wanted.last.checked_add(1) {
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
    match field.data_type() {
        DataType::Dictionary(..) => Arc::new((**field).clone().with_data_type(DataType::Utf8View)),
        _ => field.clone(),
    }
}
