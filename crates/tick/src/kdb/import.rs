//! Tables in kdb+'s files, as the messages of a stream: logs of tickerplants and splayed tables, in chunks of bounded size.
//!
//! [`discover`] finds the tables in the files, with their schemas; [`Source::open`] reads one of them.
//! The schema comes from the data: `time` is the message's time, `sym` its symbol, all other columns are fields. Times of day
//! count from midnight UTC of the date in the folder's or file's name or in the options.

mod error;
mod format;
mod log;
mod source;
mod splayed;

pub use error::ImportError;
pub use format::Format;
pub use source::{ImportOptions, Partition, Source};

use crate::cell::Cells;
use crate::column::{Column, Texts};
use crate::kind::Kind;
use crate::table::NO_SYMBOL;
use source::ColumnChunks;
use std::path::{Path, PathBuf};
use tapedb_codec::dynamic::Layouts;
use tapedb_schema::Timestamp;

/// Longest name of a symbol, in bytes, as messages have them.
const SYMBOL_BYTES_MAX: usize = 255;

/// Finds tables; each with its partitions in the order of the paths, dates in order.
///
/// # Errors
/// [`ImportError`]: for files that cannot be read, are in an unsupported encoding, or lack `time` or `sym`.
pub fn discover<P: AsRef<Path>>(
    format: Format,
    paths: &[P],
    options: &ImportOptions,
) -> Result<Vec<Source>, ImportError> {
    let mut found = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let before = found.len();
        match format {
            Format::Log => log::discover(path, options, &mut found)?,
            Format::Splayed | Format::Hdb => splayed::discover(format, path, options, &mut found)?,
        }
        // A log without records is valid.
        let may_be_empty = format == Format::Log && path.is_file();
        if found.len() == before && options.only.is_empty() && !may_be_empty {
            return Err(ImportError::nothing(path, format));
        }
    }
    merged(found)
}

/// Puts the partitions of each table together.
fn merged(found: Vec<Source>) -> Result<Vec<Source>, ImportError> {
    let mut all: Vec<Source> = Vec::new();
    for source in found {
        match all.iter_mut().find(|other| other.table.name() == source.table.name()) {
            None => all.push(source),
            Some(other) => other.absorb(source)?,
        }
    }
    Ok(all)
}

impl Source {
    /// Opens one of its partitions, for a stream of these layouts.
    ///
    /// # Errors
    /// [`ImportError::Open`] and what is wrong with the files.
    pub fn open(
        &self,
        partition: usize,
        layouts: &Layouts,
        options: &ImportOptions,
    ) -> Result<Reader, ImportError> {
        let partition = &self.partitions[partition];
        let chunks: Box<dyn ColumnChunks> = if partition.files.len() == 1 {
            Box::new(log::LogReader::open(&partition.path, &self.table)?)
        } else {
            Box::new(splayed::SplayedReader::open(partition, &self.table)?)
        };
        let midnight = match options.date.or(partition.date) {
            Some(date) => Some(date.midnight().0),
            None if matches!(self.table.time_kind(), Kind::Timestamp | Kind::Datetime) => Some(0),
            None => None,
        };
        let midnight = midnight.ok_or_else(|| ImportError::NoDate { path: partition.path.clone() })?;
        let cells = Cells::of(&self.table, layouts);
        Ok(Reader { chunks, cells, kind: self.table.time_kind(), midnight, path: partition.path.clone() })
    }
}

/// The rows of a partition, as messages.
#[derive(Debug)]
pub struct Reader {
    chunks: Box<dyn ColumnChunks>,
    cells: Cells,
    kind: Kind,
    midnight: i64,
    path: PathBuf,
}

/// Some rows of a partition, in the order in which they are given: that of the files, but by time within a chunk.
#[derive(Debug)]
pub struct RowChunk {
    times: Vec<i64>,
    symbols: Texts,
    fields: Vec<Column>,
    /// The rows in the order in which they are given.
    order: Vec<u32>,
}

impl Reader {
    /// The number of the messages' record type in the stream.
    pub fn type_id(&self) -> u16 {
        self.cells.type_id
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.chunks.bytes_read()
    }

