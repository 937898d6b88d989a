//! Splayed tables: a folder with a file for each column, and one, `.d`, with their names.

use super::error::ImportError;
use super::format::Format;
use super::source::{ColumnChunks, ImportOptions, Partition, Source, table_of_kinds};
use crate::column::Column;
use crate::date::Date;
use crate::kdb::convert::column_of;
use crate::kind::Kind;
use crate::table::{TIME, Table};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_kdb_ipc::file::column::{Content, HEAD_BYTES_MAX, Head};
use tapedb_kdb_ipc::file::flat;
use tapedb_kdb_ipc::{KdbError, Symbols, Value};

/// Names of a table's columns.
const NAMES: &str = ".d";
/// Rows read at once; within them they are put in order of time.
const CHUNK_ROWS: u64 = 1 << 18;

/// Adds the tables below a folder: the folder of one, of a database, or of a database with dates.
pub(super) fn discover(
    format: Format,
    path: &Path,
    options: &ImportOptions,
    found: &mut Vec<Source>,
) -> Result<(), ImportError> {
    if path.join("par.txt").is_file() {
        let what =
            "its partitions are in other folders, which par.txt names; import those folders one by one";
        return Err(ImportError::Content { path: path.into(), what: what.into() });
    }
    if path.join(NAMES).is_file() {
        return add(path, date_of(path.parent().unwrap_or(path)), options, found);
    }
    let partitions: Vec<PathBuf> =
        folders(path)?.into_iter().filter(|folder| date_of(folder).is_some()).collect();
    if format == Format::Splayed && partitions.is_empty() {
        return add_all(path, date_of(path), options, found);
    }
    if partitions.is_empty() && date_of(path).is_some() {
        return add_all(path, date_of(path), options, found);
    }
    partitions.iter().try_for_each(|folder| add_all(folder, date_of(folder), options, found))
}

fn add_all(
    path: &Path,
    date: Option<Date>,
    options: &ImportOptions,
    found: &mut Vec<Source>,
) -> Result<(), ImportError> {
    let tables = folders(path)?.into_iter().filter(|folder| folder.join(NAMES).is_file());
    tables.into_iter().try_for_each(|folder| add(&folder, date, options, found))
}

fn add(
    folder: &Path,
    date: Option<Date>,
    options: &ImportOptions,
    found: &mut Vec<Source>,
) -> Result<(), ImportError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !options.wants(&name) {
        return Ok(());
    }
    let names = column_names(folder)?;
    let mut columns = Vec::new();
    for column in &names {
        let path = folder.join(column);
        let (_, head) = open_column(&path)?;
        let kind = match &head.content {
            Content::Simple(ty) => Kind::of_letter(ty.letter()),
            Content::Enumerated(_) => Some(Kind::Symbol),
            Content::Untyped => Some(Kind::Text),
        };
        let what = || ImportError::Content { path: path.clone(), what: "a column of an unknown type".into() };
        columns.push((column.clone(), kind.ok_or_else(what)?));
    }
    let table = match found.iter().find(|source| source.table.name() == name) {
        // A column without rows may have no type.
        Some(source) if fits(&source.table, &columns) => source.table.clone(),
        _ => table_of_kinds(folder, &name, &columns)?,
    };
    let files = std::iter::once(NAMES).chain(names.iter().map(String::as_str)).map(|name| folder.join(name));
    let partition = Partition { path: folder.into(), files: files.collect(), date };
    found.push(Source { table, partitions: vec![partition], has_no_names: false });
    Ok(())
}

fn fits(table: &Table, columns: &[(String, Kind)]) -> bool {
    let fits = |(name, kind): &(String, Kind)| match table.column(name) {
        Ok(at) => table.columns()[at].kind == *kind || *kind == Kind::Text,
        Err(_) => false,
    };
    columns.len() == table.columns().len() && columns.iter().all(fits)
}

fn column_names(folder: &Path) -> Result<Vec<String>, ImportError> {
    let path = folder.join(NAMES);
    let bytes = fs::read(&path).map_err(ImportError::open(&path))?;
    let names = flat::read_symbols(&bytes).map_err(ImportError::file(&path))?;
    let name = |name: &[u8]| {
        let name = String::from_utf8_lossy(name).into_owned();
        // A name is that of a file beside this one, and nothing else.
        let is_plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0']);
        let what = "a column's name is not the name of a file";
        is_plain
            .then_some(name)
            .ok_or(ImportError::File { path: path.clone(), source: KdbError::Shape(what) })
    };
    names.iter().map(name).collect()
}

fn folders(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(ImportError::open(path))?;
    let mut folders: Vec<PathBuf> =
        entries.iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}

