//! The log that a plant writes beside its streams in kdb+'s format, so that an existing RDB can replay it.
//!
//! Always true: for each table, the file has the rows from the sequence numbers in the file beside it (`….from`) on, without a
//! gap; so rows lost in a crash are written again from the streams. The file is whole up to its last record before any
//! subscriber receives the count.

use crate::date::Date;
use crate::error::{TickError, asked};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tapedb_kdb_ipc::file::log::{LOG_HEADER, Reader};
use tapedb_kdb_ipc::{Limits, Value};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// One day's log, being written.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    name: String,
    path: PathBuf,
    file: File,
    records: u64,
    /// Bytes of whole records, with the header.
    bytes: u64,
}

impl Journal {
    /// Opens the log of a day, or begins it: `begins` has the first sequence number of each table. Returns it with the sequence
    /// number after the last row of each table.
    ///
    /// # Errors
    /// [`TickError::Asked`], with the system's error.
    pub fn open(
        folder: &Path,
        name: &str,
        date: Date,
        tables: &[&str],
        begins: &[u64],
    ) -> Result<(Self, Vec<u64>), TickError> {
        let path = path_of(folder, name, date);
        with_path(&path, Self::open_at(folder, name, &path, tables, begins))
    }

    fn open_at(
        folder: &Path,
        name: &str,
        path: &Path,
        tables: &[&str],
        begins: &[u64],
    ) -> io::Result<(Self, Vec<u64>)> {
        fs::create_dir_all(folder)?;
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let from = begins_of(path, tables);
        let found = match &from {
            Some(_) => whole_records(&mut file, tables)?,
            // It is not known which rows these are: all are written again.
            None => Found { bytes: 0, records: 0, rows: vec![0; tables.len()] },
        };
        let from = from.unwrap_or_else(|| begins.to_vec());
        file.set_len(found.bytes)?;
        file.seek(SeekFrom::Start(found.bytes))?;
        let (folder, name) = (folder.to_path_buf(), name.to_string());
        let mut journal =
            Self { folder, name, path: path.into(), file, records: found.records, bytes: found.bytes };
        if found.bytes < LOG_HEADER.len() as u64 {
            journal.begin(tables, &from)?;
        }
        Ok((journal, from.iter().zip(found.rows).map(|(from, rows)| from + rows).collect()))
    }

    fn begin(&mut self, tables: &[&str], from: &[u64]) -> io::Result<()> {
        let lines = tables.iter().zip(from).map(|(table, from)| format!("{from} {table}\n"));
        fs::write(beside(&self.path), lines.collect::<String>())?;
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&LOG_HEADER)?;
        (self.bytes, self.records) = (LOG_HEADER.len() as u64, 0);
        Ok(())
    }

    /// Adds a record: whole or not at all.
    ///
    /// # Errors
    /// [`TickError::Asked`], with the system's error.
    pub fn append(&mut self, record: &[u8]) -> Result<(), TickError> {
        if let Err(error) = self.file.write_all(record) {
            // A partial record would end the log for readers.
            let _ = self.file.set_len(self.bytes);
            let _ = self.file.seek(SeekFrom::Start(self.bytes));
            return with_path(&self.path, Err(error));
        }
        self.bytes += record.len() as u64;
        self.records += 1;
        Ok(())
    }

    /// Ends this day's log and begins that of another day.
    ///
    /// # Errors
    /// [`TickError::Asked`], with the system's error.
    pub fn roll(&mut self, date: Date, tables: &[&str], begins: &[u64]) -> Result<(), TickError> {
        (*self, _) = Self::open(&self.folder, &self.name, date, tables, begins)?;
        Ok(())
    }

    /// Records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Its absolute path, so that another process on this host finds it.
    pub fn path(&self) -> PathBuf {
        fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone())
    }
}

/// As tickerplants name their logs: `sym2026.11.21`.
fn path_of(folder: &Path, name: &str, date: Date) -> PathBuf {
    folder.join(format!("{name}{}", date.to_string().replace('-', ".")))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".from");
    name.into()
}

