//! Collects messages of a table as columns: for updates to subscribers.

use crate::cell::{Cells, Op};
use crate::column::{Column, Texts};
use crate::table::{NO_SYMBOL, Table};
use std::collections::HashMap;
use std::sync::Arc;
use tapedb_codec::dynamic::Layouts;
use tapedb_engine::Message;

/// Most texts that are cached from one update to the next; beyond, the cache is emptied: identifiers that are never repeated must
/// not fill the memory.
const INTERNED_MAX: usize = 1 << 16;

/// Collects rows of one table. Always true: everything in it has as many rows.
#[derive(Debug)]
pub struct Gather {
    table: Table,
    cells: Cells,
    times: Vec<i64>,
    symbols: Texts,
    fields: Vec<Field>,
}

#[derive(Debug)]
enum Field {
    Words(Vec<u64>),
    Interned(Vec<u64>, Interner),
    Texts(Texts),
}

/// Texts, each stored once, by number.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    numbers: HashMap<Arc<[u8]>, u32>,
    pub texts: Vec<Arc<[u8]>>,
}

impl Interner {
    /// The number of a text; the second value is whether it is new.
    pub fn number(&mut self, text: &[u8]) -> (u32, bool) {
        if let Some(number) = self.numbers.get(text) {
            return (*number, false);
        }
        let (number, text) = (self.texts.len() as u32, Arc::<[u8]>::from(text));
        self.numbers.insert(text.clone(), number);
        self.texts.push(text);
        (number, true)
    }
}

impl Gather {
    /// For messages of a table's stream, whose layouts these are.
    pub fn new(table: &Table, layouts: &Layouts) -> Self {
        Self::of_cells(table, Cells::of(table, layouts))
    }

    pub(crate) fn of_cells(table: &Table, cells: Cells) -> Self {
        let fields = cells.cells.iter().map(|cell| Field::new(&cell.op)).collect();
        Self { table: table.clone(), cells, times: Vec::new(), symbols: Texts::new(), fields }
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Adds a message of the table's stream as a row.
    pub fn push(&mut self, message: &Message<'_>) {
        self.push_body(message.time().0, message.symbol(), message.body());
    }

    /// Adds a row: nanoseconds since 1970, symbol, and the body that holds the fields.
    pub fn push_body(&mut self, time: i64, symbol: &str, body: &[u8]) {
        self.times.push(time);
        self.symbols.push(if symbol == NO_SYMBOL { "" } else { symbol });
        for (cell, field) in self.cells.cells.iter().zip(&mut self.fields) {
            match field {
                Field::Words(words) => words.push(cell.word(body)),
                Field::Texts(texts) => texts.push(cell.text(body, self.cells.fixed)),
                Field::Interned(words, interner) => {
                    words.push(interner.number(cell.text(body, self.cells.fixed)).0.into());
                }
            }
        }
    }

    /// The rows as the table's columns, `time` and `sym` first; none are left. `midnight`: when the day began, in nanoseconds
    /// since 1970, for times that count from there.
    pub fn take(&mut self, midnight: i64) -> Vec<Column> {
        let kind = self.table.time_kind();
        let times = std::mem::take(&mut self.times);
        let times = times.into_iter().map(|time| kind.time_value(time, midnight)).collect();
        let mut columns = vec![Column::Long(times), Column::Text(std::mem::take(&mut self.symbols))];
        for (cell, field) in self.cells.cells.iter().zip(&mut self.fields) {
            columns.push(match field {
                Field::Words(words) => cell.op.column(words.drain(..), &[]),
                Field::Interned(words, interner) => {
                    let column = cell.op.column(words.drain(..), &interner.texts);
                    if interner.texts.len() > INTERNED_MAX {
                        *interner = Interner::default();
                    }
                    column
                }
                Field::Texts(texts) => Column::Text(std::mem::take(texts)),
            });
        }
        columns
    }
}

impl Field {
    fn new(op: &Op) -> Self {
        if op.is_text() {
            Self::Texts(Texts::new())
        } else if op.is_interned() {
            Self::Interned(Vec::new(), Interner::default())
        } else {
            Self::Words(Vec::new())
        }
    }
}