    /// Records of a log that were skipped because they are no updates.
    pub fn skipped(&self) -> u64 {
        self.chunks.skipped()
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// [`ImportError::Damaged`] where a log stops; [`ImportError`] for files that are not what they were.
    pub fn next_chunk(&mut self) -> Result<Option<RowChunk>, ImportError> {
        let Some(mut columns) = self.chunks.next()? else { return Ok(None) };
        let fields = columns.split_off(2.min(columns.len()));
        let mut columns = columns.into_iter();
        let (Some(Column::Long(times)), Some(Column::Text(symbols))) = (columns.next(), columns.next())
        else {
            return Err(self.refused("time or sym is missing".into()));
        };
        self.cells.check(&fields, times.len()).map_err(|error| self.refused(error.to_string()))?;
        if symbols.len() != times.len() {
            return Err(self.refused("time and sym have different numbers of rows".into()));
        }
        let mut order: Vec<u32> = (0..times.len() as u32).collect();
        if !times.is_sorted() {
            order.sort_by_key(|row| times[*row as usize]);
        }
        Ok(Some(RowChunk { times, symbols, fields, order }))
    }

    /// One row of a chunk, by its index in the order: its body goes into `body`.
    ///
    /// # Errors
    /// Why it is no valid message: it has no time, or texts that are not UTF-8.
    pub fn row<'a>(
        &self,
        chunk: &'a RowChunk,
        index: usize,
        body: &mut Vec<u8>,
    ) -> Result<(Timestamp, &'a str), String> {
        let row = chunk.order[index] as usize;
        let time = match chunk.times[row] {
            i64::MIN => return Err(format!("row {row} has no time")),
            time => self.kind.nanos_of_time(time, self.midnight),
        };
        let symbol = match str::from_utf8(chunk.symbols.get(row)) {
            Ok("") => NO_SYMBOL,
            Ok(symbol) if symbol.len() <= SYMBOL_BYTES_MAX => symbol,
            _ => {
                return Err(format!(
                    "row {row}: its sym is not UTF-8, or longer than {SYMBOL_BYTES_MAX} bytes"
                ));
            }
        };
        body.clear();
        self.cells.encode(&chunk.fields, row, body).map_err(|error| error.to_string())?;
        Ok((Timestamp(time), symbol))
    }

    fn refused(&self, what: String) -> ImportError {
        ImportError::Content { path: self.path.clone(), what }
    }
}

impl RowChunk {
    /// Rows.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::source::date_of_name;
    use super::*;
    use crate::gather::Gather;
    use crate::kdb::convert::table_of;
    use std::fs;
    use tapedb_kdb_ipc::file::{column, flat, log as log_file};
    use tapedb_kdb_ipc::{Attribute, Elements, Symbols, Type, Value, Vector};

    /// A table with a column of every type, two rows in order of time, the second of nulls.
    fn every_type(time: Type) -> (Vec<String>, Vec<Value>) {
        let names = ["time", "sym"]
            .map(String::from)
            .into_iter()
            .chain(Type::ALL.map(|ty| format!("c{}", ty.name())));
        let mut columns = vec![two(time, 1), Symbols::from_iter(["A", ""]).into()];
        columns.extend(Type::ALL.map(|ty| two(ty, 3)));
        (names.collect(), columns)
    }

    /// Two elements of a type: of times one after the other, else a value and its null.
    fn two(ty: Type, first: i32) -> Value {
        let long = i64::from(first);
        match ty {
            Type::Timespan if first == 1 => Elements::Timespan(vec![long, 2]).into(),
            Type::Timestamp if first == 1 => Elements::Timestamp(vec![long, 2]).into(),
            Type::Time if first == 1 => Elements::Time(vec![first, 2]).into(),
            Type::Datetime if first == 1 => Elements::Datetime(vec![1.0, 2.5]).into(),
            Type::Long => vec![long, i64::MIN].into(),
            Type::Float => Elements::Float(vec![0.5, f64::NAN]).into(),
            Type::Date => Elements::Date(vec![first, i32::MIN]).into(),
            Type::Symbol => Symbols::from_iter(["x", ""]).into(),
            ty => {
                let mut elements = Elements::new(ty);
                (0..2).for_each(|_| elements.push(ty.null()).expect("an element of its type"));
                elements.into()
            }
        }
    }

    /// All rows of all partitions of the one table in there, as kdb+ has them.
    fn read(format: Format, path: &Path, options: &ImportOptions) -> String {
        let sources = discover(format, &[path], options).expect("tables");
        assert_eq!(sources.len(), 1);
        let table = &sources[0].table;
        let layouts = Layouts::new(table.schema()).expect("layouts");
        let mut gather = Gather::new(table, &layouts);
        let (mut body, mut midnight) = (Vec::new(), 0);
        for partition in 0..sources[0].partitions.len() {
            let mut reader = sources[0].open(partition, &layouts, options).expect("a reader");
            midnight = reader.midnight;
            while let Some(chunk) = reader.next_chunk().expect("rows") {
                for index in 0..chunk.len() {
                    let (time, symbol) = reader.row(&chunk, index, &mut body).expect("a row");
                    layouts.check(reader.type_id(), &body).expect("a canonical body");
                    gather.push_body(time.0, symbol, &body);
                }
            }
        }
        table_of(table.columns(), &gather.take(midnight)).to_string()
    }

