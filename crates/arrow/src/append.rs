//! Appends record batches to a stream.

use crate::cell::{Cell, Reader};
use crate::error::Error;
use crate::read::{SEQUENCE, SPACE, STREAM, SYMBOL, TIME};
use crate::tree::Tree;
use crate::values;
use arrow_array::RecordBatch;
use std::collections::HashMap;
use tapedb_codec::batch::MAX_MESSAGE_BYTES;
use tapedb_codec::dynamic::{Layouts, RecordValue, Value};
use tapedb_engine::{Late, Loader, Stream, SymbolId};
use tapedb_schema::{Literal, Timestamp};

/// Longest symbol, in bytes.
const SYMBOL_BYTES_MAX: usize = 255;

/// What the columns of record batches mean.
#[derive(Debug, Clone, Default)]
pub struct AppendOptions {
    /// The record type; may be left out where the stream has only one message type.
    pub record: Option<String>,
    /// Times without a time zone are UTC. Without this they are refused: nothing states what they mean.
    pub naive_is_utc: bool,
}

/// Appends the rows of record batches to a stream as messages of one record type.
///
/// A batch is checked as a whole before its first row is appended: if any value does not fit, nothing of the batch is in the
/// stream. Values are converted exactly or refused. `docs/ARROW.md` states which columns and types fit.
#[derive(Debug)]
pub struct BatchAppender {
    layouts: Layouts,
    tree: Tree,
    /// Whether a batch may leave the field out; in the order of the tree's nodes.
    optional: Vec<bool>,
    loader: Loader,
    options: AppendOptions,
    refuses_late: bool,
    /// Latest time appended.
    last_time: Option<i64>,
    bodies: Vec<u8>,
}

impl BatchAppender {
    /// An appender to a stream, through a loader of it.
    ///
    /// # Errors
    /// When the stream has no such message type, or several and none is named.
    pub fn new(stream: &Stream, loader: Loader, options: AppendOptions) -> Result<Self, Error> {
        let layouts = stream.layouts().clone();
        let record = match &options.record {
            Some(record) => record.clone(),
            None => {
                let mut messages = layouts.records().iter().filter(|record| record.message);
                match (messages.next(), messages.next()) {
                    (Some(only), None) => only.name.clone(),
                    _ => {
                        let what = "the stream has several message types; name the one of the rows";
                        return Err(Error::schema(stream.name(), what));
                    }
                }
            }
        };
        let tree = Tree::new(&layouts, &record, None)?;
        let fields = &layouts.schema().records[usize::from(tree.type_id)].fields;
        let has_null = |default: &Option<Literal>| matches!(default, None | Some(Literal::Null));
        let optional = fields.iter().map(|field| field.nullable && has_null(&field.default)).collect();
        let refuses_late = stream.options().late == Late::Refuse;
        let bodies = Vec::new();
        Ok(Self { layouts, tree, optional, loader, options, refuses_late, last_time: None, bodies })
    }

    /// Appends all rows of a batch, or none. Returns how many.
    ///
    /// Rows wait in the loader until it is flushed: see [`Loader::flush`].
    ///
    /// # Errors
    /// For a column that is missing, unknown or of a type that cannot be loaded, and for a value that does not fit: nothing of
    /// the batch is appended. What keeps the log from being written is not such an error: rows before it are appended.
    pub fn append(&mut self, batch: &RecordBatch) -> Result<usize, Error> {
        let columns = self.columns(batch)?;
        let times = times(&columns.time)?;
        self.check_order(&times)?;
        let symbols =
            (0..times.len()).map(|row| symbol(&columns.symbol, row)).collect::<Result<Vec<_>, _>>()?;
        let ends = self.encode(&columns, times.len())?;
        let ids = self.ids(&symbols)?;
        let mut start = 0;
        for ((time, symbol), end) in times.iter().zip(&symbols).zip(ends) {
            let body = &self.bodies[start..end];
            self.loader.append_body_by_id(ids[symbol], Timestamp(*time), self.tree.type_id, body)?;
            self.last_time = self.last_time.max(Some(*time));
            start = end;
        }
        Ok(times.len())
    }

    /// Makes all rows visible to readers, with the durability of the stream.
    ///
    /// # Errors
    /// As [`Loader::flush`].
    pub fn flush(&mut self) -> Result<u64, Error> {
        Ok(self.loader.flush()?)
    }

    /// The loader.
    pub fn loader(&mut self) -> &mut Loader {
        &mut self.loader
    }

