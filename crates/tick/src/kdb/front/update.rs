//! An update on its way to subscribers.

use super::filter::Filter;
use super::outbox::Bytes;
use crate::date::Date;
use crate::kdb::convert::empty_table;
use crate::table::Table;
use std::collections::HashSet;
use tapedb_kdb_ipc::{Atom, Elements, Kind, Symbols, Value, Vector, compress, message};

/// Most rows of an update.
pub(super) const UPDATE_ROWS_MAX: usize = 4096;
/// Beyond so many bytes of bodies an update gets no further row.
pub(super) const UPDATE_BYTES: usize = 4 << 20;

/// Rows of a table on their way to subscribers: encoded once for all subscribers that want all of them.
pub(super) struct Update {
    name: String,
    names: Symbols,
    pub(super) columns: Vec<Value>,
    pub(super) rows: usize,
    plain: std::cell::OnceCell<Option<Bytes>>,
    compressed: std::cell::OnceCell<Option<Bytes>>,
}

impl Update {
    pub(super) fn new(table: &Table, columns: Vec<Value>) -> Self {
        let rows = columns.first().and_then(Value::len).unwrap_or(0);
        let names = table.columns().iter().map(|column| column.name.as_bytes()).collect();
        let (plain, compressed) = Default::default();
        Self { name: table.name().into(), names, columns, rows, plain, compressed }
    }

    /// The message of all rows; `None`: it is too long to be sent.
    pub(super) fn bytes(&self, compresses: bool) -> Option<Bytes> {
        let plain = self.plain.get_or_init(|| self.encoded(self.columns.clone()).map(Bytes::from));
        if !compresses {
            return plain.clone();
        }
        let compressed = || plain.as_ref().and_then(|plain| compress(plain)).map(Bytes::from);
        self.compressed.get_or_init(compressed).clone().or_else(|| plain.clone())
    }

    /// The message of the rows that pass a filter; `None`: there are none.
    pub(super) fn filtered(&self, filter: &Filter, compresses: bool) -> Option<Bytes> {
        let rows = match filter {
            Filter::All => None,
            Filter::Symbols(symbols) => Some(self.rows_of(symbols)),
        };
        if rows.as_ref().is_some_and(Vec::is_empty) { None } else { self.wanted(rows.as_deref(), compresses) }
    }

    /// The message of some rows, or of all.
    pub(super) fn wanted(&self, rows: Option<&[u32]>, compresses: bool) -> Option<Bytes> {
        match rows {
            None => self.bytes(compresses),
            Some(rows) => self.picked(rows, compresses),
        }
    }

    fn picked(&self, rows: &[u32], compresses: bool) -> Option<Bytes> {
        let columns = self.columns.iter().map(|column| picked(column, rows)).collect();
        let plain = self.encoded(columns)?;
        Some(if compresses { compress(&plain).unwrap_or(plain) } else { plain }.into())
    }

    fn encoded(&self, columns: Vec<Value>) -> Option<Vec<u8>> {
        let table = tapedb_kdb_ipc::Table::new(self.names.clone(), columns).ok()?;
        let update = Value::list(vec![Value::symbol("upd"), Value::symbol(&self.name), table.into()]);
        message(Kind::Asynchronous, &update).ok()
    }

    /// The rows of these symbols.
    pub(super) fn rows_of(&self, symbols: &HashSet<Vec<u8>>) -> Vec<u32> {
        let Some(Elements::Symbol(syms)) = self.columns.get(1).and_then(Value::as_elements) else {
            return Vec::new();
        };
        let wanted = syms.iter().enumerate().filter(|(_, symbol)| symbols.contains(*symbol));
        wanted.map(|(row, _)| row as u32).collect()
    }
}

pub(super) fn end_message(date: Date) -> Bytes {
    let end = Value::list(vec![Value::symbol(".u.end"), Atom::Date(date.to_kdb()).into()]);
    // A message of a few bytes is not too long.
    message(Kind::Asynchronous, &end).unwrap_or_default().into()
}

pub(super) fn picked(column: &Value, rows: &[u32]) -> Value {
    match column {
        Value::Vector(vector) => {
            Value::Vector(Vector { attribute: vector.attribute, elements: vector.elements.pick(rows) })
        }
        other => Value::list(rows.iter().filter_map(|row| other.item(*row as usize)).collect()),
    }
}

pub(super) fn joined(first: Value, second: &Value) -> Value {
    match (first, second) {
        (Value::Vector(mut first), Value::Vector(second)) => {
            second.elements.iter().for_each(|atom| {
                // Both are of the column's type.
                let _ = first.elements.push(atom);
            });
            Value::Vector(first)
        }
        (Value::List(first), Value::List(second)) => {
            Value::list([first.items, second.items.clone()].concat())
        }
        (first, _) => first,
    }
}

/// Bytes of columns, estimated.
pub(super) fn bytes_of(columns: &[Value]) -> usize {
    let bytes = |column: &Value| match column {
        Value::Vector(Vector { elements: Elements::Symbol(symbols), .. }) => symbols.as_bytes().len(),
        Value::Vector(vector) => vector.elements.len() * size_of::<i64>(),
        Value::List(list) => list.items.iter().map(|item| size_of::<Value>() + item.len().unwrap_or(0)).sum(),
        _ => 0,
    };
    columns.iter().map(bytes).sum()
}

/// The indices of the last row of each symbol, in order.
pub(super) fn last_of_each(columns: &[Value]) -> Vec<u32> {
    let Some(Elements::Symbol(symbols)) = columns.get(1).and_then(Value::as_elements) else {
        return Vec::new();
    };
    let mut seen = HashSet::new();
    let mut last: Vec<u32> =
        (0..symbols.len() as u32).rev().filter(|row| seen.insert(symbols.get(*row as usize))).collect();
    last.reverse();
    last
}

/// A table's name and its columns without rows: the answer to a subscription.
pub(super) fn schema_of(table: &Table) -> Value {
    Value::list(vec![Value::symbol(table.name()), empty_table(table)])
}
