//! Views of last values: of each symbol the last row that the conditions want.
//!
//! Always true: the view has one row for each symbol, and none of them is older than one that it had before. A step reads the new
//! messages alone; the rows of their symbols are replaced at once, where they are not newer. To do it again gives the same, so
//! it does not matter whether a step was noted.

use super::target::{self, Columns};
use crate::error::Error;
use crate::latest::last_of;
use crate::live::{Shape, shape_of};
use crate::session::Sql;
use crate::table::{Column as Origin, Table};
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{DistinctOn, Expr};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tapedb_engine::Stream;

/// The longest pause after rows were replaced.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How many times as long as the work a pause is: each replacement writes a segment.
const PAUSES: u32 = 4;

/// The column of a query of last values that is the time of its rows.
///
/// # Errors
/// When it is another query, or has no such column, or none with the symbol.
pub(super) fn time_of(distinct: &DistinctOn) -> Result<usize, Error> {
    // What cannot be read as it arrives is refused by its name.
    let Shape::Messages(_) = shape_of(&distinct.input)? else {
        return Err(Error::query("a view of last values is of one stream, without joins and groups"));
    };
    let Some(table) = last_of(distinct) else {
        return Err(Error::query(
            "a view of last values has a row for each symbol; write SELECT DISTINCT ON (symbol) … FROM a stream ORDER BY symbol, time DESC",
        ));
    };
    let place = |wanted| distinct.select_expr.iter().position(|expr| is_column(expr, &table, wanted));
    match (place(&Origin::Time), place(&Origin::Symbol)) {
        (Some(time), Some(symbol)) if name_of(&distinct.select_expr[symbol]) == "symbol" => Ok(time),
        (Some(_), _) => Err(Error::query("the view has no column symbol; add it to the SELECT")),
        (None, _) => Err(Error::query("the view has no column with its time; add it to the SELECT")),
    }
}

fn is_column(expr: &Expr, table: &Table, wanted: &Origin) -> bool {
    match expr {
        Expr::Alias(alias) => is_column(&alias.expr, table, wanted),
        Expr::Column(column) => table.column_of(&column.name) == Some(wanted),
        _ => false,
    }
}

fn name_of(expr: &Expr) -> &str {
    match expr {
        Expr::Alias(alias) => &alias.name,
        Expr::Column(column) => &column.name,
        _ => "",
    }
}

/// The rows of such a view.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// Their times, by symbol.
    times: BTreeMap<String, i64>,
    /// When rows may be replaced next; `None`: now.
    due: Option<Instant>,
}

impl Last {
    /// Those that a view has.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn open(target: &Stream) -> Result<Self, Error> {
        let mut times = BTreeMap::new();
        let mut cursor = target.cursor().open()?;
        while let Some(message) = cursor.next()? {
            times.insert(message.symbol().to_string(), message.time().0);
        }
        Ok(Self { times, due: None })
    }

    /// Whether rows may be replaced now.
    pub fn is_due(&self) -> bool {
        self.due.is_none_or(|due| due <= Instant::now())
    }

    /// Replaces the rows of the symbols that the query has rows for.
    ///
    /// # Errors
    /// When rows cannot be read or written, or there is no memory for them.
    pub fn replace(
        &mut self,
        sql: &Sql,
        (target, columns): (&Stream, &Columns),
        rows: impl Iterator<Item = Result<RecordBatch, Error>>,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        // Their symbols are needed before the first one is written.
        let memory = MemoryConsumer::new("View").register(&sql.runtime().memory_pool);
        let mut batches = Vec::new();
        for batch in rows {
            let batch = batch?;
            memory.try_grow(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        target::replace_older(target, columns, &mut self.times, &batches)?;
        let now = Instant::now();
        self.due = now.checked_add((now.duration_since(begun) * PAUSES).min(PAUSE_MAX));
        Ok(())
    }
}