    fn shown(names: &[String], columns: &[Value]) -> String {
        let table = tapedb_kdb_ipc::Table::new(names.iter().collect(), columns.to_vec()).expect("a table");
        Value::from(table).to_string()
    }

    #[test]
    fn a_log_comes_back_with_all_its_types() {
        let folder = tempfile::tempdir().expect("a folder");
        for time in [Type::Timespan, Type::Timestamp, Type::Time, Type::Datetime] {
            let (names, columns) = every_type(time);
            let rows = tapedb_kdb_ipc::Table::new(names.iter().collect(), columns.clone()).expect("a table");
            let mut bytes = log_file::LOG_HEADER.to_vec();
            let update = |rows| Value::list(vec![Value::symbol("upd"), Value::symbol("t"), rows]);
            log_file::write_record(&update(rows.into()), &mut bytes);
            log_file::write_record(&Value::list(vec![Value::symbol(".u.end"), 1.into()]), &mut bytes);
            let path = folder.path().join("sym2022.06.16");
            fs::write(&path, &bytes).expect("a log");
            assert_eq!(read(Format::Log, folder.path(), &ImportOptions::default()), shown(&names, &columns));
        }
    }

    #[test]
    fn names_of_a_log_without_names_come_from_a_schema() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let row = vec![tapedb_kdb_ipc::Atom::Timespan(5).into(), Value::symbol("A"), 7.into()];
        let mut bytes = log_file::LOG_HEADER.to_vec();
        let update = Value::list(vec![Value::symbol("upd"), Value::symbol("t"), Value::list(row)]);
        log_file::write_record(&update, &mut bytes);
        fs::write(&path, &bytes).expect("a log");
        let found = discover(Format::Log, &[&path], &ImportOptions::default()).expect("tables");
        assert!(found[0].has_no_names);
        let layouts = Layouts::new(found[0].table.schema()).expect("layouts");
        let error = found[0].open(0, &layouts, &ImportOptions::default()).unwrap_err();
        assert!(matches!(error, ImportError::NoDate { .. }), "{error}");
        let date = Some("2022.06.16".parse().expect("a date"));
        let expected = "+`time`sym`c2!(,0D00:00:00.000000005;,`A;,7)";
        assert_eq!(read(Format::Log, &path, &ImportOptions { date, ..Default::default() }), expected);
        let schema = crate::tables("t:([]time:`timespan$();sym:`symbol$();size:`long$())").expect("a table");
        let options = ImportOptions { date, schema, only: vec!["t".into()] };
        assert_eq!(read(Format::Log, &path, &options), expected.replace("c2", "size"));
    }

    #[test]
    fn a_damaged_log_says_where_it_stops() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log20220616");
        let mut bytes = log_file::LOG_HEADER.to_vec();
        let columns = Value::list(vec![two(Type::Timespan, 1), Symbols::from_iter(["A", "B"]).into()]);
        let update = Value::list(vec![Value::symbol("upd"), Value::symbol("t"), columns]);
        log_file::write_record(&update, &mut bytes);
        let end = bytes.len();
        bytes.extend([0; 100]);
        fs::write(&path, &bytes).expect("a log");
        let found = discover(Format::Log, &[&path], &ImportOptions::default()).expect("tables");
        let layouts = Layouts::new(found[0].table.schema()).expect("layouts");
        let mut reader = found[0].open(0, &layouts, &ImportOptions::default()).expect("a reader");
        assert_eq!(reader.next_chunk().expect("rows").map(|chunk| chunk.len()), Some(2));
        let error = reader.next_chunk().unwrap_err().to_string();
        assert!(error.contains(&format!("after 1 records, at byte {end}")), "{error}");
    }

    fn write_splayed(folder: &Path, names: &[String], columns: &[Value], symbols: &mut Vec<Vec<u8>>) {
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join(".d"), flat::write_symbols(names.iter().collect())).expect("names");
        for (name, column) in names.iter().zip(columns) {
            let bytes = match column.as_elements().expect("a vector") {
                Elements::Symbol(values) => {
                    let mut index = |value: &[u8]| match symbols.iter().position(|known| known == value) {
                        Some(index) => index as i64,
                        None => {
                            symbols.push(value.to_vec());
                            symbols.len() as i64 - 1
                        }
                    };
                    let indices: Vec<i64> = values.iter().map(&mut index).collect();
                    column::write_enumerated(&"sym".into(), Attribute::Parted, &indices)
                }
                elements => {
                    let vector = Vector { attribute: Attribute::None, elements: elements.clone() };
                    column::write_simple(&vector).expect("a simple column")
                }
            };
            fs::write(folder.join(name), bytes).expect("a column");
        }
    }

    #[test]
    fn a_database_comes_back_with_all_its_types() {
        let folder = tempfile::tempdir().expect("a folder");
        let (names, columns) = every_type(Type::Timespan);
        let mut symbols = Vec::new();
        write_splayed(&folder.path().join("2022.06.16/t"), &names, &columns, &mut symbols);
        fs::write(folder.path().join("sym"), flat::write_symbols(symbols.iter().collect())).expect("symbols");
        let options = ImportOptions::default();
        assert_eq!(read(Format::Hdb, folder.path(), &options), shown(&names, &columns));
        assert_eq!(
            read(Format::Splayed, &folder.path().join("2022.06.16"), &options),
            shown(&names, &columns)
        );
        assert_eq!(
            read(Format::Splayed, &folder.path().join("2022.06.16/t"), &options),
            shown(&names, &columns)
        );

        write_splayed(&folder.path().join("2022.06.17/t"), &names, &columns, &mut symbols);
        let found = discover(Format::Hdb, &[folder.path()], &options).expect("tables");
        assert_eq!((found.len(), found[0].partitions.len()), (1, 2));
        assert_eq!(found[0].partitions[1].date.map(|date| date.to_string()).as_deref(), Some("2022-06-17"));
    }

    #[test]
    fn rows_that_are_parted_by_symbol_come_in_order_of_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = ["sym", "time"].map(String::from);
        let columns = [Symbols::from_iter(["A", "A", "B"]).into(), Elements::Timespan(vec![1, 9, 5]).into()];
        let mut symbols = Vec::new();
        write_splayed(&folder.path().join("2022.06.16/t"), &names, &columns, &mut symbols);
        fs::write(folder.path().join("sym"), flat::write_symbols(symbols.iter().collect())).expect("symbols");
        let shown = read(Format::Hdb, folder.path(), &ImportOptions::default());
        assert!(shown.ends_with("`A`B`A)"), "{shown}");
    }

    #[test]
    fn what_is_not_read_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let table = folder.path().join("2022.06.16/t");
        let names = ["time", "sym"].map(String::from);
        let columns = [Elements::Timespan(vec![1]).into(), Symbols::from_iter(["A"]).into()];
        write_splayed(&table, &names, &columns, &mut Vec::new());
        let refused = |options: &ImportOptions| {
            let found = discover(Format::Hdb, &[folder.path()], options);
            found
                .and_then(|found| {
                    let layouts = Layouts::new(found[0].table.schema()).expect("layouts");
                    found[0].open(0, &layouts, options).map(|_| ())
                })
                .unwrap_err()
                .to_string()
        };
        let options = ImportOptions::default();
        assert!(refused(&options).contains("its symbols are in a file \"sym\""), "{}", refused(&options));
        fs::write(table.join("sym"), b"kxzipped").expect("a column");
        assert!(refused(&options).contains("a compressed file"), "{}", refused(&options));
        fs::write(table.join(".d"), flat::write_symbols(["time", "../x"].iter().collect())).expect("names");
        assert!(refused(&options).contains("not the name of a file"), "{}", refused(&options));
        fs::write(table.join(".d"), flat::write_symbols(["time"].iter().collect())).expect("names");
        assert!(refused(&options).contains("no column sym"), "{}", refused(&options));
        fs::write(folder.path().join("par.txt"), b"/a\n").expect("a file");
        assert!(refused(&options).contains("par.txt"), "{}", refused(&options));
    }

    #[test]
    fn names_tell_dates() {
        for name in ["quote20220616", "sym2022.06.16", "tp_2022-06-16", "log20220616.log", "2022.06.16"] {
            let date = date_of_name(Path::new(name)).map(|date| date.to_string());
            assert_eq!(date.as_deref(), Some("2022-06-16"), "{name}");
        }
        for name in ["quote", "quote20221316", "x1234567", "é0220616"] {
            assert_eq!(date_of_name(Path::new(name)), None, "{name}");
        }
    }
}
