//! Logs of tickerplants: `` (`upd;table;rows) `` after `` (`upd;table;rows) ``.

use super::error::ImportError;
use super::source::{ColumnChunks, ImportOptions, Partition, Source, date_of_name, table_of_kinds};
use crate::column::Column;
use crate::kdb::convert::{kind_of, update_of};
use crate::kind::Kind;
use crate::table::{SYM, TIME, Table};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use tapedb_kdb_ipc::file::log::{self, LOG_HEADER, Record};
use tapedb_kdb_ipc::{Limits, Symbols, Value};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
/// Names of the functions whose arguments are rows.
const UPDATES: [&[u8]; 2] = [b"upd", b".u.upd"];

/// Adds the tables of a log, or of all logs in a folder.
pub(super) fn discover(
    path: &Path,
    options: &ImportOptions,
    found: &mut Vec<Source>,
) -> Result<(), ImportError> {
    for path in logs(path)? {
        found.extend(tables(&path, options)?);
    }
    Ok(())
}

fn logs(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let mut logs = Vec::new();
    for entry in fs::read_dir(path).map_err(ImportError::open(path))? {
        let path = entry.map_err(ImportError::open(path))?.path();
        if path.is_file() && begins_as_log(&path)? {
            logs.push(path);
        }
    }
    logs.sort();
    Ok(logs)
}

fn begins_as_log(path: &Path) -> Result<bool, ImportError> {
    let mut first = Vec::new();
    let file = File::open(path).map_err(ImportError::open(path))?;
    file.take(LOG_HEADER.len() as u64).read_to_end(&mut first).map_err(ImportError::open(path))?;
    Ok(first == LOG_HEADER)
}

/// The tables of one log. Where it is damaged, those before the damage.
fn tables(path: &Path, options: &ImportOptions) -> Result<Vec<Source>, ImportError> {
    let mut records = Records::open(path)?;
    let mut found: Vec<Columns> = Vec::new();
    loop {
        match records.next() {
            Ok(Some(record)) => {
                let Some((name, rows)) = update(&record) else { continue };
                if options.wants(name) {
                    columns_of(&mut found, name).update(rows);
                }
            }
            // Reading reports the damage.
            Ok(None) | Err(ImportError::Damaged { .. }) if !found.is_empty() => break,
            Ok(None) => break,
            Err(error) => return Err(error),
        }
    }
    found.into_iter().map(|columns| columns.source(path, options)).collect()
}

fn columns_of<'a>(found: &'a mut Vec<Columns>, name: &str) -> &'a mut Columns {
    let at = found.iter().position(|columns| columns.table == name).unwrap_or(found.len());
    if at == found.len() {
        found.push(Columns { table: name.into(), names: None, kinds: Vec::new() });
    }
    &mut found[at]
}

/// A table's columns, as far as records show them.
#[derive(Debug)]
struct Columns {
    table: String,
    names: Option<Symbols>,
    kinds: Vec<Option<Kind>>,
}

impl Columns {
    fn update(&mut self, rows: &Value) {
        let (names, columns) = names_and_columns(rows);
        if self.names.is_none() {
            self.names = names;
        }
        if self.kinds.len() < columns.len() {
            self.kinds.resize(columns.len(), None);
        }
        for (kind, column) in self.kinds.iter_mut().zip(&columns) {
            if kind.is_none() && !column.is_empty() {
                *kind = kind_of(column);
            }
        }
    }

    fn source(self, path: &Path, options: &ImportOptions) -> Result<Source, ImportError> {
        let partitions =
            vec![Partition { path: path.into(), files: vec![path.into()], date: date_of_name(path) }];
        if let Some(table) = options.schema.iter().find(|table| table.name() == self.table) {
            return Ok(Source { table: table.clone(), partitions, has_no_names: false });
        }
        let names: Vec<String> = match &self.names {
            Some(names) => names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
            None => (0..self.kinds.len()).map(made_up_name).collect(),
        };
        let kinds = self.kinds.iter().map(|kind| kind.unwrap_or(Kind::Text));
        let columns: Vec<(String, Kind)> = names.into_iter().zip(kinds).collect();
        let table = table_of_kinds(path, &self.table, &columns)?;
        Ok(Source { table, partitions, has_no_names: self.names.is_none() })
    }
}