fn date_of(path: &Path) -> Option<Date> {
    let name = path.file_name()?.to_str()?;
    if name.len() == 10 && name.contains('.') { name.parse().ok() } else { None }
}

fn open_column(path: &Path) -> Result<(File, Head), ImportError> {
    let mut file = File::open(path).map_err(ImportError::open(path))?;
    let bytes = file.metadata().map_err(ImportError::open(path))?.len();
    let mut first = Vec::new();
    let mut front = Read::by_ref(&mut file).take(HEAD_BYTES_MAX as u64);
    front.read_to_end(&mut first).map_err(ImportError::open(path))?;
    let head = Head::parse(&first, bytes).map_err(ImportError::file(path))?;
    file.seek(SeekFrom::Start(head.data_at)).map_err(ImportError::open(path))?;
    Ok((file, head))
}

/// The rows of one folder.
#[derive(Debug)]
pub(super) struct SplayedReader {
    columns: Vec<ColumnReader>,
    rows: u64,
    rows_read: u64,
    bytes_read: u64,
}

#[derive(Debug)]
struct ColumnReader {
    path: PathBuf,
    file: File,
    head: Head,
    symbols: Arc<Symbols>,
    kind: Kind,
    is_time: bool,
}

impl SplayedReader {
    /// Opens the columns of a table, in the table's order.
    pub fn open(partition: &Partition, table: &Table) -> Result<Self, ImportError> {
        let mut domains = Domains { folder: partition.path.clone(), cached: Vec::new() };
        let mut columns: Vec<ColumnReader> = Vec::new();
        for column in table.columns() {
            let path = partition.path.join(&column.name);
            let (file, head) = open_column(&path)?;
            let symbols = domains.symbols(&head)?;
            columns.push(ColumnReader {
                path,
                file,
                head,
                symbols,
                kind: column.kind,
                is_time: column.name == TIME,
            });
        }
        let rows = columns.first().map_or(0, |column| column.head.count);
        if let Some(other) = columns.iter().find(|column| column.head.count != rows) {
            let what = format!("it has {} rows, and {TIME} {rows}", other.head.count);
            return Err(ImportError::Content { path: other.path.clone(), what });
        }
        Ok(Self { columns, rows, rows_read: 0, bytes_read: 0 })
    }
}

impl ColumnChunks for SplayedReader {
    fn next(&mut self) -> Result<Option<Vec<Column>>, ImportError> {
        let rows = (self.rows - self.rows_read).min(CHUNK_ROWS);
        if rows == 0 {
            return Ok(None);
        }
        self.rows_read += rows;
        self.bytes_read += self.columns.iter().map(|column| rows * column.head.width() as u64).sum::<u64>();
        self.columns.iter_mut().map(|column| column.next(rows)).collect::<Result<_, _>>().map(Some)
    }

    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }
}

impl ColumnReader {
    fn next(&mut self, rows: u64) -> Result<Column, ImportError> {
        let mut bytes = vec![0; rows as usize * self.head.width()];
        self.file.read_exact(&mut bytes).map_err(ImportError::open(&self.path))?;
        let elements = self.head.elements(&bytes, &self.symbols).map_err(ImportError::file(&self.path))?;
        let column = column_of(self.kind, self.is_time, &Value::from(elements));
        let what = || format!("it is not a column of {}s", self.kind.name());
        column.ok_or_else(|| ImportError::Content { path: self.path.clone(), what: what() })
    }
}

/// The symbols that enumerated columns refer to: in a file above the table's folder.
struct Domains {
    folder: PathBuf,
    cached: Vec<(String, Arc<Symbols>)>,
}

impl Domains {
    fn symbols(&mut self, head: &Head) -> Result<Arc<Symbols>, ImportError> {
        let Content::Enumerated(name) = &head.content else { return Ok(Arc::default()) };
        let name = name.text().into_owned();
        if let Some((_, symbols)) = self.cached.iter().find(|(cached, _)| *cached == name) {
            return Ok(symbols.clone());
        }
        let symbols = Arc::new(self.read(&name)?);
        self.cached.push((name, symbols.clone()));
        Ok(symbols)
    }

    fn read(&self, name: &str) -> Result<Symbols, ImportError> {
        let is_plain = !name.contains(['/', '\\']) && name != "..";
        let above = self.folder.ancestors().skip(1).take(2).map(|folder| folder.join(name));
        match above.into_iter().find(|path| is_plain && path.is_file()) {
            Some(path) => {
                let bytes = fs::read(&path).map_err(ImportError::open(&path))?;
                flat::read_symbols(&bytes).map_err(ImportError::file(&path))
            }
            None => {
                let what = format!("its symbols are in a file {name:?}, which is in no folder above it");
                Err(ImportError::Content { path: self.folder.clone(), what })
            }
        }
    }
}
