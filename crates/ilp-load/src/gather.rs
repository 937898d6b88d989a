//! The lines of a request, gathered by table.

use crate::load::Pending;
use crate::options::LoadOptions;
use crate::table::Table;
use std::collections::HashMap;
use tapedb_engine::{Database, Error, NotFound};
use tapedb_ilp::{Refusal, Rows, Text, Value};

/// The lines of a request, by table.
pub(crate) struct Gathered<'a> {
    db: &'a Database,
    options: &'a LoadOptions,
    /// Time of lines without a timestamp.
    now: i64,
    pub tables: Vec<Table>,
    by_name: HashMap<Vec<u8>, usize>,
    /// Name of the current table as it is written.
    raw: Vec<u8>,
    current: usize,
    /// Whether every line has a timestamp.
    pub has_times: bool,
    columns: usize,
    cells: usize,
    /// Cells that memory is counted for.
    counted: usize,
    pending: Pending<'a>,
    /// Whether there was no memory for the request.
    pub is_busy: bool,
}

/// Cells for which memory is counted at once.
const COUNTED: usize = 1 << 18;
/// Bytes of a cell: a value, and whether there is one.
const CELL_BYTES: usize = 9;

impl<'a> Gathered<'a> {
    pub fn new(db: &'a Database, options: &'a LoadOptions, now: i64, pending: Pending<'a>) -> Self {
        Self {
            db,
            options,
            now,
            tables: Vec::new(),
            by_name: HashMap::new(),
            raw: Vec::new(),
            current: 0,
            has_times: true,
            columns: 0,
            cells: 0,
            counted: 0,
            pending,
            is_busy: false,
        }
    }

    /// Bounds what the request takes: of rows that lack most columns, much more than its bytes.
    #[cold]
    fn count(&mut self) -> Result<(), Refusal> {
        let LoadOptions { columns_max, cells_max, .. } = self.options;
        if self.columns > *columns_max {
            return Err(format!(
                "the tables of the request have more than {columns_max} columns; send fewer at once"
            )
            .into());
        }
        if self.cells > *cells_max {
            return Err(format!("the rows of the request have more than {cells_max} cells, with empty ones; send fewer at once").into());
        }
        while self.cells > self.counted {
            self.counted += COUNTED;
            self.is_busy |= !self.pending.add(COUNTED * CELL_BYTES);
        }
        if self.is_busy { Err("the server has too many lines in memory; try again".into()) } else { Ok(()) }
    }

    #[cold]
    fn table_of(&mut self, name: Text<'_>) -> Result<usize, Refusal> {
        let bytes = name.bytes();
        let at = match self.by_name.get(&*bytes) {
            Some(at) => *at,
            None => {
                let most = self.options.tables_max;
                if self.tables.len() >= most {
                    return Err(format!("the request has more than {most} tables").into());
                }
                let open = |name: &str| match self.db.stream(name) {
                    Ok(stream) => Ok(Some(stream)),
                    Err(Error::NotFound(NotFound::Stream { .. })) => Ok(None),
                    Err(error) => Err(error.to_string().into()),
                };
                self.tables.push(Table::new(&bytes, open)?);
                self.by_name.insert(bytes.to_vec(), self.tables.len() - 1);
                self.tables.len() - 1
            }
        };
        self.raw.clear();
        self.raw.extend_from_slice(name.raw());
        Ok(at)
    }
}

impl Rows for Gathered<'_> {
    #[inline]
    fn table(&mut self, name: Text<'_>, line: u64) -> Result<(), Refusal> {
        if self.raw != name.raw() {
            self.current = self.table_of(name)?;
        }
        self.tables[self.current].begin(line);
        Ok(())
    }

    #[inline]
    fn tag(&mut self, name: Text<'_>, value: Text<'_>) -> Result<(), Refusal> {
        self.tables[self.current].value(name, Value::Text(value), true, &self.options.symbols)
    }

    #[inline]
    fn field(&mut self, name: Text<'_>, value: Value<'_>) -> Result<(), Refusal> {
        self.tables[self.current].value(name, value, false, &self.options.symbols)
    }

    #[inline]
    fn end(&mut self, time: Option<i64>) -> Result<(), Refusal> {
        self.has_times &= time.is_some();
        let time = time.unwrap_or(self.now);
        let table = &mut self.tables[self.current];
        table.end(time, self.options.missing_symbol.as_deref())?;
        let (columns, cells) = table.grown();
        self.columns += columns;
        self.cells += cells;
        if columns > 0 || self.cells > self.counted { self.count() } else { Ok(()) }
    }
}
