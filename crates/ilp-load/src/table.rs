//! The rows of one table of a request, as columns.

use crate::column::{Column, Prepared};
use crate::dictionary::Dictionary;
use crate::error::WriteError;
use crate::names::{field_name, record_name, utf8};
use std::collections::HashMap;
use tapedb_codec::batch::InputColumn;
use tapedb_engine::{Late, MessageColumns, Stream, Symbols};
use tapedb_ilp::{Refusal, Text, Value};
use tapedb_schema::{MAX_ARRAY_DEPTH, RecordType, Schema};

/// Longest symbol, in bytes.
const SYMBOL_BYTES_MAX: usize = 255;

/// What a row takes beside its fields, in cells.
const CELLS_OF_ROW: usize = 3;

/// The rows of one table.
#[derive(Debug)]
pub(crate) struct Table {
    /// Name of the table, and of the stream.
    pub name: String,
    /// The stream, if there is one.
    pub stream: Option<Stream>,
    /// Name of the record type.
    record: String,
    columns: Vec<Column>,
    /// Slots by the text of their names.
    by_name: HashMap<Vec<u8>, usize>,
    /// What names stand for, in the order in which lines had them first.
    slots: Vec<Slot>,
    /// The slot that the next name probably has: lines mostly have the same names in the same order.
    next: usize,
    /// The symbol of the line, and the rank of the name that it came by.
    symbol: Option<(u32, usize)>,
    /// Its text.
    symbol_text: Vec<u8>,
    symbols: Dictionary,
    /// Columns since the last call of [`Table::grown`].
    new_columns: usize,
    times: Vec<i64>,
    /// Of each row its line.
    lines: Vec<u64>,
}

/// What a name of a tag or a field stands for.
#[derive(Debug)]
struct Slot {
    /// The name as it is written.
    raw: Vec<u8>,
    /// Where its values go; `None`: not there yet.
    column: Option<usize>,
    /// Its rank among the names of symbols; `None`: it is none of them.
    rank: Option<usize>,
}

impl Table {
    /// A table without rows.
    pub fn new(
        name: &[u8],
        stream: impl FnOnce(&str) -> Result<Option<Stream>, Refusal>,
    ) -> Result<Self, Refusal> {
        let name = utf8(name, "name of the table")?.to_string();
        let stream = stream(&name)?;
        let mut record = record_name(&name);
        if let Some(stream) = &stream {
            let messages = || stream.schema().records.iter().filter(|record| record.message);
            if !messages().any(|found| found.name == record) {
                let mut all = messages();
                record = match (all.next(), all.next()) {
                    (Some(only), None) => only.name.clone(),
                    _ => {
                        return Err(format!(
                            "stream {name:?} has several message types and none that is called {record}; name the table after one"
                        )
                        .into());
                    }
                };
            }
        }
        Ok(Self {
            name,
            stream,
            record,
            columns: Vec::new(),
            by_name: HashMap::new(),
            slots: Vec::new(),
            next: 0,
            symbol: None,
            symbol_text: Vec::new(),
            symbols: Dictionary::default(),
            new_columns: 0,
            times: Vec::new(),
            lines: Vec::new(),
        })
    }

    /// The rows so far.
    pub fn rows(&self) -> usize {
        self.times.len()
    }

    /// Columns that are new since the last call, and cells that are, with those that new columns have for earlier rows. A line has ended.
    #[inline]
    pub fn grown(&mut self) -> (usize, usize) {
        let new = std::mem::take(&mut self.new_columns);
        (new, self.columns.len() + CELLS_OF_ROW + new * self.rows())
    }

    /// A line begins.
    #[inline]
    pub fn begin(&mut self, line: u64) {
        self.next = 0;
        self.symbol = None;
        self.lines.push(line);
    }

    /// A tag or a field of the line. `names`: those of symbols.
    #[inline]
    pub fn value(
        &mut self,
        name: Text<'_>,
        value: Value<'_>,
        is_tag: bool,
        names: &[String],
    ) -> Result<(), Refusal> {
        let at = match self.slots.get(self.next) {
            Some(slot) if slot.raw == name.raw() => self.next,
            _ => self.slot_of(name, names)?,
        };
        self.next = at + 1;
        let slot = &self.slots[at];
        if let (Some(rank), Value::Text(text)) = (slot.rank, value) {
            return self.symbol_value(at, rank, text, is_tag);
        }
        // An empty tag is none.
        if is_tag && matches!(value, Value::Text(text) if text.raw().is_empty()) {
            return Ok(());
        }
        match slot.column {
            Some(column) => {
                if matches!(value, Value::Null) {
                    return Ok(());
                }
                self.columns[column].push(self.times.len(), value)
            }
            None => self.first_value(at, value, is_tag),
        }
    }