    /// Finds the columns of a batch.
    fn columns(&self, batch: &RecordBatch) -> Result<Columns, Error> {
        let schema = batch.schema();
        let mut free: Vec<usize> = (0..batch.num_columns()).collect();
        let mut take = |name: &str| -> Result<Option<Reader>, Error> {
            let Some(at) = free.iter().position(|index| schema.field(*index).name() == name) else {
                return Ok(None);
            };
            let index = free.remove(at);
            let reader =
                Reader::new(batch.column(index), schema.field(index), name, self.options.naive_is_utc)?;
            Ok(Some(reader))
        };
        let missing = |name: &str| Error::schema(name, "the batch has no such column");
        // The columns of the header come first, so that a field of the same name is found after them.
        let time = take(TIME)?.ok_or_else(|| missing(TIME))?;
        let symbol = take(SYMBOL)?.ok_or_else(|| missing(SYMBOL))?;
        let nodes = self.tree.nodes.iter().zip(&self.optional);
        let field = |(node, optional): (&crate::tree::Node, &bool)| match take(&node.name)? {
            None if !optional => Err(missing(&node.name)),
            found => Ok(found),
        };
        let fields = nodes.map(field).collect::<Result<_, Error>>()?;
        let is_header = |name: &String| [SEQUENCE, SPACE, STREAM].contains(&name.as_str());
        match free.iter().map(|index| schema.field(*index).name()).find(|name| !is_header(name)) {
            Some(unknown) => Err(Error::schema(unknown, "the record type has no such field")),
            None => Ok(Columns { time, symbol, fields }),
        }
    }

    /// Checks the order of times in a stream that refuses late messages.
    fn check_order(&self, times: &[i64]) -> Result<(), Error> {
        let mut last = self.last_time.unwrap_or(i64::MIN);
        for (row, time) in times.iter().enumerate().filter(|_| self.refuses_late) {
            if *time < last {
                let (time, last) = (Timestamp(*time), Timestamp(last));
                let what = format!("{time} is before {last}, and the stream refuses late messages");
                return Err(Error::value(TIME, row, what));
            }
            last = *time;
        }
        Ok(())
    }

    /// Encodes all rows; returns where each ends.
    fn encode(&mut self, columns: &Columns, rows: usize) -> Result<Vec<usize>, Error> {
        self.bodies.clear();
        let mut ends = Vec::with_capacity(rows);
        let mut record = RecordValue { type_id: self.tree.type_id, fields: Vec::new() };
        for row in 0..rows {
            record.fields.clear();
            for (node, reader) in self.tree.nodes.iter().zip(&columns.fields) {
                let value = reader.as_ref().map_or(Ok(Value::Null), |reader| {
                    let found = values::value(&self.layouts, node, reader, row);
                    found.map_err(|misfit| {
                        Error::value(format!("{}{}", node.name, misfit.path), row, misfit.what)
                    })
                })?;
                record.fields.push(value);
            }
            let start = self.bodies.len();
            let encoded = self.layouts.encode(&record, &mut self.bodies);
            encoded.map_err(|error| self.refused(row, error.to_string()))?;
            let bytes = self.bodies.len() - start;
            if bytes > MAX_MESSAGE_BYTES {
                let what = format!("message of {bytes} bytes is over the limit of {MAX_MESSAGE_BYTES}");
                return Err(self.refused(row, what));
            }
            ends.push(self.bodies.len());
        }
        Ok(ends)
    }

    fn refused(&self, row: usize, what: String) -> Error {
        let record = &self.layouts.records()[usize::from(self.tree.type_id)].name;
        Error::value(record.clone(), row, what)
    }

    /// Looks all symbols of a batch up at once.
    fn ids<'a>(&mut self, symbols: &[&'a str]) -> Result<HashMap<&'a str, SymbolId>, Error> {
        let mut distinct: Vec<&str> = Vec::new();
        let mut found: HashMap<&str, SymbolId> = HashMap::new();
        let mut seen = std::collections::HashSet::new();
        for symbol in symbols {
            if seen.insert(*symbol) {
                distinct.push(symbol);
            }
        }
        let ids = self.loader.symbol_ids(&distinct)?;
        found.extend(distinct.into_iter().zip(ids));
        Ok(found)
    }
}

/// The columns of a batch.
#[derive(Debug)]
struct Columns {
    time: Reader,
    symbol: Reader,
    /// In the order of the record type's fields; `None`: all null.
    fields: Vec<Option<Reader>>,
}

fn times(column: &Reader) -> Result<Vec<i64>, Error> {
    let time = |row| match column.cell(row) {
        Cell::Timestamp(nanos) => Ok(nanos),
        Cell::Null => Err(Error::value(TIME, row, "null; each message has a time")),
        Cell::Overflow => Err(Error::value(TIME, row, "the time is beyond the range of nanoseconds")),
        _ => Err(Error::value(TIME, row, "a timestamp is needed")),
    };
    (0..column.len()).map(time).collect()
}

fn symbol(column: &Reader, row: usize) -> Result<&str, Error> {
    match column.cell(row) {
        Cell::Text(symbol) if (1..=SYMBOL_BYTES_MAX).contains(&symbol.len()) => Ok(symbol),
        Cell::Text(symbol) => {
            let what = format!("a symbol has 1 to {SYMBOL_BYTES_MAX} bytes, and this one {}", symbol.len());
            Err(Error::value(SYMBOL, row, what))
        }
        _ => Err(Error::value(SYMBOL, row, "a text is needed")),
    }
}
