//! Answers to queries, and how they are collected from messages.

use crate::cell::Cells;
use crate::column::Column;
use crate::error::TickError;
use crate::gather::Gather;
use crate::query::Query;
use crate::table::{ColumnDef, Table};
use std::collections::{BTreeMap, VecDeque};

/// Columns of a table, all of one length.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The table.
    pub table: String,
    /// The columns with their values.
    pub columns: Vec<(ColumnDef, Column)>,
}

impl Answer {
    /// Rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// The values of a column.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|(column, _)| column.name == name).map(|(_, values)| values)
    }

    /// The value in a column and a row as text; empty if there is none.
    pub fn show(&self, column: usize, row: usize) -> String {
        self.columns.get(column).map_or_else(String::new, |(def, values)| values.show(row, def.kind))
    }
}

/// The indices of the columns that a query wants.
pub(crate) fn wanted(table: &Table, query: &Query) -> Result<Vec<usize>, TickError> {
    match &query.columns {
        None => Ok((0..table.columns().len()).collect()),
        Some(names) => names.iter().map(|name| table.column(name)).collect(),
    }
}

/// Collects rows of messages, as a query wants them.
pub(crate) struct Collect {
    gather: Gather,
    wanted: Vec<usize>,
    limit: Option<i64>,
    /// Bodies of the last rows of each symbol, or of the last rows, until the end.
    last: Option<BTreeMap<String, Kept>>,
    tail: VecDeque<(String, Kept)>,
    midnight: i64,
    whole: Vec<Column>,
}

#[derive(Debug, Clone)]
struct Kept {
    time: i64,
    body: Vec<u8>,
    midnight: i64,
}

impl Collect {
    pub fn new(table: &Table, cells: Cells, query: &Query) -> Result<Self, TickError> {
        let wanted = wanted(table, query)?;
        Ok(Self {
            gather: Gather::of_cells(table, cells),
            wanted,
            limit: query.limit,
            last: query.last_by_symbol.then(BTreeMap::new),
            tail: VecDeque::new(),
            midnight: 0,
            whole: Vec::new(),
        })
    }

    /// Adds a row; `false`: no more are wanted.
    pub fn push(&mut self, time: i64, symbol: &str, body: &[u8], midnight: i64) -> bool {
        if let Some(last) = &mut self.last {
            last.insert(symbol.into(), Kept { time, body: body.into(), midnight });
            return true;
        }
        match self.limit {
            Some(limit) if limit < 0 => {
                self.tail.push_back((symbol.into(), Kept { time, body: body.into(), midnight }));
                if self.tail.len() as u64 > limit.unsigned_abs() {
                    self.tail.pop_front();
                }
                true
            }
            Some(limit) if self.rows() as i64 >= limit => false,
            _ => {
                self.gather_row(time, symbol, body, midnight);
                true
            }
        }
    }

    /// The answer.
    pub fn finish(mut self) -> Result<Answer, TickError> {
        let mut kept: Vec<(String, Kept)> = self.last.take().into_iter().flatten().collect();
        kept.extend(std::mem::take(&mut self.tail));
        let rows = limited(kept.len(), self.limit);
        for (symbol, row) in &kept[rows] {
            self.gather_row(row.time, symbol, &row.body, row.midnight);
        }
        self.take_rows();
        let table = self.gather.table().clone();
        let columns = self.wanted.iter().map(|at| (table.columns()[*at].clone(), self.whole[*at].clone()));
        Ok(Answer { table: table.name().into(), columns: columns.collect() })
    }

    fn rows(&self) -> usize {
        self.whole.first().map_or(0, Column::len) + self.gather.len()
    }

    fn gather_row(&mut self, time: i64, symbol: &str, body: &[u8], midnight: i64) {
        if midnight != self.midnight {
            self.take_rows();
            self.midnight = midnight;
        }
        self.gather.push_body(time, symbol, body);
    }

    /// Rows of one day are gathered together: their times count from its midnight.
    fn take_rows(&mut self) {
        let columns = self.gather.take(self.midnight);
        if self.whole.is_empty() {
            self.whole = columns;
        } else {
            self.whole.iter_mut().zip(&columns).for_each(|(to, from)| to.extend(from));
        }
    }
}

/// The rows that a limit leaves.
pub(crate) fn limited(rows: usize, limit: Option<i64>) -> std::ops::Range<usize> {
    let most = limit.map_or(rows, |limit| usize::try_from(limit.unsigned_abs()).unwrap_or(rows).min(rows));
    match limit {
        Some(limit) if limit < 0 => rows - most..rows,
        _ => 0..most,
    }
}