    /// A text of a name that can have the symbol.
    fn symbol_value(&mut self, at: usize, rank: usize, text: Text<'_>, is_tag: bool) -> Result<(), Refusal> {
        if text.raw().is_empty() {
            return Ok(());
        }
        match self.symbol {
            Some((_, earlier)) if rank < earlier => {
                // The one before is a value like others.
                let other = self.slots.iter().position(|slot| slot.rank == Some(earlier));
                if let Some(other) = other {
                    let text = std::mem::take(&mut self.symbol_text);
                    self.ordinary_value(other, Value::Text(Text::plain(&text)), true)?;
                    self.symbol_text = text;
                }
            }
            Some((_, earlier)) if rank == earlier => {
                return Err(
                    format!("the line has {} twice", String::from_utf8_lossy(&self.slots[at].raw)).into()
                );
            }
            Some(_) => return self.ordinary_value(at, Value::Text(text), is_tag),
            None => {}
        }
        let symbol = self.symbols.number_of(text)?;
        let length = text.raw().len();
        // Escapes only make the text shorter.
        if length > SYMBOL_BYTES_MAX && text.bytes().len() > SYMBOL_BYTES_MAX {
            return Err(
                format!("the symbol has {length} bytes; at most {SYMBOL_BYTES_MAX} are allowed").into()
            );
        }
        self.symbol_text.clear();
        text.write_to(&mut self.symbol_text);
        self.symbol = Some((symbol, rank));
        Ok(())
    }

    fn ordinary_value(&mut self, at: usize, value: Value<'_>, is_tag: bool) -> Result<(), Refusal> {
        match self.slots[at].column {
            Some(column) => self.columns[column].push(self.times.len(), value),
            None => self.first_value(at, value, is_tag),
        }
    }

    /// The slot of a name that is not the expected one.
    #[cold]
    fn slot_of(&mut self, name: Text<'_>, names: &[String]) -> Result<usize, Refusal> {
        let bytes = name.bytes();
        if let Some(at) = self.by_name.get(&*bytes) {
            return Ok(*at);
        }
        let at = self.slots.len();
        let rank = names.iter().position(|symbol| symbol.as_bytes() == &*bytes);
        self.slots.push(Slot { raw: name.raw().into(), column: None, rank });
        self.by_name.insert(bytes.into_owned(), at);
        Ok(at)
    }

    /// A value of a name that has no column yet.
    #[cold]
    fn first_value(&mut self, at: usize, value: Value<'_>, is_tag: bool) -> Result<(), Refusal> {
        let found = self.by_name.iter().find(|(_, slot)| **slot == at);
        let written = found.map(|(name, _)| name.clone()).unwrap_or_default();
        let field = field_name(&written)?;
        if let Some(other) = self.columns.iter().find(|column| column.field == field) {
            return Err(format!(
                "{:?} and {:?} are both the field {field}; rename one of them",
                String::from_utf8_lossy(&other.written),
                String::from_utf8_lossy(&written)
            )
            .into());
        }
        let known = self.record_type().and_then(|record| {
            record.fields.iter().find(|found| found.name == field || found.aliases.contains(&field))
        });
        let column = match known {
            Some(known) => Some(Column::of_field(known, &written)),
            None => Column::of_value(field, &written, value, is_tag),
        };
        let Some(mut column) = column else { return Ok(()) };
        if !matches!(value, Value::Null) {
            column.push(self.times.len(), value)?;
        }
        self.new_columns += 1;
        self.slots[at].column = Some(self.columns.len());
        self.columns.push(column);
        Ok(())
    }

    fn record_type(&self) -> Option<&RecordType> {
        self.stream.as_ref()?.schema().record(&self.record).map(|(_, record)| record)
    }

