//! Encodes the rows of record batches as messages.

use crate::cell::{Cell, Reader};
use crate::error::Error;
use crate::header::{SEQUENCE, SPACE, STREAM, SYMBOL, TIME};
use crate::slices::Slices;
use crate::tree::{Node, Tree};
use crate::values;
use arrow_array::RecordBatch;
use std::ops::Range;
use tapedb_codec::batch::MAX_MESSAGE_BYTES;
use tapedb_codec::dynamic::{Layouts, RecordValue, Value};
use tapedb_schema::Literal;

/// Longest symbol, in bytes.
const SYMBOL_BYTES_MAX: usize = 255;

/// Bytes of bodies after which a piece of a batch ends. A batch of a few bytes may stand for many: its rows may share values.
const PIECE_BYTES: usize = 16 << 20;

/// What the columns of record batches mean.
#[derive(Debug, Clone, Default)]
pub struct AppendOptions {
    /// The record type; may be left out where the stream has only one message type.
    pub record: Option<String>,
    /// Times without a time zone are UTC. Without this they are refused: nothing states what they mean.
    pub naive_is_utc: bool,
}

/// Encodes rows of record batches as messages of one record type.
///
/// Values are converted exactly or refused. `docs/ARROW.md` states which columns and types fit.
#[derive(Debug)]
pub struct RowEncoder {
    layouts: Layouts,
    tree: Tree,
    /// Whether a batch may leave the field out; in the order of the tree's nodes.
    optional: Vec<bool>,
    naive_is_utc: bool,
}

/// The columns of a record batch, found and checked for their types.
#[derive(Debug)]
pub struct BatchColumns {
    time: Reader,
    symbol: Reader,
    /// In the order of the record type's fields; `None`: all null.
    fields: Vec<Option<Reader>>,
}

/// Consecutive rows of a record batch as bodies of messages.
#[derive(Debug, Default)]
pub struct EncodedRows {
    first: usize,
    /// Where each body ends.
    ends: Vec<usize>,
    bodies: Vec<u8>,
}

impl RowEncoder {
    /// An encoder for a stream of that name and with those record types.
    ///
    /// # Errors
    /// When the stream has no such message type, or several and none is named.
    pub fn new(stream: &str, layouts: &Layouts, options: &AppendOptions) -> Result<Self, Error> {
        let record = match &options.record {
            Some(record) => record.clone(),
            None => {
                let mut messages = layouts.records().iter().filter(|record| record.message);
                match (messages.next(), messages.next()) {
                    (Some(only), None) => only.name.clone(),
                    _ => {
                        let what = "the stream has several message types; name the one of the rows";
                        return Err(Error::schema(stream, what));
                    }
                }
            }
        };
        let tree = Tree::new(layouts, &record, None)?;
        let fields = &layouts.schema().records[usize::from(tree.type_id)].fields;
        let has_null = |default: &Option<Literal>| matches!(default, None | Some(Literal::Null));
        let optional = fields.iter().map(|field| field.nullable && has_null(&field.default)).collect();
        Ok(Self { layouts: layouts.clone(), tree, optional, naive_is_utc: options.naive_is_utc })
    }

    /// Id of the record type.
    pub fn type_id(&self) -> u16 {
        self.tree.type_id
    }

    /// The name of a header's column beside the fields of the record type: [`header_column`](crate::header_column).
    pub fn header_column(&self, name: &str) -> String {
        let records = &self.layouts.schema().records;
        let record = records.get(usize::from(self.tree.type_id));
        record.map_or_else(|| name.into(), |record| crate::header_column(record, name))
    }

    /// Name of the record type.
    pub(crate) fn record(&self) -> &str {
        self.layouts.records().get(usize::from(self.tree.type_id)).map_or("", |record| &record.name)
    }

    /// The columns of a batch as slices, where they are some.
    pub(crate) fn slices<'a>(&'a self, batch: &'a RecordBatch) -> Option<Slices<'a>> {
        Slices::of(batch, &self.tree, self.naive_is_utc)
    }