/// Tickerplants have `time` and `sym` first.
fn made_up_name(index: usize) -> String {
    match index {
        0 => TIME.into(),
        1 => SYM.into(),
        index => format!("c{index}"),
    }
}

/// Names, where there are some, and columns, or one value for each.
fn names_and_columns(rows: &Value) -> (Option<Symbols>, Vec<Value>) {
    match rows {
        Value::Table(table) => (Some(table.names().clone()), table.columns().to_vec()),
        Value::List(list) => (None, row_or_columns(&list.items)),
        Value::Vector(vector) => (None, vector.elements.iter().map(Value::Atom).collect()),
        _ => (None, Vec::new()),
    }
}

/// In a row, a text is a value; among columns, a vector of chars.
fn row_or_columns(items: &[Value]) -> Vec<Value> {
    let is_row = items.iter().any(|item| item.as_atom().is_some());
    let wrapped = |item: &Value| match item.ty() {
        Some(tapedb_kdb_ipc::Type::Char) if is_row && item.as_atom().is_none() => {
            Value::list(vec![item.clone()])
        }
        _ => item.clone(),
    };
    items.iter().map(wrapped).collect()
}

/// The table and the rows of a record, if it is an update.
fn update(record: &Record) -> Option<(&str, &Value)> {
    let Value::List(list) = &record.value else { return None };
    let [function, table, rows] = &list.items[..] else { return None };
    let is_update = function.as_name().is_some_and(|name| UPDATES.contains(&name));
    let table = table.as_name().and_then(|name| str::from_utf8(name).ok())?;
    is_update.then_some((table, rows))
}

/// The records of a file.
#[derive(Debug)]
struct Records {
    path: PathBuf,
    file: File,
    reader: log::Reader,
    is_at_end: bool,
}

impl Records {
    fn open(path: &Path) -> Result<Self, ImportError> {
        let file = File::open(path).map_err(ImportError::open(path))?;
        Ok(Self { path: path.into(), file, reader: log::Reader::new(Limits::default()), is_at_end: false })
    }

    fn next(&mut self) -> Result<Option<Record>, ImportError> {
        let path = self.path.clone();
        let damaged = |damage| ImportError::Damaged { path, damage };
        loop {
            match self.reader.next_record() {
                Ok(Some(record)) => return Ok(Some(record)),
                Err(damage) => return Err(damaged(damage)),
                Ok(None) if self.is_at_end => match self.reader.finish() {
                    Ok(true) => {}
                    Ok(false) => return Ok(None),
                    Err(damage) => return Err(damaged(damage)),
                },
                Ok(None) => self.read_on()?,
            }
        }
    }

    fn read_on(&mut self) -> Result<(), ImportError> {
        let mut bytes = Vec::with_capacity(READ_BYTES);
        let mut file = Read::by_ref(&mut self.file).take(READ_BYTES as u64);
        let read = file.read_to_end(&mut bytes).map_err(ImportError::open(&self.path))?;
        self.is_at_end = read < READ_BYTES;
        self.reader.push(&bytes);
        Ok(())
    }
}

/// The rows of one table in a log.
#[derive(Debug)]
pub(super) struct LogReader {
    records: Records,
    table: Table,
    skipped: u64,
}

impl LogReader {
    pub fn open(path: &Path, table: &Table) -> Result<Self, ImportError> {
        Ok(Self { records: Records::open(path)?, table: table.clone(), skipped: 0 })
    }
}

impl ColumnChunks for LogReader {
    fn next(&mut self) -> Result<Option<Vec<Column>>, ImportError> {
        while let Some(record) = self.records.next()? {
            let Some((table, rows)) = update(&record) else {
                self.skipped += 1;
                continue;
            };
            if table != self.table.name() {
                continue;
            }
            let columns = update_of(&self.table, rows);
            let columns = columns.and_then(|columns| match columns.len() == self.table.columns().len() {
                true => Ok(columns),
                false => Err("it has no times".into()),
            });
            let error = |what| ImportError::Content {
                path: self.records.path.clone(),
                what: format!("the record at byte {}: {what}", record.offset),
            };
            return columns.map(Some).map_err(error);
        }
        Ok(None)
    }

    fn bytes_read(&self) -> u64 {
        self.records.reader.offset()
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }
}