    /// The line ends.
    #[inline]
    pub fn end(&mut self, time: i64, missing: Option<&str>) -> Result<(), Refusal> {
        let symbol = match (self.symbol, missing) {
            (Some((symbol, _)), _) => symbol,
            (None, Some(missing)) => self.symbols.number_of_name(missing),
            (None, None) => return Err("the line has no symbol".into()),
        };
        self.symbols.keys.push(symbol);
        self.times.push(time);
        Ok(())
    }

    /// Gives every column a value, or a null, for each row.
    pub fn complete(&mut self) -> Result<(), WriteError> {
        let rows = self.rows();
        for column in &mut self.columns {
            if column.len() < rows {
                column.fill(rows).map_err(|what| WriteError::Refused { line: None, what: what.into() })?;
            }
            if let (false, Some(row)) = (column.is_nullable, column.first_null()) {
                let what =
                    format!("the line has no value for the field {}, which cannot be null", column.field);
                return Err(WriteError::Refused { line: self.lines.get(row).copied(), what });
            }
        }
        Ok(())
    }

    /// Whether no row can be refused, and nothing changes the schema.
    pub fn is_certain(&self) -> bool {
        let Some(stream) = &self.stream else { return false };
        let has = |name: &str| self.columns.iter().any(|column| column.field == name);
        let is_complete = self
            .record_type()
            .is_some_and(|record| record.fields.iter().all(|field| field.nullable || has(&field.name)));
        is_complete
            && stream.options().late == Late::Accept
            && self.columns.iter().all(|column| !column.is_new && column.is_certain())
    }

    /// Whether the stream is not there, or lacks fields.
    pub fn changes_schema(&self) -> bool {
        self.stream.is_none() || self.columns.iter().any(|column| column.is_new)
    }

    /// The fields that the stream lacks.
    pub fn new_fields(&self) -> Vec<&str> {
        self.columns.iter().filter(|column| column.is_new).map(|column| &*column.field).collect()
    }

    /// The schema that the stream needs.
    pub fn needed_schema(&self) -> Schema {
        let mut schema = match &self.stream {
            Some(stream) => stream.schema().clone(),
            None => {
                let (name, fields, doc) = (self.record.clone(), Vec::new(), String::new());
                let record = RecordType { name, message: true, fields, doc };
                Schema { enums: Vec::new(), records: vec![record] }
            }
        };
        if let Some(record) = schema.records.iter_mut().find(|record| record.name == self.record) {
            record
                .fields
                .extend(self.columns.iter().filter(|column| column.is_new).map(Column::schema_field));
        }
        schema
    }

    /// The line of a row.
    pub fn line(&self, row: usize) -> Option<u64> {
        self.lines.get(row).copied()
    }

    /// Calls `take` with the rows. `with_new`: also with fields that the stream did not have.
    pub fn with_columns<T>(&self, with_new: bool, take: impl FnOnce(&MessageColumns<'_>) -> T) -> T {
        let columns = self.columns.iter().filter(|column| with_new || !column.is_new);
        let prepared: Vec<Prepared<'_>> = columns.map(Column::prepared).collect();
        let innermost: Vec<_> = prepared.iter().map(Prepared::items).collect();
        let names = self.symbols.texts();
        let mut take = Some(take);
        let mut result = None;
        nest(MAX_ARRAY_DEPTH, &prepared, &innermost, &mut |arrays| {
            let symbols = Symbols::Dictionary { names: &names, keys: &self.symbols.keys };
            let mut columns = MessageColumns::new(&self.record, &self.times, symbols);
            for (prepared, array) in prepared.iter().zip(arrays) {
                let column = if prepared.dimensions() > 0 { *array } else { prepared.plain() };
                columns = columns.column(column);
            }
            result = take.take().map(|take| take(&columns));
        });
        result.unwrap_or_else(|| unreachable!("it is called once"))
    }
}

/// Builds the lists of all columns, from the innermost dimension outwards: each borrows those of the next one.
fn nest(
    dimension: usize,
    prepared: &[Prepared<'_>],
    inner: &[InputColumn<'_>],
    take: &mut dyn FnMut(&[InputColumn<'_>]),
) {
    if dimension == 0 {
        return take(inner);
    }
    let mut outer = Vec::with_capacity(inner.len());
    for (prepared, inner) in prepared.iter().zip(inner) {
        outer.push(prepared.lists(dimension, inner).unwrap_or(*inner));
    }
    nest(dimension - 1, prepared, &outer, take);
}