    /// Finds the columns of a batch.
    ///
    /// # Errors
    /// For a column that is missing, unknown, or of a type that cannot be loaded.
    pub fn columns(&self, batch: &RecordBatch) -> Result<BatchColumns, Error> {
        let schema = batch.schema();
        let mut free: Vec<usize> = (0..batch.num_columns()).collect();
        let mut take = |name: &str, is_header: bool| -> Result<Option<Reader>, Error> {
            let mut found = free.iter().enumerate().filter(|(_, index)| schema.field(**index).name() == name);
            // Where both have the same name, the header's column comes before the field.
            let found = if is_header { found.next() } else { found.next_back() };
            let Some((at, index)) = found.map(|(at, index)| (at, *index)) else { return Ok(None) };
            free.remove(at);
            let reader = Reader::new(batch.column(index), schema.field(index), name, self.naive_is_utc)?;
            Ok(Some(reader))
        };
        let missing = |name: &str| Error::schema(name, "the batch has no such column");
        let time = take(TIME, true)?.ok_or_else(|| missing(TIME))?;
        let symbol = take(SYMBOL, true)?.ok_or_else(|| missing(SYMBOL))?;
        let nodes = self.tree.nodes.iter().zip(&self.optional);
        let field = |(node, optional): (&Node, &bool)| match take(&node.name, false)? {
            None if !optional => Err(missing(&node.name)),
            found => Ok(found),
        };
        let fields = nodes.map(field).collect::<Result<_, Error>>()?;
        let is_header = |name: &&String| {
            let is_it = |usual: &str| **name == usual || **name == self.header_column(usual);
            [SEQUENCE, SPACE, STREAM].into_iter().any(is_it)
        };
        match free.iter().map(|index| schema.field(*index).name()).find(|name| !is_header(name)) {
            Some(unknown) => Err(Error::schema(unknown, "the record type has no such field")),
            None => Ok(BatchColumns { time, symbol, fields }),
        }
    }

    /// Encodes the rows from `first` on: all, or as many as a piece of bounded size holds, and at least one if there is one.
    ///
    /// # Errors
    /// For a value that does not fit, with its column and row.
    pub fn encode(&self, columns: &BatchColumns, first: usize, out: &mut EncodedRows) -> Result<(), Error> {
        (out.first, out.ends) = (first, Vec::new());
        out.bodies.clear();
        let mut record = RecordValue { type_id: self.tree.type_id, fields: Vec::new() };
        for row in first..columns.len() {
            if out.bodies.len() >= PIECE_BYTES {
                break;
            }
            record.fields.clear();
            let mut making = values::Row::new(&self.layouts);
            for (node, reader) in self.tree.nodes.iter().zip(&columns.fields) {
                let value = reader.as_ref().map_or(Ok(Value::Null), |reader| {
                    let found = values::value(&mut making, node, reader, row);
                    found.map_err(|misfit| {
                        Error::value(format!("{}{}", node.name, misfit.path), row, misfit.what)
                    })
                })?;
                record.fields.push(value);
            }
            self.encode_row(&record, row, out)?;
        }
        Ok(())
    }

    fn encode_row(&self, record: &RecordValue, row: usize, out: &mut EncodedRows) -> Result<(), Error> {
        let start = out.bodies.len();
        let encoded = self.layouts.encode(record, &mut out.bodies);
        encoded.map_err(|error| self.refused(row, error.to_string()))?;
        let bytes = out.bodies.len() - start;
        if bytes > MAX_MESSAGE_BYTES {
            let what = format!("message of {bytes} bytes is over the limit of {MAX_MESSAGE_BYTES}");
            return Err(self.refused(row, what));
        }
        out.ends.push(out.bodies.len());
        Ok(())
    }

    fn refused(&self, row: usize, what: String) -> Error {
        let record = &self.layouts.records()[usize::from(self.tree.type_id)].name;
        Error::value(record.clone(), row, what)
    }
}

impl BatchColumns {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Time of a row, in nanoseconds since 1970.
    ///
    /// # Errors
    /// When there is none, or it is beyond the range.
    pub fn time(&self, row: usize) -> Result<i64, Error> {
        match self.time.cell(row) {
            Cell::Timestamp(nanos) => Ok(nanos),
            Cell::Null => Err(Error::value(TIME, row, "null; each message has a time")),
            Cell::Overflow => Err(Error::value(TIME, row, "the time is beyond the range of nanoseconds")),
            _ => Err(Error::value(TIME, row, "a timestamp is needed")),
        }
    }

    /// Symbol of a row.
    ///
    /// # Errors
    /// When there is none, or it is too long.
    pub fn symbol(&self, row: usize) -> Result<&str, Error> {
        match self.symbol.cell(row) {
            Cell::Text(symbol) if (1..=SYMBOL_BYTES_MAX).contains(&symbol.len()) => Ok(symbol),
            Cell::Text(symbol) => {
                let what =
                    format!("a symbol has 1 to {SYMBOL_BYTES_MAX} bytes, and this one {}", symbol.len());
                Err(Error::value(SYMBOL, row, what))
            }
            _ => Err(Error::value(SYMBOL, row, "a text is needed")),
        }
    }
}

impl EncodedRows {
    /// The rows of the batch.
    pub fn rows(&self) -> Range<usize> {
        self.first..self.first + self.ends.len()
    }

    /// The body of a row of [`EncodedRows::rows`].
    pub fn body(&self, row: usize) -> &[u8] {
        let index = row - self.first;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bodies[start..self.ends[index]]
    }
}