/// The first sequence number of each table, from the file beside a log; `None`: it does not have all tables.
fn begins_of(path: &Path, tables: &[&str]) -> Option<Vec<u64>> {
    let text = fs::read_to_string(beside(path)).ok()?;
    let of = |table: &&str| {
        let line = text.lines().filter_map(|line| line.split_once(' ')).find(|(_, name)| name == table);
        line?.0.parse().ok()
    };
    tables.iter().map(of).collect()
}

struct Found {
    bytes: u64,
    records: u64,
    rows: Vec<u64>,
}

/// The records of a log up to its end or its first damage.
fn whole_records(file: &mut File, tables: &[&str]) -> io::Result<Found> {
    let mut reader = Reader::new(Limits::default());
    let mut rows = vec![0; tables.len()];
    let mut is_at_end = false;
    file.seek(SeekFrom::Start(0))?;
    loop {
        match reader.next_record() {
            Ok(Some(record)) => match rows_of(&record.value, tables) {
                Some((table, count)) => rows[table] += count,
                None => return Ok(Found { bytes: record.offset, records: reader.records() - 1, rows }),
            },
            Ok(None) if !is_at_end => {
                let mut bytes = Vec::new();
                file.take(READ_BYTES as u64).read_to_end(&mut bytes)?;
                is_at_end = bytes.len() < READ_BYTES;
                reader.push(&bytes);
            }
            Ok(None) if matches!(reader.finish(), Ok(true)) => {}
            Ok(None) | Err(_) => {
                return Ok(Found { bytes: reader.offset(), records: reader.records(), rows });
            }
        }
    }
}

/// The table of a record, and its number of rows.
fn rows_of(record: &Value, tables: &[&str]) -> Option<(usize, u64)> {
    let name = record.item(1)?;
    let table = tables.iter().position(|table| name.as_name() == Some(table.as_bytes()))?;
    Some((table, record.item(2)?.item(0)?.len()? as u64))
}

fn with_path<T>(path: &Path, result: io::Result<T>) -> Result<T, TickError> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => asked(format!("the kdb+ log {}: {error}; check the disk", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_kdb_ipc::file::log::write_record;

    fn record(table: &str, rows: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let columns = Value::list(vec![(0..rows).collect::<Vec<i64>>().into()]);
        write_record(&Value::list(vec![Value::symbol("upd"), Value::symbol(table), columns]), &mut bytes);
        bytes
    }

    fn open(folder: &Path) -> (Journal, Vec<u64>) {
        Journal::open(folder, "tp", Date(20_778), &["quote", "trade"], &[100, 200]).expect("a journal")
    }

    #[test]
    fn rows_that_were_cut_off_are_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut journal, nexts) = open(folder.path());
        assert_eq!((nexts, journal.records()), (vec![100, 200], 0));
        journal.append(&record("trade", 5)).expect("appended");
        journal.append(&record("quote", 3)).expect("appended");
        journal.append(&record("trade", 2)).expect("appended");
        let path = journal.path();
        assert!(path.ends_with("tp2026.11.21"), "{}", path.display());
        drop(journal);
        let whole = fs::read(&path).expect("a log");
        for cut in [0, 3, 8, 9, whole.len() - 1, whole.len()] {
            fs::write(&path, &whole[..cut]).expect("a log");
            let (journal, nexts) = open(folder.path());
            let expected = match cut {
                0..=9 => (vec![100, 200], 0),
                cut if cut == whole.len() => (vec![103, 207], 3),
                _ => (vec![103, 205], 2),
            };
            assert_eq!((nexts, journal.records()), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_log_without_its_from_file_is_begun_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut journal, _) = open(folder.path());
        journal.append(&record("trade", 5)).expect("appended");
        fs::remove_file(beside(&journal.path)).expect("a file");
        let (mut journal, nexts) = open(folder.path());
        assert_eq!((nexts, journal.records()), (vec![100, 200], 0));
        journal.roll(Date(20_779), &["quote", "trade"], &[101, 205]).expect("a journal");
        assert!(journal.path().ends_with("tp2026.11.22"));
        assert_eq!(fs::read(journal.path()).expect("a log"), LOG_HEADER);
    }
}
